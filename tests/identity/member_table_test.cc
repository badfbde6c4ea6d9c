// The rows of the table that are frames between members, and who answers at the two ports that
// members and agents call: each cell is tried at a real port (docs/identity.md section 6).
#include <gtest/gtest.h>

#include <iostream>

#include "lib/wire/message_codec.h"
#include "tests/identity/member_port.h"
#include "tests/identity/who.h"

namespace muster::identity {
namespace {

const PeerName kRightful{"c1", Member()};
const MemberId kTarget{"worker-0", {1, 1}};
const MemberId kSteady{"worker-2", {2, 2}};  // its session is open all the time

PeerName NameIn(const MemberId& id) {
  return {"c1", MemberPeer{"demo", id.name, PlacementNumber(0), id.incarnation}};
}

class MemberTable : public testing::Test {
 protected:
  MemberTable()
      : target_(TlsTransport(TestIdentity(certificates_.authority(), NameIn(kTarget))), kTarget),
        steady_(TlsTransport(TestIdentity(certificates_.authority(), NameIn(kSteady))), kSteady) {
    // The rightful one calls nobody here: it is what the test says in its name.
    const ViewMember rightful{IdOf(Member()), Role::kWorker, "host", "127.0.0.1:1", Rank(1), 0};
    target_.Hold({target_.member(), rightful, steady_.member()});
    steady_.Hold({target_.member(), steady_.member()});
  }
  void SetUp() override {
    ASSERT_TRUE(target_.AwaitUp(kSteady));
    ASSERT_TRUE(steady_.AwaitUp(kTarget));
  }
  // Nothing of others was taken, and the steady session is the one that it was.
  void ExpectUndisturbed() {
    steady_.Send(kTarget, HeaderFrame(Encode(PeerMessage(GlobalNorm{}))));
    EXPECT_TRUE(target_.AwaitSaid(++said_));
    EXPECT_EQ(target_.said(), said_);
    EXPECT_EQ(steady_.down(), 0u);
  }
  // An evicted one may not give the name of another, so it says its own: it is in no view.
  static Hello GreetingOf(Who who) {
    MemberId from = IdOf(Member());
    if (who == Who::kEvicted) from.incarnation = kProcessBefore;
    return {"demo", from, kTarget};
  }
  std::unique_ptr<Attempt> Begin(Who who) {
    return std::make_unique<Attempt>(certificates_.TransportOf(who, kRightful),
                                     target_.member().address);
  }

  const Certificates certificates_;
  MemberPort target_, steady_;
  size_t said_ = 0;
};

TEST_F(MemberTable, OnlyWhoIsInTheViewSaysAnythingToAMember) {
  size_t cells = 0, kind = 0;
  ForEachKind<PeerMessage>([&](PeerMessage message) {
    const bool greets = std::holds_alternative<Hello>(message);
    ++kind;
    const auto talk = [&](Attempt& attempt, Who who) {
      attempt.Say(PeerMessage(GreetingOf(who)));
      if (!greets) attempt.Say(message);
    };
    std::vector<std::pair<Who, std::unique_ptr<Attempt>>> refused;
    for (const Who who : Everybody()) {
      if (who == Who::kMember) continue;
      refused.emplace_back(who, Begin(who));
      talk(*refused.back().second, who);
    }
    for (const auto& [who, attempt] : refused) {
      EXPECT_FALSE(attempt->AwaitEnd().ok()) << NameOf(who) << " says kind " << kind;
      EXPECT_EQ(attempt->frames(), 0u) << NameOf(who) << " is answered, kind " << kind;
      ++cells;
    }
    ExpectUndisturbed();
    const std::unique_ptr<Attempt> twin = Begin(Who::kMember);
    talk(*twin, Who::kMember);
    EXPECT_TRUE(twin->AwaitFrames(1)) << "it is greeted, kind " << kind << ": " << twin->AwaitEnd();
    if (!greets) {
      EXPECT_TRUE(target_.AwaitSaid(++said_)) << "kind " << kind;
    }
    EXPECT_TRUE(twin->is_open()) << "kind " << kind;
    ++cells;
    ExpectUndisturbed();
  });
  EXPECT_EQ(cells, std::variant_size_v<PeerMessage> * Everybody().size());
  std::cout << cells << " cells of frames between members\n";
}

// What a coordinator and a member say to those who called them is taken of nobody else. Nothing is
// read of whoever else answers, so that the kinds of these frames make no difference.
TEST(WhoAnswers, IsTheOneThatWasCalledAndNobodyElse) {
  const Certificates certificates;
  const MemberPeer member = Member();
  struct Row {
    Who answers;
    ExpectedPeer expected;
    PeerName rightful, caller;
  };
  const Row rows[] = {
      {Who::kCoordinator, CoordinatorPeer{}, {"c1", CoordinatorPeer{}}, {"c1", HostPeer{"alpha"}}},
      {Who::kMember, ExpectedMember{member.job, member.name, member.incarnation}, kRightful,
       NameIn(kTarget)}};
  size_t cells = 0;
  for (const Row& row : rows)
    for (const Who who : Everybody()) {
      const auto answers = certificates.TransportOf(who, row.rightful);
      Lobby lobby;
      const auto listener = answers->Listen("127.0.0.1:0", lobby.acceptor());
      ASSERT_TRUE(listener.ok()) << listener.status();
      Attempt call(TlsTransport(TestIdentity(certificates.authority(), row.caller)),
                   (*listener)->Address(), row.expected);
      call.SayBytes("secret");
      if (who == row.answers) {
        const auto accepted = lobby.Await(0);
        ASSERT_TRUE(accepted) << NameOf(who);
        EXPECT_TRUE(accepted->recorder->AwaitFrames(1)) << NameOf(who);
        accepted->session->Send(HeaderFrame("answer"));
        EXPECT_TRUE(call.AwaitFrames(1)) << NameOf(who);
      } else {
        EXPECT_FALSE(call.AwaitEnd().ok()) << NameOf(who);
        EXPECT_EQ(lobby.size(), 0u) << NameOf(who) << " gets a frame";
      }
      ++cells;
    }
  std::cout << cells << " cells of who answers\n";
}

}  // namespace
}  // namespace muster::identity
