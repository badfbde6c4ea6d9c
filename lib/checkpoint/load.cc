#include "lib/checkpoint/load.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/status.h"

namespace muster {
namespace {

using PartKey = std::pair<int32_t, ChunkId>;

// The parts wanted from one segment.
struct Reading {
  const SegmentEntry* entry = nullptr;
  absl::Span<float> values;
};

SegmentMeta MetaOf(const Manifest& manifest) {
  return {manifest.job, manifest.lineage, manifest.step};
}

absl::StatusOr<std::vector<std::vector<Reading>>> PlanReadings(const Manifest& manifest,
                                                               absl::Span<const PartDest> parts) {
  std::map<PartKey, absl::Span<float>> wanted;
  for (const PartDest& part : parts) {
    if (!wanted.emplace(PartKey(part.slot, part.chunk), part.values).second)
      return absl::InvalidArgumentError(
          absl::StrCat("slot ", part.slot, ", chunk ", part.chunk.value(), ": is wanted twice"));
  }
  std::vector<std::vector<Reading>> readings(manifest.segments.size());
  size_t found = 0;
  for (size_t i = 0; i < manifest.segments.size(); ++i) {
    for (const SegmentEntry& entry : manifest.segments[i].entries) {
      const auto it = wanted.find({entry.slot, entry.chunk});
      if (it == wanted.end()) continue;
      readings[i].push_back({&entry, it->second});
      ++found;
    }
  }
  if (found != wanted.size())
    return absl::InvalidArgumentError(absl::StrCat(Describe(manifest), ": ", wanted.size() - found,
                                                   " of the wanted parts do not exist"));
  return readings;
}

}  // namespace

absl::Status LoadParts(const CheckpointFiles& files, const Manifest& manifest, const Layout& layout,
                       absl::Span<const PartDest> parts, const std::function<void()>& after_each) {
  MUSTER_RETURN_IF_ERROR(CheckComplete(manifest, layout, manifest.slots));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::vector<Reading>> readings,
                          PlanReadings(manifest, parts));
  for (size_t i = 0; i < readings.size(); ++i) {
    if (readings[i].empty()) continue;
    MUSTER_ASSIGN_OR_RETURN(const SegmentReader reader,
                            SegmentReader::Open(files, manifest.segments[i], MetaOf(manifest)));
    for (const Reading& reading : readings[i]) {
      MUSTER_RETURN_IF_ERROR(reader.Read(*reading.entry, reading.values));
      if (after_each) after_each();
    }
  }
  return absl::OkStatus();
}

}  // namespace muster
