// A coordinator that is started while its disk is full. In a binary of its own, before any thread:
// a mount namespace belongs to a thread, and the program inherits it.
#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/coordinator/control_client.h"
#include "tests/coordinator/program.h"
#include "tests/support/small_disk.h"

namespace muster::coordinator {
namespace {

constexpr char kSpec[] =
    R"({"name":"count","task":"counting","lanes":4,"batch":8,"epochs":2,"reduction":"sum","optimizer":{"kind":"sgd","learning_rate":1}})";
constexpr int kCannotNow = 75;

TEST(CoordinatorFullDiskTest, SaysThatItCanBeStartedLaterAndThenTheJobIsThere) {
  const SmallDisk disk(::testing::TempDir() + "coordinator-full-disk-" + std::to_string(getpid()));
  if (!disk.status().ok()) GTEST_SKIP() << disk.status();
  const std::string dir = disk.path() + "/store";
  const std::string log = ::testing::TempDir() + "coordinator-full-disk.log";
  {
    const Program program(dir, {"--log", log});
    ASSERT_EQ(MakeRestClient(program.http())->Submit("a", kSpec).code, "ok");
  }
  const std::string ballast = disk.Fill();
  ASSERT_FALSE(ballast.empty());
  {
    Program program(dir, {"--log", "/dev/stderr"});
    EXPECT_FALSE(program.listens());
    EXPECT_EQ(program.Wait(), kCannotNow);
    EXPECT_THAT(program.Said(), ::testing::HasSubstr("free some space"));
  }
  std::filesystem::remove(ballast);
  const Program program(dir, {"--log", log});
  ASSERT_TRUE(program.listens());
  EXPECT_EQ(MakeRestClient(program.http())->Get("a").state, "checking");
}

}  // namespace
}  // namespace muster::coordinator
