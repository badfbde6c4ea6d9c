#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "lib/base/bytes.h"
#include "lib/base/status.h"
#include "lib/checkpoint/load.h"
#include "lib/kernels/sha256.h"

namespace muster {
namespace {

// A run of one tensor's elements inside one chunk of one slot.
struct Run {
  int32_t slot = kValuesSlot;
  ChunkId chunk{0};
  int64_t first = 0;  // element of the chunk
  int64_t count = 0;
};

std::vector<const Placed*> ByName(const Layout& layout) {
  std::vector<const Placed*> tensors;
  for (const Placed& tensor : layout.tensors()) tensors.push_back(&tensor);
  std::sort(tensors.begin(), tensors.end(),
            [](const Placed* a, const Placed* b) { return a->spec.name < b->spec.name; });
  return tensors;
}

// The first chunk that ends behind the element; chunks ascend and cover the space.
ChunkId ChunkAt(const Layout& layout, int64_t element) {
  const auto& chunks = layout.chunks();
  const auto it = std::upper_bound(
      chunks.begin(), chunks.end(), element,
      [](int64_t at, const Chunk& chunk) { return at < chunk.offset + chunk.count; });
  return ChunkId(static_cast<int32_t>(it - chunks.begin()));
}

void AppendRuns(const Layout& layout, int32_t slot, const Placed& tensor, std::vector<Run>& runs) {
  const int64_t end = tensor.offset + tensor.count;
  ChunkId c = ChunkAt(layout, tensor.offset);
  for (int64_t at = tensor.offset; at < end; ++c) {
    const Chunk& chunk = layout.chunk(c);
    const int64_t count = std::min(end, chunk.offset + chunk.count) - at;
    runs.push_back({slot, c, at - chunk.offset, count});
    at += count;
  }
}

// What the digest goes over, in its order.
std::vector<Run> PlanDigest(const Layout& layout, int32_t slots) {
  const std::vector<const Placed*> tensors = ByName(layout);
  std::vector<Run> runs;
  for (int32_t slot = 0; slot <= slots; ++slot) {
    for (const Placed* tensor : tensors) {
      if (slot == kValuesSlot || tensor->spec.kind == TensorKind::kParameter)
        AppendRuns(layout, slot, *tensor, runs);
    }
  }
  return runs;
}

// Chunks of a checkpoint, one in memory at a time and one file open.
class ChunkSource {
 public:
  ChunkSource(const CheckpointFiles& files, const Manifest& manifest)
      : files_(files), manifest_(manifest) {
    for (size_t i = 0; i < manifest.segments.size(); ++i) {
      for (const SegmentEntry& entry : manifest.segments[i].entries)
        places_[{entry.slot, entry.chunk}] = {i, &entry};
    }
  }

  // Valid until the next call. The part exists: the manifest is complete.
  absl::StatusOr<absl::Span<const float>> Get(int32_t slot, ChunkId chunk) {
    if (const Key key(slot, chunk); key != held_) {
      const Place& place = places_.at(key);
      MUSTER_RETURN_IF_ERROR(OpenSegment(place.segment));
      held_ = kNothing;
      values_.resize(place.entry->bytes / sizeof(float));
      MUSTER_RETURN_IF_ERROR(reader_->Read(*place.entry, absl::MakeSpan(values_)));
      held_ = key;
    }
    return absl::MakeConstSpan(values_);
  }

 private:
  using Key = std::pair<int32_t, ChunkId>;
  struct Place {
    size_t segment = 0;
    const SegmentEntry* entry = nullptr;
  };
  static constexpr Key kNothing{-1, ChunkId(-1)};

  absl::Status OpenSegment(size_t segment) {
    if (reader_ && open_segment_ == segment) return absl::OkStatus();
    MUSTER_ASSIGN_OR_RETURN(
        reader_, SegmentReader::Open(files_, manifest_.segments[segment],
                                     {manifest_.job, manifest_.lineage, manifest_.step}));
    open_segment_ = segment;
    return absl::OkStatus();
  }

  const CheckpointFiles& files_;
  const Manifest& manifest_;
  std::map<Key, Place> places_;
  std::optional<SegmentReader> reader_;
  size_t open_segment_ = 0;
  Key held_ = kNothing;
  std::vector<float> values_;
};

}  // namespace

absl::StatusOr<std::string> Digest(const CheckpointFiles& files, const Manifest& manifest,
                                   const std::stop_token& stop) {
  MUSTER_ASSIGN_OR_RETURN(const Layout layout, LayoutOf(manifest));
  MUSTER_RETURN_IF_ERROR(CheckComplete(manifest, layout, manifest.slots));
  ChunkSource source(files, manifest);
  Sha256 sha;
  for (const Run& run : PlanDigest(layout, manifest.slots)) {
    if (stop.stop_requested()) return absl::CancelledError("the digest was stopped");
    MUSTER_ASSIGN_OR_RETURN(const absl::Span<const float> chunk, source.Get(run.slot, run.chunk));
    sha.Update(
        BytesOf(chunk.subspan(static_cast<size_t>(run.first), static_cast<size_t>(run.count))));
  }
  return sha.HexFinish();
}

}  // namespace muster
