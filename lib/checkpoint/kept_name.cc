#include "lib/checkpoint/kept_name.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/checkpoint/checked_line.h"
#include "lib/checkpoint/manifest_file.h"
#include "lib/checkpoint/segment.h"
#include "lib/domain/labels.h"

namespace muster {
namespace {

constexpr size_t kMostBytes = 63 + kCheckedLineBytes;

}  // namespace

std::string KeptFileOf(LineageNumber lineage, Step step) {
  return absl::StrCat(CheckpointFolder(lineage, step), "/", kKeptFile);
}

std::string GoingFileOf(LineageNumber lineage, Step step) {
  return absl::StrCat(CheckpointFolder(lineage, step), "/", kGoingFile);
}

absl::StatusOr<std::string> ReadKeptName(const CheckpointFiles& files, LineageNumber lineage,
                                         Step step) {
  const std::string file = KeptFileOf(lineage, step);
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointFile> in, files.Open(file));
  std::string text(std::min<uint64_t>(in->size(), kMostBytes + 1), '\0');
  MUSTER_RETURN_IF_ERROR(in->ReadAt(0, text.data(), text.size()));
  std::optional<std::string> name = ReadCheckedLine(text);
  if (name && IsKeptName(*name)) return *std::move(name);
  return absl::DataLossError(absl::StrCat("'", files.PathOf(file),
                                          "' holds no name of a checkpoint, or a damaged one; "
                                          "write it anew by muster checkpoints keep"));
}

absl::Status WriteKeptName(CheckpointFiles& files, LineageNumber lineage, Step step,
                           const std::string& name) {
  if (!IsNewKeptName(name))
    return absl::InvalidArgumentError(absl::StrCat(
        "'", Cut(Printable(name)), "' is no name of a checkpoint; allowed: ", kNewKeptNameRule));
  return files.Replace(KeptFileOf(lineage, step), CheckedLine(name));
}

// One that has a name stays as long as it has one, so another name for it needs no look.
absl::Status KeepCheckpoint(CheckpointFiles& files, LineageNumber lineage, Step step,
                            const std::string& name) {
  MUSTER_ASSIGN_OR_RETURN(const bool had_name, IsKept(files, lineage, step));
  MUSTER_RETURN_IF_ERROR(WriteKeptName(files, lineage, step, name));
  if (had_name) return absl::OkStatus();
  const absl::Status going = files.Open(GoingFileOf(lineage, step)).status();
  // The manifest goes before the file that says so.
  const absl::Status there = files.Open(ManifestFileOf(lineage, step)).status();
  if (absl::IsNotFound(going) && there.ok()) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(files.Remove(KeptFileOf(lineage, step)));
  files.RemoveFolder(CheckpointFolder(lineage, step));
  if (absl::IsNotFound(going) && !absl::IsNotFound(there)) return there;
  return absl::NotFoundError(absl::StrCat("the checkpoint of step ", step.value(),
                                          " is being removed, or was just now, as newer ones have "
                                          "taken its place"));
}

// On a full disk nobody can write a name, either, and what is old has to go there all the more.
absl::StatusOr<bool> MayGoUnnamed(CheckpointFiles& files, LineageNumber lineage, Step step) {
  const std::string going = GoingFileOf(lineage, step);
  const absl::Status told = files.Replace(going, "");
  if (!told.ok() && !absl::IsResourceExhausted(told) && !absl::IsNotFound(told)) return told;
  MUSTER_ASSIGN_OR_RETURN(const bool has_name, IsKept(files, lineage, step));
  if (has_name) MUSTER_RETURN_IF_ERROR(files.Remove(going));
  return !has_name;
}

absl::StatusOr<bool> IsKept(const CheckpointFiles& files, LineageNumber lineage, Step step) {
  const absl::Status opened = files.Open(KeptFileOf(lineage, step)).status();
  if (absl::IsUnavailable(opened)) return opened;
  return !absl::IsNotFound(opened);
}

}  // namespace muster
