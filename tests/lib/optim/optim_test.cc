#include "lib/optim/optim.h"

#include <cmath>
#include <limits>

#include "tests/lib/kernels/every_target.h"

namespace muster {
namespace {

// One element, straight from the formulas of the papers in the order of LibTorch's operations.
struct Element {
  float parameter, slot0, slot1;
};

double SlowPower(double base, int64_t exponent) {
  if (exponent == 0) return 1;
  const double half = SlowPower(base, exponent / 2);
  return exponent % 2 == 0 ? half * half : half * half * base;
}

Element SlowUpdate(const OptimizerSpec& o, int64_t step, double rate, float g, Element e) {
  const auto f = [](double x) { return static_cast<float>(x); };
  if (o.weight_decay != 0 && o.kind != OptimizerKind::kAdamW)
    g = g + e.parameter * f(o.weight_decay);
  if (o.kind == OptimizerKind::kSgd) {
    e.parameter = e.parameter + g * f(-rate);
    return e;
  }
  if (o.kind == OptimizerKind::kMomentum) {
    e.slot0 = e.slot0 * f(o.momentum) + g;
    const float direction = o.nesterov ? g + e.slot0 * f(o.momentum) : e.slot0;
    e.parameter = e.parameter + direction * f(-rate);
    return e;
  }
  if (o.kind == OptimizerKind::kRmsprop || o.kind == OptimizerKind::kAdagrad) {
    e.slot0 = o.kind == OptimizerKind::kRmsprop ? e.slot0 * f(o.alpha) + g * f(1 - o.alpha) * g
                                                : e.slot0 + g * g;
    e.parameter = e.parameter + g * f(-rate) / (std::sqrt(e.slot0) + f(o.epsilon));
    return e;
  }
  if (o.weight_decay != 0 && o.kind == OptimizerKind::kAdamW)
    e.parameter = e.parameter * f(1 - rate * o.weight_decay);
  e.slot0 = e.slot0 * f(o.beta1) + g * f(1 - o.beta1);
  e.slot1 = e.slot1 * f(o.beta2) + g * f(1 - o.beta2) * g;
  const float denominator =
      std::sqrt(e.slot1) / f(std::sqrt(1 - SlowPower(o.beta2, step + 1))) + f(o.epsilon);
  const float step_size = f(rate / (1 - SlowPower(o.beta1, step + 1)));
  e.parameter = e.parameter + e.slot0 * -step_size / denominator;
  return e;
}

std::vector<OptimizerSpec> AllSpecs() {
  std::vector<OptimizerSpec> specs;
  for (OptimizerKind kind :
       {OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kAdam, OptimizerKind::kAdamW,
        OptimizerKind::kRmsprop, OptimizerKind::kAdagrad}) {
    for (double decay : {0.0, 0.013}) {
      specs.push_back({.kind = kind,
                       .learning_rate = 0.003,
                       .momentum = 0.87,
                       .alpha = 0.93,
                       .weight_decay = decay});
      if (kind != OptimizerKind::kMomentum) continue;
      specs.push_back(specs.back());
      specs.back().nesterov = true;
    }
  }
  return specs;
}

// Parameters and slots of a span, with what they are updated by.
struct State {
  explicit State(size_t n)
      : parameters(WildFloats(n, 1)), slots{std::vector<float>(n), std::vector<float>(n)} {}

  // [from, to) of the span, in place.
  void Apply(const OptimizerSpec& spec, int64_t step, absl::Span<const float> gradient, size_t from,
             size_t to) {
    const auto part = [&](std::vector<float>& v) {
      return absl::MakeSpan(v).subspan(from, to - from);
    };
    Slots used;
    for (int s = 0; s < SlotCount(spec.kind); ++s) used[s] = part(slots[s]);
    ApplyUpdate(spec, step, spec.learning_rate, gradient.subspan(from, to - from), part(parameters),
                part(parameters), used);
  }
  std::vector<std::vector<uint32_t>> AllBits() const {
    return {Bits(parameters), Bits(slots[0]), Bits(slots[1])};
  }

