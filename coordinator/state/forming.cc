// A change of view, from its cause to the next active view (docs/protocol.md section 4).
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/state/coordinator.h"
#include "lib/base/status.h"
#include "lib/domain/grid.h"

namespace muster::coordinator {

int64_t Coordinator::TotalSteps() const {
  return job()->environment ? muster::TotalSteps(job()->spec.training, job()->environment->samples)
                            : 0;
}

Step Coordinator::End() const {
  const Step end(TotalSteps());
  return job()->stop_at ? std::min(end, *job()->stop_at) : end;
}

// Membership against what is active or forming; the last thing done for every input.
void Coordinator::Consider() {
  if (job() == nullptr || (reattaching_ && !EveryoneIsBack())) return;
  if (forming_) EvictSlow();
  if (forming_ ? AllLive(forming_->members) : ViewStillFits()) return;
  const std::optional<std::string> why_not = WhyNotYet();
  if (!why_not) return Form(cause_.empty() ? "members joined" : cause_, loss_);
  forming_.reset();  // it names members that are gone
  if (waits_for_ != *why_not) {
    waits_for_ = *why_not;
    Say("state", absl::StrCat("waits: ", waits_for_));
  }
  if (job()->phase == JobPhase::kRunning) SetPhase(JobPhase::kRecovering, waits_for_);
}

// After a restart, members of the persisted view have a lease's time to come back, but for those
// that an agent says have ended. Until then nothing is decided.
bool Coordinator::EveryoneIsBack() {
  JobJournal& j = *job();
  std::vector<Incarnation> gone;
  if (j.view)
    for (const ViewMember& m : j.view->members)
      if (live_.count(m.id) == 0) gone.push_back(m.id.incarnation);
  const bool waits = !j.view || !std::all_of(gone.begin(), gone.end(),
                                             [&](Incarnation i) { return j.lanes.HasEnded(i); });
  if (waits && now_ - started_ < settings_.lease) return false;
  reattaching_ = false;
  for (const auto& [id, live] : live_) j.number = std::max(j.number, live.sealed);
  const bool unfinished = j.number > (j.view ? j.view->number : ViewNumber());
  for (const Incarnation& i : gone) {
    j.lanes.Lose(i);
    evicted_.insert(i);
  }
  if (!gone.empty()) loss_ = true;
  if (!gone.empty()) cause_ = "members were lost while the coordinator was down";
  if (gone.empty() && unfinished) cause_ = "the coordinator restarted while a view was forming";
  return true;
}

bool Coordinator::AllLive(const std::vector<MemberId>& members) const {
  return std::all_of(members.begin(), members.end(),
                     [&](const MemberId& id) { return live_.count(id) > 0; });
}

// A large state takes its time, from disk or from others.
Duration Coordinator::WithTimeForState(Duration patience) const {
  constexpr int64_t kBytesPerSecond = 10'000'000;
  const int64_t elements = layout_ ? layout_->elements() : 0;
  const int64_t copies = 1 + SlotCount(job()->spec.training.optimizer.kind);
  return patience +
         std::chrono::seconds(copies * elements * int64_t{sizeof(float)} / kBytesPerSecond);
}

// Who has not become ready in a generous time holds up everybody else.
void Coordinator::EvictSlow() {
  if (now_ - forming_->since <= WithTimeForState(settings_.forming_patience)) return;
  std::vector<MemberId> slow;
  for (const MemberId& id : forming_->members) {
    const bool ready =
        forming_->planned ? forming_->holds_base.count(id) > 0 : forming_->answers.count(id) > 0;
    if (!ready) slow.push_back(id);
  }
  for (const MemberId& id : slow) Evict(id, "did not get ready for the new view in time", true);
}

// The active view names exactly the members that are to take part.
bool Coordinator::ViewStillFits() const {
  const JobJournal& j = *job();
  if (!j.view || j.view->number != j.number || j.resumes) return false;
  size_t wanted =
      std::min(CountLive(Role::kWorker), static_cast<size_t>(j.spec.runtime.workers_max));
  wanted += CountLive(Role::kServer);
  return wanted == j.view->members.size() &&
         std::all_of(j.view->members.begin(), j.view->members.end(),
                     [&](const ViewMember& m) { return live_.count(m.id) > 0; });
}

size_t Coordinator::CountLive(Role role) const {
  return static_cast<size_t>(std::count_if(
      live_.begin(), live_.end(), [&](const auto& e) { return e.second.member.role == role; }));
}

std::optional<std::string> Coordinator::WhyNotYet() const {
  const RuntimeSpec& runtime = job()->spec.runtime;
  const size_t workers = CountLive(Role::kWorker), servers = CountLive(Role::kServer);
  if (!job()->environment || workers == 0) return "no worker has joined";
  if (servers < static_cast<size_t>(runtime.servers))
    return absl::StrCat(servers, " of ", runtime.servers, " servers have joined");
  if (job()->view && !job()->resumes) return std::nullopt;
  if (static_cast<int32_t>(workers) >= runtime.workers_max) return std::nullopt;
  const bool patient = now_ - started_ < settings_.start_patience;
  if (!patient && static_cast<int32_t>(workers) >= runtime.workers_min) return std::nullopt;
  return absl::StrCat(
      workers, " of ", runtime.workers_max, " workers have joined",
      patient ? "" : absl::StrCat("; at least ", runtime.workers_min, " are needed"));
}

void Coordinator::Form(const std::string& cause, bool after_loss) {
  JobJournal& j = *job();
  Forming forming;
  forming.since = now_;
  forming.cause = cause;
  forming.after_loss = after_loss || (forming_ && forming_->after_loss);
  int32_t workers = 0;
  // Members of the last view first, so that the most workers allowed are the ones that hold a
  // state.
  for (bool old : {true, false})
    for (const auto& [id, live] : live_) {
      const bool in_view = j.view && j.view->IndexOf(id) >= 0;
      if (in_view != old) continue;
      if (live.member.role == Role::kWorker && workers++ >= j.spec.runtime.workers_max) continue;
      forming.members.push_back(id);
    }
  std::sort(forming.members.begin(), forming.members.end());
  j.number = j.number + 1;
  forming.number = j.number;
  const bool recovers = j.phase == JobPhase::kRunning;
  if (recovers) {
    j.phase = JobPhase::kRecovering;
    j.reason = cause;
  }
  if (!settings_.bugs.publish_before_persist) Persist();
  if (recovers) SayPhase("");
  waits_for_ = absl::StrCat("view ", forming.number.value(), " forms: ", cause);
  Say("view", waits_for_, {{"view", absl::StrCat(forming.number.value())}});
  for (const MemberId& id : forming.members) Do(ToMember{id, Seal{term_, forming.number}});
  if (settings_.bugs.publish_before_persist) Persist();
  forming_ = std::move(forming);
}

void Coordinator::From(const MemberId& member, const Sealed& sealed) {
  if (!forming_ || sealed.view != forming_->number || forming_->planned) return;
  if (std::find(forming_->members.begin(), forming_->members.end(), member) ==
      forming_->members.end())
    return;
  const std::vector<LaneId>& lanes = sealed.local_state.lanes;
  if (!lanes.empty() && lanes.back().value() >= job()->spec.training.lanes)
    return Evict(member,
                 absl::StrCat("it says that it holds lane ", lanes.back().value(), "; the job has ",
                              job()->spec.training.lanes),
                 true);
  forming_->answers[member] = sealed.local_state;
  if (forming_->answers.size() == forming_->members.size()) PlanForming();
}

std::optional<Manifest> Coordinator::CheckpointFor() const {
  const Resume& resume = job()->spec.runtime.resume;
  if (job()->resumes && resume.kind == ResumeKind::kNever) return std::nullopt;
  for (auto it = manifests_.rbegin(); it != manifests_.rend(); ++it) {
    if (bad_manifests_.count({it->lineage, it->step}) > 0) continue;
    if (!OnAncestry(job()->lineages, it->lineage, it->step)) continue;
    if (job()->resumes && resume.kind == ResumeKind::kStep && it->step != Step(resume.step))
      continue;
    return *it;
  }
  return std::nullopt;
}

absl::StatusOr<const Layout*> Coordinator::LayoutNow() {
  if (!layout_) {
    if (!job()->environment)
      return absl::FailedPreconditionError("no worker has told the job's numeric environment");
    MUSTER_ASSIGN_OR_RETURN(
        layout_, Layout::Make(job()->environment->tensors, ChunkBytes(job()->spec.training)));
  }
  return &*layout_;
}

void Coordinator::PlanForming() {
  JobJournal& j = *job();
  const absl::StatusOr<const Layout*> layout = LayoutNow();
  if (!layout.ok())
    return EndJob(JobPhase::kFailed,
                  absl::StrCat("the model's layout: ", layout.status().message()),
                  kExitBadConfiguration);
  const absl::Status fits = CheckPlanFits(**layout, SlotCount(j.spec.training.optimizer.kind));
  if (!fits.ok())
    return EndJob(JobPhase::kFailed, std::string(fits.message()), kExitBadConfiguration);
  const PlanInput input = InputOfPlan(**layout);
  if (j.resumes && j.spec.runtime.resume.kind == ResumeKind::kStep && !input.checkpoint)
    return EndJob(
        JobPhase::kFailed,
        absl::StrCat("resume: there is no checkpoint of step ", j.spec.runtime.resume.step),
        kExitBadConfiguration);
  Planned planned = PlanView(input);
  const bool anew = j.resumes && j.spec.runtime.resume.kind == ResumeKind::kNever;
  if (planned.rewind && !input.checkpoint && !bad_manifests_.empty() && !anew)
    return EndJob(
        JobPhase::kFailed,
        "no checkpoint can be loaded any more, and no member holds the state; put the files "
        "back, or start anew with resume: never",
        kExitBadData);
  if (planned.rewind) Rewind(planned);
  forming_->planned = std::move(planned);
  for (const MemberId& id : forming_->members)
    Do(ToMember{id, Heal{term_, forming_->number, forming_->planned->heal}});
}

PlanInput Coordinator::InputOfPlan(const Layout& layout) const {
  const JobJournal& j = *job();
  PlanInput input;
  input.job = j.id;
  input.term = term_;
  input.number = forming_->number;
  input.sync = j.spec.training.sync;
  input.lanes = j.spec.training.lanes;
  input.chunks = layout.chunk_count();
  input.bucket_chunks = static_cast<int32_t>(
      std::max<int64_t>(1, j.spec.runtime.bucket_bytes / ChunkBytes(j.spec.training)));
  input.lineages = j.lineages;
  for (const auto& [id, local_state] : forming_->answers) {
    Candidate candidate{live_.at(id).member, std::nullopt, local_state};
    const int32_t index = j.view ? j.view->IndexOf(id) : -1;
    if (index >= 0) candidate.rank = j.view->members[static_cast<size_t>(index)].rank;
    input.candidates.push_back(std::move(candidate));
  }
  input.checkpoint = CheckpointFor();
  input.must_rewind = j.resumes;
  input.rewind_cause = j.lineages.empty() ? "start" : j.resumes ? "resumed" : forming_->cause;
  input.end = End();
  input.bugs = settings_.bugs.plan;
  return input;
}

// A new lineage: one journal write with all that it voids.
void Coordinator::Rewind(Planned& planned) {
  JobJournal& j = *job();
  const Step base = planned.heal.base;
  const bool begins = !j.view;  // nothing was done yet that could be lost
  if (!begins && !j.lineages.empty() && !j.resumes) ++j.rewinds;
  recent_.Void(base);
  parts_.clear();
  while (!rounds_.empty()) DropRound(rounds_.begin()->first);
  recorded_ = base;
  j.lineages.push_back(*planned.rewind);
  if (j.stop_at && *j.stop_at > base) j.stop_at.reset();
  planned.view.end = End();
  const bool resumed = std::exchange(j.resumes, false);
  Persist();
  if (begins || j.lineages.size() == 1) return;
  Say("recovery",
      absl::StrCat(resumed ? "resumes at step " : "no live copy of the newest state: back to step ",
                   base.value(),
                   planned.heal.manifest ? " from its checkpoint" : ", the beginning"),
      {{"rewind", "true"}, {"step", absl::StrCat(base.value())}});
}

void Coordinator::From(const MemberId& member, const HoldsBase& holds) {
  if (!forming_ || holds.view != forming_->number || !forming_->planned) return;
  if (std::find(forming_->members.begin(), forming_->members.end(), member) ==
      forming_->members.end())
    return;
  forming_->holds_base[member] = holds.lanes_run;
  if (forming_->holds_base.size() == forming_->members.size()) FinishForming();
}

void Coordinator::From(const MemberId& member, const BaseFailed& failed) {
  if (!forming_ || failed.view != forming_->number || !forming_->planned ||
      !forming_->planned->heal.manifest)
    return;
  if (!failed.damaged)
    return Evict(member, absl::StrCat("it could not load the checkpoint: ", failed.reason), true);
  const Manifest& bad = *forming_->planned->heal.manifest;
  bad_manifests_.insert({bad.lineage, bad.step});
  Say("checkpoint", absl::StrCat("the checkpoint of step ", bad.step.value(),
                                 " is damaged and is passed over: ", failed.reason, " (found by ",
                                 member.name, ")"));
  // The lineage that was begun from it goes: the next plan starts from an older one.
  Form("a damaged checkpoint", true);
}

void Coordinator::FinishForming() {
  JobJournal& j = *job();
  const Forming formed = *std::exchange(forming_, std::nullopt);
  const Planned& planned = *formed.planned;
  // A view that was to begin a lineage may have failed while it formed; then this one begins it.
  const bool begins = !j.view || j.view->lineage != planned.view.lineage;
  const bool after_loss = formed.after_loss && !(planned.rewind && j.lineages.size() == 1);
  const int64_t before = j.lanes.recomputed();
  if (begins) {
    j.lanes.Rewind(planned.view, j.spec.training.lanes, formed.holds_base);
  } else {
    j.lanes.GoOn(*j.view, planned.view, planned.reassigned);
  }
  j.view = planned.view;
  ++j.views;
  if (after_loss) ++j.recoveries;
  const JobPhase was = j.phase;
  j.phase = j.stop_asked ? JobPhase::kStopping : JobPhase::kRunning;
  j.reason = planned.why;
  if (!settings_.bugs.publish_before_persist) Persist();
  for (const ViewMember& m : planned.view.members) PublishView(m.id);
  if (settings_.bugs.publish_before_persist) Persist();
  if (j.phase != was) SayPhase("");  // the view's own event says it to people
  if (after_loss && !begins) {
    SayRecovery(formed.cause, planned, j.lanes.recomputed() - before);
  } else {
    SayView(after_loss ? "recovery" : "view", planned.view);
  }
  cause_.clear();
  loss_ = false;
  waits_for_.clear();
  GiveCommands();
}

std::map<std::string, std::string> Coordinator::FieldsOf(const View& view) const {
  return {{"view", absl::StrCat(view.number.value())},
          {"step", absl::StrCat(view.first_step.value())},
          {"lineage", absl::StrCat(view.lineage.value())}};
}

void Coordinator::SayView(const std::string& event, const View& view) {
  const auto name = [](std::string* out, const ViewMember& m) { absl::StrAppend(out, m.id.name); };
  Say(event,
      absl::StrCat("view ", view.number.value(), " of ", absl::StrJoin(view.members, ", ", name),
                   " goes on at step ", view.first_step.value()),
      FieldsOf(view));
}

// `again`: lanes that were run before, as far as it is known already.
void Coordinator::SayRecovery(const std::string& cause, const Planned& planned, int64_t again) {
  const View& view = planned.view;
  std::set<std::string> takers;
  for (LaneId l : planned.reassigned) {
    const int32_t holder = view.first_lanes.holder_of[static_cast<size_t>(l.value())];
    takers.insert(view.members[static_cast<size_t>(holder)].id.name);
  }
  const bool known = job()->lanes.settled();
  std::map<std::string, std::string> fields = FieldsOf(view);
  fields["lanes"] = absl::StrCat(planned.reassigned.size());
  if (known) fields["recomputed"] = absl::StrCat(again);
  Say("recovery",
      absl::StrCat(
          cause, "; its lanes went to ",
          takers.empty() ? "nobody (all sums were complete)" : absl::StrJoin(takers, " and "),
          "; step ", view.first_step.value(), known ? " recomputed " : " moves ",
          known ? again : static_cast<int64_t>(planned.reassigned.size()), " of ",
          job()->spec.training.lanes, " lanes"),
      fields);
}

// With the term of now: a view that an earlier leadership persisted is as good.
void Coordinator::PublishView(const MemberId& member) {
  View view = *job()->view;
  view.term = term_;
  Do(ToMember{member, Activate{std::move(view)}});
}

}  // namespace muster::coordinator
