#include "lib/export/zip_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "lib/base/bytes.h"
#include "tests/lib/export/in_memory.h"
#include "tests/lib/export/zip_reader.h"

namespace muster {
namespace {

TEST(ZipWriterTest, RecordsAreReadBackByNameAlsoEmptyOnes) {
  InMemory memory;
  ZipWriter zip(memory);
  std::string large(100'003, 'x');
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * i);
  ASSERT_EQ(zip.Add("archive/data.pkl", "a"), absl::OkStatus());
  ASSERT_EQ(zip.Add("archive/empty", ""), absl::OkStatus());
  ASSERT_EQ(zip.Begin("archive/data/0", large.size()), absl::OkStatus());
  for (size_t at = 0; at < large.size(); at += 977)
    ASSERT_EQ(zip.Append(BytesOf(absl::string_view(large).substr(at, 977))), absl::OkStatus());
  ASSERT_EQ(zip.Finish(), absl::OkStatus());
  const auto records = ReadZip(memory.file);
  EXPECT_EQ(records.size(), 3u);
  EXPECT_EQ(records.at("archive/data.pkl"), "a");
  EXPECT_EQ(records.at("archive/empty"), "");
  EXPECT_TRUE(records.at("archive/data/0") == large);
}

// Keeps the last bytes alone.
class Tail final : public Appender {
 public:
  absl::Status Append(absl::Span<const std::byte> bytes) override {
    size += bytes.size();
    tail.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (tail.size() > kKept) tail.erase(0, tail.size() - kKept);
    return absl::OkStatus();
  }
  static constexpr size_t kKept = 4096;
  uint64_t size = 0;
  std::string tail;
};

TEST(ZipWriterTest, MoreThanFourGibibytesTakeZip64) {
  constexpr uint64_t kLarge = (uint64_t{4} << 30) + 5;
  Tail tail;
  ZipWriter zip(tail);
  const std::vector<std::byte> zeros(size_t{16} << 20);
  ASSERT_EQ(zip.Begin("large", kLarge), absl::OkStatus());
  for (uint64_t left = kLarge; left > 0;) {
    const size_t n = static_cast<size_t>(std::min<uint64_t>(left, zeros.size()));
    ASSERT_EQ(zip.Append(absl::MakeConstSpan(zeros).first(n)), absl::OkStatus());
    left -= n;
  }
  const uint64_t behind = tail.size;
  ASSERT_EQ(zip.Add("far", "behind it"), absl::OkStatus());
  const uint64_t directory = tail.size;
  ASSERT_EQ(zip.Finish(), absl::OkStatus());
  const std::string& end = tail.tail;
  const size_t at = end.size() - 22;
  EXPECT_EQ(NumberAt(end, at + 16, 4), 0xffffffffu) << "the directory begins behind 4 GiB";
  const size_t locator = at - 20;
  EXPECT_EQ(NumberAt(end, locator, 4), 0x07064b50u);
  const auto place = [&](uint64_t in_file) {
    return static_cast<size_t>(in_file - (tail.size - end.size()));
  };
  const size_t end64 = place(NumberAt(end, locator + 8, 8));
  EXPECT_EQ(NumberAt(end, end64, 4), 0x06064b50u);
  EXPECT_EQ(NumberAt(end, end64 + 32, 8), 2u);
  EXPECT_EQ(NumberAt(end, end64 + 48, 8), directory);
  const size_t first = place(directory);
  EXPECT_EQ(NumberAt(end, first + 24, 4), 0xffffffffu);
  EXPECT_EQ(NumberAt(end, first + 46 + 5 + 4, 8), kLarge);
  const size_t second = first + 46 + 5 + NumberAt(end, first + 30, 2);
  EXPECT_EQ(NumberAt(end, second + 42, 4), 0xffffffffu);
  EXPECT_EQ(NumberAt(end, second + 46 + 3 + 4, 8), behind);
}

}  // namespace
}  // namespace muster
