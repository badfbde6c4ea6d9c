#include "cli/spec_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "lib/base/status.h"
#include "lib/config/field_error.h"
#include "lib/task/model_size.h"
#include "lib/wire/job_codec.h"

namespace muster::cli {

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::string text(kMostTextBytes + 1, '\0');
  if (in) in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!in.eof() && !in)
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read ", path, ": ", std::strerror(errno != 0 ? errno : EIO)));
  if (in)
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has more than the ", kMostTextBytes >> 20, " MiB that are allowed"));
  text.resize(static_cast<size_t>(in.gcount()));
  return text;
}

namespace {

// A job runs in other directories than the one of whoever submits it.
std::string WholePath(const std::string& path) {
  std::error_code error;
  const auto whole = std::filesystem::absolute(path, error);
  if (error || path.front() == '/') return path;
  const std::string text = whole.lexically_normal().string();
  return text.size() > 1 && text.back() == '/' ? text.substr(0, text.size() - 1) : text;
}

}  // namespace

absl::StatusOr<JobSpec> ReadSpec(const std::string& path, const std::vector<std::string>& settings,
                                 std::optional<int> workers, std::optional<int> servers) {
  MUSTER_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  MUSTER_ASSIGN_OR_RETURN(JobSpec spec, ParseJobYaml(text, path, settings));
  if (workers) {
    spec.runtime.workers_max = *workers;
    spec.runtime.workers_min = std::min(spec.runtime.workers_min, *workers);
  }
  for (std::string& data : spec.training.data.paths) data = WholePath(data);
  if (servers) spec.runtime.servers = *servers;
  if (const auto too_large = TooLargeForAJob(spec.training))
    return FieldError(path, too_large->field, too_large->reason);
  return Complete(spec);
}

}  // namespace muster::cli
