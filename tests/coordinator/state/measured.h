// What jobs have whose states are measured by one metric, the loss.
#pragma once

#include <chrono>
#include <utility>
#include <vector>

#include "coordinator/state/job_run.h"
#include "lib/domain/validation.h"
#include "tests/coordinator/state/desk.h"

namespace muster::coordinator {

inline NumericEnvironment WithSums(const ValidationSpec& validation) {
  NumericEnvironment environment = Environment();
  const auto sums = SumTensors(validation, {{"loss"}});
  environment.tensors.insert(environment.tensors.end(), sums->begin(), sums->end());
  return environment;
}

inline MeasureSums Fact(float limb) {
  MeasureSums sums;
  sums.floats.assign(kFloatsOfMetric, 0.0f);
  sums.floats[0] = limb;
  sums.floats[11] = 1;
  return sums;
}

inline const Time kNow{std::chrono::seconds(1000)};
inline const MemberId kOne = Id("worker-0"), kTwo = Id("worker-1");

// Such a job, and what its members say.
class MeasuredJob {
 public:
  explicit MeasuredJob(StoredJob job)
      : run({"cluster", TermNumber(3), Settings()}, std::move(job), kNow) {}
  // Its first start, with both workers in view 1.
  void Begin(const Placements& places) {
    run.Handle(StartRun{StartNumber(1), places}, now);
    Join(kOne);
    Join(kTwo);
    const ViewNumber number = run.journal().number;
    for (const MemberId& id : {kOne, kTwo}) Say(id, Sealed{number, {}});
    for (const MemberId& id : {kOne, kTwo}) Say(id, HoldsBase{number, 0});
    EXPECT_EQ(run.journal().phase, JobPhase::kRunning);
  }
  std::vector<Action> Say(const MemberId& id, ToCoordinator message) {
    return run.Handle(MemberSays{id, std::move(message)}, now);
  }
  // `active`: the view that it comes back with.
  std::vector<Action> Join(const MemberId& id, ViewNumber active = {}) {
    muster::Join join;
    join.job = "job";
    join.start = run.journal().start;
    join.id = id;
    join.role = id.name == kFollowerName ? Role::kFollower : Role::kWorker;
    join.sealed = join.active = active;
    if (active > ViewNumber(0)) join.term = TermNumber(3);
    join.environment = WithSums(run.journal().spec.training.validation);
    return Say(id, join);
  }
  LineageNumber lineage() const { return run.journal().lineages.back().number; }

  Time now = kNow;
  JobRun run;
};

}  // namespace muster::coordinator
