#include "lib/checkpoint/segment.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <limits>

#include "lib/domain/member_name.h"
#include "lib/kernels/crc.h"
#include "tests/lib/checkpoint/support.h"

namespace muster {
namespace {

const SegmentMeta kMeta = {kJob, LineageNumber(3), Step(40)};

class SegmentTest : public DirTest {
 protected:
  // Parts of the given sizes, slot i % 3, chunk i.
  Segment Write(const std::string& file, const std::vector<size_t>& sizes) {
    memory_.clear();
    std::vector<PartView> parts;
    for (size_t i = 0; i < sizes.size(); ++i) {
      std::vector<float>& values = memory_.emplace_back(sizes[i]);
      for (size_t k = 0; k < sizes[i]; ++k)
        values[k] = static_cast<float>(Mix64(i, k) % 4096) + 0.5f;
    }
    for (size_t i = 0; i < sizes.size(); ++i)
      parts.push_back({static_cast<int32_t>(i % 3), ChunkId(static_cast<int32_t>(i)), memory_[i]});
    auto segment = WriteSegment(*files_, file, kMeta, parts);
    EXPECT_TRUE(segment.ok()) << segment.status();
    return segment.value_or(Segment());
  }
  // Everything read and compared with what was written.
  absl::Status ReadAll(const Segment& segment) {
    auto reader = SegmentReader::Open(*files_, segment, kMeta);
    if (!reader.ok()) return reader.status();
    for (size_t i = 0; i < segment.entries.size(); ++i) {
      std::vector<float> values(segment.entries[i].bytes / sizeof(float));
      const absl::Status status = reader->Read(segment.entries[i], absl::MakeSpan(values));
      if (!status.ok()) return status;
      EXPECT_EQ(values, memory_[i]) << "wrong data without an error";
    }
    return absl::OkStatus();
  }
  std::string PathOf(const Segment& segment) const { return dir_ + "/" + segment.file; }

