#include "cli/spec_file.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "lib/base/descriptor.h"
#include "lib/base/status.h"
#include "lib/config/field_error.h"
#include "lib/task/model_size.h"
#include "lib/wire/job_codec.h"

namespace muster::cli {

namespace {

constexpr int kMostSilenceMs = 10'000;

}  // namespace

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  const auto cannot = [&](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat("cannot read ", path, ": ", why));
  };
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.is_open() && errno == EACCES)
    return cannot("Permission denied; make it readable, or name another file");
  if (!file.is_open()) return cannot(std::strerror(errno));
  std::string text(kMostTextBytes + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    // A pipe that nobody writes to would hold us for ever.
    pollfd wait{.fd = file.get(), .events = POLLIN, .revents = 0};
    const int ready = poll(&wait, 1, kMostSilenceMs);
    if (ready == 0) return cannot(absl::StrCat("nothing came for ", kMostSilenceMs / 1000, " s"));
    const ssize_t count = ready < 0 ? -1 : read(file.get(), text.data() + size, text.size() - size);
    if (count == 0) break;
    if (count > 0)
      size += static_cast<size_t>(count);
    else if (errno != EINTR && errno != EAGAIN)
      return cannot(std::strerror(errno));
  }
  if (size == text.size())
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has more than the ", kMostTextBytes >> 20, " MiB that are allowed"));
  text.resize(size);
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

void MakePathsWhole(JobSpec& spec) {
  for (std::string& data : spec.training.data.paths) data = WholePath(data);
  for (std::string& data : spec.training.validation.paths) data = WholePath(data);
  for (std::string* path : {&spec.training.initial.file, &spec.runtime.stream.path})
    if (!path->empty()) *path = WholePath(*path);
}

absl::StatusOr<JobSpec> ReadSpec(const std::string& path, const std::vector<std::string>& settings,
                                 std::optional<int> workers, std::optional<int> servers) {
  MUSTER_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  MUSTER_ASSIGN_OR_RETURN(JobSpec spec, ParseJobYaml(text, path, settings));
  if (workers) {
    spec.runtime.workers_max = *workers;
    spec.runtime.workers_min = std::min(spec.runtime.workers_min, *workers);
  }
  MakePathsWhole(spec);
  if (servers) spec.runtime.servers = *servers;
  if (const auto too_large = TooLargeForAJob(spec.training))
    return FieldError(path, too_large->field, too_large->reason);
  return Complete(spec);
}

}  // namespace muster::cli
