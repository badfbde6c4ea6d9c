// Which pieces a member wants for the base of a view, and from whom.
#include "lib/member/state/healing.h"

#include <tuple>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lib/member/state/parts.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Kind, slot, step, chunk, from.
using Row = std::tuple<PieceKind, int32_t, int64_t, int32_t, int32_t>;
std::vector<Row> Rows(const std::vector<Want>& wants) {
  std::vector<Row> rows;
  for (const Want& w : wants)
    rows.emplace_back(w.kind, w.slot, w.step.value(), w.chunk.value(), w.from);
  return rows;
}

// Three members, the last one a server; a parameter and a buffer. Base: state(7).
HealPlan PlanFor(HealBy first) {
  HealPlan plan;
  plan.base = Step(7);
  for (const char* name : {"worker-0", "worker-1", "server-0"}) {
    ViewMember m;
    m.id = NameOf(name);
    plan.members.push_back(m);
  }
  plan.members[2].role = Role::kServer;
  plan.how = {first, HealBy::kHold, first};
  plan.values_from = {1, 1};
  plan.slots_from = {1, 1};
  plan.catch_up_from = {1, 1};
  plan.done = Bits({0, 1});
  plan.done_from = {-1, 1};
  plan.owner_of = {2, 1};
  return plan;
}

const std::vector<TensorKind> kKinds = {TensorKind::kParameter, TensorKind::kBuffer};
constexpr PieceKind kValues = PieceKind::kValues, kSlot = PieceKind::kSlot,
                    kResult = PieceKind::kResult;

TEST(StageOne, ACopyIsOfValuesAndOfTheSlotsOfParameters) {
  EXPECT_THAT(Rows(StageOne(PlanFor(HealBy::kCopy), 0, 2, kKinds, true, Bits({0, 0}))),
              ElementsAre(Row{kValues, 0, 7, 0, 1}, Row{kSlot, 0, 7, 0, 1}, Row{kSlot, 1, 7, 0, 1},
                          Row{kValues, 0, 7, 1, 1}));
}

TEST(StageOne, WhoDoesNotApplyCopiesNoSlots) {
  EXPECT_THAT(Rows(StageOne(PlanFor(HealBy::kCopy), 0, 2, kKinds, false, Bits({0, 0}))),
              ElementsAre(Row{kValues, 0, 7, 0, 1}, Row{kValues, 0, 7, 1, 1}));
}

TEST(StageOne, SlotsThatAreZeroAreNotCopied) {
  HealPlan plan = PlanFor(HealBy::kCopy);
  plan.slots_from[0] = -1;
  EXPECT_THAT(Rows(StageOne(plan, 0, 2, kKinds, true, Bits({0, 0}))),
              ElementsAre(Row{kValues, 0, 7, 0, 1}, Row{kValues, 0, 7, 1, 1}));
}

TEST(StageOne, AServerCopiesItsOwnChunks) {
  EXPECT_THAT(Rows(StageOne(PlanFor(HealBy::kCopy), 2, 1, kKinds, true, Bits({0, 0}))),
              ElementsAre(Row{kValues, 0, 7, 0, 1}, Row{kSlot, 0, 7, 0, 1}));
}

TEST(StageOne, WhoIsAStepBehindFetchesTheResultsThatItLacks) {
  EXPECT_THAT(Rows(StageOne(PlanFor(HealBy::kCatchUp), 0, 2, kKinds, true, Bits({0, 0}))),
              ElementsAre(Row{kResult, 0, 6, 0, 1}, Row{kResult, 0, 6, 1, 1}));
  EXPECT_THAT(Rows(StageOne(PlanFor(HealBy::kCatchUp), 0, 2, kKinds, true, Bits({1, 1}))),
              ElementsAre(Row{kResult, 0, 6, 0, 1}))
      << "the step's record comes with the result of chunk 0";
}

TEST(StageOne, WhoHoldsTheBaseWantsNothing) {
  EXPECT_THAT(StageOne(PlanFor(HealBy::kCopy), 1, 2, kKinds, true, Bits({0, 0})), IsEmpty());
}

TEST(StageTwo, ResultsThatAreDoneAreFetchedByWorkersThatLackThem) {
  const HealPlan plan = PlanFor(HealBy::kCopy);
  EXPECT_THAT(Rows(StageTwo(plan, 0, Bits({0, 0}))), ElementsAre(Row{kResult, 0, 7, 1, 1}));
  EXPECT_THAT(StageTwo(plan, 0, Bits({0, 1})), IsEmpty());
  EXPECT_THAT(StageTwo(plan, 2, Bits({0, 0})), IsEmpty()) << "a server";
  HealPlan with_spare = plan;
  with_spare.how[0] = HealBy::kNothing;
  EXPECT_THAT(StageTwo(with_spare, 0, Bits({0, 0})), IsEmpty());
}

TEST(Wants, AreAskedForInFetchesOfOneKindAndOfBoundedSize) {
  std::vector<Want> wanted;
  for (const int32_t c : {0, 1, 2}) wanted.push_back({kValues, 0, Step(7), ChunkId(c), 1});
  wanted.push_back({kSlot, 0, Step(7), ChunkId(0), 1});
  wanted.push_back({kSlot, 1, Step(7), ChunkId(0), 2});
  const Wants wants(wanted);
  EXPECT_THAT(wants.Donors(), ElementsAre(1, 2));
  const std::vector<Fetch> fetches = wants.Ask(ViewNumber(3), 1, 2);
  ASSERT_EQ(fetches.size(), 3u);
  EXPECT_EQ(fetches[0].chunks, Chunks({0, 1}));
  EXPECT_EQ(fetches[1].chunks, Chunks({2}));
  EXPECT_EQ(fetches[2].kind, kSlot);
  EXPECT_EQ(fetches[2].view, ViewNumber(3));
}

TEST(Wants, AreMissingUntilThatVeryPieceArrives) {
  Wants wants({{kValues, 0, Step(7), ChunkId(0), 1}});
  EXPECT_FALSE(wants.Arrive(kSlot, 0, Step(7), ChunkId(0)));
  EXPECT_FALSE(wants.Arrive(kValues, 0, Step(6), ChunkId(0)));
  EXPECT_FALSE(wants.Arrive(kValues, 0, Step(7), ChunkId(1)));
  EXPECT_FALSE(wants.empty());
  EXPECT_TRUE(wants.Arrive(kValues, 0, Step(7), ChunkId(0)));
  EXPECT_FALSE(wants.Arrive(kValues, 0, Step(7), ChunkId(0))) << "it came twice";
  EXPECT_TRUE(wants.empty());
}

}  // namespace
}  // namespace muster
