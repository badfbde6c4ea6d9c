#include "lib/spool/state/folder_order.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster {

absl::StatusOr<uint64_t> SamplesOfFile(const std::string& path, const FileIdentity& identity,
                                       uint64_t sample_bytes) {
  if (identity.bytes % sample_bytes != 0)
    return absl::DataLossError(
        absl::StrCat(path, ": it has ", identity.bytes, " bytes, which are no whole samples of ",
                     sample_bytes, "; write a file elsewhere and rename it into the folder"));
  return identity.bytes / sample_bytes;
}

absl::Status CheckTaken(const std::string& path, const FileIdentity& identity,
                        const StreamPlace& place) {
  if (identity.changed <= place.seen) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(path, ": it has come, or was changed, after '", place.file,
                   "' was taken, and files are taken in the order of their names; remove it, or "
                   "give it a name behind that one"));
}

absl::Status FolderOrder::See(const std::string& folder, std::vector<std::string> names) {
  before_ = std::move(names_);
  names_ = std::move(names);
  const bool is_first = !std::exchange(has_seen_, true);
  if (is_first) return absl::OkStatus();
  for (const std::string& name : names_) {
    if (name == kStreamEndName) continue;
    if (name >= last_) break;
    if (HadBefore(name)) continue;
    return absl::DataLossError(
        absl::StrCat(folder, "/", name, ": it came after '", last_,
                     "' was taken, and files are taken in the order of their names; remove it, or "
                     "give it a name behind that one"));
  }
  return absl::OkStatus();
}

bool FolderOrder::HadBefore(const std::string& name) const {
  return std::binary_search(before_.begin(), before_.end(), name);
}

FolderStep FolderOrder::Next(std::string& name) const {
  if (!has_seen_) return FolderStep::kLookAgain;
  auto next = std::upper_bound(names_.begin(), names_.end(), last_);
  if (next != names_.end() && *next == kStreamEndName) ++next;
  if (next == names_.end()) {
    if (!std::binary_search(names_.begin(), names_.end(), kStreamEndName)) return FolderStep::kWait;
    return HadBefore(kStreamEndName) ? FolderStep::kEnd : FolderStep::kLookAgain;
  }
  if (!HadBefore(*next)) return FolderStep::kLookAgain;
  name = *next;
  return FolderStep::kTake;
}

}  // namespace muster
