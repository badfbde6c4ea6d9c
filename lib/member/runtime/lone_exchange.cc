#include "lib/member/runtime/lone_exchange.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "lib/base/exit_codes.h"
#include "lib/domain/given_number.h"
#include "lib/log/log.h"

namespace muster {

LoneExchange::LoneExchange(ExchangeOptions options, ExchangeParts parts,
                           const ThreadProgress& works)
    : options_(std::move(options)),
      parts_(std::move(parts)),
      metrics_(*parts_.metrics),
      coordinator_(*parts_.transport, options_.coordinator, options_.cluster, parts_.events,
                   parts_.next_link, SeedOf(options_.place.id)),
      asker_(options_.job, options_.place.id.name),
      life_signs_({options_.lease / 3, options_.thread_patience + options_.lease, options_.hangs},
                  {&progress_, &works}) {}

LoneExchange::~LoneExchange() = default;

int LoneExchange::Run() {
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
  LogLeaving(*quit_);
  End(*quit_);
  return quit_->exit_code;
}

void LoneExchange::Tick() {
  const Time now = clock_.Now();
  if (coordinator_.Tick(now)) Introduce();
  if (!is_member())
    if (const auto ask = asker_.AskAgain(now)) coordinator_.Send(*ask);
  if (now < next_note_) return;
  next_note_ = now + options_.lease / 3;
  if (is_member()) NoteWhatWeDo();
  if (coordinator_.Away(now) > options_.coordinator_timeout) quit_ = WithoutCoordinator(options_);
  metrics_.mailbox.Set(static_cast<double>(parts_.events->size()));
  TellMoved(metrics_, parts_, moved_told_);
}

// ---- the coordinator

// Life signs follow: the coordinator first hears who speaks.
void LoneExchange::Introduce() {
  if (!is_member()) return coordinator_.Send(asker_.Ask(clock_.Now()));
  Feed(CoordinatorUp{});
  NoteWhatWeDo();
  life_signs_.SayTo(coordinator_.session());
}

void LoneExchange::FromCoordinatorSide(FromCoordinator message) {
  if (is_member()) return Feed(CoordinatorSays{std::move(message)});
  if (job_ && TermOf(message) < job_->term) return;  // of a coordinator that has a successor
  if (auto* leave = std::get_if<Leave>(&message)) quit_ = Quit{leave->exit_code, leave->reason};
  if (auto* job = std::get_if<JobIs>(&message)) LearnJob(std::move(*job));
}

void LoneExchange::LearnJob(JobIs job) {
  asker_.Answered();
  if ((quit_ = WhyNotThisJob(job, options_))) return;
  job_ = std::move(job);
  life_signs_.BePatient(DurationOf(job_->spec.runtime.thread_patience) + options_.lease);
  Learn(*job_);
}

void LoneExchange::BecomeMember() {
  Feed(CoordinatorSays{*job_});
  Introduce();
}

// ---- events

void LoneExchange::Handle(FrameCame event) {
  if (!coordinator_.Owns(event.id)) return;
  if (auto message = Understood(coordinator_.Handle(event), metrics_))
    FromCoordinatorSide(*std::move(message));
}

void LoneExchange::Handle(SessionBroke event) {
  if (!coordinator_.Owns(event.id)) return;
  life_signs_.SayTo(nullptr);
  coordinator_.Handle(event, clock_.Now());
  if (const std::string why = coordinator_.WhyNoneIsOurs(); !why.empty())
    quit_ = Quit{kExitFailed, why};
  if (!coordinator_.WhyRefused().empty()) quit_ = Quit{kExitFailed, coordinator_.WhyRefused()};
}

void LoneExchange::Handle(AddressesFound event) {
  if (coordinator_.Handle(event, clock_.Now())) Introduce();
}

void LoneExchange::Handle(StopAsked event) { quit_ = Quit{event.exit_code, event.reason}; }

}  // namespace muster
