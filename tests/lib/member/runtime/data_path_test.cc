// Where the bytes of phases come from and go to. Whole steps are worker/runtime's training_test.
#include "lib/member/runtime/data_path.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "lib/kernels/float_env.h"

namespace muster {
namespace {

using Values = std::vector<float>;

constexpr ChunkId kPhase(3);  // the second of the two that the phase has

SetupPtr SyncSetup() {
  JobIs job;
  job.job = "job";
  job.spec.training.steps = 10;
  job.spec.training.lanes = 2;
  job.spec.training.chunk_bytes = 64;
  job.spec.training.sync_batch_norm = true;
  NumericEnvironment environment;
  environment.samples = 1;
  environment.tensors = {{"weight", {20}}, {"sync/norm/forward", {20}, TensorKind::kPhase}};
  return MakeSetup(job, environment).value();
}

std::shared_ptr<const float[]> MemoryOf(const Values& values) {
  std::shared_ptr<float[]> memory(new float[values.size()]);
  std::copy(values.begin(), values.end(), memory.get());
  return memory;
}

Values Counting(float from) {
  Values values(16);
  for (float& v : values) v = from++;
  return values;
}

Values FloatsOf(const Frame& frame) {
  Values values;
  for (const auto& slice : frame.payload.slices) {
    const size_t begin = values.size();
    values.resize(begin + slice.size() / sizeof(float));
    std::memcpy(values.data() + begin, slice.data(), slice.size());
  }
  return values;
}

TEST(DataPath, APhaseLeavesFromMemoryOfItsOwnAndItsTotalIsAResult) {
  SetFloatEnvironment();
  const SetupPtr setup = SyncSetup();
  ASSERT_EQ(setup->layout.chunk_count(), 4);
  CopyCounter copied{0};
  DataPath data(setup, copied);
  const Values first = Counting(1), second = Counting(100);
  data.AddOwnPhases({{{kPhase, {0, 1}}, MemoryOf(first)}});
  data.AddOwnPhases({{{kPhase, {1, 2}}, MemoryOf(second)}});

  const std::vector<Frame> frames =
      data.FramesOf(Partials{LineageNumber(1),
                             ViewNumber(1),
                             Step(2),
                             {{kPhase, {{{0, 1}, 0, 0, 0}, {{1, 2}, 0, 0, 0}}}},
                             {}});
  ASSERT_EQ(frames.size(), 1u);

  FoldIn fold{Step(2), kPhase, true, {{0, 1}, {1, 2}}, {{{0, 1}, {1, 2}, {0, 2}}}, {}};
  fold.total = Partial{{0, 2}, 0, 0, 0};
  const std::optional<Summed> summed = data.Fold(fold, nullptr);
  ASSERT_TRUE(summed);
  EXPECT_TRUE(summed->meta.finite);
  const absl::Span<const float> total =
      data.memory().Results(Step(2))->of(setup->layout.chunk(kPhase));
  for (size_t i = 0; i < total.size(); ++i) EXPECT_EQ(total[i], first[i] + second[i]) << i;

  // Lanes were added: the frame is on its way all the same.
  data.ForgetOwnPhases();
  Values both = first;
  both.insert(both.end(), second.begin(), second.end());
  EXPECT_EQ(FloatsOf(frames[0]), both);
}

}  // namespace
}  // namespace muster
