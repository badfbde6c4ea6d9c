// The exchange thread of a follower: takes events from one mailbox, feeds the state machine
// (lib/member/state/follower.h) and carries out what it says. It has a session with the coordinator
// and with nobody else. Before there is a machine, it asks for the job, waits until a worker has
// joined, and has the train thread make the task and find out the numeric environment.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "lib/base/clock.h"
#include "lib/member/runtime/coordinator_link.h"
#include "lib/member/runtime/events.h"
#include "lib/member/runtime/exchange.h"
#include "lib/member/runtime/life_signs.h"
#include "lib/member/runtime/member_metrics.h"
#include "lib/member/state/follower.h"

namespace muster {

class FollowerExchange {
 public:
  FollowerExchange(ExchangeOptions options, ExchangeParts parts);
  ~FollowerExchange();
  FollowerExchange(const FollowerExchange&) = delete;
  FollowerExchange& operator=(const FollowerExchange&) = delete;

  // Runs until the job or the process ends, then closes the train thread's mailbox. Returns the
  // process's exit code.
  int Run();

 private:
  void Handle(FrameCame event);
  void Handle(SessionBroke event);
  void Handle(AddressesFound event);
  void Handle(Prepared event);
  void Handle(StateMeasured event);
  void Handle(TrainFailed event);
  void Handle(StopAsked event);
  // The rest is of members of views: nobody posts it here.
  template <class E>
  void Handle(E) {}
  void FromCoordinatorSide(FromCoordinator message);
  void LearnJob(JobIs job);
  void Introduce();
  void Tick();
  void NoteWhatWeDo();

  void Feed(const FollowerInput& input);
  void Do(const TellCoordinator& action);
  void Do(const StartMeasure& action);
  void Do(const GiveUpMeasure& action);
  void Do(const Quit& action);

  const ExchangeOptions options_;
  const ExchangeParts parts_;
  RealClock clock_;
  MemberMetrics metrics_;
  FollowerMetrics followed_;
  CoordinatorLink coordinator_;
  std::optional<JobIs> job_;
  bool preparing_ = false;
  std::unique_ptr<Follower> follower_;
  Time next_note_{};
  MovedTold moved_told_;
  std::optional<Quit> quit_;

  ThreadProgress progress_{"exchange"};
  LifeSigns life_signs_;
};

}  // namespace muster
