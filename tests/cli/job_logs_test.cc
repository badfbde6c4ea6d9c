#include "cli/job_logs.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "cli/cluster_folder.h"
#include "cli/remote.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class JobLogsTest : public ::testing::Test {
 protected:
  JobLogsTest() {
    if (mkdtemp(cluster_.data()) == nullptr) std::abort();
    std::filesystem::create_directories(folder());
  }
  ~JobLogsTest() override { std::filesystem::remove_all(cluster_); }

  std::string folder() const { return LogFolder(cluster_, "j"); }
  void Append(const std::string& member, const std::string& text) const {
    std::ofstream(folder() + "/" + member + ".log", std::ios::app) << text;
  }
  static std::vector<std::string> Lines(JobLogs& logs, bool ends = false) {
    std::vector<std::string> lines;
    logs.Read(ends, [&](const std::string& member, const std::string& text) {
      lines.push_back(member + ": " + text);
    });
    return lines;
  }
  int Logs(RemoteArguments arguments) {
    arguments.command = RemoteArguments::Command::kLogs;
    if (!arguments.has_to) arguments.to = "http://127.0.0.1:1";  // nobody listens there
    arguments.dir = cluster_;
    arguments.job = "j";
    out_.str("");
    err_.str("");
    return Remote(arguments, {.out = out_, .err = err_});
  }

  std::string cluster_ = ::testing::TempDir() + "/muster-logs-XXXXXX";
  std::ostringstream out_, err_;
};

TEST_F(JobLogsTest, LinesOfAllMembersComeInTheOrderOfTheirTimes) {
  Append("worker-0", "--- 2026-11-21T10:00:00Z starting x\n2026-11-21T10:00:02.500Z info b\n");
  Append("worker-1", "2026-11-21T10:00:01.000Z info a\n  more of a\n2026-11-21T10:00:03.000Z c\n");
  JobLogs logs(folder(), "");
  EXPECT_THAT(logs.Members(), ElementsAre("worker-0", "worker-1"));
  EXPECT_THAT(Lines(logs),
              ElementsAre("worker-0: --- 2026-11-21T10:00:00Z starting x",
                          "worker-1: 2026-11-21T10:00:01.000Z info a", "worker-1:   more of a",
                          "worker-0: 2026-11-21T10:00:02.500Z info b",
                          "worker-1: 2026-11-21T10:00:03.000Z c"));
  EXPECT_THAT(Lines(logs), IsEmpty());
}

// As the agent makes them (agent/runtime/log_file.h).
TEST_F(JobLogsTest, ThePartBeforeAFileComesFirstAndOneThatIsCutIsReadAnew) {
  std::ofstream(folder() + "/worker-0.log.1") << "one\n";
  Append("worker-0", "two, which is long\n");
  JobLogs logs(folder(), "");
  EXPECT_THAT(logs.Members(), ElementsAre("worker-0"));
  EXPECT_THAT(Lines(logs), ElementsAre("worker-0: one", "worker-0: two, which is long"));
  std::ofstream(folder() + "/worker-0.log", std::ios::trunc) << "three\n";
  EXPECT_THAT(Lines(logs), ElementsAre("worker-0: three"));
}

// The agent has renamed it since we looked: what it got last is in the part before now.
TEST_F(JobLogsTest, TheLastLinesBeforeAFileIsRotatedAreNotLost) {
  Append("worker-0", "one\n");
  JobLogs logs(folder(), "");
  EXPECT_THAT(Lines(logs), ElementsAre("worker-0: one"));
  Append("worker-0", "two\n");
  std::filesystem::rename(folder() + "/worker-0.log", folder() + "/worker-0.log.1");
  Append("worker-0", "3\n");
  EXPECT_THAT(Lines(logs), ElementsAre("worker-0: two", "worker-0: 3"));
  EXPECT_THAT(Lines(logs), IsEmpty());
}

TEST_F(JobLogsTest, ALineIsToldOnceItIsWhole) {
  Append("worker-0", "half");
  JobLogs logs(folder(), "");
  EXPECT_THAT(Lines(logs), IsEmpty());
  Append("worker-0", " and whole\nlast words");
  Append("server-0", "new\n");
  EXPECT_THAT(Lines(logs), ElementsAre("server-0: new", "worker-0: half and whole"));
  EXPECT_THAT(Lines(logs, /*ends=*/true), ElementsAre("worker-0: last words"));
}

TEST_F(JobLogsTest, ALineWithoutEndComesInPieces) {
  Append("worker-0", std::string(3 * LogFile::kLongestLine, 'x') + "\nshort\n");
  JobLogs logs(folder(), "worker-0");
  const std::vector<std::string> lines = Lines(logs);
  size_t bytes = 0;
  for (const std::string& line : lines) {
    EXPECT_LE(line.size(), LogFile::kLongestLine + 10);
    if (line.find("xx") != std::string::npos) bytes += line.size() - 10;
  }
  EXPECT_EQ(bytes, 3 * LogFile::kLongestLine);
  EXPECT_EQ(lines.back(), "worker-0: short");
}

