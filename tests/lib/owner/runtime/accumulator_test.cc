#include "lib/owner/runtime/accumulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>

#include "lib/optim/update.h"

namespace muster {
namespace {

using Values = std::vector<float>;

Values Draw(std::mt19937& random, size_t n) {
  std::uniform_real_distribution<float> number(-1, 1);
  Values values(n);
  for (float& v : values) v = number(random);
  return values;
}

Values Sum(const Values& a, const Values& b) {
  Values sum(a.size());
  for (size_t i = 0; i < a.size(); ++i) sum[i] = a[i] + b[i];
  return sum;
}

// The slow twin: the whole tree, from its leaves.
Values TreeSum(TreeNode node, const std::vector<Values>& leaves) {
  if (node.lanes() == 1) return leaves[static_cast<size_t>(node.lo)];
  const int32_t mid = SplitPoint(node);
  return Sum(TreeSum({node.lo, mid}, leaves), TreeSum({mid, node.hi}, leaves));
}

// A frame of its own memory, behind some bytes of something else, cut at ugly places.
std::shared_ptr<const Payload> FrameOf(const Values& values, size_t before) {
  auto bytes = std::make_shared<std::vector<std::byte>>(before + values.size() * sizeof(float));
  std::memcpy(bytes->data() + before, values.data(), values.size() * sizeof(float));
  auto frame = std::make_shared<Payload>();
  for (size_t at = 0; at < bytes->size();) {
    const size_t n = std::min<size_t>(bytes->size() - at, 1 + at % 7);
    frame->slices.push_back(absl::MakeConstSpan(*bytes).subspan(at, n));
    at += n;
  }
  frame->keep = bytes;
  return frame;
}

// Whoever holds which lanes, and in whatever order partial sums come: the bits are those of the
// tree, and no memory but `out` is written.
TEST(Accumulator, AnyArrivalOrderGivesTheTreesBits) {
  std::mt19937 random(1);
  CopyCounter copied{0};
  Accumulator accumulator(copied);  // one for all rounds: a complete chunk is forgotten
  for (int round = 0; round < 300; ++round) {
    const int32_t lanes = 1 + static_cast<int32_t>(random() % 13);
    const int32_t members = 1 + static_cast<int32_t>(random() % 5);
    const size_t elements = 1 + random() % 37;
    std::vector<Values> leaves;
    LaneMap map;
    for (int32_t l = 0; l < lanes; ++l) {
      leaves.push_back(Draw(random, elements));
      map.holder_of.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(members)));
    }
    Sums sums(lanes, map, {TensorKind::kParameter}, {});
    Values out(elements, -7.0f);
    std::vector<int32_t> order(static_cast<size_t>(members));
    for (int32_t m = 0; m < members; ++m) order[static_cast<size_t>(m)] = m;
    std::shuffle(order.begin(), order.end(), random);
    std::vector<std::pair<Values, Values>> own;  // what we lent, and what it was
    own.reserve(64);
    bool complete = false;
    for (int32_t m : order) {
      ChunkPartials arrival{ChunkId(0), {}};
      std::vector<std::pair<TreeNode, ArrivedSum>> arrived;
      for (TreeNode node : sums.Expected(m, TensorKind::kParameter)) {
        arrival.partials.push_back({node, node.lanes(), 1.0, 0});
        const Values values = TreeSum(node, leaves);
        if (m == 0) {
          own.emplace_back(values, values);
          arrived.emplace_back(node, OwnSum{own.back().first, nullptr});
        } else {
          const size_t before = random() % 5;
          arrived.emplace_back(node, ReceivedSum{FrameOf(values, before), before});
        }
      }
      if (arrived.empty()) continue;
      const absl::StatusOr<Additions> taken = sums.Add(m, arrival);
      ASSERT_TRUE(taken.ok()) << taken.status();
      complete = taken->total.has_value();
      accumulator.Add(ChunkId(0), std::move(arrived), taken->folds, complete, absl::MakeSpan(out));
    }
    ASSERT_TRUE(complete);
    EXPECT_EQ(out, TreeSum({0, lanes}, leaves)) << lanes << " lanes, " << members << " members";
    for (const auto& [now, was] : own) EXPECT_EQ(now, was) << "an own gradient was written";
  }
}

