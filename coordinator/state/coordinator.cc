#include "coordinator/state/coordinator.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lib/base/exit_codes.h"
#include "lib/domain/grid.h"

namespace muster::coordinator {

Coordinator::Coordinator(std::string cluster, TermNumber term, Settings settings,
                         RecoveredState recovered, Time now)
    : leadership_{std::move(cluster), term, settings} {
  for (JobJournal& journal : recovered.jobs) {
    const std::string id = journal.id;
    changed_.insert(id);
    next_submission_ = std::max(next_submission_, journal.submission + 1);
    const bool runs = !Ended(journal.phase) && journal.phase != JobPhase::kQueued;
    if (journal.deleting) to_delete_.push_back(id);
    StoredJob stored{std::move(journal), recovered.recorded[id], std::move(recovered.recent[id]),
                     std::move(recovered.manifests[id])};
    if (runs) {
      jobs_.emplace(id, Job{JobRun(leadership_, std::move(stored), now)});
    } else {
      jobs_.emplace(id, Job{std::move(stored)});
    }
  }
}

std::vector<Action> Coordinator::Handle(const Input& input, Time now) {
  now_ = now;
  for (const std::string& id : std::exchange(to_delete_, {})) On(Delete{id});
  std::visit([this](const auto& x) { On(x); }, input);
  if (std::exchange(queue_changed_, false)) StartWhatFits();
  if (std::exchange(wanted_changed_, false)) Do(ToAgents{EverythingWanted()});
  return std::exchange(actions_, {});
}

void Coordinator::DoAll(std::vector<Action> actions) {
  for (Action& action : actions) Do(std::move(action));
}

// ---- what people ask

void Coordinator::On(const Submit& submit) {
  const auto it = jobs_.find(submit.id);
  if (it == jobs_.end()) {
    StoredJob job;
    job.journal.id = submit.id;
    job.journal.spec = submit.spec;
    job.journal.submission = next_submission_++;
    Enqueue(jobs_.emplace(submit.id, Job{std::move(job)}).first->second);
    Do(Announce{submit.id, "state", "submitted", {{"state", "queued"}}});
  } else {
    Job& job = it->second;
    const JobJournal& known = job.journal();
    if (known.deleting) return;
    if (!CanGoOn(known.phase)) return PutBack(job, submit.spec.runtime);
    JobJournal& journal = job.stored().journal;
    journal.spec = submit.spec;
    journal.submission = next_submission_++;
    Enqueue(job);
    Do(Announce{submit.id, "state", "submitted again, to go on", {{"state", "queued"}}});
  }
}

void Coordinator::Enqueue(Job& job) {
  JobJournal& j = job.stored().journal;
  j.phase = JobPhase::kQueued;
  j.reason = "waits for its turn";
  GoOnLater(j);
  j.stop_asked = false;
  j.stop_at.reset();
  j.digest.clear();
  j.exit_code = 0;
  changed_.insert(j.id);
  queue_changed_ = true;
  Do(PersistJob{j});
}

// A job that was cut off is submitted with another runtime specification: it starts again, from its
// old place in the queue.
void Coordinator::PutBack(Job& job, const RuntimeSpec& runtime) {
  const JobJournal& known = job.journal();
  if (Ended(known.phase) || known.spec.runtime == runtime || (job.run() && job.run()->HasMembers()))
    return;
  const std::string id = known.id;
  if (job.run()) Rest(id);
  job.stored().journal.spec.runtime = runtime;
  Enqueue(job);
  Do(Announce{id, "state", "submitted again with other runtime fields", {}});
}

void Coordinator::On(const Cancel& cancel) {
  const auto it = jobs_.find(cancel.id);
  if (it == jobs_.end() || Ended(it->second.journal().phase)) return;
  if (it->second.run()) return Pass(cancel.id, cancel);
  changed_.insert(it->first);
  DoAll(MarkEnded(it->second.stored().journal, JobPhase::kCancelled, "cancelled before it started",
                  kExitStopped));
  queue_changed_ = true;
}

void Coordinator::On(const Stop& stop) {
  const auto it = jobs_.find(stop.id);
  if (it == jobs_.end() || Ended(it->second.journal().phase)) return;
  if (it->second.run()) return Pass(stop.id, stop);
  changed_.insert(it->first);
  it->second.stored().journal.stop_asked = true;
  DoAll(MarkEnded(it->second.stored().journal, JobPhase::kStopped, "stopped before it started",
                  kExitStopped));
  queue_changed_ = true;
}

// The id stays taken until everything of the job has been removed.
void Coordinator::On(const Delete& request) {
  const auto it = jobs_.find(request.id);
  if (it == jobs_.end() || !WhyNotDeleted(it->second.journal()).empty()) return;
  if (std::exchange(it->second.being_deleted, true)) return;
  JobJournal& j = it->second.stored().journal;
  j.deleting = true;
  j.reason = "is being deleted";
  changed_.insert(it->first);
  Do(PersistJob{j});
  Do(DeleteJob{j.id});
}

void Coordinator::On(const JobDeleted& deleted) {
  const auto it = jobs_.find(deleted.id);
  if (it == jobs_.end() || !it->second.journal().deleting) return;
  if (deleted.failure.empty()) {
    changed_.insert(deleted.id);
    jobs_.erase(it);
    return;
  }
  it->second.being_deleted = false;
  JobJournal& j = it->second.stored().journal;
  j.reason = absl::StrCat("could not be deleted: ", deleted.failure, "; delete it again");
  changed_.insert(it->first);
  Do(PersistJob{j});
  Do(Announce{j.id, "state", j.reason, {}});
}

// ---- members and host agents

void Coordinator::On(const MemberSays& says) {
  if (const Join* join = std::get_if<Join>(&says.message)) return OnJoin(says.member, *join);
  if (const auto it = job_of_.find(says.member.incarnation); it != job_of_.end())
    Pass(it->second, says);
}

// Names repeat between jobs, incarnations do not: a member is of the job that it joined first.
void Coordinator::OnJoin(const MemberId& member, const Join& join) {
  const auto [of, is_new] = job_of_.try_emplace(member.incarnation, join.job);
  if (RunOf(join.job) != nullptr && of->second == join.job) {
    Pass(join.job, MemberSays{member, join});
    const JobRun* run = RunOf(join.job);
    if (is_new && (run == nullptr || !run->Has(member))) job_of_.erase(member.incarnation);
    return;
  }
  Leave leave = LeaveOf(join.job);
  if (!is_new) leave = {kExitFailed, absl::StrCat("it is a member of job ", of->second)};
  if (is_new) job_of_.erase(of);
  leave.reason = absl::StrCat(member.name, " cannot take part: ", leave.reason);
  Do(ToMember{member, std::move(leave)});
}

void Coordinator::On(const MemberDown& down) {
  if (const auto it = job_of_.find(down.member.incarnation); it != job_of_.end())
    Pass(it->second, down);
}

void Coordinator::On(const AgentUp& up) {
  slots_[up.node] = up.slots;
  wanted_changed_ = true;
  queue_changed_ = true;
}

void Coordinator::On(const AgentDown& down) {
  slots_.erase(down.node);
  queue_changed_ = true;
}

void Coordinator::On(const AgentSays& says) {
  const ProcessExited& exited = says.exited;
  if (const JobRun* run = RunOf(exited.job)) {
    // It may have left because a person told it to. Wanted is sent again, so that its agent starts
    // it again.
    const bool left = exited.exit_code == kExitDone || exited.exit_code == kExitLater;
    if (exited.start == run->journal().start && exited.signal == 0 && left) wanted_changed_ = true;
    return Pass(exited.job, exited);
  }
  const auto it = jobs_.find(exited.job);
  if (it == jobs_.end() || exited.lanes.incarnation == Incarnation{}) return;
  JobJournal& journal = it->second.stored().journal;
  if (journal.deleting || !journal.lanes.Told(exited.lanes)) return;
  changed_.insert(it->first);
  Do(PersistJob{journal});
}

void Coordinator::On(const ManifestCommitted& committed) {
  const Manifest& m = committed.manifest;
  if (RunOf(m.job) != nullptr) return Pass(m.job, committed);
  const auto it = jobs_.find(m.job);
  if (it == jobs_.end()) return;
  it->second.stored().manifests.push_back(m);  // it goes on from there
  changed_.insert(it->first);
}
void Coordinator::On(const ManifestFailed& failed) { Pass(failed.job, failed); }
void Coordinator::On(const DigestDone& done) { Pass(done.job, done); }

void Coordinator::On(const Tick& tick) {
  for (auto& [id, job] : jobs_)
    if (job.run() != nullptr) Pass(id, tick);
}

// ---- jobs that run

JobRun* Coordinator::RunOf(const std::string& id) {
  const auto it = jobs_.find(id);
  return it == jobs_.end() ? nullptr : it->second.run();
}

void Coordinator::Pass(const std::string& id, const JobInput& input) {
  JobRun* run = RunOf(id);
  if (run == nullptr) return;
  std::vector<Action> actions = run->Handle(input, now_);
  if (!actions.empty() || !std::holds_alternative<Tick>(input)) changed_.insert(id);
  DoAll(std::move(actions));
  if (!run->ended()) return;
  Rest(std::string(id));  // a copy: `id` may refer into job_of_, from which Rest erases
  queue_changed_ = true;
}

void Coordinator::Rest(const std::string& id) {
  Job& job = jobs_.at(id);
  StoredJob stored = std::move(*job.run()).Rest();
  job.is.emplace<StoredJob>(std::move(stored));
  std::erase_if(job_of_, [&](const auto& entry) { return entry.second == id; });
  wanted_changed_ = true;
}

Wanted Coordinator::EverythingWanted() const {
  Wanted wanted;
  for (const auto& [id, job] : jobs_)
    if (job.run()) wanted.jobs.push_back(job.run()->Processes());
  return wanted;
}

// ---- the queue

QueueInput Coordinator::InputOfQueue() const {
  QueueInput input;
  input.total = leadership_.settings.slots;
  for (const auto& [node, slots] : slots_) input.total += slots;
  input.has_agents = !slots_.empty() || leadership_.settings.slots > 0;
  for (const auto& [id, job] : jobs_) {
    const JobJournal& j = job.journal();
    const RuntimeSpec& runtime = j.spec.runtime;
    if (job.run())
      input.held.push_back({j.submission, job.run()->slots()});
    else if (j.phase == JobPhase::kQueued)
      input.queued.push_back({id, j.submission, runtime.workers_min + runtime.servers,
                              runtime.workers_max + runtime.servers});
  }
  return input;
}

void Coordinator::StartWhatFits() {
  QueueDecision decision = DecideQueue(InputOfQueue());
  for (; decision.start; decision = DecideQueue(InputOfQueue())) Start(*decision.start);
  TellWhyTheyWait(decision);
}

void Coordinator::Start(const QueueDecision::Start& start) {
  Job& job = jobs_.at(start.id);
  StoredJob stored = std::move(job.stored());
  const int32_t workers = start.slots - stored.journal.spec.runtime.servers;
  job.is.emplace<JobRun>(leadership_, std::move(stored), now_);
  job.waits_for.clear();
  wanted_changed_ = true;
  Pass(start.id, StartRun{NextStart(), workers});
}

// The term is in the upper bits, so no other term gives the same number.
StartNumber Coordinator::NextStart() {
  constexpr int kBitsOfCounter = 32;
  return StartNumber((leadership_.term.value() << kBitsOfCounter) + ++starts_);
}

void Coordinator::TellWhyTheyWait(const QueueDecision& decision) {
  for (const auto& [id, reason] : decision.reasons) {
    Job& job = jobs_.at(id);
    if (job.waits_for == reason) continue;
    job.waits_for = reason;
    changed_.insert(id);
    if (decision.too_large.count(id) > 0)
      Do(Announce{id, "state", absl::StrCat("waits: ", reason), {}});
  }
}

// ---- for people

std::vector<std::string> Coordinator::JobIds() const {
  std::vector<std::string> ids;
  for (const auto& [id, job] : jobs_) ids.push_back(id);
  return ids;
}

const JobJournal* Coordinator::Find(const std::string& id) const {
  const auto it = jobs_.find(id);
  return it == jobs_.end() ? nullptr : &it->second.journal();
}

std::optional<JobIs> Coordinator::JobOf(const std::string& id) const {
  const auto it = jobs_.find(id);
  if (it == jobs_.end() || !it->second.run()) return std::nullopt;
  const JobJournal* job = &it->second.journal();
  return JobIs{id,        job->start, leadership_.cluster, leadership_.term,
               job->spec, "",         job->environment};
}

// It ends as its job has ended; else it may be started again for a later start of the job.
Leave Coordinator::LeaveOf(const std::string& id) const {
  const JobJournal* job = Find(id);
  if (job == nullptr || !Ended(job->phase))
    return {kExitLater, absl::StrCat("job ", id, " is not running")};
  return {job->exit_code, absl::StrCat("job ", id, " is ", std::string(PhaseName(job->phase)))};
}

std::string Coordinator::JobOfMember(const MemberId& member) const {
  const auto it = job_of_.find(member.incarnation);
  return it == job_of_.end() ? "" : it->second;
}

std::vector<JobStatus> Coordinator::Status() const {
  std::vector<JobStatus> all;
  for (const auto& [id, job] : jobs_) all.push_back(StatusOf(id));
  return all;
}

JobStatus Coordinator::StatusOf(const std::string& id) const {
  const Job& job = jobs_.at(id);
  if (job.run()) return job.run()->Status();
  JobStatus status = muster::coordinator::StatusOf(job.stored());
  if (status.job.phase != JobPhase::kQueued) return status;
  status.waits_for = job.waits_for;
  if (!job.waits_for.empty()) status.job.reason = job.waits_for;
  return status;
}

}  // namespace muster::coordinator
