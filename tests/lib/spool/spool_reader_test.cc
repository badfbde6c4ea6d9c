#include "lib/spool/spool_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "lib/spool/segment.h"
#include "tests/lib/spool/spooled.h"
#include "tests/support/hand_clock.h"

namespace muster {
namespace {

using testing::HasSubstr;

class SpoolReaderTest : public testing::Test {
 protected:
  absl::Status Read(const SpoolSegment& fact, uint64_t first, uint64_t count,
                    uint64_t sample_bytes = 3) {
    samples_.assign(static_cast<size_t>(count * sample_bytes), '\0');
    return ReadSpooledFile(
        folder_.path(), fact, sample_bytes, first,
        absl::MakeSpan(reinterpret_cast<std::byte*>(samples_.data()), samples_.size()), patience_);
  }
  std::string File(const SpoolSegment& fact) const {
    return folder_ / NameOf({fact.number, fact.writer});
  }

  const Folder folder_;
  HandClock clock_;
  int pauses_ = 0;
  std::function<void()> meanwhile_ = [] {};
  SpoolPatience patience_{.clock = &clock_, .pause = [this](Duration time) {
                            ++pauses_;
                            clock_.Advance(time);
                            meanwhile_();
                            return true;
                          }};
  std::string samples_;
};

TEST_F(SpoolReaderTest, ReadsAnyOfTheFacts) {
  const SpoolSegment fact = WriteSegment(folder_.path(), 1, 40, 5);
  for (uint64_t first = 40; first < 45; ++first)
    for (uint64_t count = 0; first + count <= 45; ++count) {
      ASSERT_TRUE(Read(fact, first, count).ok());
      EXPECT_EQ(samples_, Samples(first, count));
    }
  EXPECT_EQ(pauses_, 0);
}

// What stands behind the facts is nobody's, and may be anything.
TEST_F(SpoolReaderTest, ReadsNoByteBeyond) {
  struct Asked final : SpoolBytes {
    std::string file, text = "f";
    mutable uint64_t most = 0;
    const std::string& name() const override { return text; }
    absl::StatusOr<size_t> ReadAt(uint64_t offset, absl::Span<std::byte> into) const override {
      most = std::max(most, offset + into.size());
      std::memcpy(into.data(), file.data() + offset, into.size());
      return into.size();
    }
  };
  SpoolSegment fact = WriteSegment(folder_.path(), 1, 40, 5);
  Asked bytes;
  bytes.file = folder_.Get(NameOf({1, kWriter}));
  fact.count = 3;
  std::string samples(6, '\0');
  ASSERT_TRUE(ReadSpooled(bytes, fact, 3, 41,
                          absl::MakeSpan(reinterpret_cast<std::byte*>(samples.data()), 6))
                  .ok());
  EXPECT_EQ(samples, Samples(41, 2));
  EXPECT_EQ(bytes.most, SpoolFileBytes(3, 3));
}

TEST_F(SpoolReaderTest, WaitsForWhatIsNotSeenYet) {
  SpoolSegment fact = WriteSegment(folder_.path(), 1, 0, 2);
  const std::string whole = folder_.Get(NameOf({1, kWriter}));
  // No file, then a part of the head, of a sample, and all.
  std::filesystem::remove(File(fact));
  std::vector<size_t> sizes = {20, kSpoolHeadBytes, kSpoolHeadBytes + 9, whole.size()};
  meanwhile_ = [&] {
    folder_.Put(NameOf({1, kWriter}), whole.substr(0, sizes.front()));
    sizes.erase(sizes.begin());
  };
  const absl::Status read = Read(fact, 0, 2);
  ASSERT_TRUE(read.ok()) << read;
  EXPECT_EQ(samples_, Samples(0, 2));
  EXPECT_EQ(pauses_, 4);
}

TEST_F(SpoolReaderTest, GivesUpAfterAMinuteAndNamesTheFile) {
  SpoolSegment fact = WriteSegment(folder_.path(), 1, 0, 2);
  fact.count = 3;
  const absl::Status short_file = Read(fact, 2, 1);
  EXPECT_TRUE(absl::IsUnavailable(short_file)) << short_file;
  EXPECT_THAT(short_file.message(),
              HasSubstr(File(fact) + ": ends at byte 78, and should have 85"));
  EXPECT_THAT(short_file.message(), HasSubstr("60 s"));
  EXPECT_EQ(pauses_, 600);
  std::filesystem::remove(File(fact));
  const absl::Status no_file = Read(fact, 0, 1);
  EXPECT_TRUE(absl::IsUnavailable(no_file)) << no_file;
  EXPECT_THAT(no_file.message(), HasSubstr(File(fact)));
}

TEST_F(SpoolReaderTest, StopsWhenNobodyWantsItAnyMore) {
  patience_.pause = [](Duration) { return false; };
  EXPECT_TRUE(absl::IsCancelled(Read({1, kWriter, 0, 1}, 0, 1)));
}

TEST_F(SpoolReaderTest, WhatIsWrongIsToldAtOnce) {
  const SpoolSegment fact = WriteSegment(folder_.path(), 1, 0, 3);
  const std::string whole = folder_.Get(NameOf({1, kWriter}));
  std::string changed = whole;
  changed[80] ^= 1;
  folder_.Put(NameOf({1, kWriter}), changed);
  EXPECT_TRUE(Read(fact, 0, 2).ok());
  const absl::Status damaged = Read(fact, 0, 3);
  EXPECT_TRUE(absl::IsDataLoss(damaged));
  EXPECT_THAT(damaged.message(),
              HasSubstr(File(fact) + ": at byte 78: the checksum of position 2 is wrong"));
  folder_.Put(NameOf({1, kWriter}), std::string(200, 'x'));
  EXPECT_TRUE(absl::IsDataLoss(Read(fact, 0, 3)));
  folder_.Put(NameOf({1, kWriter}), whole);
  EXPECT_TRUE(absl::IsDataLoss(Read(fact, 0, 1, 4)));
  // What could hang us, or leads elsewhere.
  std::filesystem::remove(File(fact));
  ASSERT_EQ(mkfifo(File(fact).c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsDataLoss(Read(fact, 0, 1)));
  std::filesystem::remove(File(fact));
  folder_.Put("other", whole);
  std::filesystem::create_symlink(folder_ / "other", File(fact));
  EXPECT_TRUE(absl::IsDataLoss(Read(fact, 0, 1)));
  EXPECT_EQ(pauses_, 0);
}

}  // namespace
}  // namespace muster
