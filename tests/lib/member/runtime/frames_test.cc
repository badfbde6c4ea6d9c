#include "lib/member/runtime/frames.h"

#include <gtest/gtest.h>

#include <numeric>

#include "lib/kernels/crc.h"
#include "lib/kernels/float_env.h"
#include "lib/member/runtime/data_path.h"
#include "lib/wire/message_codec.h"

namespace muster {
namespace {

Layout SmallLayout() {
  return Layout::Make({{"w", {40}, TensorKind::kParameter}, {"b", {3}, TensorKind::kBuffer}}, 64)
      .value();  // parameter chunks of 16, 16, 16 elements, a buffer chunk of 16
}

Results ResultsOf(std::vector<int32_t> chunks) {
  Results results{
      LineageNumber(1), ViewNumber(1), Step(2), {}, {JobCommand{1, JobCommandKind::kStop}}};
  for (int32_t c : chunks) results.chunks.push_back({ChunkId(c), {}});
  return results;
}

Payload PayloadOf(const std::vector<float>& values) {
  auto kept = std::make_shared<std::vector<float>>(values);
  Payload payload;
  payload.slices = {absl::MakeConstSpan(reinterpret_cast<const std::byte*>(kept->data()),
                                        kept->size() * sizeof(float))};
  payload.keep = kept;
  return payload;
}

TEST(Frames, PartsStandOneAfterTheOther) {
  const auto parts = PartsOf(ResultsOf({0, 2, 3}), SmallLayout());
  ASSERT_TRUE(parts.ok()) << parts.status();
  ASSERT_EQ(parts->size(), 3u);
  EXPECT_EQ((*parts)[1].chunk, ChunkId(2));
  EXPECT_EQ((*parts)[1].byte_offset, 64u);
  EXPECT_EQ((*parts)[2].byte_offset, 128u);
  Partials partials;
  partials.chunks = {{ChunkId(1), {{{0, 2}}, {{2, 3}}}}};
  const auto two = PartsOf(partials, SmallLayout());
  ASSERT_EQ(two->size(), 2u);
  EXPECT_EQ(*(*two)[1].node, (TreeNode{2, 3}));
  EXPECT_TRUE(PartsOf(Inventory{}, SmallLayout())->empty());
}

TEST(Frames, ChunksThatAreNotThereAreRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(PartsOf(ResultsOf({4}), SmallLayout()).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(PartsOf(ResultsOf({-1}), SmallLayout()).status()));
  Pieces slots;
  slots.kind = PieceKind::kSlot;
  slots.chunks = {{ChunkId(3), {}}};
  EXPECT_TRUE(absl::IsInvalidArgument(PartsOf(slots, SmallLayout()).status()))
      << "a buffer chunk has no slots";
}

TEST(Frames, EverySizeButTheRightOneAndEveryFlippedBitAreFound) {
  std::vector<float> values(32);
  std::iota(values.begin(), values.end(), 1.0f);
  std::vector<Part> parts = PartsOf(ResultsOf({0, 1}), SmallLayout()).value();
  const Payload good = PayloadOf(values);
  for (Part& part : parts)
    part.crc = Crc32cOfSlices(absl::MakeConstSpan(good.slices), part.byte_offset, part.bytes);
  EXPECT_TRUE(CheckPayload(parts, good).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(CheckPayload(parts, {})));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckPayload(parts, PayloadOf(std::vector<float>(33)))));
  for (size_t i = 0; i < values.size(); ++i) {
    std::vector<float> wrong = values;
    wrong[i] = -wrong[i];
    EXPECT_TRUE(absl::IsDataLoss(CheckPayload(parts, PayloadOf(wrong)))) << "element " << i;
  }
}

TEST(Frames, SplittingKeepsChunksInOrderAndSaysCommandsOnce) {
  const std::vector<PeerMessage> frames = Split(ResultsOf({0, 1, 2, 3}), SmallLayout(), 130);
  ASSERT_EQ(frames.size(), 2u);
  const auto& first = std::get<Results>(frames[0]);
  const auto& second = std::get<Results>(frames[1]);
  EXPECT_EQ(first.chunks.size(), 2u);
  EXPECT_EQ(second.chunks[0].chunk, ChunkId(2));
  EXPECT_EQ(second.step, Step(2));
  EXPECT_EQ(first.commands.size(), 1u);
  EXPECT_TRUE(second.commands.empty());
  EXPECT_EQ(Split(ResultsOf({0, 1, 2, 3}), SmallLayout(), 1).size(), 4u) << "a chunk is never cut";
  EXPECT_EQ(Split(ResultsOf({}), SmallLayout(), 1).size(), 1u) << "a message without chunks stays";
  EXPECT_EQ(Split(Inventory{}, SmallLayout(), 1).size(), 1u);
}

class DataPathTest : public testing::Test {
 protected:
  DataPathTest() { SetFloatEnvironment(); }  // as a thread that adds must

  SetupPtr Setup_() {
    JobIs job;
    job.spec.training.chunk_bytes = 64;
    job.spec.training.lanes = 2;
    job.spec.training.steps = 5;
    NumericEnvironment environment;
    environment.samples = 10;
    environment.tensors = {{"w", {40}, TensorKind::kParameter}, {"b", {3}, TensorKind::kBuffer}};
    return MakeSetup(job, environment).value();
  }
  FlatPtr Filled(float value) {
    FlatPtr buffer = setup_->pool->Borrow();
    std::fill(buffer->all().begin(), buffer->all().end(), value);
    return buffer;
  }

