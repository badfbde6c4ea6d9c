#include "coordinator/runtime/log_store.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "coordinator/runtime/log_marks.h"
#include "coordinator/runtime/log_places.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LogStoreTest : public ::testing::Test {
 protected:
  LogStoreTest() { std::filesystem::remove_all(folder_); }
  ~LogStoreTest() override {
    store_.reset();
    std::filesystem::remove_all(folder_);
  }
  void Open(LogBudget budget = {}) {
    store_.reset();
    store_.emplace(folder_, std::set<std::string>{"a", "b"}, budget);
    ASSERT_TRUE(store_->Await());
  }
  void Add(const std::string& job, const std::string& name, const std::string& text,
           LogAmount left_out = {}) {
    store_->Add({.job = job, .name = name, .text = text, .left_out = left_out});
    ASSERT_TRUE(store_->Await());
  }
  std::string Kept(const std::string& job, const std::string& name, size_t most = 1000) const {
    return ReadKeptLog(folder_, job, name, most).text;
  }

  const std::string folder_ = ::testing::TempDir() + "log-store-" + std::to_string(getpid()) + "-" +
                              ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::optional<LogStore> store_;
};

TEST_F(LogStoreTest, KeepsWhatMembersPrintedAlsoForTheNextCoordinator) {
  Open();
  Add("a", "worker-0", "one\n");
  Add("a", "worker-1", "other\n");
  Open();
  Add("a", "worker-0", "two\n");
  EXPECT_EQ(Kept("a", "worker-0"), "one\ntwo\n");
  EXPECT_THAT(MembersWithLogs(folder_, "a"), ElementsAre("worker-0", "worker-1"));
  EXPECT_THAT(MembersWithLogs(folder_, "b"), IsEmpty());
}

TEST_F(LogStoreTest, ALineSaysWhatIsLeftOut) {
  Open();
  Add("a", "worker-0", "one");
  Add("a", "worker-0", "two\n", {1234});
  Add("a", "worker-0", "three\n", {20, 1});
  Add("a", "worker-0", "four\n", {1234, 56});
  EXPECT_EQ(Kept("a", "worker-0"),
            "one\n... 1234 bytes are left out here\ntwo\n"
            "... 1 line (20 bytes) is left out here\nthree\n"
            "... 56 lines (1234 bytes) are left out here\nfour\n");
}

// Nobody knows what a coordinator that was killed had got, so it is said unless nothing can lack.
TEST_F(LogStoreTest, AfterARestartALineSaysThatSomeMayBeMissing) {
  const auto add = [&](const std::string& name, const std::string& text, int64_t before) {
    store_->Add({.job = "a",
                 .placement = PlacementNumber(7),
                 .name = name,
                 .text = text,
                 .before = {before, 1}});
    ASSERT_TRUE(store_->Await());
  };
  Open();
  for (const char* name : {"worker-0", "worker-1", "worker-2", "worker-3"}) add(name, "one\n", 0);
  add("worker-3", "two", 4);
  Open();
  add("worker-0", "two\n", 4);
  EXPECT_EQ(Kept("a", "worker-0"), "one\ntwo\n") << "all of it is there";
  add("worker-1", "three\n", 8);
  add("worker-1", "four\n", 99);
  EXPECT_EQ(Kept("a", "worker-1"), std::string("one\n") + kMayLackSome + "\nthree\nfour\n")
      << "it is said once";
  add("worker-2", "anew\n", 0);
  EXPECT_EQ(Kept("a", "worker-2"), "one\nanew\n") << "another agent, which has told nothing yet";
  add("worker-3", "three\n", 20);
  EXPECT_EQ(Kept("a", "worker-3"), std::string("one\ntwo\n") + kMayLackSome + "\nthree\n");
}

