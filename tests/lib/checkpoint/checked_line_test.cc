#include "lib/checkpoint/checked_line.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace muster {
namespace {

TEST(CheckedLine, IsReadAsItWasWritten) {
  for (const std::string text : {"best-of-all", "validation.loss 0.25", ""}) {
    const std::string file = CheckedLine(text);
    EXPECT_EQ(file.size(), text.size() + kCheckedLineBytes);
    EXPECT_EQ(ReadCheckedLine(file), text);
  }
  EXPECT_EQ(CheckedLine("123456789"), "123456789 crc32c:e3069283\n") << "RFC 3720 has the number";
}

TEST(CheckedLine, OfBeforeHasNoChecksum) { EXPECT_EQ(ReadCheckedLine("best\n"), "best"); }

// What is read of it is never another text than the one that was written, but for a whole line,
// which whoever reads it takes for no name and no measure.
TEST(CheckedLine, ThatIsDamagedIsNone) {
  const std::string file = CheckedLine("validation.loss 0.25");
  for (size_t size = 0; size < file.size(); ++size)
    EXPECT_EQ(ReadCheckedLine(file.substr(0, size)), std::nullopt) << size;
  for (size_t at = 0; at < file.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = file;
      damaged[at] = static_cast<char>(damaged[at] ^ 1 << bit);
      const std::optional<std::string> read = ReadCheckedLine(damaged);
      if (read) {
        EXPECT_EQ(*read + "\n", damaged) << at << " " << bit;
      }
    }
  for (const char* other : {"best crc32c:00000000\n", "best crc32c:\n", "best crc32c:0 crc32c:1\n"})
    EXPECT_EQ(ReadCheckedLine(other), std::nullopt) << other;
  EXPECT_EQ(ReadCheckedLine(file + "\n"), std::nullopt);
}

}  // namespace
}  // namespace muster
