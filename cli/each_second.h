// Looks at something once a second, on a thread of its own, because the look may take long: at a
// file of another machine, or by asking a coordinator.
#pragma once

#include <chrono>
#include <functional>
#include <thread>
#include <utility>

#include "lib/base/stop_signal.h"

namespace muster::cli {

class EachSecond {
 public:
  // The first look is at once.
  explicit EachSecond(std::function<void()> look)
      : look_(std::move(look)), looking_([this] { Run(); }) {}
  ~EachSecond() {  // waits for the look under way
    stop_.Stop();
    looking_.join();
  }
  EachSecond(const EachSecond&) = delete;
  EachSecond& operator=(const EachSecond&) = delete;

 private:
  void Run() {
    do look_();
    while (!stop_.WaitFor(std::chrono::seconds(1)));
  }

  const std::function<void()> look_;
  StopSignal stop_;
  std::thread looking_;
};

}  // namespace muster::cli
