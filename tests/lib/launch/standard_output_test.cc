#include "lib/launch/standard_output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <iostream>
#include <string>
#include <thread>

#include "lib/base/descriptor.h"
#include "lib/base/exit_codes.h"

namespace muster {
namespace {

constexpr int kOnePage = 4096;  // the least that a pipe holds

// A pipe in the place of this process's standard output that does not block, as one that is shared
// with a program that has set O_NONBLOCK.
class NonBlockingOutput {
 public:
  NonBlockingOutput() : before_(dup(STDOUT_FILENO)) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return;
    reads_ = Descriptor(ends[0]);
    const Descriptor writes(ends[1]);
    is_made_ = fcntl(writes.get(), F_SETPIPE_SZ, kOnePage) == kOnePage &&
               fcntl(writes.get(), F_SETFL, O_NONBLOCK) == 0 &&
               dup2(writes.get(), STDOUT_FILENO) == STDOUT_FILENO;
  }
  ~NonBlockingOutput() { End(); }
  NonBlockingOutput(const NonBlockingOutput&) = delete;
  NonBlockingOutput& operator=(const NonBlockingOutput&) = delete;

  bool is_made() const { return is_made_; }
  int reads() const { return reads_.get(); }
  // Who reads comes to the end.
  void End() {
    if (before_.is_open()) dup2(before_.get(), STDOUT_FILENO);
    before_.Close();
  }

 private:
  Descriptor before_;
  Descriptor reads_;
  bool is_made_ = false;
};

// All that comes, each time only once the pipe is full: so its writer finds no room again and
// again.
std::string ReadWhenFull(int fd, const std::atomic<bool>& has_ended) {
  std::string all;
  std::array<char, kOnePage> page{};
  while (true) {
    int waiting = 0;
    while (!has_ended && ioctl(fd, FIONREAD, &waiting) == 0 && waiting < kOnePage)
      std::this_thread::yield();
    const ssize_t n = read(fd, page.data(), page.size());
    if (n <= 0) return all;
    all.append(page.data(), static_cast<size_t>(n));
  }
}

// A thousand times as much as the pipe holds: who does not wait for room loses some of it.
TEST(StandardOutputTest, OneThatIsFullAndDoesNotBlockIsWaitedFor) {
  std::string expected;
  for (int line = 0; expected.size() < 1000 * kOnePage; ++line)
    expected += "line " + std::to_string(line) + " of what is printed\n";
  NonBlockingOutput pipe;
  ASSERT_TRUE(pipe.is_made());
  std::atomic<bool> has_ended = false;
  std::string came;
  std::thread reader([&] { came = ReadWhenFull(pipe.reads(), has_ended); });
  int code = kExitFailed;
  {
    StandardOutput output;
    std::cout << expected;
    code = output.CodeOnceWritten(kExitDone, "test");
  }
  std::cout.clear();
  pipe.End();
  has_ended = true;
  reader.join();
  EXPECT_EQ(code, kExitDone);
  EXPECT_EQ(came.size(), expected.size());
  EXPECT_TRUE(came == expected) << "something is lost, twice there, or in another order";
}

// Of a program that runs what may close its standard streams.
TEST(StandardOutputTest, GoesWhereItIsTold) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  const Descriptor reads(ends[0]);
  Descriptor writes(ends[1]);
  {
    StandardOutput output(writes.get());
    const StandardError errors(writes.get());
    std::cout << "said " << 6 << std::endl;
    std::cerr << "wrong: " << 7 << '\n';
    EXPECT_EQ(output.CodeOnceWritten(kExitDone, "test"), kExitDone);
  }
  writes.Close();
  std::array<char, 64> came{};
  const ssize_t size = read(reads.get(), came.data(), came.size());
  ASSERT_GE(size, 0);
  EXPECT_EQ(std::string(came.data(), static_cast<size_t>(size)), "said 6\nwrong: 7\n");
}

// Where `fd` of this process leads, until it goes.
class Turned {
 public:
  Turned(int fd, int to) : fd_(fd), before_(dup(fd)) { dup2(to, fd); }
  ~Turned() { dup2(before_.get(), fd_); }
  Turned(const Turned&) = delete;
  Turned& operator=(const Turned&) = delete;

 private:
  const int fd_;
  const Descriptor before_;
};

std::string WhatCame(const Descriptor& reads) {
  std::array<char, 256> came{};
  const ssize_t size = read(reads.get(), came.data(), came.size());
  return {came.data(), static_cast<size_t>(std::max<ssize_t>(size, 0))};
}

// Of a program that runs what prints.
TEST(StandardOutputTest, IsTheProgramsAloneWhereOthersPrint) {
  std::array<int, 2> out{}, error{};
  ASSERT_EQ(pipe2(out.data(), O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(error.data(), O_CLOEXEC), 0);
  const Descriptor output_reads(out[0]), error_reads(error[0]);
  Descriptor output_writes(out[1]), error_writes(error[1]);
  std::fflush(stdout);
  int code = kExitFailed;
  {
    const Turned standard_output(STDOUT_FILENO, output_writes.get());
    const Turned standard_error(STDERR_FILENO, error_writes.get());
    StandardOutput output(output_writes.get());
    std::cout << "help\n";
    output.LeavesPrintsToStandardError();
    std::cout << "of a stream\n";
    std::printf("of printf\n");
    EXPECT_EQ(write(STDOUT_FILENO, "of write\n", 9), 9);
    output.own() << "{}\n";
    code = output.CodeOnceWritten(kExitDone, "test");
    std::fflush(stdout);
  }
  output_writes.Close();
  error_writes.Close();
  EXPECT_EQ(code, kExitDone);
  EXPECT_EQ(WhatCame(output_reads), "help\n{}\n");
  EXPECT_EQ(WhatCame(error_reads), "of a stream\nof printf\nof write\n");
}

}  // namespace
}  // namespace muster
