#include "lib/checkpoint/kept_name.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "lib/base/status.h"
#include "lib/checkpoint/segment.h"
#include "lib/domain/labels.h"

namespace muster {
namespace {

constexpr size_t kMostBytes = 64;  // with the line feed

}  // namespace

std::string KeptFileOf(LineageNumber lineage, Step step) {
  return absl::StrCat(CheckpointFolder(lineage, step), "/", kKeptFile);
}

absl::StatusOr<std::string> ReadKeptName(const CheckpointFiles& files, LineageNumber lineage,
                                         Step step) {
  const std::string file = KeptFileOf(lineage, step);
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointFile> in, files.Open(file));
  std::string text(std::min<uint64_t>(in->size(), kMostBytes + 1), '\0');
  MUSTER_RETURN_IF_ERROR(in->ReadAt(0, text.data(), text.size()));
  const absl::string_view name = absl::StripSuffix(text, "\n");
  if (IsKeptName(name)) return std::string(name);
  return absl::DataLossError(absl::StrCat("'", files.PathOf(file),
                                          "' holds no name of a checkpoint; write it anew by "
                                          "muster checkpoints keep"));
}

absl::Status WriteKeptName(CheckpointFiles& files, LineageNumber lineage, Step step,
                           const std::string& name) {
  if (!IsKeptName(name))
    return absl::InvalidArgumentError(absl::StrCat("'", name,
                                                   "' is no name of a checkpoint; "
                                                   "allowed: ",
                                                   kKeptNameRule));
  return files.Replace(KeptFileOf(lineage, step), name + "\n");
}

absl::StatusOr<bool> IsKept(const CheckpointFiles& files, LineageNumber lineage, Step step) {
  const absl::Status opened = files.Open(KeptFileOf(lineage, step)).status();
  if (absl::IsUnavailable(opened)) return opened;
  return !absl::IsNotFound(opened);
}

}  // namespace muster
