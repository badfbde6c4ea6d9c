#include "lib/http/stream_queue.h"

#include <utility>

namespace muster::http {

StreamQueue::StreamQueue(StreamBudget budget, Counter* dropped, std::function<void()> wake)
    : budget_(std::move(budget)), dropped_(dropped), wake_(std::move(wake)) {}

StreamQueue::~StreamQueue() {
  MutexLock lock(mutex_);
  Weigh(0);
}

bool StreamQueue::Fits(size_t bytes) const {
  const size_t queued = bytes_.size() + bytes;
  if (queued > budget_.queue) return false;
  return queued + under_way_ <= kSmallAnswerBytes || *budget_.taken + bytes <= budget_.in_all;
}

void StreamQueue::Weigh(size_t bytes) {
  if (budget_.taken == nullptr) return;
  *budget_.taken += bytes - weight_;  // modulo 2^64, so it may be less as well
  weight_ = bytes;
}

bool StreamQueue::Push(std::string bytes) {
  bool wake = false;
  bool taken = true;
  {
    MutexLock lock(mutex_);
    if (closed_) return false;
    if (!Fits(bytes.size())) {
      closed_ = broken_ = true;
      std::string().swap(bytes_);
      taken = false;
      if (dropped_ != nullptr) dropped_->Add();
    } else {
      bytes_ += bytes;
    }
    Weigh(bytes_.size() + under_way_);
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
  std::string().swap(bytes_);
  under_way_ = 0;
  Weigh(0);
}

bool StreamQueue::closed() const {
  MutexLock lock(mutex_);
  return closed_;
}

StreamQueue::News StreamQueue::Take() {
  MutexLock lock(mutex_);
  woken_ = false;
  under_way_ = bytes_.size();
  Weigh(under_way_);
  return {std::exchange(bytes_, {}), closed_, broken_};
}

}  // namespace muster::http
