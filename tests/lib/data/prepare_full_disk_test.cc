// What is prepared on a disk that is full: a binary of its own, for the disk is one of its own,
// too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "lib/data/prepare_once.h"
#include "tests/support/small_disk.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

// Whoever does not look whether it could write has half of it at the end; nobody gets that.
TEST(PrepareOnce, AFullDiskLeavesNothingBehindAlsoWhereNobodyLooked) {
  const SmallDisk disk(testing::TempDir() + "small");
  if (!disk.status().ok()) GTEST_SKIP() << disk.status();
  PrepareOnceOptions options;
  options.folders = disk.path() + "/prepared";
  options.name = "a";
  options.make = [&](const std::string& files, const auto&) {
    std::ofstream(files + "/x") << std::string(size_t{8} << 20, 'x');
    EXPECT_FALSE(disk.Fill().empty());
    return absl::OkStatus();
  };
  const auto prepared = PrepareOnce(options);
  EXPECT_EQ(prepared.status().code(), absl::StatusCode::kResourceExhausted) << prepared.status();
  EXPECT_THAT(std::string(prepared.status().message()), testing::HasSubstr("free some space"));
  EXPECT_TRUE(fs::is_empty(options.folders));
  fs::remove(disk.path() + "/ballast");
  options.make = [](const std::string& files, const auto&) {
    std::ofstream(files + "/x") << "x";
    return absl::OkStatus();
  };
  EXPECT_TRUE(PrepareOnce(options).ok());
}

}  // namespace
}  // namespace muster
