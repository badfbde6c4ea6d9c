#include "tests/sim/schedule.h"

#include <algorithm>
#include <utility>

namespace muster::sim {

int64_t Schedule::Random(int64_t low, int64_t high) {
  if (smooth_) return low;
  return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
}

void Schedule::At(int64_t delay, std::function<void()> run) {
  events_.push({now_ + delay, ++next_order_, std::move(run)});
}

bool Schedule::RunNext() {
  if (events_.empty()) return false;
  const Event event = events_.top();
  events_.pop();
  now_ = event.at;
  ++events_run_;
  event.run();
  return true;
}

void Runner::Later(int64_t delay, std::function<void()> run) {
  if (!life_) return;
  schedule_.At(delay, [&schedule = schedule_, life = std::weak_ptr(life_), run = std::move(run)] {
    RunOrWait(schedule, life, run);
  });
}

void Runner::RunOrWait(Schedule& schedule, const std::weak_ptr<Life>& weak,
                       const std::function<void()>& run) {
  const std::shared_ptr<Life> life = weak.lock();
  if (!life) return;
  if (schedule.now() >= life->stalled_until) return run();
  schedule.At(life->stalled_until - schedule.now(),
              [&schedule, weak, run] { RunOrWait(schedule, weak, run); });
}

void Runner::Stall(int64_t ms) {
  if (life_) life_->stalled_until = std::max(life_->stalled_until, schedule_.now() + ms);
}

void Runner::IfStalledIn(int64_t ms, std::function<void()> run) {
  schedule_.At(ms, [&schedule = schedule_, weak = std::weak_ptr(life_), run = std::move(run)] {
    const std::shared_ptr<Life> life = weak.lock();
    if (life && schedule.now() < life->stalled_until) run();
  });
}

void Runner::Continue() {
  if (life_) life_->stalled_until = std::min(life_->stalled_until, schedule_.now());
}

void OrderedQueue::Push(Schedule& schedule, Runner& to, int64_t delay, std::function<void()> run) {
  last_ = std::max(last_, schedule.now() + delay);
  waiting_->push_back(std::move(run));
  to.Later(last_ - schedule.now(), [waiting = waiting_] {
    const std::function<void()> next = std::move(waiting->front());
    waiting->pop_front();
    next();
  });
}

}  // namespace muster::sim
