#include "worker/commands/saved_model.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/amount_text.h"
#include "lib/base/status.h"
#include "lib/checkpoint/load.h"
#include "lib/checkpoint/manifest_file.h"
#include "lib/domain/moving_average.h"
#include "lib/launch/progress_line.h"
#include "lib/wire/job_codec.h"

namespace muster::worker {
namespace {

DataPart PartFor(SavedModelUse use, const TrainingSpec& training, bool names_data) {
  if (use == SavedModelUse::kGenerateFromPrompt && !names_data) return DataPart::kNone;
  const bool has_validation =
      training.data.validation_share > 0 || !training.validation.paths.empty();
  return use == SavedModelUse::kMeasure && has_validation ? DataPart::kValidation
                                                          : DataPart::kTraining;
}

// What job it was is said by the checkpoint, and not by the settings.
absl::StatusOr<int32_t> SlotOfParameters(const SavedModelPlace& place, const Manifest& manifest) {
  if (!place.average) return kValuesSlot;
  MUSTER_ASSIGN_OR_RETURN(const JobSpec spec,
                          ParseStoredJob(manifest.spec, "the checkpoint's specification"));
  return AverageSlotOf(spec.training, manifest);
}

}  // namespace

absl::StatusOr<SavedState> LoadSavedState(const SavedModelPlace& place) {
  const std::shared_ptr<const CheckpointFiles> files =
      place.files ? place.files : CheckpointFilesIn(place.folder);
  MUSTER_ASSIGN_OR_RETURN(ManifestFile file, ReadManifestFile(*files, place.manifest));
  SavedState saved{.manifest = std::move(file.manifest)};
  const Manifest& manifest = saved.manifest;
  absl::StatusOr<Layout> layout = LayoutOf(manifest);
  if (!layout.ok()) return absl::DataLossError(layout.status().message());
  saved.layout = *std::move(layout);
  if (const absl::Status whole = CheckComplete(manifest, saved.layout, manifest.slots); !whole.ok())
    return absl::DataLossError(absl::StrCat(files->PathOf(place.manifest), ": ", whole.message()));
  MUSTER_ASSIGN_OR_RETURN(const int32_t parameters, SlotOfParameters(place, manifest));
  FlatPool pool(static_cast<size_t>(saved.layout.elements()));
  saved.state = pool.BorrowZeroed();
  std::vector<PartDest> parts;
  for (ChunkId c{0}; c.value() < saved.layout.chunk_count(); ++c) {
    const Chunk& chunk = saved.layout.chunk(c);
    const int32_t slot = chunk.kind == TensorKind::kParameter ? parameters : kValuesSlot;
    parts.push_back({slot, c, saved.state->of(chunk)});
  }
  // They are of one size, nearly.
  const auto bytes = static_cast<double>(saved.layout.elements()) * sizeof(float);
  ProgressLine progress(bytes, Bytes);
  size_t done = 0;
  MUSTER_RETURN_IF_ERROR(LoadParts(*files, manifest, saved.layout, parts, [&] {
    progress.At(bytes * static_cast<double>(++done) / static_cast<double>(parts.size()));
  }));
  return saved;
}

absl::StatusOr<SavedModel> LoadSavedModel(const SavedModelPlace& place, SavedModelUse use,
                                          Preparing preparing) {
  preparing.is_for_checkpoint = true;
  MUSTER_ASSIGN_OR_RETURN(SavedState saved, LoadSavedState(place));
  SavedModel model{std::move(saved)};
  absl::StatusOr<JobSpec> spec =
      ParseStoredJob(model.manifest.spec, "the checkpoint's specification", place.settings);
  if (!spec.ok()) return absl::FailedPreconditionError(spec.status().message());
  model.spec = *std::move(spec);
  TrainingSpec& training = model.spec.training;
  // What a task makes of its training data alone, such as a tokenizer, stays as it was.
  if (!place.data.empty())
    (use == SavedModelUse::kMeasure ? training.validation.paths : training.data.paths) = place.data;
  const DataPart part = PartFor(use, training, !place.data.empty());
  if (use == SavedModelUse::kMeasure && part == DataPart::kTraining && IsStreamed(training))
    return absl::FailedPreconditionError(
        "the data that the job was trained with was a stream, which is not kept; say with --data "
        "which files to measure with, whose samples lie side by side");
  MUSTER_ASSIGN_OR_RETURN(model.made, MakeAnyTask(training, part, place.plugin_folders, preparing));
  std::vector<TensorSpec> tensors = model.manifest.tensors;
  std::erase_if(tensors, [](const TensorSpec& t) { return !IsOfModel(t.kind); });
  if (model.made.task->Tensors() != tensors)
    return absl::FailedPreconditionError(
        absl::StrCat("task ", training.task, " makes a model of other tensors than the checkpoint ",
                     "has; it was another version of the task, or other parameters"));
  MUSTER_RETURN_IF_ERROR(model.made.task->Bind(model.layout.ModelSpace()));
  return model;
}

}  // namespace muster::worker
