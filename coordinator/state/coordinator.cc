// Jobs, members, host agents.
#include "coordinator/state/coordinator.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace muster::coordinator {

std::string_view PhaseName(JobPhase phase) {
  switch (phase) {
    case JobPhase::kQueued: return "queued";
    case JobPhase::kStarting: return "starting";
    case JobPhase::kRunning: return "running";
    case JobPhase::kRecovering: return "recovering";
    case JobPhase::kStopping: return "stopping";
    case JobPhase::kDone: return "done";
    case JobPhase::kStopped: return "stopped";
    case JobPhase::kFailed: return "failed";
    case JobPhase::kCancelled: return "cancelled";
  }
  return "unknown";
}

bool Ended(JobPhase phase) {
  return phase == JobPhase::kDone || phase == JobPhase::kStopped || phase == JobPhase::kFailed ||
         phase == JobPhase::kCancelled;
}

bool CanGoOn(JobPhase phase) { return phase == JobPhase::kStopped || phase == JobPhase::kFailed; }

Coordinator::Coordinator(std::string cluster, TermNumber term, Settings settings,
                         RecoveredState found, Time now)
    : cluster_(std::move(cluster)),
      term_(term),
      settings_(settings),
      now_(now),
      started_(now),
      last_tick_(now),
      last_checkpoint_(now),
      found_recorded_(std::move(found.recorded)),
      found_recent_(std::move(found.recent)),
      found_manifests_(std::move(found.manifests)) {
  for (JobJournal& j : found.jobs) {
    next_sequence_ = std::max(next_sequence_, j.submission + 1);
    if (!Ended(j.phase) && j.phase != JobPhase::kQueued) current_ = j.id;
    const std::string id = j.id;
    jobs_[id] = std::move(j);
  }
  if (current_.empty()) return;
  recorded_ = found_recorded_[current_];
  recent_ = std::move(found_recent_[current_]);
  manifests_ = found_manifests_[current_];
  evicted_ = job()->lanes.Lost();
  reattaching_ = job()->number > ViewNumber(0);
}

std::vector<Action> Coordinator::Take(const Input& input, Time now) {
  std::vector<Action> actions;
  out_ = &actions;
  now_ = now;
  std::visit([this](const auto& x) { On(x); }, input);
  Consider();
  out_ = nullptr;
  return actions;
}

JobJournal* Coordinator::job() {
  const auto it = jobs_.find(current_);
  return it == jobs_.end() ? nullptr : &it->second;
}
const JobJournal* Coordinator::job() const {
  const auto it = jobs_.find(current_);
  return it == jobs_.end() ? nullptr : &it->second;
}

void Coordinator::Persist() { Do(PersistJob{*job()}); }

void Coordinator::Say(std::string event, std::string text,
                      std::map<std::string, std::string> fields) {
  Do(Tell{current_, std::move(event), std::move(text), std::move(fields)});
}

void Coordinator::SetPhase(JobPhase phase, std::string reason) {
  if (job()->phase == phase && job()->reason == reason) return;
  const bool changed = job()->phase != phase;
  job()->phase = phase;
  job()->reason = reason;
  Persist();
  if (changed) SayPhase(job()->reason);
}

void Coordinator::SayPhase(std::string text) {
  Say("state", std::move(text), {{"state", std::string(PhaseName(job()->phase))}});
}

std::optional<JobIs> Coordinator::JobOf(const std::string& id) const {
  const auto it = jobs_.find(id);
  if (it == jobs_.end() || Ended(it->second.phase)) return std::nullopt;
  return JobIs{id, cluster_, term_, it->second.spec, "", it->second.environment};
}

// ---- jobs

void Coordinator::On(const Submit& submit) {
  const auto it = jobs_.find(submit.id);
  const bool again = it != jobs_.end() && CanGoOn(it->second.phase);
  if (it != jobs_.end() && !again) return TakeRuntime(it->second, submit.spec.runtime);
  JobJournal& j = jobs_[submit.id];
  j.id = submit.id;
  j.submission = next_sequence_++;
  j.spec = submit.spec;
  j.phase = JobPhase::kQueued;
  j.reason = "waits for its turn";
  GoOnLater(j);
  j.stop_asked = false;
  j.stop_at.reset();
  j.digest.clear();
  j.exit_code = 0;
  Do(PersistJob{j});
  Do(Tell{j.id, "state", again ? "submitted again, to go on" : "submitted", {{"state", "queued"}}});
  StartNext();
}

