// Where the bytes of a member are read and written: builds the frames of outgoing messages; adds,
// stores and applies what came. Decides nothing: the state machine's actions say what. Exchange
// thread only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "lib/member/runtime/events.h"
#include "lib/member/runtime/frames.h"
#include "lib/member/runtime/member_memory.h"
#include "lib/member/runtime/setup.h"
#include "lib/member/state/actions.h"
#include "lib/optim/update.h"
#include "lib/owner/runtime/accumulator.h"
#include "lib/transport/transport.h"
#include "lib/wire/tensor_copy.h"

namespace muster {

// A peer's message whose payload has passed CheckPayload.
struct Incoming {
  MemberId from;
  PeerMessage message;
  std::shared_ptr<const Payload> payload;
  std::vector<Part> parts;
  Receipt receipt = nullptr;  // kept until it is dealt with
};

inline constexpr size_t kFramePayloadBytes = size_t{1} << 20;  // aimed at; one chunk may have more

class DataPath {
 public:
  DataPath(SetupPtr setup, CopyCounter& copied);

  MemberMemory& memory() { return memory_; }

  // The payload points at memory that stays as it is while a frame lives.
  std::vector<Frame> FramesOf(PeerMessage message);

  // The partial sums of our own lanes that FoldIn and Partials speak of from now on.
  void SetOwnSums(std::map<TreeNode, FlatPtr> sums) { own_sums_ = std::move(sums); }
  // Sums of phases over them, beside those that are here; another compute makes them anew.
  void AddOwnPhases(PhaseSums phases) { own_phases_.merge(std::move(phases)); }
  void ForgetOwnPhases() { own_phases_.clear(); }
  void ForgetOwnSums() {
    own_sums_.clear();
    own_phases_.clear();
  }

  // `incoming`: the message that brought the partials; unused when they are our own.
  // What a follower measured, over the complete sum of what lanes measure.
  Summed Write(const WriteFact& write);
  std::optional<Summed> Fold(const FoldIn& fold, const Incoming* incoming);
  void ForgetSums() { accumulator_.Forget(); }
  void StoreResultsOf(const StoreResults& store, const Incoming& incoming);
  void StoreState(const StorePieces& store, const Incoming& incoming);
  // Calls `after_each` after each chunk.
  ChunksApplied ApplySums(const ApplyChunks& apply, const std::function<void()>& after_each);

 private:
  const Chunk& chunk(ChunkId c) const { return setup_->layout.chunk(c); }
  bool owners_apply() const { return setup_->spec.training.sync == Sync::kServer; }
  // Values of a chunk, unchanged as long as `keep` is held.
  struct Source {
    absl::Span<const float> values;
    std::shared_ptr<const void> keep;
  };
  Source OwnSumOf(ChunkId c, TreeNode node) const;
  FlatPtr FlatSourceOf(const PeerMessage& message);
  Source SourceOf(const PeerMessage& message, const Part& part);
  absl::Span<float> PlaceOfSum(Step step, ChunkId c);
  void StoreAll(const std::vector<ChunkId>& chunks, const FlatBuffer& to, const Incoming& incoming);
  Slots SlotsOf(const Chunk& c) const;

  const SetupPtr setup_;
  CopyCounter& copied_;
  MemberMemory memory_;
  Accumulator accumulator_;
  Updater updater_;
  std::map<TreeNode, FlatPtr> own_sums_;
  PhaseSums own_phases_;
  FlatPtr sums_;                      // owners that apply: reduced gradients of the open step
  std::vector<ResultMeta> sum_meta_;  // likewise, by chunk
};

}  // namespace muster
