// A started job's life, from its beginning to its end, and what people are told of it.
#include "coordinator/state/job_run.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace muster::coordinator {
namespace {

// The entry counts the steps below its mark; records may have come after it.
StepLedger LedgerOf(const JobJournal& journal, Step recorded, RecentSteps recent) {
  StepTally tally = journal.tally;
  for (auto at = recent.records.lower_bound(journal.recorded); at != recent.records.end(); ++at)
    Count(at->second, tally);
  return {journal.id, journal.spec.training.order == SumOrder::kCanonical, recorded, tally,
          std::move(recent)};
}

// Members speak as often as the cluster's lease wants: a job may only be more patient.
Leadership WithPatienceOf(const RuntimeSpec& runtime, Leadership leadership) {
  Settings& settings = leadership.settings;
  settings.lease = std::max(settings.lease, DurationOf(runtime.lease));
  settings.thread_patience =
      std::max(settings.thread_patience, DurationOf(runtime.thread_patience));
  return leadership;
}

// An agent that came later on that host knows nothing of that place.
bool IsBefore(const Placement& placement, const std::string& host, Incarnation agent) {
  return placement.host == host && placement.agent != agent;
}

// "worker-1 killed by SIGKILL", "worker-1 ended with exit code 1".
std::string HowItEnded(const ProcessExited& exited) {
  const bool by_itself = absl::StartsWith(exited.cause, "exit code");
  return absl::StrCat(exited.name, by_itself ? " ended with " : " ", exited.cause);
}

}  // namespace

JobRun::JobRun(Leadership leadership, StoredJob job, Time now)
    : leadership_(WithPatienceOf(job.journal.spec.runtime, std::move(leadership))),
      started_(now),
      grown_(now),
      counted_(now),
      stops_since_(now),
      last_tick_(now),
      journal_(std::move(job.journal)),
      inherited_(journal_.number),
      membership_({leadership_.settings.lease, leadership_.settings.thread_patience},
                  journal_.lanes.Gone()),
      reach_(leadership_.settings.lease * 2 / 3),  // two life signs
      parted_(now),
      ledger_(LedgerOf(journal_, job.recorded, std::move(job.recent))),
      checkpoints_(std::move(job.manifests)),
      stream_(std::move(job.stream)),
      last_({leadership_.settings.first_retry, leadership_.settings.longest_retry,
             leadership_.settings.retries}),
      last_checkpoint_(now) {
  // What members tell again was told by the coordinator before.
  for (const auto& [step, record] : ledger_.recent().records)
    if (!record.measures.empty()) last_measured_ = {record.lineage, step};
  if (journal_.view) reach_.Learn(journal_.view->number, journal_.view->members);
  for (const auto& [name, placement] : journal_.placements) has_leavers_ |= placement.leaving;
  if (journal_.phase != JobPhase::kQueued && journal_.number > ViewNumber(0))
    reattachment_.emplace(journal_, now);
  SaveMeasures();
  // No reader comes any more, for which it would be done.
  if (HasStream() && !NeedsReader()) Do(TidySpool{journal_.id, stream_.segments(), {}});
}

std::vector<Action> JobRun::Handle(const JobInput& input, Time now) {
  now_ = now;
  std::visit([this](const auto& x) { On(x); }, input);
  if (!ended()) Consider();
  return std::exchange(actions_, {});
}

StoredJob JobRun::PutToRest() && {
  CountTime();  // one that is put back has not ended
  const bool goes_on = !ended() || CanGoOn(journal_.phase);
  const Step recorded = ledger_.recorded();
  RecentSteps recent = std::move(ledger_).ReleaseRecent();
  if (!goes_on) recent.KeepOnlyFactOf(recorded);
  return {std::move(journal_), recorded, std::move(recent), checkpoints_.committed(),
          stream_.rows()};
}

// After a restart those that it had may still come back. Nobody has come for long enough: perhaps
// they are all gone, and whoever says so by submitting the job again is not kept waiting. Those
// that are in no view have nothing of it.
bool JobRun::HasMembers() const {
  const bool may_come = reattachment_ && reattachment_->Silence(last_tick_) <
                                             leadership_.settings.PatienceAfterRestart();
  return may_come || membership_.Count(Role::kWorker) + membership_.Count(Role::kServer) > 0;
}

