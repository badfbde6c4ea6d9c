#include "lib/member/runtime/coordinator_link.h"

#include <gtest/gtest.h>

#include <vector>

#include "lib/wire/message_codec.h"

namespace muster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class DeafSession final : public Session {
 public:
  void Send(Frame) override {}
  void Admit() override {}
  void Close(absl::Status) override {}
  size_t QueuedBytes() const override { return 0; }
  std::string Peer() const override { return "the test"; }
};

// Sessions that do what the test says.
class HandTransport final : public Transport {
 public:
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string&, Acceptor) override {
    return absl::UnimplementedError("not here");
  }
  std::shared_ptr<Session> Connect(const std::string& address, Duration,
                                   SessionHandler handler) override {
    addresses.push_back(address);
    handlers.push_back(std::move(handler));
    return std::make_shared<DeafSession>();
  }
  std::vector<std::string> addresses;  // one for each session
  std::vector<SessionHandler> handlers;
};

class CoordinatorLinkTest : public ::testing::Test {
 protected:
  CoordinatorLinkTest() { link_.Connect(now_); }

  void Breaks() { transport_.handlers.back().on_broken(absl::UnavailableError("gone")), Settle(); }
  void Says() {
    transport_.handlers.back().on_frame(
        {Encode(FromCoordinator(Leave{TermNumber(1), 0, "go"})), Payload()});
    Settle();
  }
  void Settle() {
    while (std::optional<Event> event = events_->TryTake()) {
      if (auto* broke = std::get_if<SessionBroke>(&*event)) {
        link_.Handle(*broke, now_);
      } else {
        EXPECT_TRUE(link_.Handle(std::get<FrameCame>(*event)).ok());
      }
    }
  }
  // In vain: each attempt ends when its time is over.
  void TriesFor(Duration time) {
    for (const Time end = now_ + time; now_ < end;) {
      now_ += seconds(2);
      Breaks();
      now_ = link_.NextTick();
      ASSERT_TRUE(link_.Tick(now_));
    }
  }

  Time now_ = Time{} + seconds(100);
  HandTransport transport_;
  std::shared_ptr<EventBox> events_ = std::make_shared<EventBox>();
  CoordinatorLink link_{transport_, "first:1,second:1", events_,
                        std::make_shared<std::atomic<LinkId>>(1), 7};
};

TEST_F(CoordinatorLinkTest, NobodyThereFromTheStart) {
  TriesFor(seconds(60));
  EXPECT_GE(link_.Away(now_), seconds(60));
}

// A server that waits for the first worker's numeric environment, a worker that nobody needs yet:
// they hear nothing for as long as it lasts.
TEST_F(CoordinatorLinkTest, ASilentSessionIsASession) {
  Says();
  now_ += std::chrono::hours(1);
  EXPECT_EQ(link_.Away(now_), Duration(0));
}

TEST_F(CoordinatorLinkTest, AlsoOneThatWasSilentFromItsBeginning) {
  Says();
  Breaks();
  now_ = link_.NextTick();
  link_.Tick(now_);
  now_ += std::chrono::hours(1);
  EXPECT_EQ(link_.Away(now_), Duration(0));
}

TEST_F(CoordinatorLinkTest, CountsFromTheEndOfTheLastSession) {
  Says();
  now_ += std::chrono::hours(1);
  Breaks();
  const Time broke = now_;
  now_ = link_.NextTick();
  link_.Tick(now_);
  TriesFor(seconds(30));
  EXPECT_EQ(link_.Away(now_), now_ - broke);
  Says();
  EXPECT_EQ(link_.Away(now_), Duration(0));
}

TEST_F(CoordinatorLinkTest, GoesRoundItsAddressesWhileNoneAnswers) {
  const auto again = [&] {
    Breaks();
    now_ = link_.NextTick();
    ASSERT_TRUE(link_.Tick(now_));
  };
  again();
  again();
  again();
  EXPECT_EQ(transport_.addresses,
            (std::vector<std::string>{"first:1", "second:1", "first:1", "second:1"}));
  // The one that answered is tried first when its session breaks.
  Says();
  again();
  again();
  EXPECT_EQ(transport_.addresses.at(4), "second:1");
  EXPECT_EQ(transport_.addresses.at(5), "first:1");
}

}  // namespace
}  // namespace muster
