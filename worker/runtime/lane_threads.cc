#include "worker/runtime/lane_threads.h"

#include <utility>

#include "lib/base/check.h"

namespace muster::worker {

LaneThreads::~LaneThreads() {
  ends_ = true;
  for (size_t t = 0; t < threads_.size(); ++t) {
    MUSTER_CHECK(HasEnded(t), "lanes end before their threads do");
    GiveTo(t, threads_[t]->called);
    AwaitTurn(kOwner, owner_called_);
    threads_[t]->thread.join();
  }
}

size_t LaneThreads::Start(std::function<void()> work) {
  size_t thread = 0;
  while (thread < threads_.size() && !HasEnded(thread)) ++thread;
  if (thread == threads_.size()) {
    threads_.push_back(std::make_unique<Hand>());
    Hand& added = *threads_.back();
    added.thread = std::thread([this, thread, &added] { Live(thread, added); });
  }
  threads_[thread]->work = std::move(work);
  return thread;
}

void LaneThreads::Run(size_t thread) {
  GiveTo(thread, threads_[thread]->called);
  AwaitTurn(kOwner, owner_called_);
  if (const std::exception_ptr thrown = std::exchange(threads_[thread]->thrown, nullptr))
    std::rethrow_exception(thrown);
}

void LaneThreads::Rest(size_t thread) {
  Hand& self = *threads_[thread];
  GiveTo(kOwner, owner_called_);
  AwaitTurn(thread, self.called);
}

// Without the baton it touches nothing but `self`: the owner may be adding to threads_.
void LaneThreads::Live(size_t thread, Hand& self) {
  AwaitTurn(thread, self.called);
  for (begin_(); !ends_; AwaitTurn(thread, self.called)) {
    try {
      self.work();
    } catch (...) {
      self.thrown = std::current_exception();
    }
    self.work = nullptr;
    GiveTo(kOwner, owner_called_);
  }
  GiveTo(kOwner, owner_called_);
}

void LaneThreads::GiveTo(size_t other, CondVar& called) {
  const MutexLock lock(mutex_);
  baton_ = other;
  called.NotifyOne();
}

void LaneThreads::AwaitTurn(size_t self, CondVar& called) {
  const MutexLock lock(mutex_);
  while (baton_ != self) called.Wait(mutex_);
}

}  // namespace muster::worker
