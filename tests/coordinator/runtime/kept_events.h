// A watcher that keeps what it is given.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/runtime/job_events.h"
#include "lib/base/mailbox.h"
#include "tests/coordinator/runtime/scripted_member.h"

namespace muster::coordinator {

class KeptEvents {
 public:
  std::shared_ptr<JobWatcher> NewWatcher() { return std::make_shared<Watcher>(state_); }
  // It wants no more.
  void Close() { state_->closed = true; }

  // An event without a name: none came.
  JobEvent Next() {
    return state_->events.TakeUntil(RealClock().Now() + kPatience).value_or(JobEvent{});
  }
  // "name:id" of each that is there.
  std::vector<std::string> TakeAll() {
    std::vector<std::string> all;
    while (const auto event = state_->events.TryTake())
      all.push_back(event->event + ":" + event->id);
    return all;
  }
  // Whether it was told that no more will come.
  bool ended() const { return state_->ended.size() > 0; }
  bool AwaitEnd() { return state_->ended.TakeUntil(RealClock().Now() + kPatience).has_value(); }

 private:
  struct State {
    std::atomic<bool> closed{false};
    Mailbox<JobEvent> events;
    Mailbox<bool> ended;
  };
  class Watcher final : public JobWatcher {
   public:
    explicit Watcher(std::shared_ptr<State> state) : state_(std::move(state)) {}
    ~Watcher() override { state_->ended.Post(true); }
    bool OnEvent(const JobEvent& event) override {
      return !state_->closed && state_->events.Post(event);
    }
    bool closed() const override { return state_->closed; }

   private:
    const std::shared_ptr<State> state_;
  };

  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace muster::coordinator
