#include "muster/corpus.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "lib/base/own_folder.h"
#include "lib/base/status.h"
#include "lib/data/names_in.h"
#include "lib/kernels/sha256.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

bool HasSuffix(const std::string& name, const std::vector<std::string>& suffixes) {
  const auto fits = [&](const std::string& suffix) {
    return suffix.empty() ? !absl::StrContains(name, '.') : absl::EndsWith(name, suffix);
  };
  return suffixes.empty() || std::any_of(suffixes.begin(), suffixes.end(), fits);
}

// What is kept of a run lies there: it grows while the job runs, so it is no data.
bool IsOurOwn(const fs::path& directory) {
  std::error_code ignored;
  return fs::exists(directory / kOwnFolderMark, ignored);
}

// Where a person keeps a token for `muster`, which makes no folder there and so marks none.
bool IsSettings(const fs::path& directory) {
  if (directory.filename() != "muster") return false;
  std::error_code ignored;
  return fs::canonical(directory, ignored).parent_path().filename() == ".config";
}

// The folder of ours that `path` is or lies in, whatever links lead there; empty: none. Tokens,
// keys and checkpoints of others lie below it, which the user of the workers can read, and whoever
// submitted the job may not.
fs::path OurOwnAround(const fs::path& path) {
  std::error_code error;
  fs::path at = fs::canonical(path, error);
  if (error) return {};  // whoever opens it says why
  for (;; at = at.parent_path()) {
    if (IsOurOwn(at) || IsSettings(at)) return at;
    if (at == at.root_path()) return {};
  }
}

// The system makes what is read there on the way, some of it without end, and differently for each
// process. What sysfs makes has an end, and is found to be shorter than it says.
bool IsMadeWhileRead(int fd) {
  struct statfs system {};
  if (fstatfs(fd, &system) != 0) return false;
  const auto type = static_cast<uint64_t>(system.f_type);
  return type == PROC_SUPER_MAGIC || type == DEBUGFS_MAGIC || type == TRACEFS_MAGIC;
}

class Reader {
 public:
  explicit Reader(const DataSpec& data)
      : data_(data),
        limit_(data.max_bytes == 0 ? std::numeric_limits<size_t>::max() : data.max_bytes) {}

