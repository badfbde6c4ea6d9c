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
#include <string>

namespace muster {
namespace {

constexpr Time kStart{std::chrono::seconds(1)};
constexpr Duration kLater = std::chrono::milliseconds(50);
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
  bool StaysOpen() {
    sockets_.Judge(now_ += kLater);
    return IsOpen();
  }
  bool IsOpen() const {
    char byte = 0;
    return recv(far_, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
  }
  bool MayHoldStrangers() { return sockets_.Judge(now_ += kLater); }

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
