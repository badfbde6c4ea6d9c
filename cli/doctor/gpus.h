// The GPUs of this machine: what a host offers to jobs with `devices` (docs/hosts.md section 11).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/doctor/finding.h"

namespace muster::cli::doctor {

struct GpuFacts {
  absl::StatusOr<std::vector<std::string>> offered = std::vector<std::string>();  // ids
  std::optional<std::string> visible;  // CUDA_VISIBLE_DEVICES; nothing: not set
  int files = 0;                       // /dev/nvidia0, /dev/nvidia1, …
  std::vector<std::string> closed;     // of those, and of nvidiactl, which this user may not open
  bool has_control = false;            // /dev/nvidiactl
  int on_bus = 0;                      // of NVIDIA, as the kernel lists them
  std::string driver;                  // its version; empty: none is loaded
};
// `offered`: what --devices auto finds. `root` goes before /dev, /proc and /sys: for tests.
GpuFacts GatherGpus(absl::StatusOr<std::vector<std::string>> offered,
                    std::optional<std::string> visible, const std::string& root = "");
Finding JudgeGpus(const GpuFacts& facts);

}  // namespace muster::cli::doctor