std::vector<Action> JobRun::LetGo(const std::string& why) {
  Dismiss(why, kExitLater);
  return std::exchange(actions_, {});
}

PlacedJob JobRun::Places() const {
  const RuntimeSpec& runtime = journal_.spec.runtime;
  PlacedJob job{.id = journal_.id,
                .submission = journal_.submission,
                .left_out = journal_.left_out,
                .workers_min = runtime.workers_min,
                .workers_max = runtime.workers_max,
                .workers = WorkersInLeavingOrder(),
                .apart = KeptApart(),
                .priority = journal_.spec.queue.priority,
                .name_space = journal_.spec.queue.name_space,
                .stops = journal_.ending.stop_asked,
                .devices_each = runtime.devices,
                .reader_host = runtime.stream.host};
  const bool only_measures = AwaitsLastMeasure();  // and ends without that, where it has no room
  if (stands_still_since_ && !only_measures &&
      now_ - *stands_still_since_ > leadership_.settings.room_patience)
    job.lacks = WhoLacksRoom();
  for (const auto& [name, placement] : journal_.placements) {
    if (placement.host)
      job.placed[name] = *placement.host;
    else
      job.unplaced.push_back({name, placement.role});
    if (placement.leaving) job.leaving.insert(name);
    if (!placement.devices.empty()) job.devices[name] = placement.devices;
  }
  job.may_shrink =
      journal_.view && !journal_.resumes && !journal_.ending.stop_asked && !WhoHasNotJoined();
  job.may_grow = journal_.phase == JobPhase::kRunning && !only_measures &&
                 now_ >= grown_ + leadership_.settings.grow_interval;
  return job;
}

std::map<std::string, JobProcesses> JobRun::ProcessesByHost() const {
  const JobProcesses none{
      journal_.id, journal_.start, {}, journal_.first_start, journal_.spec.runtime.restarts};
  std::map<std::string, JobProcesses> jobs;
  for (const auto& [name, placement] : journal_.placements)
    if (placement.host)
      jobs.try_emplace(*placement.host, none)
          .first->second.processes.push_back(
              {name, placement.role, placement.number, placement.devices});
  return jobs;
}

bool JobRun::HasPlaces(const std::string& host, Incarnation agent) const {
  return std::any_of(journal_.placements.begin(), journal_.placements.end(),
                     [&](const auto& entry) { return IsBefore(entry.second, host, agent); });
}

bool JobRun::MayLiveOn(const std::string& host, const std::set<Incarnation>& agents) const {
  const auto is_of_others = [&](const Placement& placement) {
    return placement.host == host && !agents.contains(placement.agent);
  };
  if (reattachment_)
    return std::any_of(journal_.placements.begin(), journal_.placements.end(),
                       [&](const auto& entry) { return is_of_others(entry.second); });
  return std::any_of(membership_.live().begin(), membership_.live().end(), [&](const auto& entry) {
    const Placement* placement = PlacementOf(journal_, entry.first.name);
    return placement != nullptr && is_of_others(*placement);
  });
}

std::optional<std::set<std::string>> JobRun::HostsOfView() const {
  const std::optional<View>& view = journal_.view;
  if (journal_.phase != JobPhase::kRunning || !view || journal_.resumes || next_view_ ||
      reattachment_)
    return std::nullopt;
  std::set<std::string> hosts;
  for (const ViewMember& m : view->members) {
    const Placement* placement = PlacementOf(journal_, m.id.name);
    if (placement != nullptr) hosts.insert(placement->host.value_or(""));
  }
  return hosts;
}

void JobRun::DoAll(std::vector<Action> actions) {
  for (Action& action : actions) actions_.push_back(std::move(action));
}

// With how far the ledger is, so that a restart reads only what came after.
void JobRun::Persist() {
  CountTime();
  journal_.recorded = ledger_.recorded();
  journal_.tally = ledger_.tally();
  Do(PersistJob{journal_});
}

void JobRun::Say(std::string event, std::string text, std::map<std::string, std::string> fields) {
  Do(Announce{journal_.id, std::move(event), std::move(text), std::move(fields)});
}

