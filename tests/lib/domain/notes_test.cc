#include "lib/domain/notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace muster {
namespace {

using testing::HasSubstr;

TEST(Notes, SamplesThatAreLeftOutForNothing) {
  JobSpec spec;
  spec.training.data.validation_share = 0.5;
  EXPECT_TRUE(NotesOn(spec).empty()) << "evaluate measures with them";
  spec.training.validation.paths = {"held-out"};
  EXPECT_THAT(NotesOn(spec), testing::ElementsAre(HasSubstr("data.validation_share leaves out")));
}

TEST(Notes, LanesThatAreTooSmallForBatchNorm) {
  const TensorSpec weight{"1.weight", {8}};
  const TensorSpec mean{"1.running_mean", {8}, TensorKind::kBuffer};
  const TensorSpec named_so{"running_mean", {8}};  // a parameter
  const TensorSpec other{"running_mean.old", {8}, TensorKind::kBuffer};
  const struct {
    std::vector<TensorSpec> tensors;
    int32_t batch;
    int32_t lanes;
    const char* samples;  // of a lane, as it is told; null: nothing is told
  } cases[] = {
      {{weight, mean}, 96, 12, nullptr},
      {{weight, mean}, 95, 12, "7 or 8 samples (batch 95, lanes 12)"},
      {{weight, mean}, 84, 12, "7 samples (batch 84, lanes 12)"},
      {{weight, mean}, 12, 12, "1 sample (batch 12, lanes 12)"},
      {{weight, mean}, 11, 12, "at most 1 sample (batch 11, lanes 12)"},
      {{weight, mean}, 8, 1, nullptr},
      {{weight, mean}, 7, 1, "7 samples (batch 7, lanes 1)"},
      {{weight}, 12, 12, nullptr},
      {{weight, named_so, other}, 12, 12, nullptr},
      {{}, 12, 12, nullptr},
  };
  for (const auto& c : cases) {
    TrainingSpec training;
    training.batch = c.batch;
    training.lanes = c.lanes;
    const std::string note = NoteOnBatchNorm(training, c.tensors);
    if (c.samples == nullptr)
      EXPECT_EQ(note, "") << c.batch << " " << c.lanes;
    else
      EXPECT_THAT(note, HasSubstr(std::string("batch norm (1.running_mean), which looks at each "
                                              "lane alone, and a lane has ") +
                                  c.samples));
    training.sync_batch_norm = true;
    EXPECT_EQ(NoteOnBatchNorm(training, c.tensors), "") << "it looks at all lanes";
  }
}

}  // namespace
}  // namespace muster
