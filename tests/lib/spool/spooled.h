// A folder of a spool, and samples of it, for tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/bytes.h"
#include "lib/spool/spool_writer.h"

namespace muster {

// Goes with what is in it.
class Folder {
 public:
  Folder() {
    std::string name = testing::TempDir() + "/stream-XXXXXX";
    root_ = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(root_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string operator/(const std::string& name) const { return root_ + "/" + name; }
  const std::string& path() const { return root_; }
  // Elsewhere, and then renamed into it.
  void Put(const std::string& name, const std::string& content) const {
    const std::string elsewhere = root_ + "/.elsewhere";
    std::ofstream(elsewhere, std::ios::binary) << content;
    std::filesystem::rename(elsewhere, root_ + "/" + name);
  }
  std::string Get(const std::string& name) const {
    std::ifstream file(root_ + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(root_))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  std::string root_;
};

inline constexpr Incarnation kWriter{0x0123456789abcdef, 0xfedcba9876543210};

// A sample of three bytes.
inline std::string Sample(uint64_t position) {
  std::string sample = std::to_string(100 + position % 900);
  return sample;
}
inline std::string Samples(uint64_t first, uint64_t count) {
  std::string samples;
  for (uint64_t i = 0; i < count; ++i) samples += Sample(first + i);
  return samples;
}

// A segment with these samples, synced.
inline SpoolSegment WriteSegment(const std::string& folder, int64_t number, uint64_t first,
                                 uint64_t count, Incarnation writer = kWriter) {
  auto segment = SpoolWriter::Create(folder, {number, writer}, first, 3);
  EXPECT_TRUE(segment.ok()) << segment.status();
  EXPECT_TRUE((*segment)->Append(BytesOf(Samples(first, count))).ok());
  EXPECT_TRUE((*segment)->Sync().ok());
  return {number, writer, first, count};
}

}  // namespace muster
