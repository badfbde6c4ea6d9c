#include "lib/spool/spool_folder.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
#include "lib/spool/segment.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

// The first error, and all are tried. Whether a deletion outlives a loss of power matters to
// nobody: such a file has no row.
absl::Status Remove(const std::string& folder, const std::vector<SpoolFileName>& files) {
  absl::Status status;
  for (const SpoolFileName& file : files) {
    const std::string path = absl::StrCat(folder, "/", NameOf(file));
    if (unlink(path.c_str()) != 0 && errno != ENOENT)
      status.Update(FileError(errno, "delete", path));
  }
  return status;
}

absl::Status RemoveWhere(const std::string& folder,
                         const std::function<bool(const SpoolFileName&)>& goes) {
  std::vector<SpoolFileName> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const auto file = SpoolFileNamed(it->path().filename().string());
    if (file && goes(*file)) files.push_back(*file);
  }
  if (error == std::errc::no_such_file_or_directory) return absl::OkStatus();
  absl::Status status = Remove(folder, files);
  if (error) status.Update(FileError(error.value(), "list directory", folder));
  return status;
}

}  // namespace

absl::Status RemoveSegments(const std::string& folder, absl::Span<const SpoolSegment> segments) {
  std::vector<SpoolFileName> files;
  for (const SpoolSegment& segment : segments) files.push_back({segment.number, segment.writer});
  return Remove(folder, files);
}

absl::Status SweepSpool(const std::string& folder, absl::Span<const SpoolSegment> facts,
                        Incarnation reader) {
  std::set<std::pair<int64_t, Incarnation>> named;
  for (const SpoolSegment& fact : facts) named.emplace(fact.number, fact.writer);
  // Numbers grow: what is before all that there is was trimmed.
  const int64_t oldest = facts.empty() ? 0 : facts.front().number;
  return RemoveWhere(folder, [&](const SpoolFileName& file) {
    const bool may_go = file.writer != reader || file.number < oldest;
    return may_go && !named.contains({file.number, file.writer});
  });
}

absl::Status RemoveSpool(const std::string& folder) {
  absl::Status status = RemoveWhere(folder, [](const SpoolFileName&) { return true; });
  if (rmdir(folder.c_str()) != 0 && errno != ENOENT && errno != ENOTEMPTY && errno != EEXIST)
    status.Update(FileError(errno, "delete directory", folder));
  return status;
}

}  // namespace muster
