#include "lib/identity/key_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
#include "lib/kernels/sha256.h"

namespace muster {
namespace {

constexpr int kTries = 8;
constexpr size_t kHashLength = 16;

std::string Place() {
  const char* const named = std::getenv("TMPDIR");
  return named == nullptr || *named == '\0' ? "/tmp" : named;
}

bool IsSame(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// Ours, closed to others, locked, and still there. Nothing: it cannot be had.
std::optional<Descriptor> Hold(const std::string& path) {
  for (int i = 0; i < kTries; ++i) {
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return std::nullopt;
    Descriptor found(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!found.is_open() && errno == ENOENT) continue;  // its user is just ending
    struct stat opened {};
    struct stat there {};
    if (!found.is_open() || fstat(found.get(), &opened) != 0) return std::nullopt;
    if (opened.st_uid != geteuid() || (opened.st_mode & 077) != 0) return std::nullopt;
    if (flock(found.get(), LOCK_EX | LOCK_NB) != 0) return std::nullopt;
    if (lstat(path.c_str(), &there) == 0 && IsSame(opened, there)) return found;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::unique_ptr<KeyFolder>> KeyFolder::Make(absl::string_view of) {
  const std::string hash = HexSha256(absl::StrCat(geteuid(), "\n", of)).substr(0, kHashLength);
  std::string path = absl::StrCat(Place(), "/muster-keys-", hash);
  std::optional<Descriptor> held = Hold(path);
  if (!held) {
    path = absl::StrCat(Place(), "/muster-keys-XXXXXX");
    if (mkdtemp(path.data()) != nullptr) held = Hold(path);  // it is nobody else's: 0700
  }
  struct stat place {};
  if (!held && (stat(Place().c_str(), &place) != 0 || !S_ISDIR(place.st_mode)))
    return absl::InvalidArgumentError(
        absl::StrCat("TMPDIR: '", Place(),
                     "' is no folder; the keys of this host belong in one on its own disk"));
  if (!held)
    return Prefix("--identity names a folder for the certificate of this host; without it",
                  FileError(errno, "make directory", path));
  return std::unique_ptr<KeyFolder>(new KeyFolder(std::move(path), *std::move(held)));
}

// What somebody has put in its place since is not ours.
KeyFolder::~KeyFolder() {
  struct stat ours {};
  struct stat there {};
  if (fstat(held_.get(), &ours) != 0 || lstat(path_.c_str(), &there) != 0 || !IsSame(ours, there))
    return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace muster
