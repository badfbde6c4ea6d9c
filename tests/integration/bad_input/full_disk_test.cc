// A run whose disk is full. In a binary of its own, before any thread: a mount namespace belongs to
// a thread, and the programs inherit it.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/bad_input/train.h"
#include "tests/support/program.h"
#include "tests/support/small_disk.h"

namespace muster::integration {
namespace {

namespace fs = std::filesystem;

// Room for all that the job writes, its history and the log of its store among it.
constexpr size_t kDiskMiB = 16;

std::map<std::string, std::string> SegmentsOf(const std::string& dir) {
  std::map<std::string, std::string> segments;
  for (const auto& entry : fs::recursive_directory_iterator(dir)) {
    if (entry.path().extension() != ".segment") continue;
    std::ifstream in(entry.path(), std::ios::binary);
    segments[entry.path()] = std::string(std::istreambuf_iterator<char>(in), {});
  }
  return segments;
}

TEST(FullDiskTest, TrainingGoesOnTheCheckpointIsGivenUpAndWorksAgainAfterwards) {
  const std::string spec =
      WriteText(MakeFolder() + "/spec.yaml", CountingSpec(1200, "workers: 2\n"));
  const std::string digest = UndisturbedDigest(spec);
  const SmallDisk disk(MakeFolder() + "/disk", kDiskMiB);
  if (!disk.status().ok()) GTEST_SKIP() << disk.status();
  const std::string dir = disk.path() + "/job";
  Program program(Train(spec, dir, {"--json"}));
  ASSERT_TRUE(program.WaitFor("checkpoint of step 200 is complete")) << program.output();
  const std::string ballast = disk.Fill();
  ASSERT_FALSE(ballast.empty());
  const size_t full = program.output().size();
  EXPECT_TRUE(program.WaitFor("No space left on device", full)) << "somebody says why";
  const auto before = SegmentsOf(dir + "/checkpoints");
  EXPECT_FALSE(before.empty());
  const size_t told = program.output().size();
  for (int step = 0; step < 300; ++step) {
    const size_t from = program.output().rfind("\"event\":\"step\"") + 1;
    ASSERT_TRUE(program.WaitFor("\"event\":\"step\"", std::max(from, told)))
        << "training stopped: " << program.output();
  }
  for (const auto& [path, bytes] : before)
    EXPECT_EQ(SegmentsOf(dir + "/checkpoints")[path], bytes) << path;
  fs::remove(ballast);
  const size_t freed = program.output().size();
  EXPECT_TRUE(program.WaitFor("is complete", freed)) << "checkpoints work again";
  EXPECT_EQ(program.End(), 0) << program.output();
  const auto result = ResultOf(program);
  ASSERT_TRUE(result.is_object()) << program.output();
  EXPECT_EQ(result["digest"], digest);
  EXPECT_EQ(result["rewinds"], 0);
}

int CountOf(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(FullDiskTest, AKilledCoordinatorComesBackOnceThereIsRoomAndNoWorkerIsLost) {
  const std::string spec =
      WriteText(MakeFolder() + "/spec.yaml", CountingSpec(1200, "workers: 2\n"));
  const std::string digest = UndisturbedDigest(spec);
  const SmallDisk disk(MakeFolder() + "/disk", kDiskMiB);
  if (!disk.status().ok()) GTEST_SKIP() << disk.status();
  Program program(Train(spec, disk.path() + "/job", {"--json"}));
  ASSERT_TRUE(program.WaitFor("checkpoint of step 200 is complete")) << program.output();
  const std::string ballast = disk.Fill();
  ASSERT_FALSE(ballast.empty());
  const std::string started = "\"process_start\",\"process\":\"coordinator\",\"pid\":";
  const size_t pid = program.output().find(started);
  ASSERT_NE(pid, std::string::npos) << program.output();
  const size_t killed = program.output().size();
  ASSERT_EQ(kill(std::stoi(program.output().substr(pid + started.size())), SIGKILL), 0);
  ASSERT_TRUE(program.WaitFor("\"code\":75", killed)) << "it cannot start now";
  ASSERT_TRUE(program.WaitFor("\"event\":\"step\"", program.output().size()));
  fs::remove(ballast);
  EXPECT_EQ(program.End(), 0) << program.output();
  const auto result = ResultOf(program);
  ASSERT_TRUE(result.is_object()) << program.output();
  EXPECT_EQ(result["digest"], digest);
  EXPECT_EQ(result["rewinds"], 0);
  EXPECT_EQ(CountOf(program.output(), "\"process_start\",\"process\":\"worker-"), 2)
      << "the workers went on";
}

TEST(FullDiskTest, AJobIsNotBegunOnAFullDisk) {
  const std::string spec = WriteText(MakeFolder() + "/spec.yaml", CountingSpec(2));
  const SmallDisk disk(MakeFolder() + "/disk");
  if (!disk.status().ok()) GTEST_SKIP() << disk.status();
  ASSERT_FALSE(disk.Fill().empty());
  Program program(Train(spec, disk.path() + "/job"));
  EXPECT_EQ(program.End(), 1) << program.output();
  EXPECT_THAT(program.output(), ::testing::HasSubstr("free some space"));
}

}  // namespace
}  // namespace muster::integration
