#include "lib/base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace muster {
namespace {

// Encodes without asking whether that is allowed.
std::string Encode(uint32_t code, int length) {
  if (length == 1) return std::string(1, static_cast<char>(code));
  std::string out;
  static constexpr unsigned kLead[] = {0, 0, 0xc0, 0xe0, 0xf0};
  out += static_cast<char>(kLead[length] | (code >> (6 * (length - 1))));
  for (int i = length - 2; i >= 0; --i) out += static_cast<char>(0x80 | ((code >> (6 * i)) & 0x3f));
  return out;
}
int ShortestLength(uint32_t code) {
  return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
}

TEST(Utf8, EveryCodePointInItsShortestFormAndNoOther) {
  for (uint32_t code = 0; code < 0x1fffff; code += code < 0x12000 ? 1 : 31) {
    const bool character = code < 0xd800 || (code > 0xdfff && code <= 0x10ffff);
    for (int length = ShortestLength(code); length <= 4; ++length) {
      const std::string text = Encode(code, length);
      const bool expected = character && length == ShortestLength(code);
      ASSERT_EQ(Utf8Length(text + "x"), expected ? text.size() : 0u)
          << std::hex << code << " in " << length;
    }
  }
}

TEST(Utf8, WholeTexts) {
  EXPECT_TRUE(IsUtf8(""));
  EXPECT_TRUE(IsUtf8("z\xc3\xbcrich \xf0\x9f\x98\x80"));
  EXPECT_FALSE(IsUtf8("a\x80"));
  EXPECT_FALSE(IsUtf8("a\xff"));
  EXPECT_FALSE(IsUtf8("cut \xe2\x82"));
}

TEST(Utf8, ACharacterAtTheEndThatIsNotWholeYetWaits) {
  for (const std::string character : {"z", "\xc3\xbc", "\xe2\x82\xac", "\xf0\x9f\x98\x80"})
    for (size_t length = 1; length <= character.size(); ++length)
      EXPECT_EQ(WholeUtf8("ab" + character.substr(0, length)),
                length == character.size() ? 2 + length : 2)
          << character << " " << length;
  EXPECT_EQ(WholeUtf8(""), 0u);
  EXPECT_EQ(WholeUtf8("\xf0"), 0u);
  EXPECT_EQ(WholeUtf8("a\xff"), 1u) << "as the first byte of four";
  EXPECT_EQ(WholeUtf8("\x80\x80\x80\x80\x80"), 5u) << "nothing can complete it";
}

}  // namespace
}  // namespace muster
