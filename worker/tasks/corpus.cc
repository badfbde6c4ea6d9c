#include "worker/tasks/corpus.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "lib/base/status.h"
#include "lib/kernels/sha256.h"

namespace muster::worker {
namespace {

namespace fs = std::filesystem;

bool HasSuffix(const std::string& name, const std::vector<std::string>& suffixes) {
  const auto fits = [&](const std::string& suffix) {
    return suffix.empty() ? !absl::StrContains(name, '.') : absl::EndsWith(name, suffix);
  };
  return suffixes.empty() || std::any_of(suffixes.begin(), suffixes.end(), fits);
}

bool IsReadableFile(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && access(path.c_str(), R_OK) == 0;
}

// The names in a directory, sorted byte by byte; one that cannot be listed has none.
std::vector<std::string> NamesIn(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator it(directory, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error))
    names.push_back(it->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

class Reader {
 public:
  explicit Reader(const DataSpec& data)
      : data_(data),
        limit_(data.max_bytes == 0 ? std::numeric_limits<size_t>::max() : data.max_bytes) {}

  absl::Status AddPath(const std::string& path) {
    std::error_code ignored;
    if (fs::is_directory(path, ignored) && access(path.c_str(), R_OK | X_OK) == 0)
      return AddDirectory(path);
    if (IsReadableFile(path)) return AddFile(path);
    return absl::InvalidArgumentError(absl::StrCat(
        "data.paths: ", path,
        fs::exists(path, ignored)
            ? " is not a readable file or directory"
            : " does not exist; name files or directories (best by their whole path)"));
  }

  std::string Finish() { return std::move(bytes_); }

 private:
  bool full() const { return bytes_.size() >= limit_; }

  absl::Status AddDirectory(const fs::path& directory) {
    for (const std::string& name : NamesIn(directory)) {
      if (full()) break;
      const fs::path path = directory / name;
      std::error_code ignored;
      if (fs::is_directory(fs::symlink_status(path, ignored))) {
        MUSTER_RETURN_IF_ERROR(AddDirectory(path));
      } else if (HasSuffix(name, data_.suffixes) && IsReadableFile(path)) {
        MUSTER_RETURN_IF_ERROR(AddFile(path));
      }
    }
    return absl::OkStatus();
  }

  absl::Status AddFile(const fs::path& path) {
    if (full()) return absl::OkStatus();
    std::ifstream file(path, std::ios::binary);
    std::string piece(64 * 1024, '\0');
    if (files_++ > 0) bytes_.push_back('\0');
    while (file && !full()) {
      file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
      const size_t got = static_cast<size_t>(file.gcount());
      bytes_.append(piece, 0, std::min(got, limit_ - bytes_.size()));
    }
    if (file.bad() || (!file.eof() && !full()))
      return absl::DataLossError(absl::StrCat("data.paths: reading ", path.string(), " failed"));
    return absl::OkStatus();
  }

  const DataSpec& data_;
  const size_t limit_;
  size_t files_ = 0;
  std::string bytes_;
};

}  // namespace

absl::StatusOr<std::string> ReadCorpus(const DataSpec& data) {
  Reader reader(data);
  for (const std::string& path : data.paths) MUSTER_RETURN_IF_ERROR(reader.AddPath(path));
  std::string bytes = reader.Finish();
  if (!bytes.empty()) return bytes;
  return absl::InvalidArgumentError(
      absl::StrCat("data.paths: no content in ", absl::StrJoin(data.paths, ", "),
                   data.suffixes.empty()
                       ? ""
                       : absl::StrCat(" (suffixes '", absl::StrJoin(data.suffixes, "', '"), "')"),
                   "; name files that are not empty"));
}

std::string ContentHash(std::initializer_list<std::string_view> parts) {
  Sha256 hash;
  for (std::string_view part : parts)
    hash.Update({reinterpret_cast<const std::byte*>(part.data()), part.size()});
  return hash.HexFinish();
}

}  // namespace muster::worker
