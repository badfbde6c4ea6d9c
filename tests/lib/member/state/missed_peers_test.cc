#include "lib/member/state/missed_peers.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Unreachable Missed(std::vector<int32_t> members, int64_t view = 1) {
  return {ViewNumber(view), std::move(members)};
}

TEST(MissedPeers, AreNamedInEachWord) {
  MissedPeers peers;
  EXPECT_THAT(peers.Name().members, IsEmpty());
  peers.Note(Missed({0, 2}));
  EXPECT_EQ(peers.Name(), Missed({0, 2}));
  EXPECT_EQ(peers.Name(), Missed({0, 2}));
  peers.Note(Missed({2}));
  EXPECT_EQ(peers.Name(), Missed({2}));
}

// Each word falls into a time in which its session is broken.
TEST(MissedPeers, OneWhoseSessionBreaksAgainAndAgainIsNotCut) {
  MissedPeers peers;
  peers.Note(Missed({1}));
  EXPECT_THAT(peers.Name().members, ElementsAre(1)) << "nobody knows yet";
  for (int word = 0; word < 5; ++word) {
    peers.Note(Missed({}));
    peers.Note(Missed({1}));
    EXPECT_THAT(peers.Name().members, IsEmpty()) << word;
  }
  EXPECT_THAT(peers.Name().members, ElementsAre(1)) << "it was not back since the last word";
}

TEST(MissedPeers, OneThatIsBackSaysNothingOfOthers) {
  MissedPeers peers;
  peers.Note(Missed({1, 3}));
  peers.Note(Missed({3}));
  peers.Note(Missed({1, 3}));
  EXPECT_THAT(peers.Name().members, ElementsAre(3));
}

// Another view has other indices.
TEST(MissedPeers, AnotherViewBeginsAnew) {
  MissedPeers peers;
  peers.Note(Missed({1, 2}));
  peers.Note(Missed({2}));
  peers.Note(Missed({1}, 2));
  EXPECT_EQ(peers.Name(), Missed({1}, 2));
}

}  // namespace
}  // namespace muster
