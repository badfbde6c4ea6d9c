#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "lib/storage/kv.h"
#include "tests/support/small_disk.h"

namespace muster {
namespace {

std::unique_ptr<Kv> Open(const std::string& dir) {
  auto kv = OpenRocks(dir, {"journal", "ledger"});
  EXPECT_TRUE(kv.ok()) << kv.status();
  return kv.ok() ? *std::move(kv) : nullptr;
}

absl::Status Put(Kv& kv, const std::string& key, const std::string& value) {
  Batch batch;
  batch.Put("journal", key, value);
  batch.Put("ledger", key, value);
  return kv.Write(batch);
}

TEST(RocksFullDiskTest, IsAnErrorAndTheStoreGoesOnOnceThereIsSpace) {
  const SmallDisk disk(testing::TempDir() + "/rocks_full_disk_test_" + std::to_string(getpid()));
  if (!disk.status().ok()) GTEST_SKIP() << disk.status();
  const std::string store = disk.path() + "/store";
  std::string refused;
  {
    const auto kv = Open(store);
    ASSERT_NE(kv, nullptr);
    ASSERT_TRUE(Put(*kv, "before", "1").ok());
    const std::string ballast = disk.Fill();
    ASSERT_FALSE(ballast.empty());
    absl::Status status;
    int filled = 0;
    for (; status.ok() && filled < 1000; ++filled)
      status = Put(*kv, "full" + std::to_string(filled), std::string(1000, 'v'));
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    refused = "full" + std::to_string(filled - 1);
    status = Put(*kv, "still", std::string(8000, 'v'));
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_EQ(*kv->Get("journal", "before"), "1");
    EXPECT_TRUE(absl::IsNotFound(kv->Get("journal", refused).status()));
    std::filesystem::remove(ballast);
    const absl::Status after = Put(*kv, "after", "1");
    EXPECT_TRUE(after.ok()) << after;
    EXPECT_TRUE(absl::IsNotFound(kv->Get("journal", refused).status()));
  }
  const auto kv = Open(store);
  ASSERT_NE(kv, nullptr);
  EXPECT_EQ(*kv->Get("journal", "before"), "1");
  EXPECT_EQ(*kv->Get("ledger", "after"), "1");
  EXPECT_TRUE(absl::IsNotFound(kv->Get("journal", "still").status()));
  EXPECT_TRUE(absl::IsNotFound(kv->Get("journal", refused).status()));
}

}  // namespace
}  // namespace muster