  const SetupPtr setup_ = Setup_();
  CopyCounter copied_{0};
  DataPath data_{setup_, copied_};
};

// What one member sends is what the other adds and lands: without a copy on the way out, with one
// pass of arithmetic, or one counted copy, on the way in.
TEST_F(DataPathTest, SentBytesAreNotCopiedAndReceivedBytesOnce) {
  data_.SetOwnSums({{{0, 1}, Filled(1)}, {{1, 2}, Filled(2)}});
  Partials partials;
  partials.chunks = {{ChunkId(0), {{{0, 1}}, {{1, 2}}}}, {ChunkId(3), {{{0, 1}}}}};
  const std::vector<Frame> frames = data_.FramesOf(partials);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].payload.size(), 3 * 64u);
  EXPECT_EQ(copied_, 0u);
  const PeerMessage received = DecodePeerMessage(frames[0].header).value();
  const std::vector<Part> parts = PartsOf(received, setup_->layout).value();
  EXPECT_TRUE(CheckPayload(parts, frames[0].payload).ok());

  Incoming incoming{{}, received, std::make_shared<Payload>(frames[0].payload), parts};
  const FoldIn fold{Step(0),
                    ChunkId(0),
                    false,
                    {{0, 1}, {1, 2}},
                    {{{0, 1}, {1, 2}, {0, 2}}},
                    Partial{{0, 2}, 3, 0.5, 0}};
  const std::optional<Summed> summed = data_.Fold(fold, &incoming);
  ASSERT_TRUE(summed);
  EXPECT_EQ(copied_, 0u);
  EXPECT_EQ(data_.memory().Results(Step(0))->all()[15], 1.0f) << "(1 + 2) / 3";

  Results results{LineageNumber(1), ViewNumber(1), Step(0), {{ChunkId(0), summed->meta}}, {}};
  const std::vector<Frame> back = data_.FramesOf(results);
  CopyCounter stored{0};
  DataPath other(setup_, stored);
  const PeerMessage message = DecodePeerMessage(back[0].header).value();
  Incoming arrived{{},
                   message,
                   std::make_shared<Payload>(back[0].payload),
                   PartsOf(message, setup_->layout).value()};
  EXPECT_TRUE(CheckPayload(arrived.parts, *arrived.payload).ok())
      << "the checksum taken when the sum was made goes along";
  other.StoreResultsOf({Step(0), {ChunkId(0)}}, arrived);
  EXPECT_EQ(other.memory().Results(Step(0))->all()[0], 1.0f);
  EXPECT_EQ(stored, 64u);
  EXPECT_EQ(copied_, 0u);
}

TEST_F(DataPathTest, AFrameOnItsWayKeepsItsMemoryFromBeingUsedAgain) {
  MemberMemory& memory = data_.memory();
  memory.ReceiveBuffer(Step(0))->all()[0] = 5;
  Results results{LineageNumber(1), ViewNumber(1), Step(0), {{ChunkId(0), {}}}, {}};
  std::vector<Frame> frames = data_.FramesOf(results);
  memory.ReceiveBuffer(Step(2))->all()[0] = 6;  // the same parity: the buffer would be taken again
  EXPECT_EQ(*reinterpret_cast<const float*>(frames[0].payload.slices[0].data()), 5.0f);
  const float* lent = reinterpret_cast<const float*>(frames[0].payload.slices[0].data());
  frames.clear();
  EXPECT_EQ(memory.ReceiveBuffer(Step(4))->all().data() == lent ||
                setup_->pool->Borrow()->all().data() == lent,
            true)
      << "released memory comes back";
}

// Only the apply that follows must write elsewhere: a copy of the state at every step would cost
// much.
TEST_F(DataPathTest, AStateIsLentByAFrameOfItAndOnce) {
  data_.memory().Restart(Step(0), {Filled(3), {}});
  Pieces pieces;
  pieces.chunks = {{ChunkId(0), {}}};
  EXPECT_FALSE(data_.memory().ClearLent());
  const std::vector<Frame> frames = data_.FramesOf(pieces);
  EXPECT_TRUE(data_.memory().ClearLent());
  EXPECT_FALSE(data_.memory().ClearLent());
}

TEST(FlatPool, BuffersComeBackWhenTheLastHolderLetsGo) {
  FlatPool pool(17);
  FlatPtr first = pool.BorrowZeroed();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first->all().data()) % 64, 0u);
  const float* address = first->all().data();
  const FlatPtr holder = first;
  first.reset();
  EXPECT_NE(pool.Borrow()->all().data(), address) << "somebody still reads it";
  EXPECT_EQ(pool.made(), 2);
}

TEST(FlatPool, BuffersOutliveThePool) {
  FlatPtr buffer;
  {
    FlatPool pool(4);
    buffer = pool.BorrowZeroed();
  }
  buffer->all()[3] = 1;
  EXPECT_EQ(buffer->all()[3], 1.0f);
}

}  // namespace
}  // namespace muster
