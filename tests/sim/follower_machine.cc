#include "tests/sim/follower_machine.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/checkpoint_files.h"

namespace muster::sim {

void FollowerMachine::Feed(const FollowerInput& input) {
  if (left_) return;
  for (const FollowerAction& action : follower_.Handle(input))
    if (!left_) std::visit([this](const auto& a) { Do(a); }, action);
}

// Often it needs longer than the steps until its measure is brought.
void FollowerMachine::Do(const StartMeasure& a) {
  Schedule& schedule = *outside_.schedule;
  went_on_at_ = schedule.now();
  const int64_t takes = schedule.OneIn(20) ? schedule.Random(400, 4000) : schedule.Random(1, 400);
  outside_.runner->Later(takes, [this, a] {
    if (!hangs_) Feed(MeasureEnded{a.id, MeasureOf(a.manifest)});
  });
}

void FollowerMachine::Do(const Quit& a) {
  left_ = true;
  outside_.quit(a.exit_code, a.reason);
}

absl::StatusOr<MeasureSums> FollowerMachine::MeasureOf(const Manifest& manifest) {
  SimJob& job = *outside_.job;
  if (outside_.schedule->OneIn(40)) {
    outside_.coverage->Add(Corner::kUnluckyLoads);
    return absl::UnavailableError("the disk did not answer");
  }
  Make make{manifest.lineage, manifest.step, manifest, {}, /*slots=*/false};
  for (int32_t c = 0; c < job.terms.chunks(); ++c) make.chunks.emplace_back(c);
  absl::StatusOr<SimState> state = MakeState(job.terms, job.disk, make);
  if (absl::IsInternal(state.status()))
    outside_.violate(absl::StrCat("a manifest names a file: ", state.status().message()));
  if (absl::IsDataLoss(state.status())) outside_.coverage->Add(Corner::kDamagedLoads);
  if (!state.ok()) return state.status();
  return job.terms.FactOf(job.terms.WholeState(*state->values), manifest.step);
}

}  // namespace muster::sim
