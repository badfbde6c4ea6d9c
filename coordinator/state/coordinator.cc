#include "coordinator/state/coordinator.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/state/measures_to_save.h"
#include "lib/base/exit_codes.h"
#include "lib/domain/fork.h"
#include "lib/domain/given_number.h"
#include "lib/domain/notes.h"
#include "lib/domain/validation.h"

namespace muster::coordinator {
namespace {

template <class Range, class Function>
bool AnyOf(const Range& range, const Function& holds) {
  return std::any_of(range.begin(), range.end(), holds);
}

// What is left out only for want of a plug-in did not fail.
std::set<std::string> HostsThatFailed(const JobJournal& job) {
  std::set<std::string> failed = job.left_out;
  for (const std::string& host : job.without_plugin) failed.erase(host);
  return failed;
}

}  // namespace

Coordinator::Coordinator(std::string cluster, TermNumber term, Settings settings,
                         RecoveredState recovered, Time now)
    : leadership_{std::move(cluster), term, settings},
      hosts_(settings.slots, settings.lease, std::move(recovered.drained),
             std::move(recovered.left_out)),
      book_(std::move(recovered.hosts), now),
      quotas_(std::move(recovered.quotas)),
      tokens_(std::move(recovered.tokens)),
      jobs_(leadership_, std::move(recovered), now),
      began_(now),
      last_tick_(now) {
  for (const std::string& id : jobs_.Ids()) {
    const JobJournal& journal = *jobs_.Find(id);
    next_submission_ = std::max(next_submission_, journal.submission + 1);
    if (journal.deleting) to_delete_.push_back(id);
    if (StoredJob* job = jobs_.AtRest(id); job != nullptr) {
      if (!journal.deleting) DoAll(MeasuresToSave(journal, job->manifests, job->recent));
      if (!CanGoOn(journal.phase)) job->recent.KeepOnlyFactOf(job->recorded);
      continue;
    }
    for (const auto& [name, placement] : journal.placements)
      if (placement.host && !placement.host->empty())
        hosts_.Expect({*placement.host, placement.agent}, placement.devices, now);
  }
}

std::vector<Action> Coordinator::Handle(const Input& input, Time now) {
  std::vector<Action> actions = Take(input, now);
  std::vector<Action> more = Settle(now);
  std::move(more.begin(), more.end(), std::back_inserter(actions));
  return actions;
}

std::vector<Action> Coordinator::Take(const Input& input, Time now) {
  now_ = now;
  // Whoever has no place at a tick is to have none because there is no room.
  if (std::holds_alternative<Tick>(input)) PlaceAndTell();
  for (const std::string& id : std::exchange(to_delete_, {})) On(Delete{id});
  std::visit([this](const auto& x) { On(x); }, input);
  return std::exchange(actions_, {});
}

std::vector<Action> Coordinator::Settle(Time now) {
  now_ = now;
  PlaceAndTell();
  return std::exchange(actions_, {});
}

void Coordinator::PlaceAndTell() {
  if (std::exchange(places_changed_, false)) PlaceWhatFits();
  if (std::exchange(wanted_changed_, false)) TellHosts();
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
                         !known->ending.enough_at &&
                         LengtheningOf(known->spec.training, submit.spec.training).is_possible();
  if (known != nullptr && !CanGoOn(known->phase) && !is_longer) return PutBack(submit);
  if (job == nullptr) job = &jobs_.Add({.journal = {.id = submit.id, .owner = submit.owner}});
  job->journal.spec = submit.spec;
  job->journal.submission = next_submission_++;
  job->journal.retried = 0;
  job->journal.launch = {};
  if (submit.from) Know(*job, *submit.from);
  Accept(job->journal, submit.accepts, submit.by);
  Change(*job, Enqueue(*job, known == nullptr ? "submitted"
                             : is_longer      ? "submitted again, with more steps"
                                              : "submitted again, to go on"));
  for (const std::string& note : NotesOn(submit.spec))
    Do(Announce{submit.id, "note", absl::StrCat("note: ", note), {}});
}

// Its first lineage begins at the checkpoint: nothing is known here of the steps below.
void Coordinator::On(const Adopt& adopt) {
  if (jobs_.Find(adopt.id) != nullptr) return;
  const Manifest& manifest = adopt.manifest;
  StoredJob& job = jobs_.Add({.journal = {.id = adopt.id, .spec = adopt.spec, .owner = adopt.owner},
                              .recorded = manifest.step,
                              .manifests = {manifest}});
  JobJournal& journal = job.journal;
  journal.submission = next_submission_++;
  journal.environment = adopt.environment;
  journal.lineages = {{manifest.lineage, LineageNumber(0), manifest.step, adopt.cause}};
  journal.tally = TallyOf(manifest);
  journal.recorded = manifest.step;
  Accept(journal, adopt.accepts, adopt.owner);
  Change(job, Enqueue(job, adopt.cause));
}

// Its first lineage begins at its own step 0, of which there is a checkpoint; the environment is
// what its workers will say, as of any new job.
void Coordinator::On(const Fork& fork) {
  if (jobs_.Find(fork.id) != nullptr) return;
  const Manifest& manifest = fork.manifest;
  StoredJob& job = jobs_.Add({.journal = {.id = fork.id, .spec = fork.spec, .owner = fork.owner},
                              .manifests = {manifest}});
  const std::string cause =
      absl::StrCat("forked from ", Describe(*fork.spec.training.initial.parent));
  job.journal.submission = next_submission_++;
  job.journal.lineages = {{manifest.lineage, LineageNumber(0), manifest.step, cause}};
  Change(job, Enqueue(job, cause));
  for (const std::string& note : NotesOn(fork.spec))
    Do(Announce{fork.id, "note", absl::StrCat("note: ", note), {}});
}

// A job that was cut off is submitted with another runtime specification, or with more steps: it
// starts again, from its old place in the queue.
void Coordinator::PutBack(const Submit& submit) {
  const std::string& id = submit.id;
  const JobSpec& spec = submit.spec;
  const JobJournal& known = *jobs_.Find(id);
  JobRun* run = jobs_.RunOf(id);
  RuntimeSpec runtime = spec.runtime;
  // Nobody decides to begin anew, or from an old checkpoint: the same file is often submitted
  // again, and what it says of the beginning was heeded when the job began.
  if (known.view) runtime.resume = known.resumes ? known.spec.runtime.resume : Resume{};
  RuntimeSpec compared = runtime;
  compared.resume = known.spec.runtime.resume;
  const bool is_same = known.spec.training == spec.training && known.spec.runtime == compared &&
                       (!submit.accepts.plugin || known.accepted);
  if (Ended(known.phase) || is_same || (run && run->HasMembers())) return;
  static constexpr char kAnew[] = "submitted again with other fields";
  if (run) DoAll(run->LetGo(kAnew));  // those that are in no view may live
  StoredJob& job = run ? PutToRest(id) : *jobs_.AtRest(id);
  job.journal.launch = {};  // others, which are made as it says now
  JobSpec& held = job.journal.spec;
  held.runtime = std::move(runtime);
  if (LengtheningOf(held.training, spec.training).is_possible()) held.training = spec.training;
  if (submit.accepts.plugin && !job.journal.accepted)
    Accept(job.journal, submit.accepts, submit.by);
  Change(job, Enqueue(job, kAnew));
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

void Coordinator::On(const RemoveCheckpoint& remove) {
  if (jobs_.Find(remove.id) == nullptr) return;
  const JobStatus status = jobs_.StatusOf(remove.id);
  if (!WhyNotRemoved(status, remove.lineage, remove.step, remove.force).empty()) return;
  if (jobs_.BeginRemoval(remove.id, remove.lineage, remove.step))
    Do(RemoveManifest{remove.id, remove.lineage, remove.step, remove.force, remove.by});
}

void Coordinator::On(const Scale& scale) {
  StoredJob* job = jobs_.AtRest(scale.id);
  places_changed_ = true;
  if (job == nullptr) return Pass(scale.id, scale);
  if (!Ended(job->journal.phase)) Change(*job, ScaleAtRest(*job, scale));
}

void Coordinator::On(const SetQueue& set) {
  const JobJournal* known = jobs_.Find(set.id);
  if (known == nullptr) return;
  // Nothing else of it says who is placed.
  places_changed_ |= known->spec.queue.priority != set.queue.priority;
  StoredJob* job = jobs_.AtRest(set.id);
  if (job == nullptr) return Pass(set.id, set);
  DoAll(SetQueueAtRest(*job, set));
  jobs_.Changed(set.id);
}

void Coordinator::On(const SetQuota& set) {
  if (set.quota.is_none())
    quotas_.erase(set.name_space);
  else
    quotas_[set.name_space] = set.quota;
  Do(PersistQuotas{quotas_});
  places_changed_ = true;
}

void Coordinator::On(const Drain& drain) {
  if (!drain.on) LetBack(drain.host);
  if (!hosts_.Drain(drain.host, drain.on)) return;
  const std::set<std::string>& drained = hosts_.drained();
  Do(PersistDrained{{drained.begin(), drained.end()}});
  places_changed_ = true;
}

void Coordinator::On(const MakeToken& make) {
  if (!WhyNotMade(tokens_, make.token).empty()) return;
  std::erase_if(tokens_,
                [&](const Token& token) { return HasExpired(token, make.token.made_unix_ms); });
  tokens_.push_back(make.token);
  Do(PersistTokens{tokens_});
  places_changed_ = true;  // hosts may be of one namespace now
}

void Coordinator::On(const RevokeToken& revoke) {
  if (!WhyNotRevoked(tokens_, revoke.id).empty()) return;
  const auto is_it = [&](const Token& token) { return TokenId(token) == revoke.id; };
  if (std::erase_if(tokens_, is_it) == 0) return;
  Do(PersistTokens{tokens_});
  places_changed_ = true;
}

// What it is to run of another namespace than before has no place there any more, and a new secret
// is for a new key.
void Coordinator::On(const AdmitHost& admit) {
  if (!WhyNotAdmitted(book_.records(), admit.host, admit.record).empty()) return;
  const HostRecord* const known = book_.Find(admit.host);
  const bool moves = known != nullptr && known->name_space != admit.record.name_space;
  book_.Put(admit.host, admit.record, now_);
  Do(PersistHost{admit.host, admit.record});
  if (moves) Expel(admit.host, "is of another namespace now");
  places_changed_ = true;
}

void Coordinator::On(const RevokeHost& revoke) {
  const HostRecord* const known = book_.Find(revoke.host);
  if (known != nullptr && known->revoked) return;
  if (known == nullptr && book_.records().size() >= kMostHosts) return;
  const HostRecord tombstone{.name_space = known == nullptr ? kFirstNamespace : known->name_space,
                             .revoked = true};
  book_.Put(revoke.host, tombstone, now_);
  Do(PersistHost{revoke.host, tombstone});
  Expel(revoke.host, "was revoked");
}

void Coordinator::On(const HostJoins& joins) {
  // The hosts of a run have one secret, and new keys each time that it goes on: none of them could
  // take another's place that it might not take under a name of its own.
  const Duration patience = joins.by_run ? Duration{} : leadership_.settings.host_patience;
  const bool may_bind_anew = book_.IsAwayFor(joins.host, patience, now_) && !LivesOn(joins.host);
  const bool is_known_run = !JobOfHost(joins.host).empty() || Namespaces().size() <= 1;
  if (!WhyNotJoined(book_.records(), joins, may_bind_anew, is_known_run).empty()) return;
  const HostRecord* const known = book_.Find(joins.host);
  HostRecord record = known == nullptr ? HostRecord{.name_space = ""} : *known;
  if (record.key_hash == joins.key_hash) return;
  record.key_hash = joins.key_hash;
  book_.Put(joins.host, record, now_);
  Do(PersistHost{joins.host, std::move(record)});
  // Whoever speaks there came before that token was used; with the new key it is heard again.
  if (joins.by_run) return;
  const AgentId agent{joins.host, hosts_.AgentOf(joins.host)};
  if (hosts_.Speaks(agent))
    Do(EndAgentSession{agent, absl::StrCat("host ", joins.host, " has joined with a new token")});
}

// Whoever is there loses its session and its places, and nothing is waited for.
void Coordinator::Expel(const std::string& host, const std::string& why) {
  const AgentId agent{host, hosts_.AgentOf(host)};
  if (hosts_.Speaks(agent)) Do(EndAgentSession{agent, absl::StrCat("host ", host, " ", why)});
  told_.erase(agent);
  hosts_.Forget(host);
  book_.Went(host, now_);
  TakeBack(host, Incarnation{}, why);
}

// A member that an agent of that host was told to start may live.
bool Coordinator::LivesOn(const std::string& host) {
  return AnyOf(jobs_.Running(),
               [&](const std::string& id) { return jobs_.RunOf(id)->MayLiveOn(host, {}); });
}

// Of jobs that wait or run, and of hosts.
std::set<std::string> Coordinator::Namespaces() const {
  std::set<std::string> names;
  for (const std::string& id : jobs_.Ids())
    if (const JobJournal& job = *jobs_.Find(id); !Ended(job.phase))
      names.insert(job.spec.queue.name_space);
  for (const auto& [host, record] : book_.records())
    if (!record.name_space.empty() && !record.revoked) names.insert(record.name_space);
  return names;
}

void Coordinator::On(const JobDeleted& deleted) {
  StoredJob* job = jobs_.AtRest(deleted.id);
  if (job == nullptr || !job->journal.deleting) return;
  if (deleted.failure.empty()) return jobs_.Erase(deleted.id);
  job->ended = now_;  // one whose time is over is not tried again at once
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
  if (book_.IsRevoked(agent.host))
    return Do(EndAgentSession{
        agent,
        absl::StrCat("host ", agent.host, " was revoked; an admin lets it back with ",
                     "`muster token host ", agent.host, "`, or, where it needs no token, as ",
                     "that of muster up, with --certified")});
  const bool lives = AnyOf(jobs_.Running(), [&](const std::string& id) {
    return jobs_.RunOf(id)->MayLiveOn(agent.host, {agent.incarnation, up.hello.follows});
  });
  if (const std::string why = hosts_.Up(up.hello, lives, now_); !why.empty())
    return Do(EndAgentSession{agent, why});
  book_.Came(agent.host);
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

void Coordinator::On(const DevicesTold& told) {
  places_changed_ |= hosts_.Hold(told.agent, told.devices);
}

void Coordinator::On(const TrustTold& told) { hosts_.Trusts(told.agent, told.hash); }

void Coordinator::On(const AgentDown& down) {
  if (!hosts_.Down(down.agent, now_)) return;
  book_.Went(down.agent.host, now_);
  told_.erase(down.agent);
  places_changed_ = true;
}

// A signature is in the journal before anybody has it, so that after a crash, too, an incarnation
// has one key.
void Coordinator::On(const SignatureAsked& asked) {
  const ProcessName& process = asked.ask.process;
  std::string why;
  if (!hosts_.Speaks(asked.agent))
    why = "another agent speaks for its host, or none yet";
  else if (jobs_.RunOf(process.job) == nullptr)
    why = "its job is not running";
  else if (IsOfAnotherJob(process))
    why = "this incarnation has a certificate of another job";
  if (why.empty()) return Pass(process.job, asked);
  Do(RefuseToSign{asked.agent, {process, why}});
}

// Members are told apart by name and incarnation alone, also those of several jobs. So a host that
// gave its own process the incarnation of another host's could speak for that one's member.
bool Coordinator::IsOfAnotherJob(const ProcessName& process) const {
  return AnyOf(jobs_.Running(), [&](const std::string& id) {
    return id != process.job && jobs_.Find(id)->signatures.contains(process.incarnation);
  });
}

void Coordinator::On(const AgentSays& says) {
  const JobJournal* known = jobs_.Find(says.exited.job);
  if (known == nullptr) return;
  const std::optional<ProcessExited> told =
      says.proven_host.empty() ? says.exited : SaidByHost(*known, says.exited, says.proven_host);
  if (told) OnExit(*told);
}

void Coordinator::OnExit(const ProcessExited& exited) {
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
  if (!host.empty() && !was_left_out && !LacksPlugin(exited)) NoteFailure(host, exited.job);
  wanted_changed_ = true;
  places_changed_ = true;  // its member may be placed on another host
}

// Without the host of that member there are still enough for its job.
bool Coordinator::MayMove(const ProcessExited& exited) const {
  const JobJournal& job = *jobs_.Find(exited.job);
  const Placement* placement = PlacementOf(job, exited.name);
  constexpr size_t kMostAlike = 3;  // that fail alike: it is not the hosts
  if (placement == nullptr || !placement->host) return false;
  std::set<std::string> failed = HostsThatFailed(job);
  failed.insert(*placement->host);
  if (!LacksPlugin(exited) && failed.size() >= kMostAlike) return false;
  const bool has_own = leadership_.settings.launches;  // hosts that were made for it
  if (!has_own && hosts_.AwaitsAnother(*placement->host)) return true;  // it may have many slots
  int64_t slots = 0, workers = 0;
  const RuntimeSpec& runtime = job.spec.runtime;
  const std::vector<HostRoom> rooms = Rooms();
  const std::set<std::string> kept_off = hosts_.KeptOff(rooms);
  for (const HostRoom& room : rooms)  // one that is away may come back
    if (room.name != *placement->host && !room.drains && !job.left_out.contains(room.name) &&
        !kept_off.contains(room.name) && Takes(room, job.spec.queue.name_space) &&
        (!has_own || room.job == job.id)) {
      slots += room.slots;
      workers += MostWorkersOn(room, runtime.devices);
    }
  // A follower needs as many devices as a worker.
  return slots >= LeastMembersOf(job.spec) &&
         workers >= runtime.workers_min + FollowersOf(job.spec.training);
}

// It speaks against the host once the job runs elsewhere; two such hosts speak against the job.
void Coordinator::NoteFailure(const std::string& host, const std::string& job) {
  const JobJournal& journal = *jobs_.Find(job);
  if (!journal.left_out.contains(host) || leadership_.settings.launches) return;
  const auto before = failures_.Bad();
  failures_.Note(host, {job, journal.owner}, /*elsewhere=*/HostsThatFailed(journal).size() > 1,
                 now_);
  const auto bad = failures_.Bad();
  for (const auto& [name, jobs] : before)
    if (!bad.contains(name) && LetBack(name))
      Do(Announce{job,
                  "process",
                  absl::StrCat("host ", name, " is taken again: job ", job,
                               " cannot run on another host either"),
                  {{"host", name}}});
}

// One host that fails members of several jobs, while these run elsewhere, would fail the next ones,
// too, each after as long.
void Coordinator::NoteWhereItRuns(const JobRun& run) {
  const std::optional<std::set<std::string>> hosts = run.HostsOfView();
  if (!hosts) return;
  const auto before = failures_.Bad();
  failures_.Runs(run.journal().id, *hosts);
  for (const auto& [name, jobs] : failures_.Bad())
    if (!before.contains(name)) SayLeftOut(name, jobs);
}

void Coordinator::SayLeftOut(const std::string& host, const std::vector<std::string>& jobs) {
  const std::string why =
      absl::StrCat("members of jobs ", absl::StrJoin(jobs, " and "), " could not run there");
  if (!hosts_.LeaveOut(host, why)) return;
  Do(PersistLeftOut{hosts_.left_out()});
  places_changed_ = true;
  const std::string next =
      hosts_.KeptOff(Rooms()).contains(host)
          ? absl::StrCat("muster drain ", host, " --undo lets it back")
          : "as no other host remains, it is taken all the same until there is one";
  for (const std::string& job : jobs)  // the others may be of other namespaces
    if (jobs_.Find(job) != nullptr)
      Do(Announce{job,
                  "process",
                  absl::StrCat("host ", host, " is left out for all jobs: members of job ", job,
                               " and of others could not run there; ", next),
                  {{"host", host}}});
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
// A job that runs does not know it.
void Coordinator::On(const ManifestRemoved& removed) {
  if (jobs_.Find(removed.job) == nullptr) return;
  jobs_.EndRemoval(removed.job, removed.lineage, removed.step);
  const bool is_gone = removed.failure.empty();
  if (StoredJob* job = jobs_.AtRest(removed.job); job != nullptr && is_gone)
    Forget(*job, removed.lineage, removed.step);
  const std::string text =
      absl::StrCat("the checkpoint of step ", removed.step.value(), ", lineage ",
                   removed.lineage.value(), is_gone ? " was deleted" : " could not be deleted",
                   removed.by.empty() ? "" : absl::StrCat(", as ", removed.by, " asked"),
                   is_gone ? "" : absl::StrCat(": ", removed.failure));
  Do(Announce{removed.job,
              "checkpoint",
              text,
              {{"step", absl::StrCat(removed.step.value())},
               {"lineage", absl::StrCat(removed.lineage.value())},
               {"deleted", is_gone ? "true" : "false"}}});
}
void Coordinator::On(const ManifestFailed& failed) { Pass(failed.job, failed); }
void Coordinator::On(const DigestDone& done) { Pass(done.job, done); }
void Coordinator::On(const SpoolTidied& tidied) { Pass(tidied.job, tidied); }

void Coordinator::On(const Tick& tick) {
  const Duration counts = leadership_.settings.lease / 2;  // at most, of the time between two ticks
  if (now_ - last_tick_ > counts) {
    hosts_.HeldUp(now_ - last_tick_ - counts, now_);
    book_.HeldUp(now_ - last_tick_ - counts, now_);
  }
  last_tick_ = now_;
  Tick seen = tick;
  seen.hears_no_other_machine = hosts_.HearsNoOther(leadership_.settings.node);
  for (const std::string& id : jobs_.Running()) Pass(id, seen);
  LoseHosts();
  ForgetHostsOfNoLaunch();
  // A job may grow once in that time; it does not wait for the next look as long again.
  constexpr int kLooks = 12;
  if (now_ - looked_for_room_ < leadership_.settings.grow_interval / kLooks) return;
  looked_for_room_ = now_;
  places_changed_ = true;
  DeleteWhatIsOver();
}

// Jobs whose time to live is over. One that was stopped is to go on, and is kept. How long before
// our start a job ended was told by a wall clock that may be wrong: nothing is deleted by that for
// a while, in which people see it.
void Coordinator::DeleteWhatIsOver() {
  constexpr Duration kUntilBelieved = std::chrono::hours(1);
  const bool is_believed = now_ - began_ >= kUntilBelieved;
  for (const std::string& id : jobs_.Ids()) {
    StoredJob* job = jobs_.AtRest(id);
    if (job == nullptr || !Ended(job->journal.phase) || job->being_deleted) continue;
    if (!job->ended) job->ended = now_;
    const double time_to_live = job->journal.spec.queue.time_to_live;
    if (time_to_live <= 0 || job->journal.phase == JobPhase::kStopped) continue;
    if (*job->ended < began_ && !is_believed) continue;
    if (now_ - *job->ended >= DurationOf(time_to_live)) On(Delete{id});
  }
}

// A host of which nobody speaks: neither its agent nor a member that was placed there. Where nobody
// was placed, nothing is lost.
void Coordinator::LoseHosts() {
  const std::vector<std::string> silent = hosts_.SilentFor(2 * leadership_.settings.lease, now_);
  if (silent.empty()) return;
  const std::set<std::string> have_places = jobs_.HostsWithPlaces();
  for (const std::string& host : silent) {
    if (have_places.contains(host)) continue;
    hosts_.Forget(host);
    places_changed_ = true;
  }
  for (const std::string& host : hosts_.SilentFor(leadership_.settings.host_patience, now_)) {
    if (LivesOn(host)) continue;
    hosts_.Forget(host);
    TakeBack(host, Incarnation{});
  }
}

// Places that another agent than this one was told of: its processes are gone.
void Coordinator::TakeBack(const std::string& host, Incarnation agent, const std::string& why) {
  for (const std::string& id : jobs_.Running())
    if (jobs_.RunOf(id)->HasPlaces(host, agent)) Pass(id, HostLost{host, agent, why});
  places_changed_ = true;
}

// ---- jobs

void Coordinator::Pass(const std::string& id, const JobInput& input) {
  JobRun* run = jobs_.RunOf(id);
  if (run == nullptr) return;
  std::vector<Action> actions = run->Handle(input, now_);
  if (!actions.empty() || !std::holds_alternative<Tick>(input)) jobs_.Changed(id);
  DoAll(std::move(actions));
  if (failures_.Awaits(id)) NoteWhereItRuns(*run);
  if (run->GivesUpPlaces()) wanted_changed_ = places_changed_ = true;
  if (!run->ended()) return;
  const std::string goes_back = run->goes_back();
  // A copy: `id` may refer into job_of_, from which PutToRest erases.
  StoredJob& job = PutToRest(std::string(id));
  places_changed_ = true;
  if (!goes_back.empty()) Change(job, Enqueue(job, goes_back));
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

// ---- hosts that are made for jobs

// For which it was made, as long as that is under way; empty: for none.
std::string Coordinator::JobOfHost(const std::string& host) const {
  const auto at = HostOfLaunchNamed(host);
  if (!at) return "";
  const auto it = std::find_if(launches_.begin(), launches_.end(),
                               [&](const Launch& launch) { return launch.name == at->launch; });
  return it == launches_.end() ? "" : it->job;
}

// What is told of a launch that its job does not have now, as all stands at this input, changes
// nothing.
void Coordinator::On(const LaunchTold& told) {
  const auto it = std::find_if(launches_.begin(), launches_.end(),
                               [&](const Launch& launch) { return launch.name == told.launch; });
  if (it == launches_.end()) return;
  const std::string id = it->job;
  const JobJournal* known = jobs_.Find(id);
  if (known == nullptr || Ended(known->phase) || known->deleting || known->launch.number == 0 ||
      LaunchNameOf(leadership_.cluster, *known) != told.launch)
    return;
  StoredJob* job = jobs_.AtRest(id);
  if (!told.failure.empty() && job != nullptr)
    return Change(*job, FailAtRest(*job, told.failure, told.exit_code));
  // What lives of it trains on.
  if (!told.failure.empty() && told.is_over)
    return Pass(id, LaunchFailed{told.failure, told.exit_code});
  const std::string why = told.failure.empty() ? told.why : told.failure;
  LaunchTold& before = told_of_launches_[told.launch];
  if (before.text == told.text && before.why == why) return;
  if (before.why != why && !why.empty() && job != nullptr && !told.text.empty())
    Do(Announce{id, "state", absl::StrCat("waits: ", told.text, "; ", why), {}});
  before = told;
  before.why = why;
  places_changed_ = true;  // which says why it waits
}

// Each of them has been given a record by joining. Nobody comes under that name any more.
void Coordinator::ForgetHostsOfNoLaunch() {
  if (!leadership_.settings.launches) return;
  std::vector<std::string> gone;
  for (const auto& [host, record] : book_.records())
    if (HostOfLaunchNamed(host) && JobOfHost(host).empty() && !record.revoked && !LivesOn(host) &&
        book_.IsAwayFor(host, leadership_.settings.host_patience, now_))
      gone.push_back(host);
  for (const std::string& host : gone) {
    book_.Forget(host);
    hosts_.Forget(host);
    Do(ForgetHost{host});
  }
}

// ---- who is placed where

PlacementInput Coordinator::InputOfPlacement() const {
  PlacementInput input = jobs_.InputOfPlacement();
  input.hosts = Rooms();
  input.hosts_of_jobs = leadership_.settings.launches;
  // Hosts beyond those that a job is to have end first, so whoever is there leaves first.
  if (input.hosts_of_jobs)
    for (PlacedJob& job : input.running)
      std::stable_partition(job.workers.begin(), job.workers.end(), [&](const std::string& name) {
        const auto placed = job.placed.find(name);
        if (placed == job.placed.end()) return false;
        const auto at = HostOfLaunchNamed(placed->second);
        return at && at->index >= MostMembersOf(jobs_.Find(job.id)->spec);
      });
  // Where hosts are made for it, nobody can name one of them before.
  if (input.hosts_of_jobs) {
    for (PlacedJob& job : input.running) job.reader_host.clear();
    for (QueuedJob& job : input.queued) job.reader_host.clear();
  }
  const std::set<std::string> kept_off = hosts_.KeptOff(input.hosts);
  for (PlacedJob& job : input.running) job.left_out.insert(kept_off.begin(), kept_off.end());
  for (QueuedJob& job : input.queued) job.left_out.insert(kept_off.begin(), kept_off.end());
  for (const auto& [name_space, quota] : quotas_)
    if (quota.slots) input.quotas[name_space] = *quota.slots;
  return input;
}

// Whoever shares a machine and a user shares its keys. Where no host was admitted for a namespace
// and nobody has a token of one namespace only, all hosts are of everybody.
std::vector<HostRoom> Coordinator::Rooms() const {
  std::vector<HostRoom> rooms = hosts_.Rooms();
  if (leadership_.settings.launches)
    for (HostRoom& room : rooms) room.job = JobOfHost(room.name);
  const bool has_host_of_one = AnyOf(book_.records(), [](const auto& entry) {
    return !entry.second.name_space.empty() && !entry.second.revoked;
  });
  const bool has_person_of_one =
      AnyOf(tokens_, [](const Token& token) { return token.grant.scope != kAllNamespaces; });
  if (!has_host_of_one && !has_person_of_one) return rooms;
  const std::set<std::string> names = Namespaces();
  for (HostRoom& room : rooms) {
    const HostRecord* const record = book_.Find(room.name);
    room.name_space = record == nullptr ? kFirstNamespace : record->name_space;
    // It joined with the secret of a run, when there was one namespace.
    if (const JobJournal* job = jobs_.Find(room.job); job != nullptr && room.name_space.empty())
      room.name_space = job->spec.queue.name_space;
    if (room.name_space.empty())
      room.name_space = names.size() == 1 ? *names.begin() : kFirstNamespace;
  }
  return rooms;
}

std::vector<HostStatus> Coordinator::HostStatuses() const {
  return hosts_.Status(hosts_.KeptOff(Rooms()));
}

// Which job has hosts made for it, as all stands now. One that runs without, as this coordinator
// had no launcher before, gets some when it starts again.
void Coordinator::LookAtLaunches() {
  if (!leadership_.settings.launches) return;
  std::vector<const JobJournal*> under_way;
  for (const std::string& id : jobs_.Ids())
    if (const JobJournal* job = jobs_.Find(id); !Ended(job->phase)) under_way.push_back(job);
  LaunchDecision decision = DecideLaunches(under_way, quotas_);
  for (const std::string& id : decision.grants) {
    JobJournal& job = jobs_.AtRest(id)->journal;
    const RuntimeSpec& runtime = job.spec.runtime;
    job.launch = {.number = NextNumber(),
                  .is_elastic = runtime.workers_min < runtime.workers_max,
                  .hosts = MostMembersOf(job.spec)};
    jobs_.Changed(id);
    Do(PersistJob{job});
  }
  waits_for_launch_ = std::move(decision.waits);
  launches_.clear();
  std::set<std::string> names;
  for (const JobJournal* job : under_way)
    if (job->launch.number > 0) {
      const auto most = decision.most.find(job->id);
      launches_.push_back(LaunchOf(leadership_.cluster, *job,
                                   most == decision.most.end() ? job->launch.hosts : most->second));
      names.insert(launches_.back().name);
    }
  std::erase_if(told_of_launches_, [&](const auto& told) { return !names.contains(told.first); });
}

void Coordinator::PlaceWhatFits() {
  LookAtLaunches();
  const PlacementDecision decision = DecidePlacement(InputOfPlacement());
  LetLeave(decision);  // first, so that no job ever has more members that stay than it may
  std::map<std::string, Placements> by_job;
  for (const auto& [job, member, host, devices] : decision.places) {
    const PlacementNumber number(host.empty() ? 0 : NextNumber());
    by_job[job][member.name] = {.role = member.role,
                                .host = host,
                                .number = number,
                                .agent = hosts_.AgentOf(host),
                                .devices = devices};
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
      if (!journal.ending.stop_asked)
        Pass(id, GiveWay{way->second, decision.preempted.contains(id)});
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
  return (leadership_.term.value() << kBitsOfCounter) + ++numbers_;
}

void Coordinator::TellWhyTheyWait(const PlacementDecision& decision) {
  // Most clusters leave out none of their hosts, of which there may be thousands.
  std::vector<HostRoom> kept_off;
  if (!hosts_.left_out().empty()) {
    kept_off = Rooms();
    std::erase_if(kept_off, [names = hosts_.KeptOff(kept_off)](const HostRoom& room) {
      return !names.contains(room.name);
    });
  }
  const auto without = [&](const std::string& name_space) {
    std::vector<std::string> names;
    for (const HostRoom& room : kept_off)
      if (Takes(room, name_space)) names.push_back(room.name);
    return names.empty() ? ""
                         : absl::StrCat(" (without ", absl::StrJoin(names, ", "),
                                        ", left out for all jobs: muster hosts says why)");
  };
  std::map<std::string, std::string> told;  // of the hosts that are made for it, by job
  for (const Launch& launch : launches_)
    if (const auto it = told_of_launches_.find(launch.name);
        it != told_of_launches_.end() && !it->second.text.empty())
      told[launch.job] = it->second.why.empty()
                             ? it->second.text
                             : absl::StrCat(it->second.text, "; ", it->second.why);
  for (const auto& [id, why] : decision.reasons) {
    StoredJob& job = *jobs_.AtRest(id);
    std::string reason = why + without(job.journal.spec.queue.name_space);
    if (const auto it = waits_for_launch_.find(id); it != waits_for_launch_.end())
      reason = it->second;
    if (const auto it = told.find(id); it != told.end()) reason = it->second;
    if (job.waits_for == reason) continue;
    job.waits_for = reason;
    jobs_.Changed(id);
    if (decision.too_large.contains(id) && !leadership_.settings.launches)
      Do(Announce{id, "state", absl::StrCat("waits: ", reason), {}});
  }
}

void Coordinator::TellHosts() {
  std::map<std::string, std::vector<JobProcesses>> by_host = jobs_.WantedByHost();
  for (const AgentId& agent : hosts_.Agents()) {
    Wanted wanted{.cluster = leadership_.cluster, .term = leadership_.term};
    if (const auto jobs = by_host.find(agent.host); jobs != by_host.end())
      wanted.jobs = std::move(jobs->second);
    const auto told = told_.find(agent);
    if (told != told_.end() && told->second == wanted) continue;
    told_[agent] = wanted;
    Do(ToHost{agent, std::move(wanted)});
  }
}

}  // namespace muster::coordinator
