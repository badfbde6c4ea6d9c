#include "coordinator/state/step_ledger.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/plural.h"

namespace muster::coordinator {
namespace {

// A loss that is not a number equals itself, whichever of these it is: sums of two of them may keep
// the bits of either.
bool SameBits(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

bool SameMeasures(const std::vector<Measure>& a, const std::vector<Measure>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Measure& x, const Measure& y) {
    return SameBits(x.sum, y.sum) && SameBits(x.weight, y.weight);
  });
}

std::string WithoutText(const StepRecord& record) {
  if (record.left_out.empty()) return "";
  return absl::StrCat(" without ", Plural(static_cast<int64_t>(record.left_out.size()), "sample"));
}

}  // namespace

StepLedger::StepLedger(std::string job, bool reproducible, Step recorded, StepTally tally,
                       RecentSteps recent)
    : job_(std::move(job)),
      reproducible_(reproducible),
      recorded_(recorded),
      tally_(tally),
      recent_(std::move(recent)) {}

std::vector<Action> StepLedger::Add(const std::string& member,
                                    const std::vector<StepRecord>& records,
                                    const std::optional<View>& view) {
  std::vector<Action> out;
  std::vector<StepRecord> fresh;
  for (const StepRecord& record : records) {
    AddFingerprint(member, record, view, out);
    if (!record.without_weight) AddRecord(member, record, view, fresh, out);
  }
  while (recent_.records.count(recorded_) > 0) recorded_ = recorded_ + 1;
  if (!fresh.empty()) {
    std::vector<StepRecord> persisted = fresh;
    for (StepRecord& record : persisted) record.fingerprint.reset();
    out.emplace_back(PersistRecords{job_, std::move(persisted)});
    for (const StepRecord& record : fresh) AnnounceStep(record, out);
  }
  recent_.Trim(recorded_);
  return out;
}

void StepLedger::AddRecord(const std::string& member, const StepRecord& record,
                           const std::optional<View>& view, std::vector<StepRecord>& fresh,
                           std::vector<Action>& out) {
  const auto known = recent_.records.find(record.step);
  if (known != recent_.records.end()) {
    const StepRecord& first = known->second;
    if (first.weight != record.weight || (reproducible_ && !SameBits(first.loss, record.loss)) ||
        first.samples != record.samples || first.skipped != record.skipped ||
        first.left_out != record.left_out ||
        (reproducible_ && !SameMeasures(first.measures, record.measures)))
      Say(out, absl::StrCat("records of step ", record.step.value(), " disagree: ", member,
                            " reports loss ", record.loss, WithoutText(record),
                            ", the first report was ", first.loss, WithoutText(first)));
    return;
  }
  if (record.step < recorded_) return;  // it is too old to be compared
  StepRecord full = record;
  if (full.lane_holders.empty() && view) full.lane_holders = view->LaneHoldersAt(record.step);
  recent_.Add(record);
  fresh.push_back(std::move(full));
  const auto voided = recent_.voided_records.find(record.step);
  if (voided == recent_.voided_records.end()) return;
  const StepRecord& old = voided->second;
  if (reproducible_ && (!SameBits(old.loss, record.loss) || old.samples != record.samples ||
                        old.skipped != record.skipped || old.left_out != record.left_out ||
                        !SameMeasures(old.measures, record.measures)))
    Say(out,
        absl::StrCat("step ", record.step.value(), " was done again and differs: loss ",
                     record.loss, WithoutText(record), " instead of ", old.loss, WithoutText(old)));
  recent_.voided_records.erase(voided);
}

void StepLedger::AnnounceStep(const StepRecord& record, std::vector<Action>& out) {
  loss_ = MeanLoss(record).value_or(0);
  Count(record, tally_);
  if (record.skipped) {
    Say(out, absl::StrCat("step ", record.step.value(), " is not finite (loss ", loss_,
                          "): nothing of it was applied"));
  } else if (!std::isfinite(loss_) && !std::exchange(told_not_finite_, true))
    Say(out, absl::StrCat("the loss of step ", record.step.value(), " is ", loss_,
                          ": training has diverged; a lower learning rate or clip_norm helps"));
  Announce step{job_,
                "step",
                "",
                {{"step", absl::StrCat(record.step.value())},
                 {"epoch", absl::StrCat(record.samples.epoch)},
                 {"loss", absl::StrFormat("%.6g", loss_)},
                 {"samples", absl::StrCat(record.samples.count)},
                 {"view", absl::StrCat(record.view.value())}}};
  if (record.norm) step.fields["gradient_norm"] = absl::StrFormat("%.6g", *record.norm);
  out.emplace_back(std::move(step));
}

