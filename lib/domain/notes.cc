#include "lib/domain/notes.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/plural.h"
#include "lib/base/printable.h"

namespace muster {

std::vector<std::string> NotesOn(const JobSpec& spec) {
  const TrainingSpec& training = spec.training;
  std::vector<std::string> notes;
  if (const int spares = spec.runtime.workers_max - training.lanes; spares > 0)
    notes.push_back(absl::StrCat(Plural(training.lanes, "lane"), " for ", spec.runtime.workers_max,
                                 " workers: ", spares, spares == 1 ? " has" : " have",
                                 " nothing to compute and only stand", spares == 1 ? "s" : "",
                                 " by; take fewer workers, or more lanes"));
  if (training.batch < training.lanes)
    notes.push_back(absl::StrCat(Plural(training.batch, "sample"), " of a step (batch) for ",
                                 training.lanes, " lanes: ", training.lanes - training.batch,
                                 " of them stay empty; take a larger batch, or fewer lanes"));
  // How long a stream is nobody knows.
  const uint64_t samples = IsStreamed(training) ? kMostSamples : training.data.samples;
  if (training.steps > 0 || training.data.samples > 0)
    if (std::string note = NoteOnWarmup(training, samples); !note.empty())
      notes.push_back(std::move(note));
  if (training.data.validation_share > 0 && !training.validation.paths.empty())
    notes.push_back(
        "data.validation_share leaves out samples that nothing is measured with, as "
        "validation.paths names others; give one of the two");
  const CheckpointPolicy& checkpoint = spec.runtime.checkpoint;
  if (!checkpoint.at_end && checkpoint.every_steps == 0 && checkpoint.every_epochs == 0 &&
      checkpoint.every_seconds == 0)
    notes.push_back(
        "no checkpoint is ever made: checkpoint.every_steps, checkpoint.every_epochs and "
        "checkpoint.every_seconds are 0, and checkpoint.at_end is false");
  // Every few seconds, or at the end, a checkpoint is of such a step by chance alone.
  const bool is_by_chance = checkpoint.every_steps == 0 && checkpoint.every_epochs == 0 &&
                            checkpoint.keep_best.empty() && !training.validation.by_follower();
  const auto note_on_keep = [&](const char* field, int64_t period, const char* other) {
    if (period == 0 || !is_by_chance) return;
    notes.push_back(
        absl::StrCat("checkpoint.keep.", field, " (", period,
                     ") keeps none but by chance, as no checkpoint is made for it: say ", other,
                     ": ", period, ", too"));
  };
  note_on_keep("every", checkpoint.keep_every, "checkpoint.every_steps");
  note_on_keep("every_epochs", checkpoint.keep_epochs, "checkpoint.every_epochs");
  return notes;
}

std::string NoteOnWarmup(const TrainingSpec& training, uint64_t samples) {
  const int64_t steps = TotalSteps(training, samples);
  if (training.schedule.warmup_steps <= steps) return "";
  const std::string length =
      training.steps > 0
          ? absl::StrCat("steps (", steps, ")")
          : absl::StrCat("the ", Plural(steps, "step"), " of ", Plural(training.epochs, "epoch"));
  return absl::StrCat("schedule.warmup_steps (", training.schedule.warmup_steps, ") is more than ",
                      length, ": the learning rate never reaches its full size");
}

std::string NoteOnBatchNorm(const TrainingSpec& training, const std::vector<TensorSpec>& tensors) {
  // Of fewer samples, mean and variance say little of the data.
  constexpr int64_t kEnough = 8;
  const int64_t lanes = training.lanes;
  if (lanes < 1 || training.batch >= kEnough * lanes || training.sync_batch_norm) return "";
  const auto of = std::find_if(tensors.begin(), tensors.end(), [](const TensorSpec& tensor) {
    return tensor.kind == TensorKind::kBuffer && absl::EndsWith(tensor.name, "running_mean");
  });
  if (of == tensors.end()) return "";
  const int64_t few = training.batch / lanes;
  const std::string samples = few == 0 ? "at most 1 sample"
                              : training.batch % lanes > 0
                                  ? absl::StrCat(few, " or ", few + 1, " samples")
                                  : Plural(few, "sample");
  return absl::StrCat("the model has batch norm (", Cut(Printable(of->name)),
                      "), which looks at each lane alone, and a lane has ", samples, " (batch ",
                      training.batch, ", lanes ", lanes,
                      "): take a larger batch, or fewer lanes, so that it has ", kEnough,
                      ", or sync_batch_norm: true, by which it looks at all lanes");
}

}  // namespace muster
