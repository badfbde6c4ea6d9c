// What is recorded of a job's steps: which records and fingerprints are in the ledger, and whether
// members agree on them (docs/protocol.md section 8). Lives as long as its JobRun.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/state/actions.h"
#include "coordinator/state/recent_steps.h"

namespace muster::coordinator {

class StepLedger {
 public:
  // `reproducible`: a step that is done again must give the same bits.
  // `tally`: of the steps that are recorded.
  StepLedger(std::string job, bool reproducible, Step recorded, StepTally tally,
             RecentSteps recent);

  // Records of the current lineage, as a member tells them, against which FaultOf (record_check.h)
  // has nothing; `view`: the active one, whose lane holders a record means that names none. Of a
  // member that does not know the weight only the fingerprint counts. What is new is
  // persisted and announced, and so is what does not agree.
  std::vector<Action> Add(const std::string& member, const std::vector<StepRecord>& records,
                          const std::optional<View>& view);
  // A rewind to state(base), with the tally of what led to it: what comes after it is voided.
  void Rewind(Step base, StepTally tally);
  // Lanes whose gradients are not finite, as a member found. Returns those that were not known.
  std::vector<LaneId> NoteLanes(Step step, const std::vector<LaneId>& lanes);

  Step recorded() const { return recorded_; }        // records below are in the ledger
  double loss() const { return loss_; }              // mean of the last record
  const StepTally& tally() const { return tally_; }  // of the steps that are recorded
  StepTally TallyBefore(Step state) const;  // likewise, of those that led to this recent state
  bool WasSkipped(Step step) const;         // a recent step
  std::vector<LaneId> LanesNotFinite(Step step) const;  // as far as they are known
  std::optional<FingerprintPart> FingerprintOf(Step state) const;
  const RecentSteps& recent() const { return recent_; }
  void Add(const MeasureFact& fact, const std::vector<Lineage>& lineages) {
    recent_.Add(fact, lineages);
  }
  RecentSteps ReleaseRecent() && { return std::move(recent_); }

 private:
  void AddRecord(const std::string& member, const StepRecord& record,
                 const std::optional<View>& view, std::vector<StepRecord>& fresh,
                 std::vector<Action>& out);
  void AddFingerprint(const std::string& member, const StepRecord& record,
                      const std::optional<View>& view, std::vector<Action>& out);
  std::optional<FingerprintPart> Whole(const std::string& member, const StepRecord& record,
                                       const std::optional<View>& view);
  void AnnounceStep(const StepRecord& record, std::vector<Action>& out);
  void Say(std::vector<Action>& out, std::string text) const;

  const std::string job_;
  const bool reproducible_;
  Step recorded_;
  StepTally tally_;
  RecentSteps recent_;
  // Of servers, until they are all there; the oldest are forgotten.
  std::map<Step, std::map<std::string, FingerprintPart>> parts_;
  std::map<Step, std::set<LaneId>> not_finite_;  // the oldest are forgotten
  bool told_not_finite_ = false;
  double loss_ = 0;
};

}  // namespace muster::coordinator
