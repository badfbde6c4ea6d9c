#include "lib/member/runtime/follower_exchange.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "lib/base/exit_codes.h"
#include "lib/domain/given_number.h"
#include "lib/log/log.h"

namespace muster {

FollowerExchange::FollowerExchange(ExchangeOptions options, ExchangeParts parts)
    : options_(std::move(options)),
      parts_(std::move(parts)),
      metrics_(*parts_.metrics),
      followed_(*parts_.metrics),
      coordinator_(*parts_.transport, options_.coordinator, options_.cluster, parts_.events,
                   parts_.next_link, SeedOf(options_.place.id)),
      life_signs_({options_.lease / 3, options_.thread_patience + options_.lease, options_.hangs},
                  {&progress_, &parts_.train->progress}) {}

FollowerExchange::~FollowerExchange() = default;

int FollowerExchange::Run() {
  next_note_ = clock_.Now();
  coordinator_.HearFrom(
      std::max(TermThatGave(options_.start), TermThatGave(options_.place.placement)));
  if (coordinator_.Connect(clock_.Now())) Introduce();
  while (!quit_) {
    progress_.Rests();
    std::optional<Event> event =
        parts_.events->TakeUntil(std::min(next_note_, coordinator_.NextTick()));
    progress_.GoesOn(clock_.Now());
    if (event) std::visit([this](auto& e) { Handle(std::move(e)); }, *event);
    if (!quit_) Tick();
  }
  progress_.Rests();
  life_signs_.SayTo(nullptr);
  LogInfo("leaving: %s", quit_->reason);
  parts_.train->abandoned = std::numeric_limits<int64_t>::max();
  parts_.train->box.Close();
  return quit_->exit_code;
}

void FollowerExchange::Tick() {
  const Time now = clock_.Now();
  if (coordinator_.Tick(now)) Introduce();
  if (now < next_note_) return;
  next_note_ = now + options_.lease / 3;
  NoteWhatWeDo();
  if (coordinator_.Away(now) > options_.coordinator_timeout) quit_ = WithoutCoordinator(options_);
  metrics_.mailbox.Set(static_cast<double>(parts_.events->size()));
  TellMoved(metrics_, parts_, moved_told_);
}

void FollowerExchange::NoteWhatWeDo() {
  if (follower_) life_signs_.Note(follower_->step(), follower_->Phase(), {}, clock_.Now());
}

// ---- the coordinator

// Life signs follow: the coordinator first hears who speaks.
void FollowerExchange::Introduce() {
  if (!follower_)
    return coordinator_.Send(ToCoordinator(AskJob{options_.job, options_.place.id.name}));
  Feed(CoordinatorUp{});
  NoteWhatWeDo();
  life_signs_.SayTo(coordinator_.session());
}

void FollowerExchange::FromCoordinatorSide(FromCoordinator message) {
  if (follower_) return Feed(CoordinatorSays{std::move(message)});
  if (job_ && TermOf(message) < job_->term) return;  // of a coordinator that has a successor
  if (auto* leave = std::get_if<Leave>(&message)) quit_ = Quit{leave->exit_code, leave->reason};
  if (auto* job = std::get_if<JobIs>(&message)) LearnJob(std::move(*job));
}

// A numeric environment is first found by a worker. Until one has joined, the coordinator tells
// none, and tells the job again once it can.
void FollowerExchange::LearnJob(JobIs job) {
  if ((quit_ = WhyNotThisJob(job, options_))) return;
  const bool can_begin = job.environment.has_value();
  job_ = std::move(job);
  if (!can_begin || std::exchange(preparing_, true)) return;
  LogInfo("reads its data and makes its model; then it joins");
  parts_.reporter->Prepares();
  parts_.train->box.Post(DoPrepare{*job_});
}

// ---- events

void FollowerExchange::Handle(FrameCame event) {
  if (!coordinator_.Owns(event.id)) return;
  if (auto message = Understood(coordinator_.Handle(event), metrics_))
    FromCoordinatorSide(*std::move(message));
}

void FollowerExchange::Handle(SessionBroke event) {
  if (!coordinator_.Owns(event.id)) return;
  life_signs_.SayTo(nullptr);
  coordinator_.Handle(event, clock_.Now());
  if (const std::string why = coordinator_.WhyNoneIsOurs(); !why.empty())
    quit_ = Quit{kExitFailed, why};
}

void FollowerExchange::Handle(AddressesFound event) {
  if (coordinator_.Handle(event, clock_.Now())) Introduce();
}

void FollowerExchange::Handle(Prepared event) {
  if (!event.setup.ok()) return Handle(TrainFailed{event.setup.status()});
  const Setup& setup = **event.setup;
  life_signs_.BePatient(DurationOf(setup.spec.runtime.thread_patience) + options_.lease);
  follower_ = std::make_unique<Follower>(ConfigOf(setup, options_.place));
  Feed(CoordinatorSays{*job_});
  Introduce();
}

void FollowerExchange::Handle(StateMeasured event) {
  if (event.ended.sums.ok()) {
    followed_.measures.Add();
    followed_.measure_seconds.Observe(event.seconds);
    parts_.failpoints->Pass("measured_untold");
  } else if (!absl::IsCancelled(event.ended.sums.status())) {
    LogWarning("%s", event.ended.sums.status().message());
  }
  Feed(std::move(event.ended));
}

void FollowerExchange::Handle(TrainFailed event) { quit_ = EndAfter(event); }

void FollowerExchange::Handle(StopAsked event) { quit_ = Quit{event.exit_code, event.reason}; }

// ---- the state machine

void FollowerExchange::Feed(const FollowerInput& input) {
  for (const FollowerAction& action : follower_->Handle(input))
    std::visit([this](const auto& a) { Do(a); }, action);
  NoteWhatWeDo();
}

void FollowerExchange::Do(const TellCoordinator& action) {
  coordinator_.Send(action.message);
  if (std::holds_alternative<Measured>(action.message)) parts_.failpoints->Pass("measured_told");
}

void FollowerExchange::Do(const StartMeasure& action) {
  parts_.train->abandoned = action.id;
  parts_.train->box.Post(DoMeasure{action});
}

void FollowerExchange::Do(const GiveUpMeasure& action) { parts_.train->abandoned = action.below; }

void FollowerExchange::Do(const Quit& action) { quit_ = action; }

}  // namespace muster
