#include "coordinator/runtime/driver.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "coordinator/runtime/checkpoints.h"
#include "coordinator/runtime/once.h"
#include "coordinator/state/signatures.h"
#include "lib/base/exit_codes.h"
#include "lib/base/mutex.h"
#include "lib/checkpoint/catalogue.h"
#include "lib/checkpoint/load.h"
#include "lib/checkpoint/measure_file.h"
#include "lib/identity/keys.h"
#include "lib/log/log.h"
#include "lib/metrics/disk_space.h"
#include "lib/spool/spool_folder.h"
#include "lib/wire/job_codec.h"
#include "lib/wire/message_codec.h"

namespace muster::coordinator {
namespace {

// Inputs taken before their decisions are written together.
constexpr int kMostInputsPerWrite = 256;
// Of one session: what its first frame may have, and how much may wait for the driver before the
// session stands still. Many members share this thread, and what they say is small.
constexpr InboundLimits kInbound{.first_frame = kMaxHeaderBytes, .held = size_t{1} << 20};
constexpr size_t kMostWaitingQueries = 16;
// What people and programs want decided: each may hold a specification.
constexpr TurnLimits kMostWaitingRequests{.items = 256};
constexpr Duration kPublicationPeriod = std::chrono::milliseconds(250);

int64_t UnixMillis() { return absl::ToUnixMillis(absl::Now()); }

// Turns in the mailbox: each job has its own.
constexpr char kRequests[] = "requests";
constexpr char kAgents[] = "agents";
constexpr char kStrangers[] = "strangers";
constexpr char kClaim[] = "claim";
constexpr char kLaunches[] = "launches";
std::string TurnOf(const std::string& job) { return absl::StrCat("job ", job); }

// The first frame of a session says whose it is.
std::string TurnOf(const AtCoordinator& first) {
  if (std::holds_alternative<FromAgent>(first)) return kAgents;
  const ToCoordinator& message = std::get<ToCoordinator>(first);
  if (const AskJob* ask = std::get_if<AskJob>(&message)) return TurnOf(ask->job);
  if (const Join* join = std::get_if<Join>(&message)) return TurnOf(join->job);
  return kStrangers;
}

// Null: it is another message.
const Join* JoinIn(const AtCoordinator& message) {
  const ToCoordinator* said = std::get_if<ToCoordinator>(&message);
  return said == nullptr ? nullptr : std::get_if<Join>(said);
}

bool SaysWho(const AtCoordinator& message) {
  return std::holds_alternative<FromAgent>(message) || JoinIn(message) != nullptr;
}

// Of one session: what may be read of it, whose turn its frames wait for, so that they stay in
// order, and when the newest came.
class Inbound {
 public:
  // By the transport, which reads on after a first frame only when that has been dealt with. So one
  // that has said who it is was admitted by then, or its session is closed.
  absl::StatusOr<AtCoordinator> Read(std::string_view header) {
    if (known_) return DecodeAtCoordinator(header);
    absl::StatusOr<AtCoordinator> message = DecodeGreetingAtCoordinator(header);
    known_ = message.ok() && SaysWho(*message);
    return message;
  }
  std::string TurnFor(const AtCoordinator& message) {
    const MutexLock lock(mutex_);
    if (turn_.empty()) turn_ = TurnOf(message);
    return turn_;
  }
  std::string turn() {
    const MutexLock lock(mutex_);
    return turn_.empty() ? kStrangers : turn_;
  }
  void Came(size_t bytes, Time now) {
    weight_ += bytes + kFrameWeight;
    came_ = now.time_since_epoch().count();
  }
  void Taken(size_t bytes) { weight_ -= bytes + kFrameWeight; }
  void Broke() { broke_ = true; }
  // When it was heard last. While so much of it waits that no more is read, its silence is ours.
  // So is that of one that has broken, until we deal with that: its member may be back already.
  Time Heard(Time now) const {
    return broke_ || weight_ >= kInbound.held ? now : Time(Duration(came_.load()));
  }
  bool opened = false;  // the driver's thread only

