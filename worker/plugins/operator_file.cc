#include "worker/plugins/operator_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/descriptor.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/kernels/sha256.h"

namespace muster::worker {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

std::string ErrorText(int error) { return std::generic_category().message(error); }

absl::Status CheckNobodyElseWrites(const std::string& path, const struct stat& found) {
  if ((found.st_mode & S_IWOTH) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("everybody may write to ", path,
                                                 ", and what lies there runs as this user; ",
                                                 "take that right away (chmod o-w)"));
}

absl::Status CannotBeRead() {
  return absl::InvalidArgumentError(absl::StrCat("it cannot be read: ", ErrorText(errno)));
}

bool IsThere(const std::string& path) {
  struct stat found {};
  return lstat(path.c_str(), &found) == 0;
}

}  // namespace

absl::Status CheckOperatorFolder(const std::string& folder) {
  struct stat status {};
  if (stat(folder.c_str(), &status) != 0)
    return absl::InvalidArgumentError(
        absl::StrCat("--plugins: ", folder, " cannot be read: ", ErrorText(errno)));
  if (!S_ISDIR(status.st_mode))
    return absl::InvalidArgumentError(
        absl::StrCat("--plugins: ", folder, " is no folder; name the one that holds the plug-ins"));
  return Prefix("--plugins", CheckNobodyElseWrites(folder, status));
}

absl::Status ReadOperatorFile(const std::string& path,
                              const std::function<absl::Status(uint64_t size)>& size,
                              const std::function<void(absl::Span<const std::byte>)>& piece) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat found {};
  if (!file.is_open() || fstat(file.get(), &found) != 0) return CannotBeRead();
  if (!S_ISREG(found.st_mode)) return absl::InvalidArgumentError("it is no file");
  MUSTER_RETURN_IF_ERROR(CheckNobodyElseWrites(path, found));
  MUSTER_RETURN_IF_ERROR(size(static_cast<uint64_t>(found.st_size)));
  std::vector<std::byte> bytes(kPieceBytes);
  while (true) {
    const ssize_t got = read(file.get(), bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return CannotBeRead();
    if (got == 0) return absl::OkStatus();
    piece({bytes.data(), static_cast<size_t>(got)});
  }
}

absl::StatusOr<OperatorFile> FindOperatorFile(const std::string& name,
                                              const std::vector<std::string>& folders,
                                              uint64_t most_bytes) {
  const std::string quoted = absl::StrCat("'", Cut(Printable(name)), "'");
  if (name.empty() || name == "." || name == ".." || absl::StrContains(name, '/') ||
      absl::StrContains(name, '\0'))
    return absl::InvalidArgumentError(absl::StrCat(
        quoted, " is no name; give that of a file which lies in a folder of --plugins, without ",
        "the folder"));
  OperatorFile file;
  for (const std::string& folder : folders) {
    if (const absl::Status may = CheckOperatorFolder(folder); !may.ok())
      return absl::NotFoundError(may.message());
    if (file.path.empty() && IsThere(absl::StrCat(folder, "/", name)))
      file.path = absl::StrCat(folder, "/", name);
  }
  if (file.path.empty())
    return absl::NotFoundError(absl::StrCat(
        "there is no ", quoted,
        folders.empty() ? ": this host has no folder of plug-ins (--plugins), and other files are "
                          "not read"
                        : absl::StrCat(" in ", absl::StrJoin(folders, ", "),
                                       "; put it there, or name its folder by --plugins")));
  const auto reserve = [&](uint64_t size) -> absl::Status {
    if (size > most_bytes)
      return absl::InvalidArgumentError(absl::StrCat(
          "it has ", size, " bytes, and this worker has memory for ", most_bytes, " of them"));
    file.bytes.reserve(size);
    return absl::OkStatus();
  };
  bool is_longer = false;
  Sha256 hash;
  const absl::Status read =
      ReadOperatorFile(file.path, reserve, [&](absl::Span<const std::byte> piece) {
        is_longer = is_longer || file.bytes.size() + piece.size() > most_bytes;
        if (is_longer) return;
        hash.Update(piece);
        file.bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
      });
  MUSTER_RETURN_IF_ERROR(Prefix(file.path, read));
  if (is_longer) return absl::InvalidArgumentError(absl::StrCat(file.path, ": it grows"));
  file.hash = hash.HexFinish();
  return file;
}

}  // namespace muster::worker
