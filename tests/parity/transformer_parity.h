// Training of `transformer` in two ways that share the model's construction only by name: our task
// and optimizer on a flat space with one lane, and a plain LibTorch loop with torch::optim::Adam.
#pragma once

#include <vector>

#include "lib/domain/job.h"

namespace muster::parity {

// Mean losses of the first `steps` steps of a job `training` of one lane with Adam. Step s takes
// the samples from s·batch on, around the data set, and seeds dropout with s.
std::vector<double> OurLosses(const TrainingSpec& training, int64_t steps);

// Whose Adam a plain LibTorch loop uses. torch::optim::Adam fuses a product and a sum into one
// rounding where the machine can, and its square roots are a vector library's; written out in
// tensor operations each operation is rounded once and right, as ours.
enum class AdamBy { kOptimizer, kTensorOperations };

// Which samples a step takes and what seeds its dropout: as OurLosses says, or as a job of that
// specification with one lane does.
enum class Feed { kInOrder, kAsTheJob };

// The same from the same initial weights in plain LibTorch, with a rate of its own.
std::vector<double> LibTorchLosses(const TrainingSpec& training, int64_t steps,
                                   double learning_rate, AdamBy by = AdamBy::kOptimizer,
                                   Feed feed = Feed::kInOrder);

// The largest |ours - theirs| / |theirs|.
double LargestRelativeDifference(const std::vector<double>& ours,
                                 const std::vector<double>& theirs);

inline constexpr double kTolerance = 1e-4;

}  // namespace muster::parity