TEST_F(LogStoreTest, WhatDoesNotFitBehindTheDiskIsLeftOutAndCounted) {
  Open({.waiting = 2000});
  Add("a", "worker-0", std::string(1990, 'x'));
  EXPECT_EQ(Kept("a", "worker-0"), "");
  Add("a", "worker-0", "fits\n");
  EXPECT_EQ(Kept("a", "worker-0"), "... 1990 bytes are left out here\nfits\n");
  Add("a", "worker-1", std::string(1989, 'x') + "\n", {10, 2});
  Add("a", "worker-1", "fits\n");
  EXPECT_EQ(Kept("a", "worker-1"), "... 3 lines (2000 bytes) are left out here\nfits\n")
      << "one line says all of it";
}

// A session that breaks loses what was on its way, and each part says what came before it.
TEST(LogMarks, WhatWasLostOnItsWayIsMissingBeforeTheNextLines) {
  const AgentId a{"a", {1, 1}}, anew{"a", {2, 1}}, b{"b", {1, 1}};
  const auto lines = [](LogAmount before, const std::string& text, LogAmount left_out = {}) {
    return LogLines{
        .job = "j", .name = "worker-0", .text = text, .left_out = left_out, .before = before};
  };
  LogMarks marks;
  EXPECT_EQ(marks.Note(a, lines({50, 5}, "one\n")), LogAmount()) << "nobody knows, at first";
  EXPECT_EQ(marks.Note(a, lines({54, 6}, "two\n", {7, 1})), LogAmount()) << "all came";
  EXPECT_EQ(marks.Note(a, lines({100, 10}, "three\n")), (LogAmount{35, 2}));
  EXPECT_EQ(marks.Note(a, lines({106, 11}, "four\n")), LogAmount()) << "it is said once";
  EXPECT_EQ(marks.Note(b, lines({0, 0}, "moved\n")), LogAmount()) << "another agent's log";
  EXPECT_EQ(marks.Note(a, lines({112, 12}, "last words\n")), (LogAmount{1, 0}))
      << "of the host before, which goes on";
  EXPECT_EQ(marks.Note(anew, lines({0, 0}, "again\n")), LogAmount());
  marks.Forget("j");
  EXPECT_EQ(marks.Note(b, lines({99, 9}, "of another job\n")), LogAmount());
}

TEST_F(LogStoreTest, OfAMemberTheNewestIsKept) {
  Open({.file = 10});
  for (const char* line : {"1234567\n", "abcdefg\n", "ABCDEFG\n"}) Add("a", "worker-0", line);
  EXPECT_EQ(Kept("a", "worker-0"), "abcdefg\nABCDEFG\n");
  const KeptLog part = ReadKeptLog(folder_, "a", "worker-0", 12);
  EXPECT_EQ(part.text, "efg\nABCDEFG\n");
  EXPECT_TRUE(part.is_cut);
}

TEST_F(LogStoreTest, InAllWhatWasWrittenLongestAgoGoesFirstAlsoAfterARestart) {
  Open({.in_all = 20});
  Add("a", "worker-0", "1234567\n");
  Add("b", "worker-0", "abcdefg\n");
  Add("a", "worker-0", "x\n");
  Add("a", "worker-1", "ABCDEFG\n");
  EXPECT_EQ(Kept("b", "worker-0"), "");
  EXPECT_EQ(Kept("a", "worker-0"), "1234567\nx\n");
  EXPECT_EQ(Kept("a", "worker-1"), "ABCDEFG\n");
  Open({.in_all = 10});
  size_t bytes = 0;
  for (const char* name : {"worker-0", "worker-1"}) bytes += Kept("a", name).size();
  EXPECT_LE(bytes, 10u);
}

// Whoever reads on from where he was has each line once, however the files are rotated meanwhile
// and how often the coordinator is started.
TEST_F(LogStoreTest, AFollowerHasEachLineOnceThroughRotationAndRestarts) {
  Open({.file = 30});
  std::optional<LogPlace> place;
  std::string expected, got;
  for (int i = 0; i < 40; ++i) {
    const std::string line = "line " + std::to_string(i) + "\n";
    Add("a", "worker-0", line);
    expected += line;
    if (i % 7 == 3) Open({.file = 30});
    if (i % 3 > 0) continue;
    for (bool is_more = true; is_more;) {
      const std::optional<LogSpan> span =
          ReadLogAfter(folder_, "a", "worker-0", place, 16, /*ends=*/false);
      ASSERT_TRUE(span);
      EXPECT_EQ(span->left_out, 0) << i;
      EXPECT_FALSE(span->is_other);
      got += span->text;
      place = span->next;
      is_more = span->is_more;
    }
    EXPECT_EQ(got, expected);
  }
}

