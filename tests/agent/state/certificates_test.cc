#include "agent/state/certificates.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::agent {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using Meaning = Certificates::Meaning;

SignMember QuestionOf(const std::string& name, uint64_t life = 1) {
  return {{"job", name, PlacementNumber(3), {life, 1}}, "key of " + std::to_string(life)};
}
std::vector<std::string> NamesOf(const std::vector<SignMember>& questions) {
  std::vector<std::string> names;
  for (const SignMember& question : questions) names.push_back(question.process.name);
  return names;
}

class CertificatesTest : public testing::Test {
 protected:
  const Time now_ = Time(seconds(1000));
  Certificates certificates_;
};

TEST_F(CertificatesTest, AQuestionIsAskedUntilItIsAnswered) {
  const SignMember a = QuestionOf("a"), b = QuestionOf("b");
  certificates_.Begin(a);
  certificates_.Begin(b);
  EXPECT_THAT(NamesOf(certificates_.Unanswered()), ElementsAre("a", "b"));
  EXPECT_EQ(certificates_.MeaningOf(a.process), Meaning::kFirst);
  certificates_.Got(a.process, "", hours(24), now_);
  EXPECT_THAT(NamesOf(certificates_.Unanswered()), ElementsAre("b"));
  EXPECT_EQ(certificates_.MeaningOf(a.process), Meaning::kStale) << "it comes again";
  certificates_.Failed(b.process, now_);
  EXPECT_THAT(certificates_.Unanswered(), IsEmpty());
  EXPECT_EQ(certificates_.Find({"job", "b"}), nullptr);
}

TEST_F(CertificatesTest, AnAnswerForAnEarlierProcessMeansNothing) {
  const SignMember before = QuestionOf("a", 1), now = QuestionOf("a", 2);
  certificates_.Begin(before);
  certificates_.Begin(now);
  EXPECT_EQ(certificates_.MeaningOf(before.process), Meaning::kStale);
  certificates_.Got(before.process, "", hours(24), now_);
  certificates_.Failed(before.process, now_);
  EXPECT_EQ(certificates_.MeaningOf(now.process), Meaning::kFirst);
  certificates_.End({"job", "a"});
  EXPECT_EQ(certificates_.MeaningOf(now.process), Meaning::kStale);
}

TEST_F(CertificatesTest, IsRenewedWhenHalfOfItsTimeIsOver) {
  const SignMember a = QuestionOf("a");
  certificates_.Begin(a);
  EXPECT_THAT(certificates_.Renew(now_ + hours(48)), IsEmpty()) << "it is asked for";
  certificates_.Got(a.process, "", hours(24), now_);
  EXPECT_THAT(certificates_.Renew(now_ + hours(12) - seconds(1)), IsEmpty());
  const auto questions = certificates_.Renew(now_ + hours(12));
  ASSERT_THAT(NamesOf(questions), ElementsAre("a"));
  EXPECT_EQ(questions[0].public_key, a.public_key) << "the same key";
  EXPECT_THAT(certificates_.Renew(now_ + hours(13)), IsEmpty()) << "it is asked already";
  EXPECT_THAT(NamesOf(certificates_.Unanswered()), ElementsAre("a"))
      << "and is asked again in the next session";
  EXPECT_EQ(certificates_.MeaningOf(a.process), Meaning::kRenewal);
  certificates_.Got(a.process, "", hours(24), now_ + hours(14));
  EXPECT_THAT(certificates_.Renew(now_ + hours(26) - seconds(1)), IsEmpty());
  EXPECT_THAT(NamesOf(certificates_.Renew(now_ + hours(26))), ElementsAre("a"));
}

// A machine slept: its own clock stood still, and that of the wall went on.
TEST_F(CertificatesTest, IsRenewedInTimeAlsoWhereTheMachineSlept) {
  const SignMember a = QuestionOf("a");
  const absl::Time wall = absl::FromUnixSeconds(1'800'000'000);
  certificates_.Begin(a);
  certificates_.Got(a.process, "", hours(24), now_, wall);
  EXPECT_THAT(certificates_.Renew(now_ + hours(1), wall + absl::Hours(1)), IsEmpty());
  EXPECT_THAT(NamesOf(certificates_.Renew(now_ + hours(1), wall + absl::Hours(20))),
              ElementsAre("a"));
  certificates_.Failed(a.process, now_ + hours(1));
  EXPECT_THAT(certificates_.Renew(now_ + hours(1), wall + absl::Hours(20)), IsEmpty())
      << "it was refused just now";
  EXPECT_THAT(
      NamesOf(certificates_.Renew(now_ + hours(1) + kAskAgainAfter, wall + absl::Hours(20))),
      ElementsAre("a"));
}

TEST_F(CertificatesTest, ARenewalThatIsRefusedIsTriedAgain) {
  const SignMember a = QuestionOf("a");
  certificates_.Begin(a);
  certificates_.Got(a.process, "", hours(24), now_);
  certificates_.Renew(now_ + hours(12));
  certificates_.Failed(a.process, now_ + hours(12));
  EXPECT_NE(certificates_.Find({"job", "a"}), nullptr) << "its process runs";
  EXPECT_THAT(certificates_.Renew(now_ + hours(12)), IsEmpty());
  EXPECT_THAT(NamesOf(certificates_.Renew(now_ + hours(12) + kAskAgainAfter)), ElementsAre("a"));
}

TEST_F(CertificatesTest, WhatCameWithOthersThanAreToBeTrustedIsAskedForAgain) {
  const SignMember a = QuestionOf("a"), b = QuestionOf("b");
  for (const SignMember& one : {a, b}) certificates_.Begin(one);
  certificates_.Got(a.process, "old", hours(24), now_);
  EXPECT_FALSE(certificates_.AllTrust("old")) << "one has none yet";
  certificates_.Got(b.process, "new", hours(24), now_);
  EXPECT_THAT(certificates_.Renew(now_), IsEmpty()) << "nobody has said whom to trust";
  certificates_.Trust("new", now_);
  EXPECT_THAT(NamesOf(certificates_.Renew(now_)), ElementsAre("a"));
  EXPECT_FALSE(certificates_.AllTrust("new"));
  // It comes as before all the same: somebody else is asked in vain no more often than that.
  certificates_.Got(a.process, "old", hours(24), now_);
  EXPECT_THAT(certificates_.Renew(now_ + kTrustAgainAfter - seconds(1)), IsEmpty());
  certificates_.Trust("new", now_);
  EXPECT_THAT(certificates_.Renew(now_ + kTrustAgainAfter - seconds(1)), IsEmpty());
  EXPECT_THAT(NamesOf(certificates_.Renew(now_ + kTrustAgainAfter)), ElementsAre("a"));
  certificates_.Got(a.process, "new", hours(24), now_ + kTrustAgainAfter);
  EXPECT_TRUE(certificates_.AllTrust("new"));
  EXPECT_THAT(certificates_.Renew(now_ + hours(2)), IsEmpty());
}

}  // namespace
}  // namespace muster::agent
