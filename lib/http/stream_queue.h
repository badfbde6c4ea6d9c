// The events between whoever sends them (any thread) and the connection that writes them.
#pragma once

#include <functional>
#include <string>

#include "lib/base/byte_room.h"
#include "lib/base/mutex.h"
#include "lib/metrics/metrics.h"

namespace muster::http {

// What may wait for clients that read slowly.
struct StreamBudget {
  size_t queue = 0;   // bytes not taken, of one stream
  ByteCount taken{};  // by all streams; null: it has none
  size_t in_all = 0;  // of `taken`; a stream with little passes also beyond
};

// Bounded in bytes, alone and with all others; what was taken counts among those of all until the
// next is taken. All methods thread-safe; `wake` is called without the lock held whenever there
// is news for the connection and the last news has been taken.
class StreamQueue {
 public:
  // `dropped` may be null; it is touched only before the queue is closed.
  StreamQueue(StreamBudget budget, Counter* dropped, std::function<void()> wake);
  ~StreamQueue();

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
  bool Fits(size_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Weigh(size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const StreamBudget budget_;
  Counter* const dropped_;
  const std::function<void()> wake_;

  mutable Mutex mutex_;
  std::string bytes_ ABSL_GUARDED_BY(mutex_);
  size_t under_way_ ABSL_GUARDED_BY(mutex_) = 0;  // bytes that were taken last
  size_t weight_ ABSL_GUARDED_BY(mutex_) = 0;     // of this among those of all
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;  // implies closed_
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace muster::http
