#include "lib/identity/identity_folder.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/descriptor.h"
#include "lib/base/status.h"
#include "lib/base/this_process.h"
#include "lib/base/whole_file.h"

namespace muster {
namespace {

constexpr char kCurrent[] = "current";
constexpr char kOfPrefix[] = "of-";
constexpr char kAuthorityFile[] = "authority.pem";
constexpr char kCertificateFile[] = "certificate.pem";
constexpr char kKeyFile[] = "key.pem";
constexpr char kAuthorityKeyFile[] = "authority.key";
constexpr char kNextKeyFile[] = "authority.key.next";
constexpr char kBeginsCertificate[] = "-----BEGIN CERTIFICATE-----";
// A writer may swap the folder while it is read; more than once in so short a time it does not.
constexpr int kReadings = 3;

constexpr mode_t kOthersMayNothing = 0077;
// Of files that somebody else mounted: their group may read them, as Kubernetes does it for a pod.
constexpr mode_t kOthersMayNotWriteNorStrangersRead = 0037;
constexpr mode_t kOthersMayNotWrite = 0022;

std::string In(const std::string& folder, absl::string_view name) {
  return absl::StrCat(folder, "/", name);
}

absl::Status IsOfAnother(const std::string& path, uid_t owner) {
  return absl::PermissionDeniedError(absl::StrCat("'", path, "' belongs to user ", owner,
                                                  ", and not to this one: give the command as "
                                                  "that user, or make it yours with chown"));
}

// `path` is there, is ours or root's, and gives none of the rights in `forbidden`.
absl::Status CheckRights(const std::string& path, mode_t forbidden) {
  struct stat there {};
  if (stat(path.c_str(), &there) != 0) return ReadError(errno, "look at", path);
  if (there.st_uid != geteuid() && there.st_uid != 0) return IsOfAnother(path, there.st_uid);
  if ((there.st_mode & forbidden) == 0) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrFormat(
      "'%s' may be read or written by others (mode %04o): chmod %s '%s', and have what is secret "
      "in it made anew if somebody may have read it",
      path, there.st_mode & 07777, S_ISDIR(there.st_mode) ? "700" : "600", path));
}

absl::Status WriteAll(int fd, const std::string& path, absl::string_view content) {
  while (!content.empty()) {
    const ssize_t n = write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError(errno, "write", path);
    content.remove_prefix(static_cast<size_t>(n));
  }
  return fsync(fd) == 0 ? absl::OkStatus() : FileError(errno, "sync", path);
}

absl::StatusOr<Identity> ReadTrio(const std::string& authority, const std::string& certificate,
                                  const std::string& key) {
  MUSTER_ASSIGN_OR_RETURN(std::string authority_pem, ReadWholeFile(authority, kMostPemBytes));
  MUSTER_ASSIGN_OR_RETURN(std::string certificate_pem, ReadWholeFile(certificate, kMostPemBytes));
  MUSTER_ASSIGN_OR_RETURN(std::string key_pem, ReadWholeFile(key, kMostPemBytes));
  return MakeIdentity(std::move(authority_pem), std::move(certificate_pem), std::move(key_pem));
}

// Where the link `current` leads; nothing: there is none.
absl::StatusOr<std::optional<std::string>> ReadCurrent(const std::string& folder) {
  const std::string path = In(folder, kCurrent);
  std::array<char, NAME_MAX + 1> target{};
  const ssize_t size = readlink(path.c_str(), target.data(), target.size());
  if (size < 0 && errno == ENOENT) return std::nullopt;
  if (size < 0 && errno != EINVAL) return ReadError(errno, "read link", path);
  const std::string name(target.data(), size < 0 ? 0 : static_cast<size_t>(size));
  if (size > NAME_MAX || !absl::StartsWith(name, kOfPrefix) || absl::StrContains(name, '/'))
    return absl::DataLossError(absl::StrCat(
        "'", path, "' is no link to a folder beside it: remove it, or have the folder made anew"));
  return name;
}

absl::StatusOr<Identity> ReadOwn(const std::string& folder, const std::string& current) {
  const std::string in = In(folder, current);
  for (const std::string& path : {folder, in, In(in, kKeyFile)})
    MUSTER_RETURN_IF_ERROR(CheckRights(path, kOthersMayNothing));
  return ReadTrio(In(in, kAuthorityFile), In(in, kCertificateFile), In(in, kKeyFile));
}

// Files that are mounted are often links into a folder that is swapped.
absl::StatusOr<std::string> RealPath(const std::string& path) {
  const std::unique_ptr<char, decltype(&free)> real(realpath(path.c_str(), nullptr), free);
  if (real == nullptr) return ReadError(errno, "open", path);
  return std::string(real.get());
}

absl::StatusOr<Identity> ReadForeign(const std::string& folder) {
  MUSTER_ASSIGN_OR_RETURN(const std::string authority, RealPath(In(folder, kAuthorityFile)));
  // Whoever may write it says whom we trust.
  MUSTER_RETURN_IF_ERROR(CheckRights(authority, kOthersMayNotWrite));
  MUSTER_ASSIGN_OR_RETURN(const std::string certificate, RealPath(In(folder, kCertificateFile)));
  MUSTER_ASSIGN_OR_RETURN(const std::string key, RealPath(In(folder, kKeyFile)));
  MUSTER_RETURN_IF_ERROR(CheckRights(key, kOthersMayNotWriteNorStrangersRead));
  return ReadTrio(authority, certificate, key);
}

// The folders of earlier identities but the last, which somebody may be reading.
void RemoveOlder(const std::string& folder, const std::string& now, const std::string& before) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    if (absl::StartsWith(name, kOfPrefix) && name != now && name != before)
      std::filesystem::remove_all(entry.path(), ignored);
  }
}