// Its next view starts from a checkpoint, and with new processes.
void Coordinator::GoOnLater(JobJournal& j) {
  j.resumes = true;
  if (!j.view) return;
  for (const ViewMember& m : j.view->members) {
    j.lanes.Lose(m.id.incarnation);
    evicted_.insert(m.id.incarnation);
  }
}

// What may be changed between one start and the next, of a job that was cut off.
void Coordinator::TakeRuntime(JobJournal& j, const RuntimeSpec& runtime) {
  if (Ended(j.phase) || j.spec.runtime == runtime || (j.id == current_ && !live_.empty())) return;
  j.spec.runtime = runtime;
  GoOnLater(j);
  Do(PersistJob{j});
  Do(Tell{j.id, "state", "submitted again with other run fields", {}});
  if (j.id != current_) return;
  forming_.reset();
  reattaching_ = false;
  started_ = now_;
  Want();
}

void Coordinator::StartNext() {
  if (!current_.empty()) return;
  const JobJournal* next = nullptr;
  for (const auto& [id, j] : jobs_)
    if (j.phase == JobPhase::kQueued && (next == nullptr || j.submission < next->submission))
      next = &j;
  if (next == nullptr) return;
  current_ = next->id;
  started_ = now_;
  last_checkpoint_ = now_;
  reattaching_ = false;
  live_.clear();
  forming_.reset();
  parts_.clear();
  rounds_.clear();
  bad_manifests_.clear();
  cause_.clear();
  loss_ = false;
  told_not_finite_ = false;
  last_ = {};
  layout_.reset();
  command_.reset();
  digesting_ = false;
  recorded_ = found_recorded_[current_];
  recent_ = std::move(found_recent_[current_]);
  manifests_ = found_manifests_[current_];
  SetPhase(JobPhase::kStarting, "waits for its members");
  Want();
}

std::vector<ProcessWanted> Coordinator::ProcessesOf(const JobJournal& j) const {
  std::vector<ProcessWanted> wanted;
  if (Ended(j.phase)) return wanted;
  for (int32_t i = 0; i < j.spec.runtime.workers_max; ++i)
    wanted.push_back({absl::StrCat("worker-", i), Role::kWorker});
  for (int32_t i = 0; i < j.spec.runtime.servers; ++i)
    wanted.push_back({absl::StrCat("server-", i), Role::kServer});
  return wanted;
}

void Coordinator::Want() {
  if (job() != nullptr) Do(ToAgents{{current_, ProcessesOf(*job())}});
}

void Coordinator::On(const Cancel& cancel) {
  const auto it = jobs_.find(cancel.id);
  if (it == jobs_.end() || Ended(it->second.phase)) return;
  if (cancel.id == current_) return EndJob(JobPhase::kCancelled, "cancelled", kExitFailed);
  MarkEnded(it->second, JobPhase::kCancelled, "cancelled before it started", kExitFailed);
}

void Coordinator::On(const Stop& stop) {
  const auto it = jobs_.find(stop.id);
  if (it == jobs_.end() || Ended(it->second.phase) || it->second.stop_asked) return;
  it->second.stop_asked = true;
  if (stop.id != current_)
    return MarkEnded(it->second, JobPhase::kStopped, "stopped before it started", kExitLater);
  if (!job()->view) return EndJob(JobPhase::kStopped, "stopped before its first step", kExitLater);
  SetPhase(JobPhase::kStopping, "stops after a checkpoint");
  GiveCommands();
}

void Coordinator::MarkEnded(JobJournal& j, JobPhase phase, const std::string& reason,
                            int exit_code) {
  j.phase = phase;
  j.reason = reason;
  j.exit_code = exit_code;
  Do(PersistJob{j});
  Do(Tell{j.id, "done", reason, {{"state", std::string(PhaseName(phase))}}});
}

