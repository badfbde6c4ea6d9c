#include "coordinator/runtime/checkpoint_root.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
#include "lib/log/log.h"

namespace muster::coordinator {
namespace {

// Whole from the first moment, and never in the place of another's: of two that come at once, one
// stays.
absl::Status MakeOwnerFile(const std::string& file, const std::string& cluster) {
  const std::string own = absl::StrCat(file, ".", cluster);
  MUSTER_RETURN_IF_ERROR(ReplaceFile(own, cluster + "\n"));
  const int linked = link(own.c_str(), file.c_str());
  const int error = errno;
  unlink(own.c_str());
  if (linked != 0 && error != EEXIST) return FileError(error, "create", file);
  return SyncDirectory(file.substr(0, file.rfind('/')));
}

absl::StatusOr<std::string> OwnerIn(const std::string& file) {
  MUSTER_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(file));
  const std::string owner(absl::StripAsciiWhitespace(text));
  if (owner.empty())
    return absl::DataLossError(absl::StrCat(
        "'", file, "' names no cluster: delete it if no other cluster has its checkpoints there"));
  return owner;
}

}  // namespace

absl::StatusOr<CheckpointRoot> CheckpointRoot::Take(const std::string& path,
                                                    const std::string& cluster) {
  const std::string file = path + "/.owner";
  if (access(file.c_str(), F_OK) != 0) MUSTER_RETURN_IF_ERROR(MakeOwnerFile(file, cluster));
  MUSTER_ASSIGN_OR_RETURN(const std::string owner, OwnerIn(file));
  if (owner != cluster)
    return absl::FailedPreconditionError(absl::StrCat(
        path, " holds the checkpoints of cluster ", owner, ", and this one is cluster ", cluster,
        ", which would delete them: name another directory; or, where cluster ", owner,
        " is gone for good, delete ", file));
  MUSTER_ASSIGN_OR_RETURN(Descriptor opened, OpenRegularFile(file, O_RDWR));
  CheckpointRoot root(std::move(opened));
  if (flock(root.lock_.get(), LOCK_EX | LOCK_NB) == 0) return root;
  if (errno == EWOULDBLOCK)
    return absl::AlreadyExistsError(
        absl::StrCat(path,
                     " is in use by another coordinator of the same cluster, which works on a copy "
                     "of this journal; stop that one, or name another directory"));
  LogWarning("%s cannot be locked; see that no copy of this coordinator uses it", path);
  return root;
}

}  // namespace muster::coordinator