  std::vector<std::vector<float>> memory_;
};

// The error of a damaged file: kDataLoss that names it.
void ExpectNamed(const absl::Status& status, const Segment& segment, const std::string& what) {
  EXPECT_TRUE(absl::IsDataLoss(status)) << what << ": " << status;
  EXPECT_NE(status.message().find(segment.file), absl::string_view::npos) << what << ": " << status;
}

// What its file is named after may be as long as it likes.
TEST_F(SegmentTest, AMemberOfTheLongestNameWritesItsPart) {
  const std::string writer =
      WriterName({std::string(kLongestMemberName, 'a'), {~uint64_t{0}, ~uint64_t{0}}});
  const Segment segment =
      Write(SegmentFile(kMeta.lineage, kMeta.step,
                        writer + "-" + std::to_string(std::numeric_limits<int64_t>::max())),
            {1});
  EXPECT_TRUE(ReadAll(segment).ok());
}

TEST_F(SegmentTest, ReadsWhatWasWrittenInUglySizes) {
  for (const std::vector<size_t>& sizes :
       std::vector<std::vector<size_t>>{{}, {1}, {3, 1, 2}, {16, 17, 1, 65536, 5}, {1009, 65535}}) {
    const Segment segment = Write("s" + std::to_string(sizes.size()) + ".segment", sizes);
    EXPECT_EQ(segment.bytes, std::filesystem::file_size(PathOf(segment)));
    const absl::Status status = ReadAll(segment);
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST_F(SegmentTest, TellsOfEachPartTwice) {
  const std::vector<float> values(70);
  std::vector<size_t> told;
  ASSERT_TRUE(WriteSegment(*files_, "a.segment", kMeta,
                           {{0, ChunkId(0), values}, {0, ChunkId(1), {values.data(), 3}}},
                           [&](size_t bytes) { told.push_back(bytes); })
                  .ok());
  EXPECT_EQ(told, (std::vector<size_t>{280, 12, 280, 12}));
}

TEST_F(SegmentTest, MakesItsFolderAndLeavesNoTemporaryFile) {
  const Segment segment = Write(SegmentFile(LineageNumber(3), Step(40), "w0"), {5});
  EXPECT_EQ(segment.file, "lineage-3-step-40/w0.segment");
  EXPECT_EQ(FilesUnder(dir_), std::vector<std::string>{segment.file});
}

TEST(PlaceOfFolder, ANameIsReadAsItIsWrittenAndInNoOtherWay) {
  EXPECT_EQ(PlaceOfFolder("lineage-1-step-0"), std::pair(LineageNumber(1), Step(0)));
  EXPECT_EQ(PlaceOfFolder("lineage-12-step-340"), std::pair(LineageNumber(12), Step(340)));
  for (const char* name :
       {"lineage-1-step--5", "lineage--1-step-5", "lineage--1-step--5", "lineage-1-step-+5",
        "lineage-1-step-05", "lineage-01-step-5", "lineage-1-step- 5", "lineage-1-step-5 ",
        "lineage-1-step-", "lineage--step-5", "lineage-1-step-0x5", "lineage-1-step-5/",
        "lineage-1-step-99999999999999999999", "Lineage-1-step-5", "lineage-1"})
    EXPECT_EQ(PlaceOfFolder(name), std::nullopt) << name;
}

// A worker that outlives its deleted job must not bring the job's folder back.
TEST_F(SegmentTest, WhereTheFolderOfTheJobIsGoneNothingIsWritten) {
  std::filesystem::remove_all(dir_);
  const std::vector<float> values(4);
  const auto segment = WriteSegment(*files_, SegmentFile(LineageNumber(3), Step(40), "w0"), kMeta,
                                    {{0, ChunkId(0), values}});
  EXPECT_TRUE(absl::IsNotFound(segment.status())) << segment.status();
  EXPECT_FALSE(std::filesystem::exists(dir_));
}

TEST_F(SegmentTest, NeverWritesAFileTwice) {
  const Segment segment = Write("a.segment", {5});
  const std::vector<float> other(9);
  const auto again = WriteSegment(*files_, "a.segment", kMeta, {{0, ChunkId(0), other}});
  EXPECT_TRUE(absl::IsAlreadyExists(again.status())) << again.status();
  EXPECT_TRUE(ReadAll(segment).ok());
}

TEST_F(SegmentTest, RefusesBadPartsAndNames) {
  const std::vector<float> values(65537);
  const absl::Span<const float> all = values;
  const auto refused = [&](const std::string& file, const SegmentMeta& meta,
                           const std::vector<PartView>& parts) {
    const auto segment = WriteSegment(*files_, file, meta, parts);
    EXPECT_TRUE(absl::IsInvalidArgument(segment.status())) << segment.status();
  };
  refused("a", kMeta, {{0, ChunkId(0), all}});
  refused("a", kMeta, {{0, ChunkId(0), all.first(0)}});
  refused("a", kMeta, {{-1, ChunkId(0), all.first(1)}});
  refused("a", kMeta, {{0, ChunkId(-1), all.first(1)}});
  refused("a", kMeta, {{0, ChunkId(2), all.first(1)}, {0, ChunkId(2), all.first(1)}});
  refused("a", {"", LineageNumber(1), Step(1)}, {});
  refused("a", {std::string(5000, 'j'), LineageNumber(1), Step(1)}, {});
  for (const char* name : {"", "..", "../a", "/a", "a/b/c", "a//b", ".hidden", "a/", "a b", "a\nb"})
    refused(name, kMeta, {});
  EXPECT_EQ(FilesUnder(dir_), std::vector<std::string>());
}

TEST_F(SegmentTest, ADirectoryThatCannotBeMadeIsNamed) {
  const std::vector<float> values(4);
  const auto segment = WriteSegment(*CheckpointFilesIn("/proc/nowhere"), "a.segment", kMeta,
                                    {{0, ChunkId(0), values}});
  ASSERT_FALSE(segment.ok());
  EXPECT_NE(segment.status().message().find("/proc/nowhere"), absl::string_view::npos)
      << segment.status();
}

TEST_F(SegmentTest, AFlippedBitInAnyByteIsFound) {
  const Segment segment = Write("a.segment", {1, 16, 3, 33});
  for (size_t at = 0; at < segment.bytes; ++at) {
    const int mask = 1 << (at * 5 % 8);
    FlipBits(PathOf(segment), at, mask);
    ExpectNamed(ReadAll(segment), segment, absl::StrCat("byte ", at));
    FlipBits(PathOf(segment), at, mask);
  }
  EXPECT_TRUE(ReadAll(segment).ok());
}

TEST_F(SegmentTest, EveryTruncationAndEveryExtensionIsFound) {
  const Segment segment = Write("a.segment", std::vector<size_t>(40, 257));
  const std::string good = ReadFile(PathOf(segment));
  for (size_t size = 0; size < good.size(); size += 512) {
    WriteFile(PathOf(segment), good.substr(0, size));
    ExpectNamed(ReadAll(segment), segment, "cut to " + std::to_string(size));
  }
  WriteFile(PathOf(segment), good.substr(0, good.size() - 1));
  ExpectNamed(ReadAll(segment), segment, "cut by one byte");
  for (size_t more : {1, 64, 4096}) {
    WriteFile(PathOf(segment), good + std::string(more, '\0'));
    ExpectNamed(ReadAll(segment), segment, "extended by " + std::to_string(more));
  }
}

TEST_F(SegmentTest, EveryZeroedPageIsFound) {
  const Segment segment = Write("a.segment", std::vector<size_t>(20, 1024));
  const std::string good = ReadFile(PathOf(segment));
  for (size_t at = 0; at < good.size(); at += 4096) {
    std::string bad = good;
    std::fill_n(bad.begin() + static_cast<std::ptrdiff_t>(at),
                std::min<size_t>(4096, bad.size() - at), '\0');
    WriteFile(PathOf(segment), bad);
    ExpectNamed(ReadAll(segment), segment, "page at " + std::to_string(at));
  }
}

// The offsets of docs/formats.md, once more.
constexpr size_t kCrcAt = 12;
constexpr size_t kTableAt = 64 + sizeof(kJob) - 1;
constexpr size_t kRowBytes = 32;

// The file with `bytes` at `at` and a header checksum that is right again: an attacker's, or a
// broken writer's.
std::string Forge(std::string file, size_t header_bytes, size_t at, const std::string& bytes) {
  file.replace(at, bytes.size(), bytes);
  std::string header = file.substr(0, header_bytes);
  header.replace(kCrcAt, 4, 4, '\0');
  const uint32_t crc = Crc32c({reinterpret_cast<const std::byte*>(header.data()), header.size()});
  file.replace(kCrcAt, 4, reinterpret_cast<const char*>(&crc), 4);
  return file;
}
template <class T>
std::string Raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

TEST_F(SegmentTest, TwoSwappedEntriesAreFound) {
  const Segment segment = Write("a.segment", {32, 32});
  const std::string good = ReadFile(PathOf(segment));
  const size_t data = segment.entries[0].offset_in_file;
  WriteFile(PathOf(segment),
            good.substr(0, data) + good.substr(data + 128, 128) + good.substr(data, 128));
  ExpectNamed(ReadAll(segment), segment, "swapped bytes");
  std::string rows = good.substr(kTableAt, 2 * kRowBytes);
  std::swap_ranges(rows.begin(), rows.begin() + 8, rows.begin() + kRowBytes);  // slot and chunk
  WriteFile(PathOf(segment), Forge(good, data, kTableAt, rows));
  Segment forged = segment;
  std::swap(forged.entries[0].slot, forged.entries[1].slot);
  std::swap(forged.entries[0].chunk, forged.entries[1].chunk);
  const std::string crc = ReadFile(PathOf(segment)).substr(kCrcAt, sizeof(forged.header_crc32c));
  std::memcpy(&forged.header_crc32c, crc.data(), crc.size());
  EXPECT_TRUE(SegmentReader::Open(*files_, forged, kMeta).ok())
      << "the forgery is not good enough to prove anything";
  ExpectNamed(ReadAll(segment), segment, "swapped rows under a right checksum");
}

TEST_F(SegmentTest, HostileHeadersAreRefused) {
  const Segment segment = Write("a.segment", {32, 32});
  const std::string good = ReadFile(PathOf(segment));
  const size_t header = segment.entries[0].offset_in_file;
  struct Case {
    const char* what;
    size_t at;
    std::string bytes;
  };
  const std::vector<Case> cases = {
      {"magic", 0, "XXXXXXXX"},
      {"version", 8, Raw<uint32_t>(1)},
      {"header_bytes huge", 16, Raw<uint64_t>(~uint64_t{0})},
      {"header_bytes small", 16, Raw<uint64_t>(1)},
      {"header_bytes of the file", 16, Raw<uint64_t>(good.size())},
      {"file_bytes", 24, Raw<uint64_t>(uint64_t{1} << 62)},
      {"lineage", 32, Raw<int64_t>(-1)},
      {"step", 40, Raw<int64_t>(-5)},
      {"entry_count huge", 48, Raw<uint32_t>(~uint32_t{0})},
      {"entry_count none", 48, Raw<uint32_t>(0)},
      {"entry_count more", 48, Raw<uint32_t>(3)},
      {"job_bytes huge", 52, Raw<uint32_t>(~uint32_t{0})},
      {"job_bytes none", 52, Raw<uint32_t>(0)},
      {"cluster_bytes huge", 56, Raw<uint32_t>(~uint32_t{0})},
      {"reserved field of the header", 60, Raw<uint32_t>(1)},
      {"slot", kTableAt, Raw<int32_t>(-1)},
      {"slot large", kTableAt, Raw<int32_t>(1 << 30)},
      {"chunk", kTableAt + 4, Raw<int32_t>(-1)},
      {"offset into the header", kTableAt + 8, Raw<uint64_t>(0)},
      {"offset behind the file", kTableAt + 8, Raw<uint64_t>(good.size())},
      {"offset wraps", kTableAt + 8, Raw<uint64_t>(~uint64_t{0} - 8)},
      {"bytes none", kTableAt + 16, Raw<uint64_t>(0)},
      {"bytes odd", kTableAt + 16, Raw<uint64_t>(127)},
      {"bytes huge", kTableAt + 16, Raw<uint64_t>(~uint64_t{0} - 3)},
      {"bytes of both", kTableAt + 16, Raw<uint64_t>(256)},
      {"reserved field", kTableAt + 28, Raw<uint32_t>(1)},
      {"entries overlap", kTableAt + kRowBytes + 8, Raw<uint64_t>(header)},
  };
  for (const Case& c : cases) {
    WriteFile(PathOf(segment), Forge(good, header, c.at, c.bytes));
    const absl::Status status = ReadAll(segment);
    ExpectNamed(status, segment, c.what);
    EXPECT_EQ(status.message().find("manifest"), absl::string_view::npos)
        << c.what << " is not seen in the file alone: " << status;
  }
}

TEST_F(SegmentTest, AFileOfAnotherStepOrJobInItsPlaceIsFound) {
  const std::vector<float> values(8, 1.0f);
  const std::vector<PartView> parts = {{0, ChunkId(0), values}};
  const auto own = WriteSegment(*files_, "own.segment", kMeta, parts);
  ASSERT_TRUE(own.ok()) << own.status();
  for (const SegmentMeta& meta : {SegmentMeta{kJob, LineageNumber(3), Step(41)},
                                  SegmentMeta{kJob, LineageNumber(4), Step(40)},
                                  SegmentMeta{"job-2", LineageNumber(3), Step(40)}}) {
    std::filesystem::remove(dir_ + "/other.segment");
    ASSERT_TRUE(WriteSegment(*files_, "other.segment", meta, parts).ok());
    std::filesystem::copy_file(dir_ + "/other.segment", dir_ + "/own.segment",
                               std::filesystem::copy_options::overwrite_existing);
    ExpectNamed(SegmentReader::Open(*files_, *own, kMeta).status(), *own, meta.job);
  }
}

TEST_F(SegmentTest, WhatIsNotAFileIsRefusedWithoutWaiting) {
  Segment segment;
  segment.file = "a.segment";
  ExpectNamed(SegmentReader::Open(*files_, segment, kMeta).status(), segment, "absent");
  ASSERT_EQ(mkfifo((dir_ + "/a.segment").c_str(), 0600), 0);
  ExpectNamed(SegmentReader::Open(*files_, segment, kMeta).status(), segment, "a pipe");
  std::filesystem::remove(dir_ + "/a.segment");
  std::filesystem::create_directory(dir_ + "/a.segment");
  ExpectNamed(SegmentReader::Open(*files_, segment, kMeta).status(), segment, "a directory");
}

// Two members wrote the same chunk, because the view changed: the manifest takes it from one of
// them.
TEST_F(SegmentTest, AManifestMayLeaveEntriesOutButChangeNone) {
  const Segment segment = Write("a.segment", {8, 16, 24});
  for (size_t left_out = 0; left_out < 3; ++left_out) {
    Segment fewer = segment;
    fewer.entries.erase(fewer.entries.begin() + static_cast<std::ptrdiff_t>(left_out));
    const auto reader = SegmentReader::Open(*files_, fewer, kMeta);
    ASSERT_TRUE(reader.ok()) << reader.status();
    const size_t next = left_out == 0 ? 1 : 0;
    std::vector<float> values(memory_[next].size());
    EXPECT_TRUE(reader->Read(segment.entries[next], absl::MakeSpan(values)).ok());
    EXPECT_EQ(values, memory_[next]);
  }
  Segment changed = segment;
  changed.entries[1].crc32c ^= 1;
  ExpectNamed(SegmentReader::Open(*files_, changed, kMeta).status(), segment, "a changed entry");
  Segment swapped = segment;
  std::swap(swapped.entries[0], swapped.entries[1]);
  ExpectNamed(SegmentReader::Open(*files_, swapped, kMeta).status(), segment, "another order");
}

TEST_F(SegmentTest, RoomOfTheWrongSizeIsRefused) {
  const Segment segment = Write("a.segment", {8});
  const auto reader = SegmentReader::Open(*files_, segment, kMeta);
  ASSERT_TRUE(reader.ok()) << reader.status();
  std::vector<float> room(9);
  EXPECT_TRUE(absl::IsInvalidArgument(reader->Read(segment.entries[0], absl::MakeSpan(room))));
}

}  // namespace
}  // namespace muster
