// A longer ledger takes no more memory to answer from.
#include <malloc.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/runtime/history.h"
#include "coordinator/service/job_questions.h"
#include "gtest/gtest.h"
#include "lib/storage/kv.h"
#include "lib/wire/job_codec.h"
#include "tests/coordinator/runtime/scripted_member.h"

namespace muster::coordinator {
namespace {

constexpr int32_t kLanes = 64;
constexpr uint64_t kManySamples = 1009;
constexpr size_t kKiB = 1024;

// What this process has allocated; a sanitizer's allocator says 0.
size_t Allocated() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// A store that hands out its own pairs, as one on a disk would, and looks what its readers keep.
class WatchedKv final : public Kv {
 public:
  absl::StatusOr<std::string> Get(absl::string_view family, absl::string_view key) const override {
    const auto found = pairs_.find({std::string(family), std::string(key)});
    if (found == pairs_.end()) return absl::NotFoundError("no such key");
    return found->second;
  }
  absl::Status Write(const Batch& batch) override {
    for (const Batch::Change& change : batch.changes())
      pairs_[{change.family, change.key}] = change.value.value_or("");
    return absl::OkStatus();
  }
  absl::Status Scan(absl::string_view family, absl::string_view first, absl::string_view last,
                    const Visit& visit) const override {
    const std::string name(family);
    for (auto it = pairs_.lower_bound({name, std::string(first)});
         it != pairs_.end() && it->first.first == name && it->first.second < last; ++it) {
      most_ = std::max(most_, Allocated());
      if (!visit(it->first.second, it->second)) break;
    }
    return absl::OkStatus();
  }

  size_t CostOf(const std::function<void()>& ask) {
    const size_t before = most_ = Allocated();
    ask();
    return most_ - before;
  }

 private:
  std::map<std::pair<std::string, std::string>, std::string> pairs_;
  mutable size_t most_ = 0;
};

JobStatus JobOf(int64_t steps) {
  JobSpec spec = CountingSpec(1);
  spec.training.data.samples = kManySamples;
  spec.training.batch = kLanes;
  spec.training.lanes = kLanes;
  spec.training.epochs = 0;
  spec.training.steps = steps;
  JobStatus status;
  status.job.id = "a";
  status.job.submission = 1;
  status.job.spec = *Complete(spec);
  status.job.phase = JobPhase::kRunning;
  status.job.environment = CountingEnvironment();
  status.job.environment->samples = kManySamples;
  status.job.lineages = {{LineageNumber(1), LineageNumber(0), Step(0), "start"}};
  status.step = Step(steps);
  return status;
}

StepRecord RecordOf(const TrainingSpec& training, int64_t step) {
  StepRecord record;
  record.lineage = LineageNumber(1);
  record.step = Step(step);
  record.view = ViewNumber(1);
  std::vector<MemberId> holders;
  std::vector<int32_t> by_lane;
  for (int32_t lane = 0; lane < kLanes; ++lane) {
    holders.push_back({absl::StrCat("worker-", lane), {1, 1}});
    by_lane.push_back(lane);
  }
  record.lane_holders = LaneHolders(std::move(holders), std::move(by_lane));
  record.samples = StepSamples(training, kManySamples, record.step);
  record.weight = static_cast<int64_t>(record.samples.count);
  return record;
}

struct Costs {
  size_t audit = 0;
  size_t history = 0;
  size_t ledger = 0;
};

Costs CostsOf(int64_t steps) {
  auto made = std::make_unique<WatchedKv>();
  WatchedKv& kv = *made;
  const std::unique_ptr<Journal> journal = *Journal::Open(std::move(made));
  const JobStatus status = JobOf(steps);
  EXPECT_TRUE(journal->Write({PersistJob{status.job}}, 1).ok());
  for (int64_t step = 0; step < steps; ++step) {
    const PersistRecords records{"a", {RecordOf(status.job.spec.training, step)}};
    EXPECT_TRUE(journal->Write({records}, step + 1).ok());
  }
  Costs costs;
  costs.audit = kv.CostOf([&] {
    const auto audit = RunAudit(*journal, status, {});
    EXPECT_TRUE(audit.ok() && audit->ok) << audit->conclusion;
    EXPECT_EQ(audit->steps, steps);
  });
  costs.history = kv.CostOf([&] {
    const HistoryQuery query{.from = steps / 2, .limit = 10};
    EXPECT_EQ(ReadHistory(*journal, status.job, status.step, query, {})->steps.size(), 10u);
  });
  costs.ledger = kv.CostOf([&] {
    const LedgerQuery query{.from = steps / 2, .limit = 10};
    EXPECT_EQ(ReadLedger(*journal, status, query, {})->steps.size(), 10u);
  });
  return costs;
}

TEST(LedgerMemory, DoesNotGrowWithTheNumberOfSteps) {
  const Costs few = CostsOf(200);
  const Costs many = CostsOf(2'000);  // some 6 MB of records
  EXPECT_LT(many.audit, few.audit + 100 * kKiB);
  EXPECT_LT(many.history, few.history + 100 * kKiB);
  EXPECT_LT(many.ledger, few.ledger + 100 * kKiB);
}

}  // namespace
}  // namespace muster::coordinator
