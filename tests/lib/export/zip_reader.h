// A zip file of stored records, read the dumb way, by its directory.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "gtest/gtest.h"

namespace muster {

inline uint64_t NumberAt(const std::string& bytes, size_t at, int size) {
  uint64_t value = 0;
  for (int byte = size - 1; byte >= 0; --byte)
    value = value << 8 | static_cast<unsigned char>(bytes.at(at + static_cast<size_t>(byte)));
  return value;
}

// One bit after the other.
inline uint32_t DumbCrc32(const std::string& bytes) {
  uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

// Content by name; each is whole, is told the same in its own header, and begins at a multiple of
// 64.
inline std::map<std::string, std::string> ReadZip(const std::string& file) {
  std::map<std::string, std::string> records;
  const size_t end = file.size() - 22;
  EXPECT_EQ(NumberAt(file, end, 4), 0x06054b50u);
  size_t at = NumberAt(file, end + 16, 4);
  for (uint64_t n = NumberAt(file, end + 10, 2); n > 0; --n) {
    EXPECT_EQ(NumberAt(file, at, 4), 0x02014b50u);
    const uint64_t crc = NumberAt(file, at + 16, 4), bytes = NumberAt(file, at + 24, 4);
    const uint64_t name_bytes = NumberAt(file, at + 28, 2), local = NumberAt(file, at + 42, 4);
    const std::string name = file.substr(at + 46, name_bytes);
    EXPECT_EQ(NumberAt(file, local, 4), 0x04034b50u);
    EXPECT_EQ(file.substr(local + 30, NumberAt(file, local + 26, 2)), name);
    const size_t data = local + 30 + name_bytes + NumberAt(file, local + 28, 2);
    EXPECT_EQ(data % 64, 0u) << name;
    records[name] = file.substr(data, bytes);
    EXPECT_EQ(DumbCrc32(records[name]), crc) << name;
    EXPECT_EQ(NumberAt(file, data + bytes, 4), 0x08074b50u);
    EXPECT_EQ(NumberAt(file, data + bytes + 4, 4), crc);
    at += 46 + name_bytes + NumberAt(file, at + 30, 2);
  }
  EXPECT_EQ(at, end) << "nothing stands between the directory and its end";
  return records;
}

}  // namespace muster
