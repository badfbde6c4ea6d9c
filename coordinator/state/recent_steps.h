// The last steps of a job, by step (fingerprints: by state): what members tell again, and steps
// that are done again after a rewind, are compared with them. Lives as long as its StepLedger, and
// with the StoredJob of a job that can go on.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "lib/domain/ledger.h"

namespace muster::coordinator {

inline constexpr size_t kRecentSteps = 512;  // of each kind, about
// Whoever goes back further finds in the checkpoint what was measured, or measures it again.
inline constexpr size_t kRecentFacts = 64;
inline constexpr size_t kRecentMeasures = 512;  // of records that are forgotten

struct RecentSteps {
  // On the ancestry of the current lineage. Without lane holders: they are many, and the view says
  // them too.
  std::map<Step, StepRecord> records;
  std::map<Step, FingerprintPart> fingerprints;
  std::map<Step, StepRecord> voided_records;  // by a rewind, and not done again yet
  std::map<Step, FingerprintPart> voided_fingerprints;
  // What steps brought whose records are forgotten: the checkpoint of a state that they measured
  // may be committed a thousand steps later, where a disk is slow and steps are short.
  std::map<Step, std::vector<Measure>> measures{};
  // What a follower has measured, of voided states, too.
  std::map<std::pair<LineageNumber, Step>, MeasureSums> facts{};

  void Add(StepRecord record);
  // `lineages`: the job's. Where there are many, those of voided states go first.
  void Add(const MeasureFact& fact, const std::vector<Lineage>& lineages);
  // What that step on the ancestry brought; nullptr: nothing, or that is not known any more.
  const std::vector<Measure>* MeasuresOf(Step step) const;
  // A rewind to state(base): records from there on, and later fingerprints, are voided.
  void Void(Step base);
  // Forgets all but what was measured of this state: a job that ended there may be made longer, and
  // then a step brings that.
  void KeepOnlyFactOf(Step state);
  // Forgets the oldest; of the records only those before `keep`.
  void Trim(Step keep);
};

}  // namespace muster::coordinator