  absl::Status AddPath(const std::string& path) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (const fs::path own = OurOwnAround(path); !own.empty()) return IsOurs(path, own);
    if (fs::is_directory(status)) {
      AddDirectory(path);
      return absl::OkStatus();
    }
    if (fs::is_regular_file(status)) return AddNamedFile(path);
    return absl::InvalidArgumentError(
        absl::StrCat("data.paths: ", path,
                     fs::exists(status) ? " is not a file or directory; name files or directories"
                     : status.type() == fs::file_type::not_found
                         ? " does not exist; name files or directories"
                         : absl::StrCat(" cannot be read: ", error.message())));
  }

  absl::StatusOr<Corpus> Finish() {
    if (unreadable_ == 0) return Corpus{std::move(bytes_), ""};
    if (data_.unreadable == Unreadable::kSkip)
      return Corpus{std::move(bytes_),
                    absl::StrCat(unreadable_,
                                 unreadable_ == 1 ? " file or directory" : " files or directories",
                                 " that cannot be read, the first is ", first_unreadable_)};
    const std::string others =
        unreadable_ == 1 ? "" : absl::StrCat(" (the first of ", unreadable_, ")");
    return absl::DataLossError(absl::StrCat("data.paths: ", first_unreadable_, " cannot be read",
                                            others, ": ", why_unreadable_,
                                            "; make it readable, or take it away"));
  }

 private:
  bool full() const { return bytes_.size() >= limit_; }

  static absl::Status IsOurs(const std::string& path, const fs::path& own) {
    std::error_code ignored;
    const bool is_itself = fs::equivalent(path, own, ignored);
    return absl::InvalidArgumentError(absl::StrCat(
        "data.paths: ", path, is_itself ? " is" : absl::StrCat(" lies in ", own.string(), ","),
        " the folder of a run or a cluster, which changes while the job runs and holds what is of "
        "others; give the run another --dir, or keep the data outside of it"));
  }

  absl::Status AddNamedFile(const fs::path& path) {
    const size_t before = unreadable_;
    AddFile(path);
    if (unreadable_ == before || data_.unreadable == Unreadable::kSkip) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("data.paths: ", first_unreadable_, " cannot be read: ", why_unreadable_));
  }

  void AddDirectory(const fs::path& directory) {
    std::error_code error;
    fs::directory_iterator listed(directory, error);
    const std::vector<std::string> names = NamesIn(std::move(listed), error);
    if (error) CountUnreadable(directory, error.message());
    for (const std::string& name : names) {
      if (full()) break;
      const fs::path path = directory / name;
      std::error_code ignored;
      if (!fs::is_directory(fs::symlink_status(path, ignored))) {
        if (HasSuffix(name, data_.suffixes)) AddFound(path);
      } else if (!IsOurOwn(path) && !IsSettings(path)) {
        AddDirectory(path);
      }
    }
  }

  // Pipes, devices and links to directories are no files. A link may lead into a folder of ours.
  void AddFound(const fs::path& path) {
    std::error_code error;
    if (fs::is_symlink(path, error) && !OurOwnAround(path).empty()) return;
    const fs::file_status status = fs::status(path, error);
    if (fs::is_regular_file(status)) return AddFile(path);
    if (!fs::exists(status)) CountUnreadable(path, error.message());
  }

  // A file that fails half-way is left out as a whole, so that what is left out can be named.
  void AddFile(const fs::path& path) {
    if (full()) return;
    const size_t before = bytes_.size();
    if (files_ > 0) bytes_.push_back('\0');
    const std::string failure = Append(path);
    if (failure.empty()) {
      ++files_;
      return;
    }
    bytes_.resize(before);
    CountUnreadable(path, failure);
  }

  // Why it failed; empty: it did not. Opening waits for nobody, whatever took the file's place.
  std::string Append(const fs::path& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return std::generic_category().message(errno);
    const std::string failure = AppendOpen(fd);
    close(fd);
    return failure;
  }

  std::string AppendOpen(int fd) {
    struct stat file {};
    if (fstat(fd, &file) != 0) return std::generic_category().message(errno);
    if (!S_ISREG(file.st_mode)) return "it is no file any more";
    std::string piece(64 * 1024, '\0');
    off_t read_bytes = 0;
    while (!full()) {
      const ssize_t got = read(fd, piece.data(), piece.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return std::generic_category().message(errno);
      if (read_bytes == 0 && got > 0 && IsMadeWhileRead(fd))
        return "it is no stored file: the system makes it while it is read";
      read_bytes += got;
      if (got == 0 && read_bytes < file.st_size) return "it became shorter while it was read";
      if (got == 0) return "";
      bytes_.append(piece, 0, std::min(static_cast<size_t>(got), limit_ - bytes_.size()));
    }
    return "";
  }

  void CountUnreadable(const fs::path& path, const std::string& why) {
    if (unreadable_++ > 0) return;
    first_unreadable_ = path.string();
    why_unreadable_ = why.empty() ? "it is not there" : why;
  }

  const DataSpec& data_;
  const size_t limit_;
  size_t files_ = 0;
  std::string bytes_;
  size_t unreadable_ = 0;  // files and directories
  std::string first_unreadable_;
  std::string why_unreadable_;
};

}  // namespace

absl::StatusOr<Corpus> ReadCorpus(const DataSpec& data) {
  Reader reader(data);
  for (const std::string& path : data.paths) MUSTER_RETURN_IF_ERROR(reader.AddPath(path));
  MUSTER_ASSIGN_OR_RETURN(Corpus corpus, reader.Finish());
  if (!corpus.bytes.empty()) return corpus;
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

}  // namespace muster
