#include "lib/domain/update_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

using testing::HasSubstr;

// Ascending in the flat space, which has its parameters in reverse, with what lies between.
TEST(UpdateRules, ListWholeTensorsWithWhatAdapts) {
  TrainingSpec training;
  training.optimizer = {
      .kind = OptimizerKind::kLamb, .weight_decay = 0.25, .weight_decay_on = DecayOn::kMatrices};
  training.groups = {{.match = "head.*", .learning_rate_factor = 2, .weight_decay = 0.5}};
  const Layout layout =
      *Layout::Make({{"stem", {5, 5}}, {"head.bias", {3}}, {"mean", {2}, TensorKind::kBuffer}}, 64);
  const UpdateRules rules = *UpdateRules::Make(training, layout);
  const std::vector<TensorRule> expected = {
      {0, 3, 16, {.learning_rate_factor = 2, .weight_decay = 0.5}, /*adapts=*/false},
      {16, 41, layout.parameter_elements(), {.weight_decay = 0.25}, /*adapts=*/true}};
  EXPECT_EQ(rules.tensors(), expected);
  training.optimizer.weight_decay_on = DecayOn::kAll;
  EXPECT_TRUE(UpdateRules::Make(training, layout)->tensors()[0].adapts);
}

// The slow twin, straight from what a pattern means.
bool SlowMatch(absl::string_view pattern, absl::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*')
    return SlowMatch(pattern.substr(1), text) ||
           (!text.empty() && SlowMatch(pattern, text.substr(1)));
  return !text.empty() && (pattern[0] == '?' || pattern[0] == text[0]) &&
         SlowMatch(pattern.substr(1), text.substr(1));
}

TEST(MatchesPattern, IsWhatPeopleExpect) {
  EXPECT_TRUE(MatchesPattern("*.bias", "layers.0.bias"));
  EXPECT_FALSE(MatchesPattern("*.bias", "layers.0.bias2"));
  EXPECT_FALSE(MatchesPattern("*.bias", "bias"));
  EXPECT_TRUE(MatchesPattern("layers.?.weight", "layers.7.weight"));
  EXPECT_FALSE(MatchesPattern("layers.?.weight", "layers.12.weight"));
  EXPECT_TRUE(MatchesPattern("*", ""));
  EXPECT_TRUE(MatchesPattern("head.weight", "head.weight"));
  EXPECT_FALSE(MatchesPattern("head", "head.weight"));
}

TEST(MatchesPattern, EqualsItsSlowTwin) {
  std::mt19937 random(3);
  const auto draw = [&](const std::string& letters, size_t most) {
    std::string text;
    for (size_t n = random() % (most + 1); n > 0; --n) text += letters[random() % letters.size()];
    return text;
  };
  int matched = 0;
  for (int round = 0; round < 20'000; ++round) {
    const std::string pattern = draw("ab*?", 6), text = draw("ab", 8);
    ASSERT_EQ(MatchesPattern(pattern, text), SlowMatch(pattern, text)) << pattern << " on " << text;
    matched += MatchesPattern(pattern, text) ? 1 : 0;
  }
  EXPECT_GT(matched, 1000);
}

// With going back to every star this would take longer than the universe has.
TEST(MatchesPattern, ManyStarsTakeNoTime) {
  std::string pattern;
  for (int i = 0; i < 300; ++i) pattern += "a*";
  EXPECT_FALSE(MatchesPattern(absl::StrCat(pattern, "b"), std::string(1000, 'a')));
}

const std::vector<TensorSpec> kTensors = {
    {"stem.weight", {40, 3}},          {"stem.bias", {40}}, {"norm.scale", {40}},
    {"head.weight", {40, 10}},         {"head.bias", {10}}, {"scalar", {}},
    {"seen", {3}, TensorKind::kBuffer}};

Layout LayoutOf() { return Layout::Make(kTensors, 64).value(); }

// The rule of each element of a parameter, by its name alone.
UpdateRule SlowRule(const TrainingSpec& training, const TensorSpec& tensor) {
  UpdateRule rule;
  rule.weight_decay = training.optimizer.weight_decay;
  if (training.optimizer.weight_decay_on == DecayOn::kMatrices && tensor.shape.size() < 2)
    rule.weight_decay = 0;
  for (const ParameterGroup& group : training.groups) {
    if (!SlowMatch(group.match, tensor.name)) continue;
    rule.learning_rate_factor = group.learning_rate_factor;
    rule.frozen = group.frozen;
    if (group.weight_decay) rule.weight_decay = *group.weight_decay;
    break;
  }
  return rule;
}

