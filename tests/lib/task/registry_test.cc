#include "lib/task/registry.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/domain/job.h"

namespace muster {
namespace {

bool IsNumber(const TaskParameter& parameter) {
  return parameter.kind == ParameterKind::kInteger || parameter.kind == ParameterKind::kReal;
}

double DefaultOf(const TaskParameter& parameter) {
  return std::get<double>(parameter.default_value);
}

TEST(Registry, IsInNameOrderWithoutRepeats) {
  const auto by_name = [](const TaskInfo& a, const TaskInfo& b) { return a.name < b.name; };
  EXPECT_TRUE(std::is_sorted(Tasks().begin(), Tasks().end(), by_name));
  for (const TaskInfo& task : Tasks()) {
    std::set<std::string> names;
    for (const TaskParameter& parameter : task.parameters)
      EXPECT_TRUE(names.insert(parameter.name).second) << parameter.name;
    EXPECT_EQ(FindTask(task.name), &task);
    EXPECT_FALSE(task.help.empty()) << task.name;
  }
}

TEST(Registry, DefaultsAreAllowed) {
  for (const TaskInfo& task : Tasks()) {
    for (const TaskParameter& p : task.parameters) {
      EXPECT_FALSE(p.help.empty()) << p.name;
      if (!p.choices.empty()) {
        EXPECT_THAT(p.choices, testing::Contains(std::get<std::string>(p.default_value)));
      }
      if (!IsNumber(p)) continue;
      EXPECT_LE(p.min, DefaultOf(p)) << p.name;
      EXPECT_GE(p.max, DefaultOf(p)) << p.name;
      if (p.kind == ParameterKind::kInteger) {
        for (double number : {DefaultOf(p), p.min, p.max})
          EXPECT_EQ(number, std::floor(number)) << p.name;
      }
    }
    EXPECT_NE(task.data_needed, task.default_samples > 0) << task.name;
  }
}

TEST(Registry, KnowsNothingElse) {
  EXPECT_EQ(FindTask(""), nullptr);
  EXPECT_EQ(FindTask("code-l"), nullptr);
  EXPECT_EQ(FindTask("counting")->Parameter("layers"), nullptr);
  ASSERT_NE(FindTask("code-lm")->Parameter("layers"), nullptr);
  EXPECT_EQ(DefaultOf(*FindTask("code-lm")->Parameter("layers")), 4);
}

// The coordinator takes no record that says so.
TEST(Registry, NoSampleHasMoreTokensThanItMayWeigh) {
  EXPECT_LE(FindTask("code-lm")->Parameter("context")->max, kMostSampleWeight);
  EXPECT_LE(FindTask("transformer")->Parameter("target_length")->max, kMostSampleWeight);
}

}  // namespace
}  // namespace muster
