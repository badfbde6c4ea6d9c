#include "lib/spool/runtime/socket_source.h"

#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/descriptor.h"
#include "lib/spool/state/sender_bytes.h"
#include "tests/lib/spool/spooled.h"

namespace muster {
namespace {

using std::chrono::minutes;
using std::string_literals::operator""s;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Descriptor Connect(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  Descriptor connection(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    connection.Close();
  return connection;
}

void Say(const Descriptor& connection, const std::string& words) {
  ASSERT_EQ(send(connection.get(), words.data(), words.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(words.size()));
}

// So many bytes, or fewer where the connection ends.
std::string Hear(const Descriptor& connection, size_t bytes) {
  std::string heard(bytes, '\0');
  const ssize_t n = recv(connection.get(), heard.data(), bytes, MSG_WAITALL);
  heard.resize(n < 0 ? 0 : static_cast<size_t>(n));
  return heard;
}

class SocketSourceTest : public testing::Test {
 protected:
  std::unique_ptr<StreamSource> Make(uint64_t bytes = 3) {
    return MakeSocketSource(path_, bytes,
                            {.patience = patience_,
                             .clock = &clock_,
                             .told = [this](const std::string& why) { told_.push_back(why); }});
  }
  std::unique_ptr<StreamSource> Started(uint64_t position = 0) {
    auto source = Make();
    const absl::Status started = source->Start(position, {});
    EXPECT_TRUE(started.ok()) << started;
    return source;
  }
  // What is there, without waiting.
  static std::string Take(StreamSource& source, uint64_t most = 1000, bool* ended = nullptr) {
    std::string samples;
    const auto came = source.Take(most, Duration::zero(), samples);
    EXPECT_TRUE(came.ok()) << came.status();
    EXPECT_EQ(samples.size(), 3 * came->count);
    if (ended != nullptr) *ended = came->end;
    return samples;
  }

  const Folder folder_;
  const std::string path_ = folder_ / "socket";
  const RealClock clock_{};
  Duration patience_ = minutes(1);
  std::vector<std::string> told_;
};

TEST_F(SocketSourceTest, GreetsTakesAndAnswers) {
  const auto source = Started(5);
  struct stat found {};
  ASSERT_EQ(stat(path_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
  const Descriptor sender = Connect(path_);
  ASSERT_TRUE(sender.is_open());
  EXPECT_EQ(Take(*source), "");
  EXPECT_EQ(Hear(sender, 24), StreamGreeting(5, 3));
  Say(sender, "\1abc\1de");
  EXPECT_EQ(Take(*source), "abc");
  Say(sender, "f\1ghi");
  EXPECT_EQ(Take(*source, 1), "def");
  EXPECT_EQ(Take(*source, 1), "ghi");
  source->Answer(7);
  source->Answer(8);
  EXPECT_EQ(Hear(sender, 16), StreamAnswer(7) + StreamAnswer(8));
  Say(sender, "\1jkl\2");
  bool ended = false;
  EXPECT_EQ(Take(*source, 1, &ended), "jkl");
  EXPECT_FALSE(ended);
  EXPECT_EQ(Take(*source, 1, &ended), "");
  EXPECT_TRUE(ended);
  source->Answer(9);
  EXPECT_EQ(Hear(sender, 8), StreamAnswer(9));
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(SocketSourceTest, ABrokenConnectionIsNoEndAndHalfASampleIsNothing) {
  const auto source = Started();
  {
    const Descriptor sender = Connect(path_);
    EXPECT_EQ(Take(*source), "");
    EXPECT_EQ(Hear(sender, 24), StreamGreeting(0, 3));
    Say(sender, "\1abc\1de");
  }
  bool ended = false;
  EXPECT_EQ(Take(*source, 1000, &ended), "abc");
  EXPECT_FALSE(ended);
  EXPECT_EQ(Take(*source), "");
  const Descriptor again = Connect(path_);
  EXPECT_EQ(Take(*source), "");
  EXPECT_EQ(Hear(again, 24), StreamGreeting(1, 3));
  Say(again, "\1def");
  EXPECT_EQ(Take(*source), "def");
  EXPECT_THAT(told_, ElementsAre(HasSubstr("it has closed the connection")));
}

// It cannot know from where on to send.
TEST_F(SocketSourceTest, WhoeverGoesBeforeHeIsGreetedIsNotHeard) {
  const auto source = Started();
  Say(Connect(path_), "\1abc");
  EXPECT_EQ(Take(*source), "");
  EXPECT_EQ(told_.size(), 1u);
}

TEST_F(SocketSourceTest, OneConnectionAtATime) {
  const auto source = Started();
  Descriptor first = Connect(path_);
  const Descriptor second = Connect(path_);
  Say(first, "\1abc");
  Say(second, "\1abc\1xyz");
  EXPECT_EQ(Take(*source), "abc");
  EXPECT_EQ(Take(*source), "");
  first.Close();
  EXPECT_EQ(Take(*source), "");
  EXPECT_EQ(Take(*source), "abcxyz");
  // It should have waited for this.
  EXPECT_EQ(Hear(second, 24), StreamGreeting(1, 3));
}

TEST_F(SocketSourceTest, AnotherBeginningBreaksTheConnection) {
  const auto source = Started();
  const Descriptor sender = Connect(path_);
  Say(sender, "\1abc");
  EXPECT_EQ(Take(*source), "abc");
  ASSERT_TRUE(source->Start(0, {}).ok());
  EXPECT_EQ(Hear(sender, 100), StreamGreeting(0, 3));
  const Descriptor again = Connect(path_);
  EXPECT_EQ(Take(*source), "");
  EXPECT_EQ(Hear(again, 24), StreamGreeting(0, 3));
}

TEST_F(SocketSourceTest, WhoeverSaysSomethingElseIsCutOff) {
  const auto source = Started();
  const Descriptor sender = Connect(path_);
  Say(sender, "\1abcPOST / HTTP/1.1\r\n");
  EXPECT_EQ(Take(*source), "abc");
  EXPECT_EQ(Hear(sender, 100), StreamGreeting(0, 3));
  EXPECT_THAT(told_, ElementsAre(HasSubstr("the sender says 80 where")));
}

TEST_F(SocketSourceTest, WhoeverIsSilentWithinASampleIsCutOff) {
  patience_ = std::chrono::milliseconds(20);
  const auto source = Started();
  const Descriptor sender = Connect(path_);
  Say(sender, "\1ab");
  std::string samples;
  // A second, if nobody cut it off.
  for (int i = 0; i < 100 && told_.empty(); ++i)
    ASSERT_TRUE(source->Take(1, std::chrono::milliseconds(10), samples).ok());
  EXPECT_THAT(told_, ElementsAre(HasSubstr("said nothing for 0.02 s within a sample")));
  // Between samples nobody is.
  const Descriptor again = Connect(path_);
  Say(again, "\1abc");
  for (int i = 0; i < 10; ++i)
    ASSERT_TRUE(source->Take(1, std::chrono::milliseconds(10), samples).ok());
  EXPECT_EQ(samples, "abc");
  EXPECT_EQ(told_.size(), 1u);
}

// Its socket holds what is not read; we hold what is wanted.
TEST_F(SocketSourceTest, AFastSenderStandsStill) {
  const auto source = Started();
  const Descriptor sender = Connect(path_);
  const std::string words = "\1abc\1def\1ghi";
  Say(sender, words);
  EXPECT_EQ(Take(*source, 2), "abcdef");
  EXPECT_EQ(Take(*source, 1), "ghi");
  std::string flood;
  for (int i = 0; i < 10'000; ++i) flood += "\1xyz";
  size_t sent = 0;
  for (ssize_t n = 1; n > 0;) {
    n = send(sender.get(), flood.data() + sent % 4, flood.size() - sent % 4,
             MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) sent += static_cast<size_t>(n);
  }
  EXPECT_EQ(errno, EAGAIN);
  std::string samples;
  const auto came = source->Take(7, Duration::zero(), samples);
  ASSERT_TRUE(came.ok());
  EXPECT_EQ(came->count, 7u);
  EXPECT_EQ(samples, "xyzxyzxyzxyzxyzxyzxyz");
}

// A sender that never reads costs nothing but its socket.
TEST_F(SocketSourceTest, AnswersToADeafSenderAreNotKept) {
  const auto source = Started();
  const Descriptor sender = Connect(path_);
  EXPECT_EQ(Take(*source), "");
  constexpr uint64_t kAnswers = 200'000;
  for (uint64_t n = 1; n <= kAnswers; ++n) source->Answer(n);
  EXPECT_EQ(Hear(sender, 24), StreamGreeting(0, 3));
  uint64_t newest = 0;
  size_t answers = 0;
  for (pollfd waits{sender.get(), POLLIN, 0}; newest < kAnswers; ++answers) {
    if (poll(&waits, 1, 0) == 0) {
      EXPECT_EQ(Take(*source), "");
    }
    const std::string answer = Hear(sender, 8);
    ASSERT_EQ(answer.size(), 8u);
    uint64_t positions = 0;
    std::memcpy(&positions, answer.data(), 8);
    ASSERT_GT(positions, newest);
    newest = positions;
  }
  EXPECT_LT(answers, kAnswers);
}

TEST_F(SocketSourceTest, SomebodyWhoWaitsIsWokenAndASenderIsHeardAtOnce) {
  const auto source = Started();
  std::string samples;
  std::thread waker([&] { source->Wake(); });
  ASSERT_TRUE(source->Take(1, minutes(10), samples).ok());
  waker.join();
  Descriptor
      connection;  // open until the end: what a sender that is gone has said counts for nothing
  std::thread sender([&] {
    connection = Connect(path_);
    Say(connection, "\1abc");
  });
  while (samples.empty()) ASSERT_TRUE(source->Take(1, minutes(10), samples).ok());
  sender.join();
  EXPECT_EQ(samples, "abc");
}

TEST_F(SocketSourceTest, ASocketThatWasLeftBehindIsReplacedAndOneInUseIsNot) {
  {
    const Descriptor left(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    ASSERT_EQ(bind(left.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  {
    const auto source = Started();
    const auto other = Make();
    const absl::Status taken = other->Start(0, {});
    EXPECT_TRUE(absl::IsUnavailable(taken)) << taken;
    EXPECT_THAT(taken.message(), HasSubstr(path_ + ": another process listens on it"));
    EXPECT_TRUE(Connect(path_).is_open());
  }
  EXPECT_THAT(folder_.Names(), IsEmpty());
}

TEST_F(SocketSourceTest, TheSocketOfAnotherProgramIsLeftAlone) {
  const Descriptor other(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path_.data(), path_.size());
  ASSERT_EQ(bind(other.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(other.get(), 1), 0);
  EXPECT_TRUE(absl::IsUnavailable(Make()->Start(0, {})));
  const Descriptor client = Connect(path_);
  EXPECT_TRUE(client.is_open());
}

TEST_F(SocketSourceTest, WhatElseLiesThereIsLeftAlone) {
  folder_.Put("socket", "of a person");
  const absl::Status status = Make()->Start(0, {});
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr(path_ + ": it is no socket"));
  EXPECT_EQ(folder_.Get("socket"), "of a person");
  const auto source = MakeSocketSource(folder_ / std::string(200, 'x'), 3, {.clock = &clock_});
  const absl::Status long_path = source->Start(0, {});
  EXPECT_TRUE(absl::IsInvalidArgument(long_path)) << long_path;
  EXPECT_THAT(long_path.message(), HasSubstr("at most 107 bytes"));
}

TEST_F(SocketSourceTest, AnotherUserIsNotHeard) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  const auto source = Started();
  // Even where the file would let him.
  std::filesystem::permissions(path_, std::filesystem::perms::all);
  for (std::filesystem::path above = folder_.path(); above.has_relative_path();
       above = above.parent_path())
    std::filesystem::permissions(above, std::filesystem::perms::others_exec,
                                 std::filesystem::perm_options::add);
  const pid_t child = fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    if (setgroups(0, nullptr) != 0 || setgid(kNobody) != 0 || setuid(kNobody) != 0) _exit(2);
    const Descriptor sender = Connect(path_);
    if (!sender.is_open()) _exit(3);
    send(sender.get(), "\1abc", 4, MSG_NOSIGNAL);  // or he is cut off by now
    char heard = 0;
    _exit(recv(sender.get(), &heard, 1, 0) <= 0 ? 0 : 1);
  }
  std::string samples;
  int status = -1;
  while (waitpid(child, &status, WNOHANG) == 0)
    ASSERT_TRUE(source->Take(1, std::chrono::milliseconds(10), samples).ok());
  EXPECT_EQ(status, 0);
  EXPECT_EQ(samples, "");
  EXPECT_THAT(told_, ElementsAre(HasSubstr("a process of another user")));
}

}  // namespace
}  // namespace muster
