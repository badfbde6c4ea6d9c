#include "agent/runtime/report.h"

#include <fcntl.h>
#include <unistd.h>

#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ReportTest, ReadsAStep) {
  const auto report = ParseReport(
      R"({"event":"step","member":"worker-0","step":118,"epoch":2,"loss":1.25,"samples":64,"seconds":0.5})");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->step,
            (StepReport{.step = 118, .epoch = 2, .loss = 1.25, .samples = 64, .seconds = 0.5}));
  const auto clipped = ParseReport(R"({"event":"step","step":3,"gradient_norm":1.5})");
  ASSERT_TRUE(clipped.ok()) << clipped.status();
  EXPECT_EQ(clipped->step->gradient_norm, 1.5);
}

TEST(ReportTest, ALossThatIsNoNumberStaysUnknown) {
  const auto report = ParseReport(R"({"event":"step","step":3,"loss":null})");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(std::isnan(report->step->loss));
}

TEST(ReportTest, KeepsOtherEvents) {
  const auto report = ParseReport(R"({"event":"sample","text":"int main"})");
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->event, "sample");
  EXPECT_EQ(report->text, "int main");
  EXPECT_EQ(report->step, std::nullopt);
}

TEST(ReportTest, ReadsHowAProcessEnds) {
  EXPECT_EQ(ParseReport(R"({"event":"ends","code":67})")->code, 67);
  EXPECT_EQ(ParseReport(R"({"event":"ends"})")->code, 1);
  EXPECT_EQ(ParseReport(R"({"event":"sample","code":67})")->code, std::nullopt);
}

TEST(ReportTest, RefusesWhatItCannotUse) {
  for (const char* line :
       {"", "step 3", "[1]", "{", R"({"step":1})", R"({"event":7})", R"({"event":"step"})",
        R"({"event":"step","step":"3"})", R"({"event":"step","step":1.5})"})
    EXPECT_EQ(ParseReport(line).status().code(), absl::StatusCode::kInvalidArgument) << line;
}

class LineReaderTest : public ::testing::Test {
 protected:
  LineReaderTest() {
    int ends[2];
    if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) std::abort();
    read_ = ends[0];
    write_ = ends[1];
  }
  ~LineReaderTest() override {
    close(read_);
    if (write_ >= 0) close(write_);
  }
  // Writes and reads by turns, so that more than a pipe holds may pass.
  void Send(const std::string& text) {
    for (size_t at = 0; at < text.size(); at += 4096) {
      const std::string part = text.substr(at, 4096);
      ASSERT_EQ(write(write_, part.data(), part.size()), static_cast<ssize_t>(part.size()));
      open_ = reader_.ReadFrom(read_, [&](absl::string_view line) { lines_.emplace_back(line); });
    }
  }
  int read_ = -1;
  int write_ = -1;
  bool open_ = true;
  LineReader reader_;
  std::vector<std::string> lines_;
};

TEST_F(LineReaderTest, JoinsAndCutsLines) {
  Send("one\ntw");
  EXPECT_THAT(lines_, ElementsAre("one"));
  Send("o\n\nthree\nfo");
  EXPECT_THAT(lines_, ElementsAre("one", "two", "three"));
  EXPECT_TRUE(open_);
  close(write_);
  write_ = -1;
  EXPECT_FALSE(reader_.ReadFrom(read_, [&](absl::string_view line) { lines_.emplace_back(line); }));
  EXPECT_THAT(lines_, ElementsAre("one", "two", "three"));
}

TEST_F(LineReaderTest, DropsALineThatIsTooLongAndGoesOn) {
  Send(std::string(LineReader::kLongestLine + 5000, 'x'));
  Send("still the same line\nnext\n");
  EXPECT_THAT(lines_, ElementsAre("next"));
}

}  // namespace
}  // namespace muster::agent
