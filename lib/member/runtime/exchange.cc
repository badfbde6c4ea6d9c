#include "lib/member/runtime/exchange.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/exit_codes.h"
#include "lib/base/hash.h"
#include "lib/base/speaks.h"
#include "lib/base/status.h"
#include "lib/domain/given_number.h"
#include "lib/kernels/float_env.h"
#include "lib/log/log.h"
#include "lib/member/runtime/load_state.h"
#include "lib/member/runtime/numeric_environment.h"
#include "lib/member/runtime/step_boundary.h"

namespace muster {
namespace {

constexpr size_t kEventsInARow = 256;  // then the clock is looked at

PeerSessions::Options SessionOptions(const ExchangeOptions& options) {
  PeerSessions::Options sessions;
  sessions.job = options.job;
  sessions.me = options.place.id;
  sessions.seed = SeedOf(options.place.id);
  sessions.held_bytes = options.held_bytes;
  sessions.waits = options.lease;
  return sessions;
}

std::vector<const ThreadProgress*> ThreadsOf(const TrainPort* train, const ThreadProgress& exchange,
                                             const ThreadProgress& writer) {
  std::vector<const ThreadProgress*> threads = {&exchange, &writer};
  if (train != nullptr) threads.push_back(&train->progress);
  return threads;
}

}  // namespace

uint64_t SeedOf(const MemberId& id) { return Mix64(id.incarnation.hi, id.incarnation.lo); }

std::optional<Quit> WhyNotThisJob(const JobIs& job, const ExchangeOptions& options) {
  if (std::string why =
          WhyNotUnderstood("the coordinator", job.speaks, options.place.id.name, Speaks{});
      !why.empty())
    return Quit{kExitOtherEnvironment, std::move(why)};
  if (options.start != StartNumber() && job.start != options.start)
    return Quit{kExitLater, absl::StrCat("job ", job.job, " was started again since this process")};
  return std::nullopt;
}

Quit EndAfter(const TrainFailed& failed) {
  const int code = IsLackOfPlugin(failed.why) ? kExitNoPlugin : ExitCodeOfTask(failed.why);
  return {code, EndsItsJob(code) ? std::string(failed.why.message()) : failed.why.ToString()};
}

Quit WithoutCoordinator(const ExchangeOptions& options) {
  return {kExitFailed, absl::StrCat("no coordinator at ", options.coordinator, " for ",
                                    Seconds(options.coordinator_timeout), " s")};
}

void LogLeaving(const Quit& quit) {
  if (quit.exit_code == kExitFailed || EndsItsJob(quit.exit_code))
    LogError("%s", quit.reason);
  else
    LogInfo("leaving: %s", quit.reason);
}

std::optional<FromCoordinator> Understood(absl::StatusOr<FromCoordinator> message,
                                          MemberMetrics& metrics) {
  if (message.ok()) return *std::move(message);
  if (absl::IsFailedPrecondition(message.status())) return std::nullopt;  // the link has said it
  LogWarning("%s", message.status().ToString());
  metrics.refused.Add();
  return std::nullopt;
}

void TellMoved(MemberMetrics& metrics, const ExchangeParts& parts, MovedTold& told) {
  AddGrowth(metrics.bytes_copied, parts.copied->load(), told.copied);
  const TransportCounters* moved = parts.moved;
  if (moved == nullptr) return;
  AddGrowth(metrics.bytes_sent, moved->bytes_sent.load(), told.sent);
  AddGrowth(metrics.bytes_received, moved->bytes_received.load(), told.received);
  AddGrowth(metrics.refused, moved->frames_refused.load(), told.no_frames);
}

Exchange::Exchange(ExchangeOptions options, ExchangeParts parts)
    : options_(std::move(options)),
      parts_(std::move(parts)),
      metrics_(*parts_.metrics),
      steps_(options_.place.role == Role::kWorker ? std::optional<StepMetrics>(*parts_.metrics)
                                                  : std::nullopt),
      sessions_(*parts_.transport, parts_.events, parts_.next_link, SessionOptions(options_)),
      coordinator_(*parts_.transport, options_.coordinator, options_.cluster, parts_.events,
                   parts_.next_link, SeedOf(options_.place.id)),
      asker_(options_.job, options_.place.id.name),
      life_signs_({options_.lease / 3, options_.thread_patience + options_.lease, options_.hangs},
                  ThreadsOf(parts_.train, progress_, writer_progress_)) {}

Exchange::~Exchange() = default;

int Exchange::Run() {
  SetFloatEnvironment();
  next_note_ = clock_.Now();
  coordinator_.HearFrom(
      std::max(TermThatGave(options_.start), TermThatGave(options_.place.placement)));
  if (coordinator_.Connect(clock_.Now())) Introduce();
  while (!quit_) {
    progress_.Rests();
    std::optional<Event> event = parts_.events->TakeUntil(NextTick());
    for (size_t n = 0; event && !quit_; ++n) {
      GoOn();
      std::visit([this](auto& e) { Handle(std::move(e)); }, *event);
      if (n == kEventsInARow) break;
      event = parts_.events->TryTake();
    }
    GoOn();
    if (!quit_) Tick();
  }
  progress_.Rests();
  life_signs_.SayTo(nullptr);
  LogLeaving(*quit_);
  stream_.reset();
  if (parts_.train != nullptr) {
    parts_.train->abandoned = std::numeric_limits<int64_t>::max();  // nobody waits for a measure
    parts_.train->box.Close();
  }
  return quit_->exit_code;
}

// ---- time

Time Exchange::NextTick() const {
  return std::min({next_note_, sessions_.NextTick(), coordinator_.NextTick()});
}

void Exchange::Tick() {
  const Time now = clock_.Now();
  sessions_.Tick(now);
  if (coordinator_.Tick(now)) Introduce();
  if (!member_)
    if (const auto ask = asker_.AskAgain(now)) coordinator_.Send(*ask);
  if (now < next_note_) return;
  const bool names = member_ && !member_->WhoIsUnreachable().members.empty();
  next_note_ =
      now + (names ? std::min<Duration>(options_.lease / 3, kBetweenNews) : options_.lease / 3);
  NoteWhatWeDo();
  const bool waits =
      !member_ || !member_->active() || member_->halted() || member_->awaits_stream();
  if (waits && coordinator_.Away(now) > options_.coordinator_timeout)
    quit_ = WithoutCoordinator(options_);
  metrics_.mailbox.Set(static_cast<double>(parts_.events->size()));
  metrics_.transport.Set(static_cast<double>(sessions_.QueuedBytes()));
  if (writer_) metrics_.checkpoint.Set(static_cast<double>(writer_->waiting()));
  if (member_) metrics_.records.Set(static_cast<double>(member_->records_waiting()));
  AddGrowth(metrics_.refused, sessions_.refused(), refused_told_);
  TellMoved(metrics_, parts_, moved_told_);
}

void Exchange::NoteWhatWeDo() {
  if (!member_) return;
  life_signs_.Note(member_->step(), member_->Phase(), member_->WhoIsUnreachable(), clock_.Now());
}

// ---- the coordinator

// Life signs follow: the coordinator first hears who speaks.
void Exchange::Introduce() {
  if (member_) {
    Feed(CoordinatorUp{});
    NoteWhatWeDo();
    return life_signs_.SayTo(coordinator_.session());
  }
  coordinator_.Send(asker_.Ask(clock_.Now()));
}

void Exchange::FromCoordinatorSide(FromCoordinator message) {
  if (const auto* told = std::get_if<StreamIs>(&message); told != nullptr && member_)
    return LearnStream(*told);
  if (member_) return Feed(CoordinatorSays{std::move(message)});
  if (job_ && TermOf(message) < job_->term) return;  // of a coordinator that has a successor
  if (auto* leave = std::get_if<Leave>(&message)) quit_ = Quit{leave->exit_code, leave->reason};
  if (auto* job = std::get_if<JobIs>(&message)) LearnJob(std::move(*job));
}

// Where the samples are is known before anybody is told to read them. What the machine does not
// obey counts for nothing here, either.
void Exchange::LearnStream(const StreamIs& told) {
  Outcome outcome = member_->Handle(CoordinatorSays{told});
  if (stream_ && outcome.fate == Fate::kTaken) {
    if (const absl::Status learned = stream_->Learn(told); !learned.ok()) {
      quit_ = Quit{kExitFailed, absl::StrCat("what the coordinator says of the stream is not what "
                                             "it said before: ",
                                             learned.message())};
      return;
    }
  }
  Carry(std::move(outcome.actions), nullptr);
  NoteChanges();
}

void Exchange::LearnJob(JobIs job) {
  asker_.Answered();
  if ((quit_ = WhyNotThisJob(job, options_))) return;
  const bool can_begin = options_.place.role == Role::kWorker || job.environment.has_value();
  job_ = std::move(job);
  life_signs_.BePatient(DurationOf(job_->spec.runtime.thread_patience) + options_.lease);
  if (!can_begin || std::exchange(preparing_, true)) return;
  if (options_.place.role == Role::kWorker) {
    LogInfo("reads its data and makes its model; then it joins");
    parts_.reporter->Prepares();
    if (IsStreamed(job_->spec.training))
      stream_ = std::make_unique<ToldStream>(SpoolFolder(job_->checkpoint_dir));
    parts_.train->box.Post(DoPrepare{*job_, stream_ ? stream_->map() : nullptr});
    return;
  }
  // Of what computes, a server has the kernels only: the rest that it was told may be of workers
  // that are gone.
  NumericEnvironment environment = *job_->environment;
  environment.numeric = KernelProperties(job_->spec.training);
  Handle(Prepared{MakeSetup(*job_, std::move(environment))});
}

void Exchange::Handle(Prepared event) {
  if (!event.setup.ok()) return Handle(TrainFailed{event.setup.status()});
  BecomeMember(*std::move(event.setup));
}

void Exchange::BecomeMember(SetupPtr setup) {
  setup_ = std::move(setup);
  data_ = std::make_unique<DataPath>(setup_, *parts_.copied);
  writer_ = std::make_unique<SegmentWriter>(setup_, WriterName(options_.place.id), parts_.events,
                                            *parts_.failpoints, writer_progress_);
  early_.emplace(static_cast<size_t>(setup_->layout.chunk_count()));
  member_ = std::make_unique<Member>(ConfigOf(*setup_, options_.place));
  Feed(CoordinatorSays{*job_});
  Introduce();
}

// ---- events

void Exchange::Handle(SessionAccepted event) { sessions_.Accept(std::move(event), clock_.Now()); }

void Exchange::Handle(FrameCame event) {
  if (!coordinator_.Owns(event.id))
    return HandleNews(sessions_.Handle(std::move(event), clock_.Now()));
  if (auto message = Understood(coordinator_.Handle(event), metrics_))
    FromCoordinatorSide(*std::move(message));
}

void Exchange::Handle(SessionBroke event) {
  if (coordinator_.Owns(event.id)) {
    life_signs_.SayTo(nullptr);
    coordinator_.Handle(event, clock_.Now());
    if (const std::string why = coordinator_.WhyNoneIsOurs(); !why.empty())
      quit_ = Quit{kExitFailed, why};
    // Who takes part may hold what nobody else has, and trains on.
    const bool takes_part = member_ && member_->active();
    if (!takes_part && !coordinator_.WhyRefused().empty())
      quit_ = Quit{kExitFailed, coordinator_.WhyRefused()};
    return;
  }
  HandleNews(sessions_.Handle(event, clock_.Now()));
}

void Exchange::Handle(AddressesFound event) {
  if (coordinator_.Handle(event, clock_.Now())) Introduce();
}

void Exchange::HandleNews(PeerSessions::News news) {
  if (news.down) {
    if (early_) early_->Forget(*news.down);
    if (member_) FeedAndTell(PeerDown{*news.down});
  }
  if (news.up && member_) FeedAndTell(PeerUp{*news.up});
  if (news.said && member_)
    FromPeer(*news.said, std::move(news.message), std::move(news.payload), std::move(news.receipt));
}

// The coordinator counts how long two members name each other, so it is told at once of the first
// time, and that it is over.
void Exchange::FeedAndTell(const Input& about_peer) {
  const Unreachable before = member_->WhoIsUnreachable();
  Feed(about_peer);
  if (member_->WhoIsUnreachable() == before) return;
  next_note_ = clock_.Now();
  NoteWhatWeDo();
  life_signs_.SayNow();
}

void Exchange::FromPeer(const MemberId& peer, PeerMessage message, Payload payload,
                        Receipt receipt) {
  absl::StatusOr<std::vector<Part>> parts = PartsOf(message, setup_->layout);
  absl::Status status = parts.ok() ? CheckPayload(*parts, payload) : parts.status();
  if (status.ok())
    return Deliver({peer, std::move(message), std::make_shared<Payload>(std::move(payload)),
                    *std::move(parts), std::move(receipt)});
  sessions_.Break(peer, status, clock_.Now());
  HandleNews({.down = peer, .up = {}, .said = {}, .message = {}, .payload = {}});
}

void Exchange::Handle(GradientsReady event) {
  if (event.ready.id == compute_id_) {
    if (event.phases.empty()) data_->SetOwnSums(std::move(event.sums));
    data_->AddOwnPhases(std::move(event.phases));
  }
  Feed(std::move(event.ready));
}

void Exchange::Handle(StateApplied event) {
  data_->ForgetOwnSums();
  data_->memory().Applied(event.step, std::move(event.state));
  Applied applied{event.step, std::move(event.not_finite)};
  if (const SumPlaces& sums = setup_->sums; !sums.empty())
    applied.measured = sums.Read(data_->memory().Values(event.step + 1)->of(sums.chunk()));
  Feed(std::move(applied));
}

void Exchange::Handle(LanesAbandoned event) { Feed(event.abandoned); }

void Exchange::Handle(StepBoundaryTaken event) {
  if (event.part) {
    metrics_.checkpoint_stall.Observe(event.part->stall_seconds);
    writer_->Write(*std::move(event.part));
  }
  Feed(std::move(event.done));
}

void Exchange::Handle(StateMade event) {
  if (event.status.ok()) data_->memory().Restart(event.step, std::move(event.state));
  Feed(Made{event.status});
}

void Exchange::Handle(StateMeasured event) {
  if (event.ended.sums.ok()) parts_.failpoints->Pass("measured_untold");
  Feed(std::move(event.ended));
}

void Exchange::Handle(Generated event) {
  if (event.text.ok()) {
    parts_.reporter->Sample(*event.text);
  } else if (!absl::IsUnimplemented(event.text.status())) {
    LogWarning("no text sample: %s", event.text.status().ToString());
  }
  quit_ = leaving_;
}

void Exchange::Handle(TrainFailed event) { quit_ = EndAfter(event); }

void Exchange::Handle(SegmentWritten written) {
  metrics_.checkpoint_part_seconds.Observe(written.seconds);
  metrics_.checkpoint_bytes.Add(static_cast<double>(written.segment.bytes));
  Feed(std::move(written));
}

void Exchange::Handle(SegmentFailed failed) { Feed(std::move(failed)); }

// A member that is leaving already, because its job has ended, first reports the text sample; its
// agent gives it some time for that.
void Exchange::Handle(StopAsked event) {
  if (!leaving_) quit_ = Quit{event.exit_code, event.reason};
}

// ---- the state machine

void Exchange::Feed(const Input& input) {
  Carry(member_->Handle(input).actions, nullptr);
  NoteChanges();
}

void Exchange::Deliver(Incoming incoming) {
  const MemberId peer = incoming.from;
  Outcome outcome = member_->Handle(PeerSays{peer, incoming.message});
  Carry(std::move(outcome.actions), &incoming);
  absl::Status sound;
  if (outcome.fate == Fate::kRefused) sound = absl::FailedPreconditionError(outcome.reason);
  if (outcome.fate == Fate::kHold && !early_->Keep(std::move(incoming)))
    sound = absl::FailedPreconditionError("it asks for too much ahead of time");
  if (!sound.ok()) {
    sessions_.Break(peer, sound, clock_.Now());
    HandleNews({.down = peer, .up = {}, .said = {}, .message = {}, .payload = {}});
  }
  NoteChanges();
}

// Answers are fed at once, before the actions that follow: what the machine decides next must know
// of them.
void Exchange::Carry(std::vector<Action> actions, const Incoming* incoming) {
  for (Action& action : actions) {
    GoOn();
    Answer answer = std::visit([&](auto& a) { return Do(std::move(a), incoming); }, action);
    if (answer && !quit_) Carry(member_->Handle(*answer).actions, nullptr);
  }
}

void Exchange::NoteChanges() {
  if (quit_) return;
  const bool trains = member_->active() && !member_->halted();
  if (std::exchange(trains_, trains) != trains) writer_->SetTraining(trains);
  ShowWhatWasLearned();
  const ViewNumber now = member_->active() ? member_->view()->number : ViewNumber();
  if (std::exchange(active_view_, now) != now && now != ViewNumber()) {
    const View& view = *member_->view();
    metrics_.members.Set(static_cast<double>(view.members.size()));
    metrics_.view.Set(static_cast<double>(view.number.value()));
    metrics_.term.Set(static_cast<double>(view.term.value()));
    metrics_.lineage.Set(static_cast<double>(view.lineage.value()));
    parts_.reporter->Joined(view, OurRank(), options_.place.id.incarnation);
    const CheckpointPolicy& policy = setup_->spec.runtime.checkpoint;
    if (policy.every_steps > 0 || policy.every_epochs > 0 || policy.every_seconds > 0)
      writer_->Expect(PartElements(*setup_, OwnChunks()));
  }
  RedeliverHeld();
}

// Frames that came too early: each once more, in order; those still too early stay.
void Exchange::RedeliverHeld() {
  if (std::exchange(redelivering_, true)) return;
  while (!quit_ && std::exchange(edition_, member_->edition()) != member_->edition()) {
    for (auto& [peer, frames] : early_->TakeAll())
      for (Incoming& frame : frames)
        if (!quit_ && sessions_.Up(peer)) Deliver(std::move(frame));
  }
  redelivering_ = false;
}

Rank Exchange::OurRank() const {
  const int32_t me = member_->view() ? member_->view()->IndexOf(options_.place.id) : -1;
  return me < 0 ? Rank(-1) : member_->view()->members[static_cast<size_t>(me)].rank;
}

std::vector<ChunkId> Exchange::OwnChunks() const {
  const View& view = *member_->view();
  const int32_t me = view.IndexOf(options_.place.id);
  std::vector<ChunkId> own;
  for (size_t c = 0; c < view.owner_of.size(); ++c)
    if (view.owner_of[c] == me) own.emplace_back(static_cast<int32_t>(c));
  return own;
}

}  // namespace muster
