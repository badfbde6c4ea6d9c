#include "lib/http/stream_queue.h"

#include <utility>

namespace muster::http {

StreamQueue::StreamQueue(size_t max_bytes, Counter* dropped, std::function<void()> wake)
    : max_bytes_(max_bytes), dropped_(dropped), wake_(std::move(wake)) {}

bool StreamQueue::Push(std::string bytes) {
  bool wake = false;
  bool taken = true;
  {
    MutexLock lock(mutex_);
    if (closed_) return false;
    if (bytes_.size() + bytes.size() > max_bytes_) {
      closed_ = broken_ = true;
      bytes_.clear();
      taken = false;
      if (dropped_ != nullptr) dropped_->Add();
    } else {
      bytes_ += bytes;
    }
    wake = !std::exchange(woken_, true);
  }
  if (wake) wake_();
  return taken;
}

void StreamQueue::Close() {
  {
    MutexLock lock(mutex_);
    if (std::exchange(closed_, true)) return;
    if (std::exchange(woken_, true)) return;
  }
  wake_();
}

void StreamQueue::Break() {
  MutexLock lock(mutex_);
  closed_ = broken_ = true;
  bytes_.clear();
}

bool StreamQueue::closed() const {
  MutexLock lock(mutex_);
  return closed_;
}

StreamQueue::News StreamQueue::Take() {
  MutexLock lock(mutex_);
  woken_ = false;
  return {std::exchange(bytes_, {}), closed_, broken_};
}

}  // namespace muster::http
