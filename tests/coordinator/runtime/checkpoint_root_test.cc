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

  TermNumber Next() { return ++term_; }
  // `claimed`: as the journal keeps it.
  absl::StatusOr<CheckpointRoot> Take(const std::string& cluster, TermNumber term,
                                      std::string& claimed) {
    return CheckpointRoot::Take(path_, cluster, term, claimed, [&](const std::string& claim) {
      claimed = claim;
      return absl::OkStatus();
    });
  }
  int CountFiles() const {
    int files = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path_)) ++files;
    return files;
  }

  static void MakeOld(const std::string& claim) {
    std::filesystem::last_write_time(
        claim, std::filesystem::file_time_type::clock::now() - 2 * kYoungClaim);
  }

  TermNumber term_;
  std::string aa_, bb_;  // what the journals of two clusters claimed last
  std::string path_ = ::testing::TempDir() + "checkpoint-root-XXXXXX";
};

TEST_F(CheckpointRootTest, BelongsToTheClusterThatCameFirst) {
  ASSERT_TRUE(Take("aa", Next(), aa_).ok());
  EXPECT_EQ(ReadWholeFile(path_ + "/.owner").value(), "aa\n");
  const auto other = Take("bb", Next(), bb_);
  EXPECT_TRUE(absl::IsFailedPrecondition(other.status())) << other.status();
  EXPECT_THAT(std::string(other.status().message()),
              AllOf(HasSubstr(path_), HasSubstr("cluster aa"), HasSubstr("cluster bb"),
                    HasSubstr("delete " + path_ + "/.owner")));
  EXPECT_TRUE(Take("aa", Next(), aa_).ok());
  std::filesystem::remove(path_ + "/.owner");
  EXPECT_TRUE(Take("bb", Next(), bb_).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Take("aa", Next(), aa_).status()));
}

TEST_F(CheckpointRootTest, IsHeldByOneCoordinatorAtATime) {
  auto held = Take("aa", Next(), aa_);
  ASSERT_TRUE(held.ok()) << held.status();
  const auto second = Take("aa", Next(), aa_);
  EXPECT_TRUE(absl::IsAlreadyExists(second.status())) << second.status();
  { const CheckpointRoot moved = *std::move(held); }
  EXPECT_TRUE(Take("aa", Next(), aa_).ok());
}

TEST_F(CheckpointRootTest, AnOwnerFileThatNamesNobodyIsSaid) {
  std::ofstream(path_ + "/.owner") << "\n";
  const auto root = Take("aa", Next(), aa_);
  EXPECT_TRUE(absl::IsDataLoss(root.status())) << root.status();
  EXPECT_THAT(std::string(root.status().message()), HasSubstr("delete it"));
}

TEST_F(CheckpointRootTest, LeavesOneClaimAndNothingElseBehind) {
  ASSERT_TRUE(Take("aa", TermNumber(1), aa_).ok());
  ASSERT_TRUE(Take("aa", TermNumber(10), aa_).ok());
  EXPECT_TRUE(std::filesystem::exists(path_ + "/.term-aa-10"));
  EXPECT_EQ(CountFiles(), 2);
}

// A copy of a journal begins with the same term as the one that it was copied from: agents and
// members would obey both. However often it is started, it does not get past the other's terms.
TEST_F(CheckpointRootTest, ACopyOfAJournalIsRefusedOnceAnotherWentOn) {
  ASSERT_TRUE(Take("aa", TermNumber(6), aa_).ok());
  std::string copy = aa_;
  ASSERT_TRUE(Take("aa", TermNumber(7), aa_).ok());
  for (const int64_t term : {7, 8, 9}) {
    const auto refused = Take("aa", TermNumber(term), copy);
    ASSERT_TRUE(absl::IsDataLoss(refused.status())) << term << ": " << refused.status();
    EXPECT_THAT(std::string(refused.status().message()),
                AllOf(HasSubstr("of term 7"), HasSubstr("older copy"),
                      HasSubstr("delete " + path_ + "/.term-aa-7")));
  }
  EXPECT_TRUE(Take("aa", TermNumber(8), aa_).ok());
  std::filesystem::remove(path_ + "/.term-aa-8");
  EXPECT_TRUE(Take("aa", TermNumber(7), copy).ok()) << "a person has chosen the copy";
  EXPECT_TRUE(absl::IsDataLoss(Take("aa", TermNumber(7), bb_).status()))
      << "another claim of the same term";
  std::filesystem::remove(path_ + "/.owner");
  EXPECT_TRUE(Take("bb", TermNumber(1), bb_).ok()) << "terms of another cluster";
}

