// What every LibTorch task promises of a lane.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "lib/base/hash.h"
#include "lib/task/model_size.h"
#include "tests/worker/tasks/lane_rig.h"
#include "tests/worker/tasks/small_specs.h"
#include "worker/tasks/make_task.h"

namespace muster::worker {
namespace {

class TorchTasks : public testing::TestWithParam<TrainingSpec (*)()> {
 protected:
  static LaneRig Rig(double dropout = 0.1) {
    TrainingSpec training = GetParam()();
    training.parameters["dropout"] = dropout;
    return LaneRig(MakeTask(training).value());
  }
};

TEST_P(TorchTasks, ALaneIsPure) {
  LaneRig rig = Rig();
  FlatMemory first = rig.Memory(), again = rig.Memory();
  const auto one = rig.Run({1, 5, 3}, 77, first);
  ASSERT_TRUE(one.ok()) << one.status();
  const auto two = rig.Run({1, 5, 3}, 77, again);
  EXPECT_TRUE(first.SameBits(again));
  ASSERT_TRUE(rig.Run({2}, 78, again).ok());
  ASSERT_TRUE(rig.Run({0, 1, 2, 3, 4, 5, 6}, 79, again).ok());
  const auto three = rig.Run({1, 5, 3}, 77, again);
  EXPECT_TRUE(first.SameBits(again)) << "other lanes left something behind";
  EXPECT_EQ(one->loss, two->loss);
  EXPECT_EQ(one->loss, three->loss);
  EXPECT_EQ(one->weight, three->weight);
}

TEST_P(TorchTasks, ALaneTellsWhatItsSamplesTook) {
  LaneRig rig = Rig();
  FlatMemory gradient = rig.Memory();
  const auto output = rig.Run({1, 5, 3}, 77, gradient);
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_GT(output->input_seconds, 0);
}

TEST_P(TorchTasks, SeedAndSamplesMatter) {
  LaneRig rig = Rig();
  FlatMemory first = rig.Memory(), other = rig.Memory();
  ASSERT_TRUE(rig.Run({1, 5, 3}, 77, first).ok());
  ASSERT_TRUE(rig.Run({1, 5, 3}, 78, other).ok());
  EXPECT_FALSE(first.SameBits(other)) << "dropout did not use the seed";
  ASSERT_TRUE(rig.Run({1, 5, 4}, 77, other).ok());
  EXPECT_FALSE(first.SameBits(other));
}

TEST_P(TorchTasks, TheAddressOfAlignedMemoryDoesNotMatter) {
  LaneRig rig = Rig();
  FlatMemory expected = rig.Memory();
  const auto output = rig.Run({1, 5, 3}, 77, expected);
  for (size_t lines = 0; lines < 9; ++lines) {
    const FlatMemory parameters(rig.parameters(), 8 - lines);
    FlatMemory gradient = rig.Memory(lines);
    const auto moved = rig.Run({1, 5, 3}, 77, gradient, parameters, [](size_t) {});
    ASSERT_TRUE(moved.ok()) << moved.status();
    EXPECT_TRUE(expected.SameBits(gradient)) << lines;
    EXPECT_EQ(output->loss, moved->loss);
  }
}

TEST_P(TorchTasks, TwoInstancesAgree) {
  LaneRig one = Rig(), two = Rig();
  EXPECT_EQ(one.task().DataHash(), two.task().DataHash());
  EXPECT_TRUE(one.parameters().SameBits(two.parameters()));
  FlatMemory first = one.Memory(), second = two.Memory();
  ASSERT_TRUE(one.Run({4, 2}, 9, first).ok());
  ASSERT_TRUE(two.Run({4, 2}, 9, second).ok());
  EXPECT_TRUE(first.SameBits(second));
}

TEST_P(TorchTasks, InitialWeightsDependOnTheSeedAlone) {
  LaneRig rig = Rig();
  FlatMemory gradient = rig.Memory(), again = rig.Memory(), other = rig.Memory();
  ASSERT_TRUE(rig.Run({1}, 5, gradient).ok());
  ASSERT_TRUE(rig.task().Initialize(1, again.span()).ok());
  ASSERT_TRUE(rig.task().Initialize(2, other.span()).ok());
  EXPECT_TRUE(rig.parameters().SameBits(again));
  EXPECT_FALSE(rig.parameters().SameBits(other));
}

TEST_P(TorchTasks, EveryTensorIsReadyOnceAndFinal) {
  LaneRig rig = Rig();
  FlatMemory gradient = rig.Memory();
  std::vector<uint64_t> hash_when_ready(rig.layout().tensors().size(), 0);
  std::vector<size_t> order;
  const auto hash = [&](size_t i) {
    const Placed& p = rig.layout().tensors()[i];
    return HashBytes({reinterpret_cast<const char*>(gradient.data() + p.offset),
                      static_cast<size_t>(p.count) * sizeof(float)});
  };
  ASSERT_TRUE(rig.Run({1, 2}, 3, gradient, rig.parameters(),
                      [&](size_t i) {
                        order.push_back(i);
                        hash_when_ready[i] = hash(i);
                      })
                  .ok());
  EXPECT_EQ(order.size(), rig.layout().tensors().size());
  EXPECT_EQ(std::set<size_t>(order.begin(), order.end()).size(), order.size());
  for (size_t i : order)
    EXPECT_EQ(hash_when_ready[i], hash(i)) << rig.layout().tensors()[i].spec.name;
}

// The tensor whose gradient comes last is still untouched when half of all bytes have been
// announced.
TEST_P(TorchTasks, HalfOfTheBytesAreReadyBeforeTheLastGradientExists) {
  LaneRig rig = Rig();
  FlatMemory gradient = rig.Memory();
  std::vector<size_t> order;
  ASSERT_TRUE(
      rig.Run({1, 2}, 3, gradient, rig.parameters(), [&](size_t i) { order.push_back(i); }).ok());
  const Placed& last = rig.layout().tensors()[order.back()];
  int64_t ready_before = 0, total = 0;
  ASSERT_TRUE(rig.Run({1, 2}, 3, gradient, rig.parameters(),
                      [&](size_t i) {
                        total += rig.layout().tensors()[i].count;
                        const float* g = gradient.data() + last.offset;
                        if (std::all_of(g, g + last.count, [](float x) { return x == 0; }))
                          ready_before = total;
                      })
                  .ok());
  EXPECT_GE(2 * ready_before, total);
}

// g·d against (loss(p + h·d) - loss(p - h·d)) / 2h, without dropout.
TEST_P(TorchTasks, TheGradientIsTheSlopeOfTheLoss) {
  LaneRig rig = Rig(/*dropout=*/0);
  FlatMemory gradient = rig.Memory(), scratch = rig.Memory();
  ASSERT_TRUE(rig.Run({0, 1, 2}, 3, gradient).ok());
  double norm = 0;
  for (float g : gradient.span()) norm += static_cast<double>(g) * static_cast<double>(g);
  norm = std::sqrt(norm);
  const double h = 2e-3;
  const auto loss_at = [&](double distance) {
    FlatMemory moved(rig.parameters());
    for (size_t i = 0; i < moved.span().size(); ++i)
      moved.span()[i] +=
          static_cast<float>(distance * static_cast<double>(gradient.span()[i]) / norm);
    return rig.Run({0, 1, 2}, 3, scratch, moved, [](size_t) {})->loss;
  };
  EXPECT_NEAR((loss_at(h) - loss_at(-h)) / (2 * h) / norm, 1, 0.02);
}

TEST_P(TorchTasks, ASumOverSamples) {
  LaneRig rig = Rig(/*dropout=*/0);
  FlatMemory one = rig.Memory(), two = rig.Memory(), both = rig.Memory();
  const auto a = rig.Run({1}, 3, one), b = rig.Run({4}, 3, two), ab = rig.Run({1, 4}, 3, both);
  EXPECT_EQ(a->weight + b->weight, ab->weight);
  EXPECT_NEAR((a->loss + b->loss) / ab->loss, 1, 1e-5);
  for (size_t i = 0; i < both.span().size(); ++i)
    ASSERT_NEAR(one.span()[i] + two.span()[i], both.span()[i], 1e-3f) << i;
}

TEST_P(TorchTasks, RefusesBadParametersByName) {
  for (const auto& [name, ignored] : GetParam()().parameters) {
    TrainingSpec training = GetParam()();
    training.parameters[name] = -1;
    EXPECT_THAT(std::string(MakeTask(training).status().message()), testing::HasSubstr(name));
  }
}

TEST_P(TorchTasks, RefusesSamplesThatAreNotThere) {
  LaneRig rig = Rig();
  FlatMemory gradient = rig.Memory();
  EXPECT_EQ(rig.Run({rig.task().SampleCount()}, 1, gradient).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(rig.Run({rig.task().SampleCount() - 1}, 1, gradient).ok());
}

// Whoever has no LibTorch knows it by arithmetic.
TEST_P(TorchTasks, TheModelIsAsLargeAsItsParametersSay) {
  LaneRig rig = Rig();
  int64_t elements = 0;
  for (const TensorSpec& tensor : rig.task().Tensors()) elements += tensor.Elements();
  EXPECT_EQ(ModelElements(GetParam()()), elements);
}

INSTANTIATE_TEST_SUITE_P(All, TorchTasks, testing::Values(&SmallCodeLm, &SmallTransformer),
                         [](const auto& instance) {
                           return instance.index == 0 ? "CodeLm" : "Transformer";
                         });

}  // namespace
}  // namespace muster::worker
