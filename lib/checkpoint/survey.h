// What lies in a job's folder of checkpoints, whoever made it and whether or not its cluster is
// there: what of it is whole, how sound it is, and how one of it goes. Trusts nothing that it
// reads.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/base/ids.h"
#include "lib/checkpoint/files.h"
#include "lib/checkpoint/manifest_file.h"
#include "lib/domain/best_state.h"

namespace muster {

// Whether we make files of that name in the folder of a checkpoint, half-written ones included.
bool IsCheckpointFile(absl::string_view name);

struct SurveyedCheckpoint {
  LineageNumber lineage;
  Step step;
  std::optional<ManifestFile> file;       // nothing: there is none, or it cannot be read
  std::string why_not;                    // for people, why it is not complete; empty: it is
  uint64_t bytes = 0;                     // of its files, as they lie there
  std::string name;                       // that it is kept by; empty: none
  std::optional<StateMeasure> measure{};  // nothing: none stands beside it
  // Why the file of that name, or of that measure, cannot be read; OK, too: there is none.
  absl::Status name_read{};
  absl::Status measure_read{};
  bool is_complete() const { return why_not.empty(); }
};

// All of them, ascending by lineage and step. One is complete whose manifest can be read and is
// complete, and whose segments are there in full length; their content is not read. A folder
// without manifest is what is under way, was aborted, or is half deleted. kNotFound: there is no
// such folder; others as CheckpointFiles::List.
absl::StatusOr<std::vector<SurveyedCheckpoint>> SurveyCheckpoints(const CheckpointFiles& files);
// Those of these places, in this order, also of files that cannot be listed.
std::vector<SurveyedCheckpoint> SurveyCheckpoints(const CheckpointFiles& files,
                                                  const std::vector<CheckpointPlace>& places);

// Reads every chunk of it and compares the checksums. Calls `progress` with the bytes read so far,
// of the manifest's total. kDataLoss names the file, slot and chunk.
absl::Status VerifyCheckpoint(const CheckpointFiles& files, const Manifest& manifest,
                              const std::function<void(uint64_t bytes)>& progress);

// Its manifest goes first: from then on it is none any more, whatever is left of it. Not there: OK;
// so it can be called again. Files that are none of a checkpoint stay.
absl::Status DeleteCheckpoint(CheckpointFiles& files, LineageNumber lineage, Step step);

}  // namespace muster
