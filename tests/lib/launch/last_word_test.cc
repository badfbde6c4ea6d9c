#include "lib/launch/last_word.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace muster {
namespace {

TEST(LastWord, TheLastOneIsHeard) {
  const Descriptor file = NewLastWord().value();
  EXPECT_EQ(HearLastWord(file).runs, "");
  EXPECT_FALSE(HearLastWord(file).has_ended);
  const LastWord word(file.get());
  word.Runs("task a of plug-in /opt/with/a/long/name.so");
  word.Runs("task b");
  EXPECT_EQ(HearLastWord(file).runs, "task b");
  EXPECT_FALSE(HearLastWord(file).has_ended);
  word.HasEnded();
  EXPECT_EQ(HearLastWord(file).runs, "");
  EXPECT_TRUE(HearLastWord(file).has_ended);
}

TEST(LastWord, WhatAStrangerWroteThereIsNone) {
  const Descriptor file = NewLastWord().value();
  for (const std::string text : {"ended by me", "run", ""}) {
    ASSERT_EQ(ftruncate(file.get(), 0), 0);
    ASSERT_EQ(pwrite(file.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    EXPECT_EQ(HearLastWord(file).runs, "") << text;
    EXPECT_FALSE(HearLastWord(file).has_ended) << text;
  }
  LastWord(file.get()).Runs(std::string(1 << 20, 'x'));
  EXPECT_LT(HearLastWord(file).runs.size(), 4096U);
}

TEST(LastWord, WhereNobodyAsksNothingIsWritten) {
  LastWord().Runs("task a");
  LastWord().HasEnded();
}

}  // namespace
}  // namespace muster
