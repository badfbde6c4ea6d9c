// `muster data convert`: the samples of a job's files in a format that is read without decoding and
// in place. What is written is what the files hold, before anything is computed with it: the same
// elements of the same types, and of images the same files.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/domain/job.h"
#include "muster/data_set.h"

namespace muster::worker {

enum class ConvertFormat { kNumpy, kSafetensors, kWebDataset };
const char* NameOf(ConvertFormat format);  // as data.format calls it
std::optional<ConvertFormat> ConvertFormatOf(absl::string_view name);

struct ConvertOptions {
  // A file. With kNumpy one that does not end in .npy is a folder of them, one for each key; with
  // kWebDataset one that does not end in .tar is a folder of shards.
  std::string target;
  // Nothing: what the target's name ends in says it.
  std::optional<ConvertFormat> format;
  uint64_t shard_bytes = uint64_t{256} << 20;  // a shard with more than one sample has no more
  // How far it is: bytes of samples, of how many.
  std::function<void(uint64_t bytes, uint64_t all)> told = [](uint64_t, uint64_t) {};
};

struct ConvertedData {
  ConvertFormat format = ConvertFormat::kNumpy;
  std::string target;
  uint64_t files = 0;
  uint64_t bytes = 0;  // of them
  uint64_t samples = 0;
  uint64_t bad = 0;               // that are left out: data.on_bad_sample is skip
  std::vector<DataField> fields;  // as they are written
  bool has_label = false;         // the last of them
  bool is_picture = false;        // the first was bytes that a task gets as 0 to 1
  std::string left_out;           // files that could not be read; empty: none
};

// The target is there whole or not at all: it gets its name when all of it is on the disk. A file
// takes the place of one that is there; a folder of that name is an error.
// kFailedPrecondition: the format cannot hold such samples, or the target cannot be one; the
// message names the option. kResourceExhausted: the disk is full. Others as OpenDataSet.
absl::StatusOr<ConvertedData> ConvertData(const TrainingSpec& training,
                                          const ConvertOptions& options);

}  // namespace muster::worker