TEST_F(LogStoreTest, AFollowerIsToldWhatItMissed) {
  Open({.file = 10});
  Add("a", "worker-0", "1234567\n");
  const std::optional<LogSpan> first =
      ReadLogAfter(folder_, "a", "worker-0", std::nullopt, 100, /*ends=*/false);
  ASSERT_TRUE(first);
  for (const char* line : {"abcdefg\n", "ABCDEFG\n", "xyzxyzx\n"}) Add("a", "worker-0", line);
  const std::optional<LogSpan> next =
      ReadLogAfter(folder_, "a", "worker-0", first->next, 100, /*ends=*/false);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->left_out, 8) << "the second line was rotated away";
  EXPECT_EQ(next->text, "ABCDEFG\nxyzxyzx\n");
  store_->Forget("a");
  Add("a", "worker-0", "of another job of that id\n");
  const std::optional<LogSpan> other =
      ReadLogAfter(folder_, "a", "worker-0", next->next, 100, /*ends=*/false);
  ASSERT_TRUE(other);
  EXPECT_TRUE(other->is_other) << "nothing is left of what was read";
  EXPECT_EQ(other->text, "of another job of that id\n");
  EXPECT_FALSE(ReadLogAfter(folder_, "a", "worker-1", std::nullopt, 100, false));
}

TEST_F(LogStoreTest, ALineIsGivenOnceItHasItsEnd) {
  Open();
  Add("a", "worker-0", "one\ntw");
  std::optional<LogSpan> span = ReadLogAfter(folder_, "a", "worker-0", std::nullopt, 100, false);
  ASSERT_TRUE(span);
  EXPECT_EQ(span->text, "one\n");
  EXPECT_FALSE(span->is_more);
  span = ReadLogAfter(folder_, "a", "worker-0", span->next, 100, /*ends=*/true);
  ASSERT_TRUE(span);
  EXPECT_EQ(span->text, "tw") << "no more is printed";
  Add("a", "worker-0", "o, which is long\n");
  span = ReadLogAfter(folder_, "a", "worker-0", std::nullopt, 4, false);
  ASSERT_TRUE(span);
  span = ReadLogAfter(folder_, "a", "worker-0", span->next, 6, false);
  ASSERT_TRUE(span);
  EXPECT_EQ(span->text, "two, w") << "a piece of one that is longer than what is asked for";
  EXPECT_TRUE(span->is_more);
}

// It moved to another host, and its last words there were no whole line.
TEST_F(LogStoreTest, AnotherProcessBeginsAnotherLine) {
  Open();
  const auto add = [&](int64_t placement, const std::string& text) {
    store_->Add(
        {.job = "a", .placement = PlacementNumber(placement), .name = "worker-0", .text = text});
    ASSERT_TRUE(store_->Await());
  };
  add(1, "it en");
  add(1, "ds");
  add(2, "it begins\n");
  EXPECT_EQ(Kept("a", "worker-0"), "it ends\nit begins\n");
}

TEST_F(LogStoreTest, TheTailBeginsWithALine) {
  Open({.file = 20});
  for (int i = 0; i < 6; ++i) Add("a", "worker-0", "line " + std::to_string(i) + "\n");
  const auto from = [&](int64_t lines, size_t most) {
    const auto place = PlaceOfTail(folder_, "a", "worker-0", lines, most);
    return ReadLogAfter(folder_, "a", "worker-0", place, 100, false)->text;
  };
  EXPECT_EQ(from(1, 100), "line 5\n");
  EXPECT_EQ(from(3, 100), "line 3\nline 4\nline 5\n") << "over both files";
  EXPECT_EQ(from(3, 10), "line 5\n") << "the line before is not whole there";
  EXPECT_EQ(from(100, 1000), "line 3\nline 4\nline 5\n")
      << "of the first nobody knows whether it is whole";
}

