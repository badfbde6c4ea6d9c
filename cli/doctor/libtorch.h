// What LibTorch computes on, as the worker tells it (worker/torch/report.h): `muster` itself has
// none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "cli/doctor/finding.h"
#include "cli/doctor/programs.h"
#include "lib/base/time.h"

namespace muster::cli::doctor {

struct CudaHalf {
  std::string missing;      // why it cannot be loaded; empty: it is loaded
  std::string version;      // of CUDA, where it is loaded, as are the next
  bool has_driver = false;  // the driver's own library is found
  int64_t devices = 0;      // that it counts
  std::string complaint;    // what it says of them; empty: nothing
};
struct LibTorchFacts {
  std::string version;     // empty: the worker was built without LibTorch
  std::string capability;  // the instructions it uses, "AVX2"
  CudaHalf cuda;
};
// Of the lines that the worker prints. kInvalidArgument: they are none of a report.
absl::StatusOr<LibTorchFacts> ReadLibTorchReport(const std::string& output);

// Runs the worker at `path`. As RunProgram, and kInternal where it failed: what is wrong with the
// program is said by the check of its own.
absl::StatusOr<LibTorchFacts> GatherLibTorch(const std::string& path, Duration patience);
// `gpus`: how many files of GPUs are here. `is_hidden`: CUDA_VISIBLE_DEVICES says that none is
// to be used.
Finding JudgeLibTorch(const absl::StatusOr<LibTorchFacts>& facts, int gpus, bool is_hidden);

}  // namespace muster::cli::doctor
