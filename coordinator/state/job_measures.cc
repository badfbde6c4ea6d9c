// What a follower measures of a started job's states, and what waits for it (docs/decisions/0111).
// Of the last state whoever measures it (docs/decisions/0120).
#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "coordinator/state/job_run.h"
#include "coordinator/state/plan.h"
#include "lib/base/exit_codes.h"
#include "lib/base/plural.h"
#include "lib/domain/validation.h"

namespace muster::coordinator {

bool JobRun::HasFollower() const { return FollowersOf(journal_.spec.training) > 0; }

// It counts for each lineage that has this state in its history.
const MeasureSums* JobRun::FactOf(Step measured) const {
  for (const auto& [of, sums] : ledger_.recent().facts)
    if (of.second == measured && OnAncestry(journal_.lineages, of.first, of.second)) return &sums;
  return nullptr;
}

// Null: it brings none, or the journal is an older copy and does not know it.
const MeasureSums* JobRun::FactBroughtBy(const StepRecord& record) const {
  if (!HasFollower() || !journal_.environment || record.measures.empty()) return nullptr;
  const std::optional<Step> brought = BroughtIn(journal_.spec.training, SampleCount(), record.step);
  return brought ? FactOf(*brought) : nullptr;
}

// The measure that state(state) is to learn of later, where it is not known.
std::optional<Step> JobRun::LacksMeasure(Step state) const {
  if (!HasFollower() || !journal_.environment) return std::nullopt;
  const std::optional<Step> outstanding =
      OutstandingIn(journal_.spec.training, SampleCount(), state);
  return outstanding && FactOf(*outstanding) == nullptr ? outstanding : std::nullopt;
}

// Nobody has measured it, and the step that brings its measure is not done.
bool JobRun::IsToBeMeasured(Step state) const {
  if (!journal_.environment) return false;
  const TrainingSpec& training = journal_.spec.training;
  return IsFollowed(training, SampleCount(), state) &&
         BringerOf(training.validation, state) >= ledger_.recorded() && FactOf(state) == nullptr;
}

const Manifest* JobRun::CommittedAt(Step state) const {
  const std::vector<Manifest>& all = checkpoints_.committed();
  const auto found = std::find_if(all.rbegin(), all.rend(), [&](const Manifest& m) {
    return m.step == state && OnAncestry(journal_.lineages, m.lineage, m.step) &&
           !checkpoints_.IsPassedOver(m.lineage, m.step);
  });
  return found == all.rend() ? nullptr : &*found;
}

// Of a start that goes back to an older state it is not known yet which states count.
const Manifest* JobRun::ToMeasure() const {
  if (journal_.resumes || journal_.lineages.empty()) return nullptr;
  const bool awaits_last = AwaitsLastMeasure();
  if (!HasFollower()) return awaits_last ? CommittedAt(EndStep()) : nullptr;
  const Manifest* newest = nullptr;
  for (const Manifest& m : checkpoints_.committed()) {
    const bool is_usable = OnAncestry(journal_.lineages, m.lineage, m.step) &&
                           !checkpoints_.IsPassedOver(m.lineage, m.step);
    const bool is_last = awaits_last && m.step == EndStep();
    if (!is_usable || (!is_last && !IsToBeMeasured(m.step))) continue;
    if (asked_ && asked_->lineage == m.lineage && asked_->step == m.step) return &m;  // it is at it
    newest = &m;
  }
  return newest;
}

// The follower. Without one a worker that has the last state in its memory: the one that is at it
// already, or else that of the lowest rank.
std::optional<MemberId> JobRun::WhoMeasures() const {
  if (HasFollower()) return Follower();
  const std::optional<View>& view = journal_.view;
  const bool has_view = view && view->number == journal_.number && !change_ && !reattachment_;
  if (!has_view || !AwaitsLastMeasure()) return std::nullopt;
  const ViewMember* first = nullptr;
  for (size_t i = 0; i < view->members.size(); ++i) {
    const ViewMember& m = view->members[i];
    const auto live = membership_.live().find(m.id);
    if (m.role != Role::kWorker || !view->HasPart(static_cast<int32_t>(i)) ||
        live == membership_.live().end())
      continue;
    if (asked_ && asked_->member == m.id) return m.id;
    if (live->second.up && (first == nullptr || m.rank < first->rank)) first = &m;
  }
  return first == nullptr ? std::nullopt : std::optional(first->id);
}

// `again`: it has a new session, or is another process.
void JobRun::AskToMeasure(bool again) {
  const std::optional<MemberId> who = WhoMeasures();
  if (!who && !HasFollower() && AwaitsLastMeasure()) return;  // a view forms
  const Manifest* manifest = who ? ToMeasure() : nullptr;
  if (manifest == nullptr) return asked_.reset();
  const AskedMeasure of{*who, manifest->lineage, manifest->step};
  if (asked_ == of && !again) return;
  asked_ = of;
  Do(ToMember{*who, MeasureState{leadership_.term, manifest->lineage, manifest->step, *manifest}});
}

bool JobRun::MayTellMeasures(const MemberId& member) const {
  if (HasFollower()) return Follower() == member;
  const auto live = membership_.live().find(member);
  return journal_.spec.training.validation.wanted() && live != membership_.live().end() &&
         live->second.member.role == Role::kWorker;
}

// What was asked by a coordinator before, or is not asked any more since a rewind, is no fault.
void JobRun::From(const MemberId& member, const Measured& told) {
  if (!journal_.environment || !MayTellMeasures(member))
    return Evict(member, "it tells a measure, and is no follower");
  const size_t floats = FloatsOf(MetricsIn(journal_.environment->tensors));
  if (told.sums.floats.size() != floats)
    return Evict(member, absl::StrCat("its measure has ", told.sums.floats.size(),
                                      " numbers; those of the job have ", floats));
  const std::string of = absl::StrCat("what ", member.name, " measures of the state of step ",
                                      told.step.value(), " differs from ");
  const bool counts = OnAncestry(journal_.lineages, told.lineage, told.step);
  const MeasureSums* known = counts ? FactOf(told.step) : nullptr;
  if (known != nullptr && *known != told.sums)
    Say("state", absl::StrCat(of, "what was measured of it first, which counts"));
  const bool is_committed = std::any_of(
      checkpoints_.committed().begin(), checkpoints_.committed().end(),
      [&](const Manifest& m) { return m.lineage == told.lineage && m.step == told.step; });
  const bool is_wanted =
      IsToBeMeasured(told.step) || (AwaitsLastMeasure() && told.step == EndStep());
  if (counts && known == nullptr && is_committed && is_wanted) {
    for (const auto& [key, sums] : ledger_.recent().facts)
      if (key.second == told.step && sums != told.sums)
        Say("state", absl::StrCat(of, "what was measured of it before a rewind"));
    TakeMeasure({told.lineage, told.step, told.sums});
  }
  Do(ToMember{member, AckMeasured{leadership_.term, told.lineage, told.step}});
  AskToMeasure(/*again=*/false);
}

// It is in the ledger before anybody is told. That of the last state no step's record will tell.
void JobRun::TakeMeasure(const MeasureFact& fact) {
  const bool is_last = AwaitsLastMeasure() && fact.step == EndStep();
  PersistMeasure persist{journal_.id, fact};
  if (is_last) {
    persist.would_be_brought_by = BringerOf(journal_.spec.training.validation, fact.step);
    persist.last = MeasuresOf(MetricsIn(journal_.environment->tensors), fact.sums);
  }
  Do(persist);
  ledger_.Add(fact, journal_.lineages);
  if (is_last) {
    Persist();
    SayMeasured(fact.step, persist.last);
  }
  SaveMeasures();
  // What was best so far stays until the last state is known to be readable.
  if (!is_last) PruneCheckpoints();
  GiveMeasures();
  TryCommit();
  EndWhenDone();
}

KeepRule JobRun::KeepNow() const {
  const CheckpointPolicy& policy = journal_.spec.runtime.checkpoint;
  return {policy.keep, policy.keep_every, StepsOfEpochs(policy.keep_epochs)};
}

void JobRun::PruneCheckpoints() {
  if (checkpoints_.committed().empty()) return;
  const Manifest newest = checkpoints_.committed().back();
  checkpoints_.Prune(KeepNow());
  Do(PruneManifests{newest, journal_.lineages, KeepNow(), BestRuleOf(journal_.spec)});
  TrimStream();
}

void JobRun::From(const MemberId& member, const MeasureFailed& failed) {
  if (Follower() != member) return Evict(member, "it says what a follower says, and is none");
  const Manifest* manifest = ToMeasure();
  if (asked_ == AskedMeasure{member, failed.lineage, failed.step}) asked_.reset();
  if (manifest == nullptr || manifest->lineage != failed.lineage || manifest->step != failed.step)
    return AskToMeasure(/*again=*/false);  // it is not needed any more
  if (!failed.damaged) return Evict(member, absl::StrCat("it could not measure: ", failed.reason));
  if (failed.step == EndStep()) return CannotReadBack(Manifest(*manifest), failed.reason);
  checkpoints_.PassOver(*manifest);
  Say("checkpoint", absl::StrCat("the checkpoint of step ", failed.step.value(),
                                 " is damaged and is passed over: ", failed.reason, " (found by ",
                                 member.name, ")"));
  AskToMeasure(/*again=*/false);
  if (asked_ || !journal_.view || finishes_since_) return;
  looks_at_measured_ = true;
}

// To the owner of the sums: all that its open step, or a later one, may bring.
void JobRun::GiveMeasures() {
  const std::optional<View>& view = journal_.view;
  if (!HasFollower() || !view || journal_.resumes || change_ || view->number != journal_.number)
    return;
  const absl::StatusOr<const Layout*> layout = LayoutNow();
  if (!layout.ok()) return;
  const auto& chunks = (*layout)->chunks();
  const auto at = std::find_if(chunks.begin(), chunks.end(),
                               [](const Chunk& chunk) { return chunk.kind == TensorKind::kSum; });
  if (at == chunks.end()) return;
  const auto owner = view->owner_of[static_cast<size_t>(at - chunks.begin())];
  const MemberId& to = view->members[static_cast<size_t>(owner)].id;
  const TrainingSpec& training = journal_.spec.training;
  // A step of which somebody told a record before he was lost may be done again in this view.
  const Step first = std::min(ledger_.recorded(), view->first_step);
  std::set<Step> given;
  for (const auto& [of, fact] : ledger_.recent().facts) {
    const Step step = of.second;
    if (!OnAncestry(journal_.lineages, of.first, step) ||
        !IsMeasuredIn(training, SampleCount(), step) ||  // that of an end before: no step brings it
        BringerOf(training.validation, step) < first || !given.insert(step).second)
      continue;
    Do(ToMember{to, GiveMeasure{leadership_.term, view->number, journal_.lineages.back().number,
                                step, fact}});
  }
}

// ---- the checkpoint that is measured

// The state before the base whose measure is not there and will never be. Where the base itself is
// one of which a damaged checkpoint was committed, members have written all that they copied.
std::optional<Step> JobRun::WhichIsLost(const PlanInput& input, Step base) const {
  if (const std::optional<Step> measured = LacksMeasure(base))
    return IsLost(input, *measured) ? measured : std::nullopt;
  const bool is_damaged = IsToBeMeasured(base) && CommittedAt(base) == nullptr &&
                          checkpoints_.IsPassedOver(journal_.lineages.back().number, base);
  return is_damaged && base < EndStep() ? std::optional(base) : std::nullopt;
}

// The state is left behind and must come back from its checkpoint, of which neither the disk nor a
// member that lives has every part; or what is there of it cannot be read.
bool JobRun::IsLost(const PlanInput& input, Step measured) const {
  if (CommittedAt(measured) != nullptr) return false;
  const LineageNumber current = journal_.lineages.back().number;
  if (checkpoints_.IsPassedOver(current, measured)) return true;
  ChunkSet promised(layout_->chunks().size(), false);
  for (const Candidate& candidate : input.candidates) {
    const std::optional<MeasuredPart>& part = candidate.local_state.measured_part;
    if (!part || part->lineage != current || part->step != measured ||
        part->chunks.size() != promised.size())
      continue;
    for (size_t c = 0; c < promised.size(); ++c) promised[c] = promised[c] || part->chunks[c];
  }
  const int32_t slots = SlotCount(journal_.spec.training);
  for (size_t c = 0; c < promised.size(); ++c) {
    if (promised[c]) continue;
    const int32_t last = layout_->chunks()[c].kind == TensorKind::kParameter ? slots : 0;
    for (int32_t slot = 0; slot <= last; ++slot)
      if (!checkpoints_.HasPart(measured, slot, ChunkId(static_cast<int32_t>(c)))) return true;
  }
  return false;
}

// A part of such a checkpoint that only this member has.
bool JobRun::OwesPart(const MemberId& member) const {
  if (!promised_) return false;
  const auto promised = promised_->find(member);
  if (promised == promised_->end() || journal_.lineages.empty() || !layout_) return false;
  const MeasuredPart& part = promised->second;
  if (part.chunks.size() != layout_->chunks().size() ||
      part.lineage != journal_.lineages.back().number || !IsToBeMeasured(part.step) ||
      CommittedAt(part.step) != nullptr)
    return false;
  for (size_t c = 0; c < part.chunks.size(); ++c)
    if (part.chunks[c] &&
        !checkpoints_.HasPart(part.step, kValuesSlot, ChunkId(static_cast<int32_t>(c))))
      return true;
  return false;
}

// True: its writer tries again by itself, and no round is given up.
bool JobRun::MeasuredPartFailed(const MemberId& member, const SegmentFailed& failed) {
  if (!journal_.environment || failed.disk_is_slow ||
      !IsFollowed(journal_.spec.training, SampleCount(), failed.step))
    return false;
  Say("checkpoint",
      absl::StrCat("a part of the checkpoint of step ", failed.step.value(), " by ", member.name,
                   failed.gave_up ? " cannot be written" : " is tried again", ": ", failed.reason),
      {{"step", absl::StrCat(failed.step.value())}, {"saves", "false"}});
  if (IsSaving(failed.step)) to_be_saved_->lacks_parts_since.reset();
  const bool is_needed = IsToBeMeasured(failed.step) && CommittedAt(failed.step) == nullptr;
  if (failed.gave_up && is_needed)
    End(JobPhase::kFailed,
        absl::StrCat("the checkpoint of step ", failed.step.value(),
                     ", which is to be measured, cannot be written: ", failed.reason),
        kExitFailed);
  return true;
}

bool JobRun::IsSaving(Step measured) const {
  return to_be_saved_ && !journal_.lineages.empty() && to_be_saved_->step == measured &&
         to_be_saved_->lineage == journal_.lineages.back().number;
}

// What is known of another state, or of another lineage's, is of no use for this one.
ToBeSaved& JobRun::SavingOf(Step measured) {
  const Settings& settings = leadership_.settings;
  if (!IsSaving(measured))
    to_be_saved_.emplace(ToBeSaved{
        journal_.lineages.back().number, measured,
        LastCheckpoint({settings.first_retry, settings.longest_retry, settings.retries})});
  return *to_be_saved_;
}

void JobRun::MeasuredCommitFailed(const ManifestFailed& failed) {
  LastCheckpoint& commits = SavingOf(failed.step).commits;
  if (commits.Fail(/*write_again=*/false, now_)) return;
  End(JobPhase::kFailed,
      absl::StrCat("the checkpoint of step ", failed.step.value(),
                   ", which is to be measured, failed ", Plural(commits.failures(), "time"), ": ",
                   failed.reason),
      kExitFailed);
}

// Where its parts do not come, members say in a new view which of them still will. An older copy of
// the journal does not know that it was committed, and nobody tells it again.
void JobRun::RetryMeasured() {
  if (to_be_saved_ && IsSaving(to_be_saved_->step) && to_be_saved_->commits.RetryIsDue(now_)) {
    checkpoints_.TryAgain();
    TryCommit();
  }
  const std::optional<Step> measured = WaitsForMeasureOf();
  const bool lacks_parts = measured && CommittedAt(*measured) == nullptr &&
                           !checkpoints_.committing() && !change_ && !reattachment_ &&
                           journal_.view && !journal_.resumes && ViewStillFits() &&
                           !SavingOf(*measured).commits.waits_for_retry();
  if (!lacks_parts) {
    if (to_be_saved_) to_be_saved_->lacks_parts_since.reset();
    return;
  }
  std::optional<Time>& since = SavingOf(*measured).lacks_parts_since;
  if (!since) since = now_;
  if (now_ - *since <= WithTimeForState(leadership_.settings.checkpoint_patience)) return;
  since.reset();
  Form(absl::StrCat("the checkpoint of step ", measured->value(),
                    ", which is to be measured, does not come"),
       false);
}

// Nothing else is to be done than to wait for the measure of this state.
std::optional<Step> JobRun::WaitsForMeasureOf() const {
  if (!HasFollower() || !journal_.environment || Ended(journal_.phase)) return std::nullopt;
  const Step open = ledger_.recorded();
  if (AwaitsLastMeasure()) return EndStep();
  if (open >= EndStep()) return SavesItsEnd() ? LacksMeasure(EndStep()) : std::nullopt;
  const std::optional<Step> brought = BroughtIn(journal_.spec.training, SampleCount(), open);
  return brought && IsToBeMeasured(*brought) ? brought : std::nullopt;
}

// "step 41 waits for follower-0's measure of step 30"
std::string JobRun::WaitsForMeasure() const {
  if (!HasFollower())
    return AwaitsLastMeasure()
               ? absl::StrCat("the end waits for ", asked_ ? asked_->member.name : "a worker",
                              "'s measure of step ", EndStep().value())
               : "";
  const std::optional<Step> measured = WaitsForMeasureOf();
  if (!measured) return "";
  const Step open = ledger_.recorded();
  const Placement* placement = PlacementOf(journal_, kFollowerName);
  const bool has_room = placement == nullptr || placement->host;
  return absl::StrCat(AwaitsLastMeasure() ? "the end"
                      : open >= EndStep() ? "the last checkpoint"
                                          : absl::StrCat("step ", open.value()),
                      " waits for ", kFollowerName, "'s measure of step ", measured->value(),
                      has_room ? "" : absl::StrCat("; ", kFollowerName, " waits for a free slot"));
}

// ---- the last state

// Whether the cadence has it or not. What a job is stopped at is no end, nor what failed.
bool JobRun::MeasuresItsEnd() const {
  const Step end = EndStep();
  const bool is_end = end == Step(TotalSteps()) || end == journal_.ending.enough_at;
  return journal_.spec.training.validation.wanted() && is_end && end > Step(0) && SavesItsEnd() &&
         WhyNotFinite(end).empty();
}

// All else that the end needs is there, but for the digest, which nothing can take back.
bool JobRun::AwaitsLastMeasure() const {
  if (!journal_.environment || !journal_.view || journal_.lineages.empty() || ended() ||
      finishes_since_ || !journal_.ending.unmeasured.empty())
    return false;
  // It is to go on from somewhere else than its end.
  if (journal_.resumes && journal_.spec.runtime.resume.kind != ResumeKind::kLatest) return false;
  const Step end = EndStep();
  return ledger_.recorded() >= end && checkpoints_.IsNewest(journal_.lineages.back().number, end) &&
         MeasuresItsEnd() && FactOf(end) == nullptr;
}

// A training that is done is not lost for want of a number, which muster evaluate can still find.
void JobRun::EndUnmeasured(const std::string& why) {
  journal_.ending.unmeasured = why;
  Persist();  // whoever was to measure may not come any more
  asked_.reset();
  EndWhenDone();
}

// Who is at it needs no others. Else it waits for room as long as a job does that lacks a member;
// one that is to end waits as long as for a last checkpoint.
void JobRun::EndIfNobodyMeasures() {
  if (!AwaitsLastMeasure()) return nobody_measures_since_.reset();
  const JobEnding& ending = journal_.ending;
  const Settings& settings = leadership_.settings;
  const bool is_under_way = asked_ && membership_.IsLive(asked_->member);
  const std::string lacking = is_under_way ? "" : WhoLacksRoom();
  if (lacking.empty())
    nobody_measures_since_.reset();
  else if (!nobody_measures_since_)
    nobody_measures_since_ = now_;
  else if (now_ - *nobody_measures_since_ > settings.room_patience)
    return EndUnmeasured(absl::StrCat("there was no room for ", lacking));
  if (ending.is_urgent && now_ - stops_since_ > WithTimeForState(settings.stop_patience))
    EndUnmeasured(ending.is_late ? WhyItIsLate() : "others need its place");
}

// No restart helps. True: whoever is left measures the last state, or nobody does any more.
bool JobRun::EndsUnmeasuredWith(const ProcessExited& exited) {
  if (!AwaitsLastMeasure() && (journal_.ending.unmeasured.empty() || !digesting_)) return false;
  given_up_ = exited;
  if (digesting_) return true;
  // A start that has no view yet needs as many as begin one, also for a follower to be asked.
  const bool begins = journal_.resumes;
  const auto& live = membership_.live();
  const auto others = std::count_if(live.begin(), live.end(), [&](const auto& entry) {
    return entry.second.member.role == Role::kWorker && entry.first.name != exited.name;
  });
  const Role role = RoleOfName(exited.name).value_or(Role::kWorker);
  const bool lacks_members =
      role == Role::kServer ||
      (role == Role::kWorker && others < (begins ? journal_.spec.runtime.workers_min : 1));
  const bool is_needed = role == Role::kFollower || (lacks_members && (begins || !HasFollower()));
  if (is_needed) EndUnmeasured(absl::StrCat(exited.name, " ended: ", exited.cause));
  return true;
}

}  // namespace muster::coordinator
