// What a member knows before it joins: plain values, shared by all parts of its state machine. A
// MemberConfig lives as long as its Member and never changes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/domain/message.h"
#include "lib/domain/validation.h"

namespace muster {

struct MemberConfig {
  std::string job;
  StartNumber start;          // of the job, as the JobIs said that this was made of
  PlacementNumber placement;  // 0: no host agent started us
  MemberId id;
  Role role = Role::kWorker;
  std::string node;
  std::string address;
  std::vector<TensorKind> chunks;           // kind of every chunk
  std::map<ChunkId, std::string> layers{};  // of the chunks of phases, for people
  int32_t slots = 0;                        // of the optimizer
  int64_t fingerprint_every = 0;
  int64_t checkpoint_every = 0;
  int64_t checkpoint_epochs = 0;    // likewise, of the steps of one epoch or several; 0: no
  bool saves_measured = false;      // and of each state that is measured
  std::optional<Step> unsaved_end;  // the state that is never saved: after the last of all steps
  TrainingSpec training;
  NumericEnvironment environment;

  int32_t chunk_count() const { return static_cast<int32_t>(chunks.size()); }
  bool has_chunk(ChunkId c) const { return c.value() >= 0 && c.value() < chunk_count(); }
  bool is_phase(ChunkId c) const {
    return chunks[static_cast<size_t>(c.value())] == TensorKind::kPhase;
  }
  bool owner_applies() const { return training.sync == Sync::kServer; }
  // This member updates parameters, and so has optimizer slots.
  bool applies() const { return !owner_applies() || role == Role::kServer; }
  bool clips() const { return training.clip_norm > 0; }
  // A step that is not finite leaves the state as it was.
  bool skips() const { return training.on_nan != OnNan::kContinue; }
  bool has_buffers() const {
    return std::find(chunks.begin(), chunks.end(), TensorKind::kBuffer) != chunks.end();
  }
  bool has_sums() const {
    return std::find(chunks.begin(), chunks.end(), TensorKind::kSum) != chunks.end();
  }
  // Of what lanes measure; -1: nothing is.
  ChunkId sums_chunk() const {
    const auto at = std::find(chunks.begin(), chunks.end(), TensorKind::kSum);
    return ChunkId(at == chunks.end() ? -1 : static_cast<int32_t>(at - chunks.begin()));
  }
  bool IsFollowed(Step state) const {
    return muster::IsFollowed(training, environment.samples, state);
  }
  // Lanes bring zeros of what is measured, and this step brings it.
  bool BringsFact(Step step, ChunkId c) const {
    return training.validation.by_follower() &&
           chunks[static_cast<size_t>(c.value())] == TensorKind::kSum &&
           BroughtIn(training, environment.samples, step).has_value();
  }
  // Nothing of a step is applied before something is known of all its chunks. Buffers come from one
  // lane: a server that owns nothing else would go on without the other workers, and forget results
  // that they still need.
  bool needs_global_norm() const {
    return clips() || skips() || (owner_applies() && has_buffers());
  }
};

// Parts share what never changes.
using ConfigPtr = std::shared_ptr<const MemberConfig>;

}  // namespace muster
