#include <gtest/gtest.h>
#include <unistd.h>

#include "lib/storage/kv.h"
#include "tests/lib/checkpoint/saver.h"
#include "tests/support/small_disk.h"

namespace muster {
namespace {

class CheckpointFullDiskTest : public testing::Test {
 protected:
  absl::Status SaveStep(int64_t step) {
    return SaveOne(catalogue_, *files_, layout_, step, 0, [](const std::string&) {});
  }
  void ExpectNewest(int64_t step) {
    const auto listing = catalogue_.List(kJob);
    ASSERT_TRUE(listing.ok() && !listing->manifests.empty());
    const Manifest& newest = listing->manifests.back();
    EXPECT_EQ(newest.step, Step(step));
    const auto loaded = LoadWhole(*files_, newest, layout_);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(*loaded, MakeState(layout_, static_cast<uint64_t>(step)));
  }
  std::vector<std::string> Segments() {
    std::vector<std::string> files = FilesUnder(disk_.path());
    std::erase(files, "ballast");
    return files;
  }

  const SmallDisk disk_{testing::TempDir() + "/checkpoint_full_disk_test_" +
                        std::to_string(getpid())};
  const std::unique_ptr<CheckpointFiles> files_ = CheckpointFilesIn(disk_.path());
  const Layout layout_ = LargeLayout();
  const std::unique_ptr<Kv> kv_ = OpenMemory({kCatalogueFamily});
  Catalogue catalogue_{*kv_};
};

TEST_F(CheckpointFullDiskTest, LosesOnlyTheNewOne) {
  if (!disk_.status().ok()) GTEST_SKIP() << disk_.status();
  const absl::Status first = SaveStep(1);
  ASSERT_TRUE(first.ok()) << first;
  const auto before = Segments();
  const std::string ballast = disk_.Fill();
  ASSERT_FALSE(ballast.empty());
  const absl::Status full = SaveStep(2);
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_NE(full.message().find("lineage-1-step-2"), absl::string_view::npos) << full;
  EXPECT_EQ(Segments(), before);
  ExpectNewest(1);
  // Room for a part of a segment only.
  std::filesystem::resize_file(ballast, std::filesystem::file_size(ballast) - (300 << 10));
  const absl::Status part = SaveStep(3);
  EXPECT_TRUE(absl::IsResourceExhausted(part)) << part;
  EXPECT_EQ(Segments(), before);
  ExpectNewest(1);
  std::filesystem::remove(ballast);
  const absl::Status again = SaveStep(4);
  EXPECT_TRUE(again.ok()) << again;
  ExpectNewest(4);
}

}  // namespace
}  // namespace muster
