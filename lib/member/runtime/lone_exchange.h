// What the exchange threads of members that are in no view have in common, a follower's and a
// reader's: a session with the coordinator and with nobody else, one mailbox of events, and life
// signs. What such a member is for, the classes carry out that derive from this; each has a state
// machine, which it makes once it knows enough of the job, and which decides.
#pragma once

#include <optional>
#include <utility>

#include "lib/base/clock.h"
#include "lib/member/runtime/coordinator_link.h"
#include "lib/member/runtime/events.h"
#include "lib/member/runtime/exchange.h"
#include "lib/member/runtime/life_signs.h"
#include "lib/member/runtime/member_metrics.h"
#include "lib/member/runtime/thread_progress.h"
#include "lib/member/state/job_asker.h"

namespace muster {

class LoneExchange {
 public:
  virtual ~LoneExchange();
  LoneExchange(const LoneExchange&) = delete;
  LoneExchange& operator=(const LoneExchange&) = delete;

  // Runs until the job or the process ends, on one thread. Returns the process's exit code.
  int Run();

 protected:
  // `works`: of the thread that does the work; outlives this.
  LoneExchange(ExchangeOptions options, ExchangeParts parts, const ThreadProgress& works);

  // Whether there is a machine: then all that the coordinator says is fed to it.
  virtual bool is_member() const = 0;
  virtual void Feed(const CoordinatorUp& up) = 0;
  virtual void Feed(const CoordinatorSays& says) = 0;
  // Before that: this is the job, as far as it is known now; may be told again.
  virtual void Learn(const JobIs& job) = 0;
  // One of the events that are not of the session with the coordinator.
  virtual void HandleOwn(Event event) = 0;
  // What it does goes to the life signs.
  virtual void NoteWhatWeDo() = 0;
  // The last that Run does: the process ends so.
  virtual void End(const Quit& quit) = 0;

  // There is a machine from now on.
  void BecomeMember();
  void Tell(const ToCoordinator& message) { coordinator_.Send(message); }
  void EndWith(Quit quit) { quit_ = std::move(quit); }
  void Note(Step step, std::string phase) {
    life_signs_.Note(step, std::move(phase), {}, clock_.Now());
  }
  void NoteLack(std::string why) { life_signs_.NoteLack(std::move(why)); }
  const ExchangeOptions& options() const { return options_; }
  const ExchangeParts& parts() const { return parts_; }
  const JobIs& job() const { return *job_; }  // once it was told

 private:
  void Handle(FrameCame event);
  void Handle(SessionBroke event);
  void Handle(AddressesFound event);
  void Handle(StillPrepares event) { asker_.IsAt(std::move(event.how_far)); }
  void Handle(StopAsked event);
  template <class E>
  void Handle(E event) {
    HandleOwn(std::move(event));
  }
  void FromCoordinatorSide(FromCoordinator message);
  void LearnJob(JobIs job);
  void Introduce();
  void Tick();

  const ExchangeOptions options_;
  const ExchangeParts parts_;
  RealClock clock_;
  MemberMetrics metrics_;
  CoordinatorLink coordinator_;
  JobAsker asker_;
  std::optional<JobIs> job_;
  Time next_note_{};
  MovedTold moved_told_;
  std::optional<Quit> quit_;

  ThreadProgress progress_{"exchange"};
  LifeSigns life_signs_;
};

}  // namespace muster
