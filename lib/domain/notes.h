// What is allowed in a job and yet hardly meant. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/domain/job.h"
#include "muster/tensor.h"

namespace muster {

// A sentence each: workers without a lane, lanes without a sample, a warm-up that never ends, no
// checkpoint ever, or none of those that are to be kept. A warm-up in a job of so many epochs is
// judged only where its specification says how many samples there are.
std::vector<std::string> NotesOn(const JobSpec& spec);

// Empty, or that a warm-up is longer than a job of so many samples.
std::string NoteOnWarmup(const TrainingSpec& training, uint64_t samples);

// Empty, or that lanes are too small for the batch norm that these tensors of a model show.
std::string NoteOnBatchNorm(const TrainingSpec& training, const std::vector<TensorSpec>& tensors);

}  // namespace muster
