#include "cli/spec_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "lib/base/status.h"
#include "lib/wire/job_codec.h"

namespace muster::cli {

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  errno = 0;
  std::ifstream in(path);
  std::ostringstream text;
  const bool empty = in && in.peek() == std::ifstream::traits_type::eof() && !in.bad();
  if (empty) return std::string();  // nothing to copy fails `text`
  if (in) text << in.rdbuf();
  if (!in || in.bad() || !text)
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read ", path, ": ", std::strerror(errno != 0 ? errno : EIO)));
  return text.str();
}

absl::StatusOr<JobSpec> ReadSpec(const std::string& path, const std::vector<std::string>& settings,
                                 std::optional<int> workers, std::optional<int> servers) {
  MUSTER_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  MUSTER_ASSIGN_OR_RETURN(JobSpec spec, ParseJobYaml(text, path, settings));
  if (workers) {
    spec.runtime.workers_max = *workers;
    spec.runtime.workers_min = std::min(spec.runtime.workers_min, *workers);
  }
  if (servers) spec.runtime.servers = *servers;
  return Complete(spec);
}

}  // namespace muster::cli