// Each file's first line is ours. Files of an earlier version have none.
TEST_F(LogStoreTest, WhatAnEarlierVersionKeptIsGoneOnFrom) {
  std::filesystem::create_directories(folder_ + "/a");
  std::ofstream(folder_ + "/a/worker-0.log.1") << "one\n";
  std::ofstream(folder_ + "/a/worker-0.log") << "two\n";
  Open();
  std::optional<LogSpan> span = ReadLogAfter(folder_, "a", "worker-0", std::nullopt, 100, false);
  ASSERT_TRUE(span);
  EXPECT_EQ(span->text, "one\ntwo\n");
  Add("a", "worker-0", "three\n");
  EXPECT_EQ(Kept("a", "worker-0"), "three\n");
  span = ReadLogAfter(folder_, "a", "worker-0", std::nullopt, 100, false);
  ASSERT_TRUE(span);
  EXPECT_EQ(span->text, "two\n");
  span = ReadLogAfter(folder_, "a", "worker-0", span->next, 100, false);
  ASSERT_TRUE(span);
  EXPECT_EQ(span->text, "three\n");
}

TEST_F(LogStoreTest, EachWriteIsNews) {
  Open();
  EXPECT_EQ(store_->Writes("a"), 0);
  Add("a", "worker-0", "one\n");
  const int64_t once = store_->Writes("a");
  EXPECT_NE(once, 0);
  Add("b", "worker-0", "one\n");
  EXPECT_EQ(store_->Writes("a"), once);
  Add("a", "worker-0", "two\n");
  EXPECT_NE(store_->Writes("a"), once);
}

TEST_F(LogStoreTest, WhatIsKeptGoesWithItsJob) {
  Open();
  Add("a", "worker-0", "of a\n");
  Add("b", "worker-0", "of b\n");
  store_->Forget("a");
  ASSERT_TRUE(store_->Await());
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/a"));
  EXPECT_EQ(Kept("b", "worker-0"), "of b\n");
  Add("a", "worker-0", "of another job of that id\n");
  EXPECT_EQ(Kept("a", "worker-0"), "of another job of that id\n");
}

TEST_F(LogStoreTest, WhatIsLeftOfDeletedJobsIsRemoved) {
  std::filesystem::create_directories(folder_ + "/deleted");
  Open();
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/deleted"));
}

TEST(LogPlacesTest, OnlyAgentsThatWereToldLastToStartAMemberSpeakOfIt) {
  LogPlaces places;
  const AgentId one{"one", {1, 1}}, two{"two", {2, 2}};
  const auto told = [&](const AgentId& agent, int64_t number) {
    places.Told(
        agent,
        {.jobs = {{.job = "a",
                   .processes = {{.name = "worker-0", .placement = PlacementNumber(number)}}}}});
  };
  const auto has = [&](const AgentId& agent, int64_t number, const std::string& name = "worker-0") {
    return places.Has(
        agent, {.job = "a", .placement = PlacementNumber(number), .name = name, .text = "x"});
  };
  EXPECT_FALSE(has(one, 1));
  told(one, 1);
  EXPECT_TRUE(has(one, 1));
  EXPECT_FALSE(has(one, 2));
  EXPECT_FALSE(has(two, 1));
  EXPECT_FALSE(has(one, 1, "worker-1"));
  EXPECT_FALSE(has({"one", {3, 3}}, 1)) << "another agent of that host";
  places.Told(one, {});
  EXPECT_TRUE(has(one, 1)) << "its last lines come after it has left";
  told(two, 2);
  EXPECT_TRUE(has(one, 1)) << "also when it is placed elsewhere by then";
  EXPECT_TRUE(has(two, 2));
  told(two, 2);
  told(two, 3);
  EXPECT_FALSE(has(one, 1));
  EXPECT_TRUE(has(two, 2));
  places.Forget("a");
  EXPECT_FALSE(has(two, 2));
}

}  // namespace
}  // namespace muster::coordinator