// A folder of that name with the three, where `current` leads from then on. Failed: not there.
absl::Status WriteNext(const std::string& folder, const std::string& name,
                       const Identity& identity) {
  const std::string in = In(folder, name);
  MUSTER_RETURN_IF_ERROR(MakePrivateFolder(in));
  MUSTER_RETURN_IF_ERROR(WriteSecret(In(in, kAuthorityFile), identity.authority_pem));
  MUSTER_RETURN_IF_ERROR(WriteSecret(In(in, kCertificateFile), identity.certificate_pem));
  MUSTER_RETURN_IF_ERROR(WriteSecret(In(in, kKeyFile), identity.key_pem));
  const std::string link = In(folder, kCurrent);
  const std::string temporary = absl::StrCat(link, kTemporarySuffix);
  unlink(temporary.c_str());  // of a writer that crashed
  if (symlink(name.c_str(), temporary.c_str()) != 0)
    return FileError(errno, "make link", temporary);
  if (rename(temporary.c_str(), link.c_str()) != 0) return FileError(errno, "rename", temporary);
  return absl::OkStatus();
}

}  // namespace

absl::Status MakePrivateFolder(const std::string& folder) {
  const std::string above = std::filesystem::path(folder).parent_path().string();
  if (!above.empty()) MUSTER_RETURN_IF_ERROR(MakeDirectories(above));
  if (mkdir(folder.c_str(), 0700) == 0) return SyncDirectory(above.empty() ? "." : above);
  if (errno != EEXIST) return FileError(errno, "make directory", folder);
  return CheckRights(folder, kOthersMayNothing);
}

absl::Status CloseToOthers(const std::string& folder, bool may_be_link) {
  if (mkdir(folder.c_str(), 0700) == 0) return absl::OkStatus();
  if (errno != EEXIST) return FileError(errno, "make directory", folder);
  // What is looked at is what is closed.
  const int how = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (may_be_link ? 0 : O_NOFOLLOW);
  const Descriptor there(open(folder.c_str(), how));
  if (!there.is_open() && (errno == ENOTDIR || errno == ELOOP))
    return absl::FailedPreconditionError(
        absl::StrCat("'", folder, "' is no folder, or leads elsewhere: move it away"));
  if (!there.is_open()) return FileError(errno, "open directory", folder);
  struct stat found {};
  if (fstat(there.get(), &found) != 0) return FileError(errno, "look at", folder);
  if (found.st_uid != geteuid()) return IsOfAnother(folder, found.st_uid);
  if ((found.st_mode & kOthersMayNothing) == 0 || fchmod(there.get(), 0700) == 0)
    return absl::OkStatus();
  return FileError(errno, "close to others", folder);
}

absl::StatusOr<Identity> ReadIdentity(const std::string& folder) {
  MUSTER_ASSIGN_OR_RETURN(std::optional<std::string> current, ReadCurrent(folder));
  for (int reading = 1;; ++reading) {
    absl::StatusOr<Identity> identity = current ? ReadOwn(folder, *current) : ReadForeign(folder);
    if (identity.ok() || reading == kReadings) {
      if (identity.ok()) return identity;
      return Prefix(absl::StrCat("identity in '", folder, "'"), identity.status());
    }
    MUSTER_ASSIGN_OR_RETURN(current, ReadCurrent(folder));
  }
}

absl::Status WriteIdentity(const std::string& folder, const Identity& identity) {
  MUSTER_RETURN_IF_ERROR(MakePrivateFolder(folder));
  MUSTER_ASSIGN_OR_RETURN(const std::optional<std::string> before, ReadCurrent(folder));
  const std::string name = absl::StrCat(kOfPrefix, ToHex(DrawIncarnation()));
  if (const absl::Status written = WriteNext(folder, name, identity); !written.ok()) {
    // Where the disk is full it is tried again and again, each time with a key in it.
    std::error_code ignored;
    std::filesystem::remove_all(In(folder, name), ignored);
    return written;
  }
  MUSTER_RETURN_IF_ERROR(SyncDirectory(folder));
  RemoveOlder(folder, name, before.value_or(name));
  return absl::OkStatus();
}

