// The tokens of people in the state machine: made, journalled as a whole, and taken away.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "coordinator/state/rights.h"
#include "tests/coordinator/state/desk.h"

namespace muster::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Each has another first digit, so another id.
Token TokenOf(char digit, UserRole role) {
  const bool is_admin = role == UserRole::kAdmin;
  return {std::string(64, digit), {"ada", role, is_admin ? "*" : "vision"}, 1};
}

RecoveredState With(std::vector<Token> tokens) {
  RecoveredState found;
  found.tokens = std::move(tokens);
  return found;
}

TEST(Tokens, AreJournalledAllAtEachChange) {
  const Token admin = TokenOf('a', UserRole::kAdmin), viewer = TokenOf('b', UserRole::kViewer);
  Desk desk(With({admin}));
  desk.Give(MakeToken{viewer});
  EXPECT_THAT(desk.Drain<PersistTokens>().at(0).tokens, ElementsAre(admin, viewer));
  desk.Give(MakeToken{viewer});
  EXPECT_THAT(desk.Drain<PersistTokens>(), IsEmpty()) << "its id is taken";
  desk.Give(RevokeToken{TokenId(viewer)});
  EXPECT_THAT(desk.Drain<PersistTokens>().at(0).tokens, ElementsAre(admin));
  desk.Give(RevokeToken{TokenId(viewer)});
  EXPECT_THAT(desk.Drain<PersistTokens>(), IsEmpty()) << "it is gone";
}

TEST(Tokens, TheLastAdminStays) {
  const Token admin = TokenOf('a', UserRole::kAdmin), other = TokenOf('b', UserRole::kAdmin);
  Desk desk(With({admin, TokenOf('c', UserRole::kOperator)}));
  desk.Give(RevokeToken{TokenId(admin)});
  EXPECT_THAT(desk.Drain<PersistTokens>(), IsEmpty());
  EXPECT_THAT(WhyNotRevoked({admin}, TokenId(admin)), HasSubstr("last token of an admin"));
  Token passing = TokenOf('d', UserRole::kAdmin);
  passing.expires_unix_ms = 2;
  EXPECT_THAT(WhyNotRevoked({admin, passing}, TokenId(admin)), HasSubstr("last token of an admin"))
      << "the other will be of no use";
  EXPECT_THAT(WhyNotRevoked({admin, passing}, TokenId(passing)), IsEmpty());
  desk.Give(MakeToken{other});
  desk.Give(RevokeToken{TokenId(admin)});
  EXPECT_EQ(desk.Drain<PersistTokens>().size(), 2u);
}

TEST(Tokens, ThatHaveExpiredMakeRoomForTheNext) {
  const Token admin = TokenOf('a', UserRole::kAdmin);
  Token expired = TokenOf('b', UserRole::kViewer), next = TokenOf('c', UserRole::kViewer);
  expired.expires_unix_ms = 100;
  Desk desk(With({admin, expired}));
  next.made_unix_ms = 99;
  desk.Give(MakeToken{next});
  EXPECT_THAT(desk.Drain<PersistTokens>().at(0).tokens, ElementsAre(admin, expired, next));
  Token last = TokenOf('d', UserRole::kViewer);
  last.made_unix_ms = 100;
  desk.Give(MakeToken{last});
  EXPECT_THAT(desk.Drain<PersistTokens>().at(0).tokens, ElementsAre(admin, next, last));
  EXPECT_THAT(WhyNotMade(std::vector<Token>(kMostTokens, expired), last), IsEmpty());
  EXPECT_THAT(WhyNotMade(std::vector<Token>(kMostTokens, next), last),
              HasSubstr("all that may be"));
}

