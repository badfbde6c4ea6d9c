#include "lib/member/runtime/load_state.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lib/checkpoint/support.h"

namespace muster {
namespace {

using testing::HasSubstr;

std::vector<TensorSpec> WithSumsAndPhases() {
  std::vector<TensorSpec> tensors = UglyTensors();
  tensors.push_back({"validation/loss", {16}, TensorKind::kSum});
  tensors.push_back({"validation/learned", {16}, TensorKind::kSum});
  tensors.push_back({"sync/norm/forward", {40}, TensorKind::kPhase});
  return tensors;
}

// What is in memory that was used before.
void Soil(const Setup& setup) {
  for (int i = 0; i < 1 + setup.slots; ++i) {
    const FlatPtr used = setup.pool->BorrowZeroed();
    const absl::Span<float> all = used->all();
    std::fill(all.begin(), all.end(), 7.0f);
  }
}

class LoadStateTest : public DirTest {
 protected:
  SetupPtr SetupOf(const std::vector<TensorSpec>& tensors, int64_t chunk_bytes = kUglyChunkBytes) {
    JobIs job;
    job.job = kJob;
    job.checkpoint_dir = dir_;
    job.spec.training.optimizer.kind = OptimizerKind::kAdam;
    job.spec.training.steps = 10;
    job.spec.training.chunk_bytes = chunk_bytes;
    NumericEnvironment environment;
    environment.samples = 1;
    environment.tensors = tensors;
    return MakeSetup(job, environment).value();
  }
  static Make Loading(const Manifest& manifest, const Layout& layout) {
    Make make{.step = manifest.step, .manifest = manifest, .slots = true};
    for (ChunkId c{0}; c.value() < layout.chunk_count(); ++c) make.chunks.push_back(c);
    return make;
  }
};

// Who made that checkpoint did not know what the fork measures.
TEST_F(LoadStateTest, TheSumsAndPhasesOfAForksBeginningAreZeros) {
  const Layout there = UglyLayout();
  const State saved = MakeState(there, 3);
  const Manifest manifest = *Save(*files_, there, saved, 1, 0);
  const SetupPtr setup = SetupOf(WithSumsAndPhases());
  Soil(*setup);
  const auto loaded = LoadState(*setup, Loading(manifest, setup->layout));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const absl::Span<const float> values = loaded->values->all();
  for (const Chunk& chunk : setup->layout.chunks())
    for (int64_t i = chunk.offset; i < chunk.offset + chunk.count; ++i) {
      const auto at = static_cast<size_t>(i);
      const float expected = IsOfModel(chunk.kind) ? saved.slots[0][at] : 0.0f;
      ASSERT_EQ(values[at], expected) << at;
      if (chunk.kind != TensorKind::kParameter) continue;
      for (size_t s = 0; s < loaded->slots.size(); ++s)
        ASSERT_EQ(loaded->slots[s]->all()[at], saved.slots[s + 1][at]) << at;
    }
}

TEST_F(LoadStateTest, OfAnyOtherStepAllMustBeThere) {
  const Layout there = UglyLayout();
  const Manifest later = *Save(*files_, there, MakeState(there, 3), 1, 4);
  const SetupPtr with_sums = SetupOf(WithSumsAndPhases());
  EXPECT_TRUE(absl::IsFailedPrecondition(
      LoadState(*with_sums, Loading(later, with_sums->layout)).status()));
  const SetupPtr plain = SetupOf(UglyTensors());
  EXPECT_TRUE(LoadState(*plain, Loading(later, plain->layout)).ok());
}

TEST_F(LoadStateTest, AnotherModelOrGridIsNone) {
  const Layout there = UglyLayout();
  const Manifest manifest = *Save(*files_, there, MakeState(there, 3), 1, 0);
  std::vector<TensorSpec> other = WithSumsAndPhases();
  other[0].name = "other";
  for (const SetupPtr& setup : {SetupOf(other), SetupOf(WithSumsAndPhases(), 64)}) {
    const absl::Status refused = LoadState(*setup, Loading(manifest, setup->layout)).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("of another model"));
  }
}

}  // namespace
}  // namespace muster
