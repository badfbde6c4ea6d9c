#include "worker/commands/saved_model.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/status.h"
#include "lib/checkpoint/load.h"
#include "lib/checkpoint/manifest_file.h"
#include "lib/wire/job_codec.h"

namespace muster::worker {

absl::StatusOr<SavedState> LoadSavedState(const SavedModelPlace& place) {
  const std::unique_ptr<CheckpointFiles> files = CheckpointFilesIn(place.folder);
  MUSTER_ASSIGN_OR_RETURN(ManifestFile file, ReadManifestFile(*files, place.manifest));
  SavedState saved{.manifest = std::move(file.manifest)};
  const Manifest& manifest = saved.manifest;
  absl::StatusOr<Layout> layout = LayoutOf(manifest);
  if (!layout.ok()) return absl::DataLossError(layout.status().message());
  saved.layout = *std::move(layout);
  if (const absl::Status whole = CheckComplete(manifest, saved.layout, manifest.slots); !whole.ok())
    return absl::DataLossError(absl::StrCat(files->PathOf(place.manifest), ": ", whole.message()));
  FlatPool pool(static_cast<size_t>(saved.layout.elements()));
  saved.state = pool.BorrowZeroed();
  std::vector<PartDest> parts;
  for (int32_t c = 0; c < saved.layout.chunk_count(); ++c)
    parts.push_back({kValuesSlot, ChunkId(c), saved.state->of(saved.layout.chunk(ChunkId(c)))});
  MUSTER_RETURN_IF_ERROR(LoadParts(*files, manifest, saved.layout, parts));
  return saved;
}

absl::StatusOr<SavedModel> LoadSavedModel(const SavedModelPlace& place, CopyCounter& copied) {
  MUSTER_ASSIGN_OR_RETURN(SavedState saved, LoadSavedState(place));
  SavedModel model{std::move(saved)};
  absl::StatusOr<JobSpec> spec =
      ParseJobYaml(model.manifest.spec, "the checkpoint's specification", place.settings);
  if (!spec.ok()) return absl::FailedPreconditionError(spec.status().message());
  model.spec = *std::move(spec);
  MUSTER_ASSIGN_OR_RETURN(model.made,
                          MakeAnyTask(model.spec.training, place.plugin_folders, copied));
  if (model.made.task->Tensors() != model.manifest.tensors)
    return absl::FailedPreconditionError(absl::StrCat(
        "task ", model.spec.training.task, " makes a model of other tensors than the checkpoint ",
        "has; it was another version of the task, or other parameters"));
  MUSTER_RETURN_IF_ERROR(model.made.task->Bind(model.layout.space()));
  return model;
}

}  // namespace muster::worker
