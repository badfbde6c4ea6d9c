#include "lib/data/prepare_once.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <optional>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "lib/base/bytes.h"
#include "lib/base/file_lock.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
#include "lib/data/byte_source.h"
#include "lib/data/hash_listener.h"
#include "lib/data/names_in.h"
#include "lib/data/so_far_file.h"
#include "lib/kernels/sha256.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr size_t kHashDigits = 64;
constexpr size_t kMostAboutBytes = 4096;
constexpr int kMostLevels = 64;
constexpr int kMostTimesBad = 3;
constexpr char kLock[] = ".lock";
constexpr char kMaking[] = ".making";
constexpr char kHash[] = "hash";
constexpr char kStamps[] = "stamps";

// ---- the bytes of a folder

enum class Reads { kNothing, kBytes, kBytesAndSyncs };  // synced: they survive a loss of power

// Of all below it, which is only files and folders.
class FolderHash {
 public:
  // `now`: nanoseconds since 1970, at the latest when the first file is looked at.
  FolderHash(Reads reads, int64_t now)
      : reads_(reads), now_(now), piece_(reads == Reads::kNothing ? 0 : kPieceBytes) {}

  absl::Status AddFolder(const fs::path& folder, const std::string& below, int level = 0) {
    if (level > kMostLevels)
      return absl::FailedPreconditionError(
          absl::StrCat("'", below, "' lies more than ", kMostLevels, " folders deep"));
    std::error_code error;
    fs::directory_iterator listed(folder, error);
    const std::vector<std::string> names = NamesIn(std::move(listed), error);
    if (error) return ReadError(error.value(), "list", folder.string());
    for (const std::string& name : names)
      MUSTER_RETURN_IF_ERROR(Add(folder / name, below.empty() ? name : below + "/" + name, level));
    return syncs() ? SyncDirectory(folder.string()) : absl::OkStatus();
  }

  size_t files() const { return files_; }
  std::string HexFinish() { return hash_.HexFinish(); }
  // Of what the system says of the files, in place of their bytes.
  std::string StampsHexFinish() { return stamps_.HexFinish(); }
  bool may_change_unseen() const { return may_change_unseen_; }

 private:
  bool syncs() const { return reads_ == Reads::kBytesAndSyncs; }

  absl::Status Add(const fs::path& path, const std::string& below, int level) {
    std::error_code error;
    const fs::file_status status = fs::symlink_status(path, error);
    if (error) return ReadError(error.value(), "look at", path.string());
    if (fs::is_directory(status)) {
      const std::string line = Line("folder", below, 0);
      hash_.Update(BytesOf(line));
      stamps_.Update(BytesOf(line));
      return AddFolder(path, below, level + 1);
    }
    if (!fs::is_regular_file(status))
      return absl::FailedPreconditionError(
          absl::StrCat("'", Cut(Printable(below)), "' is neither a file nor a folder"));
    return AddFile(path, below);
  }

  // Looked at before it is read, so that a change meanwhile is one that is seen later.
  absl::Status AddFile(const fs::path& path, const std::string& below) {
    MUSTER_ASSIGN_OR_RETURN(const FileStamp stamp, StampOf(path.string(), below));
    ++files_;
    const std::string line = Line("file", below, stamp.bytes);
    stamps_.Update(
        BytesOf(absl::StrCat(line, stamp.inode, " ", stamp.modified, " ", stamp.changed, "\n")));
    may_change_unseen_ = may_change_unseen_ || MayChangeUnseen({stamp}, now_);
    DataGoesOn();
    if (reads_ == Reads::kNothing) return absl::OkStatus();
    hash_.Update(BytesOf(line));
    return AddBytes(path);
  }

  absl::Status AddBytes(const fs::path& path) {
    MUSTER_ASSIGN_OR_RETURN(const Descriptor file, OpenRegularFile(path.string(), O_RDONLY));
    while (true) {
      const ssize_t got = read(file.get(), piece_.data(), piece_.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return FileError(errno, "read", path.string());
      if (got == 0) break;
      hash_.Update({piece_.data(), static_cast<size_t>(got)});
      DataGoesOn();
    }
    return !syncs() || fsync(file.get()) == 0 ? absl::OkStatus()
                                              : FileError(errno, "sync", path.string());
  }

  static std::string Line(absl::string_view kind, const std::string& below, uint64_t bytes) {
    return absl::StrCat(kind, " ", below.size(), ":", below, " ", bytes, "\n");
  }

  const Reads reads_;
  const int64_t now_;
  std::vector<std::byte> piece_;
  Sha256 hash_, stamps_;
  size_t files_ = 0;
  bool may_change_unseen_ = false;
};

absl::Status RemoveAll(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? FileError(error.value(), "remove", path) : absl::OkStatus();
}

absl::Status Rename(const std::string& from, const std::string& to) {
  return rename(from.c_str(), to.c_str()) == 0 ? absl::OkStatus()
                                               : FileError(errno, "rename", from);
}

// ---- one folder

class Place {
 public:
  explicit Place(const PrepareOnceOptions& options)
      : options_(options), at_(absl::StrCat(options.folders, "/", options.name)) {}

