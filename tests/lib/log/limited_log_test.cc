#include "lib/log/limited_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/log/log.h"
#include "tests/support/hand_clock.h"

namespace muster {
namespace {

using testing::EndsWith;

TEST(LimitedLog, TellsSomeAMinuteAndCountsTheRest) {
  const std::string file = testing::TempDir() + "/limited_log_test";
  std::filesystem::remove(file);
  ASSERT_TRUE(StartLog({.program = "p", .file = file}).ok());
  HandClock clock;
  LimitedLog log(clock);
  for (int i = 0; i < 100'000; ++i) log.Warn("stranger %d", i);
  clock.Advance(std::chrono::minutes(1));
  log.Warn("stranger %d", 100'000);
  ASSERT_TRUE(StartLog({.program = "muster"}).ok());

  std::vector<std::string> lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), size_t{kToldInAMinute} + 1);
  EXPECT_THAT(lines[0], EndsWith(" warning p stranger 0"));
  EXPECT_THAT(lines.back(), EndsWith(absl::StrCat(" warning p (", 100'000 - kToldInAMinute,
                                                  " more like this before) stranger 100000")));
}

}  // namespace
}  // namespace muster
