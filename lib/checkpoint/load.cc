#include "lib/checkpoint/load.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_join.h"
#include "lib/base/check.h"
#include "lib/base/status.h"

namespace muster {
namespace {

template <class Part, class Spans>
std::vector<Part> CutParts(const Layout& layout, const Spans& state) {
  std::vector<Part> parts;
  for (size_t slot = 0; slot < state.size(); ++slot) {
    const int32_t chunks = slot == 0 ? layout.chunk_count() : layout.parameter_chunk_count();
    const int64_t elements = slot == 0 ? layout.elements() : layout.parameter_elements();
    MUSTER_CHECK(state[slot].size() == static_cast<size_t>(elements),
                 "a span of the state has the wrong size");
    for (ChunkId c{0}; c.value() < chunks; ++c) {
      const Chunk& chunk = layout.chunk(c);
      parts.push_back({static_cast<int32_t>(slot), c,
                       state[slot].subspan(static_cast<size_t>(chunk.offset),
                                           static_cast<size_t>(chunk.count))});
    }
  }
  return parts;
}

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

absl::Status DamagedAll(const std::vector<std::string>& skipped) {
  return absl::DataLossError(absl::StrCat("no checkpoint is whole; start anew with resume: never. ",
                                          absl::StrJoin(skipped, "; ")));
}

// Another model or a directory that cannot be read: going back to an older checkpoint is no answer.
bool IsNoDamage(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsPermissionDenied(status);
}

}  // namespace

std::vector<PartView> PartViews(const Layout& layout, const ConstStateSpans& state) {
  return CutParts<PartView>(layout, state);
}
std::vector<PartDest> PartDests(const Layout& layout, const StateSpans& state) {
  return CutParts<PartDest>(layout, state);
}

absl::Status LoadParts(const std::string& dir, const Manifest& manifest, const Layout& layout,
                       absl::Span<const PartDest> parts, const std::function<void()>& after_each) {
  MUSTER_RETURN_IF_ERROR(CheckComplete(manifest, layout, manifest.slots));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::vector<Reading>> readings,
                          PlanReadings(manifest, parts));
  for (size_t i = 0; i < readings.size(); ++i) {
    if (readings[i].empty()) continue;
    MUSTER_ASSIGN_OR_RETURN(const SegmentReader reader,
                            SegmentReader::Open(dir, manifest.segments[i], MetaOf(manifest)));
    for (const Reading& reading : readings[i]) {
      MUSTER_RETURN_IF_ERROR(reader.Read(*reading.entry, reading.values));
      if (after_each) after_each();
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Loaded> LoadFirstWhole(const std::string& dir, absl::Span<const Manifest> candidates,
                                      const Layout& layout, const StateSpans& destination) {
  if (candidates.empty()) return absl::NotFoundError("there is no checkpoint");
  MUSTER_CHECK(!destination.empty(), "the destination has no values");
  const std::vector<PartDest> parts = PartDests(layout, destination);
  const auto slots = static_cast<int32_t>(destination.size() - 1);
  std::vector<std::string> skipped;
  for (const Manifest& manifest : candidates) {
    absl::Status status = CheckComplete(manifest, layout, slots);
    if (status.ok()) status = LoadParts(dir, manifest, layout, parts);
    if (IsNoDamage(status)) {
      return Prefix(absl::StrCat("checkpoint of ", Describe(manifest)), status);
    }
    if (status.ok()) return Loaded{manifest, std::move(skipped)};
    skipped.push_back(absl::StrCat("checkpoint of ", Describe(manifest), ": ", status.message()));
  }
  return DamagedAll(skipped);
}

absl::StatusOr<Loaded> LoadNewest(const Catalogue& catalogue, const std::string& dir,
                                  const std::string& job, const Allowed& allowed,
                                  const Layout& layout, const StateSpans& destination) {
  MUSTER_ASSIGN_OR_RETURN(Catalogue::Listing listing, catalogue.List(job));
  std::vector<Manifest> candidates;
  for (auto manifest = listing.manifests.rbegin(); manifest != listing.manifests.rend();
       ++manifest) {
    if (allowed(manifest->lineage, manifest->step)) candidates.push_back(std::move(*manifest));
  }
  if (candidates.empty() && !listing.damaged.empty()) return DamagedAll(listing.damaged);
  MUSTER_ASSIGN_OR_RETURN(Loaded loaded, LoadFirstWhole(dir, candidates, layout, destination));
  loaded.skipped.insert(loaded.skipped.begin(), listing.damaged.begin(), listing.damaged.end());
  return loaded;
}

absl::Status Verify(const std::string& dir, const Manifest& manifest) {
  MUSTER_ASSIGN_OR_RETURN(const Layout layout, LayoutOf(manifest));
  MUSTER_RETURN_IF_ERROR(CheckComplete(manifest, layout, manifest.slots));
  std::vector<float> scratch(kMaxChunkBytes / sizeof(float));
  for (const Segment& segment : manifest.segments) {
    MUSTER_ASSIGN_OR_RETURN(const SegmentReader reader,
                            SegmentReader::Open(dir, segment, MetaOf(manifest)));
    for (const SegmentEntry& entry : segment.entries)
      MUSTER_RETURN_IF_ERROR(
          reader.Read(entry, absl::MakeSpan(scratch).first(entry.bytes / sizeof(float))));
  }
  return absl::OkStatus();
}

}  // namespace muster
