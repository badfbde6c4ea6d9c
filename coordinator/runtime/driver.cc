#include "coordinator/runtime/driver.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "coordinator/runtime/checkpoints.h"
#include "coordinator/runtime/once.h"
#include "lib/checkpoint/load.h"
#include "lib/log/log.h"
#include "lib/wire/job_codec.h"
#include "lib/wire/message_codec.h"

namespace muster::coordinator {
namespace {

// Inputs taken before their decisions are written together.
constexpr int kMostInputsPerWrite = 256;
// Frames of one session that wait for the driver; more break it.
constexpr int64_t kMostWaitingFrames = 10'000;
constexpr size_t kMostWaitingQuestions = 16;

int64_t UnixMillis() { return absl::ToUnixMillis(absl::Now()); }

bool HadMembers(const RecoveredState& found) {
  return std::any_of(found.jobs.begin(), found.jobs.end(), [](const JobJournal& job) {
    return !Ended(job.phase) && job.number > ViewNumber(0);
  });
}

}  // namespace

Driver::Driver(Journal& journal, RecoveredState found, const Clock& clock, Metrics& metrics,
               DriverOptions options)
    : journal_(journal),
      clock_(clock),
      metrics_(metrics),
      options_(std::move(options)),
      reattaching_(HadMembers(found)),
      coordinator_(journal.cluster(), journal.term(), options_.settings, std::move(found),
                   clock.Now()),
      started_(clock.Now()),
      sessions_({.input = [this](Input input) { Feed(std::move(input)); },
                 .asked = [this](SessionId id, const AskJob& ask) { AnswerAsk(id, ask); },
                 .agent_came = [this] { WelcomeAgents(); }}),
      events_(journal.term()),
      questions_(kMostWaitingQuestions) {
  last_written_ = Look();
  thread_ = std::thread([this] { Loop(); });
}

Driver::~Driver() { Stop(); }

void Driver::Stop() {
  stopping_ = true;
  mailbox_.Close();
  if (thread_.joinable()) thread_.join();
  keeper_.Stop();
  questions_.Stop();
  // Whoever waits for an answer gets one from what is dropped here.
  while (mailbox_.TryTake()) {
  }
  deeds_.clear();
}

bool Driver::Post(std::function<void()> call) { return mailbox_.Post(std::move(call)); }

void Driver::Loop() {
  // Waiting is by real time, whatever clock the decisions are given.
  const RealClock real;
  Time next_tick = real.Now();
  while (!stopping_) {
    auto call = mailbox_.TakeUntil(next_tick);
    for (int taken = 0; call && taken < kMostInputsPerWrite; ++taken) {
      (*call)();
      call = nullptr;
      call = mailbox_.TryTake();
    }
    if (call) (*call)();
    if (failure_.ok()) Flush();
    if (real.Now() < next_tick) continue;
    OnTick();
    next_tick = real.Now() + options_.tick;
  }
}

void Driver::OnTick() {
  if (failure_.ok()) Take(Tick{});
  Flush();
  if (failure_.ok() && unsaved_.empty()) last_written_ = Look();
  if (clock_.Now() - started_ >= options_.settings.lease) reattaching_ = false;
  sessions_.CloseSilent(clock_.Now());
  events_.DropClosed();
  Measure();
}

// ---- what comes

Acceptor Driver::MakeAcceptor() {
  return [this](std::shared_ptr<Session> session) { return Accept(std::move(session)); };
}

SessionHandler Driver::Accept(std::shared_ptr<Session> session) {
  const SessionId id = next_session_++;
  const std::weak_ptr<Session> weak = session;
  const auto waiting = std::make_shared<std::atomic<int64_t>>(0);
  Post([this, id, session = std::move(session)] { sessions_.Opened(id, session, clock_.Now()); });
  const auto refuse = [this, weak](const char* reason, const absl::Status& why) {
    metrics_.GetCounter("muster_frames_refused_total", reason).Add();
    if (const auto open = weak.lock()) open->Close(why);
  };
  const auto on_frame = [this, id, waiting, refuse](const Frame& frame) {
    if (frame.payload.size() > 0)
      return refuse("payload", absl::InvalidArgumentError("a frame with a payload"));
    absl::StatusOr<AtCoordinator> message = DecodeAtCoordinator(frame.header);
    if (!message.ok()) return refuse("header", message.status());
    if (++*waiting > kMostWaitingFrames)
      return refuse("too_many",
                    absl::ResourceExhaustedError("more frames wait than one session may have"));
    Post([this, id, waiting, message = *std::move(message)] {
      --*waiting;
      sessions_.Said(id, message);
    });
  };
  return {.on_frame = on_frame, .on_broken = [this, id](const absl::Status&) {
            Post([this, id] { sessions_.Broken(id); });
          }};
}

void Driver::WelcomeAgents() {
  if (failure_.ok()) Later([this] { sessions_.TellAgents(last_wanted_); });
}

void Driver::Change(Decide decide, Done done) {
  Post([this, decide = std::move(decide), answer = Once(std::move(done))] {
    if (!failure_.ok()) return answer(absl::UnavailableError(failure_.message()));
    absl::StatusOr<std::optional<Input>> input = decide(Look());
    if (input.ok() && *input) Take(**input);
    Later([this, answer, status = input.status()] {
      if (status.ok()) return answer(Look());
      answer(status);
    });
  });
}

void Driver::Read(Done done) {
  Post([this, answer = Once(std::move(done))] {
    if (failure_.ok()) return Later([this, answer] { answer(Look()); });
    KnownJobs jobs = last_written_;
    for (KnownJobPtr& job : jobs) {
      if (Ended(job->status.job.phase)) continue;
      KnownJob waiting = *job;
      waiting.status.waits_for = std::string(failure_.message());
      job = std::make_shared<const KnownJob>(std::move(waiting));
    }
    answer(std::move(jobs));
  });
}

void Driver::Watch(const std::string& job, const std::string& after,
                   std::function<void(absl::Status)> found, std::shared_ptr<JobWatcher> watcher) {
  Read([this, job, after, found = std::move(found),
        watcher = std::move(watcher)](const absl::StatusOr<KnownJobs>& jobs) {
    if (!jobs.ok()) return found(jobs.status());
    const auto known = std::find_if(jobs->begin(), jobs->end(), [&](const KnownJobPtr& other) {
      return other->status.job.id == job;
    });
    if (known == jobs->end())
      return found(absl::NotFoundError(absl::StrCat("there is no job ", job)));
    found(absl::OkStatus());
    const auto watch = [this, job, after, watcher, over = Ended((*known)->status.job.phase)] {
      events_.Watch(job, after, watcher, over);
    };
    // What was decided so far, the job's end for one, is told first.
    if (!failure_.ok()) return watch();
    Later(watch);
  });
}

absl::Status Driver::Ask(Background::Call call) {
  if (questions_.Run(std::move(call))) return absl::OkStatus();
  if (stopping_) return ShuttingDown();
  return absl::UnavailableError(
      absl::StrCat("as many questions (digest, audit, fingerprints) wait as may, ",
                   kMostWaitingQuestions, "; ask again when some have been answered"));
}

absl::Status Driver::Ready() const {
  if (failing_) return absl::UnavailableError("the journal cannot be written");
  if (reattaching_) return absl::UnavailableError("members of the job come back");
  return absl::OkStatus();
}

// ---- decide, write, act

void Driver::Feed(Input input) {
  if (failure_.ok()) return Take(input);
  const bool said_again = std::holds_alternative<MemberSays>(input) ||
                          std::holds_alternative<AgentSays>(input) ||
                          std::holds_alternative<AgentUp>(input);
  if (said_again) return;
  if (const MemberDown* down = std::get_if<MemberDown>(&input))
    std::erase_if(held_back_, [&](const Input& other) {
      const MemberDown* earlier = std::get_if<MemberDown>(&other);
      return earlier != nullptr && earlier->member == down->member;
    });
  held_back_.push_back(std::move(input));
}

void Driver::Take(const Input& input) {
  TimeCheckpoint(input);
  for (Action& action : coordinator_.Take(input, clock_.Now())) Sort(std::move(action));
}

void Driver::TimeCheckpoint(const Input& input) {
  if (const MemberSays* says = std::get_if<MemberSays>(&input)) {
    const SegmentWritten* part = std::get_if<SegmentWritten>(&says->message);
    if (part != nullptr)
      checkpoint_times_.PartWritten(part->lineage, part->step, part->seconds, clock_.Now());
  } else if (const ManifestCommitted* done = std::get_if<ManifestCommitted>(&input)) {
    const Manifest& manifest = done->manifest;
    const auto seconds = checkpoint_times_.Committed(manifest.lineage, manifest.step, clock_.Now());
    if (seconds) metrics_.GetHistogram("muster_checkpoint_seconds").Observe(*seconds);
  }
}

void Driver::Sort(Action action) {
  const auto sort = [this](auto a) {
    using A = decltype(a);
    if constexpr (std::is_same_v<A, PersistJob>) {
      if (a.job.environment && sessions_.WaitsForEnvironment(a.job.id))
        Later([this, id = a.job.id] {
          if (const auto job = JobFor(id); job && job->environment) sessions_.TellEnvironment(*job);
        });
      over_.erase(a.job.id);
      // Only the last value counts, as all are written at once.
      const auto same = [&](const Persisted& p) {
        const PersistJob* other = std::get_if<PersistJob>(&p);
        return other != nullptr && other->job.id == a.job.id;
      };
      std::erase_if(unsaved_, same);
      unsaved_.push_back(std::move(a));
    } else if constexpr (std::is_constructible_v<Persisted, A>) {
      unsaved_.push_back(std::move(a));
    } else {
      Later([this, a = std::move(a)] { CarryOut(a); });
    }
  };
  std::visit(sort, std::move(action));
}

void Driver::Later(std::function<void()> deed) { deeds_.push_back(std::move(deed)); }

void Driver::Flush() {
  if (!unsaved_.empty()) {
    if (const absl::Status written = journal_.Write(unsaved_, UnixMillis()); !written.ok())
      return OnWriteFailed(written);
    unsaved_.clear();
    last_written_ = Look();
    options_.pass("persisted_unpublished");
  }
  while (!deeds_.empty()) {
    const std::function<void()> deed = std::move(deeds_.front());
    deeds_.pop_front();
    deed();
  }
  if (std::exchange(sealed_, false)) options_.pass("forming");
  if (!failure_.ok()) OnWritten();
}

void Driver::OnWriteFailed(const absl::Status& why) {
  if (failure_.ok()) {
    const std::string text =
        absl::StrCat("the journal cannot be written (", why.message(),
                     "): training goes on, but nothing is decided or recorded until it can be; "
                     "make room on its disk");
    LogError("%s", text);
    for (const KnownJobPtr& known : last_written_)
      if (!Ended(known->status.job.phase))
        events_.Append(known->status.job.id, {"", 0, UnixMillis(), "state", text, {}});
    failure_ = absl::Status(why.code(), text);
  }
  failing_ = true;
}

void Driver::OnWritten() {
  failure_ = absl::OkStatus();
  failing_ = false;
  LogInfo("the journal can be written again");
  for (const auto& [id, job] : coordinator_.jobs())
    if (!Ended(job.phase))
      events_.Append(id, {"", 0, UnixMillis(), "state", "the journal can be written again", {}});
  // Our own time stood still: the machine is told first, so that it takes no silence for a loss.
  Take(Tick{});
  for (const Input& input : std::exchange(held_back_, {})) Take(input);
  sessions_.CloseAll(absl::AbortedError(
      "the journal could not be written: what was said meanwhile is to be said again"));
}

KnownJobs Driver::Look() {
  KnownJobs jobs;
  for (const auto& [id, job] : coordinator_.jobs()) jobs.push_back(LookAt(job));
  return jobs;
}

// Many jobs may be over, and each write and tick looks: what cannot change is not copied again.
KnownJobPtr Driver::LookAt(const JobJournal& job) {
  if (const auto known = over_.find(job.id); known != over_.end()) return known->second;
  auto known = std::make_shared<const KnownJob>(
      KnownJob{coordinator_.StatusOf(job.id), journal_.TimesOf(job.id), journal_.TailOf(job.id)});
  if (Ended(job.phase) && unsaved_.empty()) over_[job.id] = known;
  return known;
}

void Driver::CarryOut(const ToMember& action) {
  sealed_ = sealed_ || std::holds_alternative<Seal>(action.message);
  sessions_.Tell(action.member, action.message);
}

void Driver::CarryOut(const ToAgents& action) {
  last_wanted_ = action.wanted;
  sessions_.TellAgents(last_wanted_);
}

void Driver::CarryOut(const CommitManifest& action) {
  const auto job = coordinator_.jobs().find(action.manifest.job);
  if (job == coordinator_.jobs().end()) return;
  Manifest manifest = action.manifest;
  manifest.spec = ToJson(job->second.spec);
  keeper_.Run([this, manifest = std::move(manifest)](const std::stop_token&) { Commit(manifest); });
}

// On the keeper's thread.
void Driver::Commit(const Manifest& manifest) {
  options_.pass("before_commit");
  const absl::StatusOr<Manifest> committed =
      CommitCheckpoint(journal_.kv(), manifest, UnixMillis() / 1000);
  if (!committed.ok()) {
    Post([this, failed = ManifestFailed{manifest.job, manifest.lineage, manifest.step,
                                        std::string(committed.status().message())}] {
      Feed(failed);
    });
    return;
  }
  metrics_.GetCounter("muster_checkpoints_committed_total").Add();
  Post([this, done = ManifestCommitted{*committed}] { Feed(done); });
}

void Driver::CarryOut(const PruneManifests& action) {
  keeper_.Run([this, action, dir = CheckpointDir(options_.checkpoint_root, action.newest.job)](
                  const std::stop_token&) {
    PruneCheckpoints(journal_.kv(), dir, action.newest, action.lineages, action.keep);
  });
}

void Driver::CarryOut(const ComputeDigest& action) {
  keeper_.Run([this, action](const std::stop_token& stop) {
    const absl::StatusOr<std::string> digest =
        Digest(CheckpointDir(options_.checkpoint_root, action.job), action.manifest, stop);
    if (absl::IsCancelled(digest.status())) return;  // the next term computes it
    Post([this, done = DigestDone{action.job, digest.value_or(""),
                                  std::string(digest.status().message())}] { Feed(done); });
  });
}

void Driver::CarryOut(const Tell& action) {
  if (action.text.empty()) {
    LogDebug("job %s: %s", action.job, action.event);
  } else {
    LogInfo("job %s: %s", action.job, action.text);
  }
  events_.Append(action.job, {"", 0, UnixMillis(), action.event, action.text, action.fields});
}

void Driver::AnswerAsk(SessionId id, const AskJob& ask) {
  if (!failure_.ok()) return;  // its session will end, and it asks again
  Later([this, id, ask] {
    if (const auto job = JobFor(ask.job)) return sessions_.Answer(id, *job);
    sessions_.Answer(id, Leave{0, absl::StrCat("job ", ask.job, " is not running")});
  });
}

std::optional<JobIs> Driver::JobFor(const std::string& job) const {
  std::optional<JobIs> is = coordinator_.JobOf(job);
  if (is) is->checkpoint_dir = CheckpointDir(options_.checkpoint_root, job);
  return is;
}

// Of the job that has a view and goes on: there is at most one.
void Driver::MeasureView() {
  View none;
  const View* view = &none;
  double loss = NAN;
  for (const KnownJobPtr& known : last_written_) {
    const JobJournal& job = known->status.job;
    if (Ended(job.phase) || !job.view) continue;
    view = &*job.view;
    loss = known->tail.loss.value_or(NAN);
  }
  metrics_.GetGauge("muster_members").Set(static_cast<double>(view->members.size()));
  metrics_.GetGauge("muster_view").Set(static_cast<double>(view->number.value()));
  metrics_.GetGauge("muster_lineage").Set(static_cast<double>(view->lineage.value()));
  metrics_.GetGauge("muster_loss").Set(loss);
}

void Driver::Measure() {
  std::map<std::string, double> by_state;
  for (const JobPhase phase : kJobPhases) by_state[std::string(PhaseName(phase))] = 0;
  double recoveries = 0;
  double rewinds = 0;
  double lanes = 0;
  for (const KnownJobPtr& known : last_written_) {
    const JobJournal& job = known->status.job;
    ++by_state[std::string(PhaseName(job.phase))];
    recoveries += static_cast<double>(job.recoveries);
    rewinds += static_cast<double>(job.rewinds);
    lanes += static_cast<double>(job.lanes.recomputed());
  }
  MeasureView();
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
  metrics_.GetGauge("muster_queue_depth", "checkpoint").Set(static_cast<double>(keeper_.queued()));
  metrics_.GetGauge("muster_queue_depth", "questions")
      .Set(static_cast<double>(questions_.queued()));
}

}  // namespace muster::coordinator
