#include "lib/spool/spool_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <filesystem>
#include <string>

#include "lib/spool/spool_reader.h"
#include "tests/lib/spool/spooled.h"

namespace muster {
namespace {

using testing::HasSubstr;

TEST(SpoolWriter, WritesWhatIsRead) {
  const Folder folder;
  const std::string spool = folder / "stream";
  ASSERT_TRUE(MakeSpoolFolder(spool).ok());
  ASSERT_TRUE(MakeSpoolFolder(spool).ok());
  auto writer = SpoolWriter::Create(spool, {3, kWriter}, 10, 3);
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_TRUE((*writer)->Append(BytesOf(Samples(10, 2))).ok());
  EXPECT_TRUE((*writer)->Append({}).ok());
  EXPECT_EQ((*writer)->samples(), 2u);
  EXPECT_EQ((*writer)->synced(), 0u);
  EXPECT_TRUE((*writer)->Sync().ok());
  EXPECT_EQ((*writer)->synced(), 2u);
  EXPECT_TRUE((*writer)->Append(BytesOf(Samples(12, 1))).ok());
  EXPECT_TRUE((*writer)->Sync().ok());
  EXPECT_EQ(std::filesystem::file_size((*writer)->path()), SpoolFileBytes(3, 3));
}

TEST(SpoolWriter, ManySamplesGoInPieces) {
  const Folder folder;
  constexpr uint64_t kCount = 400'000;
  const SpoolSegment fact = WriteSegment(folder.path(), 0, 5, kCount);
  std::string samples(3 * kCount, '\0');
  const RealClock clock;
  const absl::Status read =
      ReadSpooledFile(folder.path(), fact, 3, 5,
                      absl::MakeSpan(reinterpret_cast<std::byte*>(samples.data()), samples.size()),
                      {.clock = &clock, .pause = [](Duration) { return false; }});
  ASSERT_TRUE(read.ok()) << read;
  EXPECT_EQ(samples, Samples(5, kCount));
}

TEST(SpoolWriter, NobodyAppendsToAFileThatIsThere) {
  const Folder folder;
  WriteSegment(folder.path(), 3, 0, 1);
  const auto again = SpoolWriter::Create(folder.path(), {3, kWriter}, 0, 3);
  EXPECT_TRUE(absl::IsAlreadyExists(again.status())) << again.status();
  EXPECT_TRUE(SpoolWriter::Create(folder.path(), {3, {1, 1}}, 0, 3).ok());
}

TEST(SpoolWriter, LeavesNothingBehindInAJobThatIsGone) {
  const Folder folder;
  const absl::Status made = MakeSpoolFolder(folder / "gone/stream");
  EXPECT_TRUE(absl::IsNotFound(made)) << made;
  EXPECT_TRUE(
      absl::IsNotFound(SpoolWriter::Create(folder / "gone/stream", {0, kWriter}, 0, 3).status()));
  folder.Put("stream", "a file");
  EXPECT_FALSE(MakeSpoolFolder(folder / "stream").ok());
}

// As where the disk is full in the middle of a sample.
TEST(SpoolWriter, AWriteThatStopsHalfWayLeavesWholeSamplesAndEndsTheFile) {
  const Folder folder;
  auto writer = SpoolWriter::Create(folder.path(), {3, kWriter}, 0, 3);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->Append(BytesOf(Samples(0, 2))).ok());
  ASSERT_TRUE((*writer)->Sync().ok());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = SpoolFileBytes(3, 3) + 2;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status failed = (*writer)->Append(BytesOf(Samples(2, 2)));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, SIG_DFL);
  EXPECT_FALSE(failed.ok());
  EXPECT_THAT(failed.message(), HasSubstr("00000003-"));
  EXPECT_EQ(std::filesystem::file_size((*writer)->path()), SpoolFileBytes(2, 3));
  EXPECT_EQ((*writer)->synced(), 2u);
  for (const absl::Status& status : {(*writer)->Append(BytesOf(Samples(2, 1))), (*writer)->Sync()})
    EXPECT_THAT(status.message(), HasSubstr("begin another segment"));
}

}  // namespace
}  // namespace muster
