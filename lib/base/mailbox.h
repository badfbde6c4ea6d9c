// A queue between threads: many may Post, one takes. Post never blocks and never calls out.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "lib/base/clock.h"

namespace muster {

template <class T>
class Mailbox {
 public:
  // False once closed; the item is dropped then.
  bool Post(T item) {
    {
      std::lock_guard lock(mutex_);
      if (closed_) return false;
      items_.push_back(std::move(item));
    }
    ready_.notify_one();
    return true;
  }
  // Waits until an item is there, the deadline passes or the box is closed and empty: nothing in
  // the last two cases.
  std::optional<T> TakeUntil(Time deadline) {
    std::unique_lock lock(mutex_);
    ready_.wait_until(lock, deadline, [&] { return !items_.empty() || closed_; });
    return PopLocked();
  }
  std::optional<T> TryTake() {
    std::lock_guard lock(mutex_);
    return PopLocked();
  }
  void Close() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    ready_.notify_all();
  }
  bool closed() const {
    std::lock_guard lock(mutex_);
    return closed_;
  }
  size_t size() const {
    std::lock_guard lock(mutex_);
    return items_.size();
  }

 private:
  std::optional<T> PopLocked() {
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    return item;
  }

  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<T> items_;  // guarded by mutex_
  bool closed_ = false;  // guarded by mutex_
};

}  // namespace muster
