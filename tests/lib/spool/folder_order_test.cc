#include "lib/spool/state/folder_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace muster {
namespace {

using testing::HasSubstr;
using Names = std::vector<std::string>;

std::string NextOf(FolderOrder& order) {
  std::string name;
  switch (order.Next(name)) {
    case FolderStep::kTake: order.Took(name); return name;
    case FolderStep::kLookAgain: return "look again";
    case FolderStep::kWait: return "wait";
    case FolderStep::kEnd: return "the end";
  }
  return "?";
}

TEST(FolderOrder, TakesWhatAnEarlierListHadInTheOrderOfBytes) {
  FolderOrder order("");
  EXPECT_EQ(NextOf(order), "look again");
  const Names names = {"B", "a", "b", "\xc3\xa4"};
  ASSERT_TRUE(order.See("f", names).ok());
  EXPECT_EQ(NextOf(order), "look again");
  ASSERT_TRUE(order.See("f", names).ok());
  for (const std::string& name : names) EXPECT_EQ(NextOf(order), name);
  EXPECT_EQ(NextOf(order), "wait");
}

// "a" was put there before "b", and the first list had missed it.
TEST(FolderOrder, AListMayMissAFileThatWasPutThereFirst) {
  FolderOrder order("");
  ASSERT_TRUE(order.See("f", {"b"}).ok());
  EXPECT_EQ(NextOf(order), "look again");
  ASSERT_TRUE(order.See("f", {"a", "b"}).ok());
  EXPECT_EQ(NextOf(order), "look again");
  ASSERT_TRUE(order.See("f", {"a", "b"}).ok());
  EXPECT_EQ(NextOf(order), "a");
  EXPECT_EQ(NextOf(order), "b");
}

// And so with the end.
TEST(FolderOrder, TheEndIsBehindAllThatWasPutThereBeforeIt) {
  FolderOrder order("a");
  ASSERT_TRUE(order.See("f", {"END", "a"}).ok());
  EXPECT_EQ(NextOf(order), "look again");
  ASSERT_TRUE(order.See("f", {"END", "a", "b"}).ok());
  EXPECT_EQ(NextOf(order), "look again");
  ASSERT_TRUE(order.See("f", {"END", "a", "b"}).ok());
  EXPECT_EQ(NextOf(order), "b");
  EXPECT_EQ(NextOf(order), "the end");
}

TEST(FolderOrder, TheEndIsNoDataWhereverItSorts) {
  FolderOrder order("");
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(order.See("f", {"A", "END", "z"}).ok());
  EXPECT_EQ(NextOf(order), "A");
  EXPECT_EQ(NextOf(order), "z");
  EXPECT_EQ(NextOf(order), "the end");
  FolderOrder nothing("");
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(nothing.See("f", {"END"}).ok());
  EXPECT_EQ(NextOf(nothing), "the end");
}

TEST(FolderOrder, TheEndMayComeAfterNamesBehindIt) {
  FolderOrder order("z");
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(order.See("f", {"z"}).ok());
  EXPECT_EQ(NextOf(order), "wait");
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(order.See("f", {"END", "z"}).ok());
  EXPECT_EQ(NextOf(order), "the end");
}

TEST(FolderOrder, AFileThatIsTooLateIsNamed) {
  FolderOrder order("");
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(order.See("f", {"a", "c"}).ok());
  EXPECT_EQ(NextOf(order), "a");
  EXPECT_EQ(NextOf(order), "c");
  EXPECT_TRUE(order.See("f", {"a", "c"}).ok());
  EXPECT_TRUE(order.See("f", {"c", "d"}).ok());  // those that were taken may go
  const absl::Status late = order.See("f", {"b", "c", "d"});
  EXPECT_TRUE(absl::IsDataLoss(late));
  EXPECT_THAT(late.message(), HasSubstr("f/b: it came after 'c' was taken"));
}

TEST(FolderOrder, WhatIsThereAtTheBeginningIsNotLate) {
  FolderOrder order("c");
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(order.See("f", {"a", "b", "c", "d"}).ok());
  EXPECT_EQ(NextOf(order), "d");
}

TEST(CheckTaken, TellsALateFileByItsTime) {
  const StreamPlace place{.file = "c", .sample = 4, .seen = 100};
  EXPECT_TRUE(CheckTaken("f/a", {.bytes = 3, .changed = 100}, place).ok());
  const absl::Status late = CheckTaken("f/b", {.bytes = 3, .changed = 101}, place);
  EXPECT_TRUE(absl::IsDataLoss(late));
  EXPECT_THAT(late.message(), HasSubstr("f/b: it has come, or was changed, after 'c' was taken"));
}

TEST(SamplesOfFile, AreWhole) {
  EXPECT_EQ(*SamplesOfFile("a", {.bytes = 0}, 3), 0u);
  EXPECT_EQ(*SamplesOfFile("a", {.bytes = 9}, 3), 3u);
  const auto part = SamplesOfFile("f/a", {.bytes = 10}, 3);
  EXPECT_TRUE(absl::IsDataLoss(part.status()));
  EXPECT_THAT(part.status().message(), HasSubstr("f/a: it has 10 bytes"));
}

}  // namespace
}  // namespace muster
