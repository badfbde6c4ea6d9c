#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "lib/lane_counter/lane_counter.h"
#include "tests/support/small_disk.h"

namespace muster {
namespace {

TEST(LaneCounterFullDiskTest, SaysThatTheDiskIsFull) {
  const SmallDisk disk(testing::TempDir() + "muster-lanes-" + std::to_string(getpid()));
  if (!disk.status().ok()) GTEST_SKIP() << disk.status();
  const std::string ballast = disk.Fill();
  ASSERT_FALSE(ballast.empty());
  const std::string file = disk.path() + "/worker-0.lanes";
  const auto full = LaneCounter::Open(file, {1, 2});
  ASSERT_FALSE(full.ok());
  EXPECT_TRUE(absl::IsResourceExhausted(full.status())) << full.status();
  EXPECT_NE(full.status().message().find(file), std::string::npos) << full.status();
  std::filesystem::remove(ballast);
  const auto counter = LaneCounter::Open(file, {1, 2});
  ASSERT_TRUE(counter.ok()) << counter.status();
  EXPECT_TRUE((*counter)->Count(LineageNumber(1), Step(4)).ok());
  EXPECT_EQ(ReadLaneCounts(file)->back().total, 1);
}

}  // namespace
}  // namespace muster
