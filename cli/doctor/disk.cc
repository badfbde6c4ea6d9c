#include "cli/doctor/disk.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/format.h"
#include "lib/base/descriptor.h"
#include "lib/base/own_folder.h"
#include "lib/base/printable.h"
#include "lib/base/whole_file.h"

namespace muster::cli::doctor {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kLeastFree = 256 * kMiB;  // a store, some logs
constexpr int64_t kMuchFree = 2048 * kMiB;  // and a few checkpoints of a small model
constexpr int64_t kLeastFiles = 1000;
constexpr int64_t kManyFiles = 10'000;
constexpr double kSlowSync = 0.2;  // seconds: each decision of the coordinator waits for one

struct Kind {
  int64_t number;
  const char* name;
  const char* remark;  // of a cluster's folder there; null: none
};
constexpr char kGoesWithMachine[] =
    "What lies there takes memory, and is lost when the machine starts again.";
constexpr char kGoesWithContainer[] = "What lies there is lost with the container.";
constexpr char kOfAProgram[] =
    "A program serves it: whether what is synced is kept, and whether locks are seen on other "
    "hosts, is up to that.";
constexpr Kind kKinds[] = {
    {EXT4_SUPER_MAGIC, "ext4", nullptr},
    {0x58465342, "xfs", nullptr},
    {BTRFS_SUPER_MAGIC, "btrfs", nullptr},
    {0x2fc12fc1, "zfs", nullptr},
    {F2FS_SUPER_MAGIC, "f2fs", nullptr},
    {NFS_SUPER_MAGIC, "NFS", nullptr},
    {0x0bd00bd0, "Lustre", nullptr},
    {0x47504653, "GPFS", nullptr},
    {0x00c36400, "CephFS", nullptr},
    {TMPFS_MAGIC, "tmpfs", kGoesWithMachine},
    {RAMFS_MAGIC, "ramfs", kGoesWithMachine},
    {OVERLAYFS_SUPER_MAGIC, "overlay", kGoesWithContainer},
    {FUSE_SUPER_MAGIC, "FUSE", kOfAProgram},
    {V9FS_MAGIC, "9p", kOfAProgram},
    {0x517b, "SMB", kOfAProgram},
    {0xff534d42, "SMB", kOfAProgram},
    {0xfe534d42, "SMB", kOfAProgram},
};

const Kind* KindOf(int64_t number) {
  const auto* it = std::find_if(std::begin(kKinds), std::end(kKinds), [number](const Kind& kind) {
    return kind.number == (number & 0xffffffff);
  });
  return it == std::end(kKinds) ? nullptr : it;
}

void Probe(const std::string& folder, DiskFacts& facts) {
  std::string path = absl::StrCat(folder, "/", kProbePrefix, "XXXXXX");
  const Descriptor file(mkostemp(path.data(), O_CLOEXEC));
  if (file.get() < 0) {
    facts.writes = FileError(errno, "make a file in", folder);
    return;
  }
  unlink(path.c_str());  // so that nothing is left of it, however this ends
  std::array<char, 64 << 10> zeros{};
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t left = kMiB; left > 0;) {
    const ssize_t n = write(file.get(), zeros.data(), zeros.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      facts.writes = FileError(n < 0 ? errno : ENOSPC, "write a file of 1 MiB in", folder);
      return;
    }
    left -= n;
  }
  if (fsync(file.get()) != 0) facts.writes = FileError(errno, "sync a file in", folder);
  facts.sync_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (fcntl(file.get(), F_SETLK, &lock) != 0)
    facts.locks = FileError(errno, "lock a file in", folder);
}

std::string About(const DiskFacts& facts) {
  const std::string kind = NameOfKind(facts.kind);
  const std::string where =
      facts.looked_at == facts.folder
          ? Printable(facts.folder)
          : absl::StrCat(Printable(facts.folder), ", which is not there yet (",
                         Printable(facts.looked_at), " is)");
  return absl::StrCat(where, kind.empty() ? "" : absl::StrCat(", on ", kind));
}

}  // namespace

std::string NameOfKind(int64_t kind) {
  const Kind* known = KindOf(kind);
  return known == nullptr ? "" : known->name;
}