  // Nothing: somebody else is at work, or has just been.
  absl::StatusOr<PreparedPtr> Try() {
    if (!is_bad_ && access(at_.c_str(), F_OK) == 0) {
      absl::StatusOr<PreparedPtr> used = TryToUse();
      // What is bad is made anew at once: nobody is waited for.
      if (!used.ok() || *used != nullptr || !is_bad_) return used;
    }
    if (times_bad_ > kMostTimesBad)
      return absl::UnavailableError(absl::StrCat(
          "what was prepared in ", at_,
          " has changed since, and is in use: end the jobs that use it, or delete it"));
    return TryToMake();
  }
  PreparedSoFar Heard() const { return HeardAt(at_ + kLock); }

 private:
  absl::StatusOr<PreparedPtr> TryToUse() {
    absl::StatusOr<Descriptor> lock = ShareFileLock(at_ + kLock);
    if (absl::IsAborted(lock.status())) return nullptr;
    MUSTER_RETURN_IF_ERROR(lock.status());
    if (!IsLockAt(*lock, at_ + kLock) || access(at_.c_str(), F_OK) != 0) return nullptr;
    const std::optional<std::string> hash = FindKeptHash(at_, kHash);
    if (!hash || !(IsUntouched() || IsAsItWas(*hash))) {
      is_bad_ = true;
      ++times_bad_;
      return nullptr;
    }
    return Used(*std::move(lock), *hash, true);
  }

  // Its lock tells when it was used last.
  absl::StatusOr<PreparedPtr> Used(Descriptor lock, std::string hash, bool was_there) const {
    futimens(lock.get(), nullptr);
    return std::make_shared<const PreparedFolder>(Files(at_), std::move(hash), was_there,
                                                  std::move(lock));
  }

  // No file has changed since its bytes were hashed, by what the system says of it.
  bool IsUntouched() const {
    if (options_.verifies) return false;
    const std::optional<std::string> kept = FindKeptHash(at_, kStamps);
    FolderHash now(Reads::kNothing, options_.now);
    return kept && now.AddFolder(Files(at_), "").ok() && now.StampsHexFinish() == *kept;
  }

  bool IsAsItWas(const std::string& hash) const {
    FolderHash now(Reads::kBytes, options_.now);
    if (!now.AddFolder(Files(at_), "").ok() || now.HexFinish() != hash) return false;
    // Others that share the lock write the same. What cannot be kept is read again.
    if (!now.may_change_unseen())
      KeepHash(at_, kStamps, now.StampsHexFinish(), "what the system said of the files")
          .IgnoreError();
    return true;
  }

  absl::StatusOr<PreparedPtr> TryToMake() {
    absl::StatusOr<Descriptor> lock = LockFile(at_ + kLock);
    if (absl::IsAborted(lock.status())) {
      is_bad_ = false;  // somebody may make it anew; look at it once more
      return nullptr;
    }
    MUSTER_RETURN_IF_ERROR(lock.status());
    if (!IsLockAt(*lock, at_ + kLock)) return nullptr;
    const bool is_there = access(at_.c_str(), F_OK) == 0;
    if (is_there && !is_bad_) return nullptr;  // somebody was faster; look at it as others do
    is_bad_ = false;
    // Before anything that takes time, so that nobody reads what one that was killed has said.
    Saying saying(&*lock, options_.told);
    MUSTER_RETURN_IF_ERROR(RemoveAll(at_ + kMaking));
    if (is_there) {
      MUSTER_RETURN_IF_ERROR(Rename(at_, at_ + kMaking));
      MUSTER_RETURN_IF_ERROR(RemoveAll(at_ + kMaking));
    }
    absl::StatusOr<std::string> hash = Make(saying);
    if (!hash.ok()) {
      RemoveAll(at_ + kMaking).IgnoreError();
      unlink((at_ + kLock).c_str());
      return hash.status();
    }
    saying.Clear();
    MUSTER_RETURN_IF_ERROR(LetShare(*lock, at_ + kLock));
    return Used(*std::move(lock), *std::move(hash), false);
  }

  absl::StatusOr<std::string> Make(Saying& saying) const {
    const std::string making = at_ + kMaking;
    MUSTER_RETURN_IF_ERROR(MakeDirectories(Files(making)));
    MUSTER_RETURN_IF_ERROR(options_.make(
        Files(making), [&](double share, const std::string& what) { saying.Say(share, what); }));
    saying.Say(1, "writes it to the disk");
    FolderHash made(Reads::kBytesAndSyncs, options_.now);
    MUSTER_RETURN_IF_ERROR(made.AddFolder(Files(making), ""));
    if (made.files() == 0)
      return absl::FailedPreconditionError("nothing was prepared: it has left its folder empty");
    std::string hash = made.HexFinish();
    MUSTER_RETURN_IF_ERROR(ReplaceFile(
        absl::StrCat(making, "/", kHash),
        absl::StrCat(hash, "\n", Cut(options_.about, kMostAboutBytes - 2 * kHashDigits), "\n")));
    MUSTER_RETURN_IF_ERROR(Rename(making, at_));
    MUSTER_RETURN_IF_ERROR(SyncDirectory(options_.folders));
    return hash;
  }