TEST(Tokens, ExpireAtTheirTimeOrNever) {
  Token token = TokenOf('a', UserRole::kViewer);
  EXPECT_FALSE(HasExpired(token, 1'000));
  token.expires_unix_ms = 1'000;
  EXPECT_FALSE(HasExpired(token, 999));
  EXPECT_TRUE(HasExpired(token, 1'000));
}

// Whoever may submit to one namespace shares the machine and its keys with what else runs there.
TEST(Tokens, HostsThatNobodyAdmittedAreOfEverybodyUntilSomeoneMayUseOneNamespaceOnly) {
  Desk desk(With({TokenOf('a', UserRole::kAdmin)}), /*slots=*/0);
  desk.Give(AgentUp{HelloOf("a", 2)});
  const auto submit = [&](const std::string& id) {
    JobSpec spec = SpecOf(1, 1);
    spec.queue.name_space = "vision";
    desk.Give(Submit{id, spec});
  };
  const auto waits = [&](const std::string& id) {
    return desk.Job(id).placements.empty() ||
           !desk.Job(id).placements.at("worker-0").host.has_value();
  };
  submit("before");
  EXPECT_FALSE(waits("before"));
  const Token viewer = TokenOf('b', UserRole::kViewer);
  desk.Give(MakeToken{viewer});
  EXPECT_FALSE(waits("before")) << "what runs stays where it is";
  submit("after");
  EXPECT_TRUE(waits("after")) << "a host that nobody admitted is of the namespace default now";
  desk.Give(RevokeToken{TokenId(viewer)});
  EXPECT_FALSE(waits("after"));
}

TEST(Tokens, AreNoMoreThanMayBe) {
  std::vector<Token> tokens;
  for (size_t i = 0; i < kMostTokens; ++i) {
    tokens.push_back(TokenOf('a', UserRole::kAdmin));
    tokens.back().hash.replace(0, 4, std::to_string(1000 + i));
  }
  Desk desk(With(tokens));
  desk.Give(MakeToken{TokenOf('b', UserRole::kViewer)});
  EXPECT_THAT(desk.Drain<PersistTokens>(), IsEmpty());
  EXPECT_THAT(WhyNotMade(tokens, TokenOf('b', UserRole::kViewer)), HasSubstr("1000 tokens"));
}

TEST(Tokens, AJobIsOfWhoeverSubmittedItFirst) {
  Desk desk;
  desk.Give(Submit{"job", SpecOf(1, 1), "ada"});
  EXPECT_EQ(desk.Job().owner, "ada");
  desk.Give(Stop{"job"});
  desk.Give(Submit{"job", SpecOf(1, 1), "bob"});
  EXPECT_EQ(desk.Job().owner, "ada") << "who lets it go on does not take it";
}

struct SubmissionRow {
  UserRole role;
  const char* scope;
  const char* owner;  // of the job of that id; null: there is none
  bool may;
};
constexpr SubmissionRow kSubmissions[] = {
    {UserRole::kViewer, "vision", nullptr, false},
    {UserRole::kSubmitter, "vision", nullptr, true},
    {UserRole::kSubmitter, "speech", nullptr, false},
    {UserRole::kSubmitter, "vision", "ada", true},
    {UserRole::kSubmitter, "vision", "bob", false},
    {UserRole::kOperator, "vision", "bob", true},
    {UserRole::kAdmin, "*", "bob", true},
};

TEST(Rights, OnlyItsOwnerOrAnOperatorSubmitsAJobAgain) {
  for (const SubmissionRow& row : kSubmissions) {
    const JobRights held{"vision", row.owner == nullptr ? "" : row.owner};
    const absl::Status checked =
        CheckSubmission({"ada", row.role, row.scope}, "job", {"vision", "ada"},
                        row.owner == nullptr ? nullptr : &held);
    EXPECT_EQ(checked.code(), row.may ? absl::StatusCode::kOk : absl::StatusCode::kPermissionDenied)
        << RoleName(row.role) << " in " << row.scope << ": " << checked;
  }
}

TEST(Rights, OfAJobThatIsNotSeenOnlyItsIdIsTold) {
  const JobRights held{"speech", "bob"};
  EXPECT_EQ(
      CheckSubmission({"ada", UserRole::kSubmitter, "vision"}, "job", {"vision", "ada"}, &held),
      absl::AlreadyExistsError("the id job is not free; submit this job under another id"));
}

}  // namespace
}  // namespace muster::coordinator