void JobRun::SetPhase(JobPhase phase, std::string reason) {
  if (journal_.phase == phase && journal_.reason == reason) return;
  const bool changed = journal_.phase != phase;
  journal_.phase = phase;
  journal_.reason = std::move(reason);
  Persist();
  if (changed) SayPhase(journal_.reason);
}

void JobRun::SayPhase(std::string text) {
  Say("state", std::move(text), {{"state", std::string(PhaseName(journal_.phase))}});
}

// ---- its beginning and its end

void JobRun::On(const StartRun& start) {
  journal_.start = start.start;
  if (journal_.first_start == StartNumber(0)) journal_.first_start = start.start;
  journal_.placements = start.placements;
  if (NeedsReader()) journal_.placements.try_emplace(kReaderName, Placement{Role::kReader});
  journal_.left_out.clear();
  journal_.without_plugin.clear();
  journal_.apart.clear();
  has_leavers_ = false;
  grown_ = now_;
  journal_.ending.digest.clear();                // of the start before
  if (IsEmptyStream()) return EndEmptyStream();  // nobody would be there to say so again
  // What its parameters and data are good for, only a worker can say.
  if (journal_.environment)
    SetPhase(JobPhase::kStarting, kWaitsForMembers);
  else
    SetPhase(JobPhase::kChecking, "a worker tries its specification");
}

void JobRun::On(const Place& place) {
  bool grows = false;
  std::vector<MemberId> moved;
  for (const auto& [name, placement] : place.placements) {
    grows |= journal_.placements.insert_or_assign(name, placement).second;
    for (const MemberId& id : membership_.OthersOfName({name, {}}))
      if (!IsInViews(placement.role)) moved.push_back(id);
  }
  if (grows) grown_ = now_;
  Persist();
  for (const MemberId& id : moved) Evict(id, "it gets another place", kExitLater);
}

// None of its members lives any more, unless a person took it away: else it was not lost.
void JobRun::On(const HostLost& lost) {
  std::set<std::string> names;
  for (auto& [name, placement] : journal_.placements) {
    if (!IsBefore(placement, lost.host, lost.agent)) continue;
    Vacate(placement);
    names.insert(name);
  }
  Persist();
  std::vector<MemberId> gone;
  for (const auto& [id, live] : membership_.live())
    if (names.contains(id.name)) gone.push_back(id);
  for (const MemberId& id : gone) {
    const std::string why = absl::StrCat("host ", lost.host, " ", lost.why);
    Evict(id, lost.why.empty() ? "the agent that started it has ended" : why);
    if (!lost.why.empty()) Do(EndSession{id, why});
  }
  const bool is_lost = lost.agent == Incarnation{};  // else its agent was started again
  if (is_lost)
    Say("process",
        absl::StrCat("host ", lost.host, " ", lost.why.empty() ? "is lost" : lost.why,
                     "; its members are placed anew"),
        {{"host", lost.host}});
}

void JobRun::On(const LaunchFailed& failed) {
  if (AwaitsLastMeasure()) {
    launch_failed_ = failed;
    return EndUnmeasured(failed.reason);
  }
  // A person has stopped it, and nobody is left who could make the last checkpoint.
  if (journal_.ending.stop_asked && !journal_.ending.gives_way)
    return End(JobPhase::kStopped, absl::StrCat("stopped without a checkpoint: ", failed.reason),
               kExitStopped);
  End(JobPhase::kFailed, failed.reason, failed.exit_code);
}

void JobRun::On(const Cancel&) { End(JobPhase::kCancelled, "cancelled", kExitStopped); }

void JobRun::On(const Stop&) {
  if (std::exchange(journal_.ending.gives_way, false)) {  // a person wants it to stay stopped
    journal_.ending.is_urgent = false;                    // and with its checkpoint
    return SetPhase(JobPhase::kStopping, "stops after a checkpoint");
  }
  if (journal_.ending.stop_asked) return;
  journal_.ending.stop_asked = true;
  if (AwaitsLastMeasure()) return EndWhenDone();
  if (!HasBegun()) return End(JobPhase::kStopped, "stopped before its first step", kExitStopped);
  SetPhase(JobPhase::kStopping, "stops after a checkpoint");
  GiveCommands();
}

