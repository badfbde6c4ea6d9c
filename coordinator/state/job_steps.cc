// A started job's records, commands and checkpoints, and how it comes to its end (docs/protocol.md
// sections 2, 3, 7 and 8).
#include <algorithm>
#include <chrono>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "coordinator/state/job_run.h"
#include "coordinator/state/measures_to_save.h"
#include "coordinator/state/plan.h"
#include "lib/base/exit_codes.h"
#include "lib/base/plural.h"
#include "lib/domain/grid.h"
#include "lib/domain/samples.h"
#include "lib/domain/validation.h"

namespace muster::coordinator {
namespace {

std::string WhatIsDone(int64_t steps, const StepTally& tally) {
  const int64_t skipped = tally.skipped;
  const bool is_one = steps == 1;
  std::string done =
      is_one ? "its only step is done" : absl::StrCat("all ", steps, " steps are done");
  if (skipped > 0)
    absl::StrAppend(&done, "; ", is_one ? "it" : absl::StrCat(skipped, " of them"),
                    " left the state as it was, because ", skipped == 1 ? "it was" : "they were",
                    " not finite");
  if (tally.left_out > 0)
    absl::StrAppend(&done, "; ", Plural(tally.left_out, "time"),
                    " a sample that cannot be read was left out, as the ledger tells");
  return done;
}

}  // namespace

int64_t JobRun::TotalSteps() const {
  return journal_.environment ? muster::TotalSteps(journal_.spec.training, SampleCount()) : 0;
}

Step JobRun::EndStep() const {
  const Step end(TotalSteps());
  const JobEnding& ending = journal_.ending;
  return std::min({end, ending.stop_at.value_or(end), ending.enough_at.value_or(end)});
}

// Nothing of the others counts: no part of the fingerprint and no command. Their sender keeps them
// until another's record of the step is in the ledger.
std::vector<StepRecord> JobRun::Taken(const MemberId& member, const Records& told,
                                      LineageNumber current) {
  std::vector<StepRecord> taken;
  Step recorded = ledger_.recorded();  // with those of `taken`
  for (const StepRecord& record : told.records) {
    if (record.lineage != current) continue;
    if (const auto fault =
            FaultOf(record, journal_, stream_.known(), recorded, FactBroughtBy(record))) {
      SayUntaken(member, *fault);
      continue;
    }
    if (record.step == recorded && !record.without_weight) recorded = recorded + 1;
    taken.push_back(record);
  }
  return taken;
}

void JobRun::SayUntaken(const MemberId& member, const RecordFault& fault) {
  const std::string text = absl::StrCat("a record by ", member.name, " is not taken: ", fault.why);
  for (const std::string& said : untaken_records_.Tell({member.name, true, fault.kind, text}, now_))
    Say("process", said);
}

void JobRun::From(const MemberId& member, const Records& told) {
  if (journal_.lineages.empty()) return;
  const LineageNumber current = journal_.lineages.back().number;
  const std::vector<StepRecord> taken = Taken(member, told, current);
  DoAll(ledger_.Add(member.name, taken, journal_.view));
  for (const StepRecord& record : taken) {
    NoteFirstStep(member, record);
    NoteCommands(record);
    NoteNotFinite(record);
    NoteMeasures(record);
    NoteLeftOut(record);
  }
  if (journal_.tally != ledger_.tally()) Persist();
  TellReaderOfRoom();
  Do(ToMember{member, AckRecords{leadership_.term, current, ledger_.recorded()}});
  TryCommit();
  EndWhenDone();
}

void JobRun::SaveMeasures() {
  DoAll(MeasuresToSave(journal_, checkpoints_.committed(), ledger_.recent()));
}

// ---- commands

// A command is obeyed once a record shows it. Only members that had the result of chunk 0 report
// commands.
void JobRun::NoteCommands(const StepRecord& record) {
  for (const JobCommand& command : record.commands) {
    if (command_ && command.id == command_->id) command_.reset();
    if (command.kind == JobCommandKind::kEnough && !journal_.ending.enough_at) {
      journal_.ending.enough_at = record.step + 1;
      Persist();
    }
    if (command.kind != JobCommandKind::kStop || journal_.ending.stop_at) continue;
    journal_.ending.stop_at = record.step + 1;
    Persist();
  }
}

// ---- what is measured

// Each step is told by several members, and once more after a rewind.
void JobRun::NoteMeasures(const StepRecord& record) {
  if (record.measures.empty()) return;
  if (last_measured_ && std::pair(record.lineage, record.step) <= *last_measured_) return;
  last_measured_.emplace(record.lineage, record.step);
  SaveMeasures();
  SayMeasured(record.step - (DelayOf(journal_.spec.training.validation) - 1), record.measures);
}

void JobRun::SayMeasured(Step state, const std::vector<Measure>& measures) {
  std::map<std::string, std::string> fields = {{"step", absl::StrCat(state.value())}};
  std::vector<std::string> texts;
  for (const MetricValue& measured : ValuesOf(MetricsIn(journal_.environment->tensors), measures)) {
    const std::string value = measured.value ? absl::StrFormat("%.6g", *measured.value) : "nan";
    texts.push_back(absl::StrCat(measured.metric,
                                 measured.value ? absl::StrCat(" ", value) : " is not finite"));
    fields[absl::StrCat("validation.", measured.metric)] = value;
  }
  Say("validation",
      absl::StrCat("validation at step ", state.value(), ": ", absl::StrJoin(texts, ", ")), fields);
}

// ---- samples that cannot be read

// "step 7: samples 17, 4 cannot be read and are left out". Bad ones come again in each epoch, so
// not all of a long job's are told: the ledger has them.
void JobRun::NoteLeftOut(const StepRecord& record) {
  constexpr int64_t kMostTold = 100;  // steps of a start
  constexpr size_t kMostShown = 32;   // samples of a step
  if (record.left_out.empty() || left_out_told_ > kMostTold) return;
  const std::pair of{record.lineage, record.step};
  if (last_left_out_ && of <= *last_left_out_) return;
  last_left_out_ = of;
  const std::string step = absl::StrCat("step ", record.step.value(), ": ");
  if (++left_out_told_ > kMostTold)
    return Say("state", absl::StrCat(step,
                                     "more samples cannot be read and are left out; "
                                     "of later ones only the ledger tells"));
  const EpochOrder order(journal_.spec.training, record.samples.epoch,
                         journal_.environment->samples);
  const size_t shown = std::min(record.left_out.size(), kMostShown);
  std::vector<uint64_t> ids;
  for (size_t i = 0; i < shown; ++i)
    ids.push_back(order.At(record.samples.first + record.left_out[i]));
  const size_t more = record.left_out.size() - shown;
  Say("state",
      absl::StrCat(step, record.left_out.size() == 1 ? "sample " : "samples ",
                   absl::StrJoin(ids, ", "), more > 0 ? absl::StrCat(" and ", more, " more") : "",
                   record.left_out.size() == 1 ? " cannot be read and is left out"
                                               : " cannot be read and are left out"));
}

// ---- steps that are not finite

// Members halt after it by themselves, as after a stop.
void JobRun::NoteNotFinite(const StepRecord& record) {
  if (!record.skipped || journal_.spec.training.on_nan != OnNan::kStop) return;
  const Step at = record.step + 1;
  if (journal_.ending.stop_at && *journal_.ending.stop_at <= at) return;
  journal_.ending.stop_at = at;
  Persist();
}

void JobRun::From(const MemberId& member, const LanesNotFinite& found) {
  if (journal_.lineages.empty() || found.lineage != journal_.lineages.back().number) return;
  const int32_t lanes = journal_.spec.training.lanes;
  if (!found.lanes.empty() && found.lanes.back().value() >= lanes) return;
  for (const LaneId lane : ledger_.NoteLanes(found.step, found.lanes))
    Say("state", absl::StrCat("step ", found.step.value(), ": ", SamplesOf(found.step, lane),
                              " is not finite, as ", member.name, " finds"));
  EndWhenDone();
}

// "lane 3 (samples 17, 4, 90)"
std::string JobRun::SamplesOf(Step step, LaneId lane) const {
  constexpr size_t kMostShown = 32;
  const std::string text = absl::StrCat("lane ", lane.value());
  if (!journal_.environment) return text;
  const TrainingSpec& training = journal_.spec.training;
  const uint64_t count = SampleCount();
  SampleRange range = LaneSamples(training, count, step, lane);
  const uint64_t more = range.count - std::min<uint64_t>(range.count, kMostShown);
  range.count -= more;
  const std::vector<uint64_t> samples = SampleIds(training, count, range);
  return absl::StrCat(text, samples.size() == 1 ? " (sample " : " (samples ",
                      absl::StrJoin(samples, ", "),
                      more > 0 ? absl::StrCat(" and ", more, " more") : "", ")");
}

std::string JobRun::WhyNotFinite(Step end) const {
  if (journal_.spec.training.on_nan != OnNan::kStop || end == Step(0)) return "";
  const Step last = end - 1;
  if (ledger_.WasSkipped(last) && !StopsWhereItBegan(end)) {
    const auto name = [&](std::string* out, LaneId lane) {
      absl::StrAppend(out, SamplesOf(last, lane));
    };
    const std::vector<LaneId> lanes = ledger_.LanesNotFinite(last);
    const std::string which =
        lanes.empty() ? "no lane of it was named, so each may be finite by itself, and their sum "
                        "too large for a 32-bit float"
                      : absl::StrJoin(lanes, ", ", name);
    return absl::StrCat("step ", last.value(), " is not finite: ", which,
                        "; nothing of it was applied; ", NewestFinite());
  }
  const bool is_end = end == Step(TotalSteps()) || end == journal_.ending.enough_at;
  return is_end && SavesItsEnd() ? StateNotFinite() : "";
}

// "validation: loss was no better in 5 measures, so the job is done after 300 of 1000 steps"
std::string JobRun::WhyEnough() const {
  const ValidationSpec& validation = journal_.spec.training.validation;
  return absl::StrCat("validation: ", validation.metric, " was no better in ",
                      Plural(validation.patience, "measure"), ", so the job is done after ",
                      EndStep().value(), " of ", TotalSteps(), " steps");
}

std::string JobRun::NewestFinite() const {
  const std::vector<Manifest>& all = checkpoints_.committed();
  const auto finite =
      std::find_if(all.rbegin(), all.rend(), [](const Manifest& m) { return IsFinite(m); });
  return finite == all.rend()
             ? "no checkpoint is finite"
             : absl::StrCat("the newest finite checkpoint is that of step ", finite->step.value());
}

std::string JobRun::StateNotFinite() const {
  const std::vector<Manifest>& all = checkpoints_.committed();
  if (all.empty() || IsFinite(all.back())) return "";
  return absl::StrCat("the state after ", Plural(all.back().step.value(), "step"),
                      " is not finite; ", NewestFinite());
}

// Commands are issued again after every view, until a record shows them.
void JobRun::GiveCommands() {
  if (!journal_.view || change_ || journal_.view->number != journal_.number) return;
  const bool stop =
      journal_.ending.stop_asked && !journal_.ending.stop_at && !journal_.ending.enough_at;
  if (stop && (!command_ || command_->kind != JobCommandKind::kStop)) {
    command_ = JobCommand{journal_.next_command++, JobCommandKind::kStop};
    Persist();
  }
  if (!command_) return;
  const View& view = *journal_.view;
  const MemberId& owner = view.members[static_cast<size_t>(view.owner_of[0])].id;
  Do(ToMember{owner, GiveCommand{leadership_.term, view.number, *command_}});
}

void JobRun::CheckpointByTime() {
  const double every =
      journal_.spec.runtime.checkpoint.every_seconds * static_cast<double>(checkpoints_.spacing());
  // None that would wait for a measure.
  if (LacksMeasure(ledger_.recorded() + 1)) return;
  if (every <= 0 || command_ || journal_.phase != JobPhase::kRunning ||
      Seconds(now_ - last_checkpoint_) < every)
    return;
  last_checkpoint_ = now_;
  command_ = JobCommand{journal_.next_command++, JobCommandKind::kCheckpoint};
  Persist();
  GiveCommands();
}

// ---- checkpoints

void JobRun::From(const MemberId& member, const SegmentWritten& written) {
  const bool current =
      !journal_.lineages.empty() && written.lineage == journal_.lineages.back().number;
  if (!current || !checkpoints_.Offer(member, written)) return Acknowledge({{member, written.id}});
  if (IsSaving(written.step)) to_be_saved_->lacks_parts_since.reset();
  TryCommit();
}

void JobRun::From(const MemberId& member, const SegmentFailed& failed) {
  if (journal_.lineages.empty() || failed.lineage != journal_.lineages.back().number) return;
  // Members write their parts again at the beginning of a view. If those of the view before are
  // being committed, this round must stay: else another one of that step would be committed beside
  // it.
  if (checkpoints_.HasAllOf(failed.lineage, failed.step)) return;
  if (MeasuredPartFailed(member, failed)) return;
  Say("checkpoint",
      absl::StrCat("checkpoint of step ", failed.step.value(), " was given up: ", member.name, ": ",
                   failed.reason),
      {{"step", absl::StrCat(failed.step.value())}, {"saves", "false"}});
  const bool last = failed.step == EndStep();  // which is written again
  Acknowledge(last ? checkpoints_.Drop(failed.step)
                   : checkpoints_.GiveUp(failed.step, failed.disk_is_slow));
  if (last) LastFailed(/*write_again=*/true, failed.reason);
}

void JobRun::Acknowledge(const std::vector<SegmentToAcknowledge>& segments) {
  for (const SegmentToAcknowledge& segment : segments)
    Do(ToMember{segment.writer, AckSegments{leadership_.term, {segment.id}}});
}

void JobRun::TryCommit() {
  const absl::StatusOr<const Layout*> layout = LayoutNow();
  if (!layout.ok()) return;
  const int32_t slots = SlotCount(journal_.spec.training);
  const auto parts =
      static_cast<size_t>((*layout)->chunk_count() + slots * (*layout)->parameter_chunk_count());
  const bool keeps_best = BestRuleOf(journal_.spec).wanted();
  const int64_t epochs = StepsOfEpochs(journal_.spec.runtime.checkpoint.every_epochs);
  const auto wanted = [&](Step step) {
    return (epochs > 0 && step.value() % epochs == 0) || IsToBeMeasured(step) ||
           (keeps_best &&
            IsMeasuredIn(journal_.spec.training, journal_.environment->samples, step));
  };
  const auto held = [&](Step step) { return LacksMeasure(step).has_value(); };
  std::optional<Manifest> manifest = checkpoints_.Begin(ledger_.recorded(), parts, wanted, held);
  if (HasFollower()) Acknowledge(checkpoints_.KeepNewest(parts, held, wanted));
  if (!manifest) return;
  manifest->job = journal_.id;
  manifest->lineage = journal_.lineages.back().number;
  manifest->tensors = journal_.environment->tensors;
  manifest->chunk_bytes = ChunkBytes(journal_.spec.training);
  manifest->slots = slots;
  const StepTally tally = ledger_.TallyBefore(manifest->step);
  manifest->skipped = tally.skipped;
  manifest->left_out = tally.left_out;
  manifest->enough = manifest->step == journal_.ending.enough_at;
  if (const auto pending =
          OutstandingIn(journal_.spec.training, journal_.environment->samples, manifest->step))
    if (const MeasureSums* fact = FactOf(*pending)) manifest->pending = {*pending, *fact};
  if (const auto fingerprint = ledger_.FingerprintOf(manifest->step))
    manifest->fingerprint = ToHex(*fingerprint);
  const bool replaces = checkpoints_.IsPassedOver(manifest->lineage, manifest->step);
  Do(CommitManifest{*std::move(manifest), replaces});
}

int64_t JobRun::StepsOfEpochs(int64_t epochs) const {
  return muster::StepsOfEpochs(journal_.spec.training, journal_.environment->samples, epochs);
}

void JobRun::On(const ManifestCommitted& committed) {
  const Manifest& m = committed.manifest;
  // The job rewound while this was being committed. A later pruning removes it.
  if (journal_.lineages.empty() || m.lineage != journal_.lineages.back().number) return;
  // What is to be measured stays until it is. And the last state, written again after it was
  // measured, may be the best one: the others stay until it is known to be readable.
  const bool is_measured_end = m.step == EndStep() && MeasuresItsEnd() && FactOf(m.step) != nullptr;
  const bool may_prune = !is_measured_end && !IsToBeMeasured(m.step) && ToMeasure() == nullptr;
  const std::vector<SegmentToAcknowledge> to_acknowledge =
      checkpoints_.Commit(m, journal_.lineages, may_prune ? KeepNow() : KeepRule(INT32_MAX));
  SaveMeasures();
  if (may_prune) PruneCheckpoints();
  if (IsSaving(m.step)) to_be_saved_.reset();
  if (HasFollower()) AskToMeasure(/*again=*/false);
  last_checkpoint_ = now_;
  if (m.step == EndStep()) last_.Arrived();
  Say("checkpoint", absl::StrCat("checkpoint of step ", m.step.value(), " is complete"),
      {{"step", absl::StrCat(m.step.value())}, {"saves", "true"}});
  Acknowledge(to_acknowledge);
  TryCommit();
  EndWhenDone();
}

void JobRun::On(const ManifestFailed& failed) {
  Say("checkpoint",
      absl::StrCat("checkpoint of step ", failed.step.value(),
                   " could not be committed: ", failed.reason),
      {{"step", absl::StrCat(failed.step.value())}, {"saves", "false"}});
  if (!checkpoints_.HasRound(failed.step) || failed.lineage != journal_.lineages.back().number)
    return;
  if (failed.step != EndStep() && IsToBeMeasured(failed.step)) {
    checkpoints_.Postpone(failed.step);
    return MeasuredCommitFailed(failed);
  }
  if (failed.step != EndStep()) {
    Acknowledge(checkpoints_.Drop(failed.step));
    return TryCommit();
  }
  checkpoints_.Postpone(failed.step);
  LastFailed(/*write_again=*/false, failed.reason);
}

// ---- the last checkpoint, without which a job does not end

bool JobRun::OnlyTheLastCheckpointIsMissing() const {
  const Step end = EndStep();
  // If the view does not fit, the next view writes the checkpoint anyway.
  return journal_.view && journal_.environment && !change_ && !digesting_ && !finishes_since_ &&
         SavesItsEnd() && end > Step(0) && ledger_.recorded() >= end && ViewStillFits();
}

void JobRun::LastFailed(bool write_again, const std::string& what) {
  why_last_failed_ = what;
  const bool is_tried_again = last_.Fail(write_again, now_);
  if (StopsWithoutLast()) return EndWithoutLast();
  if (is_tried_again) return;
  End(JobPhase::kFailed,
      absl::StrCat("the last checkpoint failed ", Plural(last_.failures(), "time"), ": ", what),
      kExitFailed);
}

// A person who stops a job waits for its end, and wants to have it sooner than whoever waits for
// what the job learns. What is stopped so that others have its place goes by their patience.
bool JobRun::StopsWithoutLast() const {
  const JobEnding& ending = journal_.ending;
  return ending.stop_asked && !ending.gives_way && !ending.is_late &&
         last_.failures() > leadership_.settings.retries_of_stop;
}

void JobRun::EndWithoutLast() {
  const std::optional<Manifest> newest = checkpoints_.Usable(journal_.lineages, std::nullopt);
  End(JobPhase::kStopped,
      absl::StrCat("stopped without the checkpoint of step ", EndStep().value(), ", which failed ",
                   Plural(last_.failures(), "time"), ": ", why_last_failed_, "; it goes on from ",
                   newest ? absl::StrCat("that of step ", newest->step.value()) : "its beginning"),
      kExitStopped);
}

void JobRun::RetryLast() {
  if (!OnlyTheLastCheckpointIsMissing() || LacksMeasure(EndStep()) || AwaitsLastMeasure())
    return last_.WaitsNoMore();
  const Time since = last_.WaitsSince(now_);
  if (checkpoints_.committing()) return;
  if (!last_.waits_for_retry()) {
    // The coordinator may have crashed after a member reported the failure, so we also time out.
    if (now_ - since > WithTimeForState(leadership_.settings.checkpoint_patience))
      LastFailed(/*write_again=*/true, "its parts did not come");
    return;
  }
  // It may have failed as often before it was stopped.
  if (StopsWithoutLast()) return EndWithoutLast();
  if (!last_.RetryIsDue(now_)) return;
  checkpoints_.TryAgain();
  TryCommit();
  // Members write their checkpoint parts at the beginning of a view.
  if (!checkpoints_.committing() && last_.MustBeWritten())
    Form("the last checkpoint is written again", false);
}

// ---- the end

// The state after the last of all steps need not be saved; that of a job which is stopped before
// is.
bool JobRun::SavesItsEnd() const {
  return journal_.spec.runtime.checkpoint.at_end || EndStep() < Step(TotalSteps());
}

void JobRun::EndWhenDone() {
  if (finishes_since_) return Finish();
  if (!journal_.view || journal_.lineages.empty() || digesting_) return;
  // It is to go on from somewhere else than its end.
  if (journal_.resumes && journal_.spec.runtime.resume.kind != ResumeKind::kLatest) return;
  const Step end = EndStep();
  if (ledger_.recorded() < end) return;
  if (!SavesItsEnd()) {
    // Of a job that starts again nobody holds the state any more.
    if (end > Step(0) && !journal_.resumes) Finish();
    return;
  }
  if (!checkpoints_.IsNewest(journal_.lineages.back().number, end)) return;
  if (AwaitsLastMeasure()) {
    const JobEnding& ending = journal_.ending;
    if (ending.stop_asked && !ending.gives_way && !ending.is_late)
      return EndUnmeasured("the job was stopped first");
    return AskToMeasure(/*again=*/false);
  }
  digesting_ = checkpoints_.committed().back();
  Do(ComputeDigest{journal_.id, journal_.start, *digesting_});
}

// The members still hold the state, and write it again. Should they be lost before that, the job
// goes back to the checkpoint before.
void JobRun::CannotReadBack(const Manifest& last, const std::string& why) {
  checkpoints_.PassOver(last);
  Say("checkpoint",
      absl::StrCat("the checkpoint of step ", last.step.value(), " cannot be read back: ", why));
  const bool is_last = last.lineage == journal_.lineages.back().number && last.step == EndStep();
  // Nobody writes it again.
  if (is_last && launch_failed_) return On(LaunchFailed(*launch_failed_));
  if (is_last && given_up_ && WhoHasNotJoined()) return FailWith(*given_up_);
  if (is_last) LastFailed(/*write_again=*/true, absl::StrCat("it cannot be read back: ", why));
}

// A digest asked for by an earlier start may still arrive.
void JobRun::On(const DigestDone& done) {
  if (!digesting_ || done.start != journal_.start) return;
  const Manifest last = *std::exchange(digesting_, std::nullopt);
  if (done.digest.empty()) return CannotReadBack(last, done.reason);
  journal_.ending.digest = done.digest;
  if (MeasuresItsEnd()) PruneCheckpoints();
  Finish();
}

// Workers look at the lanes of a skipped last step while others have done it already. What they
// find may be lost with them, so it is not waited for without end.
bool JobRun::AwaitsLanesOfLastStep() const {
  constexpr Duration kPatience = std::chrono::seconds(5);
  const Step last = EndStep() - 1;
  return ledger_.WasSkipped(last) && !StopsWhereItBegan(EndStep()) &&
         ledger_.LanesNotFinite(last).empty() && now_ - *finishes_since_ <= kPatience;
}

// All that the job needs is there: it waits for what is still to be told of it, and no loss of a
// member takes it back any more.
void JobRun::Finish() {
  if (!finishes_since_) {
    finishes_since_ = now_;
    change_.reset();
    next_view_.reset();
  }
  // From a checkpoint that is being committed the job can go on.
  if (AwaitsLanesOfLastStep() || checkpoints_.committing()) return;
  const Step end = EndStep();
  if (const std::string why = WhyNotFinite(end); !why.empty())
    return End(JobPhase::kFailed, why, kExitNotFinite);
  // Whoever let the job go on with what is not finite is told, too, where it was finite last.
  const std::string spoiled = StateNotFinite();
  const std::string& unmeasured = journal_.ending.unmeasured;
  const std::string more =
      absl::StrCat(spoiled.empty() ? "" : "; ", spoiled,
                   unmeasured.empty() ? "" : "; the last state was not measured: ", unmeasured);
  if (end == journal_.ending.enough_at)
    return End(JobPhase::kDone, absl::StrCat(WhyEnough(), more), kExitDone);
  const bool is_cut_short =
      journal_.ending.stop_at && *journal_.ending.stop_at < Step(TotalSteps());
  if (is_cut_short && journal_.ending.is_late)
    return End(
        JobPhase::kFailed,
        absl::StrCat(WhyItIsLate(), "; it was stopped after the checkpoint of step ", end.value(),
                     ", and goes on when it is submitted again with a later ", "deadline", more),
        kExitFailed);
  if (is_cut_short)
    return End(
        JobPhase::kStopped,
        absl::StrCat("stopped after the checkpoint of step ", end.value(), "; it can go on", more),
        kExitStopped);
  End(JobPhase::kDone, absl::StrCat(WhatIsDone(end.value(), ledger_.tally()), more), kExitDone);
}

}  // namespace muster::coordinator
