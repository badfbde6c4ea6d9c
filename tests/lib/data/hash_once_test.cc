#include "lib/data/hash_once.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/data/hash_listener.h"
#include "lib/data/kept_hash.h"
#include "tests/lib/data/halfway.h"
#include "tests/lib/data/opened_set.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
namespace fs = std::filesystem;
using Told = std::function<void(uint64_t, uint64_t)>;

const std::string kHash(64, 'a'), kOther(64, 'b');

std::vector<std::string> Listed(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

class HashOnceTest : public testing::Test {
 protected:
  HashOnceTest() : folder_(files_.root() + "/cache/hashes") {}

  HashOnceOptions Options(const std::string& hash = kHash) {
    HashOnceOptions options;
    options.folder = folder_;
    options.key = "k";
    options.about = "a test";
    options.finds = options.keeps = true;
    options.compute = [this, hash](const Told& told) -> absl::StatusOr<std::string> {
      ++computed_;
      told(1, 2);
      return hash;
    };
    return options;
  }

  const Files files_;
  const std::string folder_;
  int computed_ = 0;
};

// A process that hashes, is at a half, says so, and goes on no more.
class HashesHalf : public Halfway {
 public:
  explicit HashesHalf(HashOnceOptions options)
      : Halfway([&](const std::function<void()>& stop) {
          options.compute = [&](const Told& told) -> absl::StatusOr<std::string> {
            told(1, 2);
            stop();
            return kHash;
          };
          HashOnce(options).IgnoreError();
        }) {}
};

TEST_F(HashOnceTest, IsComputedOnceAndFoundFromThenOn) {
  const auto first = HashOnce(Options()), second = HashOnce(Options(kOther));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_FALSE(first->was_kept);
  EXPECT_TRUE(second->was_kept);
  EXPECT_EQ(second->hash, kHash);
  EXPECT_EQ(computed_, 1);
  EXPECT_THAT(Listed(folder_), ElementsAre("k")) << "its lock goes";
}

TEST_F(HashOnceTest, OnesOwnIsTold) {
  HashOnceOptions options = Options();
  std::vector<PreparedSoFar> told;
  options.told = [&](const PreparedSoFar& so_far) { told.push_back(so_far); };
  ASSERT_TRUE(HashOnce(options).ok());
  ASSERT_FALSE(told.empty());
  EXPECT_TRUE(told.front().is_ours);
  EXPECT_EQ(TextOf(told.front()), "is hashing data: 0 %");
  EXPECT_EQ(told.back().share, 0.5);
}

TEST_F(HashOnceTest, TheOthersWaitForWhoeverComputesItAndWhenThatIsKilledOneTakesOver) {
  HashesHalf other(Options());
  HashOnceOptions options = Options(kOther);
  std::vector<std::string> told;
  options.told = [&](const PreparedSoFar& so_far) {
    told.push_back(TextOf(so_far));
    if (!so_far.is_ours) other.Kill();
  };
  const std::string waits =
      absl::StrCat("waits for process ", other.pid(), ", which is hashing the same data: 50 %");
  const auto hashed = HashOnce(options);
  ASSERT_TRUE(hashed.ok()) << hashed.status();
  EXPECT_EQ(hashed->hash, kOther) << "of what the other left nothing is used";
  EXPECT_FALSE(hashed->was_kept);
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.front(), waits);
  EXPECT_EQ(FindKeptHash(folder_, "k"), kOther);
}

TEST_F(HashOnceTest, WhoWaitsTakesWhatIsKept) {
  HashesHalf other(Options());
  HashOnceOptions options = Options(kOther);
  options.told = [&](const PreparedSoFar&) {
    ASSERT_EQ(KeepHash(folder_, "k", kHash, "by the other"), absl::OkStatus());
  };
  const auto hashed = HashOnce(options);
  ASSERT_TRUE(hashed.ok());
  EXPECT_EQ(hashed->hash, kHash);
  EXPECT_TRUE(hashed->was_kept);
  EXPECT_EQ(computed_, 0);
}

TEST_F(HashOnceTest, WaitingEndsWhereItIsOfNoUse) {
  HashesHalf other(Options());
  HashOnceOptions options = Options();
  options.may_wait = [] { return false; };
  EXPECT_EQ(HashOnce(options).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(computed_, 0);
}

TEST_F(HashOnceTest, AnErrorPassesAndLeavesNothing) {
  HashOnceOptions options = Options();
  options.compute = [](const Told&) -> absl::StatusOr<std::string> {
    return absl::DataLossError("x.npy: cut");
  };
  EXPECT_EQ(HashOnce(options).status(), absl::DataLossError("x.npy: cut"));
  EXPECT_THAT(Listed(folder_), IsEmpty());
  EXPECT_EQ(HashOnce(Options())->hash, kHash);
}

// data.verify: full, and files that may change unseen: nobody waits for another.
TEST_F(HashOnceTest, WhatIsNotKeptIsNotWaitedFor) {
  HashesHalf other(Options());
  for (const bool finds : {true, false}) {
    HashOnceOptions options = Options(kOther);
    options.finds = finds;
    options.keeps = !finds;
    EXPECT_EQ(HashOnce(options)->hash, kOther);
  }
}

TEST_F(HashOnceTest, WithoutAPlaceItIsComputed) {
  HashOnceOptions options = Options();
  options.folder = files_.Write("file", "") + "/hashes";
  EXPECT_EQ(HashOnce(options)->hash, kHash);
  options.folder = "";
  EXPECT_EQ(HashOnce(options)->hash, kHash);
}

// What a task opens tells whoever makes the task, and nobody else.
TEST(HashListening, HearsWhatADataSetReads) {
  const Files files;
  files.Write("x.bin", std::string(1000, 'x'));
  DataSpec data{.paths = {files.root()}, .format = DataFormat::kText};
  data.shape = {10};
  int heard = 0;
  HashListener listener{[&](const PreparedSoFar& so_far) { heard += so_far.hashes; },
                        [] { return true; }, std::chrono::milliseconds(0)};
  {
    const HashListening listening(muster_set_hash_listener, listener);
    ASSERT_TRUE(OpenDataSet(data, 7).ok());
  }
  EXPECT_GT(heard, 0);
  const int before = heard;
  ASSERT_TRUE(OpenDataSet(data, 7).ok());
  EXPECT_EQ(heard, before);
  listener.quiet_for = std::chrono::hours(1);
  const HashListening listening(muster_set_hash_listener, listener);
  ASSERT_TRUE(OpenDataSet(data, 7).ok());
  EXPECT_EQ(heard, before) << "it took no time";
}

// Who opens a large set finds and reads files for long before there is anything to tell people.
TEST(HashListening, IsToldOfFilesThatAreFoundAndRead) {
  const Files files;
  files.Write("one.csv", "1,2\n3,4\n");
  files.Write("two.csv", "5,6\n");
  DataSpec data{.paths = {files.root()}, .format = DataFormat::kCsv};
  data.header = false;
  int went_on = 0;
  HashListener listener{[](const PreparedSoFar&) {}, [] { return true; }};
  listener.goes_on = [&] { ++went_on; };
  {
    const HashListening listening(muster_set_hash_listener, listener);
    const auto set = OpenDataSet(data, 7);
    ASSERT_TRUE(set.ok()) << set.status();
  }
  EXPECT_GE(went_on, 4) << "two are found, and both are read";
  const int before = went_on;
  ASSERT_TRUE(OpenDataSet(data, 7).ok());
  EXPECT_EQ(went_on, before);
}

}  // namespace
}  // namespace muster
