#include "worker/commands/check_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>

#include "lib/base/clock.h"
#include "lib/base/mailbox.h"
#include "worker/commands/memory_of_process.h"

namespace muster::worker {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::chrono::milliseconds kPatience{1000};
constexpr std::chrono::seconds kLong{40};

std::string Heard(Mailbox<std::string>& why) {
  return why.TakeUntil(RealClock().Now() + kLong).value_or("nothing was told");
}

TEST(CheckWatch, ATaskThatIsNeverMadeIsTold) {
  Mailbox<std::string> why;
  CheckWatch watch("layers", kPatience, [&](const std::string& told) { why.Post(told); });
  std::string entered;
  const Preparing preparing = watch.Makes([&](const std::string& what) { entered = what; });
  preparing.enters("task torchscript with /a/net.pt");
  EXPECT_EQ(entered, "task torchscript with /a/net.pt");
  EXPECT_THAT(Heard(why), AllOf(HasSubstr("nothing has gone on for "),
                                HasSubstr(" s in task torchscript with /a/net.pt: its constructor"),
                                HasSubstr("larger thread_patience")));
}

TEST(CheckWatch, APassThatNeverReturnsIsTold) {
  Mailbox<std::string> why;
  CheckWatch watch("layers", kPatience, [&](const std::string& told) { why.Post(told); });
  watch.RunsTheModel();
  EXPECT_THAT(Heard(why), AllOf(HasSubstr("nothing has gone on for "),
                                HasSubstr(" s in a pass through the model of task layers: it has "
                                          "not returned; "),
                                HasSubstr("larger thread_patience")));
}

TEST(CheckWatch, AModelThatNeverEndsIsTold) {
  Mailbox<std::string> why;
  CheckWatch watch("layers", kPatience, [&](const std::string& told) { why.Post(told); });
  watch.RunsTheModel();
  watch.EndsTheModel();
  EXPECT_THAT(Heard(why), HasSubstr(" s at the end of the model of task layers: its destructor "));
}

// In a process of its own, which keeps the limit.
TEST(LimitMemoryDeathTest, WhatIsBeyondItIsRefused) {
  constexpr size_t kMebibyte = size_t{1} << 20;
  const auto get = [](size_t bytes) {
    return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
           MAP_FAILED;
  };
  EXPECT_EXIT(
      {
        LimitMemory(256 * kMebibyte);
        std::_Exit(get(64 * kMebibyte) && !get(512 * kMebibyte) ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace muster::worker
