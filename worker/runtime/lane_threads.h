// Owns the threads of lanes that stop in the midst of their work: one for each that is under way at
// once, kept until this is destroyed. One thread runs at a time, this one's owner or one of them,
// and each hand-over is seen by the next (a baton): what lanes share with the owner needs no lock.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "lib/base/mutex.h"

namespace muster::worker {

class LaneThreads {
 public:
  // `begin` is called once on each of the threads, first.
  explicit LaneThreads(std::function<void()> begin) : begin_(std::move(begin)) {}
  // All work has ended.
  ~LaneThreads();
  LaneThreads(const LaneThreads&) = delete;
  LaneThreads& operator=(const LaneThreads&) = delete;

  // Gives `work` to a thread that has none; the number of that thread. The work begins at Run.
  size_t Start(std::function<void()> work);
  // The owner's thread: goes on with the work there until it rests or ends. What it throws is
  // thrown here, and has ended it.
  void Run(size_t thread);
  // On the thread of that number, in its work: lets the owner go on, until the next Run.
  void Rest(size_t thread);

  bool HasEnded(size_t thread) const { return !threads_[thread]->work; }
  size_t count() const { return threads_.size(); }

 private:
  struct Hand {
    std::thread thread;
    std::function<void()> work;  // empty: it has ended; of whoever has the baton
    std::exception_ptr thrown;   // likewise
    CondVar called;
  };
  static constexpr size_t kOwner = static_cast<size_t>(-1);

  void Live(size_t thread, Hand& self);
  void GiveTo(size_t other, CondVar& called);
  void AwaitTurn(size_t self, CondVar& called);

  const std::function<void()> begin_;
  std::vector<std::unique_ptr<Hand>> threads_;  // grows while the owner has the baton
  bool ends_ = false;                           // of whoever has the baton
  Mutex mutex_;
  CondVar owner_called_;
  size_t baton_ ABSL_GUARDED_BY(mutex_) = kOwner;
};

}  // namespace muster::worker