// Killed before others could see the claim.
TEST_F(CheckpointRootTest, AClaimThatWasOnlyNotedBindsNobody) {
  ASSERT_TRUE(Take("aa", TermNumber(6), aa_).ok());
  aa_ = "7 0123";
  EXPECT_TRUE(Take("aa", TermNumber(8), aa_).ok());
}

// As where a file system of several hosts has lost the lock of one of them.
TEST_F(CheckpointRootTest, OneThatWasReplacedLearnsItFromTheClaims) {
  const auto root = Take("aa", TermNumber(7), aa_);
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_TRUE(root->CheckClaim().ok()) << root->CheckClaim();
  std::ofstream(path_ + "/.term-aa-8") << "aa\n";
  EXPECT_TRUE(absl::IsAborted(root->CheckClaim())) << root->CheckClaim();
  EXPECT_THAT(std::string(root->CheckClaim().message()),
              AllOf(HasSubstr("term 7"), HasSubstr("replaced by one of term 8")));
  std::filesystem::remove_all(path_);  // nothing is known
  EXPECT_FALSE(root->CheckClaim().ok());
  EXPECT_FALSE(absl::IsAborted(root->CheckClaim()));
}

// What whoever wants to adopt a job of a cluster looks at: whether that cluster lives.
TEST_F(CheckpointRootTest, AClaimIsYoungWhileItsCoordinatorLooksAtIt) {
  const auto root = Take("aa", TermNumber(7), aa_);
  ASSERT_TRUE(root.ok()) << root.status();
  const std::string claim = path_ + "/.term-aa-7";
  const absl::Status lives = CheckNobodyLives(path_, "bb");
  EXPECT_TRUE(absl::IsFailedPrecondition(lives)) << lives;
  EXPECT_THAT(std::string(lives.message()),
              AllOf(HasSubstr(path_), HasSubstr(".term-aa-7"), HasSubstr("End that coordinator")));
  EXPECT_TRUE(CheckNobodyLives(path_, "aa").ok()) << "it is our own";
  MakeOld(claim);
  EXPECT_TRUE(CheckNobodyLives(path_, "bb").ok());
  ASSERT_TRUE(root->CheckClaim().ok());
  EXPECT_FALSE(CheckNobodyLives(path_, "bb").ok());
  // One that was replaced keeps nobody out.
  MakeOld(claim);
  std::ofstream(path_ + "/.term-aa-8") << "8 0123\n";
  MakeOld(path_ + "/.term-aa-8");
  EXPECT_TRUE(absl::IsAborted(root->CheckClaim()));
  EXPECT_TRUE(CheckNobodyLives(path_, "bb").ok());
  EXPECT_TRUE(CheckNobodyLives(path_ + "/nowhere", "bb").ok());
}

// What whoever wants to delete a checkpoint holds meanwhile.
TEST_F(CheckpointRootTest, IsHeldAtRestOnlyWhereNoCoordinatorWorks) {
  EXPECT_TRUE(HoldAtRest(path_).ok()) << "no cluster has claimed it";
  {
    const auto root = Take("aa", TermNumber(7), aa_);
    ASSERT_TRUE(root.ok()) << root.status();
    // Whatever its claim says: a disk may be slow for minutes.
    MakeOld(path_ + "/.term-aa-7");
    const auto refused = HoldAtRest(path_);
    EXPECT_TRUE(absl::IsFailedPrecondition(refused.status())) << refused.status();
    EXPECT_THAT(std::string(refused.status().message()),
                AllOf(HasSubstr(path_), HasSubstr("cluster aa"), HasSubstr("End that")));
    ASSERT_TRUE(root->CheckClaim().ok());
  }
  // It may live on another machine, whose lock nobody sees here.
  const auto young = HoldAtRest(path_);
  EXPECT_TRUE(absl::IsFailedPrecondition(young.status())) << young.status();
  EXPECT_THAT(std::string(young.status().message()),
              AllOf(HasSubstr(".term-aa-7"), HasSubstr("a minute after its end")));
  MakeOld(path_ + "/.term-aa-7");
  auto held = HoldAtRest(path_);
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_TRUE(HoldAtRest(path_).ok()) << "two may delete at once";
  EXPECT_TRUE(absl::IsAlreadyExists(Take("aa", TermNumber(8), aa_).status()));
  held->Close();
  EXPECT_TRUE(Take("aa", TermNumber(8), aa_).ok());
}

}  // namespace
}  // namespace muster::coordinator
