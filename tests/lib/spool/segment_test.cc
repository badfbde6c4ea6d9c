#include "lib/spool/segment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "lib/base/bytes.h"
#include "lib/kernels/crc.h"
#include "tests/lib/spool/spooled.h"

namespace muster {
namespace {

using testing::HasSubstr;

TEST(SpoolFileName, IsReadAsItIsWritten) {
  for (const int64_t number : {int64_t{0}, int64_t{12}, int64_t{123456789}, kMaxNumber}) {
    const SpoolFileName file{number, kWriter};
    EXPECT_EQ(SpoolFileNamed(NameOf(file)), file);
  }
  EXPECT_EQ(NameOf({12, kWriter}), "00000012-0123456789abcdeffedcba9876543210.spool");
}

TEST(SpoolFileName, NothingElseIsOne) {
  for (const char* name :
       {"", ".spool", "00000012.spool", "12-0123456789abcdeffedcba9876543210.spool",
        "000000012-0123456789abcdeffedcba9876543210.spool",
        "00000012-0123456789ABCDEFfedcba9876543210.spool",
        "00000012-0123456789abcdeffedcba987654321.spool",
        "00000012_0123456789abcdeffedcba9876543210.spool",
        "-0000012-0123456789abcdeffedcba9876543210.spool",
        "99999999999999999999-0123456789abcdeffedcba9876543210.spool",
        "00000012-0123456789abcdeffedcba9876543210.spool.writing",
        "00000012-0x23456789abcdeffedcba98765432100.spool", "checkpoint.manifest"})
    EXPECT_FALSE(SpoolFileNamed(name)) << name;
}

// Byte by byte, so that the format is what the header says.
TEST(SpoolHead, StandsAsItIsDescribed) {
  const SpoolHead head = MakeSpoolHead({12, kWriter}, 7, 3);
  std::string bytes(reinterpret_cast<const char*>(head.data()), head.size());
  EXPECT_EQ(bytes.substr(0, 12), std::string("MSTRSPL1\x01\0\0\0", 12));
  EXPECT_EQ(bytes.substr(16, 16), std::string("\x07\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0", 16));
  EXPECT_EQ(bytes.substr(32, 16),
            "\xef\xcd\xab\x89\x67\x45\x23\x01\x10\x32\x54\x76\x98\xba\xdc\xfe");
  EXPECT_EQ(bytes.substr(48, 16), std::string("\x0c\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16));
  EXPECT_TRUE(CheckSpoolHead("f", head, {12, kWriter, 7, 1}, 3).ok());
}

TEST(SpoolHead, AnotherOneIsNamedWithItsByte) {
  const SpoolHead head = MakeSpoolHead({12, kWriter}, 7, 3);
  const SpoolSegment fact{12, kWriter, 7, 1};
  const auto said = [](const SpoolHead& of, const SpoolSegment& expected, uint64_t bytes) {
    const absl::Status status = CheckSpoolHead("f", of, expected, bytes);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(said(head, fact, 4), HasSubstr("f: at byte 24: its samples have 3 bytes"));
  EXPECT_THAT(said(head, {12, kWriter, 8, 1}, 3), HasSubstr("f: at byte 16: it begins with"));
  EXPECT_THAT(said(head, {12, {1, 2}, 7, 1}, 3), HasSubstr("f: at byte 32: another process"));
  EXPECT_THAT(said(head, {13, kWriter, 7, 1}, 3), HasSubstr("f: at byte 48: it is segment 12"));
  // Each byte is compared, or under the checksum.
  for (size_t at = 0; at < head.size(); ++at) {
    SpoolHead other = head;
    other[at] ^= std::byte{0x40};
    const std::string text = said(other, fact, 3);
    EXPECT_THAT(text, HasSubstr(at < 8    ? "no segment of a spool"
                                : at < 12 ? "its form is"
                                          : "the checksum of its head"));
  }
}

// What a checksum does not tell is compared.
TEST(SpoolHead, AllOfItIsLookedAt) {
  for (const size_t at : {16, 24, 32, 40, 48, 56, 63}) {
    SpoolHead head = MakeSpoolHead({12, kWriter}, 7, 3);
    head[at] ^= std::byte{1};
    std::memset(head.data() + 12, 0, 4);
    const uint32_t checksum = Crc32c(head);
    std::memcpy(head.data() + 12, &checksum, 4);
    EXPECT_THAT(CheckSpoolHead("f", head, {12, kWriter, 7, 1}, 3).message(),
                HasSubstr(absl::StrCat("f: at byte ", at == 40 ? 32 : at / 8 * 8, ": ")));
  }
}

TEST(SpoolSamples, AreTakenFromWhereTheyStand) {
  const Folder folder;
  const SpoolSegment fact = WriteSegment(folder.path(), 1, 40, 5);
  const std::string file = folder.Get(NameOf({fact.number, fact.writer}));
  ASSERT_EQ(file.size(), SpoolFileBytes(5, 3));
  std::string samples(6, '\0');
  const auto into = absl::MakeSpan(reinterpret_cast<std::byte*>(samples.data()), samples.size());
  const uint64_t offset = OffsetInSpool(2, 3);
  const std::string stored = file.substr(offset, 14);
  ASSERT_TRUE(TakeSpooled("f", offset, 42, 3, BytesOf(stored), into).ok());
  EXPECT_EQ(samples, Samples(42, 2));
  // Under another position they are none.
  const absl::Status other = TakeSpooled("f", offset, 43, 3, BytesOf(stored), into);
  EXPECT_TRUE(absl::IsDataLoss(other));
  EXPECT_THAT(other.message(), HasSubstr("f: at byte 78: the checksum of position 43 is wrong"));
  for (size_t at = 0; at < stored.size(); ++at) {
    std::string changed = stored;
    changed[at] ^= 1;
    EXPECT_THAT(TakeSpooled("f", offset, 42, 3, BytesOf(changed), into).message(),
                HasSubstr(at < 7 ? "at byte 78: " : "at byte 85: "));
  }
}

}  // namespace
}  // namespace muster
