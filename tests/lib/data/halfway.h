// A process of its own that does the work of a test up to a point, and goes on no more until it is
// killed.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <utility>

namespace muster {

class Halfway {
 public:
  // `work` calls what it is given at that point.
  explicit Halfway(const std::function<void(const std::function<void()>& stop)>& work) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    pid_ = fork();
    if (pid_ == 0) {
      work([&] {
        if (write(ends[1], "h", 1) != 1) _exit(2);
        while (true) pause();
      });
      _exit(1);
    }
    close(ends[1]);
    char half = 0;
    EXPECT_EQ(read(ends[0], &half, 1), 1);
    close(ends[0]);
  }
  ~Halfway() { Kill(); }
  Halfway(const Halfway&) = delete;
  Halfway& operator=(const Halfway&) = delete;

  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(std::exchange(pid_, -1), nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

}  // namespace muster