std::string UnusedMarkOf(const std::string& folder) { return In(folder, "unused"); }

namespace {

// The key in one of its files, with whom the identity there trusts.
absl::StatusOr<Authority> ReadSigning(const std::string& folder, const char* key_file) {
  Authority authority;
  MUSTER_ASSIGN_OR_RETURN(authority.key_pem, ReadSecret(In(folder, key_file)));
  if (const size_t at = authority.key_pem.find(kBeginsCertificate); at != std::string::npos) {
    authority.vouched_pem = authority.key_pem.substr(at);
    authority.key_pem.resize(at);
  }
  MUSTER_ASSIGN_OR_RETURN(Identity own, ReadIdentity(folder));
  authority.certificates_pem = std::move(own.authority_pem);
  MUSTER_RETURN_IF_ERROR(
      Prefix(absl::StrCat("authority in '", folder, "'"), CheckAuthority(authority)));
  return authority;
}

std::string FileOf(const Authority& authority) {
  return absl::StrCat(authority.key_pem, authority.vouched_pem);
}

}  // namespace

absl::StatusOr<Authority> ReadAuthority(const std::string& folder) {
  return ReadSigning(folder, kAuthorityKeyFile);
}

absl::Status ChangeAuthority(const std::string& folder, const Authority& next,
                             const Identity& coordinator) {
  MUSTER_RETURN_IF_ERROR(WriteSecret(In(folder, kNextKeyFile), FileOf(next)));
  MUSTER_RETURN_IF_ERROR(WriteIdentity(folder, coordinator));
  return FinishChange(folder).status();
}

absl::StatusOr<bool> FinishChange(const std::string& folder) {
  const std::string file = In(folder, kNextKeyFile);
  if (access(file.c_str(), F_OK) != 0) return false;
  // It signs once the identity trusts it, and not before.
  const absl::StatusOr<Authority> next = ReadSigning(folder, kNextKeyFile);
  if (!next.ok() && !absl::IsInvalidArgument(next.status())) return next.status();
  if (!next.ok() && unlink(file.c_str()) != 0) return FileError(errno, "remove", file);
  if (next.ok() && rename(file.c_str(), In(folder, kAuthorityKeyFile).c_str()) != 0)
    return FileError(errno, "rename", file);
  MUSTER_RETURN_IF_ERROR(SyncDirectory(folder));
  return next.ok();
}

absl::Status WriteAuthority(const std::string& folder, const Authority& authority,
                            const Identity& coordinator) {
  MUSTER_RETURN_IF_ERROR(WriteIdentity(folder, coordinator));
  return WriteSecret(In(folder, kAuthorityKeyFile), FileOf(authority));
}

// The mark goes first: an authority without it and without a store is one whose store was lost.
absl::Status MakeUnusedAuthority(const std::string& folder, const std::string& cluster,
                                 absl::Time now) {
  MUSTER_ASSIGN_OR_RETURN(const Authority authority, MakeAuthority(cluster, now));
  MUSTER_ASSIGN_OR_RETURN(const Identity own,
                          IssueIdentity(authority, {cluster, CoordinatorPeer{}}, now));
  MUSTER_RETURN_IF_ERROR(MakePrivateFolder(folder));
  MUSTER_RETURN_IF_ERROR(WriteSecret(UnusedMarkOf(folder), ""));
  return WriteAuthority(folder, authority, own);
}

absl::Status WriteSecret(const std::string& path, const std::string& content) {
  const std::string temporary = absl::StrCat(path, kTemporarySuffix);
  unlink(temporary.c_str());  // of a writer that crashed; it may have other rights
  {
    const Descriptor file(
        open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file.is_open()) return FileError(errno, "create", temporary);
    if (const absl::Status written = WriteAll(file.get(), temporary, content); !written.ok()) {
      unlink(temporary.c_str());
      return written;
    }
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) return FileError(errno, "rename", temporary);
  const std::string above = std::filesystem::path(path).parent_path().string();
  return SyncDirectory(above.empty() ? "." : above);
}

absl::StatusOr<std::string> ReadSecret(const std::string& path) {
  struct stat there {};
  const bool is_mounted = geteuid() != 0 && stat(path.c_str(), &there) == 0 && there.st_uid == 0;
  if (is_mounted) {
    MUSTER_RETURN_IF_ERROR(CheckRights(path, kOthersMayNotWriteNorStrangersRead));
    MUSTER_ASSIGN_OR_RETURN(const std::string real, RealPath(path));
    return ReadWholeFile(real, kMostPemBytes);
  }
  MUSTER_RETURN_IF_ERROR(CheckRights(path, kOthersMayNothing));
  return ReadWholeFile(path, kMostPemBytes);
}

}  // namespace muster
