// What every store promises, asked of memory and RocksDB alike.
#include "lib/storage/kv.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <random>
#include <thread>

namespace muster {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;
const std::vector<std::string> kFamilies = {"journal", "ledger", "catalogue"};

class KvTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (GetParam() == std::string("memory")) {
      kv_ = OpenMemory(kFamilies);
    } else {
      dir_ = testing::TempDir() + "/kv_test_" + std::to_string(getpid());
      std::filesystem::remove_all(dir_);
      std::filesystem::remove_all(MarksOf(dir_));
      auto rocks = OpenRocks(dir_, kFamilies);
      ASSERT_TRUE(rocks.ok()) << rocks.status();
      kv_ = *std::move(rocks);
    }
  }
  void TearDown() override {
    kv_.reset();
    if (dir_.empty()) return;
    std::filesystem::remove_all(dir_);
    std::filesystem::remove_all(MarksOf(dir_));
  }
  void Put(absl::string_view family, absl::string_view key, absl::string_view value) {
    Batch batch;
    batch.Put(family, key, value);
    ASSERT_TRUE(kv_->Write(batch).ok());
  }
  Pairs All(absl::string_view family, absl::string_view first = "", absl::string_view last = "") {
    auto pairs = ScanAll(*kv_, family, first, last);
    EXPECT_TRUE(pairs.ok()) << pairs.status();
    return pairs.value_or(Pairs());
  }

  std::string dir_;
  std::unique_ptr<Kv> kv_;
};

TEST_P(KvTest, FamiliesAreApart) {
  Put("journal", "k", "j");
  Put("ledger", "k", "l");
  EXPECT_EQ(*kv_->Get("journal", "k"), "j");
  EXPECT_EQ(*kv_->Get("ledger", "k"), "l");
  EXPECT_TRUE(absl::IsNotFound(kv_->Get("catalogue", "k").status()));
}

TEST_P(KvTest, UnknownFamilyIsRefusedAndNothingOfTheBatchApplied) {
  Batch batch;
  batch.Put("journal", "k", "v");
  batch.Put("nobody", "k", "v");
  const absl::Status status = kv_->Write(batch);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_NE(status.message().find("nobody"), absl::string_view::npos) << status;
  EXPECT_TRUE(absl::IsNotFound(kv_->Get("journal", "k").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(kv_->Get("nobody", "k").status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(kv_->Scan("nobody", "", "", [](auto, auto) { return true; })));
}

TEST_P(KvTest, ABatchIsAppliedInOrder) {
  Batch batch;
  batch.Put("journal", "a", "1");
  batch.Delete("journal", "a");
  batch.Put("journal", "b", "1");
  batch.Put("journal", "b", "2");
  batch.Delete("ledger", "absent");
  ASSERT_TRUE(kv_->Write(batch).ok());
  EXPECT_EQ(All("journal"), (Pairs{{"b", "2"}}));
}

TEST_P(KvTest, ScanIsHalfOpenAndComparesUnsignedBytes) {
  const std::string high("\xff\x00", 2);
  const std::string zero("\x00", 1);
  for (const std::string& key :
       {high, std::string("b"), zero, std::string("a"), std::string("ab")}) {
    Put("journal", key, "");
  }
  EXPECT_EQ(All("journal"), (Pairs{{zero, ""}, {"a", ""}, {"ab", ""}, {"b", ""}, {high, ""}}));
  EXPECT_EQ(All("journal", "a", "b"), (Pairs{{"a", ""}, {"ab", ""}}));
  EXPECT_EQ(All("journal", "a", "a"), Pairs());
  EXPECT_EQ(All("journal", "b", "a"), Pairs());
  EXPECT_EQ(All("journal", PrefixEnd("a")), (Pairs{{"b", ""}, {high, ""}}));
}

TEST_P(KvTest, AScanStopsWhenToldAndSeesTheStoreAsItWas) {
  for (const char* key : {"a", "b", "c", "d"}) Put("journal", key, "old");
  std::string seen;
  ASSERT_TRUE(kv_->Scan("journal", "", "",
                        [&](absl::string_view key, absl::string_view value) {
                          EXPECT_EQ(value, "old");
                          Put("journal", "c", "new");  // a visitor may use the store
                          seen += std::string(key);
                          return key != "c";
                        })
                  .ok());
  EXPECT_EQ(seen, "abc");
  EXPECT_EQ(*kv_->Get("journal", "c"), "new");
}

TEST_P(KvTest, EqualsAMapUnderRandomBatches) {
  std::mt19937 random(7);
  std::map<std::string, std::string> model;
  for (int round = 0; round < 200; ++round) {
    Batch batch;
    for (auto i = random() % 6; i > 0; --i) {
      const std::string key = std::to_string(random() % 50);
      if (random() % 3 == 0) {
        batch.Delete("ledger", key);
        model.erase(key);
      } else {
        const std::string value(random() % 300, static_cast<char>(random()));
        batch.Put("ledger", key, value);
        model[key] = value;
      }
    }
    ASSERT_TRUE(kv_->Write(batch).ok());
  }
  EXPECT_EQ(All("ledger"), Pairs(model.begin(), model.end()));
}

TEST_P(KvTest, ManyThreadsWriteWholeBatches) {
  constexpr int kThreads = 4;
  constexpr int kWrites = 100;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kWrites; ++i) {
        Batch batch;
        const std::string value = std::to_string(t) + ":" + std::to_string(i);
        batch.Put("journal", "left", value);
        batch.Put("ledger", "right", value);
        EXPECT_TRUE(kv_->Write(batch).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(*kv_->Get("journal", "left"), *kv_->Get("ledger", "right"));
}

INSTANTIATE_TEST_SUITE_P(Stores, KvTest, testing::Values("memory", "rocks"),
                         [](const auto& store) { return std::string(store.param); });

TEST(PrefixEndTest, IsTheSmallestKeyBehindThePrefix) {
  EXPECT_EQ(PrefixEnd("ab"), "ac");
  EXPECT_EQ(PrefixEnd("a\xff"), "b");
  EXPECT_EQ(PrefixEnd("\xff\xff"), "");
  EXPECT_EQ(PrefixEnd(""), "");
}

}  // namespace
}  // namespace muster
