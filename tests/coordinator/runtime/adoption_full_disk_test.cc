// A binary of its own, as a small disk is seen only by threads that are begun after it.
#include <unistd.h>

#include <filesystem>
#include <string>

#include "coordinator/runtime/adoption.h"
#include "coordinator/runtime/checkpoints.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/coordinator/runtime/driver_rig.h"
#include "tests/support/small_disk.h"

namespace muster::coordinator {
namespace {

struct WithSmallDisk {
  const SmallDisk disk{::testing::TempDir() + "/adoption_full_disk_test_" +
                       std::to_string(getpid())};
};

class AdoptionFullDiskTest : public WithSmallDisk, public DriverRig {
 protected:
  absl::Status CopyOnto(const std::string& dir) {
    const AdoptionSource source{CheckpointDir(root_, "a"), "b"};
    const absl::StatusOr<AdoptionPlan> plan =
        PlanAdoption(source, journal_->cluster(), disk.path());
    if (!plan.ok()) return plan.status();
    return CopyAdopted(*plan, Catalogue(*kv_, journal_->cluster()), journal_->cluster(),
                       *CheckpointFilesIn(dir), [](uint64_t, uint64_t) {}, {})
        .status();
  }
};

TEST_F(AdoptionFullDiskTest, NothingOfTheCopyIsLeft) {
  if (!disk.status().ok()) GTEST_SKIP() << disk.status();
  SubmitJob();
  TrainToTheEnd();
  const std::string dir = CheckpointDir(disk.path(), "b");
  const std::string ballast = disk.Fill();
  ASSERT_FALSE(ballast.empty());
  const absl::Status full = CopyOnto(dir);
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_THAT(std::string(full.message()), ::testing::HasSubstr("free some space"));
  EXPECT_FALSE(std::filesystem::exists(dir));
  EXPECT_THAT(*Catalogue(*kv_).Jobs(), ::testing::ElementsAre("a"));
  std::filesystem::remove(ballast);
  const absl::Status again = CopyOnto(dir);
  EXPECT_TRUE(again.ok()) << again;
  EXPECT_THAT(*Catalogue(*kv_).Jobs(), ::testing::ElementsAre("a", "b"));
}

}  // namespace
}  // namespace muster::coordinator
