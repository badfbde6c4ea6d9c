// A spool on a disk that is full for a while. A binary of its own: SmallDisk needs a single thread.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "lib/spool/runtime/folder_source.h"
#include "lib/spool/runtime/stream_reader_loop.h"
#include "lib/spool/segment.h"
#include "lib/spool/spool_reader.h"
#include "tests/lib/spool/spooled.h"
#include "tests/support/small_disk.h"

namespace muster {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr uint64_t kBytes = 1000;
constexpr uint64_t kSamples = 600;

std::string LargeSamples() {
  std::string samples;
  for (uint64_t i = 0; i < kSamples; ++i)
    samples += std::string(kBytes, static_cast<char>(i % 251));
  return samples;
}

TEST(SpoolFullDisk, TheReaderTriesAgainAndLosesAndDoublesNothing) {
  const SmallDisk disk(testing::TempDir() + "/spool_full_disk_test_" + std::to_string(getpid()));
  if (!disk.status().ok()) GTEST_SKIP() << disk.status();
  const Folder source;
  source.Put("a", LargeSamples());
  source.Put("END", "");
  const std::string ballast = disk.Fill();
  ASSERT_FALSE(ballast.empty());
  // Room for a part of what comes.
  std::filesystem::resize_file(ballast, std::filesystem::file_size(ballast) - (300 << 10));

  const RealClock clock;
  const auto folder_source = MakeFolderSource(source.path(), kBytes);
  std::vector<SpoolSegment> facts;
  std::vector<std::string> told;
  SpoolFrom from{.term = TermNumber(1), .room = 10'000};
  StreamReaderLoop* running = nullptr;
  StreamReaderLoop loop(
      {.folder = disk.path() + "/stream",
       .sample_bytes = kBytes,
       .writer = kWriter,
       .options = {.segment_samples = 100,
                   .sync_every = std::chrono::milliseconds(1),
                   .first_retry = std::chrono::milliseconds(1)},
       .source = folder_source.get(),
       .clock = &clock,
       .tell =
           [&](const Spooled& spooled) {
             const SpoolSegment fact{spooled.segment, kWriter, spooled.first, spooled.count};
             if (spooled.count > 0) {
               EXPECT_TRUE(AddFacts(facts, {&fact, 1}).ok());
             }
             if (spooled.end) return running->Stop(/*is_done=*/true);
             running->Post(AckSpooled{TermNumber(1), fact.end(), 0, from.room});
           },
       .told =
           [&](const std::string& words) {
             told.push_back(words);
             if (told.size() == 3) std::filesystem::remove(ballast);
           }});
  running = &loop;
  loop.Post(from);
  const absl::Status status = loop.Run();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_GE(told.size(), 3u);
  EXPECT_THAT(told, Contains(HasSubstr("free some space; it is tried again")));

  std::string all;
  for (const SpoolSegment& fact : facts) {
    std::string samples(kBytes * fact.count, '\0');
    const absl::Status read = ReadSpooledFile(
        disk.path() + "/stream", fact, kBytes, fact.first,
        absl::MakeSpan(reinterpret_cast<std::byte*>(samples.data()), samples.size()),
        {.clock = &clock, .pause = [](Duration) { return false; }});
    EXPECT_TRUE(read.ok()) << read;
    all += samples;
  }
  EXPECT_TRUE(all == LargeSamples());
}

}  // namespace
}  // namespace muster