// Rewinds may have begun lineages in which no view became active, because no checkpoint could be
// loaded. They would hide newer checkpoints, so we fork again from the last one that had a view.
void JobRun::LeaveUnusedLineages() {
  JobJournal& j = journal_;
  if (!j.view || j.lineages.empty() || j.lineages.back().number == j.view->lineage) return;
  std::vector<Lineage> ran = j.lineages;
  while (!ran.empty() && ran.back().number > j.view->lineage) ran.pop_back();
  Step newest(0);
  StepTally tally;
  for (const Manifest& m : checkpoints_.committed()) {
    if (!OnAncestry(ran, m.lineage, m.step) || m.step <= newest) continue;
    newest = m.step;
    tally = TallyOf(m);
  }
  ledger_.Rewind(newest, tally);
  j.lineages.push_back({j.lineages.back().number + 1, j.view->lineage, newest, "job ended"});
}

void JobRun::End(JobPhase phase, const std::string& reason, int exit_code) {
  LeaveUnusedLineages();
  CountTime();
  journal_.recorded = ledger_.recorded();
  journal_.tally = ledger_.tally();
  goes_back_ = WhyItGoesBack(phase, reason, exit_code);
  if (!goes_back_.empty()) {  // its next entry puts it into the queue
    exit_code = kExitLater;
    journal_.phase = phase;
    // Nobody decides to begin anew, or from an old checkpoint: that was done when it began.
    if (!journal_.resumes) journal_.spec.runtime.resume = {};
  } else {
    DoAll(MarkEnded(journal_, phase, reason, exit_code));
  }
  Dismiss(reason, exit_code);
}

void JobRun::Dismiss(const std::string& reason, int exit_code) {
  std::vector<MemberId> up;
  for (const auto& [id, live] : membership_.live())
    if (live.up) up.push_back(id);
  if (!up.empty())
    Do(ToMembers{std::move(up), Leave{leadership_.term, exit_code, reason, leadership_.cluster}});
}

std::string JobRun::WhyItGoesBack(JobPhase phase, const std::string& reason, int exit_code) {
  const JobEnding& ending = journal_.ending;
  if (phase == JobPhase::kStopped && ending.gives_way)
    return "stopped so that it goes on elsewhere, or later";
  const bool is_wanted = (!ending.stop_asked || ending.gives_way) && !ending.is_late;
  if (phase != JobPhase::kFailed || !is_wanted) return "";
  return WhyTriedAgain(journal_, reason, exit_code);
}

void JobRun::On(const ExitTold& told) {
  const ProcessExited& exited = told.exited;
  const bool known = exited.lanes.incarnation != Incarnation{};
  if (known && journal_.lanes.Told(exited.lanes)) Persist();
  if (known) membership_.Ban(exited.lanes.incarnation);  // its Join may come late, or again
  if (known && reattachment_) reattachment_->Ended(exited.lanes.incarnation, last_tick_);
  // The exit of a process of another start, or of a place that was given to another host, only
  // tells how many lanes that incarnation ran.
  const bool counts =
      exited.start == journal_.start && exited.placement == PlacementNumberOf(exited.name);
  if (!counts && !known) return;
  if (counts && EndsWith(told)) return;
  if (counts && exited.signal == 0 && exited.exit_code == kExitReplaced) GiveAnotherPlace(exited);
  if (membership_.Exited(exited.name, exited.lanes.incarnation, now_) &&
      IsInViews(RoleOfName(exited.name).value_or(Role::kWorker)))
    Next().cause = HowItEnded(exited);
  EvictEnded();
}

bool JobRun::EndsWith(const ExitTold& told) {
  const ProcessExited& exited = told.exited;
  if (finishes_since_) return false;  // all that the job needs is there
  const bool is_hopeless = exited.signal == 0 && EndsItsJob(exited.exit_code);
  if (!exited.gave_up && !is_hopeless) return false;
  if (!exited.last_lines.empty())
    Say("process", absl::StrCat("the log of ", exited.name, " ends with:\n", exited.last_lines));
  // No host would do better with a specification that is bad, and none with a source that is: it is
  // the same one, or is not there. And a reader may be bound to its own host.
  const bool is_bound =
      exited.name == kReaderName && (!journal_.spec.runtime.stream.host.empty() ||
                                     (!exited.gave_up && exited.exit_code == kExitBadData));
  if (told.may_move && !is_bound && (exited.gave_up || exited.exit_code != kExitBadConfiguration)) {
    LeaveOut(exited);
    return false;
  }
  if (EndsUnmeasuredWith(exited)) return false;
  FailWith(exited);
  return true;
}