  static std::string Files(const std::string& at) { return at + "/files"; }

  const PrepareOnceOptions& options_;
  const std::string at_;
  bool is_bad_ = false;  // what is there has changed since it was made
  int times_bad_ = 0;
};

// ---- the others

bool IsName(absl::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), absl::ascii_isalnum);
}

// Names of folders, those that were used last first.
std::vector<std::string> ByUse(const std::string& folders) {
  std::error_code error;
  fs::directory_iterator listed(folders, error);
  std::vector<std::tuple<int64_t, std::string>> used;
  for (const std::string& entry : NamesIn(std::move(listed), error)) {
    absl::string_view name = entry;
    if (!absl::ConsumeSuffix(&name, kLock) || !IsName(name)) continue;
    const absl::StatusOr<FileStamp> stamp = StampOf(absl::StrCat(folders, "/", entry), "");
    if (stamp.ok()) used.emplace_back(-stamp->modified, name);
  }
  std::sort(used.begin(), used.end());
  std::vector<std::string> names;
  for (auto& [when, name] : used) names.push_back(std::move(name));
  return names;
}

// Takes away what is neither used nor among those to keep, and what others have left half-made. No
// part of the work: what cannot be taken away stays.
void TakeAwayOld(const PrepareOnceOptions& options) {
  size_t kept = 1;  // ours
  for (const std::string& name : ByUse(options.folders)) {
    if (name == options.name) continue;
    const std::string at = absl::StrCat(options.folders, "/", name);
    const bool is_kept = access(at.c_str(), F_OK) == 0 && kept < options.keeps;
    if (is_kept) ++kept;
    if (is_kept && access((at + kMaking).c_str(), F_OK) != 0) continue;
    const absl::StatusOr<Descriptor> lock = LockFile(at + kLock);
    if (!lock.ok() || !IsLockAt(*lock, at + kLock)) continue;
    if (!RemoveAll(at + kMaking).ok() || is_kept) continue;
    // Renamed first: what is there is whole, whenever this ends.
    if (access(at.c_str(), F_OK) == 0 &&
        !(Rename(at, at + kMaking).ok() && RemoveAll(at + kMaking).ok()))
      continue;
    unlink((at + kLock).c_str());
  }
}

}  // namespace

std::string TextOf(const PreparedSoFar& so_far) {
  const std::string how_far =
      absl::StrCat(absl::StrFormat("%.0f %%", std::floor(100 * so_far.share)),
                   so_far.what.empty() ? "" : ", ", so_far.what);
  if (so_far.is_ours)
    return absl::StrCat(so_far.hashes ? "is hashing data: " : "prepares what its task asks for: ",
                        how_far);
  const std::string who =
      so_far.maker > 0 ? absl::StrCat("process ", so_far.maker) : std::string("another process");
  return absl::StrCat(
      "waits for ", who, ", which ",
      so_far.hashes ? "is hashing the same data: " : "prepares the same: ", how_far);
}

std::string SoFarLine(const PreparedSoFar& so_far) {
  return absl::StrFormat("%d %.4f %s\n", so_far.maker, so_far.share,
                         Cut(so_far.what, kMostWhatBytes));
}

PreparedSoFar SoFarOf(absl::string_view line) {
  line = line.substr(0, std::min(line.find('\n'), kSoFarBytes));
  const std::vector<absl::string_view> words = absl::StrSplit(line, absl::MaxSplits(' ', 2));
  PreparedSoFar so_far{.is_ours = false};
  if (words.size() != 3 || !absl::SimpleAtoi(words[0], &so_far.maker) || so_far.maker < 1 ||
      !absl::SimpleAtod(words[1], &so_far.share) || !(so_far.share >= 0 && so_far.share <= 1))
    return {.is_ours = false};
  so_far.what = Cut(Printable(words[2]), kMostWhatBytes);
  return so_far;
}

absl::StatusOr<PreparedPtr> PrepareOnce(const PrepareOnceOptions& options) {
  MUSTER_RETURN_IF_ERROR(MakeDirectories(options.folders));
  Place place(options);
  PreparedPtr prepared;
  const auto look = [&]() -> absl::StatusOr<bool> {
    MUSTER_ASSIGN_OR_RETURN(prepared, place.Try());
    return prepared != nullptr;
  };
  MUSTER_RETURN_IF_ERROR(WaitForOther(look, {.may_wait = options.may_wait,
                                             .told = options.told,
                                             .heard = [&] { return place.Heard(); }}));
  if (!prepared->was_there()) TakeAwayOld(options);
  return prepared;
}

}  // namespace muster
