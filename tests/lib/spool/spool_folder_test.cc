#include "lib/spool/spool_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "lib/spool/segment.h"
#include "tests/lib/spool/spooled.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Incarnation kOld{0, 1}, kCutOff{0, 2}, kNew{0, 3};

TEST(SpoolFolder, TrimmedSegmentsGo) {
  const Folder folder;
  std::vector<SpoolSegment> facts;
  for (int64_t n = 0; n < 4; ++n)
    facts.push_back(WriteSegment(folder.path(), n, static_cast<uint64_t>(2 * n), 2));
  const std::vector<SpoolSegment> trimmed = TrimmedAt(facts, 5);
  ASSERT_TRUE(RemoveSegments(folder.path(), trimmed).ok());
  EXPECT_THAT(folder.Names(), ElementsAre(NameOf({2, kWriter}), NameOf({3, kWriter})));
  // A second time, and where nothing is any more.
  EXPECT_TRUE(RemoveSegments(folder.path(), trimmed).ok());
  EXPECT_TRUE(RemoveSegments(folder / "nowhere", trimmed).ok());
}

TEST(SpoolFolder, TheSweepLeavesFactsAndTheNewReadersFiles) {
  const Folder folder;
  const std::vector<SpoolSegment> facts = {WriteSegment(folder.path(), 0, 0, 2, kOld),
                                           WriteSegment(folder.path(), 1, 2, 2, kCutOff)};
  WriteSegment(folder.path(), 1, 2, 1, kOld);     // the other one of this number was told first
  WriteSegment(folder.path(), 2, 4, 9, kCutOff);  // never told
  WriteSegment(folder.path(), 2, 4, 1, kNew);     // has no row yet
  folder.Put("notes.txt", "of a person");
  ASSERT_TRUE(SweepSpool(folder.path(), facts, kNew).ok());
  EXPECT_THAT(folder.Names(),
              ElementsAre(NameOf({0, kOld}), NameOf({1, kCutOff}), NameOf({2, kNew}), "notes.txt"));
  EXPECT_TRUE(SweepSpool(folder / "nowhere", facts, kNew).ok());
}

TEST(SpoolFolder, TheSweepTakesWhatWasTrimmedThoughItsWriterLives) {
  const Folder folder;
  WriteSegment(folder.path(), 0, 0, 2, kNew);
  const std::vector<SpoolSegment> facts = {WriteSegment(folder.path(), 1, 2, 2, kNew)};
  WriteSegment(folder.path(), 2, 4, 1, kNew);  // has no row yet
  ASSERT_TRUE(SweepSpool(folder.path(), facts, kNew).ok());
  EXPECT_THAT(folder.Names(), ElementsAre(NameOf({1, kNew}), NameOf({2, kNew})));
}

TEST(SpoolFolder, OfADeletedJobNothingIsLeft) {
  const Folder folder;
  const std::string spool = folder / "stream";
  ASSERT_TRUE(MakeSpoolFolder(spool).ok());
  WriteSegment(spool, 0, 0, 2);
  ASSERT_TRUE(RemoveSpool(spool).ok());
  EXPECT_THAT(folder.Names(), IsEmpty());
  ASSERT_TRUE(RemoveSpool(spool).ok());
  // What we did not make stays.
  ASSERT_TRUE(MakeSpoolFolder(spool).ok());
  WriteSegment(spool, 0, 0, 2);
  folder.Put("stream/notes.txt", "of a person");
  ASSERT_TRUE(RemoveSpool(spool).ok());
  EXPECT_THAT(std::filesystem::exists(spool + "/notes.txt"), true);
  EXPECT_FALSE(std::filesystem::exists(spool + "/" + NameOf({0, kWriter})));
}

}  // namespace
}  // namespace muster
