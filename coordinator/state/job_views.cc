// A started job's changes of view, from their cause to the next active view (docs/protocol.md
// section 4).
#include <algorithm>
#include <chrono>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/state/job_run.h"
#include "lib/base/exit_codes.h"
#include "lib/base/plural.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/domain/fork.h"
#include "lib/domain/grid.h"
#include "lib/domain/validation.h"

namespace muster::coordinator {
namespace {

std::map<std::string, std::string> FieldsOf(const View& view) {
  return {{"view", absl::StrCat(view.number.value())},
          {"step", absl::StrCat(view.first_step.value())},
          {"lineage", absl::StrCat(view.lineage.value())}};
}

std::vector<MemberId> IdsOf(const std::vector<ViewMember>& members) {
  std::vector<MemberId> ids;
  for (const ViewMember& m : members) ids.push_back(m.id);
  return ids;
}

std::map<MemberId, int32_t> IndexesIn(const std::optional<View>& view) {
  return view ? view->Indexes() : std::map<MemberId, int32_t>();
}

// Of members that have no place, for people; empty: all have one.
std::string WhoHasNoRoom(const JobJournal& job) {
  std::vector<std::string> names;
  for (const auto& [name, placement] : job.placements)
    if (!placement.host) names.push_back(name);
  if (names.empty()) return "";
  std::string text = absl::StrCat(
      "; ", names[0], names.size() > 1 ? absl::StrCat(" and ", names.size() - 1, " more") : "",
      names.size() > 1 ? " wait for free slots" : " waits for a free slot",
      job.spec.runtime.devices > 0 ? " with devices" : "");
  if (!job.left_out.empty())
    absl::StrAppend(&text, ", and ", absl::StrJoin(job.left_out, ", "),
                    job.left_out.size() == 1 ? " is" : " are", " left out for this job");
  for (const auto& [a, b] : job.apart)
    absl::StrAppend(&text, "; ", a, " and ", b, " cannot reach each other");
  return text;
}

}  // namespace

// Compares the membership with the active or forming view, after every input. Does nothing while
// neither has changed.
void JobRun::Consider() {
  if (finishes_since_) return;  // nothing is left to do for a view
  if (Reattaches()) return;
  LetLeaversGo();
  if (change_) EvictSlow();
  if (StopsForWantOfData() && !WhyNotYet()) return StopHere();
  // The job goes back before it. One that is planned already is followed by another view.
  if (looks_at_measured_ && !change_ && journal_.view && !journal_.resumes && !WhyNotYet())
    return Form("a checkpoint that is to be measured is damaged", true);
  const bool is_view = change_ || (journal_.view && journal_.view->number == journal_.number);
  const Considered now{journal_.number, change_.has_value(), membership_.revision()};
  if (is_view && fits_ == now) return;
  if (change_ ? membership_.AllLive(change_->members()) : ViewStillFits()) {
    fits_ = now;
    return;
  }
  const std::optional<std::string> why_not = WhyNotYet();
  NextView& next = Next();
  const bool leave = !change_ && has_leavers_ && journal_.view;
  if (next.cause.empty() && leave && (LeaverHasPart() || !KnowsWhoOwesParts()))
    next.cause = "workers are to leave";
  if (!why_not) return Form(next.cause.empty() ? "members joined" : next.cause, next.after_loss);
  change_.reset();  // it names members that are gone
  if (next.waits_for != *why_not) {
    next.waits_for = *why_not;
    Say("state", absl::StrCat("waits: ", next.waits_for));
  }
  if (journal_.phase == JobPhase::kRunning) SetPhase(JobPhase::kRecovering, next.waits_for);
}

NextView& JobRun::Next() { return next_view_ ? *next_view_ : next_view_.emplace(); }

// After a restart, as long as members of the last view may still come back.
bool JobRun::Reattaches() {
  if (!reattachment_) return false;
  const Settings& settings = leadership_.settings;
  const Duration patience = settings.PatienceAfterRestart();
  const Duration for_copy =
      hears_no_other_machine_ ? settings.cut_off_patience : settings.last_copy_patience;
  if (reattachment_->IsOver(last_tick_, patience, std::max(patience, for_copy))) {
    EndReattachment();
    return false;
  }
  static constexpr char kWaits[] = "members that may still hold the state have not come back";
  if (reattachment_->Silence(last_tick_) >= patience && Next().waits_for != kWaits) {
    Next().waits_for = kWaits;
    Say("state", absl::StrCat("waits: ", kWaits));
  }
  return true;
}

// Whoever has not come back is lost, and the numbers that members have sealed are not used again.
void JobRun::EndReattachment() {
  reattachment_.reset();
  next_view_.reset();
  JobJournal& j = journal_;
  j.number = std::max(j.number, membership_.HighestSealed());
  const bool unfinished = j.number > (j.view ? j.view->number : ViewNumber());
  bool lost = false;
  const bool has_view = j.view && !j.resumes;  // not only of an earlier start
  for (const ViewMember& m : has_view ? j.view->members : std::vector<ViewMember>()) {
    if (membership_.IsLive(m.id)) continue;
    lost = true;
    j.lanes.Lose(m.id.incarnation, m.role);
    membership_.Ban(m.id.incarnation);
  }
  if (lost) next_view_ = {"members were lost while the coordinator was down", true};
  if (!lost && unfinished) Next().cause = "the coordinator restarted while a view was forming";
  BeginReader();
}

// A large state takes its time, from disk or from others.
Duration JobRun::WithTimeForState(Duration patience) const {
  constexpr int64_t kBytesPerSecond = 10'000'000;
  const int64_t elements = layout_ ? layout_->elements() : 0;
  const int64_t copies = 1 + SlotCount(journal_.spec.training);
  return patience +
         std::chrono::seconds(copies * elements * int64_t{sizeof(float)} / kBytesPerSecond);
}

// Evicts members that are not ready within a generous time, because everybody waits for them.
void JobRun::EvictSlow() {
  if (last_tick_ - change_->since() <= WithTimeForState(leadership_.settings.forming_patience))
    return;
  for (const MemberId& id : change_->NotReady())
    Evict(id, "did not get ready for the new view in time");
}

// The active view names exactly the members that are to take part.
bool JobRun::ViewStillFits() const {
  const JobJournal& j = journal_;
  if (!j.view || j.view->number != j.number || j.resumes) return false;
  if (has_leavers_ && !KnowsWhoOwesParts()) return false;
  const size_t workers =
      std::min(membership_.Count(Role::kWorker), static_cast<size_t>(WorkersOf(j)));
  return workers + membership_.Count(Role::kServer) == j.view->members.size() &&
         membership_.AllLive(IdsOf(j.view->members)) && !(has_leavers_ && LeaverHasPart()) &&
         !StayerIsIdle();
}

std::optional<std::string> JobRun::WhyNotYet() const {
  std::optional<std::string> why = WhoHasNotJoined();
  if (why) absl::StrAppend(&*why, WhoHasNoRoom(journal_));
  return why;
}

std::optional<std::string> JobRun::WhoHasNotJoined() const {
  const RuntimeSpec& runtime = journal_.spec.runtime;
  const size_t workers = membership_.Count(Role::kWorker);
  const size_t servers = membership_.Count(Role::kServer);
  if (!journal_.environment || workers == 0) return "no worker has joined";
  if (servers < static_cast<size_t>(runtime.servers))
    return absl::StrCat(servers, " of ", Plural(runtime.servers, "server"),
                        runtime.servers == 1 ? " has joined" : " have joined");
  if (journal_.view && !journal_.resumes) return std::nullopt;
  if (static_cast<int32_t>(workers) >= WorkersOf(journal_)) return std::nullopt;
  const bool patient = now_ - started_ < leadership_.settings.start_patience;
  if (!patient && static_cast<int32_t>(workers) >= runtime.workers_min) return std::nullopt;
  return absl::StrCat(
      workers, " of ", WorkersOf(journal_), " workers have joined",
      patient ? "" : absl::StrCat("; at least ", runtime.workers_min, " are needed"));
}

// Those that hold a state first, then the rest of the last view: no more workers take part than are
// allowed. One that got its state for a view that did not become active may be the only one.
std::vector<MemberId> JobRun::MembersOfNextView() const {
  const std::map<MemberId, int32_t> in_view = IndexesIn(journal_.view);
  const auto turn_of = [&](const MemberId& id, const LiveMember& live) {
    return live.holds_state ? 0 : in_view.count(id) > 0 ? 1 : 2;
  };
  std::vector<MemberId> members;
  const int32_t most = WorkersOf(journal_);
  int32_t workers = 0;
  for (const int turn : {0, 1, 2})
    for (const auto& [id, live] : membership_.live()) {
      if (turn_of(id, live) != turn) continue;
      if (!IsInViews(live.member.role)) continue;
      if (live.member.role == Role::kWorker && workers++ >= most) continue;
      members.push_back(id);
    }
  return members;
}

void JobRun::Form(const std::string& cause, bool after_loss) {
  JobJournal& j = journal_;
  const bool loss = after_loss || (change_ && change_->after_loss());
  j.number = j.number + 1;
  change_.emplace(j.number, MembersOfNextView(), cause, loss, now_);
  const bool recovers = j.phase == JobPhase::kRunning;
  if (recovers) {
    j.phase = JobPhase::kRecovering;
    j.reason = cause;
  }
  Persist();
  if (recovers) SayPhase("");
  const std::string text = absl::StrCat("view ", j.number.value(), " forms: ", cause);
  Next().waits_for = text;
  Say("view", text, {{"view", absl::StrCat(j.number.value())}});
  Do(ToMembers{change_->members(), change_->CurrentMessage(leadership_.term)});
}

void JobRun::From(const MemberId& member, const Sealed& sealed) {
  if (!change_ || change_->plan() || sealed.view != change_->number() || !change_->Names(member))
    return;
  const std::vector<LaneId>& lanes = sealed.local_state.lanes;
  if (!lanes.empty() && lanes.back().value() >= journal_.spec.training.lanes)
    return Evict(member, absl::StrCat("it says that it holds lane ", lanes.back().value(),
                                      "; the job has ", journal_.spec.training.lanes));
  const LocalState& held = sealed.local_state;
  membership_.NoteState(member, held.has_state && !journal_.lineages.empty() &&
                                    held.lineage == journal_.lineages.back().number);
  if (change_->Answer(member, sealed)) Plan();
}

absl::StatusOr<const Layout*> JobRun::LayoutNow() {
  if (!layout_) {
    if (!journal_.environment)
      return absl::FailedPreconditionError("no worker has told the job's numeric environment");
    MUSTER_ASSIGN_OR_RETURN(
        layout_, Layout::Make(journal_.environment->tensors, ChunkBytes(journal_.spec.training)));
  }
  return &*layout_;
}

void JobRun::Plan() {
  const Resume& resume = journal_.spec.runtime.resume;
  const absl::StatusOr<const Layout*> layout = LayoutNow();
  if (!layout.ok())
    return End(JobPhase::kFailed, absl::StrCat("the model's layout: ", layout.status().message()),
               kExitBadConfiguration);
  const absl::Status fits = CheckPlanFits(**layout, SlotCount(journal_.spec.training));
  if (!fits.ok()) return End(JobPhase::kFailed, std::string(fits.message()), kExitBadConfiguration);
  if (const std::string why_not = WhyNotResumed(); !why_not.empty())
    return End(JobPhase::kFailed, why_not, kExitBadConfiguration);
  PlanInput input = InputOfPlan(**layout);
  if (journal_.resumes && resume.kind == ResumeKind::kStep && !input.checkpoint)
    return End(JobPhase::kFailed,
               absl::StrCat("resume: there is no checkpoint of step ", resume.step),
               kExitBadConfiguration);
  Planned planned = PlanView(input);
  looks_at_measured_ = false;
  const std::optional<Step> lost =
      planned.rewind ? std::nullopt : WhichIsLost(input, planned.heal.base);
  if (lost) {
    input.must_rewind = true;
    input.rewind_cause = absl::StrCat("the state of step ", lost->value(),
                                      ", which is to be measured, is not whole any more");
    planned = PlanView(input);
  }
  if (planned.rewind && !input.checkpoint && IsTrimmed(Step(0)))
    return End(
        JobPhase::kFailed,
        absl::StrCat("no checkpoint can be loaded, and the job cannot begin again: samples of "
                     "the stream below ",
                     stream_.trimmed(), " are not kept any more"),
        kExitBadData);
  if (const std::string why_not = WhyNoFork(input); planned.rewind && !why_not.empty())
    return End(JobPhase::kFailed, why_not, input.checkpoint ? kExitBadConfiguration : kExitBadData);
  const bool anew = journal_.resumes && resume.kind == ResumeKind::kNever;
  if (planned.rewind && !input.checkpoint && checkpoints_.passed_over() && !anew && !lost)
    return End(JobPhase::kFailed,
               "no checkpoint can be loaded any more, and no member holds the state; put the files "
               "back, or start anew with resume: never",
               kExitBadData);
  if (planned.rewind) Rewind(planned, lost);
  promised_.emplace();
  for (const auto& [id, local_state] : change_->answers())
    if (local_state.measured_part) promised_->emplace(id, *local_state.measured_part);
  reach_.Learn(planned.view.number, planned.heal.members);
  change_->Follow(std::move(planned));
  Do(ToMembers{change_->members(), change_->CurrentMessage(leadership_.term)});
}

// Why a fork cannot begin, or begin again; empty: it can, or the job is none. Its state(0) is in no
// model's task, and so nobody can make it anew.
std::string JobRun::WhyNoFork(const PlanInput& input) const {
  const std::optional<ParentState>& parent = journal_.spec.training.initial.parent;
  if (!parent) return "";
  if (!input.checkpoint)
    return absl::StrCat(
        "the state that it began with (", Describe(*parent),
        ") cannot be loaded, or is not kept any more: fork again, under another id");
  const std::string tensor =
      DifferentTensor(input.checkpoint->tensors, journal_.environment->tensors);
  if (tensor.empty()) return "";
  return absl::StrCat("parameters: the model is not the one of ", Describe(*parent), ": ",
                      Cut(Printable(tensor)));
}

PlanInput JobRun::InputOfPlan(const Layout& layout) const {
  const JobJournal& j = journal_;
  PlanInput input;
  input.job = j.id;
  input.term = leadership_.term;
  input.number = change_->number();
  input.sync = j.spec.training.sync;
  input.lanes = j.spec.training.lanes;
  input.chunks = layout.chunk_count();
  input.bucket_chunks = static_cast<int32_t>(
      std::max<int64_t>(1, j.spec.runtime.bucket_bytes / ChunkBytes(j.spec.training)));
  input.lineages = j.lineages;
  const std::map<MemberId, int32_t> indexes = IndexesIn(j.view);
  const bool others_stay =
      std::any_of(change_->members().begin(), change_->members().end(), [this](const MemberId& id) {
        return membership_.live().at(id).member.role == Role::kWorker && !IsLeaving(id.name);
      });
  for (const auto& [id, local_state] : change_->answers()) {
    Candidate candidate{membership_.live().at(id).member, std::nullopt, local_state,
                        others_stay && IsLeaving(id.name)};
    if (const auto index = indexes.find(id); index != indexes.end())
      candidate.rank = j.view->members[static_cast<size_t>(index->second)].rank;
    input.candidates.push_back(std::move(candidate));
  }
  const Resume& resume = j.spec.runtime.resume;
  const bool one_step = j.resumes && resume.kind == ResumeKind::kStep;
  const bool anew = j.resumes && resume.kind == ResumeKind::kNever;
  std::optional<Step> only;
  if (one_step) only = Step(resume.step);
  if (anew) only = Step(0);  // of a fork there is one
  if (!anew || IsFork(j.spec.training)) input.checkpoint = checkpoints_.Usable(j.lineages, only);
  if (input.checkpoint && IsTrimmed(input.checkpoint->step)) input.checkpoint.reset();
  input.must_rewind = j.resumes;
  input.rewind_cause = j.lineages.empty() ? "start" : j.resumes ? "resumed" : change_->cause();
  input.end = EndStep();
  return input;
}

// Begins a new lineage. The journal gets it and everything it voids in one write.
void JobRun::Rewind(Planned& planned, std::optional<Step> lost_measure) {
  JobJournal& j = journal_;
  const Step base = planned.heal.base;
  const bool begins = !j.view;  // nothing was done yet that could be lost
  if (!begins && !j.lineages.empty() && !j.resumes) ++j.rewinds;
  ledger_.Rewind(base, planned.heal.manifest ? TallyOf(*planned.heal.manifest) : StepTally());
  membership_.NobodyHoldsState();
  Acknowledge(checkpoints_.DropAll());
  digesting_.reset();  // of a state that may not be the end any more
  j.lineages.push_back(*planned.rewind);
  if (j.ending.stop_at && *j.ending.stop_at > base) j.ending.stop_at.reset();
  j.ending.enough_at.reset();
  if (planned.heal.manifest && planned.heal.manifest->enough) j.ending.enough_at = base;
  planned.view.end = EndStep();
  const bool resumed = std::exchange(j.resumes, false);
  const std::optional<Manifest>& from = planned.heal.manifest;
  if (from && from->pending &&
      MayPend(from->pending, j.spec.training, j.environment->samples, j.environment->tensors,
              from->step)) {
    const MeasureFact fact{from->lineage, from->pending->step, from->pending->sums};
    const MeasureSums* known = FactOf(fact.step);
    if (known == nullptr) {
      Do(PersistMeasure{j.id, fact});
      ledger_.Add(fact, j.lineages);
    } else if (*known != fact.sums) {
      Say("state", absl::StrCat("what the checkpoint of step ", from->step.value(),
                                " says was measured of the state of step ", fact.step.value(),
                                " differs from what is in the ledger, which counts"));
    }
  }
  Persist();
  asked_.reset();
  j.ending.unmeasured.clear();
  AskToMeasure(/*again=*/false);
  if (begins || j.lineages.size() == 1) return;
  const std::string why =
      lost_measure ? absl::StrCat("of the state of step ", lost_measure->value(),
                                  ", which is to be measured, a part is lost: back to step ")
                   : "no live copy of the newest state: back to step ";
  Say("recovery",
      absl::StrCat(resumed ? "resumes at step " : why, base.value(),
                   planned.heal.manifest ? " from its checkpoint" : ", the beginning"),
      {{"rewind", "true"}, {"step", absl::StrCat(base.value())}});
}

void JobRun::From(const MemberId& member, const HoldsBase& holds) {
  if (!change_) return;
  if (change_->MakesHolder(member, holds)) membership_.NoteState(member, true);
  if (change_->Hold(member, holds)) Activate();
}

void JobRun::From(const MemberId& member, const BaseFailed& failed) {
  if (!change_ || failed.view != change_->number() || !change_->plan()) return;
  // It has given up: whoever waits for it would wait in vain.
  if (!change_->plan()->heal.manifest)
    return Evict(member, absl::StrCat("it could not make the state: ", failed.reason));
  if (!failed.damaged)
    return Evict(member, absl::StrCat("it could not load the checkpoint: ", failed.reason));
  const Manifest& bad = *change_->plan()->heal.manifest;
  checkpoints_.PassOver(bad);
  Say("checkpoint", absl::StrCat("the checkpoint of step ", bad.step.value(),
                                 " is damaged and is passed over: ", failed.reason, " (found by ",
                                 member.name, ")"));
  // The next plan starts from an older checkpoint, so the lineage begun from this one is abandoned.
  Form("a damaged checkpoint", true);
}

// Everybody holds the base.
void JobRun::Activate() {
  JobJournal& j = journal_;
  const ViewChange formed = *std::move(change_);
  change_.reset();
  next_view_.reset();
  looks_for_leavers_ = true;
  checkpoints_.Renew();
  const Planned& planned = *formed.plan();
  // A view that was to begin a lineage may have failed while it formed; then this one begins it.
  const bool begins = !j.view || j.view->lineage != planned.view.lineage;
  const bool after_loss = formed.after_loss() && !(planned.rewind && j.lineages.size() == 1);
  const int64_t before = j.lanes.recomputed();
  if (begins) {
    j.lanes.Rewind(planned.view, j.spec.training.lanes, formed.holding());
  } else {
    j.lanes.GoOn(*j.view, planned.view, planned.reassigned);
  }
  j.view = planned.view;
  for (const ViewMember& m : j.view->members)
    membership_.NoteState(m.id, ViewGivesState(m.id));  // a spare drops its state now
  ++j.views;
  if (after_loss) ++j.recoveries;
  const JobPhase was = j.phase;
  j.phase = j.ending.stop_asked ? JobPhase::kStopping : JobPhase::kRunning;
  j.reason = planned.why;
  const std::string accepted = TakeAccepted(planned.view);
  Persist();
  Do(ToMembers{IdsOf(planned.view.members), muster::Activate{ViewOfThisTerm()}});
  if (j.phase != was) SayPhase("");  // no text: people read it in the view's event
  if (!accepted.empty()) Say("state", accepted);
  if (after_loss && !begins) {
    SayRecovery(formed.cause(), planned, j.lanes.recomputed() - before);
  } else {
    SayView(after_loss ? "recovery" : "view", planned.view);
  }
  GiveCommands();
  GiveMeasures();
  AskToMeasure(/*again=*/!HasFollower());
  TrimStream();  // the start before may have ended between a checkpoint and its trim
}

// Whether its workers have another file for the task is certain now, and from which step on: that
// is journalled with the view. Returns what people are told.
std::string JobRun::TakeAccepted(const View& view) {
  JobJournal& j = journal_;
  if (!j.accepted) return "";
  const AcceptedPlugin accepted = *std::exchange(j.accepted, std::nullopt);
  const std::string before = PluginOf(accepted.environment), after = PluginOf(*j.environment);
  if (before == after)
    return "another plug-in was accepted and is not used: the workers have the one that the job "
           "has";
  j.plugin_changes.push_back({view.lineage, view.first_step, before, after, accepted.by});
  const PluginUse was{0, before, std::nullopt};
  return DescribeChanges({was, {view.first_step.value(), after, accepted.by}}).back();
}

void JobRun::SayView(const std::string& event, const View& view) {
  const auto name = [](std::string* out, const ViewMember& m) { absl::StrAppend(out, m.id.name); };
  Say(event,
      absl::StrCat("view ", view.number.value(), " of ", absl::StrJoin(view.members, ", ", name),
                   " goes on at step ", view.first_step.value()),
      FieldsOf(view));
}

// `again`: how many of these lanes had been run before, as far as it is known now.
void JobRun::SayRecovery(const std::string& cause, const Planned& planned, int64_t again) {
  const View& view = planned.view;
  std::set<std::string> takers;
  for (LaneId l : planned.reassigned) {
    const int32_t holder = view.first_lanes.holder_of[static_cast<size_t>(l.value())];
    takers.insert(view.members[static_cast<size_t>(holder)].id.name);
  }
  const bool known = journal_.lanes.settled();
  std::map<std::string, std::string> fields = FieldsOf(view);
  fields["lanes"] = absl::StrCat(planned.reassigned.size());
  if (known) fields["recomputed"] = absl::StrCat(again);
  Say("recovery",
      absl::StrCat(
          cause, "; its lanes went to ",
          takers.empty() ? "nobody (all sums were complete)" : absl::StrJoin(takers, " and "),
          "; step ", view.first_step.value(), known ? " recomputed " : " moves ",
          known ? again : static_cast<int64_t>(planned.reassigned.size()), " of ",
          Plural(journal_.spec.training.lanes, "lane")),
      fields);
}

// A view persisted in an earlier term stays valid; only its term changes.
View JobRun::ViewOfThisTerm() const {
  View view = *journal_.view;
  view.term = leadership_.term;
  return view;
}

}  // namespace muster::coordinator
