// A queue between threads, from which one thread takes by turns: whoever posts under one key waits
// for at most one item of each other key. So a job whose members flood the coordinator delays
// itself. Items of one key come out in the order they were posted in.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "lib/base/mutex.h"
#include "lib/base/time.h"

namespace muster::coordinator {

// What may wait under one key.
struct TurnLimits {
  size_t items = SIZE_MAX;
  int64_t bytes = INT64_MAX;
};

// All methods thread-safe.
template <class T>
class FairMailbox {
 public:
  explicit FairMailbox(TurnLimits limits = {}) : limits_(limits) {}

  // For what comes from ourselves and must not be lost. Never blocks. False once closed; the item
  // is dropped then.
  bool Post(const std::string& key, T item) { return Add(key, std::move(item), 0, {}); }
  // For what comes from outside. False also when it would be more than may wait under the key.
  bool Offer(const std::string& key, T item, int64_t bytes) {
    return Add(key, std::move(item), bytes, limits_);
  }
  // Likewise, where the key has limits of its own.
  bool Offer(const std::string& key, T item, int64_t bytes, const TurnLimits& limits) {
    return Add(key, std::move(item), bytes, limits);
  }
  // Waits until an item is there, the deadline passes or the box is closed and empty: nothing in
  // the last two cases.
  std::optional<T> TakeUntil(Time deadline) {
    MutexLock lock(mutex_);
    while (size_ == 0 && !closed_ && ready_.WaitUntil(mutex_, deadline)) {
    }
    return TakeLocked();
  }
  std::optional<T> TryTake() {
    MutexLock lock(mutex_);
    return TakeLocked();
  }
  void Close() {
    {
      MutexLock lock(mutex_);
      closed_ = true;
    }
    ready_.NotifyAll();
  }
  size_t size() const {
    MutexLock lock(mutex_);
    return size_;
  }

 private:
  struct Turn {
    std::deque<std::pair<T, int64_t>> items;  // with their bytes
    int64_t bytes = 0;
  };

  bool Add(const std::string& key, T item, int64_t bytes, const TurnLimits& limits) {
    {
      MutexLock lock(mutex_);
      if (closed_) return false;
      const auto [turn, is_new] = turns_.try_emplace(key);
      Turn& waits = turn->second;
      if (waits.items.size() >= limits.items || bytes > limits.bytes - waits.bytes) {
        if (is_new) turns_.erase(turn);
        return false;
      }
      waits.items.emplace_back(std::move(item), bytes);
      waits.bytes += bytes;
      ++size_;
    }
    ready_.NotifyOne();
    return true;
  }
  std::optional<T> TakeLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (size_ == 0) return std::nullopt;
    auto next = turns_.upper_bound(last_);
    if (next == turns_.end()) next = turns_.begin();
    last_ = next->first;
    Turn& turn = next->second;
    std::optional<T> item(std::move(turn.items.front().first));
    turn.bytes -= turn.items.front().second;
    turn.items.pop_front();
    if (turn.items.empty()) turns_.erase(next);
    --size_;
    return item;
  }

  const TurnLimits limits_;
  mutable Mutex mutex_;
  CondVar ready_;
  // By key; a turn without items is removed.
  std::map<std::string, Turn> turns_ ABSL_GUARDED_BY(mutex_);
  std::string last_ ABSL_GUARDED_BY(mutex_);  // whose turn it was
  size_t size_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace muster::coordinator