// The fingerprint of the whole state. A server tells that of its part only, which counts once those
// of all owners are there.
std::optional<FingerprintPart> StepLedger::Whole(const std::string& member,
                                                 const StepRecord& record,
                                                 const std::optional<View>& view) {
  if (record.fingerprint->whole) return record.fingerprint;
  if (!view) return std::nullopt;
  const Step state = record.step + 1;
  auto& parts = parts_[state];
  parts[member] = *record.fingerprint;
  const std::set<int32_t> owners(view->owner_of.begin(), view->owner_of.end());
  if (parts.size() < owners.size()) {  // with fewer chunks than servers, some own nothing
    while (parts_.size() > kRecentSteps) parts_.erase(parts_.begin());
    return std::nullopt;
  }
  FingerprintPart sum;
  for (const auto& [name, part] : parts) {
    sum.hi += part.hi;
    sum.lo += part.lo;
  }
  sum.whole = true;
  parts_.erase(state);
  return sum;
}

void StepLedger::AddFingerprint(const std::string& member, const StepRecord& record,
                                const std::optional<View>& view, std::vector<Action>& out) {
  if (!record.fingerprint) return;
  const std::optional<FingerprintPart> value = Whole(member, record, view);
  if (!value) return;
  const Step state = record.step + 1;
  const auto [known, is_new] = recent_.fingerprints.try_emplace(state, *value);
  if (!is_new) {
    if (reproducible_ && known->second != *value)
      Say(out, absl::StrCat("fingerprints of step ", state.value(), " differ: ", member, " has ",
                            ToHex(*value), ", the first report was ", ToHex(known->second)));
    return;
  }
  const auto voided = recent_.voided_fingerprints.find(state);
  if (voided != recent_.voided_fingerprints.end()) {
    if (reproducible_ && voided->second != *value)
      Say(out, absl::StrCat("state ", state.value(), " was made again and differs: fingerprint ",
                            ToHex(*value), " instead of ", ToHex(voided->second)));
    recent_.voided_fingerprints.erase(voided);
  }
  out.emplace_back(PersistFingerprint{job_, record.lineage, state, *value});
  out.emplace_back(Announce{
      job_, "fingerprint", "", {{"step", absl::StrCat(state.value())}, {"value", ToHex(*value)}}});
}

std::vector<LaneId> StepLedger::NoteLanes(Step step, const std::vector<LaneId>& lanes) {
  std::set<LaneId>& known = not_finite_[step];
  std::vector<LaneId> fresh;
  for (LaneId lane : lanes)
    if (known.insert(lane).second) fresh.push_back(lane);
  while (not_finite_.size() > kRecentSteps) not_finite_.erase(not_finite_.begin());
  return fresh;
}

std::vector<LaneId> StepLedger::LanesNotFinite(Step step) const {
  const auto it = not_finite_.find(step);
  if (it == not_finite_.end()) return {};
  return {it->second.begin(), it->second.end()};
}

StepTally StepLedger::TallyBefore(Step state) const {
  StepTally later;
  for (auto at = recent_.records.lower_bound(state); at != recent_.records.end(); ++at)
    Count(at->second, later);
  return {tally_.skipped - later.skipped, tally_.left_out - later.left_out};
}

bool StepLedger::WasSkipped(Step step) const {
  const auto it = recent_.records.find(step);
  return it != recent_.records.end() && it->second.skipped;
}

void StepLedger::Rewind(Step base, StepTally tally) {
  tally_ = tally;
  not_finite_.clear();
  recent_.Void(base);
  parts_.clear();
  recorded_ = base;
}

std::optional<FingerprintPart> StepLedger::FingerprintOf(Step state) const {
  const auto it = recent_.fingerprints.find(state);
  if (it == recent_.fingerprints.end()) return std::nullopt;
  return it->second;
}

void StepLedger::Say(std::vector<Action>& out, std::string text) const {
  out.emplace_back(Announce{job_, "state", std::move(text), {}});
}

}  // namespace muster::coordinator
