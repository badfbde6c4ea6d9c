#include "coordinator/state/membership.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/exit_codes.h"

namespace muster::coordinator {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr Duration kLease = seconds(2);
constexpr Membership::Patience kPatience{kLease, seconds(60)};
const Time kStart = Time{} + seconds(100);
const MemberId kA{"worker-0", {1, 1}}, kB{"worker-1", {1, 2}}, kNewA{"worker-0", {2, 1}};

Join JoinOf(const MemberId& id, Role role = Role::kWorker) {
  Join join;
  join.id = id;
  join.role = role;
  return join;
}

// How one member stands.
enum class At { kUnknown, kUp, kDown, kMayHaveEnded, kEnded, kEvicted };
const char* const kStates[] = {
    "unknown", "up", "down", "its end was told without its life", "its end is told", "evicted"};

Membership MembersAt(At at) {
  Membership members(kPatience, {});
  if (at != At::kUnknown) members.Admit(JoinOf(kA), kStart);
  if (at == At::kDown) members.Down(kA, kStart);
  if (at == At::kMayHaveEnded) members.Exited(kA.name, {}, kStart);
  if (at == At::kEnded) members.Exited(kA.name, kA.incarnation, kStart);
  if (at == At::kEvicted) members.Evict(kA, kExitFailed);
  return members;
}

enum class Input { kJoins, kSays, kBreaks, kEnds, kEndsWithoutLife, kEarlierEnds, kIsEvicted };
const char* const kInputs[] = {"joins",     "says something",         "its session breaks",
                               "ends",      "ends, without its life", "an earlier life ends",
                               "is evicted"};

// What is answered; "-": the input has no answer.
std::string Give(Membership& members, Input input, Time now) {
  const auto word = [](bool answer) { return answer ? "yes" : "no"; };
  switch (input) {
    case Input::kJoins: return word(members.Admit(JoinOf(kA), now));
    case Input::kSays: return word(members.Heard(kA, now));
    case Input::kBreaks: members.Down(kA, now); return "-";
    case Input::kEnds: return word(members.Exited(kA.name, kA.incarnation, now));
    case Input::kEndsWithoutLife: return word(members.Exited(kA.name, {}, now));
    case Input::kEarlierEnds: return word(members.Exited(kA.name, {5, 5}, now));
    case Input::kIsEvicted: {
      const std::optional<bool> was_up = members.Evict(kA, kExitFailed);
      return was_up ? word(*was_up) : "-";
    }
  }
  return "?";
}

std::string StateOf(const Membership& members) {
  const std::vector<MemberId> ended = members.Ended();
  if (!members.IsLive(kA)) return members.EvictedWith(kA.incarnation) ? "evicted" : "unknown";
  return absl::StrCat(members.live().at(kA).up ? "up" : "down", ended.empty() ? "" : ", ended");
}

struct InputCase {
  At at;
  Input input;
  std::string answer;
  std::string then;
  bool new_revision;
};

TEST(Membership, WhatEachInputDoesInEachState) {
  const std::vector<InputCase> cases = {
      {At::kUnknown, Input::kJoins, "yes", "up", true},
      {At::kUnknown, Input::kSays, "no", "unknown", false},
      {At::kUnknown, Input::kBreaks, "-", "unknown", false},
      {At::kUnknown, Input::kEnds, "no", "unknown", true},
      {At::kUnknown, Input::kEndsWithoutLife, "no", "unknown", true},
      {At::kUnknown, Input::kIsEvicted, "-", "unknown", false},

      {At::kUp, Input::kJoins, "no", "up", false},
      {At::kUp, Input::kSays, "yes", "up", false},
      {At::kUp, Input::kBreaks, "-", "down", false},
      {At::kUp, Input::kEnds, "yes", "down, ended", true},
      // It may be a later process that ended; if the session breaks soon, it was this one.
      {At::kUp, Input::kEndsWithoutLife, "yes", "up", true},
      {At::kUp, Input::kEarlierEnds, "no", "up", true},
      {At::kUp, Input::kIsEvicted, "yes", "evicted", true},

      {At::kDown, Input::kJoins, "no", "up", false},
      {At::kDown, Input::kSays, "yes", "up", false},
      {At::kDown, Input::kBreaks, "-", "down", false},
      {At::kDown, Input::kEnds, "yes", "down, ended", true},
      {At::kDown, Input::kEndsWithoutLife, "yes", "down, ended", true},
      {At::kDown, Input::kEarlierEnds, "no", "down", true},
      {At::kDown, Input::kIsEvicted, "no", "evicted", true},

      {At::kMayHaveEnded, Input::kSays, "yes", "up", false},
      {At::kMayHaveEnded, Input::kBreaks, "-", "down, ended", false},
      {At::kMayHaveEnded, Input::kEnds, "yes", "down, ended", true},
      {At::kMayHaveEnded, Input::kEndsWithoutLife, "yes", "up", true},
      {At::kMayHaveEnded, Input::kEarlierEnds, "no", "up", true},
      {At::kMayHaveEnded, Input::kIsEvicted, "yes", "evicted", true},

      // Its last words may come after its end was told.
      {At::kEnded, Input::kSays, "yes", "up", false},
      {At::kEnded, Input::kBreaks, "-", "down, ended", false},
      {At::kEnded, Input::kEnds, "yes", "down, ended", true},
      {At::kEnded, Input::kEarlierEnds, "no", "down, ended", true},
      {At::kEnded, Input::kIsEvicted, "no", "evicted", true},

      {At::kEvicted, Input::kSays, "no", "evicted", false},
      {At::kEvicted, Input::kBreaks, "-", "evicted", false},
      {At::kEvicted, Input::kEnds, "no", "evicted", true},
      {At::kEvicted, Input::kIsEvicted, "-", "evicted", false},
  };
  for (const InputCase& c : cases) {
    Membership members = MembersAt(c.at);
    const int64_t before = members.revision();
    const std::string what =
        absl::StrCat(kStates[static_cast<int>(c.at)], ": it ", kInputs[static_cast<int>(c.input)]);
    EXPECT_EQ(Give(members, c.input, kStart + seconds(1)), c.answer) << what;
    EXPECT_EQ(StateOf(members), c.then) << what;
    EXPECT_EQ(members.revision() != before, c.new_revision) << what;
  }
}

struct LossCase {
  At at;
  Duration heard;   // it last said something so long after the start; zero: it has said nothing
  Duration judged;  // so long after the start
  std::string why;  // it is lost; empty: it is not
};

TEST(Membership, WhoIsLostAndWhy) {
  constexpr char kSilent[] = "silent for longer than its lease";
  constexpr char kItEnded[] = "its process ended";
  const std::vector<LossCase> cases = {
      {At::kUp, {}, kLease, ""},
      {At::kUp, {}, kLease + milliseconds(1), kSilent},
      {At::kUp, seconds(1), kLease + seconds(1), ""},
      {At::kUp, seconds(1), kLease + milliseconds(1001), kSilent},
      // A broken session is no loss: it may come back within the lease.
      {At::kDown, {}, kLease, ""},
      {At::kDown, {}, kLease + milliseconds(1), kSilent},
      {At::kMayHaveEnded, {}, seconds(0), ""},
      {At::kMayHaveEnded, {}, kLease + milliseconds(1), kSilent},
      {At::kEnded, {}, seconds(0), kItEnded},
      {At::kEnded, {}, kLease + seconds(1), kItEnded},
  };
  for (const LossCase& c : cases) {
    Membership members = MembersAt(c.at);
    if (c.heard != Duration()) members.Heard(kA, kStart + c.heard);
    const auto lost = members.Lost(kStart + c.judged);
    const std::string what = absl::StrCat(kStates[static_cast<int>(c.at)], ", judged after ",
                                          c.judged / milliseconds(1), " ms");
    EXPECT_EQ(lost.empty() ? "" : lost.front().second, c.why) << what;
    EXPECT_LE(lost.size(), 1u) << what;
  }
}

// Its lease was over long before its session broke, as when its machine is gone.
TEST(Membership, ABrokenSessionMakesNobodyWaitAnewForWhoIsWaitedFor) {
  for (const bool waited_for : {false, true}) {
    Membership members = MembersAt(At::kUp);
    if (waited_for) {
      EXPECT_TRUE(members.WaitFor(kA));
    }
    members.Down(kA, kStart + seconds(14));
    const Duration silence = kStart + seconds(14) - members.live().at(kA).heard;
    EXPECT_EQ(silence, waited_for ? seconds(14) : seconds(0));
  }
}

struct WordCase {
  At at;
  Duration came;    // of a word that still waits for us, so long after the start
  Duration judged;  // so long after the start
  bool lost;
  std::string then;
};

TEST(Membership, AWordCountsFromWhenItCame) {
  const std::vector<WordCase> cases = {
      {At::kUnknown, kLease, kLease, false, "unknown"},
      {At::kUp, kLease, 2 * kLease, false, "up"},
      {At::kUp, kLease, 2 * kLease + milliseconds(1), true, "up"},
      {At::kUp, -kLease, kLease, false, "up"},  // an older word than the last one
      // It came before its session broke, or its process ended.
      {At::kDown, kLease, 2 * kLease, false, "down"},
      {At::kEnded, kLease, kLease, true, "down, ended"},
      {At::kEvicted, kLease, kLease, false, "evicted"},
  };
  for (const WordCase& c : cases) {
    Membership members = MembersAt(c.at);
    members.WordsCame({{kA, kStart + c.came}, {kB, kStart + c.came}});
    EXPECT_EQ(members.Lost(kStart + c.judged).size(), c.lost ? 1u : 0u) << c.then;
    EXPECT_EQ(StateOf(members), c.then);
    EXPECT_FALSE(members.IsLive(kB)) << "it is of another job";
  }
}

struct ThreadCase {
  std::vector<ThreadAge> threads;  // as the last word says, which has just come
  std::string lost;                // why; empty: it is not
  std::string shown;               // with its phase
};

// Whoever is busy says so and stays, however long; whoever hangs goes, however often it says that
// it lives.
TEST(Membership, AHungThreadIsALossAndABusyOneIsNot) {
  const std::vector<ThreadCase> cases = {
      {{}, "", "applying"},  // all wait for work
      {{{"train", 0.1}, {"exchange", 5.9}}, "", "applying"},
      {{{"train", 0.1}, {"exchange", 6}},
       "",
       "applying; its exchange thread has stood still for 6 s"},
      {{{"train", 60}}, "", "applying; its train thread has stood still for 60 s"},
      {{{"exchange", 1}, {"train", 60.25}},
       "its train thread has stood still for 60 s",
       "applying; its train thread has stood still for 60 s"},
      // A disk that hangs is seen, and costs nobody.
      {{{"train", 1}, {kCheckpointThread, 600}},
       "",
       "applying; its checkpoint thread has stood still for 600 s"},
      {{{"train", 60.25}, {kCheckpointThread, 600}},
       "its train thread has stood still for 60 s",
       "applying; its checkpoint thread has stood still for 600 s"},
  };
  for (const ThreadCase& c : cases) {
    Membership members = MembersAt(At::kUp);
    const Time now = kStart + seconds(90);
    members.Heard(kA, now);
    members.Note(kA, {Step(3), "applying", c.threads});
    const auto lost = members.Lost(now);
    EXPECT_EQ(lost.empty() ? "" : lost.front().second, c.lost) << c.shown;
    EXPECT_EQ(members.PhaseOf(members.live().at(kA)), c.shown);
    members.Note(kA, {Step(3), "", {{"train", 0}}});
    EXPECT_THAT(members.Lost(now), IsEmpty()) << "it went on";
    EXPECT_EQ(members.PhaseOf(members.live().at(kA)), "");
  }
}

TEST(Membership, WhatASessionBeforeSaidOfThreadsIsForgotten) {
  Membership members = MembersAt(At::kUp);
  members.Note(kA, {Step(3), "", {{"train", 61}}});
  members.Admit(JoinOf(kA), kStart);
  EXPECT_THAT(members.Lost(kStart), IsEmpty());
}

TEST(Membership, AWordThatIsHandledLateCountsFromWhenItCame) {
  Membership members = MembersAt(At::kUp);
  const Time came = kStart + seconds(1);
  members.Heard(kA, came);
  EXPECT_THAT(members.Lost(came + kLease), IsEmpty());
  EXPECT_EQ(members.Lost(came + kLease + milliseconds(1)).size(), 1u);
  EXPECT_TRUE(members.WaitFor(kA));
  members.Heard(kA, came);
  EXPECT_FALSE(members.WaitFor(kA)) << "it said nothing new";
  members.Heard(kA, came + milliseconds(1));
  EXPECT_TRUE(members.WaitFor(kA));
}

// The agent does not know which life ended.
TEST(Membership, AnEndWithoutALifeIsForgottenAfterALease) {
  Membership members = MembersAt(At::kMayHaveEnded);
  members.Down(kA, kStart + kLease);
  EXPECT_EQ(StateOf(members), "down");
}

TEST(Membership, CountsByRoleAndKnowsWhoIsLive) {
  Membership members(kPatience, {{9, 9}});
  members.Admit(JoinOf(kA), kStart);
  members.Admit(JoinOf(kB, Role::kServer), kStart);
  EXPECT_EQ(members.Count(Role::kWorker), 1u);
  EXPECT_EQ(members.Count(Role::kServer), 1u);
  EXPECT_TRUE(members.AllLive({kA, kB}));
  EXPECT_FALSE(members.AllLive({kA, kNewA}));
  EXPECT_THAT(members.OthersOfName(kNewA), ElementsAre(kA));
  EXPECT_THAT(members.OthersOfName(kA), IsEmpty());
  EXPECT_EQ(members.EvictedWith({9, 9}), kExitFailed) << "an earlier start evicted it";
  members.Evict(kA, kExitFailed);
  EXPECT_EQ(members.Count(Role::kWorker), 0u);
}

TEST(Membership, KeepsWhatAMemberSaysOfItself) {
  Membership members = MembersAt(At::kUp);
  members.Note(kA, Alive{Step(7), "lane 1 of 2"});
  members.Note(kB, Alive{Step(8), ""});
  EXPECT_EQ(members.live().at(kA).step, Step(7));
  EXPECT_EQ(members.live().at(kA).phase, "lane 1 of 2");
  EXPECT_FALSE(members.IsLive(kB)) << "it never joined";
}

TEST(Membership, WhoIsBannedIsRefusedAndNobodyElse) {
  Membership members = MembersAt(At::kEvicted);
  EXPECT_EQ(members.EvictedWith(kNewA.incarnation), std::nullopt);
  members.Ban({3, 3});
  EXPECT_EQ(members.EvictedWith({3, 3}), kExitFailed);
}

TEST(Membership, WhoIsEvictedLeavesWithItsCodeWheneverItComes) {
  Membership members = MembersAt(At::kDown);
  members.Evict(kA, kExitLater);
  members.Ban(kA.incarnation);  // its process has ended, too
  EXPECT_EQ(members.EvictedWith(kA.incarnation), kExitLater);
}

TEST(Membership, TellsTheHighestSealedView) {
  Membership members = MembersAt(At::kUp);
  Join join = JoinOf(kNewA);
  join.sealed = ViewNumber(5);
  members.Admit(join, kStart);
  EXPECT_EQ(members.HighestSealed(), ViewNumber(5));
}

}  // namespace
}  // namespace muster::coordinator
