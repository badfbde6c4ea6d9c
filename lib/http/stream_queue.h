// The events between whoever sends them (any thread) and the connection that writes them.
#pragma once

#include <functional>
#include <mutex>
#include <string>

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

  mutable std::mutex mutex_;
  std::string bytes_;    // guarded by mutex_
  bool closed_ = false;  // guarded by mutex_
  bool broken_ = false;  // guarded by mutex_; implies closed_
  bool woken_ = false;   // guarded by mutex_
};

}  // namespace muster::http
