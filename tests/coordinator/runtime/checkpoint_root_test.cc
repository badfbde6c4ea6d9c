#include "coordinator/runtime/checkpoint_root.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/whole_file.h"

namespace muster::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CheckpointRootTest : public ::testing::Test {
 protected:
  CheckpointRootTest() {
    if (mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~CheckpointRootTest() override { std::filesystem::remove_all(path_); }

  std::string path_ = ::testing::TempDir() + "checkpoint-root-XXXXXX";
};

TEST_F(CheckpointRootTest, BelongsToTheClusterThatCameFirst) {
  ASSERT_TRUE(CheckpointRoot::Take(path_, "aa").ok());
  EXPECT_EQ(ReadWholeFile(path_ + "/.owner").value(), "aa\n");
  const auto other = CheckpointRoot::Take(path_, "bb");
  EXPECT_TRUE(absl::IsFailedPrecondition(other.status())) << other.status();
  EXPECT_THAT(std::string(other.status().message()),
              AllOf(HasSubstr(path_), HasSubstr("cluster aa"), HasSubstr("cluster bb"),
                    HasSubstr("delete " + path_ + "/.owner")));
  EXPECT_TRUE(CheckpointRoot::Take(path_, "aa").ok());
  std::filesystem::remove(path_ + "/.owner");
  EXPECT_TRUE(CheckpointRoot::Take(path_, "bb").ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckpointRoot::Take(path_, "aa").status()));
}

TEST_F(CheckpointRootTest, IsHeldByOneCoordinatorAtATime) {
  auto held = CheckpointRoot::Take(path_, "aa");
  ASSERT_TRUE(held.ok()) << held.status();
  const auto second = CheckpointRoot::Take(path_, "aa");
  EXPECT_TRUE(absl::IsAlreadyExists(second.status())) << second.status();
  { const CheckpointRoot moved = *std::move(held); }
  EXPECT_TRUE(CheckpointRoot::Take(path_, "aa").ok());
}

TEST_F(CheckpointRootTest, AnOwnerFileThatNamesNobodyIsSaid) {
  std::ofstream(path_ + "/.owner") << "\n";
  const auto root = CheckpointRoot::Take(path_, "aa");
  EXPECT_TRUE(absl::IsDataLoss(root.status())) << root.status();
  EXPECT_THAT(std::string(root.status().message()), HasSubstr("delete it"));
}

TEST_F(CheckpointRootTest, LeavesNothingElseBehind) {
  ASSERT_TRUE(CheckpointRoot::Take(path_, "aa").ok());
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path_)) ++files;
  EXPECT_EQ(files, 1);
}

}  // namespace
}  // namespace muster::coordinator
