// A real process that saves for ever, killed at random moments.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "absl/strings/strip.h"
#include "lib/checkpoint/kept_name.h"
#include "lib/storage/kv.h"
#include "tests/lib/checkpoint/saver.h"
#include "tests/support/child.h"

namespace muster {
namespace {

constexpr Step kNoStep{int64_t{1} << 62};

std::string StoreOf(const std::string& dir) { return dir + "/store"; }
std::string FolderOf(const std::string& dir) { return dir + "/checkpoints"; }

// The child: goes on from the newest checkpoint, for ever.
int SaveForever(const std::string& dir) {
  auto kv = OpenRocks(StoreOf(dir), {kCatalogueFamily});
  if (!kv.ok()) return 1;
  Catalogue catalogue(**kv);
  const auto files = CheckpointFilesIn(FolderOf(dir));
  const auto listing = catalogue.List(kJob);
  if (!listing.ok()) return 1;
  const auto& found = listing->manifests;
  if (!catalogue.RemoveOrphans(*files, kJob, LineageNumber(1), kNoStep).ok()) return 1;
  const Layout layout = LargeLayout();
  for (int64_t step = found.empty() ? 0 : found.back().step.value() + 1;; ++step) {
    if (!SaveOne(catalogue, *files, layout, step, static_cast<uint64_t>(getpid()), Report).ok())
      return 1;
    Report("pruned");
  }
}

class CheckpointKillTest : public DirTest {
 protected:
  // Each holds what was saved, to the last bit.
  void ExpectAllLoad(const std::vector<Manifest>& manifests, const Layout& layout) {
    for (const Manifest& manifest : manifests) {
      const auto loaded = LoadWhole(*CheckpointFilesIn(FolderOf(dir_)), manifest, layout);
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      EXPECT_EQ(*loaded, MakeState(layout, static_cast<uint64_t>(manifest.step.value())));
    }
  }
  // Of removals that were cut short, as a coordinator's start does.
  void DropMarks(const std::vector<Manifest>& manifests) {
    const auto files = CheckpointFilesIn(FolderOf(dir_));
    for (const Manifest& manifest : manifests)
      ASSERT_TRUE(files->Remove(GoingFileOf(manifest.lineage, manifest.step)).ok());
  }
};

using Microseconds = std::chrono::microseconds;

constexpr int kEnoughOrphans = 4;
// Several stages of a saving.
constexpr int64_t kLongestDelay = 12'000;

void Spin(Microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

// The last step that the child said was committed; it is killed that long after so many reports,
// wherever it is by then.
int64_t RunAndKill(const std::string& dir, size_t lines, Microseconds delay, int64_t committed) {
  Child child({"--save-forever", dir});
  std::string line;
  const auto note = [&] {
    absl::string_view rest = line;
    if (absl::ConsumePrefix(&rest, "committed ")) committed = std::stoll(std::string(rest));
  };
  for (size_t i = 0; i < lines; ++i) {
    EXPECT_TRUE(child.ReadLine(line)) << "the saver ended by itself";
    note();
  }
  Spin(delay);
  child.Kill();
  while (child.ReadLine(line)) note();
  return committed;
}

TEST_F(CheckpointKillTest, TheNewestVisibleOneAlwaysLoads) {
  const Layout layout = LargeLayout();
  std::mt19937 random(20);
  int64_t committed = -1;
  int orphaned = 0;
  // Twenty times, and until enough of the kills have landed inside a saving.
  for (int round = 0; round < 20 || (orphaned < kEnoughOrphans && round < 200); ++round) {
    SCOPED_TRACE(absl::StrCat("round ", round));
    const size_t lines = 1 + random() % 11;
    const Microseconds delay(random() % kLongestDelay);
    committed = RunAndKill(dir_, lines, delay, committed);
    auto kv = OpenRocks(StoreOf(dir_), {kCatalogueFamily});
    ASSERT_TRUE(kv.ok()) << kv.status();
    Catalogue catalogue(**kv);
    const auto listing = catalogue.List(kJob);
    ASSERT_TRUE(listing.ok() && listing->damaged.empty());
    if (committed < 0 && listing->manifests.empty()) continue;
    ASSERT_FALSE(listing->manifests.empty());
    EXPECT_GE(listing->manifests.back().step.value(), committed);
    ExpectAllLoad(listing->manifests, layout);
    DropMarks(listing->manifests);
    const size_t files = FilesUnder(FolderOf(dir_)).size();
    ASSERT_TRUE(
        catalogue.RemoveOrphans(*CheckpointFilesIn(FolderOf(dir_)), kJob, LineageNumber(1), kNoStep)
            .ok());
    EXPECT_EQ(FilesUnder(FolderOf(dir_)).size(), 2 * listing->manifests.size());
    orphaned += files > 2 * listing->manifests.size();
    ExpectAllLoad(listing->manifests, layout);
  }
  EXPECT_GT(committed, 5);
  EXPECT_GE(orphaned, kEnoughOrphans)
      << "the kills did not land inside savings: this test proves nothing";
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--save-forever") return muster::SaveForever(argv[2]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
