// The join port among clients that mean well and others.
#include "lib/join/join_listener.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "lib/base/loopback.h"
#include "lib/base/mutex.h"
#include "lib/base/socket_address.h"
#include "lib/join/join_client.h"
#include "lib/join/join_wire.h"
#include "lib/wire/join_codec.h"

namespace muster {
namespace {

const std::string kSecret(32, 's');
const JoinToken kToken{"a", kSecret};

Time In(std::chrono::seconds time) { return std::chrono::steady_clock::now() + time; }

// Waits for the end of the connection, however long it takes: false is not returned.
std::string ReadToTheEnd(int fd) {
  std::string all;
  std::array<char, 4096> piece{};
  for (;;) {
    const ssize_t size = recv(fd, piece.data(), piece.size(), 0);
    if (size <= 0) return all;
    all.append(piece.data(), static_cast<size_t>(size));
  }
}

class JoinListenerTest : public ::testing::Test {
 protected:
  void Start(JoinLimits limits = {}) {
    listener_ = JoinListener::Start(
                    "127.0.0.1:0",
                    [](const std::string& name) -> std::optional<std::string> {
                      if (name == "host:a") return JoinKeyOf(kSecret);
                      return std::nullopt;
                    },
                    [this](const std::string& identity, const JoinHost& ask,
                           std::function<void(JoinAnswer)> answer) {
                      const MutexLock lock(mutex_);
                      asked_.emplace_back(identity, ask);
                      if (holds_)
                        held_.push_back(std::move(answer));
                      else
                        answer(HostJoined{"c1", "certificate of " + ask.host, "authority", 5});
                      came_.NotifyAll();
                    },
                    limits)
                    .value();
  }
  Descriptor Connect() const {
    const SocketAddress at = ToSocketAddress(ParseHostPort(listener_->Address()).value()).value();
    Descriptor made(socket(at.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(made.get(), reinterpret_cast<const sockaddr*>(&at.storage), at.size), 0);
    return made;
  }
  absl::StatusOr<JoinAnswer> Ask(const JoinToken& token = kToken) const {
    return AskToJoin({.address = listener_->Address(), .token = token}, {"a", "n", "key", 1},
                     In(std::chrono::seconds(60)), {});
  }
  size_t Asked() {
    const MutexLock lock(mutex_);
    return asked_.size();
  }

  Mutex mutex_;
  CondVar came_;
  bool holds_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::pair<std::string, JoinHost>> asked_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::function<void(JoinAnswer)>> held_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<JoinListener> listener_;
};

TEST_F(JoinListenerTest, AHostIsAnswered) {
  Start();
  const absl::StatusOr<JoinAnswer> answer = Ask();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(std::get<HostJoined>(*answer).certificate_pem, "certificate of a");
  const MutexLock lock(mutex_);
  ASSERT_EQ(asked_.size(), 1u);
  EXPECT_EQ(asked_[0].first, "host:a");
  EXPECT_EQ(asked_[0].second, (JoinHost{"a", "n", "key", 1}));
}

TEST_F(JoinListenerTest, WhoDoesNotKnowTheKeyIsNotHeard) {
  Start();
  for (const JoinToken& token :
       {JoinToken{"a", std::string(32, 'x')}, JoinToken{"b", kSecret}, JoinToken{"", kSecret}}) {
    EXPECT_EQ(Ask(token).status().code(), absl::StatusCode::kUnauthenticated) << TextOf(token);
  }
  EXPECT_EQ(Asked(), 0u);
  EXPECT_TRUE(Ask().ok()) << "the same question with the key";
}

TEST_F(JoinListenerTest, OddBytesEndTheirConnectionAndNoOther) {
  Start();
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(1000, '\0'), std::string(2, '\x16'),
        std::string("\x16\x03\x01\xff\xff", 5) + std::string(8000, 'x')}) {
    const Descriptor stranger = Connect();
    ASSERT_EQ(send(stranger.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    shutdown(stranger.get(), SHUT_WR);
    ReadToTheEnd(stranger.get());
    EXPECT_TRUE(Ask().ok());
  }
}

TEST_F(JoinListenerTest, OneThatIsSlowIsClosed) {
  Start({.patience = std::chrono::milliseconds(30)});
  const Descriptor silent = Connect();
  EXPECT_EQ(ReadToTheEnd(silent.get()), "");
}

TEST_F(JoinListenerTest, OneThatSaysTooMuchIsClosed) {
  Start({.patience = std::chrono::hours(1), .bytes = 4000});
  const Descriptor talker = Connect();
  // A record whose end never comes.
  const std::string bytes = std::string("\x16\x03\x01\x3f\xff\x01", 6) + std::string(9000, 'x');
  send(talker.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  ReadToTheEnd(talker.get());
  EXPECT_EQ(Asked(), 0u);
}

TEST_F(JoinListenerTest, FourOfAnAddressAreServedAndAsManyWait) {
  Start({.patience = std::chrono::hours(1)});
  std::vector<Descriptor> silent;
  for (int i = 0; i < 8; ++i) silent.push_back(Connect());
  const Descriptor ninth = Connect();
  EXPECT_EQ(ReadToTheEnd(ninth.get()), "") << "it is closed at once";
  for (const Descriptor& one : silent) {
    pollfd polled{one.get(), POLLIN, 0};
    EXPECT_EQ(poll(&polled, 1, 0), 0) << "it is open";
  }
  // Once those before it have gone one that waited is served.
  for (int i = 0; i < 5; ++i) silent[static_cast<size_t>(i)].Close();
  absl::StatusOr<JoinAnswer> answer = Ask();
  // The listener may hear of that they have gone after it has heard of us.
  while (absl::IsUnavailable(answer.status())) answer = Ask();
  EXPECT_TRUE(answer.ok()) << answer.status();
}

TEST_F(JoinListenerTest, AllHaveNoMorePlacesThanThereAre) {
  Start({.served_of_address = 100, .all = 3, .patience = std::chrono::hours(1)});
  std::vector<Descriptor> silent;
  for (int i = 0; i < 3; ++i) silent.push_back(Connect());
  const Descriptor fourth = Connect();
  EXPECT_EQ(ReadToTheEnd(fourth.get()), "") << "it is closed at once";
  silent.pop_back();
  const absl::StatusOr<JoinAnswer> answer = Ask();
  EXPECT_TRUE(answer.ok() || absl::IsUnavailable(answer.status()));
}

// One that has shown to know the key, and what it says next.
class KnownClient {
 public:
  explicit KnownClient(Descriptor socket_of) : socket_(std::move(socket_of)) {
    std::array<char, 4096> piece{};
    Send(channel_->Give());
    while (!channel_->is_open()) {
      const ssize_t size = recv(socket_.get(), piece.data(), piece.size(), 0);
      if (size <= 0) return;
      EXPECT_TRUE(channel_->Take(absl::string_view(piece.data(), static_cast<size_t>(size))).ok());
    }
  }
  void Say(const std::string& bytes) {
    EXPECT_TRUE(channel_->Send(bytes).ok());
    Send(channel_->Give());
  }
  std::string Hear() {
    EXPECT_TRUE(channel_->Take(ReadToTheEnd(socket_.get())).ok());
    return channel_->Received();
  }

 private:
  void Send(const std::string& bytes) const {
    EXPECT_EQ(send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  const Descriptor socket_;
  const std::unique_ptr<PskChannel> channel_ =
      PskChannel::Connecting("host:a", JoinKeyOf(kSecret)).value();
};

TEST_F(JoinListenerTest, AQuestionThatCannotBeReadIsRefused) {
  Start();
  for (const std::string& bytes :
       {WithLength("\x7f"), WithLength(Encode(JoinHost{"../a", "n", "k", 1})),
        std::string("\x7f\xff\xff\xff", 4)}) {
    KnownClient client(Connect());
    client.Say(bytes);
    const std::string heard = client.Hear();
    const auto message = MessageIn(heard, kMostJoinAnswerBytes);
    ASSERT_TRUE(message.ok() && *message) << heard;
    const absl::StatusOr<JoinAnswer> answer = DecodeJoinAnswer(**message);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_TRUE(std::holds_alternative<JoinRefused>(*answer));
  }
  EXPECT_EQ(Asked(), 0u);
}

TEST_F(JoinListenerTest, AnAnswerMayComeAfterItsEnd) {
  Start();
  KnownClient client(Connect());
  std::function<void(JoinAnswer)> answer;
  {
    MutexLock lock(mutex_);
    holds_ = true;
    lock.Unlock();
    client.Say(WithLength(Encode(JoinHost{"a", "n", "k", 1})));
    lock.Relock();
    while (held_.empty()) came_.Wait(mutex_);
    answer = held_.front();
  }
  listener_.reset();
  answer(JoinRefused{"nobody hears it"});
}

}  // namespace
}  // namespace muster
