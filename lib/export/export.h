// A checkpoint as a file that other programs load: tensors by the names that the module has, in the
// order in which it registers them. Memory is bounded by a chunk.
//
// safetensors: https://huggingface.co/docs/safetensors: a length, a JSON header, the tensors'
//   bytes. The optimizer's slots are tensors "optimizer.SLOT.NAME", such as
//   "optimizer.exp_avg.0.weight"; a moving average of the parameters is "ema.NAME". A tensor of
//   several names (tied weights) is written once for each, its slots once.
// pt: what torch.save writes of a dict of tensors: a zip of stored records and a pickle of
//   protocol 2, which torch.load(weights_only=True) takes. Without the optimizer it is the module's
//   state_dict; with it {"model": that, "optimizer": torch.optim's state_dict}, and where there is
//   a moving average "ema": that of each parameter. A group of it are the parameters of one rule.
//   A tensor of several names is one record, as torch.save writes it, and one parameter of the
//   optimizer.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/checkpoint/files.h"
#include "lib/domain/job.h"
#include "lib/domain/manifest.h"

namespace muster {

enum class ExportFormat { kSafetensors, kPt };
std::optional<ExportFormat> ExportFormatOf(absl::string_view name);  // "safetensors", "pt"

struct ExportOptions {
  ExportFormat format = ExportFormat::kSafetensors;
  bool optimizer = false;  // its slots, too, and the moving average
  // The moving average of the parameters stands in their place; buffers are as they are.
  bool average = false;
  // Told after each run of bytes: how many of the tensors' bytes are written, of how many.
  std::function<void(uint64_t bytes, uint64_t of)> progress = [](uint64_t, uint64_t) {};
};

struct Exported {
  size_t tensors = 0;  // that were written, slots of the optimizer included
  uint64_t bytes = 0;  // of the tensors
};

// Appends the file to `to`, front to back. `training` is the manifest's. kDataLoss: a part of the
// checkpoint is damaged; kFailedPrecondition: the file would have two entries of one name, as where
// a model has a module `ema`; errors of `to` pass through, and those of AverageSlotOf.
absl::StatusOr<Exported> Export(const CheckpointFiles& files, const Manifest& manifest,
                                const TrainingSpec& training, const ExportOptions& options,
                                Appender& to);

}  // namespace muster
