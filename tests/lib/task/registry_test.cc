#include "lib/task/registry.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "gtest/gtest.h"
#include "lib/domain/job.h"

namespace muster {
namespace {

std::map<std::string, double> Defaults(const TaskInfo& task) {
  std::map<std::string, double> values;
  for (const TaskParameter& parameter : task.parameters)
    values[parameter.name] = parameter.default_value;
  return values;
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

TEST(Registry, DefaultsAreAllowedAndFitTogether) {
  for (const TaskInfo& task : Tasks()) {
    for (const TaskParameter& p : task.parameters) {
      EXPECT_LE(p.min, p.default_value) << p.name;
      EXPECT_GE(p.max, p.default_value) << p.name;
      if (p.integer) {
        for (double number : {p.default_value, p.min, p.max})
          EXPECT_EQ(number, std::floor(number)) << p.name;
      }
      EXPECT_FALSE(p.help.empty()) << p.name;
    }
    EXPECT_FALSE(task.Conflict(Defaults(task))) << task.name;
    EXPECT_NE(task.data_needed, task.default_samples > 0) << task.name;
  }
}

TEST(Registry, KnowsNothingElse) {
  EXPECT_EQ(FindTask(""), nullptr);
  EXPECT_EQ(FindTask("code-l"), nullptr);
  EXPECT_EQ(FindTask("counting")->Parameter("layers"), nullptr);
  ASSERT_NE(FindTask("code-lm")->Parameter("layers"), nullptr);
  EXPECT_EQ(FindTask("code-lm")->Parameter("layers")->default_value, 4);
}

// The coordinator takes no record that says so.
TEST(Registry, NoSampleHasMoreTokensThanItMayWeigh) {
  EXPECT_LE(FindTask("code-lm")->Parameter("context")->max, kMostSampleWeight);
  EXPECT_LE(FindTask("transformer")->Parameter("target_length")->max, kMostSampleWeight);
}

TEST(Registry, HeadsDivideTheWidth) {
  for (const char* name : {"code-lm", "transformer"}) {
    const TaskInfo& task = *FindTask(name);
    auto values = Defaults(task);
    values["heads"] = 5;
    const auto conflict = task.Conflict(values);
    ASSERT_TRUE(conflict) << name;
    EXPECT_EQ(conflict->parameter, "heads");
    EXPECT_NE(conflict->reason.find("5 does not divide width"), std::string::npos)
        << conflict->reason;
  }
}

}  // namespace
}  // namespace muster
