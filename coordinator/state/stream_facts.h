// What the coordinator knows of a job's stream (docs/decisions/0112-streams.md): which positions
// are facts, in which segments they lie, and how far the source was read. Lives with its job, over
// all starts of it. Single-threaded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/domain/stream.h"

namespace muster::coordinator {

// Behind the last position that is a fact.
struct StreamMark {
  StreamPlace place{};            // how far the source was read
  std::optional<uint64_t> end{};  // as a fact: so many samples there are in all
  bool operator==(const StreamMark&) const = default;
};

// All that the journal has of it, in rows of their own: a segment each, and the mark.
struct StreamRows {
  std::vector<SpoolSegment> segments{};  // in their order
  StreamMark mark{};
  bool operator==(const StreamRows&) const = default;

  // Positions below it are facts.
  uint64_t positions() const { return segments.empty() ? 0 : segments.back().end(); }
  // Positions below it are not kept any more.
  uint64_t trimmed() const { return segments.empty() ? 0 : segments.front().first; }
  StreamKnown known() const { return {positions(), mark.end}; }
};

class StreamFacts {
 public:
  explicit StreamFacts(StreamRows rows) : rows_(std::move(rows)) {}

  const StreamRows& rows() const { return rows_; }
  const std::vector<SpoolSegment>& segments() const { return rows_.segments; }
  uint64_t positions() const { return rows_.positions(); }
  uint64_t trimmed() const { return rows_.trimmed(); }
  StreamKnown known() const { return rows_.known(); }
  // No segment has this number or a higher one.
  int64_t next_segment() const {
    return rows_.segments.empty() ? 0 : rows_.segments.back().number + 1;
  }

  // What the reader of that incarnation says is a fact, once this is journalled. False: it was one
  // already. kFailedPrecondition: what is known does not go on so. kResourceExhausted: there are
  // as many segments as there may be. After an error all is as it was.
  absl::StatusOr<bool> Take(const Spooled& told, Incarnation reader);
  // No position below this one is wanted any more. Returns the segments that go.
  std::vector<SpoolSegment> Trim(uint64_t position);

 private:
  StreamRows rows_;
};

// Bytes of a sample of a stream, whose specification was accepted.
uint64_t SampleBytesOf(const DataSpec& data);

// For people and programs, of a job with a stream.
struct StreamStatus {
  uint64_t positions = 0;         // samples that came
  std::optional<uint64_t> end{};  // how many there are in all; nothing: that is not known yet
  uint64_t trimmed = 0;           // those below it are not kept any more
  uint64_t segments = 0;          // files of the spool
  uint64_t spool_bytes = 0;       // of these
  std::string file{};             // of a folder, the last that was begun
  bool operator==(const StreamStatus&) const = default;
};
StreamStatus StatusOf(const StreamRows& rows, const DataSpec& data);

}  // namespace muster::coordinator
