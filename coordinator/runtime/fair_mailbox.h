// A queue between threads, from which one thread takes by turns: whoever posts under one key waits
// for at most one item of each other key. So a job whose members flood the coordinator delays
// itself. Items of one key come out in the order they were posted in.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "lib/base/mutex.h"
#include "lib/base/time.h"

namespace muster::coordinator {

// All methods thread-safe. Bounded by those who post: the driver counts the frames of each session.
template <class T>
class FairMailbox {
 public:
  // Never blocks. False once closed; the item is dropped then.
  bool Post(const std::string& key, T item) {
    {
      MutexLock lock(mutex_);
      if (closed_) return false;
      items_[key].push_back(std::move(item));
      ++size_;
    }
    ready_.NotifyOne();
    return true;
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
  std::optional<T> TakeLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (size_ == 0) return std::nullopt;
    auto turn = items_.upper_bound(last_);
    if (turn == items_.end()) turn = items_.begin();
    last_ = turn->first;
    std::optional<T> item(std::move(turn->second.front()));
    turn->second.pop_front();
    if (turn->second.empty()) items_.erase(turn);
    --size_;
    return item;
  }

  mutable Mutex mutex_;
  CondVar ready_;
  // No key without items.
  std::map<std::string, std::deque<T>> items_ ABSL_GUARDED_BY(mutex_);
  std::string last_ ABSL_GUARDED_BY(mutex_);  // whose turn it was
  size_t size_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace muster::coordinator