 private:
  bool known_ = false;
  std::atomic<size_t> weight_{0};  // of its frames that were not taken yet
  std::atomic<Duration::rep> came_{0};
  std::atomic<bool> broke_{false};
  Mutex mutex_;
  std::string turn_ ABSL_GUARDED_BY(mutex_);  // empty before the first frame
};

std::string JobOfChange(const Persisted& change) {
  if (const PersistJob* job = std::get_if<PersistJob>(&change)) return job->job.id;
  if (const PersistRecords* records = std::get_if<PersistRecords>(&change)) return records->job;
  if (const auto* print = std::get_if<PersistFingerprint>(&change)) return print->job;
  if (const auto* measure = std::get_if<PersistMeasure>(&change)) return measure->job;
  if (const auto* stream = std::get_if<PersistStream>(&change)) return stream->job;
  return "";  // of no job
}

KnownJobs ListOf(const std::map<std::string, KnownJobPtr>& jobs) {
  KnownJobs list;
  list.reserve(jobs.size());
  for (const auto& [id, known] : jobs) list.push_back(known);
  return list;
}

// Some places stay free for those who come before the driver gets to it.
size_t RoomFor(int connections) { return static_cast<size_t>(connections - connections / 8); }

bool HadMembers(const RecoveredState& recovered) {
  return std::any_of(recovered.jobs.begin(), recovered.jobs.end(), [](const JobJournal& job) {
    return !Ended(job.phase) && job.number > ViewNumber(0);
  });
}

}  // namespace

Driver::Driver(Journal& journal, RecoveredState recovered, const Clock& clock, Metrics& metrics,
               DriverOptions options)
    : journal_(journal),
      clock_(clock),
      metrics_(metrics),
      options_(std::move(options)),
      mailbox_(options_.most_waiting_of_job),
      reattaching_(HadMembers(recovered)),
      events_(journal.term()),
      coordinator_(journal.cluster(), journal.term(), options_.settings, std::move(recovered),
                   clock.Now()),
      started_(clock.Now()),
      sessions_(
          {.input = [this](Input input) { Feed(std::move(input)); },
           .asked = [this](
                        SessionId id, const AskJob& ask,
                        const std::optional<ProcessName>& proven) { AnswerAsk(id, ask, proven); },
           .printed = [this](const AgentId& agent, const LogLines& lines) { Keep(agent, lines); },
           .asked_to_sign = [this](const AgentId& agent,
                                   const SignMember& ask) { OnAskedToSign(agent, ask); },
           .why_not_heard =
               [this](const std::string& host, const std::string& key_hash) {
                 return WhyNotHeard(coordinator_.host_records(), host, key_hash);
               }},
          RoomFor(options_.connections)),
      query_thread_(kMostWaitingQueries) {
  quotas_ = std::make_shared<const Quotas>(coordinator_.quotas());
  host_records_ = std::make_shared<const HostRecords>(coordinator_.host_records());
  LookAtWritten({});
  TellEndsOfBefore();
  Publish();
  events_thread_ = std::thread([this] { GiveEvents(); });
  thread_ = std::thread([this] { Loop(); });
  // There from the beginning, so that the first of them is seen as a growth.
  for (const char* reason : {"payload", "header", "version", "too_many"})
    metrics_.GetCounter("muster_frames_refused_total", reason);
  for (const char* reason : {"not_written", "not_committed", "disk_slow"})
    metrics_.GetCounter("muster_checkpoint_failures_total", reason);
  // What may hang is asked on that thread.
  const auto look = [this] {
    for (const auto& [disk, folder] : options_.disks) MeasureDisk(metrics_, disk, folder);
    return options_.check_claim();
  };
  claim_watch_.emplace(look, options_.look_at_claim, [this](const absl::Status& why) {
    Post(kClaim, [this, why] { OnReplaced(why); });
  });
}

Driver::~Driver() { Stop(); }

void Driver::Stop() {
  stopping_ = true;
  mailbox_.Close();
  if (thread_.joinable()) thread_.join();
  events_.Wake();
  if (events_thread_.joinable()) events_thread_.join();
  for (const auto& [job, commit_thread] : commit_threads_) commit_thread->Stop();
  query_thread_.Stop();
  long_thread_.Stop();
  if (claim_watch_) claim_watch_->Stop();
  // What is dropped here answers, so that nobody waits for ever.
  while (mailbox_.TryTake()) {
  }
  after_write_.clear();
  unanswered_.clear();
}

bool Driver::Post(const std::string& key, std::function<void()> call) {
  return mailbox_.Post(key, std::move(call));
}

void Driver::Loop() {
  // Waiting is by real time, whatever clock the decisions are given.
  const RealClock real;
  Time next_tick = real.Now();
  Time next_publication = next_tick;
  while (!stopping_) {
    auto call = mailbox_.TakeUntil(next_tick);
    for (int taken = 0; call && taken < kMostInputsPerWrite; ++taken) {
      (*call)();
      call = nullptr;
      call = mailbox_.TryTake();
    }
    if (call) (*call)();
    // After a write that took long, what came meanwhile is decided before the tick that is due.
    const bool ticks = real.Now() >= next_tick;
    if (ticks)
      OnTick();
    else if (failure_.ok())
      Flush();
    events_.AllIsTold();
    if (!ticks) continue;
    next_tick = real.Now() + options_.tick;
    if (real.Now() < next_publication) continue;
    next_publication = real.Now() + kPublicationPeriod;
    Measure();
    if (!failure_.ok()) continue;
    LookAtWritten({});  // what members do meanwhile is not written
    Publish();
  }
}

void Driver::GiveEvents() {
  const RealClock real;
  while (!stopping_) {
    clock_.Now();  // it shows that the process is awake, also while the driver's thread waits
    while (events_.Deliver()) {
    }
    events_.AwaitNews(real.Now() + options_.tick);
  }
}

void Driver::OnTick() {
  if (failure_.ok()) Handle(Tick{WhenMembersWereHeard()});
  Flush();
  if (clock_.Now() - started_ >= options_.settings.PatienceAfterRestart()) reattaching_ = false;
  sessions_.CloseSilent(clock_.Now());
  DropIdleCommitThreads();
}

std::shared_ptr<const std::map<MemberId, Time>> Driver::WhenMembersWereHeard() const {
  const Time now = clock_.Now();
  std::map<MemberId, Time> heard = sessions_.WhenMembersWereHeard(now);
  waiting_joins_.AddTo(heard, now);
  return std::make_shared<const std::map<MemberId, Time>>(std::move(heard));
}

// ---- what comes

bool Driver::Tell(const LaunchTold& told) {
  if (failing_) return false;
  return Post(kLaunches, [this, told] { Feed(told); });
}

Acceptor Driver::MakeAcceptor() {
  return [this](std::shared_ptr<Session> session) { return Accept(std::move(session)); };
}

SessionHandler Driver::Accept(std::shared_ptr<Session> session) {
  const SessionId id = next_session_++;
  const std::weak_ptr<Session> weak = session;
  const auto inbound = std::make_shared<Inbound>();
  // Called with the first frame, and from here, so that a session without one is closed in time;
  // the first call counts.
  const auto open = [this, id, weak, inbound] {
    if (std::exchange(inbound->opened, true)) return;
    if (auto opened = weak.lock())
      sessions_.Opened(id, std::move(opened), clock_.Now(),
                       [inbound](Time now) { return inbound->Heard(now); });
  };
  Post(kStrangers, [open, session = std::move(session)] { open(); });
  const auto refuse = [this, weak](const char* reason, const absl::Status& why) {
    metrics_.GetCounter("muster_frames_refused_total", reason).Add();
    if (const auto opened = weak.lock()) opened->Close(why);
  };
  const auto on_frame = [this, id, inbound, open, refuse](const Frame& frame) {
    if (frame.payload.size() > 0)
      return refuse("payload", absl::InvalidArgumentError("a frame with a payload"));
    const auto bytes = static_cast<int64_t>(frame.header.size());
    const Time came = clock_.Now();
    inbound->Came(frame.header.size(), came);
    absl::StatusOr<AtCoordinator> message = inbound->Read(frame.header);
    if (absl::IsFailedPrecondition(message.status())) {
      metrics_.GetCounter("muster_frames_refused_total", "version").Add();
      Post(kStrangers,
           [this, id, inbound, open, size = frame.header.size(), receipt = frame.receipt,
            asks = AsksForItsJob(frame.header), why = message.status()] {
             inbound->Taken(size);
             open();
             OnOtherVersion(id, asks, why);
           });
      return;
    }
    if (!message.ok()) return refuse("header", message.status());
    const std::string turn = inbound->TurnFor(*message);
    if (const Join* join = JoinIn(*message))
      waiting_joins_.Came(id, join->id, [inbound](Time now) { return inbound->Heard(now); });
    auto say = [this, id, inbound, open, came, size = frame.header.size(), receipt = frame.receipt,
                message = *std::move(message)] {
      inbound->Taken(size);
      if (JoinIn(message) != nullptr) waiting_joins_.Taken(id);
      open();
      sessions_.Said(id, message, came);
    };
    if (mailbox_.Offer(turn, std::move(say), bytes)) return;
    waiting_joins_.Taken(id);
    refuse("too_many",
           absl::ResourceExhaustedError("too many frames or bytes of its job are waiting"));
  };
  return {.on_frame = on_frame,
          .on_broken =
              [this, id, inbound](const absl::Status&) {
                inbound->Broke();
                Post(inbound->turn(), [this, id, inbound] {
                  inbound->opened = true;  // it is not to be opened any more
                  sessions_.Broken(id);
                });
              },
          .inbound = kInbound};
}

void Driver::Change(Decide decide, Done done) {
  const auto answer = Once(std::move(done));
  const absl::Status taken = Request([this, decide = std::move(decide), answer] {
    if (!failure_.ok()) return answer(absl::UnavailableError(failure_.message()));
    absl::StatusOr<std::optional<Input>> input = decide(Look());
    if (input.ok() && *input) Handle(**input);
    unanswered_.push_back({answer, input.status()});
  });
  if (!taken.ok()) answer(taken);
}

absl::Status Driver::Request(std::function<void()> call) {
  if (mailbox_.Offer(kRequests, std::move(call), 0, kMostWaitingRequests)) return absl::OkStatus();
  if (stopping_) return ShuttingDown();
  return absl::UnavailableError(absl::StrCat(
      kMostWaitingRequests.items, " requests wait for the coordinator already; retry later"));
}

absl::StatusOr<KnownJobsPtr> Driver::Known() const {
  if (stopping_) return ShuttingDown();
  const MutexLock lock(known_mutex_);
  return known_.jobs;
}

absl::StatusOr<KnownCluster> Driver::KnownWithHosts() const {
  if (stopping_) return ShuttingDown();
  const MutexLock lock(known_mutex_);
  return known_;
}

// What is known to be over is published before its end is told (Flush), and the end that comes
// after `since` is the one that is not known yet.
void Driver::Watch(const std::string& job, std::optional<EventPlace> after,
                   std::function<void(absl::Status)> found, std::shared_ptr<JobWatcher> watcher,
                   const std::function<absl::Status(const KnownJob&)>& check) {
  const int64_t since = events_.next();
  const absl::StatusOr<KnownJobsPtr> jobs = Known();
  if (!jobs.ok()) return found(jobs.status());
  const absl::StatusOr<KnownJobPtr> known = FindJob(**jobs, job);
  if (!known.ok()) return found(known.status());
  if (check != nullptr)
    if (const absl::Status refused = check(**known); !refused.ok()) return found(refused);
  const bool is_over = Ended((*known)->status.job.phase);
  found(absl::OkStatus());
  events_.Watch(job, after, since, std::move(watcher), is_over);
}

absl::Status Driver::Ask(Background::Call call) {
  if (query_thread_.Run(std::move(call))) return absl::OkStatus();
  if (stopping_) return ShuttingDown();
  return absl::UnavailableError(
      absl::StrCat("query queue full (", kMostWaitingQueries, "); retry later"));
}

void Driver::AfterDiskWork(const std::string& job, std::function<std::function<void()>()> look) {
  Post(TurnOf(job), [this, job, look = std::move(look)] {
    CommitThread(job).Run([this, job, look](const std::stop_token&) {
      Post(TurnOf(job), [this, answer = look()] { AfterPublishing(answer); });
    });
  });
}

absl::Status Driver::Healthy() const {
  if (!broken_) return absl::OkStatus();
  return absl::UnavailableError("the journal cannot be written until the coordinator starts again");
}

absl::Status Driver::Ready() const {
  if (failing_) return absl::UnavailableError("the journal cannot be written");
  if (reattaching_)
    return absl::UnavailableError("members of a running job have not come back yet");
  return absl::OkStatus();
}

// ---- decide, write, act

void Driver::Feed(Input input) {
  if (failure_.ok()) return Handle(input);
  const bool said_again =
      std::holds_alternative<MemberSays>(input) || std::holds_alternative<AgentSays>(input) ||
      std::holds_alternative<SignatureAsked>(input) || std::holds_alternative<AgentUp>(input);
  if (said_again) return;
  if (const MemberDown* down = std::get_if<MemberDown>(&input))
    std::erase_if(held_back_, [&](const Input& other) {
      const MemberDown* earlier = std::get_if<MemberDown>(&other);
      return earlier != nullptr && earlier->member == down->member;
    });
  if (const AgentDown* down = std::get_if<AgentDown>(&input))
    std::erase_if(held_back_, [&](const Input& other) {
      const AgentDown* earlier = std::get_if<AgentDown>(&other);
      return earlier != nullptr && earlier->agent == down->agent;
    });
  held_back_.push_back(std::move(input));
}

void Driver::Handle(const Input& input) {
  TimeCheckpoint(input);
  for (Action& action : coordinator_.Take(input, clock_.Now())) Sort(std::move(action));
  const JobDeleted* deleted = std::get_if<JobDeleted>(&input);
  if (deleted != nullptr && coordinator_.jobs().Find(deleted->id) == nullptr)
    ForgetJob(deleted->id);
}

void Driver::TimeCheckpoint(const Input& input) {
  if (const MemberSays* says = std::get_if<MemberSays>(&input)) {
    if (const auto* failed = std::get_if<SegmentFailed>(&says->message))
      metrics_
          .GetCounter("muster_checkpoint_failures_total",
                      failed->disk_is_slow ? "disk_slow" : "not_written")
          .Add();
    const SegmentWritten* part = std::get_if<SegmentWritten>(&says->message);
    if (part != nullptr)
      checkpoint_times_.PartWritten(coordinator_.JobOfMember(says->member), part->lineage,
                                    part->step, part->seconds, clock_.Now());
  } else if (const ManifestCommitted* done = std::get_if<ManifestCommitted>(&input)) {
    const Manifest& manifest = done->manifest;
    const auto seconds =
        checkpoint_times_.Committed(manifest.job, manifest.lineage, manifest.step, clock_.Now());
    if (seconds) metrics_.GetHistogram("muster_checkpoint_seconds").Observe(*seconds);
  } else if (std::holds_alternative<ManifestFailed>(input)) {
    metrics_.GetCounter("muster_checkpoint_failures_total", "not_committed").Add();
  }
}

void Driver::Sort(Action action) {
  const auto sort = [this](auto a) {
    using A = decltype(a);
    if constexpr (std::is_same_v<A, PersistJob>) {
      if (a.job.phase == JobPhase::kChecking || a.job.phase == JobPhase::kStarting)
        AfterWrite([this, id = a.job.id] { MakeCheckpointDir(id); });
      if (a.job.environment && sessions_.WaitsForEnvironment(a.job.id))
        AfterWrite([this, id = a.job.id] {
          if (const auto job = JobFor(id); job && job->environment) sessions_.TellEnvironment(*job);
        });
      // Only the last value counts, as all are written at once.
      const auto same = [&](const Persisted& p) {
        const PersistJob* other = std::get_if<PersistJob>(&p);
        return other != nullptr && other->job.id == a.job.id;
      };
      std::erase_if(unsaved_, same);
      unsaved_.emplace_back(std::move(a));
    } else if constexpr (std::is_constructible_v<Persisted, A>) {
      unsaved_.emplace_back(std::move(a));
    } else {
      if constexpr (std::is_same_v<A, Announce>) NoteForWebhooks(a);
      AfterWrite([this, a = std::move(a)] { CarryOut(a); });
    }
  };
  std::visit(sort, std::move(action));
}

// Changes of a job's phase the journal notes by itself.
void Driver::NoteForWebhooks(const Announce& action) {
  const JobJournal* job = journal_.keeps_outbox() ? coordinator_.jobs().Find(action.job) : nullptr;
  if (job == nullptr) return;
  if (auto event =
          EventOfAnnouncement(action.event, action.text, action.fields, *job, UnixMillis())) {
    if (event->type == kCheckpointFailed && !failed_checkpoints_.Take(*event, clock_.Now())) return;
    unsaved_.emplace_back(*std::move(event));
  }
}

void Driver::AfterWrite(std::function<void()> call) { after_write_.push_back(std::move(call)); }

// Whoever hears it and asks again at once finds what it was told.
void Driver::AfterPublishing(const std::function<void()>& call) {
  if (!failure_.ok()) return call();  // nothing is published until the journal can be written
  const Done done = [this, call](const absl::StatusOr<KnownJobs>& written) {
    if (written.ok()) {
      LookAtWritten({});
      Publish();
    }
    call();
  };
  unanswered_.push_back({done, absl::OkStatus()});
}

void Driver::Flush() {
  if (broken_) return;
  // Nothing was taken since a write failed: what it left is tried again as it is.
  if (failure_.ok())
    for (Action& action : coordinator_.Settle(clock_.Now())) Sort(std::move(action));
  settled_ = true;
  if (!unsaved_.empty()) {
    if (const absl::Status written = journal_.Write(unsaved_, UnixMillis()); !written.ok())
      return OnWriteFailed(written);
    LookAtWritten(std::exchange(unsaved_, {}));
    Publish();
    options_.pass("persisted_unpublished");
  }
  while (!after_write_.empty()) {
    const std::function<void()> call = std::move(after_write_.front());
    after_write_.pop_front();
    call();
  }
  for (const auto& [answer, decided] : std::exchange(unanswered_, {}))
    answer(decided.ok() ? absl::StatusOr<KnownJobs>(Look()) : decided);
  if (std::exchange(sealed_, false)) options_.pass("forming");
  if (!failure_.ok()) OnWritten();
}

void Driver::OnWriteFailed(const absl::Status& why) {
  const bool full = absl::IsResourceExhausted(why);
  broken_ = !full;
  failing_ = true;
  if (failure_.ok() || broken_) {
    const std::string text = absl::StrCat(
        "the journal cannot be written (", why.message(), "): training goes on, but nothing is ",
        "decided or recorded until it can be; ",
        full ? "make room on its disk" : "the coordinator ends, and is to be started again");
    TellFailure(text);
    failure_ = absl::Status(why.code(), text);
  }
  Publish();
  // Where the disk is full it is decided, and nobody knows when it will be written.
  const char* const when = full ? "; what is asked for is done then: asking again is safe" : "";
  for (const auto& [answer, decided] : std::exchange(unanswered_, {}))
    answer(decided.ok() ? absl::UnavailableError(absl::StrCat(failure_.message(), when)) : decided);
  if (broken_) options_.on_broken(failure_);
}

// Members go on, and find the other one, or wait for a coordinator.
void Driver::OnReplaced(const absl::Status& why) {
  if (broken_) return;
  broken_ = true;
  failing_ = true;
  failure_ = absl::Status(why.code(),
                          absl::StrCat(why.message(), ": it decides nothing any more, and ends"));
  TellFailure(std::string(failure_.message()));
  Publish();
  options_.on_broken(failure_);
}

void Driver::TellFailure(const std::string& text) {
  LogError("%s", text);
  for (const auto& [id, known] : last_written_)
    if (!Ended(known->status.job.phase))
      events_.Append(id, {"", 0, UnixMillis(), "state", text, {{"saves", "false"}}});
}

// The one before may have died between writing an end and telling it, and what it told is gone.
void Driver::TellEndsOfBefore() {
  for (const auto& [id, known] : last_written_)
    if (const JobJournal& job = known->status.job; Ended(job.phase)) {
      const Announce end = AnnouncementOfEnd(job);
      events_.Append(id, {"", 0, known->times.ended, end.event, end.text, end.fields});
    }
}

void Driver::OnWritten() {
  failure_ = absl::OkStatus();
  failing_ = false;
  Publish();
  LogInfo("the journal can be written again");
  for (const std::string& id : coordinator_.jobs().Ids())
    if (!Ended(coordinator_.jobs().Find(id)->phase))
      events_.Append(
          id,
          {"", 0, UnixMillis(), "state", "the journal can be written again", {{"saves", "true"}}});
  for (const Input& input : std::exchange(held_back_, {})) Handle(input);
  // Who is connected has spoken, though nothing of that was kept.
  Handle(Tick{WhenMembersWereHeard(), /*was_deaf=*/true});
  sessions_.CloseAll(absl::AbortedError(
      "the journal could not be written; report again what was not acknowledged"));
}

KnownJobs Driver::Look() {
  for (const std::string& id : coordinator_.TakeChanged()) LookAt(id);
  return ListOf(looked_at_);
}

void Driver::LookAt(const std::string& id) {
  unwritten_.insert(id);
  if (coordinator_.jobs().Find(id) == nullptr) {
    looked_at_.erase(id);
    return;
  }
  looked_at_[id] = std::make_shared<const KnownJob>(
      KnownJob{coordinator_.jobs().StatusOf(id), journal_.TimesOf(id), journal_.TailOf(id)});
}

// Their times and last values are others now.
void Driver::LookAtWritten(const std::vector<Persisted>& changes) {
  std::set<std::string> changed = coordinator_.TakeChanged();
  bool hosts_changed = false;  // their records
  for (const Persisted& change : changes) {
    changed.insert(JobOfChange(change));
    if (std::holds_alternative<PersistHost>(change) || std::holds_alternative<ForgetHost>(change))
      hosts_changed = true;
    if (const auto* quotas = std::get_if<PersistQuotas>(&change))
      quotas_ = std::make_shared<const Quotas>(quotas->quotas);
  }
  changed.erase("");  // of hosts and namespaces
  for (const std::string& id : changed) LookAt(id);
  if (coordinator_.TakeHostsChanged())
    hosts_ = std::make_shared<const KnownHosts>(coordinator_.HostStatuses());
  if (hosts_changed)
    host_records_ = std::make_shared<const HostRecords>(coordinator_.host_records());
  if (settled_ && (launches_ == nullptr || *launches_ != coordinator_.launches()))
    launches_ = std::make_shared<const Launches>(coordinator_.launches());
  if (*tokens_ != coordinator_.tokens())
    tokens_ = std::make_shared<const std::vector<Token>>(coordinator_.tokens());
  for (const std::string& id : std::exchange(unwritten_, {})) {
    const auto job = looked_at_.find(id);
    if (job == looked_at_.end())
      last_written_.erase(id);
    else
      last_written_[id] = job->second;
  }
}

void Driver::Publish() {
  auto known = std::make_shared<KnownJobs>(ListOf(last_written_));
  const auto preparing = sessions_.Preparing();
  for (KnownJobPtr& job : *known) {
    if (Ended(job->status.job.phase)) continue;
    std::string waits_for(failure_.message());
    if (const auto those = preparing.find(job->status.job.id);
        failure_.ok() && those != preparing.end())
      waits_for = WithPreparing(job->status.waits_for, those->second);
    if (waits_for.empty() || waits_for == job->status.waits_for) continue;
    KnownJob waiting = *job;
    waiting.status.waits_for = std::move(waits_for);
    job = std::make_shared<const KnownJob>(std::move(waiting));
  }
  const MutexLock lock(known_mutex_);
  known_ = {std::move(known), hosts_, quotas_, tokens_, host_records_, launches_};
}

void Driver::ForgetJob(const std::string& id) {
  journal_.Forget(id);
  events_.Forget(id);
  checkpoint_times_.Forget(id);
  failed_checkpoints_.Forget(id);
  log_places_.Forget(id);
  log_marks_.Forget(id);
  if (options_.logs != nullptr) options_.logs->Forget(id);
  looked_at_.erase(id);
  last_written_.erase(id);
  Publish();
}

Background& Driver::CommitThread(const std::string& job) {
  std::unique_ptr<Background>& thread = commit_threads_[job];
  if (thread == nullptr) thread = std::make_unique<Background>();
  return *thread;
}

void Driver::DropIdleCommitThreads() {
  std::erase_if(commit_threads_, [&](const auto& entry) {
    const JobJournal* job = coordinator_.jobs().Find(entry.first);
    return (job == nullptr || Ended(job->phase)) && entry.second->idle();
  });
}

void Driver::CarryOut(const ToMember& action) {
  sealed_ = sealed_ || std::holds_alternative<Seal>(action.message);
  sessions_.Tell(action.member, action.message, clock_.Now());
}

void Driver::CarryOut(const ToMembers& action) {
  sealed_ = sealed_ || std::holds_alternative<Seal>(action.message);
  sessions_.TellAll(action.members, action.message, clock_.Now());
}

void Driver::CarryOut(const EndSession& action) { sessions_.End(action.member, action.why); }

void Driver::CarryOut(const ToHost& action) {
  log_places_.Told(action.agent, action.wanted);
  sessions_.Tell(action.agent, action.wanted);
  TellTrust(action.agent);
}

void Driver::TrustChanged(bool fewer) {
  Post(kAgents, [this, fewer] {
    if (fewer)
      return sessions_.CloseAll(
          absl::UnavailableError("others are trusted from now on, and all sessions are made anew"));
    for (const AgentId& agent : sessions_.Agents()) TellTrust(agent);
  });
}

// Behind each Wanted, the first of which makes a session count at the agent.
void Driver::TellTrust(const AgentId& agent) {
  const std::string trust = options_.trust ? options_.trust() : "";
  if (!trust.empty()) sessions_.Tell(agent, AuthorityIs{trust});
}

void Driver::CarryOut(const Sign& action) {
  const absl::StatusOr<MemberSigned> answer = options_.sign(action.ask);
  if (answer.ok()) return sessions_.Tell(action.agent, *answer);
  LogWarning("the certificate of %s of job %s cannot be signed: %s", action.ask.process.name,
             action.ask.process.job, answer.status().message());
  sessions_.Tell(action.agent,
                 SignRefused{action.ask.process, std::string(answer.status().message())});
}

void Driver::CarryOut(const RefuseToSign& action) { sessions_.Tell(action.agent, action.refused); }

void Driver::CarryOut(const EndAgentSession& action) { sessions_.End(action.agent, action.why); }

void Driver::CarryOut(const CommitManifest& action) {
  const JobJournal* job = coordinator_.jobs().Find(action.manifest.job);
  if (job == nullptr) return;
  ManifestFile file{journal_.cluster(), action.manifest,
                    job->environment.value_or(NumericEnvironment{}), job->lineages};
  file.manifest.spec = ToJson(job->spec);
  CommitThread(job->id).Run([this, file = std::move(file), replaces = action.replaces](
                                const std::stop_token&) { Commit(file, replaces); });
}

Catalogue Driver::OurCatalogue() const {
  return Catalogue(journal_.kv(), journal_.cluster(), options_.check_claim);
}

// The store takes no write any more, whoever's failed first: then the driver ends the process
// instead of trying the commit again. A commit fails for other reasons, too, so an empty batch
// tells. On a commit thread.
// Likewise where another coordinator has taken our place.
bool Driver::TakesNoWrite(const std::string& job, const absl::Status& failed) {
  if (absl::IsResourceExhausted(failed)) return false;
  if (absl::IsAborted(failed)) {
    Post(TurnOf(job), [this, failed] { OnReplaced(failed); });
    return true;
  }
  const absl::Status store = journal_.kv().Write({});
  if (store.ok() || absl::IsResourceExhausted(store)) return false;
  Post(TurnOf(job), [this, store] {
    if (!broken_) OnWriteFailed(store);
  });
  return true;
}

std::unique_ptr<CheckpointFiles> Driver::FilesOf(const std::string& job) const {
  return CheckpointFilesIn(CheckpointDir(options_.checkpoint_root, job));
}

// On the job's commit thread.
void Driver::Commit(const ManifestFile& file, bool replaces) {
  options_.pass("before_commit");
  const Manifest& manifest = file.manifest;
  const absl::StatusOr<Manifest> committed =
      CommitCheckpoint(OurCatalogue(), file, *FilesOf(manifest.job), replaces, UnixMillis() / 1000);
  if (!committed.ok()) {
    if (TakesNoWrite(manifest.job, committed.status())) return;
    Post(TurnOf(manifest.job),
         [this, failed = ManifestFailed{manifest.job, manifest.lineage, manifest.step,
                                        std::string(committed.status().message())}] {
           Feed(failed);
         });
    return;
  }
  metrics_.GetCounter("muster_checkpoints_committed_total").Add();
  Post(TurnOf(manifest.job), [this, done = ManifestCommitted{*committed}] { Feed(done); });
}

void Driver::CarryOut(const PruneManifests& action) {
  CommitThread(action.newest.job).Run([this, action](const std::stop_token&) {
    const absl::Status pruned =
        PruneCheckpoints(OurCatalogue(), *FilesOf(action.newest.job), action.newest,
                         action.lineages, action.keep, action.best);
    if (absl::IsAborted(pruned)) TakesNoWrite(action.newest.job, pruned);
  });
}

// After a failure it is as it was before, or its row is gone and its files are orphans.
void Driver::CarryOut(const RemoveManifest& action) {
  CommitThread(action.job).Run([this, action](const std::stop_token&) {
    Catalogue catalogue = OurCatalogue();
    const std::unique_ptr<CheckpointFiles> files = FilesOf(action.job);
    absl::Status removed;
    if (action.force) {
      removed = catalogue.Remove(action.job, action.lineage, action.step, *files);
    } else {
      const absl::StatusOr<bool> went =
          catalogue.RemoveUnnamed(action.job, action.lineage, action.step, *files);
      removed = went.status();
      if (went.ok() && !*went) removed = absl::FailedPreconditionError("it is kept by a name now");
    }
    if (!removed.ok() && TakesNoWrite(action.job, removed)) return;
    ManifestRemoved done{action.job, action.lineage, action.step, action.by, ""};
    const absl::StatusOr<bool> is_there = catalogue.Has(action.job, action.lineage, action.step);
    if (!is_there.ok() || *is_there) done.failure = std::string(removed.message());
    if (!removed.ok() && done.failure.empty())
      LogWarning("files of a deleted checkpoint of job %s stay: %s", action.job, removed.message());
    Post(TurnOf(action.job), [this, done = std::move(done)] { Feed(done); });
  });
}

// What cannot be written is told again with the next commit.
void Driver::CarryOut(const SaveMeasure& action) {
  CommitThread(action.job).Run([this, action](const std::stop_token&) {
    const std::unique_ptr<CheckpointFiles> files = FilesOf(action.job);
    absl::Status saved = OurCatalogue().MayChangeNow();
    if (saved.ok()) saved = WriteMeasure(*files, action.lineage, action.step, action.measure);
    if (saved.ok()) return;
    LogWarning("%s cannot be written, so that the checkpoint may not count as the best: %s",
               files->PathOf(MeasureFileOf(action.lineage, action.step)), saved.message());
    if (absl::IsAborted(saved)) TakesNoWrite(action.job, saved);
  });
}

std::string Driver::SpoolOf(const std::string& job) const {
  return SpoolFolder(CheckpointDir(options_.checkpoint_root, job));
}

// What stays is swept before a reader begins, or when the job begins again.
void Driver::CarryOut(const TrimSpool& action) {
  CommitThread(action.job).Run([this, action](const std::stop_token&) {
    absl::Status removed = OurCatalogue().MayChangeNow();
    if (removed.ok()) removed = RemoveSegments(SpoolOf(action.job), action.segments);
    if (removed.ok()) return;
    LogWarning("samples of job %s that are not needed any more cannot be deleted: %s", action.job,
               removed.message());
    if (absl::IsAborted(removed)) TakesNoWrite(action.job, removed);
  });
}

// What cannot be deleted is read by nobody, and the reader begins all the same.
void Driver::CarryOut(const TidySpool& action) {
  CommitThread(action.job).Run([this, action](const std::stop_token&) {
    absl::Status swept = OurCatalogue().MayChangeNow();
    if (swept.ok()) swept = SweepSpool(SpoolOf(action.job), action.facts, action.reader);
    if (absl::IsAborted(swept) && TakesNoWrite(action.job, swept)) return;
    if (!swept.ok())
      LogWarning("what earlier readers of job %s have left cannot be deleted: %s", action.job,
                 swept.message());
    Post(TurnOf(action.job), [this, done = SpoolTidied{action.job, action.reader}] { Feed(done); });
  });
}

void Driver::CarryOut(const ComputeDigest& action) {
  CommitThread(action.job).Run([this, action](const std::stop_token& stop) {
    const absl::StatusOr<std::string> digest = Digest(*FilesOf(action.job), action.manifest, stop);
    if (absl::IsCancelled(digest.status())) return;  // the next term computes it
    Post(TurnOf(action.job),
         [this, done = DigestDone{action.job, action.start, digest.value_or(""),
                                  std::string(digest.status().message())}] { Feed(done); });
  });
}

// Members write into it and do not make it: one that outlives its deleted job leaves nothing
// behind.
void Driver::MakeCheckpointDir(const std::string& job) {
  CommitThread(job).Run([this, job](const std::stop_token&) {
    const std::unique_ptr<CheckpointFiles> files = FilesOf(job);
    const absl::Status made = files->MakeFolder();
    if (!made.ok())
      LogWarning("the checkpoint folder %s cannot be made: %s", files->PathOf(""), made.message());
  });
}

void Driver::CarryOut(const DeleteJob& action) {
  CommitThread(action.id).Run([this, id = action.id](const std::stop_token&) {
    absl::Status erased = OurCatalogue().MayChangeNow();
    if (erased.ok()) erased = RemoveSpool(SpoolOf(id));
    if (erased.ok()) erased = OurCatalogue().RemoveAll(id, *FilesOf(id));
    if (erased.ok()) erased = journal_.Erase(id);
    if (!erased.ok() && TakesNoWrite(id, erased)) return;
    Post(TurnOf(id), [this, done = JobDeleted{id, std::string(erased.message())}] { Feed(done); });
  });
}

void Driver::CarryOut(const Announce& action) {
  if (action.text.empty()) {
    LogDebug("job %s: %s", action.job, action.event);
  } else {
    LogInfo("job %s: %s", action.job, action.text);
  }
  events_.Append(action.job, {"", 0, UnixMillis(), action.event, action.text, action.fields});
}

// As its Join would be answered.
std::optional<Leave> Driver::WhyItLeaves(const ProcessName& process) const {
  const JobJournal* job = coordinator_.jobs().Find(process.job);
  if (job == nullptr || !HoldsPlaces(*job)) return std::nullopt;
  const std::string why = WhyNotTold(*job, process);
  if (why.empty()) return std::nullopt;
  return Leave{coordinator_.term(), kExitReplaced,
               absl::StrCat(process.name, " cannot take part: ", why), journal_.cluster()};
}

// Who only asks for its job has nothing to lose and ends. A member or a host agent may hold what
// nobody else has, and its coordinator of before may come back: it is closed, and tries again.
void Driver::OnOtherVersion(SessionId id, bool asks, const absl::Status& why) {
  const Leave leave{journal_.term(), kExitOtherEnvironment, std::string(why.message()),
                    journal_.cluster()};
  sessions_.TurnAway(id, why, asks ? std::optional(leave) : std::nullopt, clock_.Now());
}

void Driver::AnswerAsk(SessionId id, const AskJob& ask, const std::optional<ProcessName>& proven) {
  if (!failure_.ok()) return;  // its session will end, and it asks again
  AfterWrite([this, id, ask, proven] {
    if (proven)
      if (const auto leave = WhyItLeaves(*proven))
        return sessions_.Answer(id, *leave, clock_.Now());
    if (const auto job = JobFor(ask.job)) return sessions_.Answer(id, *job, clock_.Now());
    sessions_.Answer(id, coordinator_.jobs().LeaveOf(ask.job), clock_.Now());
  });
}

void Driver::Keep(const AgentId& agent, const LogLines& lines) {
  if (options_.logs == nullptr || !log_places_.Has(agent, lines)) return;
  LogLines kept = lines;
  kept.left_out += log_marks_.Note(agent, lines);
  options_.logs->Add(std::move(kept));
}

// What cannot be signed is not journalled as signed.
void Driver::OnAskedToSign(const AgentId& agent, const SignMember& ask) {
  absl::Status may = CheckPublicKey(ask.public_key);
  if (!options_.sign)
    may = absl::FailedPreconditionError(
        "this coordinator has no authority that signs certificates (authority.key in the folder "
        "that --identity names)");
  if (!may.ok()) return sessions_.Tell(agent, SignRefused{ask.process, std::string(may.message())});
  Feed(SignatureAsked{agent, ask, HashOfKey(ask.public_key)});
}

std::optional<JobIs> Driver::JobFor(const std::string& job) const {
  std::optional<JobIs> is = coordinator_.jobs().JobOf(job);
  if (is) is->checkpoint_dir = CheckpointDir(options_.checkpoint_root, job);
  return is;
}

// Members of all jobs; of the job that was started last: its view, lineage and loss.
void Driver::MeasureView() {
  View none;
  const View* view = &none;
  double loss = NAN;
  size_t members = 0;
  int64_t newest = -1;
  for (const auto& [id, known] : last_written_) {
    const JobJournal& job = known->status.job;
    if (Ended(job.phase) || !job.view) continue;
    members += job.view->members.size();
    if (job.submission < newest) continue;
    newest = job.submission;
    view = &*job.view;
    loss = known->tail.loss.value_or(NAN);
  }
  metrics_.GetGauge("muster_members").Set(static_cast<double>(members));
  metrics_.GetGauge("muster_view").Set(static_cast<double>(view->number.value()));
  metrics_.GetGauge("muster_lineage").Set(static_cast<double>(view->lineage.value()));
  metrics_.GetGauge("muster_loss").Set(loss);
}

// Of each job that has started and not ended.
void Driver::MeasureJobs() {
  std::map<std::string, Counted> measured;
  for (const auto& [id, known] : last_written_) {
    const JobStatus& status = known->status;
    if (!HoldsPlaces(status.job)) continue;
    Step saved;
    for (const auto& [lineage, step] : status.checkpoints) saved = std::max(saved, step);
    metrics_.GetGauge("muster_job_step", id).Set(static_cast<double>(status.step.value()));
    metrics_.GetGauge("muster_job_steps_wanted", id).Set(static_cast<double>(status.steps));
    metrics_.GetGauge("muster_job_loss", id).Set(known->tail.loss.value_or(NAN));
    metrics_.GetGauge("muster_job_checkpoint_step", id).Set(static_cast<double>(saved.value()));
    if (const std::optional<StreamStatus>& stream = status.stream) {
      metrics_.GetGauge("muster_job_stream_samples", id)
          .Set(static_cast<double>(stream->positions));
      metrics_.GetGauge("muster_job_stream_spool_bytes", id)
          .Set(static_cast<double>(stream->spool_bytes));
    }
    Counted& counted = measured[id] = measured_jobs_[id];
    const auto grow = [](Counter& counter, int64_t& before, int64_t now) {
      counter.Add(static_cast<double>(now - before));
      before = now;
    };
    grow(metrics_.GetCounter("muster_job_recoveries_total", id), counted.recoveries,
         status.job.recoveries);
    grow(metrics_.GetCounter("muster_job_rewinds_total", id), counted.rewinds, status.job.rewinds);
  }
  for (const auto& [id, counted] : measured_jobs_)
    if (!measured.contains(id)) metrics_.ForgetJob(id);
  measured_jobs_ = std::move(measured);
}

// A host that drains counts as that alone; else one that is left out for all jobs does.
void Driver::MeasureHosts() {
  std::map<std::string, double> by_state{{"up", 0}, {"away", 0}, {"draining", 0}, {"left_out", 0}};
  double slots = 0, devices = 0;
  std::set<std::pair<std::string, std::string>> used_devices;  // with their hosts
  for (const HostStatus& host : *hosts_) {
    ++by_state[host.draining            ? "draining"
               : !host.left_out.empty() ? "left_out"
               : host.up                ? "up"
                                        : "away"];
    slots += host.slots;
    devices += static_cast<double>(host.devices.size());
    for (const HostDevice& device : host.devices)
      if (device.holder != PlacementNumber()) used_devices.emplace(host.name, device.id);
  }
  double used = 0;
  for (const auto& [id, known] : last_written_) {
    if (!HoldsPlaces(known->status.job)) continue;
    for (const auto& [member, placement] : known->status.job.placements) {
      if (!placement.host || placement.host->empty()) continue;
      ++used;
      for (const std::string& device : placement.devices)
        used_devices.emplace(*placement.host, device);
    }
  }
  for (const auto& [state, count] : by_state) metrics_.GetGauge("muster_hosts", state).Set(count);
  metrics_.GetGauge("muster_host_slots", "total").Set(slots);
  metrics_.GetGauge("muster_host_slots", "used").Set(used);
  metrics_.GetGauge("muster_host_devices", "total").Set(devices);
  metrics_.GetGauge("muster_host_devices", "used").Set(static_cast<double>(used_devices.size()));
}

void Driver::Measure() {
  std::map<std::string, double> by_state;
  for (const JobPhase phase : kJobPhases) by_state[std::string(PhaseName(phase))] = 0;
  double recoveries = 0;
  double rewinds = 0;
  double lanes = 0;
  for (const auto& [id, known] : last_written_) {
    const JobJournal& job = known->status.job;
    ++by_state[std::string(PhaseName(job.phase))];
    recoveries += static_cast<double>(job.recoveries);
    rewinds += static_cast<double>(job.rewinds);
    lanes += static_cast<double>(job.lanes.recomputed());
  }
  MeasureJobs();
  MeasureView();
  MeasureHosts();
  metrics_.GetGauge("muster_journal_writable").Set(failing_ ? 0 : 1);
  metrics_.GetGauge("muster_term").Set(static_cast<double>(journal_.term().value()));
  for (const auto& [state, count] : by_state) metrics_.GetGauge("muster_jobs", state).Set(count);
  const auto grown = [this](const char* name, double total) {
    double& before = counted_[name];
    return std::max(0.0, total - std::exchange(before, total));
  };
  metrics_.GetCounter("muster_recoveries_total").Add(grown("recoveries", recoveries));
  metrics_.GetCounter("muster_rewinds_total").Add(grown("rewinds", rewinds));
  metrics_.GetCounter("muster_lanes_recomputed_total").Add(grown("lanes", lanes));
  metrics_.GetGauge("muster_queue_depth", "mailbox").Set(static_cast<double>(mailbox_.size()));
  size_t commits = 0;
  for (const auto& [job, commit_thread] : commit_threads_) commits += commit_thread->queued();
  metrics_.GetGauge("muster_queue_depth", "checkpoint").Set(static_cast<double>(commits));
  metrics_.GetGauge("muster_queue_depth", "queries")
      .Set(static_cast<double>(query_thread_.queued()));
}

}  // namespace muster::coordinator
