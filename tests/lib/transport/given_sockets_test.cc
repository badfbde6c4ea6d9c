// What a connection may bring, and how many sessions and calls, before it is shut down.
#include "lib/transport/grpc/given_sockets.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace muster {
namespace {

constexpr Time kStart{std::chrono::seconds(1)};
constexpr Duration kLater = kLookEvery;
constexpr int kTimesASecond = kLookAtLatest / kLater;
constexpr uint64_t kMost = 1000;

int OpenSocket() { return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }

// Both ends of one connection, the accepted one given away.
class Given {
 public:
  Given() {
    const int listens = OpenSocket();
    sockaddr_in name{.sin_family = AF_INET};
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(name);
    auto* any = reinterpret_cast<sockaddr*>(&name);
    EXPECT_EQ(bind(listens, any, size), 0);
    EXPECT_EQ(listen(listens, 1), 0);
    EXPECT_EQ(getsockname(listens, any, &size), 0);
    EXPECT_EQ(connect(far_, any, size), 0);
    near_ = accept4(listens, nullptr, nullptr, SOCK_CLOEXEC);
    close(listens);
    EXPECT_TRUE(sockets_.Add(near_, "it"));
  }
  ~Given() {
    close(near_);
    close(far_);
  }

  GivenSocket& socket() { return *sockets_.Find("it"); }
  void Bring(uint64_t bytes) {
    char part[4096] = {};  // the system holds so much
    for (size_t size; bytes > 0; bytes -= size) {
      size = std::min<uint64_t>(bytes, sizeof(part));
      EXPECT_EQ(send(far_, part, size, MSG_NOSIGNAL), static_cast<ssize_t>(size));
      EXPECT_EQ(recv(near_, part, size, MSG_WAITALL), static_cast<ssize_t>(size));
    }
  }
  void BringUnread(uint64_t bytes) {
    const std::string all(bytes, 'x');
    EXPECT_EQ(send(far_, all.data(), bytes, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
  }
  bool StaysOpen() {
    sockets_.Judge(now_ += kLater);
    return IsOpen();
  }
  // Whether somebody has been shut down for a flood.
  bool JudgeStirred() {
    sockets_.JudgeStirred(now_);
    return sockets_.last_flood() == now_;
  }
  bool IsOpen() const {
    char byte = 0;
    return recv(far_, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
  }
  bool MayHoldStrangers() { return sockets_.Judge(now_ += kLater) == kLookEvery; }
  // How often it was looked at in so many times of looking.
  size_t LooksIn(int times) {
    const size_t before = sockets_.looks();
    for (int i = 0; i < times; ++i) sockets_.Judge(now_ += kLater);
    return sockets_.looks() - before;
  }
  // What its peer does not take.
  void AnswerUntilNoMoreFits() {
    const std::string part(1 << 16, 'x');
    while (send(near_, part.data(), part.size(), MSG_NOSIGNAL | MSG_DONTWAIT) > 0) {
    }
    socket().Stir();
  }
  bool IsShutDown() {
    sockets_.Judge(now_ += kLater);
    char byte = 0;
    return recv(near_, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
  }

 private:
  GivenSockets sockets_{2, kMost};
  Time now_ = kStart;
  const int far_ = OpenSocket();
  int near_ = -1;
};

TEST(GivenSockets, AreForgottenWhenTheirDescriptorIsClosedOrAnothers) {
  GivenSockets given(2, kMost);
  const int first = OpenSocket();
  const int second = OpenSocket();
  EXPECT_TRUE(given.Add(first, "first"));
  EXPECT_TRUE(given.HasRoom(kStart));
  EXPECT_TRUE(given.Add(second, "second"));
  EXPECT_FALSE(given.HasRoom(kStart));
  close(first);
  EXPECT_FALSE(given.HasRoom(kStart + kLater - Duration(1))) << "it has just looked";
  EXPECT_TRUE(given.HasRoom(kStart + kLater));
  EXPECT_EQ(given.size(), 1u);
  EXPECT_EQ(given.Find("first"), nullptr);
  const int third = OpenSocket();
  EXPECT_TRUE(given.Add(third, "third"));
  const int other = OpenSocket();
  ASSERT_EQ(dup2(other, second), second);  // its number, but not it
  EXPECT_TRUE(given.HasRoom(kStart + 2 * kLater));
  EXPECT_EQ(given.size(), 1u);
  for (const int fd : {second, third, other}) close(fd);
}

TEST(GivenSockets, AnAddressIsOneConnection) {
  GivenSockets given(9, kMost);
  const int first = OpenSocket();
  const int second = OpenSocket();
  EXPECT_TRUE(given.Add(first, "here"));
  EXPECT_FALSE(given.Add(second, "here"));
  close(first);
  EXPECT_TRUE(given.Add(second, "here")) << "the older one is closed";
  close(second);
}

TEST(GivenSocket, IsShutDownWhenAStrangerBringsTooMuch) {
  Given given;
  given.Bring(kMost);
  EXPECT_TRUE(given.StaysOpen());
  EXPECT_TRUE(given.MayHoldStrangers());
  given.Bring(1);
  EXPECT_FALSE(given.StaysOpen());
}

// gRPC would go on reading what lies in the kernel.
TEST(GivenSocket, ThatIsShutDownLeavesNothingToRead) {
  Given given;
  given.BringUnread(kMost + 1);
  EXPECT_TRUE(given.IsShutDown());
}

// All strangers together may not cost a call of the system each, every time.
TEST(GivenSocket, ThatIsQuietIsLookedAtOnceASecond) {
  Given given;
  EXPECT_GT(given.LooksIn(kTimesASecond), 1u) << "it is new";
  EXPECT_EQ(given.LooksIn(kTimesASecond), 1u);
  given.Bring(1);
  EXPECT_EQ(given.LooksIn(1), 1u) << "something came";
}

TEST(GivenSocket, ThatWasQuietIsShutDownAtOnceWhenItBringsTooMuch) {
  Given given;
  given.LooksIn(kTimesASecond);
  given.Bring(kMost + 1);
  EXPECT_FALSE(given.StaysOpen()) << "though all of it has been read by now";
}

// The kernel does not tell of what comes from there, once it has been read.
TEST(GivenSocket, ThatTakesNoAnswersIsShutDownAtOnceWhenItBringsTooMuch) {
  Given given;
  given.LooksIn(kTimesASecond);
  given.AnswerUntilNoMoreFits();
  given.LooksIn(kTimesASecond - 1);
  EXPECT_FALSE(given.IsShutDown());
  given.Bring(kMost + 1);
  EXPECT_TRUE(given.IsShutDown());
}

TEST(GivenSocket, IsShutDownAWhileAfterItsSessionHasEnded) {
  Given given;
  EXPECT_TRUE(given.socket().SessionComes());
  given.socket().Admit();
  for (Duration time{}; time < 2 * kLeaveTime; time += kLater)
    ASSERT_TRUE(given.StaysOpen()) << "its session goes on";
  given.socket().SessionEnds();
  for (Duration time{}; time < kLeaveTime; time += kLater)
    ASSERT_TRUE(given.StaysOpen()) << "it has time to read why";
  EXPECT_FALSE(given.StaysOpen());
}

TEST(GivenSocket, StaysWhileAnotherSessionGoesOn) {
  Given given;
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(given.socket().SessionComes());
  given.socket().SessionEnds();
  for (Duration time{}; time < 2 * kLeaveTime; time += kLater) ASSERT_TRUE(given.StaysOpen());
}

TEST(GivenSockets, WithoutAnyAreNotJudged) {
  GivenSockets given(2, kMost);
  EXPECT_EQ(given.Judge(kStart), std::nullopt);
  const int socket = OpenSocket();
  ASSERT_TRUE(given.Add(socket, "it"));
  EXPECT_EQ(given.Judge(kStart + kLater), kLookEvery);
  close(socket);
  given.Judge(kStart + kLater + kLookAtLatest);
  EXPECT_EQ(given.size(), 0u);
  EXPECT_EQ(given.Judge(kStart + 2 * kLater + kLookAtLatest), std::nullopt);
}

TEST(GivenSocket, OfOneWhoWasAdmittedIsNotJudged) {
  Given given;
  given.socket().Admit();
  given.Bring(100 * kMost);
  EXPECT_TRUE(given.StaysOpen());
  EXPECT_FALSE(given.MayHoldStrangers()) << "nobody is left to judge";
}

TEST(GivenSocket, MayBringTheFirstFrameOfOneSessionBesides) {
  constexpr uint64_t kFirst = 5000;
  Given given;
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(given.socket().SessionComes());
    given.socket().SessionMayBring(kFirst);
  }
  given.Bring(kMost + kFirst + kMostBehindFirstFrame);
  EXPECT_TRUE(given.StaysOpen());
  given.Bring(1);
  EXPECT_FALSE(given.StaysOpen());
}

TEST(GivenSocket, OfASessionWithoutBoundsIsNotJudged) {
  Given given;
  given.socket().SessionMayBring(SIZE_MAX);
  given.Bring(100 * kMost);
  EXPECT_TRUE(given.StaysOpen());
}

TEST(GivenSocket, MayBringAsMuchAgainAfterEachAnswer) {
  Given given;
  for (int i = 0; i < 5; ++i) {
    given.socket().CallComes();
    given.Bring(kMost);
    EXPECT_TRUE(given.StaysOpen()) << i;
    given.socket().CallIsAnswered();
  }
  given.Bring(kMost + 1);
  EXPECT_FALSE(given.StaysOpen());
}

TEST(GivenSocket, IsShutDownWithTooManySessions) {
  Given given;
  for (int i = 0; i < kMostSessionsOfConnection; ++i)
    EXPECT_TRUE(given.socket().SessionComes()) << i;
  EXPECT_TRUE(given.IsOpen());
  EXPECT_FALSE(given.socket().SessionComes());
  EXPECT_FALSE(given.IsOpen());
}

TEST(GivenSocket, IsShutDownWithTooManyCallsInVain) {
  Given given;
  for (int i = 0; i < kMostCallsInVain; ++i) given.socket().CallComes();
  given.socket().CallIsAnswered();
  for (int i = 0; i < kMostCallsInVain; ++i) given.socket().CallComes();
  EXPECT_TRUE(given.IsOpen());
  given.socket().CallComes();
  EXPECT_FALSE(given.IsOpen());
}

// It would be here again at once, while gRPC still frees what it left.
TEST(GivenSockets, AfterAFloodNoMoreStrangersOfThatAddressComeWhileItsMemoryIsHeld) {
  size_t memory = 1000;
  GivenSockets given(4, kMost, [&] { return memory; });
  const int flood = OpenSocket();
  ASSERT_TRUE(given.Add(flood, "192.0.2.1:7"));
  memory += 2 * kMostOfFlood;
  EXPECT_EQ(given.WhyNot("192.0.2.1:8", kStart), "") << "nobody has brought too much";
  memory = 1000;
  for (int i = 0; i <= kMostCallsInVain; ++i) given.Find("192.0.2.1:7")->CallComes();
  given.Judge(kStart);
  EXPECT_EQ(given.WhyNot("192.0.2.1:8", kStart), "") << "it costs little";
  memory += kMostOfFlood;
  EXPECT_NE(given.WhyNot("192.0.2.1:8", kStart), "");
  EXPECT_EQ(given.WhyNot("192.0.2.2:8", kStart), "") << "another address";
  EXPECT_EQ(given.WhyNot("192.0.2.1:8", kStart + kWatchAfterFlood + Duration(1)), "");
  memory -= 1;
  EXPECT_EQ(given.WhyNot("192.0.2.1:8", kStart), "") << "it was freed";
  close(flood);
}

// Without waiting for the time at which it would be looked at.
TEST(GivenSocket, IsJudgedWhenSomethingComes) {
  Given given;
  given.StaysOpen();
  EXPECT_FALSE(given.JudgeStirred());
  given.Bring(kMost + 1);
  EXPECT_TRUE(given.JudgeStirred());
  EXPECT_FALSE(given.IsOpen());
}

// Its number may be another's by then, which is not to suffer for it.
TEST(GivenSocket, ThatIsClosedShutsDownNobodyElse) {
  GivenSockets sockets(2, kMost);
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  const int given = OpenSocket();
  ASSERT_TRUE(sockets.Add(given, "it"));
  ASSERT_EQ(dup2(pair[0], given), given);
  for (int i = 0; i <= kMostSessionsOfConnection; ++i) sockets.Find("it")->SessionComes();
  EXPECT_EQ(send(given, "x", 1, MSG_NOSIGNAL), 1);
  for (const int fd : {given, pair[0], pair[1]}) close(fd);
}

}  // namespace
}  // namespace muster