// It is needed, and is not started again.
void JobRun::FailWith(const ProcessExited& exited) {
  if (LacksPlugin(exited))
    return End(JobPhase::kFailed, WhereItIsMissing(exited), kExitBadConfiguration);
  // Without restarts it failed once.
  const char* how = journal_.spec.runtime.restarts == 0 ? " failed and is not started again"
                                                        : " fails again and again";
  if (exited.gave_up)
    End(JobPhase::kFailed, absl::StrCat(exited.name, how, ": ", exited.cause), kExitFailed);
  else
    End(JobPhase::kFailed, HowItEnded(exited), exited.exit_code);
}

void JobRun::On(const SignatureAsked& asked) {
  const ProcessName& process = asked.ask.process;
  const Placement* placement = PlacementOf(journal_, process.name);
  const bool is_told = placement != nullptr && placement->number == process.placement &&
                       placement->host == asked.agent.host &&
                       placement->agent == asked.agent.incarnation;
  const Signature signature{process.placement, asked.agent.host, asked.key_hash};
  const std::string why = is_told
                              ? WhyNotSigned(journal_.signatures, process.incarnation, signature)
                              : "its agent is not to start it, or not at that place";
  if (!why.empty()) return Do(RefuseToSign{asked.agent, {process, why}});
  if (AddSignature(journal_, process.incarnation, signature)) Persist();
  Do(Sign{asked.agent, asked.ask});
}

// Its agent starts it in that place no more: a coordinator that is gone, whose journal was newer
// than this copy of it, had given it another. Whoever else has this one by now lives, and keeps it.
void JobRun::GiveAnotherPlace(const ProcessExited& exited) {
  for (const auto& [id, live] : membership_.live())
    if (id.name == exited.name && id.incarnation != exited.lanes.incarnation) return;
  const auto it = journal_.placements.find(exited.name);
  if (it == journal_.placements.end()) return;
  Vacate(it->second);
  Persist();
  Say("process", absl::StrCat(exited.name,
                              " gets another place: in its own it was told that "
                              "another had taken it"));
}

// What a person can do about it, and then what the last of these hosts said.
std::string JobRun::WhereItIsMissing(const ProcessExited& exited) const {
  constexpr size_t kNamed = 8;
  std::set<std::string> without = journal_.without_plugin;
  if (const Placement* placement = PlacementOf(journal_, exited.name);
      placement != nullptr && placement->host && !placement->host->empty())
    without.insert(*placement->host);
  std::vector<std::string> hosts(without.begin(), without.end());
  if (hosts.empty()) hosts.push_back(absl::StrCat("the host of ", exited.name));
  const size_t more = hosts.size() - std::min(hosts.size(), kNamed);
  hosts.resize(hosts.size() - more);
  return absl::StrCat("what task ", journal_.spec.training.task,
                      " needs of a folder of plug-ins is missing on ", absl::StrJoin(hosts, ", "),
                      more > 0 ? absl::StrCat(" and ", more, " more") : "",
                      ", and too few hosts are left: put it into a folder there, and name that "
                      "where Muster is started (--plugins FOLDER); ",
                      HowItEnded(exited));
}

// Other hosts may do better than that of the member.
void JobRun::LeaveOut(const ProcessExited& exited) {
  Placement& placement = journal_.placements.at(exited.name);
  const std::string host = *placement.host;
  Vacate(placement);
  const bool is_new = journal_.left_out.insert(host).second;
  if (!LacksPlugin(exited))
    journal_.without_plugin.erase(host);
  else if (is_new)
    journal_.without_plugin.insert(host);
  Persist();
  std::vector<MemberId> gone;  // its session may not have broken yet
  for (const auto& [id, live] : membership_.live())
    if (id.name == exited.name) gone.push_back(id);
  for (const MemberId& id : gone) Evict(id, HowItEnded(exited));
  Say("process",
      absl::StrCat("host ", host, " is left out for this job: ",
                   exited.gave_up && !LacksPlugin(exited)
                       ? absl::StrCat(exited.name, " fails again and again there: ", exited.cause)
                       : HowItEnded(exited)),
      {{"host", host}});
}

