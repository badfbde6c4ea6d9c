// What a job's files are, without its task: `muster data`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/data/prepare_once.h"
#include "lib/domain/job.h"
#include "muster/data_set.h"

namespace muster::worker {

struct InspectedField {
  DataField stored;  // as the files have it
  DataField given;   // as a task gets it
  // Some of the first sample's values, as a task gets them; of a stream those of a made one.
  std::vector<double> first;
  bool has_more = false;  // values
};

struct InspectedData {
  uint64_t files = 0;
  uint64_t bytes = 0;       // of them; of text, to data.max_bytes
  uint64_t samples = 0;     // 0: text that is cut into samples by a task
  uint64_t validation = 0;  // of these, left out of training
  // Of a stream, which has no files, and nobody knows how many samples; 0: it is none.
  uint64_t sample_bytes = 0;
  std::vector<InspectedField> fields;
  std::string left_out;  // what could not be read; empty: nothing
};

// Opens the files and reads the first sample; of a stream it makes one. Errors as OpenDataSet.
absl::StatusOr<InspectedData> InspectData(const TrainingSpec& training);

struct SizeOfFiles {
  uint64_t files = 0;
  uint64_t bytes = 0;
};
// Of the files that a job reads; of text, to data.max_bytes. Nothing is read of them. Errors as
// WalkFiles (lib/data/file_walk.h).
absl::StatusOr<SizeOfFiles> FindSize(const DataSpec& data);

struct HashedData {
  std::string hash;
  uint64_t samples = 0;   // 0: text that is cut into samples by a task
  uint64_t bytes = 0;     // that the hash is of
  bool was_kept = false;  // nothing was read
  std::string left_out;
};

// The hash that members compare, of what OpenDataSet opens (of a stream that of its fields); it is
// kept in `folder` (empty: nowhere), and with data.verify: quick one that is kept is taken. `told`
// and `so_far` as those of Hashing.
absl::StatusOr<HashedData> HashData(
    const TrainingSpec& training, const std::string& folder,
    const std::function<void(uint64_t, uint64_t)>& told,
    const std::function<void(const PreparedSoFar&)>& so_far = [](const PreparedSoFar&) {});

}  // namespace muster::worker
