#include "coordinator/runtime/checkpoint_root.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "coordinator/state/claims.h"
#include "lib/base/digits.h"
#include "lib/base/status.h"
#include "lib/base/this_process.h"
#include "lib/base/whole_file.h"
#include "lib/log/log.h"

namespace muster::coordinator {
namespace {

// Another cluster may have had the folder before, and its terms say nothing of ours.
constexpr absl::string_view kClaims = ".term-";
std::string ClaimPrefix(const std::string& cluster) { return absl::StrCat(kClaims, cluster, "-"); }

// Whole from the first moment, and never in the place of another's: of two that come at once, one
// stays. False: it was there. `own`: a name that nobody else uses.
absl::StatusOr<bool> MakeOnce(const std::string& file, const std::string& own,
                              const std::string& text) {
  MUSTER_RETURN_IF_ERROR(ReplaceFile(own, text + "\n"));
  const int linked = link(own.c_str(), file.c_str());
  const int error = errno;
  unlink(own.c_str());
  if (linked != 0 && error != EEXIST) return FileError(error, "create", file);
  MUSTER_RETURN_IF_ERROR(SyncDirectory(file.substr(0, file.rfind('/'))));
  return linked == 0;
}

// The files of all terms that were claimed, and not taken away since.
absl::StatusOr<std::map<TermNumber, std::string>> ClaimsIn(const std::string& path,
                                                           const std::string& cluster) {
  const std::string prefix = ClaimPrefix(cluster);
  std::map<TermNumber, std::string> claims;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    int64_t term = 0;
    if (absl::StartsWith(name, prefix) && ParseDigits(name.substr(prefix.size()), &term))
      claims[TermNumber(term)] = absl::StrCat(path, "/", name);
  }
  if (error) return ReadError(error.value(), "read", path);
  return claims;
}

absl::Status OlderCopy(TermNumber term, TermNumber claimed, const std::string& file) {
  return absl::DataLossError(absl::StrCat(
      "a coordinator of term ", claimed.value(), " of this cluster has used this folder, and this ",
      "journal, which begins term ", term.value(),
      ", does not know of it: it is an older copy. Start the coordinator ",
      "where the newest one is; or, where that is lost, delete ", file,
      ", to go on from this copy and lose what was decided since"));
}

// The latest of these claims is none of our journal. What it says is read only where its term does
// not tell.
absl::StatusOr<bool> LatestIsOfAnother(const std::map<TermNumber, std::string>& claims,
                                       const std::string& ours) {
  if (claims.empty()) return false;
  const auto& [term, file] = *claims.rbegin();
  if (term != TermOfClaim(ours)) return IsOfAnother(ClaimOf(term, ""), ours);
  MUSTER_ASSIGN_OR_RETURN(const std::string there, ReadWholeFile(file));
  return IsOfAnother(std::string(absl::StripAsciiWhitespace(there)), ours);
}

// Looks once more when the claim stands: of two that claim at once, the later one stays, because it
// sees the earlier one's claim or is seen by it.
absl::Status ClaimTerm(const std::string& path, const std::string& cluster, TermNumber term,
                       const std::string& claimed,
                       const std::function<absl::Status(const std::string&)>& note) {
  MUSTER_ASSIGN_OR_RETURN(auto claims, ClaimsIn(path, cluster));
  MUSTER_ASSIGN_OR_RETURN(const bool is_older, LatestIsOfAnother(claims, claimed));
  if (is_older) return OlderCopy(term, claims.rbegin()->first, claims.rbegin()->second);
  const std::string token = ToHex(DrawIncarnation());
  const std::string claim = ClaimOf(term, token);
  MUSTER_RETURN_IF_ERROR(note(claim));
  const std::string file = absl::StrCat(path, "/", ClaimPrefix(cluster), term.value());
  MUSTER_ASSIGN_OR_RETURN(const bool made,
                          MakeOnce(file, absl::StrCat(path, "/.claim-", token), claim));
  if (!made) return OlderCopy(term, term, file);
  MUSTER_ASSIGN_OR_RETURN(claims, ClaimsIn(path, cluster));
  if (!claims.empty() && IsReplaced(claims.rbegin()->first, term))
    return OlderCopy(term, claims.rbegin()->first, claims.rbegin()->second);
  for (const auto& [earlier, of_earlier] : claims)
    if (earlier < term) unlink(of_earlier.c_str());  // one that stays changes nothing
  return absl::OkStatus();
}

std::string OwnerFileOf(const std::string& path) { return path + "/.owner"; }

absl::StatusOr<std::string> OwnerIn(const std::string& file) {
  MUSTER_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(file));
  const std::string owner(absl::StripAsciiWhitespace(text));
  if (owner.empty())
    return absl::DataLossError(absl::StrCat(
        "'", file, "' names no cluster: delete it if no other cluster has its checkpoints there"));
  return owner;
}

}  // namespace

