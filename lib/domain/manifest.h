// A checkpoint as a value (docs/protocol.md section 7): state(step) of a lineage, stored by tensor
// name and chunk, never by rank. Pure values; lib/wire/manifest_codec reads and writes them,
// lib/checkpoint knows the files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/base/ids.h"
#include "lib/domain/layout.h"
#include "lib/domain/ledger.h"

namespace muster {

// What a state consists of beside the chunk grid: slot 0 holds the values (parameters and buffers,
// all chunks of the layout); slots 1 … n are the optimizer's (parameter chunks only).
inline constexpr int32_t kValuesSlot = 0;
inline constexpr int32_t kMaxOptimizerSlots = 64;

// One chunk of one slot inside a segment file: little-endian IEEE floats.
struct SegmentEntry {
  int32_t slot = kValuesSlot;
  ChunkId chunk{0};
  uint64_t offset_in_file = 0;
  uint64_t bytes = 0;   // 4 × elements of the chunk
  uint32_t crc32c = 0;  // of those bytes
  bool operator==(const SegmentEntry&) const = default;
};

// One file, written by one member.
struct Segment {
  std::string file;    // relative to the job's checkpoint directory: "FOLDER/NAME" or "NAME"
  uint64_t bytes = 0;  // of the whole file
  uint32_t header_crc32c = 0;  // of the file's own table
  std::vector<SegmentEntry> entries;
  bool finite = true;  // every value is, except those of buffers, which may hold others on purpose
  bool operator==(const Segment&) const = default;
};

// All needed to go on; the epoch position, the schedule and every random number follow from spec
// and step.
struct Manifest {
  std::string job;
  LineageNumber lineage{0};
  Step step{0};
  std::vector<Segment> segments;
  std::string spec;  // the JobSpec as JSON
  // Registration order: with chunk_bytes they make the Layout without the model.
  std::vector<TensorSpec> tensors;
  int64_t chunk_bytes = 0;
  int32_t slots = 0;         // optimizer slots
  std::string fingerprint;   // hexadecimal; empty: none was taken at this step
  int64_t unix_seconds = 0;  // when it was committed, for people
  uint64_t total_bytes = 0;  // of all segment files
  int64_t skipped = 0;       // steps before it that were not finite and left the state as it was
  int64_t left_out = 0;      // uses of samples before it that could not be read
  bool enough = false;       // validation.patience is used up: no step comes after it
  // What a follower measured of an earlier state and this one has not learned of yet: whoever goes
  // on from it has to. Exactly where OutstandingIn (validation.h) names such a state.
  std::optional<PendingMeasure> pending{};
  bool operator==(const Manifest&) const = default;
};

// "NAME" or "FOLDER/NAME" of letters, digits, '.', '_' and '-', no part starting with a dot: it
// cannot leave the directory it is relative to, whoever sent it.
bool IsSafeRelativeName(absl::string_view name);

// Of the steps before it.
StepTally TallyOf(const Manifest& manifest);

// No value of the state is an infinity or not a number (buffers apart).
bool IsFinite(const Manifest& manifest);

// Which checkpoints of a job are kept. A number alone is that of the newest ones.
struct KeepRule {  // NOLINTNEXTLINE(google-explicit-constructor)
  KeepRule(int32_t the_last = 1, int64_t the_every = 0, int64_t the_epochs = 0)
      : last(the_last), every(the_every), epochs(the_epochs) {}
  int32_t last;    // the newest ones, at least 1
  int64_t every;   // besides, those whose step is a multiple of this; 0: none
  int64_t epochs;  // likewise, of the steps of one epoch or several
};
// Which of these, oldest first, are kept: those of the rule, and the newest one that is finite.
std::vector<bool> Kept(const std::vector<Manifest>& manifests, const KeepRule& rule);

// Every (slot, chunk) exactly once and of the right size, entries inside their files, safe and
// distinct file names, the sizes' sum right, the recorded layout equal to `layout`.
// kFailedPrecondition: another layout or number of slots; kInvalidArgument: anything else; the
// message names the file, slot and chunk.
absl::Status CheckComplete(const Manifest& manifest, const Layout& layout, int32_t slots);

// The layout that the manifest describes.
absl::StatusOr<Layout> LayoutOf(const Manifest& manifest);

// "lineage 2, step 140": how messages call a checkpoint.
std::string Describe(const Manifest& manifest);

}  // namespace muster
