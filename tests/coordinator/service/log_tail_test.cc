// What people are told of the lines that members printed.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "coordinator/service/job_questions.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/config/field_error.h"

namespace muster::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LogTailTest : public ::testing::Test {
 protected:
  LogTailTest() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ + "/a");
  }
  ~LogTailTest() override { std::filesystem::remove_all(folder_); }
  void Keep(const std::string& file, const std::string& text) const {
    std::ofstream(folder_ + "/a/" + file) << text;
  }
  std::string Tail(const LogQuery& query) const {
    const absl::StatusOr<LogTail> tail = ReadLogs(folder_, "a", query);
    return tail.ok() ? tail->text : std::string(tail.status().message());
  }

  const std::string folder_ = ::testing::TempDir() + "log-tail-" + std::to_string(getpid()) + "-" +
                              ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(LogTailTest, LinesOfAllHaveTheNameOfTheirMember) {
  Keep("worker-0.log", "one\ntwo\n");
  Keep("worker-1.log.1", "cut here\nolder\n");
  Keep("worker-1.log", "newer\nnot ended");
  EXPECT_EQ(Tail({.tail = 100}),
            "worker-0: one\nworker-0: two\n"
            "worker-1: older\nworker-1: newer\nworker-1: not ended\n");
  EXPECT_EQ(Tail({.tail = 1}), "worker-0: two\nworker-1: not ended\n");
  EXPECT_EQ(Tail({.member = "worker-0", .tail = 100}), "one\ntwo\n");
  EXPECT_THAT(Tail({.member = "worker-2", .tail = 1}),
              HasSubstr("no log of a member worker-2; there are logs of worker-0, worker-1"));
}

TEST_F(LogTailTest, NothingSteersATerminalAndAnAnswerIsBounded) {
  Keep("worker-0.log", "\x1b[31mred\n\xff\n");
  EXPECT_EQ(Tail({.tail = 100}), "worker-0: \\x1b[31mred\nworker-0: ?\n");
  std::string text;
  while (text.size() < 4 * kMostLogAnswerBytes) text += std::string(999, '\x1b') + "\n";
  for (const char* name : {"worker-0", "worker-1", "worker-2"})
    Keep(name + std::string(".log"), text);
  EXPECT_LE(Tail({.tail = kMostLogLines}).size(), kMostLogAnswerBytes);
  EXPECT_LE(Tail({.member = "worker-1", .tail = kMostLogLines}).size(), kMostLogAnswerBytes);
}

TEST_F(LogTailTest, AnEmptyLogHasNoLines) {
  Keep("worker-0.log", "");
  EXPECT_EQ(Tail({.tail = 100}), "");
}

TEST_F(LogTailTest, APageBeginsWhereTheOneBeforeEnded) {
  Keep("worker-0.log", "one\n");
  LogPage page = ReadLogPage(folder_, "a", {}, /*ends=*/false).value();
  EXPECT_THAT(page.lines, ElementsAre(LogLine{"worker-0", "one"}));
  Keep("worker-0.log", "one\ntwo\x1b\n");
  Keep("worker-1.log", "\nit has not ended");
  page = ReadLogPage(folder_, "a", {.after = page.next}, /*ends=*/false).value();
  EXPECT_THAT(page.lines, ElementsAre(LogLine{"worker-0", "two\\x1b"}, LogLine{"worker-1", ""}));
  EXPECT_FALSE(page.over);
  page = ReadLogPage(folder_, "a", {.after = page.next}, /*ends=*/true).value();
  EXPECT_THAT(page.lines, ElementsAre(LogLine{"worker-1", "it has not ended"}));
  EXPECT_TRUE(page.over);
  page = ReadLogPage(folder_, "a", {.after = page.next}, /*ends=*/true).value();
  EXPECT_THAT(page.lines, IsEmpty());
  EXPECT_TRUE(page.over);
}

TEST_F(LogTailTest, APageIsOfOneMemberOrBeginsWithTheTail) {
  Keep("worker-0.log", "one\ntwo\nthree\n");
  Keep("worker-1.log", "other\n");
  const auto lines = [&](const FollowQuery& query) {
    const LogPage page = ReadLogPage(folder_, "a", query, true).value();
    std::string text;
    for (const LogLine& line : page.lines) text += line.member + ": " + line.line + "\n";
    return text;
  };
  EXPECT_EQ(lines({.member = "worker-1"}), "worker-1: other\n");
  EXPECT_EQ(lines({.tail = 2}), "worker-0: two\nworker-0: three\nworker-1: other\n");
  EXPECT_THAT(ReadLogPage(folder_, "a", {.member = "worker-2"}, true).status().message(),
              HasSubstr("no log of a member worker-2; there are logs of worker-0, worker-1"));
  EXPECT_TRUE(ReadLogPage(folder_, "a", {.member = "worker-2"}, false).ok()) << "it may come";
}

