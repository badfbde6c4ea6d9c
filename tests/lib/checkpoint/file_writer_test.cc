#include "lib/checkpoint/file_writer.h"

#include <sys/stat.h>

#include <string>

#include "gtest/gtest.h"
#include "tests/lib/checkpoint/support.h"

namespace muster {
namespace {

class FileWriterTest : public DirTest {
 protected:
  std::string Content(size_t bytes) {
    std::string content(bytes, '\0');
    for (size_t i = 0; i < bytes; ++i) content[i] = static_cast<char>(Mix64(bytes, i));
    return content;
  }
  // Appends `content` in pieces of this size.
  void Write(const std::string& path, const std::string& content, size_t piece,
             FileWriter::PageCache cache) {
    auto out = FileWriter::Create(path, cache);
    ASSERT_TRUE(out.ok()) << out.status();
    for (size_t at = 0; at < content.size(); at += piece) {
      const size_t n = std::min(piece, content.size() - at);
      const absl::Status status =
          (*out)->Append({reinterpret_cast<const std::byte*>(content.data()) + at, n});
      ASSERT_TRUE(status.ok()) << status;
    }
    const absl::Status status = (*out)->Finish();
    ASSERT_TRUE(status.ok()) << status;
  }
};

TEST_F(FileWriterTest, TheBytesAreTheSameWhateverWayTheyTake) {
  constexpr size_t kBlock = FileWriter::kBlockBytes;
  const std::string path = dir_ + "/file";
  for (const size_t size : {size_t{0}, size_t{1}, size_t{4095}, size_t{4096}, kBlock - 1, kBlock,
                            kBlock + 1, kBlock + 4096, 2 * kBlock, 2 * kBlock + 12345}) {
    const std::string content = Content(size);
    for (const size_t piece : {size_t{262144}, size_t{99991}, kBlock, 3 * kBlock}) {
      for (const auto cache : {FileWriter::PageCache::kPast, FileWriter::PageCache::kThrough}) {
        Write(path, content, piece, cache);
        EXPECT_TRUE(ReadFile(path) == content)
            << size << " bytes in pieces of " << piece
            << (cache == FileWriter::PageCache::kPast ? " past" : " through") << " the page cache";
      }
    }
  }
}

TEST_F(FileWriterTest, WhatWasThereIsGone) {
  const std::string path = dir_ + "/file";
  WriteFile(path, Content(FileWriter::kBlockBytes + 5));
  Write(path, "short", 5, FileWriter::PageCache::kPast);
  EXPECT_EQ(ReadFile(path), "short");
}

TEST_F(FileWriterTest, APipeInThePlaceOfAFileHoldsNobodyUp) {
  ASSERT_EQ(mkfifo((dir_ + "/pipe").c_str(), 0600), 0);
  for (const auto cache : {FileWriter::PageCache::kPast, FileWriter::PageCache::kThrough})
    EXPECT_TRUE(absl::IsDataLoss(FileWriter::Create(dir_ + "/pipe", cache).status()));
}

TEST_F(FileWriterTest, AFolderThatIsMissingIsNamed) {
  const auto out = FileWriter::Create(dir_ + "/nowhere/file");
  EXPECT_TRUE(absl::IsNotFound(out.status())) << out.status();
  EXPECT_NE(out.status().message().find("nowhere/file"), absl::string_view::npos);
}

}  // namespace
}  // namespace muster
