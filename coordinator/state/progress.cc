// Records, fingerprints, checkpoint rounds, commands, the end of a job (docs/protocol.md sections
// 2, 3, 7 and 8).
#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/state/coordinator.h"
#include "lib/domain/grid.h"

namespace muster::coordinator {
namespace {

// A loss that is not a number is equal to itself too.
bool SameBits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

}  // namespace

void Coordinator::From(const MemberId& member, const Records& records) {
  if (job()->lineages.empty()) return;
  std::vector<StepRecord> fresh;
  for (const StepRecord& record : records.records) {
    if (record.lineage != job()->lineages.back().number) continue;
    TakeRecord(member, record, fresh);
    TakeCommands(record);
  }
  while (recent_.records.count(recorded_) > 0) recorded_ = recorded_ + 1;
  if (!fresh.empty()) {
    std::vector<StepRecord> persisted = fresh;
    for (StepRecord& r : persisted) r.fingerprint.reset();
    Do(PersistRecords{current_, std::move(persisted)});
    for (const StepRecord& r : fresh) {
      const double mean = r.weight > 0 ? r.loss / static_cast<double>(r.weight) : 0;
      loss_value_ = mean;
      if (!std::isfinite(mean) && !std::exchange(told_not_finite_, true))
        Say("state",
            absl::StrCat("the loss of step ", r.step.value(), " is ", mean,
                         ": training has diverged; a lower learning rate or clip_norm helps"));
      Say("step", "",
          {{"step", absl::StrCat(r.step.value())},
           {"epoch", absl::StrCat(r.samples.epoch)},
           {"loss", absl::StrFormat("%.6g", mean)},
           {"samples", absl::StrCat(r.samples.count)},
           {"view", absl::StrCat(r.view.value())}});
    }
  }
  Do(ToMember{member, AckRecords{job()->lineages.back().number, recorded_}});
  recent_.Trim(recorded_);
  TryCommit();
  CheckFinished();
}

// Only the owner of chunk 0 and those who had its result know the commands of a step.
void Coordinator::TakeCommands(const StepRecord& record) {
  for (const JobCommand& command : record.commands) {
    if (command_ && command.id == command_->id) command_.reset();
    if (command.kind != JobCommandKind::kStop || job()->stop_at) continue;
    job()->stop_at = record.step + 1;
    Persist();
  }
}

void Coordinator::TakeRecord(const MemberId& member, const StepRecord& record,
                             std::vector<StepRecord>& fresh) {
  TakeFingerprint(member, record);
  const auto known = recent_.records.find(record.step);
  if (known != recent_.records.end() || record.step < recorded_) {
    if (known == recent_.records.end()) return;
    const StepRecord& first = known->second;
    if (first.weight != record.weight || !SameBits(first.loss, record.loss) ||
        !(first.samples == record.samples))
      Say("state",
          absl::StrCat("records of step ", record.step.value(), " disagree: ", member.name,
                       " reports loss ", record.loss, ", the first report was ", first.loss));
    return;
  }
  recent_.records[record.step] = record;
  fresh.push_back(record);
  const auto voided = recent_.voided_records.find(record.step);
  if (voided == recent_.voided_records.end()) return;
  const StepRecord& old = voided->second;
  if (job()->spec.training.order == SumOrder::kCanonical &&
      (!SameBits(old.loss, record.loss) || !(old.samples == record.samples)))
    Say("state", absl::StrCat("step ", record.step.value(), " was done again and differs: loss ",
                              record.loss, " instead of ", old.loss));
  recent_.voided_records.erase(voided);
}

void Coordinator::TakeFingerprint(const MemberId& member, const StepRecord& record) {
  if (!record.fingerprint) return;
  const Step state = record.step + 1;
  FingerprintPart value = *record.fingerprint;
  if (!value.whole) {
    if (!job()->view) return;
    auto& parts = parts_[state];
    parts[member.name] = value;
    const std::set<int32_t> owners(job()->view->owner_of.begin(), job()->view->owner_of.end());
    if (parts.size() < owners.size()) return;  // with fewer chunks than servers, some own nothing
    FingerprintPart sum;
    for (const auto& [name, part] : parts) {
      sum.hi += part.hi;
      sum.lo += part.lo;
    }
    value = sum;
    value.whole = true;
    parts_.erase(state);
  }
  const auto known = recent_.fingerprints.find(state);
  if (known != recent_.fingerprints.end()) {
    if (known->second != value)
      Say("state",
          absl::StrCat("fingerprints of step ", state.value(), " differ: ", member.name, " has ",
                       ToHex(value), ", the first report was ", ToHex(known->second)));
    return;
  }
  recent_.fingerprints[state] = value;
  const auto voided = recent_.voided_fingerprints.find(state);
  if (voided != recent_.voided_fingerprints.end()) {
    if (job()->spec.training.order == SumOrder::kCanonical && voided->second != value)
      Say("state",
          absl::StrCat("state ", state.value(), " was made again and differs: fingerprint ",
                       ToHex(value), " instead of ", ToHex(voided->second)));
    recent_.voided_fingerprints.erase(voided);
  }
  Do(PersistFingerprint{current_, record.lineage, state, value});
  Say("fingerprint", "", {{"step", absl::StrCat(state.value())}, {"value", ToHex(value)}});
}

// ---- commands

// Commands are issued again after every view, until a record shows them.
void Coordinator::GiveCommands() {
  if (!job()->view || forming_ || job()->view->number != job()->number) return;
  const bool stop = job()->stop_asked && !job()->stop_at;
  if (stop && (!command_ || command_->kind != JobCommandKind::kStop)) {
    command_ = JobCommand{job()->next_command++, JobCommandKind::kStop};
    Persist();
  }
  if (!command_) return;
  const View& view = *job()->view;
  const MemberId& owner = view.members[static_cast<size_t>(view.owner_of[0])].id;
  Do(ToMember{owner, GiveCommand{view.number, *command_}});
}

// ---- checkpoints

void Coordinator::From(const MemberId& member, const SegmentWritten& written) {
  const bool current = !job()->lineages.empty() && written.lineage == job()->lineages.back().number;
  const bool newer = manifests_.empty() || manifests_.back().lineage != written.lineage ||
                     manifests_.back().step < written.step;
  if (!current || !newer) return Do(ToMember{member, AckSegments{{written.id}}});
  OfferRound(member, written);
  TryCommit();
}

void Coordinator::OfferRound(const MemberId& member, const SegmentWritten& written) {
  Round& round = rounds_[written.step];
  for (const auto& [who, known] : round.segments)
    if (known.segment.file == written.segment.file) return;
  for (const SegmentEntry& e : written.segment.entries) round.covered[{e.slot, e.chunk}] = true;
  round.segments.emplace_back(member, written);
}

void Coordinator::From(const MemberId& member, const SegmentFailed& failed) {
  if (job()->lineages.empty() || failed.lineage != job()->lineages.back().number) return;
  Say("checkpoint", absl::StrCat("checkpoint of step ", failed.step.value(),
                                 " was given up: ", member.name, ": ", failed.reason));
  DropRound(failed.step);
  if (failed.step != End()) return;
  last_.rewrite = true;
  CheckpointFailed(failed.reason);
}

// One at a time and the newest that is complete: when a coordinator was down for long, older ones
// are not worth it, and manifests are committed in the order of their steps.
void Coordinator::TryCommit() {
  if (Committing()) return;
  const absl::StatusOr<const Layout*> layout = LayoutNow();
  if (!layout.ok()) return;
  const int32_t slots = SlotCount(job()->spec.training.optimizer.kind);
  const auto need =
      static_cast<size_t>((*layout)->chunk_count() + slots * (*layout)->parameter_chunk_count());
  for (auto it = rounds_.rbegin(); it != rounds_.rend(); ++it) {
    if (it->second.failed || recorded_ < it->first || it->second.covered.size() < need) continue;
    it->second.committing = true;
    return Do(CommitManifest{ManifestOf(it->first, it->second, slots)});
  }
}

Manifest Coordinator::ManifestOf(Step step, const Round& round, int32_t slots) const {
  Manifest manifest;
  manifest.job = current_;
  manifest.lineage = job()->lineages.back().number;
  manifest.step = step;
  manifest.tensors = job()->environment->tensors;
  manifest.chunk_bytes = ChunkBytes(job()->spec.training);
  manifest.slots = slots;
  std::set<std::pair<int32_t, ChunkId>> taken;
  for (const auto& [member, written] : round.segments) {
    Segment segment = written.segment;
    segment.entries.clear();
    for (const SegmentEntry& e : written.segment.entries)
      if (taken.insert({e.slot, e.chunk}).second) segment.entries.push_back(e);
    if (!segment.entries.empty()) manifest.segments.push_back(std::move(segment));
  }
  const auto fingerprint = recent_.fingerprints.find(step);
  if (fingerprint != recent_.fingerprints.end()) manifest.fingerprint = ToHex(fingerprint->second);
  return manifest;
}

void Coordinator::On(const ManifestCommitted& committed) {
  const Manifest& m = committed.manifest;
  if (job() == nullptr || m.job != current_) return;
  // Of a lineage that was left while it was committed: a later pruning removes it.
  if (m.lineage != job()->lineages.back().number) return;
  manifests_.push_back(m);
  const auto keep = static_cast<size_t>(std::max(1, job()->spec.runtime.checkpoint.keep));
  if (manifests_.size() > keep)
    manifests_.erase(manifests_.begin(), manifests_.end() - static_cast<std::ptrdiff_t>(keep));
  Do(PruneManifests{m, job()->lineages, job()->spec.runtime.checkpoint.keep});
  last_checkpoint_ = now_;
  if (m.step == End()) last_.retry_at.reset();
  Say("checkpoint", absl::StrCat("checkpoint of step ", m.step.value(), " is complete"),
      {{"step", absl::StrCat(m.step.value())}});
  DropRounds(m.step);
  TryCommit();
  CheckFinished();
}

// A newer checkpoint is there: what was collected for this one and older ones is acknowledged.
void Coordinator::DropRounds(Step upto) {
  while (!rounds_.empty() && rounds_.begin()->first <= upto) DropRound(rounds_.begin()->first);
}

// Its segments are of no use any more, so their writers need not tell of them again.
void Coordinator::DropRound(Step step) {
  const auto it = rounds_.find(step);
  if (it == rounds_.end()) return;
  for (const auto& [member, written] : it->second.segments)
    Do(ToMember{member, AckSegments{{written.id}}});
  rounds_.erase(it);
}

void Coordinator::On(const ManifestFailed& failed) {
  if (job() == nullptr || failed.job != current_) return;
  Say("checkpoint", absl::StrCat("checkpoint of step ", failed.step.value(),
                                 " could not be committed: ", failed.reason));
  const auto round = rounds_.find(failed.step);
  if (round == rounds_.end() || failed.lineage != job()->lineages.back().number) return;
  if (failed.step != End()) {
    DropRound(failed.step);
    return TryCommit();
  }
  round->second.committing = false;
  round->second.failed = true;
  CheckpointFailed(failed.reason);
}

// ---- the last checkpoint, without which a job does not end

bool Coordinator::EverythingDone() {
  return job()->view && job()->environment && recorded_ >= End() && End() > Step(0);
}

void Coordinator::CheckpointFailed(const std::string& what) {
  if (last_.retry_at) return;  // another member's part of the same
  if (++last_.failures > settings_.retries)
    return EndJob(JobPhase::kFailed,
                  absl::StrCat("the last checkpoint failed ", last_.failures, " times: ", what),
                  kExitFailed);
  Duration pause = settings_.first_retry;
  for (int i = 1; i < last_.failures && pause < settings_.longest_retry; ++i) pause *= 2;
  last_.retry_at = now_ + std::min(pause, settings_.longest_retry);
}

void Coordinator::RetryLast() {
  // A view that does not fit is followed by another anyway.
  if (forming_ || digesting_ || !EverythingDone() || !ViewStillFits())
    return last_.waits_since.reset();
  if (!last_.waits_since) last_.waits_since = now_;
  if (Committing()) return;
  if (!last_.retry_at) return FailWhenOverdue();
  if (now_ < *last_.retry_at) return;
  last_.retry_at.reset();
  for (auto& [step, round] : rounds_) round.failed = false;
  TryCommit();
  if (Committing() || !std::exchange(last_.rewrite, false)) return;
  last_.waits_since.reset();
  // Members write their checkpoint parts at the beginning of a view.
  Form("the last checkpoint is written again", false);
}

// A member's word that it failed may have been lost with the coordinator that heard it.
void Coordinator::FailWhenOverdue() {
  if (now_ - *last_.waits_since <= WithTimeForState(settings_.checkpoint_patience)) return;
  last_.rewrite = true;
  CheckpointFailed("its parts did not come");
}

bool Coordinator::Committing() const {
  return std::any_of(rounds_.begin(), rounds_.end(),
                     [](const auto& entry) { return entry.second.committing; });
}

// ---- the end

void Coordinator::CheckFinished() {
  if (job() == nullptr || !job()->view || job()->lineages.empty() || digesting_) return;
  const Step end = End();
  if (recorded_ < end || manifests_.empty() || manifests_.back().step != end ||
      manifests_.back().lineage != job()->lineages.back().number)
    return;
  digesting_ = true;
  Do(ComputeDigest{current_, manifests_.back()});
}

void Coordinator::On(const DigestDone& done) {
  if (job() == nullptr || done.job != current_) return;
  digesting_ = false;
  if (done.digest.empty())
    return EndJob(JobPhase::kFailed,
                  absl::StrCat("the final state cannot be read back: ", done.reason), kExitFailed);
  job()->digest = done.digest;
  const bool stopped = job()->stop_at && *job()->stop_at < Step(TotalSteps());
  if (stopped)
    return EndJob(
        JobPhase::kStopped,
        absl::StrCat("stopped after the checkpoint of step ", End().value(), "; it can go on"),
        kExitLater);
  EndJob(JobPhase::kDone, absl::StrCat("all ", End().value(), " steps are done"), kExitDone);
}

}  // namespace muster::coordinator