void ExpectRules(const TrainingSpec& training) {
  const Layout layout = LayoutOf();
  const absl::StatusOr<UpdateRules> rules = UpdateRules::Make(training, layout);
  ASSERT_TRUE(rules.ok()) << rules.status();
  for (const Placed& tensor : layout.tensors()) {
    if (tensor.spec.kind == TensorKind::kBuffer) continue;
    for (int64_t e = tensor.offset; e < tensor.offset + tensor.count; ++e) {
      const std::vector<UpdateRun> runs = rules->In(e, 1);
      ASSERT_EQ(runs.size(), 1u);
      ASSERT_EQ(runs[0].begin, e);
      ASSERT_EQ(runs[0].end, e + 1);
      ASSERT_TRUE(runs[0].rule == SlowRule(training, tensor.spec)) << tensor.spec.name;
    }
  }
  for (const Chunk& chunk : layout.chunks()) {
    if (chunk.kind == TensorKind::kBuffer) continue;
    int64_t at = chunk.offset;
    for (const UpdateRun& run : rules->In(chunk.offset, chunk.count)) {
      EXPECT_EQ(run.begin, at);
      at = run.end;
    }
    EXPECT_EQ(at, chunk.offset + chunk.count) << "all of a chunk has a rule";
  }
}

// Tied weights: a group may call them by either name.
TEST(UpdateRules, AParameterBelongsToAGroupByAnyOfItsNames) {
  const Layout layout =
      Layout::Make({{.name = "embedding.weight", .shape = {4, 2}, .aliases = {"head.weight"}},
                    {.name = "head.bias", .shape = {4}}},
                   64)
          .value();
  TrainingSpec training;
  training.groups = {{.match = "head.weight", .frozen = true}};
  const absl::StatusOr<UpdateRules> rules = UpdateRules::Make(training, layout);
  ASSERT_TRUE(rules.ok()) << rules.status();
  EXPECT_TRUE(rules->In(layout.tensors()[0].offset, 1)[0].rule.frozen);
  EXPECT_FALSE(rules->In(layout.tensors()[1].offset, 1)[0].rule.frozen);
}

TEST(UpdateRules, AreThoseOfTheFirstGroupThatMatches) {
  TrainingSpec training;
  ExpectRules(training);
  training.optimizer.weight_decay = 0.01;
  ExpectRules(training);
  training.optimizer.weight_decay_on = DecayOn::kMatrices;
  ExpectRules(training);
  training.groups = {{.match = "*.bias", .weight_decay = 0.5},
                     {.match = "stem.*", .frozen = true},
                     {.match = "sca*", .learning_rate_factor = 0},
                     {.match = "head.weight", .learning_rate_factor = 10}};
  ExpectRules(training);
  training.groups = {{.match = "*", .frozen = true}};
  ExpectRules(training);
}

TEST(UpdateRules, OneRuleForAllIsOneRun) {
  TrainingSpec training;
  training.optimizer.weight_decay = 0.25;
  const Layout layout = LayoutOf();
  const UpdateRules rules = UpdateRules::Make(training, layout).value();
  EXPECT_EQ(rules.In(0, layout.parameter_elements()).size(), 1u);
}

TEST(UpdateRules, ZeroWhatIsFrozenAndNothingElse) {
  TrainingSpec training;
  training.groups = {{.match = "stem.*", .frozen = true}, {.match = "scalar", .frozen = true}};
  const Layout layout = LayoutOf();
  const UpdateRules rules = UpdateRules::Make(training, layout).value();
  std::vector<float> values(static_cast<size_t>(layout.parameter_elements()), 1.0f);
  for (const Chunk& chunk : layout.chunks())
    if (chunk.kind == TensorKind::kParameter)
      rules.ZeroFrozen(chunk.offset,
                       absl::MakeSpan(values).subspan(static_cast<size_t>(chunk.offset),
                                                      static_cast<size_t>(chunk.count)));
  for (const Placed& tensor : layout.tensors()) {
    if (tensor.spec.kind == TensorKind::kBuffer) continue;
    const bool frozen = tensor.spec.name == "scalar" || tensor.spec.name.substr(0, 5) == "stem.";
    for (int64_t e = tensor.offset; e < tensor.offset + tensor.count; ++e)
      ASSERT_EQ(values[static_cast<size_t>(e)], frozen ? 0.0f : 1.0f) << tensor.spec.name;
  }
}

TEST(UpdateRules, AGroupWithoutAParameterIsAnErrorThatNamesIt) {
  const auto error = [](std::vector<ParameterGroup> groups) {
    TrainingSpec training;
    training.groups = std::move(groups);
    const absl::Status status = UpdateRules::Make(training, LayoutOf()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    return std::string(status.message());
  };
  EXPECT_EQ(error({{.match = "*.bias"}, {.match = "*.bais"}}),
            "groups[1].match: '*.bais' matches no parameter; there are stem.weight, stem.bias, "
            "norm.scale, head.weight, head.bias, scalar");
  EXPECT_THAT(error({{.match = "seen"}}), HasSubstr("groups[0].match: 'seen' matches no parameter"))
      << "a buffer is not updated";
  EXPECT_EQ(error({{.match = "head.*"}, {.match = "head.bias", .frozen = true}}),
            "groups[1].match: 'head.bias' matches only parameters of groups before it; write the "
            "narrower group first");
}

}  // namespace
}  // namespace muster
