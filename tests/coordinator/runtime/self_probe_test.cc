#include "coordinator/runtime/self_probe.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <string>

#include "absl/strings/str_cat.h"

namespace muster::coordinator {
namespace {

using std::chrono::milliseconds;

// Lets connections in, as the kernel does for a process that stands still, and answers if told to.
class HandListener {
 public:
  HandListener() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd_, 16), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  }
  ~HandListener() {
    shutdown(fd_, SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
    close(fd_);
  }
  void Answer() {
    thread_ = std::thread([this] {
      for (int peer = accept(fd_, nullptr, nullptr); peer >= 0;
           peer = accept(fd_, nullptr, nullptr)) {
        ++greeted_;
        EXPECT_EQ(send(peer, "x", 1, MSG_NOSIGNAL), 1);
        close(peer);
      }
    });
  }
  const std::string& address() const { return address_; }
  int greeted() const { return greeted_; }

 private:
  const int fd_;
  std::string address_;
  std::atomic<int> greeted_{0};
  std::thread thread_;
};

TEST(SelfProbe, AListenerThatAnswersIsHeard) {
  HandListener listener;
  listener.Answer();
  EXPECT_EQ(Probe({listener.address(), kHttpGreeting}, std::chrono::seconds(20)), Heard::kAnswer);
}

TEST(SelfProbe, ADeafListenerIsToldOnceItFailedOftenEnough) {
  HandListener deaf;
  std::promise<std::string> told;
  SelfProbe probe({{deaf.address(), kGrpcGreeting}},
                  {.every = milliseconds(1), .patience = milliseconds(5), .failures = 3},
                  [&](const std::string& text) { told.set_value(text); });
  EXPECT_EQ(told.get_future().get(), absl::StrCat("our own listener at ", deaf.address(),
                                                  " has not answered 3 times in a row"));
}

TEST(SelfProbe, NobodyListens) {
  std::string address;
  { address = HandListener().address(); }
  EXPECT_EQ(Probe({address, kHttpGreeting}, std::chrono::seconds(20)), Heard::kNothing);
}

// As long as it lives, this process may open no further file.
class NoDescriptors {
 public:
  NoDescriptors() {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit none{0, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~NoDescriptors() { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0); }

 private:
  rlimit before_{};
};

TEST(SelfProbe, WhoCannotAskForWantOfDescriptorsHasNoAnswerAndIsToldSoInTheEnd) {
  HandListener listener;
  const NoDescriptors none;
  EXPECT_EQ(Probe({listener.address(), kHttpGreeting}, std::chrono::seconds(20)), Heard::kNotAsked);
  std::promise<std::string> told;
  SelfProbe probe({{listener.address(), kHttpGreeting}},
                  {.every = milliseconds(1), .failures = 1, .most_unasked = 4},
                  [&](const std::string& text) { told.set_value(text); });
  EXPECT_EQ(
      told.get_future().get(),
      absl::StrCat("our own listener at ", listener.address(),
                   " could not be asked 4 times in a row: this process may open no more files"));
}

TEST(SelfProbe, TheGreetingOfGrpcIsThePrefaceAndEmptySettings) {
  EXPECT_EQ(kGrpcGreeting.size(), 24u + 9u);
  EXPECT_EQ(kGrpcGreeting.substr(24 + 3, 1), "\4") << "the type of a settings frame";
}

}  // namespace
}  // namespace muster::coordinator
