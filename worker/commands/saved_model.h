// The model of a checkpoint, made again from what lies in the checkpoint's folder, without a
// cluster. Used on one thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/checkpoint/files.h"
#include "lib/domain/manifest.h"
#include "lib/member/runtime/flat_pool.h"
#include "worker/plugins/make_any_task.h"

namespace muster::worker {

struct SavedModelPlace {
  std::string folder;                 // of the job's checkpoints; of `files`: what messages call it
  std::string manifest;               // relative to it: "lineage-1-step-50/checkpoint.manifest"
  std::vector<std::string> settings;  // of its specification that are to be others: "batch=64"
  std::vector<std::string> data;      // files and folders in place of the job's; empty: those
  std::vector<std::string> plugin_folders;
  std::shared_ptr<const CheckpointFiles> files{};  // of the checkpoint; null: those in `folder`
  bool average = false;  // the moving average of the parameters is read in their place
};

// What a checkpoint holds, without its task.
struct SavedState {
  Manifest manifest;
  Layout layout;
  FlatPtr state;  // parameters or their moving average, buffers, and sums behind them

  absl::Span<float> model() const {
    return state->all().first(static_cast<size_t>(layout.model_elements()));
  }
};
// kDataLoss: the checkpoint is damaged; others as ReadManifestFile and AverageSlotOf. Who waits at
// a terminal is told how far it is.
absl::StatusOr<SavedState> LoadSavedState(const SavedModelPlace& place);

struct SavedModel : SavedState {
  JobSpec spec;   // with the settings
  MadeTask made;  // bound to the layout
};

// What its task is made for. To measure, it has the samples of `place.data`, all of them; without
// any those that the job measures with, or else those it was trained with, unless that was a
// stream. To generate from a prompt it does without data, where it can and `place.data` is empty;
// without a prompt it may go on from a place in the data that it was trained with.
enum class SavedModelUse { kMeasure, kGenerate, kGenerateFromPrompt };

// kFailedPrecondition: a setting is wrong, nobody brings the task, or it has other tensors than the
// checkpoint; others as LoadSavedState and MakeAnyTask.
absl::StatusOr<SavedModel> LoadSavedModel(const SavedModelPlace& place, SavedModelUse use,
                                          Preparing preparing = {});

}  // namespace muster::worker
