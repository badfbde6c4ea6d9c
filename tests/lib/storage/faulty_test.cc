#include "lib/storage/faulty.h"

#include <gtest/gtest.h>

#include <random>

namespace muster {
namespace {

const std::vector<std::string> kFamilies = {"journal", "ledger"};

std::unique_ptr<FaultyKv> MakeStore() { return *FaultyKv::Wrap(OpenMemory(kFamilies), kFamilies); }

absl::Status Put(Kv& kv, const std::string& key, const std::string& value, Durability durability) {
  Batch batch;
  batch.Put("journal", key, value);
  batch.Put("ledger", key, value);
  return kv.Write(batch, durability);
}

TEST(FaultyKvTest, ACrashForgetsWhatWasNotSynced) {
  auto kv = MakeStore();
  ASSERT_TRUE(Put(*kv, "a", "1", Durability::kSynced).ok());
  ASSERT_TRUE(Put(*kv, "a", "2", Durability::kBuffered).ok());
  ASSERT_TRUE(Put(*kv, "b", "1", Durability::kBuffered).ok());
  EXPECT_EQ(kv->unsynced(), 2u);
  EXPECT_EQ(*kv->Get("journal", "a"), "2");
  ASSERT_TRUE(kv->Crash().ok());
  EXPECT_EQ(*kv->Get("journal", "a"), "1");
  EXPECT_TRUE(absl::IsNotFound(kv->Get("ledger", "b").status()));
}

TEST(FaultyKvTest, ASyncedBatchTakesTheEarlierOnesAlong) {
  auto kv = MakeStore();
  ASSERT_TRUE(Put(*kv, "a", "1", Durability::kBuffered).ok());
  ASSERT_TRUE(Put(*kv, "b", "1", Durability::kSynced).ok());
  ASSERT_TRUE(kv->Crash().ok());
  EXPECT_EQ(*kv->Get("journal", "a"), "1");
}

TEST(FaultyKvTest, WhatSurvivesIsAPrefixThatHoldsAllThatWasSynced) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    auto kv = MakeStore();
    const int writes = static_cast<int>(random() % 30);
    int synced = 0;
    for (int i = 1; i <= writes; ++i) {
      const bool sync = random() % 4 == 0;
      ASSERT_TRUE(
          Put(*kv, std::to_string(i), "x", sync ? Durability::kSynced : Durability::kBuffered)
              .ok());
      if (sync) synced = i;
    }
    const size_t survivors = random() % 10;
    ASSERT_TRUE(kv->Crash(survivors).ok());
    const int alive = std::min(writes, synced + static_cast<int>(survivors));
    for (int i = 1; i <= writes; ++i) {
      EXPECT_EQ(kv->Get("journal", std::to_string(i)).ok(), i <= alive)
          << "seed " << seed << " write " << i;
      EXPECT_EQ(kv->Get("ledger", std::to_string(i)).ok(), i <= alive)
          << "seed " << seed << " write " << i;
    }
  }
}

TEST(FaultyKvTest, TheNthCallFailsAndDoesNothing) {
  auto kv = MakeStore();
  kv->FailCall(2, absl::ResourceExhaustedError("disk full"));
  EXPECT_TRUE(Put(*kv, "a", "1", Durability::kSynced).ok());
  EXPECT_TRUE(kv->Get("journal", "a").ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Put(*kv, "b", "1", Durability::kSynced)));
  EXPECT_TRUE(absl::IsNotFound(kv->Get("journal", "b").status()));
  EXPECT_TRUE(Put(*kv, "b", "1", Durability::kSynced).ok());
}

TEST(FaultyKvTest, BeginsWithWhatTheDurableStoreHolds) {
  auto durable = OpenMemory(kFamilies);
  ASSERT_TRUE(Put(*durable, "old", "1", Durability::kSynced).ok());
  auto kv = FaultyKv::Wrap(std::move(durable), kFamilies);
  ASSERT_TRUE(kv.ok()) << kv.status();
  EXPECT_EQ(*(*kv)->Get("ledger", "old"), "1");
}

}  // namespace
}  // namespace muster
