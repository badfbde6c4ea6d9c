// Samples that are converted onto a disk that is too small: a binary of its own, for the disk is
// one of its own, too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "lib/wire/job_codec.h"
#include "tests/lib/data/opened_set.h"
#include "tests/lib/data/written_files.h"
#include "tests/support/small_disk.h"
#include "worker/commands/convert.h"

namespace muster::worker {
namespace {

TEST(Convert, AFullDiskIsOneErrorAndNothingIsLeft) {
  const SmallDisk disk(testing::TempDir() + "small-convert");
  if (!disk.status().ok()) GTEST_SKIP() << disk.status();
  const Files files;
  files.Write("d/x.npy", Npy("<f4", {2'000'000}, std::string(8'000'000, 'x')));
  for (int i = 0; i < 80; ++i)
    files.Write(absl::StrCat("i/a/", i, ".png"),
                Png(Slope(64, 64)) + std::string(100'000, 'x'));  // what is behind is not read
  const struct {
    const char *folder, *format, *target;
    ConvertFormat as;
  } kTargets[] = {{"d", "numpy", "x.safetensors", ConvertFormat::kSafetensors},
                  {"d", "numpy", "folder", ConvertFormat::kNumpy},
                  {"i", "images", "x.tar", ConvertFormat::kWebDataset},
                  {"i", "images", "shards", ConvertFormat::kWebDataset}};
  for (const auto& [folder, format, target, as] : kTargets) {
    SCOPED_TRACE(target);
    const auto spec =
        ParseJobYaml(absl::StrCat("task: any\nsteps: 1\ndata: {paths: [", files.root(), "/", folder,
                                  "], format: ", format, "}"),
                     "a test");
    ASSERT_TRUE(spec.ok()) << spec.status();
    const auto converted =
        ConvertData(spec->training,
                    {.target = disk.path() + "/" + target, .format = as, .shard_bytes = 1 << 20});
    EXPECT_EQ(converted.status().code(), absl::StatusCode::kResourceExhausted)
        << converted.status();
    EXPECT_THAT(std::string(converted.status().message()), testing::HasSubstr("free some space"));
    EXPECT_TRUE(std::filesystem::is_empty(disk.path()));
  }
}

}  // namespace
}  // namespace muster::worker