// Lineages in which no view ever ran, because their checkpoints could not be loaded, would hide
// what is newer: the one that ran last is taken up again, at its newest checkpoint.
void Coordinator::LeaveUnusedLineages() {
  JobJournal& j = *job();
  if (!j.view || j.lineages.empty() || j.lineages.back().number == j.view->lineage) return;
  std::vector<Lineage> ran = j.lineages;
  while (!ran.empty() && ran.back().number > j.view->lineage) ran.pop_back();
  recorded_ = Step(0);
  for (const Manifest& m : manifests_)
    if (OnAncestry(ran, m.lineage, m.step)) recorded_ = std::max(recorded_, m.step);
  j.lineages.push_back({j.lineages.back().number + 1, j.view->lineage, recorded_, "job ended"});
}

void Coordinator::EndJob(JobPhase phase, const std::string& reason, int exit_code) {
  JobJournal& j = *job();
  LeaveUnusedLineages();
  MarkEnded(j, phase, reason, exit_code);
  found_recorded_[current_] = recorded_;
  found_recent_[current_] = std::move(recent_);
  found_manifests_[current_] = manifests_;
  for (const auto& [id, live] : live_)
    if (live.up) Do(ToMember{id, Leave{exit_code, reason}});
  Want();
  live_.clear();
  forming_.reset();
  current_.clear();
  StartNext();
}

// ---- host agents

void Coordinator::On(const AgentUp&) { Want(); }

void Coordinator::On(const AgentSays& says) {
  std::visit([this](const auto& m) { FromHost(m); }, says.message);
}

void Coordinator::FromHost(const AgentHello&) { Want(); }

void Coordinator::FromHost(const ProcessExited& exited) {
  const auto of = jobs_.find(exited.job);
  if (of != jobs_.end() && exited.lanes.incarnation != Incarnation{} &&
      of->second.lanes.Told(exited.lanes))
    Do(PersistJob{of->second});
  if (exited.job != current_ || job() == nullptr) return;
  if (exited.gave_up)
    return EndJob(JobPhase::kFailed,
                  absl::StrCat(exited.name, " fails again and again (", exited.cause,
                               "); its last lines:\n", exited.last_lines),
                  kExitFailed);
  const bool final = exited.signal == 0 && IsHopelessExit(exited.exit_code);
  if (final)
    return EndJob(JobPhase::kFailed,
                  absl::StrCat(exited.name, " ", exited.cause, ":\n", exited.last_lines),
                  exited.exit_code == kExitOtherEnvironment ? kExitFailed : exited.exit_code);
  for (auto& [id, live] : live_) {
    if (id.name != exited.name) continue;
    const bool known = exited.lanes.incarnation != Incarnation{};
    if (known && exited.lanes.incarnation != id.incarnation)
      continue;               // an earlier process of that name
    if (!known && live.up) {  // its session is about to break, unless it is a later process
      ended_at_[id.name] = now_;
      cause_ = absl::StrCat(exited.name, " ", exited.cause);
      continue;
    }
    live.exited = true;
    live.up = false;
    cause_ = absl::StrCat(exited.name, " ", exited.cause);
  }
  LoseExpired();
}

// ---- members

void Coordinator::On(const MemberSays& says) {
  const auto it = live_.find(says.member);
  if (it != live_.end()) {
    it->second.heard = now_;
    it->second.up = true;
  } else if (!std::holds_alternative<Join>(says.message)) {
    return;  // evicted, or of a job that has ended
  }
  std::visit([&](const auto& m) { From(says.member, m); }, says.message);
}

void Coordinator::From(const MemberId&, const AskJob&) {}

void Coordinator::From(const MemberId& member, const Alive& alive) {
  live_[member].step = alive.step;
  live_[member].phase = alive.phase;
}

