// When a thread of a member last went on with its work. The thread itself says so; any thread asks.
#pragma once

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <utility>

#include "lib/base/mutex.h"
#include "lib/base/time.h"

namespace muster {

class ThreadProgress {
 public:
  explicit ThreadProgress(std::string name) : name_(std::move(name)) {}

  // It takes up work, or got a piece of it done.
  void GoesOn(Time now) { at_.store(now.time_since_epoch().count(), std::memory_order_relaxed); }
  // It has no work: an idle thread is no hung one.
  void Rests() { at_.store(kRests, std::memory_order_relaxed); }

  // How long it has stood still; nothing if it has no work.
  std::optional<Duration> Age(Time now) const {
    const Duration::rep at = at_.load(std::memory_order_relaxed);
    if (at == kRests) return std::nullopt;
    return std::max(Duration(), now.time_since_epoch() - Duration(at));  // it may go on meanwhile
  }
  const std::string& name() const { return name_; }

  // Whose code its work runs now, for people; empty: our own.
  void Runs(std::string what) {
    MutexLock lock(mutex_);
    runs_ = std::move(what);
  }
  std::string runs() const {
    MutexLock lock(mutex_);
    return runs_;
  }

 private:
  static constexpr Duration::rep kRests = -1;
  const std::string name_;
  std::atomic<Duration::rep> at_{kRests};
  mutable Mutex mutex_;
  std::string runs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster
