#include "lib/task/counting.h"

#include <gtest/gtest.h>

#include <numeric>
#include <utility>

#include "lib/domain/layout.h"

namespace muster {
namespace {

struct Bound {
  std::unique_ptr<Task> task;
  Layout layout;
  std::vector<float> parameters;
  std::vector<float> gradient;
  std::vector<size_t> ready;
  std::vector<LaneOutput> outcomes;

  explicit Bound(uint64_t samples) {
    TrainingSpec training;
    training.data.samples = samples;
    task = MakeCounting(training);
    layout = Layout::Make(task->Tensors(), 64).value();
    EXPECT_TRUE(task->Bind(layout.space()).ok());
    parameters.assign(static_cast<size_t>(layout.elements()), 0.0f);
    EXPECT_TRUE(task->Initialize(7, absl::MakeSpan(parameters)).ok());
    gradient.assign(parameters.size(), 0.0f);
  }

  absl::StatusOr<LaneOutput> Run(const std::vector<uint64_t>& samples) {
    LaneInput input{.samples = samples, .parameters = parameters};
    outcomes.clear();
    ready.clear();
    return task->RunLane(input, {absl::MakeSpan(gradient),
                                 [&](LaneOutput o) {
                                   EXPECT_TRUE(ready.empty()) << "announced before the outcome";
                                   outcomes.push_back(o);
                                 },
                                 [&](size_t i) { ready.push_back(i); }});
  }

  // The values of a flat space in the order of sample ids.
  std::vector<float> ById(const std::vector<float>& flat) const {
    std::vector<float> values;
    for (const Placed& p : layout.tensors())
      values.insert(values.end(), flat.begin() + p.offset, flat.begin() + p.offset + p.count);
    return values;
  }
};

TEST(Counting, HasOneWeightPerSampleForEverySize) {
  for (uint64_t n : {1u, 2u, 3u, 4u, 5u, 16u, 97u, 1009u}) {
    Bound b(n);
    EXPECT_EQ(b.task->SampleCount(), n);
    EXPECT_EQ(b.ById(b.parameters).size(), n);
  }
}

TEST(Counting, UnequalPartsLeaveHoles) {
  Bound b(1009);
  ASSERT_EQ(b.layout.tensors().size(), 3u);
  EXPECT_NE(b.layout.tensors()[0].count, b.layout.tensors()[1].count);
  EXPECT_NE(b.layout.tensors()[1].count, b.layout.tensors()[2].count);
  EXPECT_GT(b.layout.elements(), 1009);
}

TEST(Counting, TellsTheOutcomeOnceBeforeTheFirstTensor) {
  Bound b(97);
  const auto output = b.Run({3, 3, 96});
  ASSERT_TRUE(output.ok()) << output.status();
  ASSERT_EQ(b.outcomes.size(), 1u);
  EXPECT_EQ(b.outcomes[0].weight, output->weight);
  EXPECT_EQ(b.outcomes[0].loss, output->loss);
}

TEST(Counting, EachSampleContributesMinusOneAndARepeatedOneAddsUp) {
  Bound b(97);
  const auto output = b.Run({0, 96, 48, 49, 96, 80});
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(output->weight, 6);
  EXPECT_EQ(output->loss, 0);
  std::vector<float> expected(97, 0.0f);
  for (uint64_t id : {0, 96, 48, 49, 96, 80}) expected[id] -= 1.0f;
  EXPECT_EQ(b.ById(b.gradient), expected);
  EXPECT_EQ(std::accumulate(b.gradient.begin(), b.gradient.end(), 0.0f), -6.0f)
      << "a hole was written";
}

TEST(Counting, LossIsTheSumOfTheWeights) {
  Bound b(10);
  std::iota(b.parameters.begin(), b.parameters.end(), 1.0f);
  const auto output = b.Run({0, 9, 9});
  const std::vector<float> weights = b.ById(b.parameters);
  EXPECT_EQ(output->loss, weights[0] + 2.0 * weights[9]);
}

TEST(Counting, EveryTensorIsReadyOnce) {
  Bound b(97);
  ASSERT_TRUE(b.Run({3}).ok());
  EXPECT_EQ(b.ready, (std::vector<size_t>{2, 1, 0}));
}

TEST(Counting, PlainDescentCountsEpochs) {
  Bound b(101);
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (uint64_t first = 0; first < 101; first += 7) {
      std::vector<uint64_t> lane(std::min<uint64_t>(7, 101 - first));
      std::iota(lane.begin(), lane.end(), first);
      std::fill(b.gradient.begin(), b.gradient.end(), 0.0f);
      ASSERT_TRUE(b.Run(lane).ok());
      for (size_t i = 0; i < b.parameters.size(); ++i) b.parameters[i] -= b.gradient[i];
    }
  }
  EXPECT_EQ(b.ById(b.parameters), std::vector<float>(101, 3.0f));
}

TEST(Counting, RefusesWhatIsNotALaneOfItsDataSet) {
  Bound b(10);
  EXPECT_EQ(b.Run({10}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(b.Run({}).status().code(), absl::StatusCode::kInvalidArgument);
  b.parameters.pop_back();
  EXPECT_EQ(b.Run({1}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Counting, RefusesAnotherTasksLayout) {
  Bound b(10);
  const Layout other = Layout::Make({{"count.0", {5}}}, 64).value();
  EXPECT_EQ(b.task->Bind(other.space()).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace muster