TEST(Accumulator, CopiesOnlyWhatIsOneArrivalAlone) {
  CopyCounter copied{0};
  Accumulator accumulator(copied);
  const Values one{1, 2, 3}, two{4, 5, 6};
  Values out(3);
  accumulator.Add(ChunkId(0), {{TreeNode{0, 1}, OwnSum{one, nullptr}}}, {}, true,
                  absl::MakeSpan(out));
  EXPECT_EQ(out, one);
  EXPECT_EQ(copied, 12u);
  accumulator.Add(ChunkId(1),
                  {{TreeNode{0, 1}, OwnSum{one, nullptr}}, {TreeNode{1, 2}, OwnSum{two, nullptr}}},
                  {{{0, 1}, {1, 2}, {0, 2}}}, true, absl::MakeSpan(out));
  EXPECT_EQ(out, (Values{5, 7, 9}));
  EXPECT_EQ(copied, 12u);
}

TEST(Accumulator, ForgettingReleasesTheFrames) {
  CopyCounter copied{0};
  Accumulator accumulator(copied);
  std::shared_ptr<const Payload> frame = FrameOf({1, 2}, 0);
  const std::weak_ptr<const Payload> watch = frame;
  Values out(2);
  accumulator.Add(ChunkId(0), {{TreeNode{0, 1}, ReceivedSum{std::move(frame), 0}}}, {}, false,
                  absl::MakeSpan(out));
  EXPECT_FALSE(watch.expired());
  accumulator.Forget();
  EXPECT_TRUE(watch.expired());
}

TEST(Reduce, SaysWhetherGradientAndLossAreFinite) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const double clip_norm : {0.0, 1.0}) {
    TrainingSpec training;
    training.clip_norm = clip_norm;
    const auto finite = [&](TensorKind kind, double loss, Values values) {
      return Reduce(training, kind, {{0, 2}, 4, loss, 0}, absl::MakeSpan(values)).finite;
    };
    EXPECT_TRUE(finite(TensorKind::kParameter, 8, {4, std::numeric_limits<float>::max()}));
    EXPECT_FALSE(finite(TensorKind::kParameter, 8, {4, kNan}));
    EXPECT_FALSE(finite(TensorKind::kParameter, kNan, {4, -8}));
    EXPECT_TRUE(finite(TensorKind::kBuffer, 8, {4, kNan})) << "a mask, for instance";
  }
}

TEST(Reduce, DividesParametersByTheWeightAndNothingElse) {
  TrainingSpec training;
  training.reduction = Reduction::kMean;
  training.clip_norm = 1;
  const Partial total{{0, 2}, 4, 8.0, 0};
  Values values{4, -8};
  const ResultMeta meta = Reduce(training, TensorKind::kParameter, total, absl::MakeSpan(values));
  EXPECT_EQ(values, (Values{1, -2}));
  EXPECT_EQ(meta.sum_of_squares, 5.0);
  training.clip_norm = 0;
  Values again{4, -8};
  EXPECT_EQ(Reduce(training, TensorKind::kParameter, total, absl::MakeSpan(again)).sum_of_squares,
            5.0)
      << "a job that does not clip must know whether its steps are finite";
  EXPECT_EQ(meta.weight, 4);
  EXPECT_EQ(meta.loss, 8.0);
  Values buffer{4, -8};
  EXPECT_EQ(Reduce(training, TensorKind::kBuffer, total, absl::MakeSpan(buffer)).sum_of_squares, 0);
  EXPECT_EQ(buffer, (Values{4, -8}));
  Values empty_step{0, 0};
  Reduce(training, TensorKind::kParameter, {{0, 2}, 0, 0, 0}, absl::MakeSpan(empty_step));
  EXPECT_EQ(empty_step, (Values{0, 0}));
  training.reduction = Reduction::kSum;
  Values sum{4, -8};
  Reduce(training, TensorKind::kParameter, total, absl::MakeSpan(sum));
  EXPECT_EQ(sum, (Values{4, -8}));
}