TEST_F(JobLogsTest, TheTimeOfALine) {
  EXPECT_EQ(TimeOfLine("2026-11-21T10:09:51.267Z info x"), "2026-11-21T10:09:51.267");
  EXPECT_EQ(TimeOfLine("--- 2026-11-21T10:09:51Z starting x"), "2026-11-21T10:09:51");
  EXPECT_EQ(TimeOfLine(R"({"time":"2026-11-21T10:09:51.267Z","level":"info"})"),
            "2026-11-21T10:09:51.267");
  for (const char* none :
       {"", "words", "2026-11-21", "{}", "{\"time\":\"\"}", "2026-11-21T10:09:51"})
    EXPECT_EQ(TimeOfLine(none), "") << none;
}

TEST_F(JobLogsTest, TheCommandNamesMembersAndEscapesWhatSteersATerminal) {
  Append("worker-0", "\x1b[31mred\n");
  Append("server-0", "adds\n");
  EXPECT_EQ(Logs({}), 0);
  EXPECT_EQ(out_.str(), "server-0 | adds\nworker-0 | \\x1b[31mred\n");
  EXPECT_EQ(Logs({.member = "server-0"}), 0);
  EXPECT_EQ(out_.str(), "adds\n");
  EXPECT_EQ(Logs({.member = "server-0", .json = true}), 0);
  EXPECT_EQ(out_.str(), "{\"member\":\"server-0\",\"line\":\"adds\"}\n");
}

TEST_F(JobLogsTest, WhatIsNotThereIsNamed) {
  EXPECT_EQ(Logs({}), 1);
  EXPECT_THAT(err_.str(), HasSubstr("there are no logs of a job j in " + folder()));
  EXPECT_THAT(err_.str(), HasSubstr("--dir names it"));
  Append("worker-0", "x\n");
  EXPECT_EQ(Logs({.member = "worker-7"}), 1);
  EXPECT_THAT(err_.str(), HasSubstr("no log of a member worker-7; there are logs of worker-0"));
}

TEST_F(JobLogsTest, APipeInThePlaceOfAFileIsNamed) {
  Append("worker-0", "x\n");
  for (const std::string& file :
       {folder() + "/worker-1.log", cluster_ + "/cluster.json", cluster_ + "/job.json"}) {
    ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
    EXPECT_EQ(Logs({}), 65);
    EXPECT_THAT(err_.str(), HasSubstr(file + "' is a pipe"));
    EXPECT_EQ(UrlOfCluster(cluster_), "");
    std::filesystem::remove(file);
  }
  const std::string number = cluster_ + "/jobs/j/first_start";
  ASSERT_EQ(mkfifo(number.c_str(), 0600), 0);
  EXPECT_TRUE(RemoveJobFolder(cluster_, "j", 1).ok());
  EXPECT_TRUE(std::filesystem::exists(folder())) << "it does not say whose it is";
}

TEST_F(JobLogsTest, AnIdThatLeadsElsewhereIsRefused) {
  EXPECT_FALSE(CheckJobId("../x").ok());
  EXPECT_FALSE(CheckJobId("").ok());
  EXPECT_FALSE(CheckJobId("-x").ok());
  EXPECT_FALSE(RemoveJobFolder(cluster_, "..", 1).ok());
}

TEST_F(JobLogsTest, OnlyTheFolderOfTheJobThatIsMeantIsRemoved) {
  EXPECT_TRUE(RemoveJobFolder(cluster_, "j", 0).ok());
  EXPECT_TRUE(std::filesystem::exists(folder())) << "it does not say whose it is";
  std::ofstream(cluster_ + "/jobs/j/first_start") << "2\n";
  EXPECT_TRUE(RemoveJobFolder(cluster_, "j", 1).ok());
  EXPECT_TRUE(std::filesystem::exists(folder())) << "of another job of that id";
  EXPECT_TRUE(RemoveJobFolder(cluster_, "j", 2).ok());
  EXPECT_TRUE(std::filesystem::is_empty(cluster_ + "/jobs"));
  EXPECT_TRUE(RemoveJobFolder(cluster_, "j", 2).ok()) << "nothing there is no error";
}

TEST_F(JobLogsTest, TheFolderSaysWhereItsClusterAnswers) {
  EXPECT_EQ(UrlOfCluster(cluster_), "");
  std::ofstream(cluster_ + "/cluster.json") << R"({"grpc":"127.0.0.1:1","http":"127.0.0.1:2"})";
  EXPECT_EQ(UrlOfCluster(cluster_), "http://127.0.0.1:2");
}

}  // namespace
}  // namespace muster::cli
