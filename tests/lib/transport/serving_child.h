// A child process that listens, to be killed.
#pragma once

#include <sys/types.h>

#include <string>

namespace muster {

inline constexpr char kServeFlag[] = "--serve";

// In the child: listens, echoes every frame, tells its address on standard output. Returns when
// standard input ends, and dies with its parent.
int ServeUntilKilled();

// In the parent: runs this program with kServeFlag. Killed and waited for at the latest by the
// destructor.
class ServingChild {
 public:
  ServingChild();
  ~ServingChild() { Kill(); }
  ServingChild(const ServingChild&) = delete;
  ServingChild& operator=(const ServingChild&) = delete;
  // Empty if it could not be started.
  const std::string& address() const { return address_; }
  void Kill();

 private:
  pid_t pid_ = -1;
  int input_ = -1;
  std::string address_;
};

}  // namespace muster
