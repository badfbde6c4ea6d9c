#include "lib/optim/update.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "lib/optim/schedule.h"

namespace muster {
namespace {

using Values = std::vector<float>;

Values Draw(std::mt19937& random, size_t n) {
  std::uniform_real_distribution<float> number(-1, 1);
  Values values(n);
  for (float& v : values) v = number(random);
  return values;
}

const std::vector<TensorSpec> kTensors = {
    {"stem.weight", {5, 7}}, {"stem.bias", {7}}, {"norm.weight", {7}},
    {"head.weight", {7, 9}}, {"head.bias", {9}}, {"norm.mean", {7}, TensorKind::kBuffer}};

constexpr int64_t kSteps = 6;
constexpr uint64_t kSamples = 100;

TrainingSpec Grouped(OptimizerKind kind) {
  TrainingSpec training;
  training.steps = kSteps;
  training.optimizer = {.kind = kind,
                        .learning_rate = 0.1,
                        .weight_decay = 0.02,
                        .weight_decay_on = DecayOn::kMatrices};
  training.schedule = {.kind = ScheduleKind::kLinear};
  training.groups = {{.match = "stem.*", .frozen = true},
                     {.match = "head.bias", .learning_rate_factor = 3, .weight_decay = 0.5},
                     {.match = "head.*", .learning_rate_factor = 0.25}};
  training.clip_norm = 1;
  training.ema_decay = 0.9;
  return training;
}

// What stands in the flat space of a job, and a second one beside it.
struct State {
  State(const Layout& layout, std::mt19937& random)
      : values(Draw(random, static_cast<size_t>(layout.elements()))) {
    for (Values& slot : slots) slot.resize(values.size());
  }
  Slots All() { return Part(0, values.size()); }
  Slots Part(size_t begin, size_t count) {
    Slots part;
    for (size_t s = 0; s < slots.size(); ++s)
      part[s] = absl::MakeSpan(slots[s]).subspan(begin, count);
    return part;
  }
  Values values;
  std::array<Values, kMaxSlots> slots;
};

// From one generation of values into the other: all at once, or chunk by chunk as servers do.
void ApplyAll(Updater& updater, const Layout& layout, int64_t step, double norm,
              const Values& gradient, State& state, bool at_once) {
  Values to(state.values.size());
  if (at_once) {
    updater.ApplyAll(layout, Step(step), updater.RateOf(Step(step), 0), norm, gradient,
                     state.values, absl::MakeSpan(to), state.All(), [] {});
    state.values = to;
    return;
  }
  for (const Chunk& chunk : layout.chunks()) {
    const auto begin = static_cast<size_t>(chunk.offset), count = static_cast<size_t>(chunk.count);
    updater.Apply(chunk, Step(step), updater.RateOf(Step(step), 0), norm,
                  absl::MakeConstSpan(gradient).subspan(begin, count),
                  absl::MakeConstSpan(state.values).subspan(begin, count),
                  absl::MakeSpan(to).subspan(begin, count),
                  chunk.kind == TensorKind::kParameter ? state.Part(begin, count) : Slots());
  }
  state.values = to;
}

// LAMB and LARS: all of a tensor at once.
void SlowTensor(const OptimizerSpec& optimizer, const Placed& tensor, int64_t step, double rate,
                float factor, const Values& gradient, State& state) {
  const auto begin = static_cast<size_t>(tensor.offset), count = static_cast<size_t>(tensor.count);
  const absl::Span<float> values = absl::MakeSpan(state.values).subspan(begin, count);
  Slots slots = state.Part(begin, count);
  slots[static_cast<size_t>(SlotCount(optimizer.kind))] = {};
  ApplyToTensor(optimizer, step, rate, {tensor.spec.shape.size() > 1, factor},
                absl::MakeConstSpan(gradient).subspan(begin, count), values, values, slots);
}

// The slow twin: each tensor alone, by what the specification says of its name.
void SlowApply(const TrainingSpec& training, const Layout& layout, int64_t step, double norm,
               const Values& gradient, State& state) {
  for (const Placed& tensor : layout.tensors()) {
    const std::string& name = tensor.spec.name;
    OptimizerSpec optimizer = training.optimizer;
    if (name == "norm.weight") optimizer.weight_decay = 0;
    if (name == "head.bias") optimizer.weight_decay = 0.5;
    double rate = LearningRate(training.optimizer, training.schedule, step, kSteps);
    if (name == "head.bias") rate *= 3;
    if (name == "head.weight") rate *= 0.25;
    const float factor = ClipFactor(norm, training.clip_norm);
    const auto begin = static_cast<size_t>(tensor.offset);
    const bool by_tensor = IsLayerwise(optimizer.kind) && tensor.spec.kind != TensorKind::kBuffer;
    if (by_tensor && name.substr(0, 5) != "stem.")
      SlowTensor(optimizer, tensor, step, rate, factor, gradient, state);
    for (size_t i = begin; i < begin + static_cast<size_t>(tensor.count); ++i) {
      if (tensor.spec.kind == TensorKind::kBuffer) {
        state.values[i] = gradient[i];
        continue;
      }
      const float g = gradient[i] * factor;
      Slots slots = state.Part(i, 1);
      const absl::Span<float> average = slots[static_cast<size_t>(SlotCount(optimizer.kind))];
      slots[static_cast<size_t>(SlotCount(optimizer.kind))] = {};
      const absl::Span<float> value = absl::MakeSpan(state.values).subspan(i, 1);
      const bool frozen = name.substr(0, 5) == "stem.";
      if (!frozen && !by_tensor) ApplyUpdate(optimizer, step, rate, {&g, 1}, value, value, slots);
      if (step == 0)
        average[0] = value[0];
      else if (!frozen)
        UpdateAverage(training.ema_decay, value, average);
    }
  }
}

struct NamedKind {
  std::string name;
  OptimizerKind kind;
};

std::ostream& operator<<(std::ostream& out, const NamedKind& named) { return out << named.name; }

class UpdaterTest : public testing::TestWithParam<NamedKind> {};

TEST_P(UpdaterTest, EqualsASlowTwinHoweverChunksAreCut) {
  const TrainingSpec training = Grouped(GetParam().kind);
  const bool is_layerwise = IsLayerwise(training.optimizer.kind);
  for (const int64_t chunk_bytes : {64, 192, 4096, -64, -4096}) {
    const bool at_once = is_layerwise || chunk_bytes < 0;
    const Layout layout = Layout::Make(kTensors, std::abs(chunk_bytes)).value();
    std::mt19937 random(7);
    State state(layout, random), slow = state;
    CopyCounter copied{0};
    Updater updater(training, UpdateRules::Make(training, layout).value(), {}, kSamples, copied);
    const Values first = state.values;
    for (int64_t step = 0; step < kSteps; ++step) {
      const Values gradient = Draw(random, state.values.size());
      const double norm = 0.5 + static_cast<double>(step);
      ApplyAll(updater, layout, step, norm, gradient, state, at_once);
      SlowApply(training, layout, step, norm, gradient, slow);
      for (const Placed& tensor : layout.tensors()) {
        for (int64_t e = tensor.offset; e < tensor.offset + tensor.count; ++e) {
          const auto i = static_cast<size_t>(e);
          ASSERT_EQ(state.values[i], slow.values[i]) << tensor.spec.name << ", step " << step;
          for (size_t s = 0; s < state.slots.size(); ++s)
            ASSERT_EQ(state.slots[s][i], slow.slots[s][i])
                << tensor.spec.name << ", step " << step << ", slot " << s;
          if (tensor.spec.name.substr(0, 5) != "stem.") continue;
          ASSERT_EQ(state.values[i], first[i]) << "it is frozen";
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, UpdaterTest,
                         testing::Values(NamedKind{"Sgd", OptimizerKind::kSgd},
                                         NamedKind{"Momentum", OptimizerKind::kMomentum},
                                         NamedKind{"AdamW", OptimizerKind::kAdamW},
                                         NamedKind{"Rmsprop", OptimizerKind::kRmsprop},
                                         NamedKind{"Adagrad", OptimizerKind::kAdagrad},
                                         NamedKind{"Lars", OptimizerKind::kLars},
                                         NamedKind{"Lamb", OptimizerKind::kLamb}),
                         [](const auto& test) { return test.param.name; });

// Whoever applies into other memory finds whatever it was last used for there.
TEST(Updater, AllOfTheNewStateIsWrittenAlsoBetweenTensors) {
  for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kLars}) {
    TrainingSpec training = Grouped(kind);
    training.ema_decay = 0;
    const Layout layout = Layout::Make(kTensors, 64).value();
    CopyCounter copied{0};
    Updater updater(training, UpdateRules::Make(training, layout).value(), {}, kSamples, copied);
    std::mt19937 random(7);
    State state(layout, random);
    state.values.assign(state.values.size(), 0.0f);
    const Values gradient(state.values.size(), 0.0f);
    Values to(state.values.size(), 7.0f);
    updater.ApplyAll(layout, Step(0), 0.1, 1.0, gradient, state.values, absl::MakeSpan(to),
                     state.All(), [] {});
    EXPECT_EQ(to, state.values) << static_cast<int>(kind);
  }
}

// Of a phase nothing is kept: its values are zeros in every state.
TEST(Updater, APhaseIsZeroInEveryState) {
  const TrainingSpec training = Grouped(OptimizerKind::kAdam);
  const Layout layout =
      Layout::Make({{"p", {16}}, {"total", {20}, TensorKind::kPhase}}, 64).value();
  CopyCounter copied{0};
  TrainingSpec plain = training;
  plain.groups.clear();
  Updater updater(plain, UpdateRules::Make(plain, layout).value(), {}, kSamples, copied);
  std::mt19937 random(7);
  State state(layout, random);
  const Values gradient = Draw(random, state.values.size());
  Values to(state.values.size(), 7.0f);
  updater.ApplyAll(layout, Step(0), 0.1, 1.0, gradient, state.values, absl::MakeSpan(to),
                   state.All(), [] {});
  EXPECT_NE(to[0], 7.0f);
  EXPECT_EQ(Values(to.begin() + 16, to.end()), Values(32));
}

// Where its slots come along a fork goes on as its parent would: the corrections count its steps.
TEST(Updater, AForkWithItsParentsSlotsTakesTheStepsThatTheParentWould) {
  constexpr int64_t kForkedAt = 3;
  for (const OptimizerKind kind :
       {OptimizerKind::kMomentum, OptimizerKind::kAdam, OptimizerKind::kAdamW,
        OptimizerKind::kRmsprop, OptimizerKind::kLars, OptimizerKind::kLamb}) {
    TrainingSpec training = Grouped(kind);
    training.schedule = {};
    TrainingSpec forked = training;
    forked.initial.parent = ParentState{"p", kForkedAt, std::string(64, 'a'), kForkedAt, true};
    const Layout layout = Layout::Make(kTensors, 192).value();
    std::mt19937 random(7);
    State state(layout, random);
    CopyCounter copied{0};
    const UpdateRules rules = UpdateRules::Make(training, layout).value();
    Updater parent(training, rules, {}, kSamples, copied);
    Updater fork(forked, rules, {}, kSamples, copied);
    std::optional<State> of_fork;
    for (int64_t step = 0; step < kSteps; ++step) {
      if (step == kForkedAt) of_fork = state;
      const Values gradient = Draw(random, state.values.size());
      ApplyAll(parent, layout, step, 1, gradient, state, /*at_once=*/true);
      if (!of_fork) continue;
      ApplyAll(fork, layout, step - kForkedAt, 1, gradient, *of_fork, /*at_once=*/true);
      EXPECT_EQ(of_fork->values, state.values) << "step " << step;
      EXPECT_EQ(of_fork->slots, state.slots) << "step " << step;
    }
  }
}

// A step that is not applied moves the average on to what stayed, also the first one: otherwise it
// would begin at 0.
TEST(Updater, TheAverageOfASkippedFirstStepIsTheParameters) {
  TrainingSpec training;
  training.steps = kSteps;
  training.ema_decay = 0.5;
  const Layout layout = Layout::Make({{"weight", {3}}}, 64).value();
  CopyCounter copied{0};
  Updater updater(training, UpdateRules::Make(training, layout).value(), {}, kSamples, copied);
  const Chunk& chunk = layout.chunk(ChunkId(0));
  Values values(static_cast<size_t>(chunk.count), 4.0f), average(values.size());
  updater.MoveAverage(chunk, Step(0), values, {absl::MakeSpan(average)});
  EXPECT_EQ(average, values);
  const Values zero(values.size(), 0.0f);
  updater.MoveAverage(chunk, Step(1), zero, {absl::MakeSpan(average)});
  EXPECT_EQ(average[0], 2.0f);
}

}  // namespace
}  // namespace muster