  std::vector<float> parameters;
  std::array<std::vector<float>, kMaxSlots> slots;
};

TEST(ApplyUpdate, EqualsItsSlowTwinOnEveryTarget) {
  ForEveryTarget([] {
    for (const OptimizerSpec& spec : AllSpecs()) {
      for (size_t n : kUglySizes) {
        State state(n), slow = state;
        for (int64_t step = 0; step < 5; ++step) {
          const auto gradient = WildFloats(n, 100 + step);
          state.Apply(spec, step, gradient, 0, n);
          for (size_t i = 0; i < n; ++i) {
            const Element e = SlowUpdate(spec, step, spec.learning_rate, gradient[i],
                                         {slow.parameters[i], slow.slots[0][i], slow.slots[1][i]});
            slow.parameters[i] = e.parameter;
            slow.slots[0][i] = e.slot0;
            slow.slots[1][i] = e.slot1;
          }
          ASSERT_EQ(state.AllBits(), slow.AllBits())
              << static_cast<int>(spec.kind) << " size " << n << " step " << step;
        }
      }
    }
  });
}

TEST(ApplyUpdate, ChunksGiveTheBitsOfTheWhole) {
  constexpr size_t kCuts[] = {0, 1, 17, 64, 64, 333, 1000, 1009};
  for (const OptimizerSpec& spec : AllSpecs()) {
    State whole(1009), chunked = whole;
    for (int64_t step = 0; step < 3; ++step) {
      const auto gradient = WildFloats(1009, 7 + step);
      whole.Apply(spec, step, gradient, 0, 1009);
      for (size_t c = std::size(kCuts) - 1; c > 0; --c)
        chunked.Apply(spec, step, gradient, kCuts[c - 1], kCuts[c]);
    }
    EXPECT_EQ(whole.AllBits(), chunked.AllBits());
  }
}

TEST(ApplyUpdate, WritesBesideTheOldParameters) {
  for (const OptimizerSpec& spec : AllSpecs()) {
    State in_place(257), beside = in_place;
    const auto gradient = WildFloats(257, 9);
    const std::vector<float> old_parameters = beside.parameters;
    in_place.Apply(spec, 0, gradient, 0, 257);
    Slots used;
    for (int s = 0; s < SlotCount(spec.kind); ++s) used[s] = absl::MakeSpan(beside.slots[s]);
    ApplyUpdate(spec, 0, spec.learning_rate, gradient, old_parameters,
                absl::MakeSpan(beside.parameters), used);
    EXPECT_EQ(in_place.AllBits(), beside.AllBits());
    EXPECT_EQ(Bits(old_parameters), Bits(WildFloats(257, 1)));
  }
}

// Holes of the flat space stay +0.0 for ever.
TEST(ApplyUpdate, HolesStayZero) {
  for (const OptimizerSpec& spec : AllSpecs()) {
    State state(19);
    state.parameters.assign(19, 0.0f);
    const std::vector<float> gradient(19, 0.0f);
    const auto zero = state.AllBits();
    for (int64_t step = 0; step < 4; ++step) state.Apply(spec, step, gradient, 0, 19);
    EXPECT_EQ(state.AllBits(), zero) << static_cast<int>(spec.kind);
  }
}

TEST(ApplyUpdateDeathTest, SizesThatDifferAreABug) {
  std::vector<float> four(4), five(5);
  OptimizerSpec adam = {.kind = OptimizerKind::kAdam};
  EXPECT_DEATH(ApplyUpdate(adam, 0, 0.1, four, five, absl::MakeSpan(five), {}), "broken invariant");
  EXPECT_DEATH(ApplyUpdate(adam, 0, 0.1, five, five, absl::MakeSpan(five), {}), "broken invariant");
}

TEST(Slots, AreAsManyAsTheOptimizerKeeps) {
  EXPECT_EQ(SlotCount(OptimizerKind::kSgd), 0);
  EXPECT_EQ(SlotCount(OptimizerKind::kMomentum), 1);
  EXPECT_EQ(SlotCount(OptimizerKind::kAdam), 2);
  EXPECT_EQ(SlotCount(OptimizerKind::kAdamW), 2);
  EXPECT_EQ(SlotCount(OptimizerKind::kRmsprop), 1);
  EXPECT_EQ(SlotCount(OptimizerKind::kAdagrad), 1);
  EXPECT_EQ(SlotCount(OptimizerKind::kLars), 1);
  EXPECT_EQ(SlotCount(OptimizerKind::kLamb), 2);
}

TEST(Slots, AreOneMoreWithAMovingAverage) {
  TrainingSpec training;
  training.optimizer.kind = OptimizerKind::kAdam;
  EXPECT_EQ(SlotCount(training), 2);
  training.ema_decay = 0.99;
  EXPECT_EQ(SlotCount(training), 3);
  EXPECT_LE(SlotCount(training), kMaxSlots);
}

TEST(UpdateAverage, EqualsItsSlowTwinOnEveryTarget) {
  ForEveryTarget([] {
    for (size_t n : kUglySizes) {
      const std::vector<float> parameters = WildFloats(n, 1);
      std::vector<float> average = WildFloats(n, 2), slow = average;
      UpdateAverage(0.97, parameters, absl::MakeSpan(average));
      for (size_t i = 0; i < n; ++i)
        slow[i] = slow[i] * static_cast<float>(0.97) + parameters[i] * static_cast<float>(1 - 0.97);
      ASSERT_EQ(Bits(average), Bits(slow)) << n;
    }
  });
}

TEST(UpdateAverage, StaysWhereTheParametersStay) {
  std::vector<float> average = {1.0f};
  const std::vector<float> parameters = {3.0f};
  for (int step = 0; step < 2000; ++step) UpdateAverage(0.99, parameters, absl::MakeSpan(average));
  EXPECT_NEAR(average[0], 3.0f, 1e-4f);
}

TEST(ClipFactor, IsThatOfTorchClipGradNorm) {
  EXPECT_EQ(ClipFactor(4, 1), static_cast<float>(1 / (4 + 1e-6)));
  EXPECT_EQ(ClipFactor(0.5, 1), 1.0f);
  EXPECT_EQ(ClipFactor(1, 1), static_cast<float>(1 / (1 + 1e-6)));
  EXPECT_EQ(ClipFactor(0, 1), 1.0f);
  EXPECT_EQ(ClipFactor(1e30, 0), 1.0f);
  EXPECT_EQ(ClipFactor(std::numeric_limits<double>::infinity(), 1), 0.0f);
  EXPECT_TRUE(std::isnan(ClipFactor(std::numeric_limits<double>::quiet_NaN(), 1)));
}

}  // namespace
}  // namespace muster
