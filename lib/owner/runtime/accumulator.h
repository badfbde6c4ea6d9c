// The additions of an owner: lib/owner/state decides which, this carries them out. Received values
// are added straight from the slices they came in; a chunk's sum grows in the place where its
// result will stand; a sum that cannot stand there yet (two subtrees grow at once) uses a scratch
// chunk. Nothing but own sums is ever written. Single-threaded.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "absl/types/span.h"
#include "lib/domain/lanes.h"
#include "lib/domain/layout.h"
#include "lib/owner/state/sums.h"
#include "lib/transport/payload.h"
#include "lib/wire/tensor_copy.h"

namespace muster {

// A partial sum in a frame that came: it stands from `byte_offset` on and keeps the frame alive,
// all of it. That a frame brings only new sums is the business of whoever takes it.
struct ReceivedSum {
  std::shared_ptr<const Payload> frame;
  size_t byte_offset = 0;
};
// A partial sum of our own: `values` stay unchanged as long as a copy of `keep` lives.
struct OwnSum {
  absl::Span<const float> values;
  std::shared_ptr<const void> keep;
};
using ArrivedSum = std::variant<ReceivedSum, OwnSum>;

class Accumulator {
 public:
  explicit Accumulator(CopyCounter& copied) : copied_(copied) {}

  // Partial sums of a chunk came: adds as told. `out` is the place of the chunk's result, always
  // the same until the chunk is complete, unread by anybody and of the chunk's size. `complete`:
  // the sum of all then stands in `out`, and the chunk is forgotten; a copy happens only where the
  // sum was one arrival alone.
  void Add(ChunkId chunk, std::vector<std::pair<TreeNode, ArrivedSum>> arrived,
           const std::vector<Fold>& folds, bool complete, absl::Span<float> out);

  // What is incomplete is thrown away; frames and own sums are released.
  void Forget() { chunks_.clear(); }

 private:
  struct InPlace {};  // it stands in `out`
  using Scratch = std::unique_ptr<float[]>;
  using Sum = std::variant<ReceivedSum, OwnSum, InPlace, Scratch>;
  using Sums = std::map<TreeNode, Sum>;

  void FoldOne(Sums& sums, const Fold& fold, absl::Span<float> out);
  Sum PlaceFor(const Sums& others);
  void Settle(Sum sum, absl::Span<float> out);  // the one sum left moves to `out`
  Scratch NewScratch();
  void Release(Sum sum);

  CopyCounter& copied_;
  std::map<ChunkId, Sums> chunks_;
  std::vector<Scratch> free_;  // of kMaxChunkBytes each
};

}  // namespace muster
