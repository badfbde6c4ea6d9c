// How long something that should end may last. Main thread.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "lib/base/time.h"

namespace muster::cli {

class Patience {
 public:
  // Calls once, after so long, while the object lives.
  using Timer = std::function<void(Duration delay, std::function<void()> call)>;

  explicit Patience(Timer timer) : timer_(std::move(timer)) {}
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;

  // It lasts from now on, unless it did before. `call`: when it has for `limit` without a break.
  void Lasts(Duration limit, std::function<void()> call) {
    if (std::exchange(lasts_, true)) return;
    timer_(limit, [this, begin = begins_, call = std::move(call)] {
      if (lasts_ && begin == begins_) call();
    });
  }

  void Ends() {
    if (std::exchange(lasts_, false)) ++begins_;
  }

  bool lasts() const { return lasts_; }

 private:
  const Timer timer_;
  bool lasts_ = false;
  int64_t begins_ = 0;
};

}  // namespace muster::cli
