#include "lib/base/printable.h"

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