DiskFacts GatherDisk(const std::string& folder) {
  DiskFacts facts{.folder = folder};
  std::error_code error;
  fs::path at = fs::absolute(folder, error).lexically_normal();
  if (!at.has_filename()) at = at.parent_path();
  const fs::path whole = at;
  while (!fs::exists(at, error) && !error && at != at.parent_path()) at = at.parent_path();
  facts.looked_at = at == whole ? folder : at.string();
  struct statfs of {};
  struct statvfs room {};
  if (statfs(at.c_str(), &of) != 0 || statvfs(at.c_str(), &room) != 0) {
    facts.looks = FileError(errno, "look at", at.string());
    return facts;
  }
  if (!fs::is_directory(at, error)) {
    facts.looks = absl::InvalidArgumentError(
        absl::StrCat("keep anything in ", at.string(), ", which is no folder"));
    return facts;
  }
  facts.kind = static_cast<int64_t>(of.f_type);
  facts.free_bytes = static_cast<int64_t>(room.f_bavail) * static_cast<int64_t>(room.f_frsize);
  facts.files = static_cast<int64_t>(room.f_files);
  facts.free_files = static_cast<int64_t>(room.f_favail);
  Probe(at, facts);
  return facts;
}

Findings JudgeDisk(const std::string& check, DiskUse use, const DiskFacts& facts) {
  constexpr char kMakeRoom[] =
      "make room there (`checkpoint.keep` of a job says how many checkpoints stay; muster delete "
      "JOB removes those of a job), or name another folder";
  constexpr char kAnother[] =
      "name another folder, or, where this one is yours, let this user write there (chown, chmod)";
  if (!facts.looks.ok())
    return {Problem(check, absl::StrCat("Muster cannot ", Sentence(facts.looks.message())),
                    absl::IsInvalidArgument(facts.looks) ? "name another folder" : kAnother)};
  const std::string about = About(facts);
  const std::string free = Bytes(static_cast<double>(facts.free_bytes));
  const bool lacks_bytes = facts.free_bytes < kLeastFree;
  const bool lacks_files = facts.files > 0 && facts.free_files < kLeastFiles;
  if (!facts.writes.ok() && !absl::IsResourceExhausted(facts.writes))
    return {
        Problem(check, absl::StrCat("Muster cannot ", Sentence(facts.writes.message())), kAnother)};
  if (use == DiskUse::kTemporary) {
    if (facts.writes.ok() && !lacks_files)
      return {Ok(check, absl::StrCat(about, ", has ", free, " free and may be written."))};
    return {Problem(check, absl::StrCat(about, ", is full (", free, " free)."),
                    "make room there, or let TMPDIR name another folder")};
  }
  Findings findings;
  const std::string room =
      absl::StrCat(about, ", has ", free, " free",
                   facts.files > 0 ? absl::StrCat(", for ", facts.free_files, " files") : "", ".");
  if (lacks_bytes || lacks_files || !facts.writes.ok())
    findings.push_back(Problem(check, room, kMakeRoom));
  else if (facts.free_bytes < kMuchFree || (facts.files > 0 && facts.free_files < kManyFiles))
    findings.push_back(Warning(check, room, kMakeRoom));
  else
    findings.push_back(Ok(check, room));
  if (const Kind* kind = KindOf(facts.kind); kind != nullptr && kind->remark != nullptr)
    findings.push_back(
        Warning(absl::StrCat(check, ": file system"),
                absl::StrCat(Printable(facts.folder), " is on ", kind->name, ". ", kind->remark),
                "take a folder on a disk, or on storage that hosts share, for what "
                "is to be kept"));
  if (!facts.writes.ok()) return findings;
  const std::string sync =
      absl::StrFormat("Writing and syncing 1 MiB took %.3g ms.", facts.sync_seconds * 1e3);
  const std::string sync_check = absl::StrCat(check, ": speed");
  if (facts.sync_seconds > kSlowSync)
    findings.push_back(Warning(sync_check,
                               absl::StrCat(sync,
                                            " The coordinator syncs each decision before it "
                                            "tells it."),
                               "take a faster disk for --dir, or one that others use less"));
  else
    findings.push_back(Ok(sync_check, sync));
  if (!facts.locks.ok())
    findings.push_back(Problem(absl::StrCat(check, ": locks"),
                               absl::StrCat("Muster cannot ", facts.locks.message(),
                                            "; without locks two coordinators could write one "
                                            "store, so none starts."),
                               "mount it with locks (NFS: without nolock, and with lockd running), "
                               "or name a folder on another file system"));
  return findings;
}

}  // namespace muster::cli::doctor
