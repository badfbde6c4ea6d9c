#include "coordinator/state/claims.h"

#include "gtest/gtest.h"

namespace muster::coordinator {
namespace {

TEST(Claims, AnOlderCopyIsKnownByALaterClaimOrAnotherOne) {
  const std::string ours = ClaimOf(TermNumber(7), "2f");
  EXPECT_EQ(TermOfClaim(ours), TermNumber(7));
  EXPECT_EQ(TermOfClaim(""), TermNumber(0));
  EXPECT_FALSE(IsOfAnother("", ours)) << "somebody took it away";
  EXPECT_FALSE(IsOfAnother("", ""));
  EXPECT_FALSE(IsOfAnother(ours, ours));
  EXPECT_FALSE(IsOfAnother(ClaimOf(TermNumber(6), "aa"), ours));
  EXPECT_TRUE(IsOfAnother(ClaimOf(TermNumber(8), "2f"), ours));
  EXPECT_TRUE(IsOfAnother(ClaimOf(TermNumber(7), "30"), ours)) << "two began the same term";
  EXPECT_TRUE(IsOfAnother(ours, "")) << "from before the first claim";
}

TEST(Claims, OnlyALaterOneReplaces) {
  EXPECT_FALSE(IsReplaced(TermNumber(6), TermNumber(7)));
  EXPECT_FALSE(IsReplaced(TermNumber(7), TermNumber(7)));
  EXPECT_TRUE(IsReplaced(TermNumber(8), TermNumber(7)));
}

}  // namespace
}  // namespace muster::coordinator
