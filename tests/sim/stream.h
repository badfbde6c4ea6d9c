// The stream of a simulated job: where its samples come from, and the spool in which they lie. A
// sample is a number that says its position, so that another one in its place shows. Both live as
// long as the job; processes come and go.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/hash.h"
#include "lib/domain/stream.h"

namespace muster::sim {

// Bytes of a sample, as the specification says.
inline constexpr uint64_t kSimSampleBytes = 8;
// So much a spool must have, at least.
inline uint64_t LeastSpoolOf(int64_t batch) {
  return 4 * (static_cast<uint64_t>(batch) + 1) * kSimSampleBytes;
}

struct StreamOptions {
  uint64_t samples = 0;  // until it ends
  int64_t steps = 0;     // of the specification; 0: to the end of the stream
  StreamFrom from = StreamFrom::kSocket;
  uint64_t file_samples = 1;  // of each file of a folder; the last one may have fewer
  uint64_t max_bytes = uint64_t{1} << 20;
  int64_t pace = 20;  // from one sample to the next, about; milliseconds
  uint64_t salt = 0;
  // Before this position, or the end, nothing comes until the job has stopped.
  std::optional<uint64_t> stands_still_at{};
};

// A sender on a socket that keeps what was not answered, or a folder that grows. When samples come
// follows from the options alone.
class SimSource {
 public:
  explicit SimSource(const StreamOptions& options);

  uint64_t SampleAt(uint64_t position) const { return Mix64(19, options_.salt, position); }
  // So many are there by then; whether that is all, and it has said so.
  uint64_t CameBy(int64_t now) const;
  bool HasEndedBy(int64_t now) const;
  // Nothing comes any more by itself.
  bool StandsStillAt(int64_t now) const;
  void GoOn(int64_t now);  // the job has stopped

  // A sender forgets what it was told is safe. Who does not know that is not the reader any more.
  bool Keeps(uint64_t position) const {
    return options_.from == StreamFrom::kFolder || position >= answered_;
  }
  // A reader begins at this position. Why that cannot be; empty: it can.
  std::string WhyNotFrom(uint64_t position, const StreamPlace& place) const;
  StreamPlace PlaceBehind(uint64_t position) const;
  void Answer(uint64_t positions);

 private:
  int64_t Shift() const;
  uint64_t Whole(uint64_t samples) const;

  const StreamOptions options_;
  std::vector<int64_t> comes_at_;  // by position; behind the last one the end
  std::optional<int64_t> went_on_at_;
  uint64_t answered_ = 0;
};

// A file of the spool.
struct SpoolFile {
  uint64_t first = 0;
  std::vector<uint64_t> samples;
  size_t synced = 0;  // of these are on the disk
};
// By number and writer. Who has opened one keeps it when it is deleted, as processes do.
using SpoolKey = std::pair<int64_t, Incarnation>;
using Spool = std::map<SpoolKey, std::shared_ptr<SpoolFile>>;
inline SpoolKey KeyOf(const SpoolSegment& segment) { return {segment.number, segment.writer}; }

// The fact that the position stands in; nullptr: none of these.
const SpoolSegment* FactOf(const std::vector<SpoolSegment>& facts, uint64_t position);

}  // namespace muster::sim
