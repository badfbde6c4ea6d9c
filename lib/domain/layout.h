// The flat space of a job: every tensor at a fixed offset, cut into chunks (docs/architecture.md
// section 2). Offsets and counts are in elements of 4 bytes. Fixed by the first worker's numeric
// environment; pure values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/base/ids.h"
#include "muster/tensor.h"

namespace muster {

// A run of elements [offset, offset + count): the unit of arithmetic, of ownership and of
// checksums.
struct Chunk {
  int64_t offset = 0;
  int64_t count = 0;
  TensorKind kind = TensorKind::kParameter;
};

// A phase: chunks of its own, from its tensor's offset on.
struct PhasePlace {
  size_t tensor = 0;    // index into Layout::tensors()
  ChunkId first_chunk;  // and those after it
  int32_t chunks = 0;
};

// The layer that it is of, as "sync/LAYER/forward" names it; other names stand for themselves.
std::string LayerOfPhase(const std::string& name);

inline constexpr int64_t kAlignElements = 16;
inline constexpr int64_t kMaxChunkBytes = 256 * 1024;
inline constexpr int64_t kMostChunks = int64_t{1} << 22;
// Each member tells its coordinator all its tensors in one frame, so what they are is bounded here,
// where every task passes; lib/wire refuses more.
inline constexpr int64_t kMostTensors = 100'000;
inline constexpr int64_t kLongestTensorName = 64 * 1024;
inline constexpr int64_t kMostDimensions = 16;
inline constexpr int64_t kMostTensorBytes = int64_t{7} << 19;  // names and shapes of all, as sent

// The bytes that every member of a job needs at least for a flat space of so many elements: values,
// results of two steps, own gradients, and the optimizer's slots.
constexpr double LeastMemoryOfMember(int64_t elements, int slots) {
  constexpr int kBuffers = 4;
  return 4.0 * (kBuffers + slots) * static_cast<double>(elements);
}

class Layout {
 public:
  Layout() = default;
  // `tensors` in registration order: parameters are laid out in reverse, so that backward fills the
  // space upwards; then the buffers, in chunks of their own; then the sums, which are one chunk;
  // then the phases, in their order, each in chunks of its own. `chunk_bytes`: a multiple of 64, at
  // most kMaxChunkBytes. kInvalidArgument: no parameter, a name twice, what is no buffer and not
  // float32, an empty or negative dimension, more than 2^40 elements or kMostChunks chunks, sums of
  // more than kMaxChunkBytes, or more tensors, longer names and more dimensions than above.
  static absl::StatusOr<Layout> Make(const std::vector<TensorSpec>& tensors, int64_t chunk_bytes);

  int64_t elements() const { return space_.elements; }  // of the whole flat space, holes included
  // Of parameters and buffers, without the sums and phases behind them.
  int64_t model_elements() const { return model_elements_; }
  // What a task is bound to: the flat space without sums and phases.
  FlatSpace ModelSpace() const;
  // In registration order, which is that of their chunks.
  const std::vector<PhasePlace>& phases() const { return phases_; }
  // Optimizer slots have this many each.
  int64_t parameter_elements() const { return parameter_elements_; }
  const FlatSpace& space() const { return space_; }
  // In registration order, as given.
  const std::vector<Placed>& tensors() const { return space_.tensors; }
  const std::vector<Chunk>& chunks() const { return chunks_; }
  int32_t chunk_count() const { return static_cast<int32_t>(chunks_.size()); }
  int32_t parameter_chunk_count() const { return parameter_chunks_; }
  const Chunk& chunk(ChunkId c) const { return chunks_[static_cast<size_t>(c.value())]; }
  // Ascending offsets of the tensors that overlap [offset, offset + count), as indices into
  // tensors().
  std::vector<size_t> TensorsIn(int64_t offset, int64_t count) const;
  uint64_t Hash()
      const;  // of all names, shapes, kinds, types and grid: equal layouts, equal hashes

 private:
  FlatSpace space_;
  std::vector<size_t> by_offset_;
  std::vector<Chunk> chunks_;
  std::vector<PhasePlace> phases_;
  int64_t parameter_elements_ = 0;
  int64_t model_elements_ = 0;
  int32_t parameter_chunks_ = 0;
};

}  // namespace muster
