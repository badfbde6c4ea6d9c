#include "cli/meeting.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"

namespace muster::cli {
namespace {

class MeetingTest : public ::testing::Test {
 protected:
  MeetingTest() {
    if (mkdtemp(folder_.data()) == nullptr) std::abort();
  }
  void Write(const Meeting& meeting) { ASSERT_TRUE(WriteMeeting(folder_, meeting).ok()); }

  std::string folder_ = ::testing::TempDir() + "/muster-meeting-XXXXXX";
  const Meeting at_{.coordinator = "10.0.0.1:7070", .run_id = "slurm-17-0"};
  const Meeting over_{.coordinator = "10.0.0.1:7070", .run_id = "slurm-17-0", .exit_code = 66};
};

TEST_F(MeetingTest, TellsWhereAndThenHowItEnded) {
  const MeetingReader reader(folder_, "slurm-17-0");
  EXPECT_EQ(reader.Look(), std::nullopt);
  Write(at_);
  EXPECT_EQ(reader.Look(), at_);
  Write(over_);
  EXPECT_EQ(reader.Look(), over_);
}

TEST_F(MeetingTest, WhatAnEarlierRunHasLeftDoesNotCount) {
  Write(over_);
  const MeetingReader same(folder_, "slurm-17-0");
  EXPECT_EQ(same.Look(), std::nullopt) << "that was before this run began";
  Write(at_);
  const MeetingReader other(folder_, "slurm-18-0");
  EXPECT_EQ(other.Look(), std::nullopt) << "another run's coordinator";
  EXPECT_EQ(MeetingReader(folder_, "slurm-17-0").Look(), at_) << "a host that starts anew";
  EXPECT_EQ(same.Look(), at_);
  const Meeting done = {.coordinator = "10.0.0.1:7070", .run_id = "slurm-17-0", .exit_code = 0};
  Write(done);
  EXPECT_EQ(same.Look(), done);
  EXPECT_EQ(other.Look(), std::nullopt) << "the end of a run is not that of the next one";
}

TEST_F(MeetingTest, AFolderThatIsNotThereIsWaitedFor) {
  const MeetingReader reader(folder_ + "/later", "");
  EXPECT_EQ(reader.Look(), std::nullopt);
}

TEST_F(MeetingTest, WhatCannotBeReadOrReplacedIsSaid) {
  const std::string file = folder_ + "/run.json";
  EXPECT_TRUE(MeetingReader(folder_, "").Trouble().ok()) << "it is not there yet";
  std::filesystem::create_directory(file);
  const absl::Status written = WriteMeeting(folder_, at_);
  EXPECT_EQ(written.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(MeetingReader(folder_, "").Trouble(), written);
  for (const char* says : {"run.json' is a directory", "remove it"})
    EXPECT_NE(written.message().find(says), std::string::npos) << written;
  std::filesystem::remove(file);
  Write(at_);
  EXPECT_TRUE(MeetingReader(folder_, "").Trouble().ok());
  if (getuid() == 0) return;  // who may read everything
  std::filesystem::permissions(file, std::filesystem::perms::none);
  const absl::Status hidden = MeetingReader(folder_, "").Trouble();
  EXPECT_EQ(hidden.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_NE(hidden.message().find("give the command as the one who may"), std::string::npos);
}

TEST_F(MeetingTest, TellsHowAnEarlierStartOfTheRunEnded) {
  EXPECT_EQ(MeetingReader(folder_, "slurm-17-0").EndedBefore(), std::nullopt);
  Write(over_);
  const MeetingReader reader(folder_, "slurm-17-0");
  EXPECT_EQ(reader.EndedBefore(), 66);
  EXPECT_EQ(MeetingReader(folder_, "slurm-18-0").EndedBefore(), std::nullopt);
  Write(at_);
  EXPECT_EQ(reader.EndedBefore(), std::nullopt);
}

TEST_F(MeetingTest, BrokenFilesSayNothing) {
  for (const char* text :
       {"", "{", "[]", "7", "null", R"({"coordinator":7})", R"({"coordinator":"10.0.0.1"})",
        R"({"coordinator":"10.0.0.1:0"})", R"({"coordinator":"","exit_code":0})"}) {
    const MeetingReader reader(folder_, "");
    std::ofstream(folder_ + "/run.json") << text;
    EXPECT_EQ(reader.Look(), std::nullopt) << text;
  }
  const MeetingReader reader(folder_, "");
  for (const char* code : {"-1", "256", "1.5", "\"0\"", "99999999999999999999"}) {
    std::ofstream(folder_ + "/run.json")
        << R"({"coordinator":"10.0.0.1:7070","exit_code":)" << code << "}";
    const auto meeting = reader.Look();
    ASSERT_TRUE(meeting) << code;
    EXPECT_EQ(meeting->exit_code, std::nullopt) << code;
  }
}

}  // namespace
}  // namespace muster::cli
