// A real muster-coordinator as a child of a benchmark: started, measured from outside, killed and
// started again on the same addresses.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace muster::bench {

class CoordinatorProcess {
 public:
  // `program`: the binary. `dir` holds its store and its log.
  CoordinatorProcess(std::string program, std::string dir, int32_t slots);
  ~CoordinatorProcess();  // kills it
  CoordinatorProcess(const CoordinatorProcess&) = delete;
  CoordinatorProcess& operator=(const CoordinatorProcess&) = delete;

  // Returns once it listens. The first start takes any ports, later ones the same again.
  absl::Status Start();
  void Kill();

  const std::string& grpc() const { return grpc_; }
  std::string Url(const std::string& path) const;
  double CpuSeconds() const;  // user and system time of all its threads
  double RssBytes() const;
  int Threads() const;
  pid_t pid() const { return pid_; }

 private:
  const std::string program_;
  const std::string dir_;
  const int32_t slots_;  // for members
  std::string grpc_ = "127.0.0.1:0";
  std::string http_ = "127.0.0.1:0";
  pid_t pid_ = -1;
};

}  // namespace muster::bench
