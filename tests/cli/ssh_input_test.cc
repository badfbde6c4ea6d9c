#include "cli/ssh_input.h"

#include <unistd.h>

#include <chrono>
#include <string>

#include "gtest/gtest.h"
#include "lib/base/mailbox.h"

namespace muster::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class SshInputTest : public ::testing::Test {
 protected:
  SshInputTest() {
    int ends[2];
    if (pipe(ends) != 0) std::abort();
    read_ = Descriptor(ends[0]);
    write_ = Descriptor(ends[1]);
  }
  void Write(const std::string& text) {
    ASSERT_EQ(write(write_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  bool IsToldToStop() {
    return stops_.TakeUntil(std::chrono::steady_clock::now() + seconds(40)).has_value();
  }

  Descriptor read_;
  Descriptor write_;
  Mailbox<int> stops_;
};

TEST_F(SshInputTest, TheEnvironmentComesFirst) {
  const Environment environment = {{"A", "b c"}, {"EMPTY", ""}, {"LINES", "1\n2"}};
  Write(EnvironmentLine(environment) + "stop\n");
  const auto read = ReadEnvironment(read_.get(), seconds(40));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, environment);
  const SshInput input(read_.get(), {}, [this] { stops_.Post(1); });
  EXPECT_TRUE(IsToldToStop()) << "what follows it is left for the wishes";
}

TEST_F(SshInputTest, WhatIsNoEnvironmentIsRefused) {
  for (const char* line : {"\n", "alive\n", "{}\n",
                           R"({"environment":[]})"
                           "\n",
                           R"({"environment":{"A":1}})"
                           "\n",
                           R"({"environment":{"A=B":"x"}})"
                           "\n",
                           R"({"environment":{"":"x"}})"
                           "\n",
                           R"({"environment":{"A":"x\u0000y"}})"
                           "\n"}) {
    EXPECT_EQ(ParseEnvironmentLine(line).status().code(), absl::StatusCode::kInvalidArgument)
        << line;
  }
  EXPECT_EQ(ReadEnvironment(read_.get(), milliseconds(1)).status().code(),
            absl::StatusCode::kUnavailable);
  write_.Close();
  EXPECT_EQ(ReadEnvironment(read_.get(), seconds(40)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(SshInputTest, ItsEndIsAWishToEndAndThenToEndAtOnce) {
  const SshInput input(read_.get(), {.silence = seconds(40), .leave = milliseconds(1)},
                       [this] { stops_.Post(1); });
  Write("alive\nalive\n");
  write_.Close();
  EXPECT_TRUE(IsToldToStop());
  EXPECT_TRUE(IsToldToStop());
}

TEST_F(SshInputTest, SilenceIsItsEnd) {
  const SshInput input(read_.get(), {.silence = milliseconds(1), .leave = milliseconds(1)},
                       [this] { stops_.Post(1); });
  EXPECT_TRUE(IsToldToStop());
  EXPECT_TRUE(IsToldToStop());
}

TEST_F(SshInputTest, OtherLinesAreNoWishes) {
  {
    const SshInput input(read_.get(), {}, [this] { stops_.Post(1); });
    Write("alive\nstopp\nxstop\n" + std::string(5000, 'x') + "\n\nstop\n");
    EXPECT_TRUE(IsToldToStop());
  }
  EXPECT_FALSE(stops_.TakeUntil(std::chrono::steady_clock::now()));
}

}  // namespace
}  // namespace muster::cli
