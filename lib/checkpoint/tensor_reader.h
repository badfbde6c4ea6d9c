// The tensors of a checkpoint one after the other, whatever its chunks and segments. One chunk is
// in memory at a time and one file open. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/checkpoint/files.h"
#include "lib/checkpoint/segment.h"
#include "lib/domain/layout.h"
#include "lib/domain/manifest.h"

namespace muster {

class TensorReader {
 public:
  using Take = std::function<absl::Status(absl::Span<const float> run)>;

  // Both outlive it. kInvalidArgument, kFailedPrecondition: the manifest is not complete.
  static absl::StatusOr<TensorReader> Open(const CheckpointFiles& files, const Manifest& manifest);

  const Layout& layout() const { return layout_; }

  // The floats of a tensor's place in a slot (kValuesSlot; of a parameter those of the optimizer,
  // too), front to back in runs that are valid during the call. Each chunk is checked before.
  // kDataLoss names file, slot and chunk; errors of `take` pass through.
  absl::Status Read(const Placed& tensor, int32_t slot, const Take& take);

 private:
  using Key = std::pair<int32_t, ChunkId>;
  struct Place {
    size_t segment = 0;
    const SegmentEntry* entry = nullptr;
  };
  static constexpr Key kNothing{-1, ChunkId(-1)};

  TensorReader(const CheckpointFiles& files, const Manifest& manifest, Layout layout);
  absl::StatusOr<absl::Span<const float>> Get(int32_t slot, ChunkId chunk);
  absl::Status OpenSegment(size_t segment);

  const CheckpointFiles* files_;
  const Manifest* manifest_;
  Layout layout_;
  std::map<Key, Place> places_;
  std::optional<SegmentReader> reader_;
  size_t open_segment_ = 0;
  Key held_ = kNothing;
  std::vector<float> values_;
};

}  // namespace muster
