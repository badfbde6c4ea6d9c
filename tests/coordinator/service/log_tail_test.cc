// What people are told of the lines that members printed.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "coordinator/service/job_questions.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/config/field_error.h"

namespace muster::coordinator {
namespace {

using ::testing::HasSubstr;

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
