// The exchange thread of a follower: takes events from one mailbox, feeds the state machine
// (lib/member/state/follower.h) and carries out what it says. Before there is a machine, it asks
// for the job, waits until a worker has joined, and has the train thread make the task and find out
// the numeric environment.
#pragma once

#include <memory>

#include "lib/member/runtime/lone_exchange.h"
#include "lib/member/state/follower.h"

namespace muster {

class FollowerExchange final : public LoneExchange {
 public:
  FollowerExchange(ExchangeOptions options, const ExchangeParts& parts);
  ~FollowerExchange() override;

 private:
  bool is_member() const override { return follower_ != nullptr; }
  void Feed(const CoordinatorUp& up) override { Carry(up); }
  void Feed(const CoordinatorSays& says) override { Carry(says); }
  void Learn(const JobIs& job) override;
  void HandleOwn(Event event) override;
  void NoteWhatWeDo() override;
  void End(const Quit&) override;

  void Handle(Prepared event);
  void Handle(StateMeasured event);
  void Handle(TrainFailed event);
  // The rest is of other members: nobody posts it here.
  template <class E>
  void Handle(E) {}

  void Carry(const FollowerInput& input);
  void Do(const TellCoordinator& action);
  void Do(const StartMeasure& action);
  void Do(const GiveUpMeasure& action);
  void Do(const Quit& action);

  FollowerMetrics followed_;
  bool preparing_ = false;
  std::unique_ptr<Follower> follower_;
};

}  // namespace muster
