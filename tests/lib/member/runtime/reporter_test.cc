#include "lib/member/runtime/reporter.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <array>
#include <string>

#include "gtest/gtest.h"

namespace muster {
namespace {

class ReporterTest : public ::testing::Test {
 protected:
  ReporterTest() { EXPECT_EQ(pipe2(ends_.data(), O_CLOEXEC | O_NONBLOCK), 0); }
  ~ReporterTest() override {
    for (const int end : ends_) close(end);
  }
  std::string ReadAll() const {
    std::string text;
    std::array<char, 4096> buffer;
    for (ssize_t n = 0; (n = read(ends_[0], buffer.data(), buffer.size())) > 0;)
      text.append(buffer.data(), static_cast<size_t>(n));
    return text;
  }
  std::array<int, 2> ends_{};
};

TEST_F(ReporterTest, AFullPipeLosesWholeLines) {
  const Reporter reporter(ends_[1], "worker-0");
  for (int i = 0; i < 10'000; ++i) reporter.MetricsAt("127.0.0.1:9");
  const std::string text = ReadAll();
  const std::string line = text.substr(0, text.find('\n') + 1);
  ASSERT_FALSE(line.empty());
  EXPECT_LT(text.size(), 10'000 * line.size());
  std::string whole;
  while (whole.size() < text.size()) whole += line;
  EXPECT_EQ(text, whole);
}

TEST_F(ReporterTest, SaysThatItPrepares) {
  Reporter(ends_[1], "worker-0").Prepares();
  EXPECT_EQ(ReadAll(), "{\"event\":\"prepares\",\"member\":\"worker-0\"}\n");
  Reporter(ends_[1], "worker-0").Prepares("42 %");
  EXPECT_EQ(ReadAll(), "{\"event\":\"prepares\",\"member\":\"worker-0\",\"text\":\"42 %\"}\n");
}

TEST_F(ReporterTest, SaysHowItEnds) {
  Reporter(ends_[1], "worker-0").Ends(67);
  EXPECT_EQ(ReadAll(), "{\"event\":\"ends\",\"member\":\"worker-0\",\"code\":67}\n");
}

// A pipe would take the part of it that fits, and spoil the line after it.
TEST_F(ReporterTest, ALineLongerThanAPipeTakesAtOnceIsLeftOut) {
  const Reporter reporter(ends_[1], "worker-0");
  reporter.Sample(std::string(PIPE_BUF, 'x'));
  EXPECT_EQ(ReadAll(), "");
  reporter.Sample("int main() {}");
  EXPECT_EQ(ReadAll(),
            "{\"event\":\"sample\",\"member\":\"worker-0\",\"text\":\"int main() {}\"}\n");
}

}  // namespace
}  // namespace muster
