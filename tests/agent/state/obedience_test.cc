#include "agent/state/obedience.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Wanted Of(const std::string& cluster, int64_t term) {
  Wanted wanted;
  wanted.cluster = cluster;
  wanted.term = TermNumber(term);
  return wanted;
}

TEST(Obedience, NeitherAnotherClusterNorAnEarlierTermIsObeyed) {
  Obedience agent;
  EXPECT_THAT(agent.WhyNot(Of("ours", 3)), IsEmpty()) << "the first that is heard";
  EXPECT_TRUE(agent.Obey(Of("ours", 3)));
  EXPECT_EQ(agent.cluster(), "ours");
  EXPECT_THAT(agent.WhyNot(Of("ours", 3)), IsEmpty());
  EXPECT_THAT(agent.WhyNot(Of("ours", 4)), IsEmpty());
  EXPECT_THAT(agent.WhyNot(Of("ours", 2)), HasSubstr("a later one of term 3"));
  EXPECT_THAT(agent.WhyNot(Of("theirs", 4)), HasSubstr("another cluster (theirs)"));
  EXPECT_FALSE(agent.Obey(Of("ours", 3))) << "nothing is to be written";
}

TEST(Obedience, AnAgentThatIsStartedAgainObeysNoEarlierTermEither) {
  Obedience first;
  EXPECT_TRUE(first.Obey(Of("ours", 3)));
  EXPECT_TRUE(first.Obey(Of("ours", 5)));
  Obedience second(first.known());
  EXPECT_THAT(second.cluster(), IsEmpty());
  EXPECT_THAT(second.WhyNot(Of("ours", 4)), HasSubstr("a later one of term 5"));
  EXPECT_THAT(second.WhyNot(Of("ours", 5)), IsEmpty());
  EXPECT_FALSE(second.Obey(Of("ours", 5))) << "it stands there";
}

// Whoever starts an agent again may have begun a cluster anew, whose terms begin at 1. The one of
// before may still be there, or come back.
TEST(Obedience, ANewClusterBeginsWithItsFirstTermAndTheOldOneIsRemembered) {
  Obedience agent(KnownTerms{{"old", TermNumber(7)}});
  EXPECT_THAT(agent.WhyNot(Of("new", 1)), IsEmpty());
  EXPECT_TRUE(agent.Obey(Of("new", 1)));
  EXPECT_THAT(agent.WhyNot(Of("old", 8)), HasSubstr("another cluster (old)"))
      << "as long as it lives";
  Obedience next(agent.known());
  EXPECT_THAT(next.WhyNot(Of("old", 6)), HasSubstr("a later one of term 7"));
  EXPECT_THAT(next.WhyNot(Of("old", 7)), IsEmpty());
  EXPECT_TRUE(next.Obey(Of("old", 7)));
  EXPECT_THAT(next.known(),
              ElementsAre(Obeyed{"new", TermNumber(1)}, Obeyed{"old", TermNumber(7)}));
}

TEST(Obedience, ThoseThatWereHeardLastAreKept) {
  Obedience agent(KnownTerms{{"c0", TermNumber(1)}});
  for (size_t i = 1; i <= kMostKnownTerms; ++i) {
    Obedience next(agent.known());
    EXPECT_TRUE(next.Obey(Of(absl::StrCat("c", i), 1)));
    agent = next;
  }
  EXPECT_EQ(agent.known().size(), kMostKnownTerms);
  EXPECT_EQ(agent.known().front().cluster, "c1");
  EXPECT_EQ(agent.known().back().cluster, absl::StrCat("c", kMostKnownTerms));
}

// What a coordinator calls itself does not become lines of the file.
TEST(Obedience, AnIdThatIsNoWordIsNotKept) {
  for (const char* cluster : {"", "a b", "a\nb", "../a"}) {
    Obedience agent;
    EXPECT_FALSE(agent.Obey(Of(cluster, 2))) << cluster;
    EXPECT_THAT(agent.known(), IsEmpty());
    EXPECT_THAT(agent.WhyNot(Of(cluster, 1)), HasSubstr("a later one of term 2")) << cluster;
  }
}

TEST(Obedience, WhatIsOnTheDiskIsReadBack) {
  const KnownTerms terms = {
      {"a", TermNumber(0)}, {"b-1", TermNumber(1)}, {"c", TermNumber(int64_t{1} << 62)}};
  EXPECT_EQ(TextOf(terms), absl::StrCat("a 0\nb-1 1\nc ", int64_t{1} << 62, "\n"));
  EXPECT_THAT(ParseKnownTerms(TextOf(terms)).value(), testing::ElementsAreArray(terms));
  EXPECT_THAT(ParseKnownTerms("").value(), IsEmpty());
  std::string too_many;
  for (size_t i = 0; i <= kMostKnownTerms; ++i) absl::StrAppend(&too_many, "c", i, " 1\n");
  for (const std::string& text :
       {std::string("\n"), std::string("a"), std::string("a\n"), std::string("a 1"),
        std::string("a 1\n\n"), std::string("a -1\n"), std::string("a 1 2\n"), std::string(" 1\n"),
        std::string("../a 1\n"), std::string("a 99999999999999999999\n"), std::string("a 1\0\n", 5),
        too_many})
    EXPECT_TRUE(absl::IsDataLoss(ParseKnownTerms(text).status())) << text;
}

}  // namespace
}  // namespace muster::agent
