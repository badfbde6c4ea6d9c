#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <random>
#include <string>

#include "lib/storage/kv.h"
#include "tests/support/small_disk.h"

namespace {

// A disk whose space ends and comes back from one moment to the next, as under a quota: RocksDB
// calls this in place of the C library's.
// The calls come from one thread.
std::function<bool()> log_has_space;

bool IsLog(int fd) {
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  return readlink(link.c_str(), path.data(), path.size() - 1) > 0 &&
         std::string(path.data()).ends_with(".log");
}

bool HasNoSpace(int fd) {
  if (!log_has_space || !IsLog(fd) || log_has_space()) return false;
  errno = ENOSPC;
  return true;
}

}  // namespace

extern "C" ssize_t write(int fd, const void* bytes, size_t size) {
  if (HasNoSpace(fd)) return -1;
  return syscall(SYS_write, fd, bytes, size);
}

extern "C" int fdatasync(int fd) {
  if (HasNoSpace(fd)) return -1;
  return static_cast<int>(syscall(SYS_fdatasync, fd));
}

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

// The log that is begun after the first failure fails as well.
TEST(RocksFullDiskTest, SpaceMayEndAgainAtOnce) {
  const std::string store =
      testing::TempDir() + "/rocks_space_again_test_" + std::to_string(getpid());
  std::filesystem::remove_all(store);
  constexpr int kWrites = 8;
  {
    const auto kv = Open(store);
    ASSERT_NE(kv, nullptr);
    std::mt19937 draw(7);
    log_has_space = [&] { return draw() % 2 == 0; };
    for (int i = 0; i < kWrites; ++i) {
      const std::string key = std::to_string(i);
      absl::Status put;
      for (int tries = 0; tries < 1000 && !(put = Put(*kv, key, "1")).ok(); ++tries)
        ASSERT_TRUE(absl::IsResourceExhausted(put)) << put;
      ASSERT_TRUE(put.ok()) << put;
      EXPECT_EQ(*kv->Get("journal", key), "1");
    }
    log_has_space = nullptr;
    EXPECT_TRUE(Put(*kv, "after", "1").ok());
  }
  {
    const auto kv = Open(store);
    ASSERT_NE(kv, nullptr);
    for (int i = 0; i < kWrites; ++i) EXPECT_EQ(*kv->Get("ledger", std::to_string(i)), "1");
    EXPECT_EQ(*kv->Get("ledger", "after"), "1");
  }
  std::filesystem::remove_all(store);
  std::filesystem::remove_all(MarksOf(store));
}

}  // namespace
}  // namespace muster
