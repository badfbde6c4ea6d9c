#include "agent/runtime/event_loop.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "tests/agent/runtime/stand_in.h"

namespace muster::agent {
namespace {

TEST(EventLoopTest, RunsPostedCallsInOrderOnItsOwnThread) {
  auto loop = EventLoop::Make().value();
  std::string seen;
  const auto here = std::this_thread::get_id();
  std::thread other([&] {
    loop->Post([&] { seen += std::this_thread::get_id() == here ? "a" : "wrong thread"; });
    loop->Post([&] { seen += "b"; });
    loop->Post([&] { loop->Quit(); });
  });
  RunUntilQuit(*loop);
  other.join();
  EXPECT_EQ(seen, "ab");
}

TEST(EventLoopTest, TimersRunInTheOrderOfTheirTimesUnlessCancelled) {
  auto loop = EventLoop::Make().value();
  const Time now = std::chrono::steady_clock::now();
  std::string seen;
  loop->At(now + std::chrono::milliseconds(2), [&] { loop->Quit(); });
  loop->At(now + std::chrono::milliseconds(1), [&] { seen += "b"; });
  loop->At(now, [&] { seen += "a"; });
  const auto cancelled = loop->At(now, [&] { seen += "x"; });
  loop->Cancel(cancelled);
  RunUntilQuit(*loop);
  EXPECT_EQ(seen, "ab");
}

TEST(EventLoopTest, ACallMayUnwatchItself) {
  auto loop = EventLoop::Make().value();
  const int fd = eventfd(1, EFD_CLOEXEC);
  int calls = 0;
  loop->Watch(fd, [&] {
    ++calls;
    loop->Unwatch(fd);
    loop->Post([&] { loop->Quit(); });
  });
  RunUntilQuit(*loop);
  close(fd);
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace muster::agent