// Whatever its sum is, a phase is what the lanes wait for: as it is, and no part of the gradient.
TEST(Reduce, APhaseIsNeitherDividedNorMeasuredNorJudged) {
  TrainingSpec training;
  training.reduction = Reduction::kMean;
  training.clip_norm = 1;
  Values sum{4, std::numeric_limits<float>::infinity()};
  const ResultMeta meta =
      Reduce(training, TensorKind::kPhase, {{0, 2}, 4, 8.0, 0}, absl::MakeSpan(sum));
  EXPECT_EQ(sum, (Values{4, std::numeric_limits<float>::infinity()}));
  EXPECT_TRUE(meta.finite);
  EXPECT_EQ(meta.sum_of_squares, 0);
  EXPECT_EQ(meta.weight, 0);
  EXPECT_EQ(meta.loss, 0);
  EXPECT_NE(meta.crc, 0u);
}

// Lanes of 3, 3, 3, 2 and 0 samples, held by two members in turn: the mean is that of a plain sum
// over all samples, whatever lane a sample was in. The numbers are small integers, so that sums are
// exact in any order.
TEST(Reduce, TheMeanOfUnevenLanesIsThatOfAllTheirSamples) {
  constexpr size_t kElements = 5;
  const std::vector<int> samples_of = {3, 3, 3, 2, 0};
  const auto lanes = static_cast<int32_t>(samples_of.size());
  std::mt19937 random(3);
  std::vector<Values> leaves;
  Values plain(kElements);
  int64_t count = 0;
  for (const int samples : samples_of) {
    Values leaf(kElements);
    for (int s = 0; s < samples; ++s, ++count)
      for (float& v : leaf) v += static_cast<float>(random() % 100);
    for (size_t i = 0; i < kElements; ++i) plain[i] += leaf[i];
    leaves.push_back(std::move(leaf));
  }
  for (float& v : plain) v /= static_cast<float>(count);

  Sums sums(lanes, LaneMap{{0, 1, 0, 1, 0}}, {TensorKind::kParameter}, {});
  CopyCounter copied{0};
  Accumulator accumulator(copied);
  Values out(kElements);
  std::optional<Partial> total;
  for (const int32_t member : {0, 1}) {
    ChunkPartials arrival{ChunkId(0), {}};
    std::vector<std::pair<TreeNode, ArrivedSum>> arrived;
    for (TreeNode node : sums.Expected(member, TensorKind::kParameter)) {
      int64_t weight = 0;
      for (int32_t l = node.lo; l < node.hi; ++l) weight += samples_of[static_cast<size_t>(l)];
      arrival.partials.push_back({node, weight, 0.0, 0});
      arrived.emplace_back(node, ReceivedSum{FrameOf(TreeSum(node, leaves), 0), 0});
    }
    const absl::StatusOr<Additions> taken = sums.Add(member, arrival);
    ASSERT_TRUE(taken.ok()) << taken.status();
    total = taken->total;
    accumulator.Add(ChunkId(0), std::move(arrived), taken->folds, total.has_value(),
                    absl::MakeSpan(out));
  }
  ASSERT_TRUE(total.has_value());
  EXPECT_EQ(total->weight, count);
  TrainingSpec training;
  training.reduction = Reduction::kMean;
  Reduce(training, TensorKind::kParameter, *total, absl::MakeSpan(out));
  EXPECT_EQ(out, plain);
}

TEST(Updater, ClipsWithoutTouchingTheResult) {
  TrainingSpec training;
  training.clip_norm = 1;
  training.optimizer.learning_rate = 1;
  training.steps = 10;
  CopyCounter copied{0};
  const Layout layout = Layout::Make({{"weight", {2}}}, 64).value();
  Updater updater(training, UpdateRules::Make(training, layout).value(), {}, 10, copied);
  const Chunk chunk{0, 2}, buffer{0, 2, TensorKind::kBuffer};
  const Values gradient{30, 40};  // norm 50
  const Values from{1, 1};
  Values to(2);
  updater.Apply(chunk, Step(0), 1, 50.0, gradient, from, absl::MakeSpan(to), {});
  EXPECT_NEAR(to[0], 1 - 0.6f, 1e-6f);
  EXPECT_NEAR(to[1], 1 - 0.8f, 1e-6f);
  EXPECT_EQ(gradient, (Values{30, 40}));
  updater.Apply(buffer, Step(0), 1, 50.0, gradient, from, absl::MakeSpan(to), {});
  EXPECT_EQ(to, gradient) << "a buffer's result is its new value";
}

}  // namespace
}  // namespace muster