// A follower asks again for what did not fit, and each member has its part of each page.
TEST_F(LogTailTest, PagesAreBoundedAndEachMemberHasItsPart) {
  std::string text;
  while (text.size() < 3 * kMostLogPageBytes) text += std::string(99, 'x') + "\n";
  for (const char* name : {"worker-0", "worker-1"}) Keep(name + std::string(".log"), text);
  FollowQuery query;
  int pages = 0;
  std::map<std::string, size_t> bytes;
  for (bool over = false; !over; ++pages) {
    const LogPage page = ReadLogPage(folder_, "a", query, true).value();
    std::map<std::string, size_t> of_page;
    for (const LogLine& line : page.lines) of_page[line.member] += line.line.size() + 1;
    EXPECT_LE(of_page["worker-0"], kMostLogPageBytes / 2);
    EXPECT_EQ(of_page["worker-0"], of_page["worker-1"]);
    bytes["worker-0"] += of_page["worker-0"];
    query.after = page.next;
    over = page.over;
    ASSERT_LT(pages, 20);
  }
  EXPECT_EQ(bytes["worker-0"], text.size());
  EXPECT_GT(pages, 5);
}

// As JSON each line is a hundred times as much as its end.
TEST_F(LogTailTest, PagesHaveNotManyLinesThoughTheseAreEmpty) {
  const std::string text(2 * kMostLogPageBytes, '\n');
  Keep("worker-0.log", text);
  FollowQuery query;
  size_t lines = 0;
  for (bool over = false; !over && lines <= text.size();) {
    const LogPage page = ReadLogPage(folder_, "a", query, true).value();
    ASSERT_LE(page.lines.size(), kMostLogPageBytes / kLeastBytesOfLine);
    lines += page.lines.size();
    query.after = page.next;
    over = page.over;
  }
  EXPECT_EQ(lines, text.size());
}

TEST_F(LogTailTest, WhereAFollowerIsIsWhatWeSaid) {
  Keep("worker-0.log", "one\n");
  const std::string next = ReadLogPage(folder_, "a", {}, false).value().next;
  EXPECT_TRUE(CheckFollowQuery({.after = next}).ok());
  for (const std::string& after :
       {std::string("x"), std::string("2"), next + "~", next + "~worker-1",
        next + "~worker-0~0123456789abcdef~1", std::string("1~../x~0123456789abcdef~1"),
        std::string("1~worker-0~0123456789abcdef~-1"), std::string("1~worker-0~0123456789abcdef~"),
        std::string("1~worker-0~123~1"), std::string("1~worker-0~zzzzzzzzzzzzzzzz~1"),
        std::string(kMostFollowedBytes + 1, '1')})
    EXPECT_EQ(FieldOf(CheckFollowQuery({.after = after})), "after") << after;
  EXPECT_EQ(FieldOf(CheckFollowQuery({.tail = kMostLogLines + 1})), "tail");
  EXPECT_EQ(FieldOf(CheckFollowQuery({.member = "../x"})), "member");
  const LogPage beyond =
      ReadLogPage(folder_, "a", {.after = "1~worker-0~0000000000000000~9000000000000000000"}, true)
          .value();
  EXPECT_THAT(beyond.lines, IsEmpty());
}

TEST_F(LogTailTest, MoreMembersThanMayBeFollowedAreNamedOneByOne) {
  for (size_t i = 0; i <= kMostFollowedMembers; ++i)
    Keep("worker-" + std::to_string(i) + ".log", "one\n");
  EXPECT_EQ(FieldOf(ReadLogPage(folder_, "a", {}, false).status()), "member");
  EXPECT_TRUE(ReadLogPage(folder_, "a", {.member = "worker-7"}, false).ok());
}

TEST_F(LogTailTest, AQueryThatIsNoneNamesItsField) {
  LogQuery query;
  EXPECT_TRUE(CheckLogQuery(query).ok());
  EXPECT_EQ(query.tail, kLogLines);
  query.tail = kMostLogLines + 1;
  EXPECT_EQ(FieldOf(CheckLogQuery(query)), "tail");
  query = {.member = "../x"};
  EXPECT_EQ(FieldOf(CheckLogQuery(query)), "member");
}

}  // namespace
}  // namespace muster::coordinator