// A server has no task: of the numeric numeric environment it tells those of the kernels, which it
// runs too.
std::string Coordinator::EnvironmentDifferences(const Join& join) const {
  std::string differ;
  if (!job()->environment) return differ;
  const NumericEnvironment &ours = *job()->environment, &theirs = join.environment;
  if (join.role == Role::kWorker) {
    if (theirs.samples != ours.samples || theirs.data_hash != ours.data_hash)
      absl::StrAppend(&differ, " data (", theirs.samples, " samples, hash ", theirs.data_hash,
                      "; the job has ", ours.samples, ", ", ours.data_hash, ")");
    if (theirs.tensors != ours.tensors) absl::StrAppend(&differ, " tensors");
    for (const auto& [key, value] : ours.numeric)
      if (theirs.numeric.count(key) == 0)
        absl::StrAppend(&differ, " ", key, " (none; the job has ", value, ")");
  }
  for (const auto& [key, value] : theirs.numeric) {
    const auto known = ours.numeric.find(key);
    const std::string expected = known == ours.numeric.end() ? "none" : known->second;
    if (value != expected)
      absl::StrAppend(&differ, " ", key, " (", value, "; the job has ", expected, ")");
  }
  return differ;
}

bool Coordinator::Admit(const Join& join) {
  std::string refusal;
  int code = kExitFailed;
  const bool replaced = job() != nullptr && job()->view && join.sealed > ViewNumber(0) &&
                        job()->view->IndexOf(join.id) < 0 &&
                        std::any_of(job()->view->members.begin(), job()->view->members.end(),
                                    [&](const ViewMember& m) { return m.id.name == join.id.name; });
  if (job() == nullptr || join.job != current_) {
    refusal = absl::StrCat("job ", join.job, " is not running");
    code = kExitDone;
  } else if (!join.cluster.empty() && join.cluster != cluster_) {
    refusal = absl::StrCat("it belongs to cluster ", join.cluster, ", this is cluster ", cluster_);
  } else if (replaced || evicted_.count(join.id.incarnation) > 0) {
    refusal = "it was evicted; it may come back under a fresh incarnation";
  } else if (const std::string differ = EnvironmentDifferences(join); !differ.empty()) {
    refusal = absl::StrCat("its numeric environment differs from the job's:", differ);
    code = kExitOtherEnvironment;
  }
  if (refusal.empty()) return true;
  Do(ToMember{join.id, Leave{code, absl::StrCat(join.id.name, " cannot take part: ", refusal)}});
  if (job() != nullptr) Say("process", absl::StrCat(join.id.name, " was turned away: ", refusal));
  return false;
}

void Coordinator::From(const MemberId& member, const Join& join) {
  if (!Admit(join)) return;
  std::vector<MemberId> older;
  for (const auto& [id, live] : live_)
    if (id.name == member.name && id.incarnation != member.incarnation) older.push_back(id);
  for (const MemberId& id : older) Evict(id, "a newer incarnation came", true);
  const bool known = live_.count(member) > 0;
  Live& live = live_[member];
  live.member = ViewMember{member, join.role, join.node, join.address, Rank(0), 0};
  live.up = true;
  live.heard = now_;
  live.sealed = join.sealed;
  live.active = join.active;
  if (!job()->environment && join.role == Role::kWorker) {
    job()->environment = join.environment;
    Persist();
  }
  if (!known) Say("process", absl::StrCat(member.name, " joined"), {{"member", member.name}});
  Reattach(join);
}

// A member whose session is new is told again where things stand.
void Coordinator::Reattach(const Join& join) {
  const auto& view = job()->view;
  if (forming_) {
    const bool named = std::find(forming_->members.begin(), forming_->members.end(), join.id) !=
                       forming_->members.end();
    if (!named) return;
    if (!forming_->planned) return Do(ToMember{join.id, Seal{term_, forming_->number}});
    return Do(ToMember{join.id, Heal{term_, forming_->number, forming_->planned->heal}});
  }
  if (view && view->IndexOf(join.id) >= 0 && view->number == job()->number &&
      join.sealed <= view->number) {
    PublishView(join.id);
    GiveCommands();  // what was on its way to it may be lost
  }
}

