// What a member that holds a state gives to those that heal from it.
#include "lib/member/state/donor.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lib/member/state/parts.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

ChunkResult ResultOf(int32_t chunk, int64_t weight) {
  ChunkResult result;
  result.chunk = ChunkId(chunk);
  result.meta.weight = weight;
  return result;
}

// At state(5): step 4 is closed; of step 5 the result of chunk 1 is here.
HeldState AtFive(const ConfigPtr& config) {
  HeldState state{LineageNumber(3), OpenStep(config, Step(4)), std::nullopt};
  for (const int32_t c : {0, 1}) state.open.AddResult(ResultOf(c, 4), {});
  StepRecord record;
  record.step = Step(4);
  state.open.SetRecord(record);
  state.Advance(config);
  state.open.AddResult(ResultOf(1, 5), {});
  return state;
}

struct PiecesCase {
  const char* name;
  Role role;
  Sync sync;
  PieceKind kind;
  int64_t step;
  std::vector<int32_t> chunks;
  bool has;
};

class DonorHasPieces : public testing::TestWithParam<PiecesCase> {};

TEST_P(DonorHasPieces, OfWhatIsAskedFor) {
  const PiecesCase& p = GetParam();
  const ConfigPtr config = Shared(PartConfig(p.role, p.sync, false));
  const Fetch fetch{ViewNumber(2), p.kind, 0, Step(p.step), Chunks(p.chunks)};
  EXPECT_EQ(HasPieces(*config, AtFive(config), {0, 1}, 0, fetch), p.has);
}

constexpr Role kWorker = Role::kWorker, kServer = Role::kServer;
constexpr Sync kAllreduce = Sync::kAllreduce, kByServer = Sync::kServer;
constexpr PieceKind kValues = PieceKind::kValues, kSlot = PieceKind::kSlot,
                    kResult = PieceKind::kResult;

INSTANTIATE_TEST_SUITE_P(
    Donor, DonorHasPieces,
    testing::Values(
        PiecesCase{"values_of_its_state", kWorker, kAllreduce, kValues, 5, {0, 1}, true},
        PiecesCase{"slots_of_its_state", kWorker, kAllreduce, kSlot, 5, {0}, true},
        PiecesCase{"values_of_the_state_before", kWorker, kAllreduce, kValues, 4, {0}, false},
        PiecesCase{"values_of_the_state_to_come", kWorker, kAllreduce, kValues, 6, {0}, false},
        PiecesCase{"no_such_chunk", kWorker, kAllreduce, kValues, 5, {2}, false},
        PiecesCase{"a_result_of_the_closed_step", kWorker, kAllreduce, kResult, 4, {0, 1}, true},
        PiecesCase{"a_result_of_the_open_step", kWorker, kAllreduce, kResult, 5, {1}, true},
        PiecesCase{"a_result_that_is_not_here", kWorker, kAllreduce, kResult, 5, {0, 1}, false},
        PiecesCase{"a_result_of_two_steps_ago", kWorker, kAllreduce, kResult, 3, {0}, false},
        PiecesCase{"a_server_has_its_own_chunk", kServer, kByServer, kValues, 5, {0}, true},
        PiecesCase{"a_server_has_no_other_chunk", kServer, kByServer, kValues, 5, {0, 1}, false},
        PiecesCase{"an_owner_keeps_the_values_before", kServer, kByServer, kValues, 4, {0}, true},
        PiecesCase{"an_owner_keeps_no_slots_before", kServer, kByServer, kSlot, 4, {0}, false}),
    [](const auto& test) { return test.param.name; });

TEST(Donor, GivesTheRecordOfAClosedStepWithItsResults) {
  const ConfigPtr config = Shared(PartConfig(Role::kWorker, Sync::kAllreduce, false));
  const HeldState state = AtFive(config);
  const Pieces closed =
      PiecesFor(state, state.lineage, {ViewNumber(2), kResult, 0, Step(4), Chunks({0, 1})});
  ASSERT_TRUE(closed.record.has_value());
  EXPECT_EQ(closed.record->step, Step(4));
  ASSERT_EQ(closed.chunks.size(), 2u);
  EXPECT_EQ(closed.chunks[1].meta.weight, 4);
  const Pieces open =
      PiecesFor(state, state.lineage, {ViewNumber(2), kResult, 0, Step(5), Chunks({1})});
  EXPECT_FALSE(open.record.has_value()) << "it is not done yet";
  EXPECT_EQ(open.chunks.at(0).meta.weight, 5);
}

TEST(Donor, TellsWhatItHolds) {
  const ConfigPtr config = Shared(PartConfig(Role::kWorker, Sync::kAllreduce, false));
  const LocalState held = LocalStateOf(AtFive(config));
  EXPECT_TRUE(held.has_state);
  EXPECT_EQ(held.lineage, LineageNumber(3));
  EXPECT_EQ(held.step, Step(5));
  EXPECT_EQ(held.results, Bits({0, 1}));
  EXPECT_TRUE(held.previous_results);
  EXPECT_THAT(held.lanes, IsEmpty());
}

}  // namespace
}  // namespace muster
