#include "coordinator/state/recent_steps.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "coordinator/state/plan.h"

namespace muster::coordinator {
namespace {

template <class Map>
void Move(Map& from, typename Map::iterator first, Map& to) {
  for (auto it = first; it != from.end(); it = from.erase(it)) to[it->first] = it->second;
}

}  // namespace

void RecentSteps::Add(StepRecord record) {
  record.lane_holders = {};
  const Step step = record.step;
  records[step] = std::move(record);
}

void RecentSteps::Add(const MeasureFact& fact, const std::vector<Lineage>& lineages) {
  const auto added = facts.try_emplace({fact.lineage, fact.step}, fact.sums).first;
  if (facts.size() <= kRecentFacts) return;
  // Not one that is wanted now: after a rewind it may be older than all that are voided.
  auto out = std::find_if(facts.begin(), facts.end(), [&](const auto& known) {
    const auto& [lineage, step] = known.first;
    return known.first != added->first && !OnAncestry(lineages, lineage, step);
  });
  if (out == facts.end()) out = added == facts.begin() ? std::next(added) : facts.begin();
  facts.erase(out);
}

const std::vector<Measure>* RecentSteps::MeasuresOf(Step step) const {
  if (const auto record = records.find(step); record != records.end())
    return &record->second.measures;
  const auto it = measures.find(step);
  return it == measures.end() ? nullptr : &it->second;
}

void RecentSteps::Void(Step base) {
  measures.erase(measures.lower_bound(base), measures.end());
  Move(records, records.lower_bound(base), voided_records);
  Move(fingerprints, fingerprints.upper_bound(base), voided_fingerprints);
}

void RecentSteps::KeepOnlyFactOf(Step state) {
  std::map<std::pair<LineageNumber, Step>, MeasureSums> kept = std::move(facts);
  std::erase_if(kept, [&](const auto& fact) { return fact.first.second != state; });
  *this = RecentSteps();
  facts = std::move(kept);
}

void RecentSteps::Trim(Step keep) {
  while (records.size() > kRecentSteps && records.begin()->first < keep) {
    auto& [step, record] = *records.begin();
    if (!record.measures.empty()) measures[step] = std::move(record.measures);
    records.erase(records.begin());
  }
  while (measures.size() > kRecentMeasures) measures.erase(measures.begin());
  while (fingerprints.size() > kRecentSteps) fingerprints.erase(fingerprints.begin());
}

}  // namespace muster::coordinator
