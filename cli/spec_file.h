// A job's file as the commands read it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/domain/job.h"

namespace muster::cli {

inline constexpr size_t kMostTextBytes = size_t{1} << 20;

// kInvalidArgument: cannot be read, or has more than kMostTextBytes; the message names the file.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

// YAML or JSON (which is YAML too), with settings applied and the numbers of processes replaced
// where given, and with relative paths of files taken from the current directory; complete and
// valid.
absl::StatusOr<JobSpec> ReadSpec(const std::string& path, const std::vector<std::string>& settings,
                                 std::optional<int> workers = {}, std::optional<int> servers = {});

// Relative data.paths, data.stream.path, validation.paths and initial.file from the current
// directory, since a job runs in others.
void MakePathsWhole(JobSpec& spec);

}  // namespace muster::cli
