#include "coordinator/state/checkpoint_rounds.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "coordinator/state/plan.h"

namespace muster::coordinator {
namespace {

// More than a member can have under way: it writes one and holds one copy more.
constexpr size_t kMostGivenUp = 1000;

constexpr int64_t kMostSpacing = 64;

// Each chunk is taken from one segment.
std::vector<Segment> WithoutRepetition(
    const std::vector<std::pair<MemberId, SegmentWritten>>& written) {
  std::vector<Segment> segments;
  std::set<std::pair<int32_t, ChunkId>> taken;
  for (const auto& [writer, told] : written) {
    Segment segment = told.segment;
    std::erase_if(segment.entries, [&](const SegmentEntry& entry) {
      return !taken.insert({entry.slot, entry.chunk}).second;
    });
    if (!segment.entries.empty()) segments.push_back(std::move(segment));
  }
  return segments;
}

}  // namespace

bool CheckpointRounds::Offer(const MemberId& writer, const SegmentWritten& written) {
  if (!committed_.empty() && committed_.back().lineage == written.lineage &&
      committed_.back().step >= written.step && !IsPassedOver(written.lineage, written.step))
    return false;
  if (given_up_.count(written.step) > 0) return false;
  Round& round = rounds_[written.step];
  for (const auto& [who, known] : round.segments)
    if (known.segment.file == written.segment.file) return true;
  for (const SegmentEntry& e : written.segment.entries) round.covered.insert({e.slot, e.chunk});
  round.segments.emplace_back(writer, written);
  return true;
}

// After a long outage only the newest complete round is committed; older ones that nobody wants are
// dropped.
std::optional<Manifest> CheckpointRounds::Begin(Step recorded, size_t parts,
                                                const std::function<bool(Step)>& wanted,
                                                const std::function<bool(Step)>& held) {
  if (committing()) return std::nullopt;
  auto chosen = rounds_.rend();
  for (auto it = rounds_.rbegin(); it != rounds_.rend(); ++it) {
    const Round& round = it->second;
    const bool waits = round.postponed || recorded < it->first || held(it->first);
    if (waits || round.covered.size() < parts) continue;
    if (chosen == rounds_.rend() || wanted(it->first)) chosen = it;
  }
  if (chosen == rounds_.rend()) return std::nullopt;
  chosen->second.committing = true;
  Manifest manifest;
  manifest.step = chosen->first;
  manifest.segments = WithoutRepetition(chosen->second.segments);
  return manifest;
}

std::vector<SegmentToAcknowledge> CheckpointRounds::KeepNewest(
    size_t parts, const std::function<bool(Step)>& held, const std::function<bool(Step)>& wanted) {
  std::vector<Step> older;
  bool has_newer = false;
  for (auto it = rounds_.rbegin(); it != rounds_.rend(); ++it) {
    if (!held(it->first)) continue;
    if (has_newer && !wanted(it->first)) older.push_back(it->first);
    has_newer |= it->second.covered.size() >= parts;
  }
  std::vector<SegmentToAcknowledge> to_acknowledge;
  for (const Step step : older) {
    const std::vector<SegmentToAcknowledge> of_round = Drop(step);
    to_acknowledge.insert(to_acknowledge.end(), of_round.begin(), of_round.end());
  }
  return to_acknowledge;
}

bool CheckpointRounds::HasPart(Step step, int32_t slot, ChunkId chunk) const {
  const auto round = rounds_.find(step);
  return round != rounds_.end() && round->second.covered.contains({slot, chunk});
}

bool CheckpointRounds::committing() const {
  return std::any_of(rounds_.begin(), rounds_.end(),
                     [](const auto& entry) { return entry.second.committing; });
}

bool CheckpointRounds::HasAllOf(LineageNumber lineage, Step step) const {
  const auto round = rounds_.find(step);
  return IsNewest(lineage, step) || (round != rounds_.end() && round->second.committing);
}

std::vector<SegmentToAcknowledge> CheckpointRounds::Commit(const Manifest& manifest,
                                                           const std::vector<Lineage>& lineages,
                                                           const KeepRule& keep) {
  std::erase_if(committed_, [&](const Manifest& m) {
    const bool is_replaced = m.lineage == manifest.lineage && m.step == manifest.step;
    return is_replaced || !OnAncestry(lineages, m.lineage, m.step);
  });
  committed_.push_back(manifest);
  spacing_ = 1;
  damaged_.erase({manifest.lineage, manifest.step});
  Prune(keep);
  std::vector<SegmentToAcknowledge> to_acknowledge;
  while (!rounds_.empty() && rounds_.begin()->first <= manifest.step) {
    const std::vector<SegmentToAcknowledge> of_round = Drop(rounds_.begin()->first);
    to_acknowledge.insert(to_acknowledge.end(), of_round.begin(), of_round.end());
  }
  return to_acknowledge;
}

void CheckpointRounds::Prune(const KeepRule& keep) {
  const std::vector<bool> kept = Kept(committed_, keep);
  std::erase_if(committed_, [&, i = size_t{0}](const Manifest&) mutable { return !kept[i++]; });
}

void CheckpointRounds::Postpone(Step step) {
  const auto it = rounds_.find(step);
  if (it == rounds_.end()) return;
  it->second.committing = false;
  it->second.postponed = true;
}

void CheckpointRounds::TryAgain() {
  for (auto& [step, round] : rounds_) round.postponed = false;
}

std::vector<SegmentToAcknowledge> CheckpointRounds::Drop(Step step) {
  const auto it = rounds_.find(step);
  if (it == rounds_.end()) return {};
  std::vector<SegmentToAcknowledge> to_acknowledge;
  for (const auto& [writer, written] : it->second.segments)
    to_acknowledge.push_back({writer, written.id});
  rounds_.erase(it);
  return to_acknowledge;
}

std::vector<SegmentToAcknowledge> CheckpointRounds::GiveUp(Step step, bool disk_is_slow) {
  bool& was_slow = given_up_[step];
  if (disk_is_slow && !std::exchange(was_slow, true))
    spacing_ = std::min(2 * spacing_, kMostSpacing);
  if (given_up_.size() > kMostGivenUp) given_up_.erase(given_up_.begin());
  return Drop(step);
}

std::vector<SegmentToAcknowledge> CheckpointRounds::DropAll() {
  given_up_.clear();
  std::vector<SegmentToAcknowledge> to_acknowledge;
  while (!rounds_.empty()) {
    const std::vector<SegmentToAcknowledge> of_round = Drop(rounds_.begin()->first);
    to_acknowledge.insert(to_acknowledge.end(), of_round.begin(), of_round.end());
  }
  return to_acknowledge;
}

bool CheckpointRounds::IsNewest(LineageNumber lineage, Step step) const {
  return !committed_.empty() && committed_.back().lineage == lineage &&
         committed_.back().step == step && !IsPassedOver(lineage, step);
}

void CheckpointRounds::PassOver(const Manifest& damaged) {
  damaged_.insert({damaged.lineage, damaged.step});
}

std::optional<Manifest> CheckpointRounds::Usable(const std::vector<Lineage>& lineages,
                                                 std::optional<Step> only) const {
  for (auto it = committed_.rbegin(); it != committed_.rend(); ++it) {
    if (IsPassedOver(it->lineage, it->step)) continue;
    if (!OnAncestry(lineages, it->lineage, it->step)) continue;
    if (only && it->step != *only) continue;
    return *it;
  }
  return std::nullopt;
}

bool LastCheckpoint::Fail(bool write_again, Time now) {
  write_again_ = write_again_ || write_again;
  if (retry_at_) return true;  // a retry is scheduled: another member reported the same failure
  if (++failures_ > patience_.retries) return false;
  Duration pause = patience_.first_retry;
  for (int i = 1; i < failures_ && pause < patience_.longest_retry; ++i) pause *= 2;
  retry_at_ = now + std::min(pause, patience_.longest_retry);
  return true;
}

bool LastCheckpoint::RetryIsDue(Time now) {
  if (!retry_at_ || now < *retry_at_) return false;
  retry_at_.reset();
  return true;
}

bool LastCheckpoint::MustBeWritten() {
  if (!std::exchange(write_again_, false)) return false;
  waits_since_.reset();
  return true;
}

Time LastCheckpoint::WaitsSince(Time now) {
  if (!waits_since_) waits_since_ = now;
  return *waits_since_;
}

}  // namespace muster::coordinator