void Coordinator::On(const MemberDown& down) {
  const auto it = live_.find(down.member);
  if (it == live_.end()) return;
  it->second.up = false;
  it->second.heard = now_;
  const auto ended = ended_at_.find(down.member.name);
  if (ended != ended_at_.end() && now_ - ended->second < settings_.lease) it->second.exited = true;
  LoseExpired();
}

void Coordinator::Evict(const MemberId& member, const std::string& why, bool tell) {
  const auto it = live_.find(member);
  if (it == live_.end()) return;
  const bool told = tell && it->second.up;
  const auto& view = job()->view;
  const bool counted = view && view->IndexOf(member) >= 0;
  live_.erase(it);
  evicted_.insert(member.incarnation);
  if (told) Do(ToMember{member, Leave{1, absl::StrCat("evicted: ", why)}});
  if (!counted) return;
  loss_ = true;
  job()->lanes.Lose(member.incarnation);
  if (cause_.empty() || why.find("killed") != std::string::npos)
    cause_ = absl::StrCat(member.name, ": ", why);
}

void Coordinator::LoseExpired() {
  std::vector<std::pair<MemberId, std::string>> gone;
  for (const auto& [id, live] : live_) {
    if (live.exited && !live.up)
      gone.emplace_back(id, "its process ended");
    else if (now_ - live.heard > settings_.lease)
      gone.emplace_back(id, "silent for longer than its lease");
  }
  for (const auto& [id, why] : gone) Evict(id, why, true);
}

void Coordinator::On(const Tick&) {
  // After a gap in our own ticks the silence may be ours: all leases start again.
  if (now_ - last_tick_ > settings_.lease / 2)
    for (auto& [id, live] : live_) live.heard = now_;
  last_tick_ = now_;
  if (job() == nullptr) return StartNext();
  LoseExpired();
  CheckFinished();
  if (job() == nullptr) return;
  RetryLast();
  if (job() == nullptr) return;
  const double every = job()->spec.runtime.checkpoint.every_seconds;
  const double since = Seconds(now_ - last_checkpoint_);
  if (every > 0 && since >= every && job()->phase == JobPhase::kRunning && !command_) {
    last_checkpoint_ = now_;
    command_ = JobCommand{job()->next_command++, JobCommandKind::kCheckpoint};
    Persist();
    GiveCommands();
  }
}

std::vector<JobStatus> Coordinator::Status() const {
  std::vector<JobStatus> all;
  for (const auto& [id, j] : jobs_) all.push_back(StatusOf(id));
  return all;
}

JobStatus Coordinator::StatusOf(const std::string& id) const {
  const JobJournal& j = jobs_.at(id);
  JobStatus status;
  status.job = j;
  const bool now = id == current_;
  const auto recorded = found_recorded_.find(id);
  status.step = now ? recorded_ : recorded == found_recorded_.end() ? Step(0) : recorded->second;
  if (j.environment) status.steps = muster::TotalSteps(j.spec.training, j.environment->samples);
  const auto manifests = found_manifests_.find(id);
  if (now || manifests != found_manifests_.end())
    for (const Manifest& m : now ? manifests_ : manifests->second)
      status.checkpoints.emplace_back(m.lineage, m.step);
  if (!now) return status;
  status.loss = loss_value_;
  if (!recent_.fingerprints.empty()) status.fingerprint = *recent_.fingerprints.rbegin();
  status.waits_for = waits_for_;
  for (const auto& [member, live] : live_) status.members.push_back(StatusOfMember(member, live));
  return status;
}

MemberStatus Coordinator::StatusOfMember(const MemberId& id, const Live& live) const {
  MemberStatus m{live.member, live.up, "joined", live.phase, live.step, {}};
  const std::optional<View>& view = job()->view;
  const int32_t index = view ? view->IndexOf(id) : -1;
  if (index < 0) return m;
  m.state = forming_ ? "forming" : "active";
  m.member = view->members[static_cast<size_t>(index)];
  m.lanes = LanesOf(view->lanes.holder_of, index);
  if (m.member.role == Role::kWorker && m.lanes.empty()) m.state = "spare";
  return m;
}

}  // namespace muster::coordinator
