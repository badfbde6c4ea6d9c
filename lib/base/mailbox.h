// A queue between threads: many may Post, one takes. Post never blocks and never calls out.
#pragma once

#include <deque>
#include <optional>
#include <utility>

#include "lib/base/clock.h"
#include "lib/base/mutex.h"

namespace muster {

template <class T>
class Mailbox {
 public:
  // False once closed; the item is dropped then.
  bool Post(T item) { return Add(std::move(item), /*behind=*/false); }
  // Taken only when nothing is left that was given to Post. In order among themselves.
  bool PostBehind(T item) { return Add(std::move(item), /*behind=*/true); }
  // Waits until an item is there, the deadline passes or the box is closed and empty: nothing in
  // the last two cases.
  std::optional<T> TakeUntil(Time deadline) {
    MutexLock lock(mutex_);
    while (items_.empty() && behind_.empty() && !closed_ && ready_.WaitUntil(mutex_, deadline)) {
    }
    return PopLocked();
  }
  std::optional<T> TryTake() {
    MutexLock lock(mutex_);
    return PopLocked();
  }
  void Close() {
    {
      MutexLock lock(mutex_);
      closed_ = true;
    }
    ready_.NotifyAll();
  }
  bool closed() const {
    MutexLock lock(mutex_);
    return closed_;
  }
  size_t size() const {
    MutexLock lock(mutex_);
    return items_.size() + behind_.size();
  }

 private:
  bool Add(T item, bool behind) {
    {
      MutexLock lock(mutex_);
      if (closed_) return false;
      (behind ? behind_ : items_).push_back(std::move(item));
    }
    ready_.NotifyOne();
    return true;
  }
  std::optional<T> PopLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::deque<T>& from = items_.empty() ? behind_ : items_;
    if (from.empty()) return std::nullopt;
    std::optional<T> item(std::move(from.front()));
    from.pop_front();
    return item;
  }

  mutable Mutex mutex_;
  CondVar ready_;
  std::deque<T> items_ ABSL_GUARDED_BY(mutex_);
  std::deque<T> behind_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace muster
