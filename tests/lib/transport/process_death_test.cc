#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>

#include "lib/transport/grpc/grpc_transport.h"
#include "tests/lib/transport/serving_child.h"
#include "tests/lib/transport/transport_suite.h"

namespace muster {

int ServeUntilKilled() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto transport = MakeGrpcTransport({});
  std::vector<std::shared_ptr<Session>> sessions;  // written by the one listener thread
  auto listener = transport->Listen("127.0.0.1:0", [&](std::shared_ptr<Session> session) {
    sessions.push_back(session);
    return SessionHandler{[echo = std::weak_ptr<Session>(session)](Frame frame) {
                            if (auto to = echo.lock()) to->Send(std::move(frame));
                          },
                          [](absl::Status) {}};
  });
  if (!listener.ok()) return 1;
  std::printf("%s\n", (*listener)->Address().c_str());
  std::fflush(stdout);
  for (char byte; read(STDIN_FILENO, &byte, 1) > 0;) {
  }
  listener->reset();
  return 0;
}

ServingChild::ServingChild() {
  std::array<int, 2> in;
  std::array<int, 2> out;
  if (pipe2(in.data(), O_CLOEXEC) != 0 || pipe2(out.data(), O_CLOEXEC) != 0) return;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  std::string program = "/proc/self/exe";
  std::string flag = kServeFlag;
  std::array<char*, 3> arguments = {program.data(), flag.data(), nullptr};
  if (posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments.data(), environ) != 0) {
    pid_ = -1;
  }
  posix_spawn_file_actions_destroy(&actions);
  close(in[0]);
  close(out[1]);
  input_ = in[1];
  FILE* lines = fdopen(out[0], "r");
  std::array<char, 64> line{};
  if (std::fgets(line.data(), line.size(), lines) != nullptr) address_ = line.data();
  while (!address_.empty() && address_.back() == '\n') address_.pop_back();
  std::fclose(lines);
}

void ServingChild::Kill() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (input_ >= 0) close(input_);
  pid_ = -1;
  input_ = -1;
}

namespace {

TEST(ProcessDeath, SessionsToAKilledProcessBreakAndReconnectingIsRefused) {
  ServingChild child;
  ASSERT_FALSE(child.address().empty());
  auto transport = MakeGrpcTransport({});
  auto recorder = std::make_shared<Recorder>();
  auto session = transport->Connect(child.address(), kConnectTimeout, recorder->Handler());
  session->Send(PatternFrame("x", 3, 2'000'000, 5000));
  ASSERT_TRUE(recorder->AwaitFrames(1)) << recorder->broken();
  EXPECT_TRUE(Flatten(recorder->TakeFrames()[0].payload) == Pattern(3, 2'000'000));
  child.Kill();
  ASSERT_TRUE(recorder->AwaitBroken());
  EXPECT_EQ(recorder->broken().code(), absl::StatusCode::kUnavailable) << recorder->broken();
  EXPECT_FALSE(IsConnectRefused(recorder->broken())) << recorder->broken();

  auto again = std::make_shared<Recorder>();
  auto second = transport->Connect(child.address(), kConnectTimeout, again->Handler());
  ASSERT_TRUE(again->AwaitBroken());
  EXPECT_TRUE(IsConnectRefused(again->broken())) << again->broken();
}

TEST(ProcessDeath, KilledWhileFramesAreUnderWayEverythingIsReleased) {
  ServingChild child;
  ASSERT_FALSE(child.address().empty());
  auto transport = MakeGrpcTransport({});
  auto recorder = std::make_shared<Recorder>();
  auto session = transport->Connect(child.address(), kConnectTimeout, recorder->Handler());
  std::vector<std::shared_ptr<Signal>> released(100);
  for (auto& signal : released) {
    signal = std::make_shared<Signal>();
    session->Send(WatchedFrame(signal, size_t{1} << 20));
  }
  ASSERT_TRUE(recorder->AwaitFrames(1)) << recorder->broken();
  child.Kill();
  ASSERT_TRUE(recorder->AwaitBroken());
  for (const auto& signal : released) ASSERT_TRUE(signal->Await());
  EXPECT_EQ(recorder->broken_calls(), 1);
}

}  // namespace
}  // namespace muster
