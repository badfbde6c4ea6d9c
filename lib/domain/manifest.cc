#include "lib/domain/manifest.h"

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "lib/base/plural.h"
#include "lib/base/status.h"

namespace muster {
namespace {

constexpr size_t kMaxNameBytes = 200;

bool IsSafePart(absl::string_view part) {
  if (part.empty() || part.size() > kMaxNameBytes || part[0] == '.') return false;
  for (char c : part) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_' && c != '-')
      return false;
  }
  return true;
}

absl::Status Wrong(const Segment& segment, const SegmentEntry& entry, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("segment '", segment.file, "', slot ", entry.slot,
                                                 ", chunk ", entry.chunk.value(), ": ", what));
}

// The number of (slot, chunk) before this one in (slot, chunk) order; the entry's slot and chunk
// are in range.
size_t PartIndex(const Layout& layout, const SegmentEntry& entry) {
  const auto chunk = static_cast<size_t>(entry.chunk.value());
  if (entry.slot == kValuesSlot) return chunk;
  return static_cast<size_t>(layout.chunk_count()) +
         static_cast<size_t>(entry.slot - 1) * static_cast<size_t>(layout.parameter_chunk_count()) +
         chunk;
}

absl::Status CheckEntry(const Segment& segment, const SegmentEntry& entry, const Layout& layout,
                        int32_t slots) {
  if (entry.slot < 0 || entry.slot > slots) return Wrong(segment, entry, "there is no such slot");
  const int32_t chunks =
      entry.slot == kValuesSlot ? layout.chunk_count() : layout.parameter_chunk_count();
  if (entry.chunk.value() < 0 || entry.chunk.value() >= chunks)
    return Wrong(segment, entry, "the slot has no such chunk");
  const uint64_t wanted = 4 * static_cast<uint64_t>(layout.chunk(entry.chunk).count);
  if (entry.bytes != wanted)
    return Wrong(
        segment, entry,
        absl::StrCat(Plural(static_cast<int64_t>(entry.bytes), "byte"),
                     entry.bytes == 1 ? " is" : " are", " recorded, the chunk has ", wanted));
  if (entry.offset_in_file > segment.bytes || entry.bytes > segment.bytes - entry.offset_in_file)
    return Wrong(segment, entry, "lies outside its file");
  return absl::OkStatus();
}

absl::Status CheckSameLayout(const Manifest& manifest, const Layout& layout, int32_t slots) {
  if (manifest.slots != slots)
    return absl::FailedPreconditionError(absl::StrCat("the checkpoint has ", manifest.slots,
                                                      " optimizer slots, ", slots,
                                                      " are wanted: the optimizer is another"));
  MUSTER_ASSIGN_OR_RETURN(const Layout own, LayoutOf(manifest));
  if (own.Hash() != layout.Hash())
    return absl::FailedPreconditionError(
        "the checkpoint is of another model: names, shapes or chunk_bytes of the tensors differ");
  return absl::OkStatus();
}

}  // namespace

bool IsSafeRelativeName(absl::string_view name) {
  const size_t slash = name.find('/');
  if (slash == absl::string_view::npos) return IsSafePart(name);
  return IsSafePart(name.substr(0, slash)) && IsSafePart(name.substr(slash + 1));
}

absl::StatusOr<Layout> LayoutOf(const Manifest& manifest) {
  return Layout::Make(manifest.tensors, manifest.chunk_bytes);
}

std::string Describe(const Manifest& manifest) {
  return absl::StrCat("lineage ", manifest.lineage.value(), ", step ", manifest.step.value());
}

StepTally TallyOf(const Manifest& manifest) { return {manifest.skipped, manifest.left_out}; }

bool IsFinite(const Manifest& manifest) {
  return std::all_of(manifest.segments.begin(), manifest.segments.end(),
                     [](const Segment& segment) { return segment.finite; });
}

std::vector<bool> Kept(const std::vector<Manifest>& manifests, const KeepRule& rule) {
  const auto keep = static_cast<size_t>(std::max(1, rule.last));
  std::vector<bool> kept(manifests.size(), false);
  bool finite = false;
  std::set<Step> newer;  // a job that went on from one of these has saved the same state again
  for (size_t i = manifests.size(); i-- > 0;) {
    const bool newest_finite = !finite && IsFinite(manifests[i]);
    finite = finite || newest_finite;
    kept[i] = newest_finite || manifests.size() - i <= keep;
    for (const int64_t period : {rule.every, rule.epochs})
      if (period > 0 && manifests[i].step.value() % period == 0 &&
          !newer.contains(manifests[i].step))
        kept[i] = true;
    newer.insert(manifests[i].step);
  }
  return kept;
}

absl::Status CheckComplete(const Manifest& manifest, const Layout& layout, int32_t slots) {
  if (manifest.job.empty()) return absl::InvalidArgumentError("the manifest names no job");
  if (slots < 0 || slots > kMaxOptimizerSlots)
    return absl::InvalidArgumentError(
        absl::StrCat(slots, " optimizer slots: 0 … ", kMaxOptimizerSlots, " are allowed"));
  MUSTER_RETURN_IF_ERROR(CheckSameLayout(manifest, layout, slots));
  const size_t parts =
      static_cast<size_t>(layout.chunk_count()) +
      static_cast<size_t>(slots) * static_cast<size_t>(layout.parameter_chunk_count());
  std::vector<bool> present(parts);
  std::set<absl::string_view> files;
  size_t found = 0;
  uint64_t total = 0;
  for (const Segment& segment : manifest.segments) {
    if (!IsSafeRelativeName(segment.file))
      return absl::InvalidArgumentError(
          absl::StrCat("segment '", segment.file, "': not a safe file name"));
    if (!files.insert(segment.file).second)
      return absl::InvalidArgumentError(
          absl::StrCat("segment '", segment.file, "' is named twice"));
    for (const SegmentEntry& entry : segment.entries) {
      MUSTER_RETURN_IF_ERROR(CheckEntry(segment, entry, layout, slots));
      const size_t index = PartIndex(layout, entry);
      if (present[index]) return Wrong(segment, entry, "is there twice");
      present[index] = true;
      ++found;
    }
    total += segment.bytes;
  }
  if (found != parts)
    return absl::InvalidArgumentError(absl::StrCat(Describe(manifest), ": ", parts - found, " of ",
                                                   parts, " parts (slot, chunk) are missing"));
  if (total != manifest.total_bytes)
    return absl::InvalidArgumentError(absl::StrCat(Describe(manifest), ": total_bytes is ",
                                                   manifest.total_bytes, ", the segments have ",
                                                   total));
  return absl::OkStatus();
}

}  // namespace muster
