#include "worker/runtime/leaving_lane.h"

#include <algorithm>
#include <utility>

namespace muster::worker {

LeavingLane::LeavingLane(const GradientWay& way, int64_t compute, LaneId lane, FlatPtr gradient)
    : way_(way), compute_(compute), lane_(lane), gradient_(std::move(gradient)) {
  const Layout& layout = *way.layout;
  chunks_of_.resize(layout.tensors().size());
  for (int32_t c = 0; c < layout.chunk_count(); ++c) {
    const Chunk& chunk = layout.chunk(ChunkId(c));
    const std::vector<size_t> tensors = layout.TensorsIn(chunk.offset, chunk.count);
    open_tensors_.push_back(tensors.size());
    for (size_t t : tensors) chunks_of_[t].push_back(static_cast<size_t>(c));
  }
}

void LeavingLane::Outcome(const LaneOutput& output) {
  way_.tree->Begin(lane_, gradient_, output.weight, output.loss);
}

void LeavingLane::Final(size_t tensor) {
  way_.goes_on();
  for (size_t c : chunks_of_[tensor]) --open_tensors_[c];
  way_.failpoints->Pass("last_backward");
  while (next_ < way_.buckets->size() && Full((*way_.buckets)[next_])) Leave();
}

bool LeavingLane::Full(const std::vector<ChunkId>& bucket) const {
  return std::all_of(bucket.begin(), bucket.end(),
                     [&](ChunkId c) { return open_tensors_[static_cast<size_t>(c.value())] == 0; });
}

void LeavingLane::Leave() {
  const std::vector<ChunkId>& bucket = (*way_.buckets)[next_++];
  for (ChunkId c : bucket) way_.tree->FoldChunk(c);
  way_.events->Post(GradientsReady{{compute_, bucket, way_.tree->Partials()}, way_.tree->Sums()});
}

}  // namespace muster::worker
