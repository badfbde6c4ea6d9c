#include "cli/run_logs.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class RunLogsTest : public ::testing::Test {
 protected:
  RunLogsTest() {
    if (mkdtemp(folder_.data()) == nullptr) std::abort();
  }
  void Print(const std::string& host, const std::string& member, const std::string& text) const {
    const std::string logs = folder_ + (host.empty() ? "" : "/hosts/" + host) + "/jobs/job/logs";
    std::filesystem::create_directories(logs);
    std::ofstream(logs + "/" + member + ".log", std::ios::app) << text;
  }
  static std::vector<std::string> Read(RunLogs& logs, bool ends = false) {
    std::vector<std::string> lines;
    logs.Read(ends, [&](const std::string& member, const std::string& text) {
      lines.push_back(member + " | " + text);
    });
    return lines;
  }

  std::string folder_ = ::testing::TempDir() + "/muster-run-logs-XXXXXX";
};

TEST_F(RunLogsTest, ShowsWhatMembersOfAllHostsPrint) {
  RunLogs logs(folder_, "job");
  EXPECT_THAT(Read(logs), IsEmpty());
  Print("", "worker-0", "one\n");
  Print("b-1", "worker-1", "two\nhal");
  EXPECT_THAT(Read(logs), UnorderedElementsAre("worker-0 | one", "worker-1 | two"));
  Print("b-1", "worker-1", "f");
  EXPECT_THAT(Read(logs), IsEmpty());
  EXPECT_THAT(Read(logs, /*ends=*/true), ElementsAre("worker-1 | half"));
}

TEST_F(RunLogsTest, LeavesOutWhatAnEarlierRunPrinted) {
  Print("", "worker-0", "old\n");
  RunLogs logs(folder_, "job");
  Print("", "worker-0", "new\n");
  EXPECT_THAT(Read(logs), ElementsAre("worker-0 | new"));
}

TEST_F(RunLogsTest, MoreThanAnybodyReadsIsCounted) {
  RunLogs logs(folder_, "job");
  const std::string line(1000, 'x');
  std::string text;
  for (size_t bytes = 0; bytes < 2 * RunLogs::kMostBytes; bytes += line.size()) text += line + "\n";
  Print("", "worker-0", text);
  const std::vector<std::string> lines = Read(logs);
  EXPECT_THAT(lines, SizeIs(RunLogs::kMostBytes / line.size() + 1));
  EXPECT_THAT(lines.back(), HasSubstr("bytes more are in"));
}

// As a terminal that is held: the files keep what is printed meanwhile.
TEST_F(RunLogsTest, NothingIsReadWhileNobodyTakesIt) {
  RunLogs logs(folder_, "job");
  LogLines lines;
  EXPECT_FALSE(lines.Read(logs)) << "there is nothing";
  Print("", "worker-0", "one\n");
  EXPECT_TRUE(lines.Read(logs));
  Print("", "worker-0", "two\n");
  EXPECT_FALSE(lines.Read(logs)) << "nobody has taken the first";
  EXPECT_THAT(lines.Take(), ElementsAre(std::pair("worker-0", "one")));
  EXPECT_TRUE(lines.Read(logs));
  EXPECT_THAT(lines.Take(), ElementsAre(std::pair("worker-0", "two")));
}

}  // namespace
}  // namespace muster::cli
