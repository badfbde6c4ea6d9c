#include "lib/member/state/outbox.h"

#include <utility>

namespace muster {
namespace {

// A frame of records stays well below the largest header.
constexpr size_t kRecordsFrameBytes = 256 << 10;

// An upper bound of what a record takes in a frame, and of what the coordinator makes of it when
// the lane holders are not told.
size_t BytesOf(const StepRecord& record) {
  constexpr size_t kFixed = 160, kCommand = 16, kName = 64, kMeasure = 24, kPosition = 4;
  return kFixed + record.lane_holders.size() * kName + record.commands.size() * kCommand +
         record.measures.size() * kMeasure + record.left_out.size() * kPosition;
}

// As the coordinator is told it.
StepRecord Short(StepRecord record, ViewNumber sealed) {
  if (record.view == sealed) record.lane_holders = {};
  return record;
}

}  // namespace

std::vector<Action> Outbox::Add(StepRecord record, bool awaits_fingerprint, ViewNumber sealed) {
  if (!awaits_fingerprint) return Send(std::move(record), sealed);
  const Step next = record.step + 1;
  unfinished_[next] = std::move(record);
  return {};
}

std::vector<Action> Outbox::AddFingerprint(Step of_state, FingerprintPart fingerprint,
                                           ViewNumber sealed) {
  auto waiting = unfinished_.extract(of_state);
  if (waiting.empty()) return {};
  waiting.mapped().fingerprint = fingerprint;
  return Send(std::move(waiting.mapped()), sealed);
}

// Servers keep records too: all workers may be gone when the coordinator comes back.
std::vector<Action> Outbox::Send(StepRecord record, ViewNumber sealed) {
  std::vector<Action> actions;
  if (role_ == Role::kWorker) actions.emplace_back(Completed{record});
  records_.push_back(record);
  actions.emplace_back(TellCoordinator{Records{{Short(std::move(record), sealed)}}});
  return actions;
}

Action Outbox::Add(SegmentWritten written) {
  written.id = next_segment_++;
  segments_[written.id] = written;
  return TellCoordinator{std::move(written)};
}

Action Outbox::Add(LanesNotFinite found) {
  not_finite_ = found;
  return TellCoordinator{std::move(found)};
}

std::vector<Action> Outbox::TellAgain(ViewNumber sealed) const {
  std::vector<Action> actions = TellRecordsAgain(sealed);
  for (const auto& [id, segment] : segments_) actions.emplace_back(TellCoordinator{segment});
  if (not_finite_) actions.emplace_back(TellCoordinator{*not_finite_});
  return actions;
}

std::vector<Action> Outbox::TellRecordsAgain(ViewNumber sealed) const {
  std::vector<Action> actions;
  Records batch;
  size_t bytes = 0;
  for (const StepRecord& kept : records_) {
    bytes += BytesOf(kept);
    if (bytes > kRecordsFrameBytes && !batch.records.empty()) {
      actions.emplace_back(TellCoordinator{std::exchange(batch, {})});
      bytes = BytesOf(kept);
    }
    batch.records.push_back(Short(kept, sealed));
  }
  if (!batch.records.empty()) actions.emplace_back(TellCoordinator{std::move(batch)});
  return actions;
}

void Outbox::Acknowledge(const AckRecords& ack) {
  const auto is_known = [&](const StepRecord& record) {
    return record.lineage < ack.lineage ||
           (record.lineage == ack.lineage && record.step < ack.below);
  };
  while (!records_.empty() && is_known(records_.front())) records_.pop_front();
  if (not_finite_ && not_finite_->lineage == ack.lineage && not_finite_->step + 1 < ack.below)
    not_finite_.reset();
  acknowledged_ = ack;
}

std::vector<SegmentWritten> Outbox::Acknowledge(const AckSegments& ack) {
  std::vector<SegmentWritten> acknowledged;
  for (const int64_t id : ack.ids)
    if (auto known = segments_.extract(id)) acknowledged.push_back(std::move(known.mapped()));
  return acknowledged;
}

void Outbox::KeepOnly(LineageNumber lineage) {
  if (not_finite_ && not_finite_->lineage != lineage) not_finite_.reset();
  std::erase_if(records_, [&](const StepRecord& r) { return r.lineage != lineage; });
  std::erase_if(unfinished_,
                [&](const auto& waiting) { return waiting.second.lineage != lineage; });
}

}  // namespace muster
