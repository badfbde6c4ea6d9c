#include "lib/task/model_size.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/task/model_size.h"
#include "lib/task/registry.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TrainingSpec SpecOf(const std::string& task, ParameterValues parameters = {}) {
  TrainingSpec training;
  training.task = task;
  training.parameters = std::move(parameters);
  for (const TaskParameter& parameter : FindTask(task)->parameters)
    training.parameters.try_emplace(parameter.name, parameter.default_value);
  return training;
}

TrainingSpec Counting(uint64_t samples) {
  TrainingSpec training = SpecOf("counting");
  training.data.samples = samples;
  return training;
}

TrainingSpec Huge() {
  return SpecOf("code-lm",
                {{"width", 65536}, {"heads", 1024}, {"layers", 256}, {"context", 65536}});
}

// As their modules have them; worker/tasks compares with the modules themselves.
TEST(ModelSize, IsThatOfTheTasksAsTheyAreByDefault) {
  EXPECT_EQ(ModelElements(SpecOf("code-lm")), 1'902'720);
  EXPECT_EQ(ModelElements(SpecOf("transformer")), 44'140'544);
  EXPECT_EQ(ModelElements(SpecOf("counting")), 1009);
}

TEST(ModelSize, NoParametersAreTooLargeToCount) {
  for (const TaskInfo& task : Tasks()) {
    if (BringsItsModel(task.name)) continue;  // nothing is known of its size here
    TrainingSpec training = SpecOf(task.name);
    for (const TaskParameter& parameter : task.parameters)
      training.parameters[parameter.name] = parameter.max;
    EXPECT_GT(ModelElements(training), 0) << task.name;
    EXPECT_LT(ModelElements(training), int64_t{1} << 50) << task.name;
  }
}

TEST(ModelSize, AModelThatNoJobMayHaveIsRefusedByItsParameters) {
  const auto refused = TooLargeForAJob(Huge());
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->field, "parameters.width");
  EXPECT_THAT(refused->reason, AllOf(HasSubstr("width 65536, layers 256, context 65536"),
                                     HasSubstr("13198686289920 parameters"),
                                     HasSubstr("a job may have 274877906944; make them smaller")));
  EXPECT_FALSE(TooLargeForAJob(SpecOf("code-lm")));
}

TEST(ModelSize, CountingIsRefusedByItsSamples) {
  const int64_t most = int64_t{1} << 38;
  EXPECT_FALSE(TooLargeForAJob(Counting(static_cast<uint64_t>(most))));
  EXPECT_EQ(TooLargeForAJob(Counting(static_cast<uint64_t>(most) + 1))->field, "data.samples");
  TrainingSpec small_chunks = Counting(uint64_t{1} << 30);
  small_chunks.chunk_bytes = 64;
  EXPECT_THAT(TooLargeForAJob(small_chunks)->reason, HasSubstr("or chunk_bytes larger"));
}

TEST(ModelSize, AWorkerNeedsMemoryForWhatItAddsAndKeeps) {
  const TrainingSpec counting = Counting(1'000'000);
  EXPECT_FALSE(TooLargeForAWorker(counting, 16'000'000));
  const auto refused = TooLargeForAWorker(counting, 15'999'999);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->field, "data.samples");
  TrainingSpec adam = counting;
  adam.optimizer.kind = OptimizerKind::kAdam;
  EXPECT_TRUE(TooLargeForAWorker(adam, 23'999'999)) << "two slots";
  EXPECT_FALSE(TooLargeForAWorker(adam, 24'000'000));
}

TEST(ModelSize, DataThatATaskMakesCounts) {
  TrainingSpec training = SpecOf("transformer");
  training.data.samples = uint64_t{1} << 40;
  EXPECT_FALSE(TooLargeForAJob(training));
  const auto refused = TooLargeForAWorker(training, int64_t{1} << 40);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->field, "data.samples");
}

TEST(CheckTaskFits, NamesTheFieldAndWhatMayBe) {
  const absl::Status refused = CheckTaskFits(SpecOf("code-lm", {{"width", 6144}}), 1'000'000'000);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << "its data is not bad";
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("parameters.width: width 6144"), HasSubstr("GB of memory and more"),
                    HasSubstr("1.0 GB of this machine's")));
  EXPECT_TRUE(CheckTaskFits(SpecOf("code-lm"), 1'000'000'000).ok());
  EXPECT_FALSE(CheckTaskFits(Huge(), INT64_MAX).ok()) << "where the system does not tell";
}

}  // namespace
}  // namespace muster
