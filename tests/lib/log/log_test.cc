#include "lib/log/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "lib/base/printable.h"
#include "lib/base/utf8.h"

namespace muster {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

constexpr char kTimeRegex[] = "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z";

class LogTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::path(testing::TempDir()) /
        (std::string("log_test_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    ASSERT_TRUE(StartLog({.program = "muster"}).ok());
    std::filesystem::remove_all(folder_);
  }
  std::string File() const { return (folder_ / "log").string(); }
  std::vector<std::string> Lines() const {
    std::ifstream in(File());
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }

  std::filesystem::path folder_;
};

TEST_F(LogTest, WritesTimeLevelProgramMemberAndText) {
  ASSERT_TRUE(StartLog({.program = "muster-worker", .member = "w1", .file = File()}).ok());
  LogInfo("step %d of %s", 7, "job");
  LogWarning("slow");
  LogError("100%% broken");
  LogInfo("%s", "braces {} and %v stay");
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_THAT(lines[0],
              MatchesRegex(std::string(kTimeRegex) + " info muster-worker w1 step 7 of job"));
  EXPECT_THAT(lines[1], MatchesRegex(std::string(kTimeRegex) + " warning muster-worker w1 slow"));
  EXPECT_THAT(lines[2],
              MatchesRegex(std::string(kTimeRegex) + " error muster-worker w1 100% broken"));
  EXPECT_THAT(lines[3], HasSubstr("braces {} and %v stay"));
}

TEST_F(LogTest, LevelsBelowTheChosenOneAreSilent) {
  ASSERT_TRUE(StartLog({.program = "p", .level = LogLevel::kWarning, .file = File()}).ok());
  LogDebug("a");
  LogInfo("b");
  LogWarning("c");
  ASSERT_EQ(Lines().size(), 1u);
  ASSERT_TRUE(StartLog({.program = "p", .level = LogLevel::kDebug, .file = File()}).ok());
  LogDebug("d");
  EXPECT_EQ(Lines().size(), 2u) << "a second start appends";
}

TEST_F(LogTest, OneCallIsOneLineWhateverTheText) {
  ASSERT_TRUE(StartLog({.program = "p%v\n", .file = File()}).ok());
  LogInfo("%s", "first\nsecond\r\x1b[31m");
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], HasSubstr("info p%v\\n first\\nsecond\\x0d\\x1b[31m"));
}

TEST_F(LogTest, JsonLinesParseWhateverTheText) {
  ASSERT_TRUE(
      StartLog({.program = "muster-\"worker\" %v", .member = "w1", .file = File(), .json = true})
          .ok());
  const std::vector<std::string> texts = {"plain", "quote \" backslash \\ newline \n tab \t",
                                          "z\xc3\xbcrich \xf0\x9f\x98\x80"};
  for (const std::string& text : texts) LogInfo("%s", text);
  LogError("%s", "bad \xff\xc3 \xed\xa0\x80 \xc0\xaf end");
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 4u);
  for (size_t i = 0; i < lines.size(); ++i) {
    const auto json = nlohmann::json::parse(lines[i], nullptr, false);
    ASSERT_FALSE(json.is_discarded()) << lines[i];
    EXPECT_EQ(json["program"], "muster-\"worker\" %v");
    EXPECT_EQ(json["member"], "w1");
    EXPECT_EQ(json["level"], i == 3 ? "error" : "info");
    EXPECT_THAT(json["time"].get<std::string>(), MatchesRegex(kTimeRegex));
    if (i < texts.size()) {
      EXPECT_EQ(json["text"], texts[i]);
    }
  }
  EXPECT_THAT(lines[3], HasSubstr("end"));
}

// What a stranger sends is logged as the reason why it was refused.
TEST_F(LogTest, ALineCannotSteerATerminalNorFillTheLog) {
  struct Row {
    const char* what;
    std::string text, logged;
  };
  const std::vector<Row> rows = {
      {"control characters of the second set",
       "a\xc2\x9b"
       "31m",
       "a\\x9b31m"},
      {"bytes that are not UTF-8", "a\xff\xc3z", "a??z"},
      {"characters", "z\xc3\xbcrich", "z\xc3\xbcrich"},
      {"a long text", std::string(100'000, 'x'), std::string(kMostShownBytes - 3, 'x') + "..."}};
  for (const bool json : {false, true}) {
    ASSERT_TRUE(StartLog({.program = "p", .file = File(), .json = json}).ok());
    for (const Row& row : rows) {
      LogWarning("%s", row.text);
      const std::string line = Lines().back();
      EXPECT_TRUE(IsUtf8(line)) << row.what;
      if (json) {
        const auto object = nlohmann::json::parse(line, nullptr, false);
        ASSERT_FALSE(object.is_discarded()) << row.what;
        EXPECT_EQ(object["text"], row.logged) << row.what;
      } else {
        EXPECT_THAT(line, testing::EndsWith(" warning p " + row.logged)) << row.what;
      }
    }
  }
}

TEST_F(LogTest, AFileThatCannotBeOpenedIsNamed) {
  ASSERT_TRUE(StartLog({.program = "p", .file = File()}).ok());
  const absl::Status below_a_file = StartLog({.program = "p", .file = File() + "/x"});
  EXPECT_EQ(below_a_file.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(below_a_file.message()), HasSubstr(File() + "/x"));
}

TEST_F(LogTest, ManyThreadsKeepTheirLinesWhole) {
  ASSERT_TRUE(StartLog({.program = "p", .file = File()}).ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 50; ++i) LogInfo("thread %d line %d.", t, i);
    });
  }
  for (auto& thread : threads) thread.join();
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 200u);
  for (const auto& line : lines)
    EXPECT_THAT(line, MatchesRegex(".*Z info p thread [0-3] line [0-9]+\\."));
}

TEST(ParseLogLevel, KnowsFourWords) {
  EXPECT_EQ(*ParseLogLevel("debug"), LogLevel::kDebug);
  EXPECT_EQ(*ParseLogLevel("error"), LogLevel::kError);
  EXPECT_EQ(ParseLogLevel("loud").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace muster
