#include "lib/base/printable.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "lib/base/utf8.h"

namespace muster {
namespace {

TEST(Printable, TextOfOthersCannotSteerATerminal) {
  EXPECT_EQ(Printable("plain \xc3\xa9\ttext"), "plain \xc3\xa9\ttext");
  EXPECT_EQ(Printable("\x1b[2J\r\x7f"), "\\x1b[2J\\x0d\\x7f");
  EXPECT_EQ(Printable("\xc2\x9b"
                      "31m"),
            "\\x9b31m")
      << "a control character of the second set";
  EXPECT_EQ(Printable("\xff\xc3"), "??");
  EXPECT_EQ(Printable("two\nlines"), "two\\nlines");
  EXPECT_EQ(PrintableLines("two\nlines\x07"), "two\nlines\\x07");
}

TEST(Printable, JsonSaysTheSameAndCannotSteerATerminal) {
  EXPECT_EQ(PrintableJson("{\"a\":\"\xc2\x9b\x7f\xc2\xa0\xc3\xa9\"}"),
            "{\"a\":\"\\u009b\\u007f\xc2\xa0\xc3\xa9\"}");
  EXPECT_EQ(PrintableJson("[1]"), "[1]");
}

// Else a name could be read as another, from right to left or with a part that nobody sees.
TEST(Printable, WhatIsNotSeenIsWrittenOut) {
  const std::vector<std::pair<const char*, std::string>> rows = {
      {"\u061c", "\\u061c"},  // marks and overrides of the direction of writing
      {"\u200e", "\\u200e"},         {"\u200f", "\\u200f"}, {"\u202a", "\\u202a"},
      {"\u202e", "\\u202e"},         {"\u2066", "\\u2066"}, {"\u2069", "\\u2069"},
      {"\u2028", "\\u2028"},  // separators of lines and paragraphs
      {"\u2029", "\\u2029"},         {"\u2060", "\\u2060"}, {"\ufeff", "\\ufeff"},
      {"\U000e0001", "\\U000e0001"},  // tags
      {"\U000e007f", "\\U000e007f"}};
  for (const auto& [character, escape] : rows) {
    EXPECT_EQ(Printable(absl::StrCat("a", character, "b")), absl::StrCat("a", escape, "b"));
    EXPECT_EQ(PrintableLines(absl::StrCat("a\n", character)), absl::StrCat("a\n", escape));
    EXPECT_EQ(Printable(escape), escape);
  }
  EXPECT_EQ(PrintableJson("\"\u202e\U000e0001\""), R"("\u202e\udb40\udc01")");
  for (const char* seen : {"\u200d", "\u2027", "\u202f", "\u2070", "\uff00", "\U0001f600"}) {
    EXPECT_EQ(Printable(seen), seen);
    EXPECT_EQ(PrintableJson(seen), seen);
  }
}

TEST(Printable, OfALongPathBothEndsStay) {
  EXPECT_EQ(CutMiddle("a.bc[0]", 7), "a.bc[0]");
  EXPECT_EQ(CutMiddle("layers[0].size", 11), "laye...size");
  EXPECT_EQ(CutMiddle("\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", 6), "...");
  EXPECT_EQ(CutMiddle("all.layers[0].residual[1].residual[2].size", 37),
            "all.layers[0]...residual[2].size");
  EXPECT_EQ(CutMiddle(std::string(5000, 'x')).size(), kMostPathBytes - 1);
  EXPECT_TRUE(IsUtf8(CutMiddle(Printable(std::string(5000, '\xff')))));
}

TEST(Printable, WhatIsLongerIsCutBetweenCharacters) {
  EXPECT_EQ(Cut("short", 5), "short");
  EXPECT_EQ(Cut("longer", 5), "lo...");
  EXPECT_EQ(Cut("a\xc3\xa9\xc3\xa9\xc3\xa9", 5), "a...") << "no half of a character";
  const std::string long_one(5000, 'x');
  EXPECT_EQ(Cut(long_one).size(), kMostShownBytes);
  EXPECT_TRUE(IsUtf8(Cut(Printable(std::string(5000, '\xff')))));
}

TEST(Printable, MetadataIsAsciiAndBounded) {
  EXPECT_EQ(AsciiText("parameters.\xc3\xa9"), "parameters.\\xc3\\xa9");
  EXPECT_EQ(AsciiText("a\r\nb"), "a\\x0d\\x0ab");
  const std::string text = AsciiText(std::string(5000, '\xe9'));
  EXPECT_EQ(text.size(), kMostShownBytes);
}

}  // namespace
}  // namespace muster
