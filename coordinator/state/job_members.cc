// Who may join a started job, and who has to leave it.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/state/job_run.h"
#include "lib/base/plural.h"
#include "lib/base/printable.h"
#include "lib/base/speaks.h"
#include "lib/domain/notes.h"
#include "lib/domain/validation.h"

namespace muster::coordinator {
namespace {

constexpr char kOtherEnvironment[] = "its numeric environment differs from the job's";
constexpr char kOtherProtocol[] =
    "it and a member of the job have no form of the protocol in common";

// A list for people of what may be very many things, in the words of others.
class Differences {
 public:
  void Add(const std::string& what) {
    constexpr int kMostShown = 4;
    constexpr size_t kMostBytes = 200;  // of each, so that how many more there are is shown, too
    if (++count_ <= kMostShown)
      absl::StrAppend(&text_, " ", Cut(Printable(what), kMostBytes));
    else
      more_ = absl::StrCat(" and ", count_ - kMostShown, " more");
  }
  std::string Text() const { return text_ + more_; }

 private:
  int count_ = 0;
  std::string text_, more_;
};

// What the specification fixes does not depend on who came first. Who runs no task has neither data
// nor threads of its own.
std::string SpecificationDifferences(const TrainingSpec& training, const Join& join) {
  if (!RunsTask(join.role)) return "";
  Differences differ;
  const NumericEnvironment& theirs = join.environment;
  const uint64_t samples = training.data.samples;
  if (samples > 0 && theirs.samples != samples)
    differ.Add(absl::StrCat("data (", Plural(theirs.samples, "sample"),
                            "; its specification says data.samples: ", samples, ")"));
  const auto threads = theirs.numeric.find(kThreads);
  if (threads != theirs.numeric.end() && threads->second != absl::StrCat(training.threads))
    differ.Add(absl::StrCat("threads (", threads->second,
                            "; its specification says threads: ", training.threads, ")"));
  const bool syncs = std::any_of(theirs.tensors.begin(), theirs.tensors.end(),
                                 [](const auto& t) { return t.kind == TensorKind::kPhase; });
  if (syncs != training.sync_batch_norm)
    differ.Add(absl::StrCat("batch norm (", syncs ? "over all lanes" : "of each lane alone",
                            "; its specification says sync_batch_norm: ",
                            training.sync_batch_norm ? "true" : "false", ")"));
  return differ.Text();
}

}  // namespace

void JobRun::On(const MemberSays& says) {
  const bool live = membership_.Heard(says.member, says.came.value_or(now_));
  if (const Join* join = std::get_if<Join>(&says.message))
    return OnJoin(says.member, *join, says.is_proven);
  if (!live) return;  // it was evicted
  if (const auto* alive = std::get_if<Alive>(&says.message))
    reach_.Hear(says.member, alive->unreachable, says.came.value_or(now_));
  std::visit([&](const auto& m) { From(says.member, m); }, says.message);
}

void JobRun::From(const MemberId&, const AskJob&) {}

void JobRun::From(const MemberId& member, const Alive& alive) {
  membership_.Note(member, alive);
  if (Reader() == member) NoteReader(member, alive.lacks);
}

// Without those whose place this one takes.
bool JobRun::HasOtherWorker(const Join& join, bool with_session) const {
  const auto& live = membership_.live();
  return std::any_of(live.begin(), live.end(), [&](const auto& entry) {
    const auto& [id, other] = entry;
    const bool is_replaced = id.name == join.id.name && id != join.id;
    return other.member.role == Role::kWorker && !is_replaced && (other.up || !with_session);
  });
}

// A server has no task: what it says of the data and the tensors is what it was told.
bool JobRun::KnowsEnvironment(const Join& server) const {
  if (!journal_.environment) return false;
  const NumericEnvironment &ours = *journal_.environment, &theirs = server.environment;
  return theirs.samples == ours.samples && theirs.data_hash == ours.data_hash &&
         theirs.tensors == ours.tensors;
}

// From the first view on the environment is the job's, and that of an adopted one is from the
// start. Before that, it is only what the live workers say of themselves: where no other is left, a
// worker is compared with nothing. Where another plug-in was accepted, that is so of what follows
// from it, until the next view is active; the rest is compared with the steps so far.
std::string JobRun::EnvironmentDifferences(const Join& join) const {
  if (join.role == Role::kReader) return "";  // it has none
  const bool has_other = join.role != Role::kWorker || HasOtherWorker(join, /*with_session=*/false);
  const NumericEnvironment* of_steps = EnvironmentOfSteps(journal_);
  const NumericEnvironment* held =
      has_other && journal_.environment ? &*journal_.environment : of_steps;
  if (held == nullptr) return "";
  const NumericEnvironment &ours = *held, &theirs = join.environment;
  Differences differ;
  const bool may_change = journal_.accepted && !has_other && IsOfOtherPlugin(theirs, ours);
  if (join.role != Role::kServer) {
    if (theirs.samples != ours.samples || theirs.data_hash != ours.data_hash)
      differ.Add(absl::StrCat("data (", Plural(theirs.samples, "sample"), ", hash ",
                              theirs.data_hash, "; the job has ", ours.samples, ", ",
                              ours.data_hash, ")"));
    if (theirs.tensors != ours.tensors) differ.Add("tensors");
    for (const auto& [key, value] : ours.numeric)
      if (theirs.numeric.count(key) == 0 && !(may_change && FollowsFromPlugin(key)))
        differ.Add(absl::StrCat(key, " (none; the job has ", value, ")"));
  }
  for (const auto& [key, value] : theirs.numeric) {
    const auto known = ours.numeric.find(key);
    const std::string expected = known == ours.numeric.end() ? "none" : known->second;
    if (value != expected && !(may_change && FollowsFromPlugin(key)))
      differ.Add(absl::StrCat(key, " (", value, "; the job has ", expected, ")"));
  }
  return differ.Text();
}

// What helps whoever joins with another file for the task, for people; empty: that does not.
std::string JobRun::HowToAccept(const Join& join) const {
  const NumericEnvironment* ours = EnvironmentOfSteps(journal_);
  if (ours == nullptr || join.role != Role::kWorker || journal_.accepted ||
      !IsOfOtherPlugin(join.environment, *ours))
    return "";
  const NumericEnvironment& theirs = join.environment;
  const auto kept = [](std::map<std::string, std::string> numeric) {
    std::erase_if(numeric, [](const auto& entry) { return FollowsFromPlugin(entry.first); });
    return numeric;
  };
  if (theirs.samples != ours->samples || theirs.data_hash != ours->data_hash ||
      theirs.tensors != ours->tensors || kept(theirs.numeric) != kept(ours->numeric))
    return "";
  return absl::StrCat(
      "; put back the file that the job has, or let it go on with this one: muster resume ",
      journal_.id, " --accept plugin (train, run and submit take that, too)");
}

// Why the two cannot work together, for people; empty: they have a form of the protocol in common.
// Where each two members of a job have one, all of them have one in common.
std::string JobRun::WhyNotUnderstoodBy(const LiveMember& other, const Join& join) {
  const std::string& name = other.member.id.name;
  if (name == join.id.name) return "";
  return WhyNotUnderstood(join.id.name, join.speaks, name, other.speaks);
}

bool JobRun::IsInView(const MemberId& id) const {
  return journal_.view && journal_.view->IndexOf(id) >= 0;
}

// Who is in the view may hold what nobody else has, so it is not refused for the sake of one who is
// not. One that has no session is compared when it is back.
std::string JobRun::WhyNotUnderstoodByOthers(const Join& join) const {
  for (const auto& [id, other] : membership_.live()) {
    std::string why = WhyNotUnderstoodBy(other, join);
    if (!why.empty() && (IsInView(id) || (other.up && !IsInView(join.id)))) return why;
  }
  return "";
}

// Those that came while a member of the view was away, and cannot work with it.
std::vector<MemberId> JobRun::WhoGivesWayTo(const Join& join) const {
  std::vector<MemberId> found;
  for (const auto& [id, other] : membership_.live())
    if (!WhyNotUnderstoodBy(other, join).empty() && IsInView(join.id) && !IsInView(id))
      found.push_back(id);
  return found;
}

// A later process of that name has taken its place in the view. One that was sealed for a view
// after it is the later one itself.
bool JobRun::IsReplaced(const Join& join) const {
  const std::optional<View>& view = journal_.view;
  if (!view || join.sealed == ViewNumber(0) || join.sealed >= view->number ||
      view->IndexOf(join.id) >= 0)
    return false;
  return std::any_of(view->members.begin(), view->members.end(),
                     [&](const ViewMember& m) { return m.id.name == join.id.name; });
}

std::optional<Role> JobRun::RoleOfName(const std::string& name) const {
  const Placement* placement = PlacementOf(journal_, name);
  return placement == nullptr ? std::nullopt : std::optional(placement->role);
}

PlacementNumber JobRun::PlacementNumberOf(const std::string& name) const {
  const Placement* placement = PlacementOf(journal_, name);
  return placement == nullptr ? PlacementNumber() : placement->number;
}

// A sound journal knows all that members were told. What the member holds may be the only copy, so
// it is not told to leave: it comes again until the newest journal is back.
std::string JobRun::WhyJournalIsOlder(const Join& join) const {
  if (join.term > leadership_.term)
    return absl::StrCat("it was told of term ", join.term.value(), ", this is term ",
                        leadership_.term.value());
  if (join.start != journal_.start) return "";
  if (join.sealed > journal_.number)
    return absl::StrCat("it was told of view ", join.sealed.value(), ", the journal has ",
                        journal_.number.value());
  // A member hears of a view in the term in which that is formed, and of none before the journal
  // does. So this one was told of another view of that number, by a coordinator that decided beside
  // us, or beside the one before us.
  const bool is_of_another =
      (join.sealed > inherited_ && join.term < leadership_.term) ||
      (journal_.view && join.sealed >= journal_.view->number && join.term < journal_.view->term);
  if (is_of_another)
    return absl::StrCat("it was told of view ", join.sealed.value(), " in term ", join.term.value(),
                        ", the journal has another one of that number");
  const bool same_lineage =
      !journal_.lineages.empty() && join.recorded_lineage == journal_.lineages.back().number;
  if (join.stream_positions > stream_.positions())
    return absl::StrCat("it was told of ", join.stream_positions,
                        " samples of the stream, the journal knows of ", stream_.positions());
  if (same_lineage && join.recorded > ledger_.recorded())
    return absl::StrCat("it was told that steps below ", join.recorded.value(),
                        " are recorded, the ledger has those below ", ledger_.recorded().value());
  return "";
}

bool JobRun::IsOlderThan(const Join& join) {
  if (!join.cluster.empty() && join.cluster != leadership_.cluster) return false;
  const std::string why = WhyJournalIsOlder(join);
  if (why.empty()) return false;
  is_older_ = true;
  const std::string text =
      absl::StrCat(join.id.name, " knows of more than the coordinator's journal (", why,
                   "), which is an older copy: stop the coordinator and put the newest one back");
  Do(EndSession{join.id, text});
  SayRefused(join, "it knows of more than the coordinator's journal, which is an older copy", text);
  return true;
}

bool JobRun::Admit(const Join& join, bool is_proven) {
  std::string refusal;
  std::string kind;  // where the refusal has words of the member in it
  int code = kExitFailed;
  if (!join.cluster.empty() && join.cluster != leadership_.cluster) {
    kind = "it belongs to another cluster";
    refusal = absl::StrCat("it belongs to cluster ", join.cluster, ", this is cluster ",
                           leadership_.cluster);
  } else if (join.start != journal_.start) {
    refusal = "it was told of another start of the job";
    code = kExitLater;
  } else if (join.role == Role::kReader && HasStream() && !NeedsReader()) {
    refusal = kAllIsSpooled;
    code = kExitDone;
    // The coordinator that took the last ones may have died before it said so, and they are to be
    // answered to their sender.
    Do(ToMember{join.id, SpoolFromNow()});
  } else if (join.placement != PlacementNumberOf(join.id.name)) {
    refusal = "another placement has taken this member's place";
    code = kExitReplaced;
  } else if (is_proven && !IsSignedLast(journal_, join)) {
    refusal = "a later process of its placement has a certificate";
    code = kExitReplaced;
  } else if (IsReplaced(join)) {
    refusal = "a newer process of that name has taken its place";
    code = kExitReplaced;
  } else if (membership_.HasSuccessor(join)) {
    refusal = "a later process of that name takes part";
    code = kExitLater;
  } else if (const auto evicted = membership_.EvictedWith(join.id.incarnation)) {
    // What those with a session were told: one that is to come again later has not failed.
    refusal = "it was evicted, or its process has ended; a fresh incarnation may come";
    code = *evicted;
  } else if (const LiveMember* other = OutOfReachOf(join)) {
    refusal = absl::StrCat("its node and that of ", other->member.id.name,
                           " cannot reach each other, and are kept apart for this start");
    code = kExitLater;
  } else if (const std::string foreign = WhyNotUnderstoodByOthers(join); !foreign.empty()) {
    kind = kOtherProtocol;
    refusal = absl::StrCat(kind, ": ", foreign);
    code = kExitOtherEnvironment;
  } else if (join.role == Role::kServer && RoleOfName(join.id.name) != Role::kServer) {
    // A server's chunks follow from the number of servers. One left over from a larger number would
    // shift everybody's chunks; one under a worker's name would take that worker's place.
    refusal = absl::StrCat("the job has ", Plural(journal_.spec.runtime.servers, "server"),
                           ", and none of this name");
    code = kExitDone;
  } else if (join.role == Role::kWorker && RoleOfName(join.id.name) == Role::kServer) {
    // It would take that server's place, and nobody else has what a server holds.
    refusal = "it is a worker under the name of one of the job's servers";
  } else if ((join.role == Role::kFollower) != (RoleOfName(join.id.name) == Role::kFollower)) {
    refusal = join.role == Role::kFollower
                  ? "the job has no follower of this name"
                  : "its name is that of the job's follower, and it does not measure";
  } else if ((join.role == Role::kReader) != (RoleOfName(join.id.name) == Role::kReader)) {
    refusal = join.role == Role::kReader
                  ? "the job has no reader of this name"
                  : "its name is that of the job's reader, and it does not read";
  } else if (join.role == Role::kFollower && !journal_.environment) {
    refusal = "the numeric environment of the job is not known yet";
    code = kExitLater;
  } else if (join.role == Role::kServer && !KnowsEnvironment(join)) {
    refusal = "the numeric environment that it was told is not the job's; it is to ask again";
    code = kExitLater;
  } else if (join.role == Role::kWorker && !IsSampleCount(join.environment.samples)) {
    // All steps are computed from it.
    refusal = absl::StrCat("it found ", join.environment.samples,
                           " samples in its data; a job needs 1 to ", kMostSamples);
    kind = "its data has no number of samples that a job may have";
    code = kExitBadData;
  } else if (const std::string unlike = SpecificationDifferences(journal_.spec.training, join);
             !unlike.empty()) {
    kind = kOtherEnvironment;
    refusal = absl::StrCat(kind, ":", unlike);
    code = kExitOtherEnvironment;
  } else if (const std::string differ = EnvironmentDifferences(join); !differ.empty()) {
    kind = kOtherEnvironment;
    refusal = absl::StrCat(kind, ":", differ, HowToAccept(join));
    // Nothing binds yet but what was said by workers that may be gone for good.
    const bool is_open = EnvironmentOfSteps(journal_) == nullptr ||
                         (journal_.accepted && HasOtherWorker(join, /*with_session=*/false));
    // A follower may come before the worker that tells what was accepted.
    const bool waits_for_accepted = join.role == Role::kFollower && journal_.accepted &&
                                    !HasOtherWorker(join, /*with_session=*/false);
    const bool may_pass =
        waits_for_accepted || (is_open && !HasOtherWorker(join, /*with_session=*/true));
    code = may_pass ? kExitLater : kExitOtherEnvironment;
  }
  if (refusal.empty()) return true;
  // Terms of another cluster are no terms of ours, and it hears no lower one than it knows.
  Do(ToMember{join.id, Leave{std::max(leadership_.term, join.term), code,
                             absl::StrCat(join.id.name, " cannot take part: ", refusal),
                             leadership_.cluster}});
  SayRefused(join, kind.empty() ? refusal : kind,
             absl::StrCat(join.id.name, " was turned away: ", refusal));
  return false;
}

void JobRun::SayRefused(const Join& join, const std::string& kind, const std::string& text) {
  for (const std::string& told :
       refusals_.Tell({join.id.name, RoleOfName(join.id.name).has_value(), kind, Cut(text)}, now_))
    Say("process", told);
}

void JobRun::OnJoin(const MemberId& member, const Join& join, bool is_proven) {
  if (IsOlderThan(join) || !Admit(join, is_proven)) return;
  for (const MemberId& id : membership_.OthersOfName(member))
    Evict(id, "a newer incarnation came", kExitReplaced);
  for (const MemberId& id : WhoGivesWayTo(join))
    Evict(id, absl::StrCat(kOtherProtocol, ": ", member.name), kExitOtherEnvironment);
  const bool is_new = membership_.Admit(join, now_);
  if (join.role == Role::kWorker && journal_.environment != join.environment)
    LearnEnvironment(join);
  if (ended()) return;  // its specification does not fit its data
  if (is_new && reattachment_) reattachment_->Came(member, join.node, last_tick_);
  if (is_new) membership_.NoteState(member, ViewGivesState(member));
  if (is_new) Say("process", absl::StrCat(member.name, " joined"), {{"member", member.name}});
  if (IsInViews(join.role)) TellStream(member);
  Reattach(join);
  if (join.role == Role::kFollower || (asked_ && asked_->member == member))
    AskToMeasure(/*again=*/true);
  if (join.role == Role::kReader) OnReader();
}

// The first worker's, or that of one that comes before there is a view and where no other is left.
// Servers were told what was said before, so their next processes ask again.
void JobRun::LearnEnvironment(const Join& worker) {
  journal_.environment = worker.environment;
  layout_.reset();
  const absl::Status fits = CheckDelay(journal_.spec.training, worker.environment.samples);
  if (!fits.ok()) return End(JobPhase::kFailed, std::string(fits.message()), kExitBadConfiguration);
  std::vector<MemberId> servers;
  for (const auto& [id, live] : membership_.live())
    if (live.member.role != Role::kWorker && live.member.role != Role::kReader)
      servers.push_back(id);
  for (const MemberId& id : servers)
    Evict(id, "the workers whose numeric environment it was told are gone", kExitLater);
  if (journal_.phase == JobPhase::kChecking)
    SetPhase(JobPhase::kStarting, kWaitsForMembers);
  else
    Persist();
  if (const std::string left_out = DataLeftOut(worker.environment); !left_out.empty())
    Say("state", absl::StrCat("the data is without ", Cut(left_out)));
  if (const std::string left_out = InitialLeftOut(worker.environment); !left_out.empty())
    Say("state", absl::StrCat("of initial.file, ", Cut(left_out)));
  SayWarmup(worker.environment.samples);
  BeginReader();
  const std::string note = NoteOnBatchNorm(journal_.spec.training, worker.environment.tensors);
  if (!note.empty()) Say("note", absl::StrCat("note: ", note));
}

// How long epochs are is known now, where the specification does not say it.
void JobRun::SayWarmup(uint64_t samples) {
  const TrainingSpec& training = journal_.spec.training;
  if (training.steps > 0 || training.data.samples > 0) return;
  if (const std::string note = NoteOnWarmup(training, samples); !note.empty())
    Say("note", absl::StrCat("note: ", note));
}

// A member whose session is new is told where things stand.
void JobRun::Reattach(const Join& join) {
  if (change_) {
    if (change_->Names(join.id)) Do(ToMember{join.id, change_->CurrentMessage(leadership_.term)});
    return;
  }
  const std::optional<View>& view = journal_.view;
  if (!view || view->number != journal_.number || view->IndexOf(join.id) < 0) return;
  if (join.active == view->number) {
    Do(ToMember{join.id, ViewStands{leadership_.term, view->number}});
  } else {
    Do(ToMember{join.id, muster::Activate{ViewOfThisTerm()}});
  }
  GiveCommands();  // a command may have been lost with the old session
  GiveMeasures();  // likewise
}

void JobRun::On(const MemberDown& down) {
  membership_.Down(down.member, now_);
  reach_.Forget(down.member);
  EvictEnded();
}

void JobRun::Evict(const MemberId& member, const std::string& why, int exit_code) {
  looks_for_leavers_ = true;
  const std::optional<bool> was_up = membership_.Evict(member, exit_code);
  if (!was_up) return;
  reach_.Forget(member);
  if (*was_up)
    Do(ToMember{member, Leave{leadership_.term, exit_code, absl::StrCat("evicted: ", why),
                              leadership_.cluster}});
  const int32_t index = journal_.view ? journal_.view->IndexOf(member) : -1;
  if (index < 0) return;
  NextView& next = Next();
  next.after_loss = true;
  journal_.lanes.Lose(member.incarnation, journal_.view->members[static_cast<size_t>(index)].role);
  if (next.cause.empty() || why.find("killed") != std::string::npos)
    next.cause = absl::StrCat(member.name, ": ", why);
}

void JobRun::EvictEnded() {
  for (const MemberId& id : membership_.Ended()) Evict(id, "its process ended");
}

// It takes part in the active view, which is of the current lineage.
bool JobRun::ViewGivesState(const MemberId& member) const {
  const JobJournal& j = journal_;
  if (!j.view || j.resumes || j.lineages.empty()) return false;
  return j.view->lineage == j.lineages.back().number && j.view->HasPart(j.view->IndexOf(member));
}

// Those of the lost without whom the job would go back to a checkpoint. With servers each is the
// only one that has its chunks with their slots; else every worker with lanes has everything.
std::set<MemberId> JobRun::LastCopies(const std::set<MemberId>& lost) const {
  const bool of_servers = journal_.spec.training.sync == Sync::kServer;
  std::set<MemberId> copies;
  for (const auto& [id, live] : membership_.live()) {
    if (!live.holds_state || (live.member.role == Role::kServer) != of_servers) continue;
    if (lost.count(id) > 0)
      copies.insert(id);
    else if (!of_servers)
      return {};
  }
  if (!of_servers || !journal_.view) return copies;
  for (const ViewMember& m : journal_.view->members)  // one that is gone leaves nothing to save
    if (m.role == Role::kServer && !membership_.IsLive(m.id) && ViewGivesState(m.id)) return {};
  return copies;
}

// Only a tick may judge silence: it knows when words came that wait for us.
void JobRun::EvictLost() {
  EvictEnded();
  const std::vector<std::pair<MemberId, std::string>> lost = membership_.Lost(now_);
  if (lost.empty()) return;
  const Settings& settings = leadership_.settings;
  const Duration lately = settings.lease / 2;  // more than one life sign
  // When all fall silent together, one of them does so first, and one is back first. Whoever was
  // not heard lately may be silent, too, and words of the others may be on their way.
  std::set<MemberId> ids;
  for (const auto& [id, why] : lost) ids.insert(id);
  for (const auto& [id, live] : membership_.live())
    if (now_ - live.heard > lately) ids.insert(id);
  const std::set<MemberId> copies = LastCopies(ids);
  if (!copies.empty()) heard_no_copy_ = now_;
  const bool were_silent = heard_no_copy_ && now_ - *heard_no_copy_ <= lately;
  for (const auto& [id, why] : lost) {
    const Placement* placement = PlacementOf(journal_, id.name);
    const bool is_elsewhere = placement != nullptr && placement->host && !placement->host->empty();
    const Duration patience = is_elsewhere && hears_no_other_machine_ ? settings.cut_off_patience
                                                                      : settings.last_copy_patience;
    const Duration silence = now_ - membership_.live().at(id).heard;
    const bool is_silent = silence > settings.lease;  // else a thread of it hangs
    const bool may_be_last = copies.count(id) > 0 || (copies.empty() && were_silent);
    if (!may_be_last || !is_silent || silence > patience) {
      Evict(id, why);
    } else if (membership_.WaitFor(id)) {
      Say("state",
          absl::StrCat(id.name, " is ", why, ", and is waited for: nobody else has the state"));
    }
  }
}

}  // namespace muster::coordinator
