// Streams, data that comes while a job trains (docs/decisions/0112-streams.md): what a reader, the
// coordinator and members say of them. Samples have positions, 0, 1, 2, …; a position is a fact
// when its bytes are on the disk and the coordinator has journalled it. Plain values and pure
// functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/base/ids.h"
#include "lib/domain/job.h"

namespace muster {

// So many bytes a sample of a stream may have.
inline constexpr uint64_t kMostStreamSampleBytes = uint64_t{1} << 30;
// Bytes of a sample. kFailedPrecondition: data.stream.fields or data.label can be none of a stream.
absl::StatusOr<uint64_t> StreamSampleBytes(const DataSpec& data);

// Where the spool of a job lies, among its checkpoints.
inline std::string SpoolFolder(const std::string& checkpoint_dir) {
  return checkpoint_dir + "/stream";
}

// So many segments members are told of.
inline constexpr size_t kMostSpoolSegments = 4096;

// What a segment's file has before its samples, and behind each of them.
inline constexpr uint64_t kSpoolHeadBytes = 64;
inline constexpr uint64_t kSpoolTailBytes = 4;

// The facts of one file of the spool: the positions [first, first + count) stand in it, and its
// bytes behind these are nobody's. Its number grows with each; that one of them has no row is
// nothing.
struct SpoolSegment {
  int64_t number = 0;
  Incarnation writer;
  uint64_t first = 0;
  uint64_t count = 0;

  uint64_t end() const { return first + count; }
  bool operator==(const SpoolSegment&) const = default;
};

// What tells that a file is the one that it was. Times in nanoseconds since 1970.
struct FileIdentity {
  uint64_t bytes = 0;
  uint64_t inode = 0;
  int64_t modified = 0;
  int64_t changed = 0;  // of its entry, too: no tool sets this back
  bool operator==(const FileIdentity&) const = default;
};

// How far a source was read; of a socket nothing.
struct StreamPlace {
  std::string file;         // of a folder, the last that was begun; "": none
  uint64_t sample = 0;      // of it so many were taken
  FileIdentity identity{};  // as it was then
  // The latest time of the folder and of what was taken of it, by its own clock: a file of an
  // earlier name that was changed later is one that nobody has taken.
  int64_t seen = 0;
  bool operator==(const StreamPlace&) const = default;
};

// ---- what is said. Numbers of positions are from 0 on, and say all below.

// Coordinator to reader, after each Join.
struct SpoolFrom {
  TermNumber term{0};
  uint64_t positions = 0;
  StreamPlace place{};       // behind these
  int64_t next_segment = 0;  // no segment has this number or a higher one
  uint64_t needed = 0;       // so many are wanted whatever room there is (NeededPositions)
  uint64_t room = 0;         // for so many there is room in the spool (RoomOfSpool)
  bool operator==(const SpoolFrom&) const = default;
};

// Reader to coordinator: all of this is on the disk. One at a time; again in each session until it
// is acknowledged.
struct Spooled {
  int64_t segment = 0;
  uint64_t first = 0;  // of the segment
  uint64_t count = 0;  // of all of it; 0: it is none, and only the end is told
  StreamPlace place{};
  bool end = false;  // there will be no more
  bool operator==(const Spooled&) const = default;
};

// Coordinator to reader, when one of these has changed.
struct AckSpooled {
  TermNumber term{0};
  uint64_t positions = 0;
  uint64_t needed = 0;
  uint64_t room = 0;
  bool operator==(const AckSpooled&) const = default;
};

// Coordinator to members: in each session all segments, and then those that are new or longer.
struct StreamIs {
  TermNumber term{0};
  uint64_t positions = 0;
  std::optional<uint64_t> end{};
  std::vector<SpoolSegment> segments{};
  bool operator==(const StreamIs&) const = default;
};

// ---- which steps there are

struct StreamKnown {
  uint64_t positions = 0;         // facts
  std::optional<uint64_t> end{};  // as a fact
};

struct StreamSteps {
  uint64_t samples = 1;  // of a full step, at least 1
  int64_t most = 0;      // steps of the job; 0: to the end of the stream
};

// The number of samples that functions of a data set's size are given: the end, as far as it is
// known, or as many as there may be.
inline uint64_t SamplesOf(const StreamKnown& known) { return known.end.value_or(kMostSamples); }
inline StreamSteps StepsOf(const TrainingSpec& training) {
  return {static_cast<uint64_t>(training.batch), training.steps};
}

// Positions of a step, in their order.
struct StreamRange {
  uint64_t first = 0;
  uint64_t count = 0;
  bool operator==(const StreamRange&) const = default;
};

// Nothing: the step is not known, or there is no such step. Whoever knows it finds the same.
std::optional<StreamRange> KnownStep(const StreamSteps& steps, const StreamKnown& known, Step step);
// How many steps there are; nothing: that is not known yet.
std::optional<int64_t> KnownTotal(const StreamSteps& steps, const StreamKnown& known);
// Whether there is nothing more for a reader to do.
bool NeedsNoMore(const StreamSteps& steps, const StreamKnown& known);

// ---- the spool and its bounds. `sample_bytes` and `max_bytes` at least 1.

uint64_t SpoolFileBytes(uint64_t samples, uint64_t sample_bytes);
// After so many samples a segment is closed; at least 1.
uint64_t SamplesOfSegment(uint64_t max_bytes, uint64_t sample_bytes);
// So many positions are wanted while `step` is the first that is not in the ledger; no more than
// the job uses.
uint64_t NeededPositions(const StreamSteps& steps, Step step);
// So many positions there may be before these segments, which end at `positions`, and those that
// come have more than max_bytes; no more than the job uses.
uint64_t RoomOfSpool(const StreamSteps& steps, absl::Span<const SpoolSegment> segments,
                     uint64_t positions, uint64_t max_bytes, uint64_t sample_bytes);

// ---- facts

// Adds `news` to `facts`, both in their order: what is longer replaces what has its number, what is
// new comes after the last, without a gap. kFailedPrecondition, and `facts` are as they were: it
// does not go on so, such as one that is shorter, of another writer, or behind a gap.
absl::Status AddFacts(std::vector<SpoolSegment>& facts, absl::Span<const SpoolSegment> news);

// The same for members, which are told less: not what was trimmed, and all that there is only in a
// new session. So `news` that begin behind `facts` take their place, and of more than
// kMostSpoolSegments the newest are kept, which are those that there are.
absl::Status LearnFacts(std::vector<SpoolSegment>& facts, absl::Span<const SpoolSegment> news);

// Those that may be trimmed when no position below `position` is wanted any more: wholly below it,
// but for the last, which may still grow.
std::vector<SpoolSegment> TrimmedAt(absl::Span<const SpoolSegment> facts, uint64_t position);

}  // namespace muster
