#include "lib/member/runtime/coordinator_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/domain/given_number.h"
#include "lib/wire/message_codec.h"

namespace muster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;

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
  void Closes(const absl::Status& why) {
    transport_.handlers.back().on_broken(ClosedByPeerError("10.0.0.1:1", why.ToString()));
    Settle();
  }
  void Says() {
    transport_.handlers.back().on_frame(
        {Encode(FromCoordinator(Leave{TermNumber(1), 0, "go"})), Payload()});
    Settle();
  }
  void AnotherClusterSays() {
    transport_.handlers.back().on_frame(
        {Encode(FromCoordinator(Leave{TermNumber(9), 0, "go", "theirs"})), Payload()});
    const std::optional<Event> event = events_->TryTake();
    EXPECT_EQ(link_.Handle(std::get<FrameCame>(*event)).status().code(),
              absl::StatusCode::kFailedPrecondition);
    Breaks();  // since it was closed
  }
  void TriesAgain() {
    now_ = link_.NextTick();
    ASSERT_TRUE(link_.Tick(now_));
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
  std::shared_ptr<std::atomic<LinkId>> next_id_ = std::make_shared<std::atomic<LinkId>>(1);
  CoordinatorLink link_{transport_, "10.0.0.1:1,10.0.0.2:1", "ours", events_, next_id_, 7};
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

// A fresh process may reach it before the one that its agent obeys, and would be turned away.
TEST_F(CoordinatorLinkTest, OneThatWasReplacedIsNotHeard) {
  const auto says = [&](TermNumber term) {
    transport_.handlers.back().on_frame(
        {Encode(FromCoordinator(Leave{term, 69, "go"})), Payload()});
    return link_.Handle(std::get<FrameCame>(*events_->TryTake())).status();
  };
  link_.HearFrom(TermThatGave(PlacementNumber((int64_t{7} << kBitsOfCounter) + 3)));
  now_ += seconds(30);  // so long that a silent session counts as one
  const absl::Status why = says(TermNumber(6));
  EXPECT_EQ(why.code(), absl::StatusCode::kFailedPrecondition) << why;
  Breaks();
  now_ = link_.NextTick();
  ASSERT_TRUE(link_.Tick(now_));
  EXPECT_GE(link_.Away(now_), seconds(30)) << "its session was none";
  EXPECT_EQ(transport_.addresses, (std::vector<std::string>{"10.0.0.1:1", "10.0.0.2:1"}));
  EXPECT_TRUE(says(TermNumber(7)).ok());
  EXPECT_EQ(link_.Away(now_), Duration(0));
}

// It would say the same again, for ever.
TEST_F(CoordinatorLinkTest, AGreetingThatCannotBeTakenIsNotSaidForEver) {
  EXPECT_EQ(link_.WhyRefused(), "");
  Closes(absl::InvalidArgumentError("join: environment.tensors: 200000 items"));
  EXPECT_EQ(link_.WhyRefused(),
            "the coordinator cannot take what this process says of itself or its job: closed by "
            "10.0.0.1:1: INVALID_ARGUMENT: join: environment.tensors: 200000 items");
}

TEST_F(CoordinatorLinkTest, WhatMayPassIsTriedAgain) {
  for (const absl::Status& why :
       {absl::UnavailableError("it ends"), absl::CancelledError("it ends"),
        absl::ResourceExhaustedError("too many sessions"),
        absl::FailedPreconditionError("of another version")}) {
    Closes(why);
    EXPECT_EQ(link_.WhyRefused(), "") << why;
    TriesAgain();
  }
  Breaks();
  TriesAgain();
  // It took what it was greeted with, so that something else was wrong.
  Says();
  Closes(absl::InvalidArgumentError("a frame with a payload"));
  EXPECT_EQ(link_.WhyRefused(), "");
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
  EXPECT_THAT(transport_.addresses,
              ElementsAre("10.0.0.1:1", "10.0.0.2:1", "10.0.0.1:1", "10.0.0.2:1"));
  // The one that answered is tried first when its session breaks.
  Says();
  again();
  again();
  EXPECT_EQ(transport_.addresses.at(4), "10.0.0.2:1");
  EXPECT_EQ(transport_.addresses.at(5), "10.0.0.1:1");
}

TEST_F(CoordinatorLinkTest, OneOfAnotherClusterIsNoCoordinatorOfOurs) {
  Says();
  Breaks();
  TriesAgain();
  now_ += std::chrono::hours(1);  // even where it was silent for so long that it counted as there
  AnotherClusterSays();
  TriesAgain();
  EXPECT_EQ(transport_.addresses.back(), "10.0.0.2:1");
  Breaks();
  EXPECT_EQ(link_.WhyNoneIsOurs(), "") << "ours may come back to the second address";
  EXPECT_GE(link_.Away(now_), std::chrono::hours(1));
}

TEST_F(CoordinatorLinkTest, WhereAllAreOfAnotherClusterThereIsNothingToWaitFor) {
  Breaks();
  TriesAgain();
  AnotherClusterSays();
  EXPECT_EQ(link_.WhyNoneIsOurs(), "");
  TriesAgain();
  AnotherClusterSays();
  EXPECT_EQ(link_.WhyNoneIsOurs(), "") << "nobody answered at the first one a moment ago";
  TriesAgain();
  AnotherClusterSays();
  EXPECT_EQ(link_.WhyNoneIsOurs(),
            "the coordinator belongs to cluster theirs, this member to ours");
}

// ---- names

using Found = absl::StatusOr<std::vector<std::string>>;

class NamedCoordinatorTest : public ::testing::Test {
 protected:
  AddressesFound Answer() {
    std::optional<Event> event = events_->TakeUntil(RealClock().Now() + std::chrono::minutes(1));
    return std::get<AddressesFound>(*std::move(event));
  }
  CoordinatorLink LinkTo(const std::string& addresses, Resolver resolve) {
    return CoordinatorLink(transport_, addresses, "", events_,
                           std::make_shared<std::atomic<LinkId>>(1), 7,
                           NameLookup(std::move(resolve)));
  }
  void Breaks(CoordinatorLink& link) {
    transport_.handlers.back().on_broken(absl::UnavailableError("gone"));
    link.Handle(std::get<SessionBroke>(*events_->TryTake()), now_);
    now_ = link.NextTick();
  }

  Time now_ = Time{} + seconds(100);
  HandTransport transport_;
  std::shared_ptr<EventBox> events_ = std::make_shared<EventBox>();
};

TEST_F(NamedCoordinatorTest, IsLookedUpForEachTry) {
  std::atomic<int> lookups = 0;
  CoordinatorLink link = LinkTo("db:1,10.0.0.9:1", [&](const std::string& host) -> Found {
    if (++lookups == 1) return absl::UnavailableError(host + " is not known yet");
    return std::vector<std::string>{"10.0.0.1", "10.0.0.2"};
  });
  EXPECT_FALSE(link.Connect(now_));
  EXPECT_FALSE(link.Handle(Answer(), now_));
  now_ = link.NextTick();
  EXPECT_TRUE(link.Tick(now_)) << "the next entry needs no lookup";
  for (int i = 0; i < 2; ++i) {
    Breaks(link);
    EXPECT_FALSE(link.Tick(now_));
    EXPECT_FALSE(link.Owns(1)) << "there is no session";
    EXPECT_TRUE(link.Handle(Answer(), now_));
  }
  Breaks(link);
  EXPECT_TRUE(link.Tick(now_));
  EXPECT_EQ(lookups, 3);
  EXPECT_THAT(transport_.addresses,
              ElementsAre("10.0.0.9:1", "10.0.0.1:1", "10.0.0.2:1", "10.0.0.9:1"));
}

TEST_F(NamedCoordinatorTest, ALookupThatHangsEndsTheTry) {
  std::promise<void> released;
  CoordinatorLink link = LinkTo(
      "db:1,10.0.0.9:1", [release = released.get_future().share()](const std::string&) -> Found {
        release.wait();
        return std::vector<std::string>{"10.0.0.1"};
      });
  EXPECT_FALSE(link.Connect(now_));
  EXPECT_EQ(link.NextTick(), now_ + seconds(10));
  now_ = link.NextTick();
  EXPECT_FALSE(link.Tick(now_));
  EXPECT_GE(link.Away(now_), seconds(10));
  released.set_value();
  const AddressesFound late = Answer();
  EXPECT_FALSE(link.Handle(late, now_));
  now_ = link.NextTick();
  EXPECT_TRUE(link.Tick(now_));
  EXPECT_FALSE(link.Handle(late, now_));
  EXPECT_THAT(transport_.addresses, ElementsAre("10.0.0.9:1"));
}

}  // namespace
}  // namespace muster
