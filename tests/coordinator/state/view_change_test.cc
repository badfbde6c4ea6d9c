#include "coordinator/state/view_change.h"

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::coordinator {
namespace {

using testing::ElementsAre;

const MemberId kA{"a", {1, 1}}, kB{"b", {1, 2}}, kStranger{"c", {1, 3}};
constexpr ViewNumber kView(4);

// The states of a change of the view 4 with the members a and b.
enum class At { kNobodyAnswered, kAAnswered, kAllAnswered, kPlanned, kAHolds, kAllHold };
const char* const kNames[] = {"nobody has answered", "a has answered", "all have answered",
                              "the plan is made",    "a holds",        "all hold"};

ViewChange ChangeAt(At at) {
  ViewChange change(kView, {kB, kA}, "a cause", true, Time{});
  if (at >= At::kAAnswered) change.Answer(kA, {kView, {}});
  if (at >= At::kAllAnswered) change.Answer(kB, {kView, {}});
  if (at >= At::kPlanned) {
    Planned planned;
    planned.heal.base = Step(9);
    change.Follow(planned);
  }
  if (at >= At::kAHolds) change.Hold(kA, {kView, 3});
  if (at >= At::kAllHold) change.Hold(kB, {kView, 5});
  return change;
}

std::string NamesOf(const std::vector<MemberId>& members) {
  return absl::StrJoin(members, " ", [](std::string* out, const MemberId& m) { *out += m.name; });
}

template <class Map>
std::string KeysOf(const Map& map) {
  std::vector<MemberId> keys;
  for (const auto& [id, value] : map) keys.push_back(id);
  return NamesOf(keys);
}

// What its members are told: "seal 4", "heal 4 from 9".
std::string MessageOf(const ViewChange& change) {
  const FromCoordinator message = change.CurrentMessage(TermNumber(2));
  if (const Seal* seal = std::get_if<Seal>(&message))
    return absl::StrCat("seal ", seal->view.value(), " in ", seal->term.value());
  const Heal& heal = std::get<Heal>(message);
  return absl::StrCat("heal ", heal.view.value(), " in ", heal.term.value(), " from ",
                      heal.plan.base.value());
}

struct StateCase {
  At at;
  std::string waits_for;
  std::string message;
};

TEST(ViewChange, WhomItWaitsForAndWhatItsMembersAreTold) {
  const std::vector<StateCase> cases = {
      {At::kNobodyAnswered, "a b", "seal 4 in 2"}, {At::kAAnswered, "b", "seal 4 in 2"},
      {At::kAllAnswered, "", "seal 4 in 2"},       {At::kPlanned, "a b", "heal 4 in 2 from 9"},
      {At::kAHolds, "b", "heal 4 in 2 from 9"},    {At::kAllHold, "", "heal 4 in 2 from 9"},
  };
  for (const StateCase& c : cases) {
    const ViewChange change = ChangeAt(c.at);
    EXPECT_EQ(NamesOf(change.NotReady()), c.waits_for) << kNames[static_cast<int>(c.at)];
    EXPECT_EQ(MessageOf(change), c.message) << kNames[static_cast<int>(c.at)];
  }
}

struct InputCase {
  At at;
  MemberId member;
  ViewNumber of;
  bool completes;     // the answer to the input
  std::string known;  // whose input counts afterwards
};

TEST(ViewChange, AnAnswerCountsOfAMemberAboutThisViewUntilThePlanIsMade) {
  const std::vector<InputCase> cases = {
      {At::kNobodyAnswered, kA, kView, false, "a"},
      {At::kNobodyAnswered, kB, kView, false, "b"},
      {At::kNobodyAnswered, kStranger, kView, false, ""},
      {At::kNobodyAnswered, kA, ViewNumber(3), false, ""},
      {At::kNobodyAnswered, kA, ViewNumber(5), false, ""},
      {At::kAAnswered, kA, kView, false, "a"},
      {At::kAAnswered, kStranger, kView, false, "a"},
      {At::kAAnswered, kB, ViewNumber(3), false, "a"},
      {At::kAAnswered, kB, kView, true, "a b"},
      {At::kPlanned, kA, kView, false, "a b"},
      {At::kAllHold, kA, kView, false, "a b"},
  };
  for (const InputCase& c : cases) {
    ViewChange change = ChangeAt(c.at);
    EXPECT_EQ(change.Answer(c.member, {c.of, {}}), c.completes)
        << kNames[static_cast<int>(c.at)] << ", " << c.member.name << " of " << c.of.value();
    EXPECT_EQ(KeysOf(change.answers()), c.known)
        << kNames[static_cast<int>(c.at)] << ", " << c.member.name << " of " << c.of.value();
  }
}

TEST(ViewChange, HoldingTheBaseCountsOfAMemberOfThisViewOnceThereIsAPlan) {
  const std::vector<InputCase> cases = {
      {At::kNobodyAnswered, kA, kView, false, ""},  {At::kAllAnswered, kA, kView, false, ""},
      {At::kPlanned, kA, kView, false, "a"},        {At::kPlanned, kStranger, kView, false, ""},
      {At::kPlanned, kA, ViewNumber(3), false, ""}, {At::kAHolds, kA, kView, false, "a"},
      {At::kAHolds, kStranger, kView, false, "a"},  {At::kAHolds, kB, ViewNumber(5), false, "a"},
      {At::kAHolds, kB, kView, true, "a b"},
  };
  for (const InputCase& c : cases) {
    ViewChange change = ChangeAt(c.at);
    EXPECT_EQ(change.Hold(c.member, {c.of, 7}), c.completes)
        << kNames[static_cast<int>(c.at)] << ", " << c.member.name << " of " << c.of.value();
    EXPECT_EQ(KeysOf(change.holding()), c.known)
        << kNames[static_cast<int>(c.at)] << ", " << c.member.name << " of " << c.of.value();
  }
}

TEST(ViewChange, KeepsTheLastAnswerOfEach) {
  ViewChange change = ChangeAt(At::kAAnswered);
  LocalState state;
  state.step = Step(8);
  change.Answer(kA, {kView, state});
  EXPECT_EQ(change.answers().at(kA).step, Step(8));
  ViewChange holding = ChangeAt(At::kAHolds);
  EXPECT_EQ(holding.holding().at(kA), 3);
  holding.Hold(kA, {kView, 4});
  EXPECT_EQ(holding.holding().at(kA), 4);
}

TEST(ViewChange, IsMadeOfItsMembersAndItsCause) {
  const ViewChange change(kView, {kB, kA}, "a cause", true, Time{} + std::chrono::seconds(1));
  EXPECT_EQ(change.number(), kView);
  EXPECT_THAT(change.members(), ElementsAre(kA, kB));
  EXPECT_EQ(change.cause(), "a cause");
  EXPECT_TRUE(change.after_loss());
  EXPECT_EQ(change.since(), Time{} + std::chrono::seconds(1));
  EXPECT_TRUE(change.Names(kA));
  EXPECT_FALSE(change.Names(kStranger));
}

}  // namespace
}  // namespace muster::coordinator
