#include "lib/checkpoint/tensor_reader.h"

#include <algorithm>

#include "lib/base/status.h"

namespace muster {
namespace {

// The first chunk that ends behind the element; chunks ascend and cover the space.
ChunkId ChunkAt(const Layout& layout, int64_t element) {
  const auto& chunks = layout.chunks();
  const auto it = std::upper_bound(
      chunks.begin(), chunks.end(), element,
      [](int64_t at, const Chunk& chunk) { return at < chunk.offset + chunk.count; });
  return ChunkId(static_cast<int32_t>(it - chunks.begin()));
}

}  // namespace

absl::StatusOr<TensorReader> TensorReader::Open(const CheckpointFiles& files,
                                                const Manifest& manifest) {
  MUSTER_ASSIGN_OR_RETURN(Layout layout, LayoutOf(manifest));
  MUSTER_RETURN_IF_ERROR(CheckComplete(manifest, layout, manifest.slots));
  return TensorReader(files, manifest, std::move(layout));
}

TensorReader::TensorReader(const CheckpointFiles& files, const Manifest& manifest, Layout layout)
    : files_(&files), manifest_(&manifest), layout_(std::move(layout)) {
  for (size_t i = 0; i < manifest.segments.size(); ++i)
    for (const SegmentEntry& entry : manifest.segments[i].entries)
      places_[{entry.slot, entry.chunk}] = {i, &entry};
}

absl::Status TensorReader::Read(const Placed& tensor, int32_t slot, const Take& take) {
  const int64_t end = tensor.offset + tensor.count;
  ChunkId c = ChunkAt(layout_, tensor.offset);
  for (int64_t at = tensor.offset; at < end; ++c) {
    const Chunk& chunk = layout_.chunk(c);
    const int64_t count = std::min(end, chunk.offset + chunk.count) - at;
    MUSTER_ASSIGN_OR_RETURN(const absl::Span<const float> values, Get(slot, c));
    MUSTER_RETURN_IF_ERROR(
        take(values.subspan(static_cast<size_t>(at - chunk.offset), static_cast<size_t>(count))));
    at += count;
  }
  return absl::OkStatus();
}

// Valid until the next call. The part exists: the manifest is complete.
absl::StatusOr<absl::Span<const float>> TensorReader::Get(int32_t slot, ChunkId chunk) {
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

absl::Status TensorReader::OpenSegment(size_t segment) {
  if (reader_ && open_segment_ == segment) return absl::OkStatus();
  MUSTER_ASSIGN_OR_RETURN(
      reader_, SegmentReader::Open(*files_, manifest_->segments[segment],
                                   {manifest_->job, manifest_->lineage, manifest_->step}));
  open_segment_ = segment;
  return absl::OkStatus();
}

}  // namespace muster
