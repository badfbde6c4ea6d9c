// The events between whoever sends them (any thread) and the connection that writes them.
#pragma once

#include <functional>
#include <string>

#include "lib/base/mutex.h"
#include "lib/metrics/metrics.h"

namespace muster::http {

// Bounded in bytes. All methods thread-safe; `wake` is called without the lock held whenever there
// is news for the connection and the last news has been taken.
class StreamQueue {
 public:
  // `dropped` may be null; it is touched only before the queue is closed.
  StreamQueue(size_t max_bytes, Counter* dropped, std::function<void()> wake);

  // False once closed, and when `bytes` do not fit: then the queue is emptied and closed for good,
  // `broken`.
  bool Push(std::string bytes);
  // What is queued will still be taken.
  void Close();
  // What is queued is lost.
  void Break();
  bool closed() const;

  struct News {
    std::string bytes;
    bool closed = false;
    bool broken = false;
  };
  News Take();

 private:
  const size_t max_bytes_;
  Counter* const dropped_;
  const std::function<void()> wake_;

  mutable Mutex mutex_;
  std::string bytes_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;  // implies closed_
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace muster::http
