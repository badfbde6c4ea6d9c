#include "coordinator/state/coordinator.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/exit_codes.h"
#include "lib/domain/notes.h"

namespace muster::coordinator {
namespace {

template <class Range, class Function>
bool AnyOf(const Range& range, const Function& holds) {
  return std::any_of(range.begin(), range.end(), holds);
}

}  // namespace

Coordinator::Coordinator(std::string cluster, TermNumber term, Settings settings,
                         RecoveredState recovered, Time now)
    : leadership_{std::move(cluster), term, settings},
      hosts_(settings.slots, settings.lease, std::move(recovered.drained),
             std::move(recovered.left_out)),
      jobs_(leadership_, std::move(recovered), now),
      last_tick_(now) {
  for (const std::string& id : jobs_.Ids()) {
    const JobJournal& journal = *jobs_.Find(id);
    next_submission_ = std::max(next_submission_, journal.submission + 1);
    if (journal.deleting) to_delete_.push_back(id);
    if (jobs_.RunOf(id) == nullptr) continue;
    for (const auto& [name, placement] : journal.placements)
      if (placement.host && !placement.host->empty())
        hosts_.Expect({*placement.host, placement.agent}, now);
  }
}

std::vector<Action> Coordinator::Handle(const Input& input, Time now) {
  now_ = now;
  for (const std::string& id : std::exchange(to_delete_, {})) On(Delete{id});
  std::visit([this](const auto& x) { On(x); }, input);
  if (std::exchange(places_changed_, false)) PlaceWhatFits();
  if (std::exchange(wanted_changed_, false)) TellHosts();
  return std::exchange(actions_, {});
}

void Coordinator::DoAll(std::vector<Action> actions) {
  for (Action& action : actions) Do(std::move(action));
}

// ---- what people ask

void Coordinator::On(const Submit& submit) {
  StoredJob* job = jobs_.AtRest(submit.id);
  const JobJournal* known = jobs_.Find(submit.id);
  if (known != nullptr && known->deleting) return;
  const bool is_longer = known != nullptr && known->phase == JobPhase::kDone &&
                         LengtheningOf(known->spec.training, submit.spec.training).is_possible();
  if (known != nullptr && !CanGoOn(known->phase) && !is_longer)
    return PutBack(submit.id, submit.spec);
  if (job == nullptr) job = &jobs_.Add({.journal = {.id = submit.id}});
  job->journal.spec = submit.spec;
  job->journal.submission = next_submission_++;
  Change(*job, Enqueue(*job, known == nullptr ? "submitted"
                             : is_longer      ? "submitted again, with more steps"
                                              : "submitted again, to go on"));
  for (const std::string& note : NotesOn(submit.spec))
    Do(Announce{submit.id, "note", absl::StrCat("note: ", note), {}});
}

// A job that was cut off is submitted with another runtime specification, or with more steps: it
// starts again, from its old place in the queue.
void Coordinator::PutBack(const std::string& id, const JobSpec& spec) {
  const JobJournal& known = *jobs_.Find(id);
  const JobRun* run = jobs_.RunOf(id);
  if (Ended(known.phase) || known.spec == spec || (run && run->HasMembers())) return;
  StoredJob& job = run ? PutToRest(id) : *jobs_.AtRest(id);
  JobSpec& held = job.journal.spec;
  held.runtime = spec.runtime;
  if (LengtheningOf(held.training, spec.training).is_possible()) held.training = spec.training;
  Change(job, Enqueue(job, "submitted again with other fields"));
}

void Coordinator::On(const Cancel& cancel) {
  StoredJob* job = jobs_.AtRest(cancel.id);
  if (job == nullptr) return Pass(cancel.id, cancel);
  const JobJournal& journal = job->journal;
  const bool is_over = Ended(journal.phase) && !CanGoOn(journal.phase);
  if (!is_over && !journal.deleting) Change(*job, CancelAtRest(*job));
}

void Coordinator::On(const Stop& stop) {
  StoredJob* job = jobs_.AtRest(stop.id);
  if (job == nullptr) return Pass(stop.id, stop);
  if (!Ended(job->journal.phase)) Change(*job, StopAtRest(*job));
}

void Coordinator::On(const Delete& request) {
  StoredJob* job = jobs_.AtRest(request.id);
  if (job != nullptr && WhyNotDeleted(job->journal).empty()) Change(*job, BeginDeletion(*job));
}

void Coordinator::On(const Scale& scale) {
  StoredJob* job = jobs_.AtRest(scale.id);
  places_changed_ = true;
  if (job == nullptr) return Pass(scale.id, scale);
  if (!Ended(job->journal.phase)) Change(*job, ScaleAtRest(*job, scale));
}

void Coordinator::On(const Drain& drain) {
  if (!drain.on) LetBack(drain.host);
  if (!hosts_.Drain(drain.host, drain.on)) return;
  const std::set<std::string>& drained = hosts_.drained();
  Do(PersistDrained{{drained.begin(), drained.end()}});
  places_changed_ = true;
}

void Coordinator::On(const JobDeleted& deleted) {
  StoredJob* job = jobs_.AtRest(deleted.id);
  if (job == nullptr || !job->journal.deleting) return;
  if (deleted.failure.empty()) return jobs_.Erase(deleted.id);
  Change(*job, DeletionFailed(*job, deleted.failure));
}

// ---- members and host agents

void Coordinator::On(const MemberSays& says) {
  if (const Join* join = std::get_if<Join>(&says.message)) return OnJoin(says, *join);
  if (const auto it = job_of_.find(says.member.incarnation); it != job_of_.end())
    Pass(it->second, says);
}

// Names repeat between jobs, incarnations do not: a member is of the job that it joined first.
void Coordinator::OnJoin(const MemberSays& says, const Join& join) {
  const MemberId& member = says.member;
  const auto [of, is_new] = job_of_.try_emplace(member.incarnation, join.job);
  if (jobs_.RunOf(join.job) != nullptr && of->second == join.job) {
    Pass(join.job, says);
    const JobRun* run = jobs_.RunOf(join.job);
    if (is_new && (run == nullptr || !run->Has(member))) job_of_.erase(member.incarnation);
    return;
  }
  const std::string other = is_new ? "" : of->second;
  if (is_new) job_of_.erase(of);
  const bool is_ours = join.cluster.empty() || join.cluster == leadership_.cluster;
  if (is_ours && join.term > leadership_.term)  // what it holds may be the only copy
    return Do(EndSession{member, absl::StrCat(member.name, " was told of term ", join.term.value(),
                                              ", this is term ", leadership_.term.value(),
                                              ": the journal is an older copy")});
  Leave leave = jobs_.LeaveOf(join.job);
  if (!other.empty()) {
    leave.exit_code = kExitFailed;
    leave.reason = absl::StrCat("it is a member of job ", other);
  }
  leave.term = std::max(leave.term, join.term);  // it hears no lower one
  leave.reason = absl::StrCat(member.name, " cannot take part: ", leave.reason);
  Do(ToMember{member, std::move(leave)});
}

void Coordinator::On(const MemberDown& down) {
  if (const auto it = job_of_.find(down.member.incarnation); it != job_of_.end())
    Pass(it->second, down);
}

void Coordinator::On(const AgentUp& up) {
  const AgentId& agent = up.hello.agent;
  const bool lives = AnyOf(jobs_.Running(), [&](const std::string& id) {
    return jobs_.RunOf(id)->MayLiveOn(agent.host, {agent.incarnation, up.hello.follows});
  });
  if (const std::string why = hosts_.Up(up.hello, lives, now_); !why.empty())
    return Do(EndAgentSession{agent, why});
  told_.erase(agent);
  TakeBack(agent.host, agent.incarnation);
  // The machine may have another name now.
  for (const std::string& host : hosts_.OthersOf(agent, up.hello.follows)) {
    hosts_.Forget(host);
    TakeBack(host, Incarnation{});
  }
  wanted_changed_ = true;
  places_changed_ = true;
}

void Coordinator::On(const HostEnds& ends) { places_changed_ |= hosts_.Ends(ends.agent); }

void Coordinator::On(const AgentDown& down) {
  if (!hosts_.Down(down.agent, now_)) return;
  told_.erase(down.agent);
  places_changed_ = true;
}

void Coordinator::On(const AgentSays& says) {
  const ProcessExited& exited = says.exited;
  if (StoredJob* job = jobs_.AtRest(exited.job)) return Change(*job, NoteExit(*job, exited));
  const JobRun* run = jobs_.RunOf(exited.job);
  if (run == nullptr) return;
  // It may have left because a person told it to. Wanted is sent again, so that its agent starts it
  // again.
  const bool left = exited.exit_code == kExitDone || exited.exit_code == kExitLater;
  const Placement* placement = PlacementOf(run->journal(), exited.name);
  const bool counts = exited.start == run->journal().start && placement != nullptr &&
                      placement->number == exited.placement;
  if (counts && exited.signal == 0 && left)
    std::erase_if(told_, [&](const auto& told) { return told.first.host == placement->host; });
  const std::string host = counts ? placement->host.value_or("") : "";
  const bool was_left_out = run->journal().left_out.contains(host);
  Pass(exited.job, ExitTold{exited, counts && MayMove(exited)});
  if (!counts) return;
  if (!host.empty() && !was_left_out) NoteFailure(host, exited.job);
  wanted_changed_ = true;
  places_changed_ = true;  // its member may be placed on another host
}

// Without the host of that member there are still enough for its job.
bool Coordinator::MayMove(const ProcessExited& exited) const {
  const JobJournal& job = *jobs_.Find(exited.job);
  const Placement* placement = PlacementOf(job, exited.name);
  constexpr size_t kMostAlike = 3;  // that fail alike: it is not the hosts
  if (placement == nullptr || !placement->host) return false;
  const size_t others = job.left_out.size() - job.left_out.count(*placement->host);
  if (others + 1 >= kMostAlike) return false;
  if (hosts_.AwaitsAnother(*placement->host)) return true;  // it may have many slots
  int64_t slots = 0;
  const std::set<std::string> kept_off = hosts_.KeptOff();
  for (const HostRoom& room : hosts_.Rooms())  // one that is away may come back
    if (room.name != *placement->host && !room.drains && !job.left_out.contains(room.name) &&
        !kept_off.contains(room.name))
      slots += room.slots;
  return slots >= job.spec.runtime.workers_min + job.spec.runtime.servers;
}

// One host that fails members of several jobs, while these run elsewhere, would fail the next ones,
// too, each after as long.
void Coordinator::NoteFailure(const std::string& host, const std::string& job) {
  const JobJournal& journal = *jobs_.Find(job);
  if (!journal.left_out.contains(host)) return;
  const auto before = failures_.Bad();
  failures_.Note(host, job, /*elsewhere=*/journal.left_out.size() > 1, now_);
  const auto bad = failures_.Bad();
  for (const auto& [name, jobs] : bad)
    if (!before.contains(name)) SayLeftOut(name, jobs);
  for (const auto& [name, jobs] : before)
    if (!bad.contains(name) && LetBack(name))
      Do(Announce{job,
                  "process",
                  absl::StrCat("host ", name, " is taken again: job ", job,
                               " cannot run on another host either"),
                  {{"host", name}}});
}

void Coordinator::SayLeftOut(const std::string& host, const std::vector<std::string>& jobs) {
  const std::string why =
      absl::StrCat("members of jobs ", absl::StrJoin(jobs, " and "), " could not run there");
  if (!hosts_.LeaveOut(host, why)) return;
  Do(PersistLeftOut{hosts_.left_out()});
  places_changed_ = true;
  const std::string text =
      absl::StrCat("host ", host, " is left out for all jobs: ", why,
                   hosts_.KeptOff().contains(host)
                       ? absl::StrCat("; muster drain ", host, " --undo lets it back")
                       : "; as no other host remains, it is taken all the same until there is one");
  for (const std::string& job : jobs)
    if (jobs_.Find(job) != nullptr) Do(Announce{job, "process", text, {{"host", host}}});
}

// A person trusts it again, or what spoke against it is gone.
bool Coordinator::LetBack(const std::string& host) {
  failures_.Forgive(host);
  if (!hosts_.LetBack(host)) return false;
  Do(PersistLeftOut{hosts_.left_out()});
  places_changed_ = true;
  return true;
}

void Coordinator::On(const ManifestCommitted& committed) {
  const Manifest& m = committed.manifest;
  StoredJob* job = jobs_.AtRest(m.job);
  if (job == nullptr) return Pass(m.job, committed);
  job->manifests.push_back(m);  // it goes on from there
  jobs_.Changed(m.job);
}
void Coordinator::On(const ManifestFailed& failed) { Pass(failed.job, failed); }
void Coordinator::On(const DigestDone& done) { Pass(done.job, done); }

void Coordinator::On(const Tick& tick) {
  const Duration counts = leadership_.settings.lease / 2;  // at most, of the time between two ticks
  if (now_ - last_tick_ > counts) hosts_.HeldUp(now_ - last_tick_ - counts, now_);
  last_tick_ = now_;
  Tick seen = tick;
  seen.hears_no_other_machine = hosts_.HearsNoOther(leadership_.settings.node);
  for (const std::string& id : jobs_.Running()) Pass(id, seen);
  LoseHosts();
  // A job may grow once in that time; it does not wait for the next look as long again.
  constexpr int kLooks = 12;
  if (now_ - looked_for_room_ < leadership_.settings.grow_interval / kLooks) return;
  looked_for_room_ = now_;
  places_changed_ = true;
}

// A host of which nobody speaks: neither its agent nor a member that was placed there. Where nobody
// was placed, nothing is lost.
void Coordinator::LoseHosts() {
  for (const std::string& host : hosts_.SilentFor(2 * leadership_.settings.lease, now_)) {
    const bool has_places = AnyOf(jobs_.Running(), [&](const std::string& id) {
      return jobs_.RunOf(id)->HasPlaces(host, Incarnation{});
    });
    if (has_places) continue;
    hosts_.Forget(host);
    places_changed_ = true;
  }
  for (const std::string& host : hosts_.SilentFor(leadership_.settings.host_patience, now_)) {
    const bool lives = AnyOf(jobs_.Running(), [&](const std::string& id) {
      return jobs_.RunOf(id)->MayLiveOn(host, {});
    });
    if (lives) continue;
    hosts_.Forget(host);
    TakeBack(host, Incarnation{});
  }
}

// Places that another agent than this one was told of: its processes are gone.
void Coordinator::TakeBack(const std::string& host, Incarnation agent) {
  for (const std::string& id : jobs_.Running())
    if (jobs_.RunOf(id)->HasPlaces(host, agent)) Pass(id, HostLost{host, agent});
  places_changed_ = true;
}

// ---- jobs

void Coordinator::Pass(const std::string& id, const JobInput& input) {
  JobRun* run = jobs_.RunOf(id);
  if (run == nullptr) return;
  std::vector<Action> actions = run->Handle(input, now_);
  if (!actions.empty() || !std::holds_alternative<Tick>(input)) jobs_.Changed(id);
  DoAll(std::move(actions));
  if (run->GivesUpPlaces()) wanted_changed_ = places_changed_ = true;
  if (!run->ended()) return;
  // A copy: `id` may refer into job_of_, from which PutToRest erases.
  StoredJob& job = PutToRest(std::string(id));
  places_changed_ = true;
  if (job.journal.phase == JobPhase::kStopped && job.journal.ending.gives_way)
    Change(job, Enqueue(job, "stopped so that it goes on elsewhere, or later"));
}

void Coordinator::Change(StoredJob& job, std::vector<Action> actions) {
  if (actions.empty()) return;
  jobs_.Changed(job.journal.id);
  places_changed_ = true;
  DoAll(std::move(actions));
}

StoredJob& Coordinator::PutToRest(const std::string& id) {
  std::erase_if(job_of_, [&](const auto& entry) { return entry.second == id; });
  wanted_changed_ = true;
  return jobs_.PutToRest(id);
}

std::string Coordinator::JobOfMember(const MemberId& member) const {
  const auto it = job_of_.find(member.incarnation);
  return it == job_of_.end() ? "" : it->second;
}

// ---- who is placed where

PlacementInput Coordinator::InputOfPlacement() const {
  PlacementInput input = jobs_.InputOfPlacement();
  input.hosts = hosts_.Rooms();
  const std::set<std::string> kept_off = hosts_.KeptOff();
  for (PlacedJob& job : input.running) job.left_out.insert(kept_off.begin(), kept_off.end());
  for (QueuedJob& job : input.queued) job.left_out.insert(kept_off.begin(), kept_off.end());
  return input;
}

void Coordinator::PlaceWhatFits() {
  const PlacementDecision decision = DecidePlacement(InputOfPlacement());
  LetLeave(decision);  // first, so that no job ever has more members that stay than it may
  std::map<std::string, Placements> by_job;
  for (const auto& [job, member, host] : decision.places) {
    const PlacementNumber number(host.empty() ? 0 : NextNumber());
    by_job[job][member.name] = {member.role, host, number, hosts_.AgentOf(host)};
  }
  for (auto& [id, placements] : by_job) {
    wanted_changed_ = true;
    if (!decision.starts.contains(id)) {
      Pass(id, Place{std::move(placements)});
      continue;
    }
    jobs_.Start(id, now_);
    Pass(id, StartRun{StartNumber(NextNumber()), std::move(placements)});
  }
  TellWhyTheyWait(decision);
}

void Coordinator::LetLeave(const PlacementDecision& decision) {
  static const std::map<std::string, LeaveCause> kNobody;
  for (const std::string& id : jobs_.Running()) {
    const JobJournal& journal = *jobs_.Find(id);
    if (const auto way = decision.give_way.find(id); way != decision.give_way.end()) {
      if (!journal.ending.stop_asked) Pass(id, GiveWay{way->second});
      continue;
    }
    const auto of_job = decision.leaves.find(id);
    const auto& leaves = of_job == decision.leaves.end() ? kNobody : of_job->second;
    const bool is_told = std::all_of(
        journal.placements.begin(), journal.placements.end(),
        [&](const auto& entry) { return entry.second.leaving == leaves.contains(entry.first); });
    if (!is_told) Pass(id, Leavers{leaves});
  }
}

// The term is in the upper bits, so no other term gives the same number.
int64_t Coordinator::NextNumber() {
  constexpr int kBitsOfCounter = 32;
  return (leadership_.term.value() << kBitsOfCounter) + ++numbers_;
}

void Coordinator::TellWhyTheyWait(const PlacementDecision& decision) {
  const std::set<std::string> kept_off = hosts_.KeptOff();
  const std::string without = kept_off.empty()
                                  ? ""
                                  : absl::StrCat(" (without ", absl::StrJoin(kept_off, ", "),
                                                 ", left out for all jobs: muster hosts says why)");
  for (const auto& [id, why] : decision.reasons) {
    StoredJob& job = *jobs_.AtRest(id);
    const std::string reason = why + without;
    if (job.waits_for == reason) continue;
    job.waits_for = reason;
    jobs_.Changed(id);
    if (decision.too_large.contains(id))
      Do(Announce{id, "state", absl::StrCat("waits: ", reason), {}});
  }
}

void Coordinator::TellHosts() {
  for (const AgentId& agent : hosts_.Agents()) {
    Wanted wanted = jobs_.WantedOn(agent.host);
    wanted.cluster = leadership_.cluster;
    wanted.term = leadership_.term;
    const auto told = told_.find(agent);
    if (told != told_.end() && told->second == wanted) continue;
    told_[agent] = wanted;
    Do(ToHost{agent, std::move(wanted)});
  }
}

}  // namespace muster::coordinator