absl::StatusOr<CheckpointRoot> CheckpointRoot::Take(
    const std::string& path, const std::string& cluster, TermNumber term,
    const std::string& claimed, const std::function<absl::Status(const std::string&)>& note) {
  const std::string file = OwnerFileOf(path);
  if (access(file.c_str(), F_OK) != 0)
    MUSTER_RETURN_IF_ERROR(MakeOnce(file, absl::StrCat(file, ".", cluster), cluster).status());
  MUSTER_ASSIGN_OR_RETURN(const std::string owner, OwnerIn(file));
  if (owner != cluster)
    return absl::FailedPreconditionError(absl::StrCat(
        path, " holds the checkpoints of cluster ", owner, ", and this one is cluster ", cluster,
        ", which would delete them: name another directory; or, where cluster ", owner,
        " is gone for good, delete ", file));
  MUSTER_ASSIGN_OR_RETURN(Descriptor opened, OpenRegularFile(file, O_RDWR));
  CheckpointRoot root(path, cluster, term, std::move(opened));
  const bool locked = flock(root.lock_.get(), LOCK_EX | LOCK_NB) == 0;
  if (!locked && errno == EWOULDBLOCK)
    return absl::AlreadyExistsError(
        absl::StrCat(path,
                     " is in use by another coordinator of the same cluster, which works on a copy "
                     "of this journal; stop that one, or name another directory; or, where muster "
                     "checkpoints delete is at work there, start again when it is done"));
  if (!locked)
    LogWarning("%s cannot be locked; see that no copy of this coordinator uses it", path);
  MUSTER_RETURN_IF_ERROR(ClaimTerm(path, cluster, term, claimed, note));
  return root;
}

absl::Status CheckpointRoot::CheckClaim() const {
  MUSTER_ASSIGN_OR_RETURN(const auto claims, ClaimsIn(path_, cluster_));
  if (claims.empty() || !IsReplaced(claims.rbegin()->first, term_)) {
    // It may be gone, or belong to somebody who may alone: then nobody takes it for young.
    if (!claims.empty())
      utimensat(AT_FDCWD, claims.rbegin()->second.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
    return absl::OkStatus();
  }
  return absl::AbortedError(absl::StrCat(
      "this coordinator, of term ", term_.value(), ", has been replaced by one of term ",
      claims.rbegin()->first.value(), ", which has claimed ", path_));
}

absl::Status CheckNobodyLives(const std::string& path, const std::string& cluster) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    struct stat there {};
    const bool is_own = !cluster.empty() && absl::StartsWith(name, ClaimPrefix(cluster));
    if (!absl::StartsWith(name, kClaims) || is_own || lstat(entry->path().c_str(), &there) != 0)
      continue;
    const absl::Duration age =
        absl::AbsDuration(absl::Now() - absl::TimeFromTimespec(there.st_mtim));
    if (age < absl::FromChrono(kYoungClaim))
      return absl::FailedPreconditionError(absl::StrCat(
          path, " belongs to a cluster that lives: its coordinator renewed its claim, ", name, ", ",
          absl::ToInt64Seconds(age), " s ago. End that coordinator first, as with Ctrl-C where ",
          "muster up runs; a minute after its end the claim is old"));
  }
  return absl::OkStatus();  // whoever reads the folder finds out what is wrong with it
}

absl::StatusOr<Descriptor> HoldAtRest(const std::string& path) {
  const std::string file = OwnerFileOf(path);
  Descriptor lock;
  if (access(file.c_str(), F_OK) == 0) {
    // Shared, as several may do so at once, and for reading, as the file may be somebody else's.
    MUSTER_ASSIGN_OR_RETURN(lock, OpenRegularFile(file, O_RDONLY));
    if (flock(lock.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK)
      return absl::FailedPreconditionError(
          absl::StrCat(path, " belongs to cluster ", OwnerIn(file).value_or("of no name"),
                       ", whose coordinator works there now and counts on its checkpoints. End "
                       "that coordinator ",
                       "first, as with Ctrl-C where muster up or muster train runs"));
  }
  MUSTER_RETURN_IF_ERROR(CheckNobodyLives(path, ""));
  return lock;
}

}  // namespace muster::coordinator