void JobRun::On(const Tick& tick) {
  const Duration counts = leadership_.settings.lease / 2;  // at most, of the time between two ticks
  if (now_ - last_tick_ > counts) HeldUp(now_ - last_tick_ - counts);
  if (reattachment_ && tick.was_deaf) reattachment_->WasDeaf(now_);
  last_tick_ = now_;
  if (tick.heard) membership_.WordsCame(*tick.heard);
  hears_no_other_machine_ = tick.hears_no_other_machine;
  looks_for_leavers_ = true;
  EvictLost();
  JudgeReach();
  for (Refusals* refusals : {&refusals_, &untaken_records_})
    for (const std::string& told : refusals->TellRest(now_)) Say("process", told);
  LetReaderGo();  // we may have died before that
  EndWhenDone();
  if (!ended()) EndIfNobodyMeasures();
  if (!ended()) EndIfNobodyIsLeftToStop();
  if (!ended()) StopWhenLate();
  if (!ended()) EndIfStopTakesTooLong();
  if (!ended()) KeepTime();
  if (!ended()) RetryLast();
  if (!ended()) RetryMeasured();
  if (!ended()) CheckpointByTime();
  if (!ended()) EndWithoutSegments();
  if (!ended()) NoteRoom();
}

// Nothing was decided for so long, or longer. What members did meanwhile may still wait: their
// answers, and the Joins of those whose sessions broke.
void JobRun::HeldUp(Duration time) {
  if (reattachment_) reattachment_->HeldUp(time);
  if (change_) change_->HeldUp(time, now_);
  membership_.HeldUp(time, now_);
  stops_since_ += time;
  if (cannot_stop_since_) *cannot_stop_since_ += time;
  if (stands_still_since_) *stands_still_since_ += time;
  if (nobody_measures_since_) *nobody_measures_since_ += time;
}

JobStatus JobRun::Status() const {
  JobStatus status;
  status.job = journal_;
  status.step = ledger_.recorded();
  status.steps = TotalStepsOf(journal_, stream_.known());
  if (HasStream()) status.stream = StatusOf(stream_.rows(), journal_.spec.training.data);
  status.loss = ledger_.loss();
  const auto& fingerprints = ledger_.recent().fingerprints;
  if (!fingerprints.empty()) status.fingerprint = *fingerprints.rbegin();
  for (const Manifest& m : checkpoints_.committed())
    status.checkpoints.emplace_back(m.lineage, m.step);
  status.waits_for = next_view_ ? next_view_->waits_for : WaitsForMeasure();
  if (status.waits_for.empty()) status.waits_for = WaitsForStream();
  status.may_have_members = !ended() && HasMembers();
  status.members = StatusOfMembers();
  return status;
}

std::vector<MemberStatus> JobRun::StatusOfMembers() const {
  const View none, &view = journal_.view ? *journal_.view : none;
  const std::map<MemberId, int32_t> indexes = view.Indexes();
  std::vector<std::vector<LaneId>> lanes = LanesByHolder(view.lanes.holder_of, view.members.size());
  std::vector<MemberStatus> all;
  for (const auto& [id, live] : membership_.live()) {
    MemberStatus& m = all.emplace_back(MemberStatus{live.member,
                                                    live.up,
                                                    "joined",
                                                    membership_.PhaseOf(live),
                                                    live.step,
                                                    {},
                                                    HostOfMember(journal_, id.name)});
    if (live.member.role == Role::kFollower) m.state = "follows";
    if (live.member.role == Role::kReader) m.state = "reads";
    const auto in_view = indexes.find(id);
    if (in_view == indexes.end()) continue;
    const auto index = static_cast<size_t>(in_view->second);
    m.state = change_ ? "forming" : "active";
    m.member = view.members[index];
    m.lanes = std::move(lanes[index]);
    if (m.member.role == Role::kWorker && m.lanes.empty()) m.state = "spare";
  }
  return all;
}

}  // namespace muster::coordinator
