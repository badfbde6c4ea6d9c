// What the reader of a stream does next (docs/decisions/0112-streams.md): it takes samples from the
// source as far as there is room, appends them to a segment of its own, syncs that, and tells the
// coordinator, which makes them facts. It counts samples; their bytes stay with whoever carries
// its actions out. Lives as long as the process. Single-threaded; nothing here is journalled: what
// a reader that dies has forgotten, the coordinator tells the next one.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "lib/base/time.h"
#include "lib/domain/stream.h"

namespace muster {

// ---- what happens

// The one answer to TakeSamples: so many came, perhaps none yet. `place` is behind them. With `end`
// there will be no more after these.
struct SamplesCame {
  uint64_t count = 0;
  StreamPlace place{};
  bool end = false;
};
struct SegmentSynced {};  // as SyncSegment asked
// A segment could not be made, appended to or synced. What it had on the disk before it has still.
struct SpoolFailed {
  absl::Status status;
};
// kDataLoss, kInvalidArgument and kFailedPrecondition: what it has can be no stream, and trying
// again would not help. Others may pass.
struct SourceFailed {
  absl::Status status;
};
struct TimePassed {};

using StreamReaderInput = std::variant<SpoolFrom, AckSpooled, SamplesCame, SegmentSynced,
                                       SpoolFailed, SourceFailed, TimePassed>;

// ---- what is to be done, in this order

// The source begins at this position, whatever it has given before: a sender's connection is
// broken. What was asked of it is void.
struct StartSource {
  uint64_t position = 0;
  StreamPlace place{};
};
// Up to so many. Answered by SamplesCame or SourceFailed, after all other actions.
struct TakeSamples {
  uint64_t most = 0;
};
// The one before it is closed. Answered where it fails, and then the actions behind it are void.
struct OpenSegment {
  int64_t number = 0;
  uint64_t first = 0;
};
// All that came last. Answered likewise.
struct AppendSamples {};
// Answered by SegmentSynced or SpoolFailed.
struct SyncSegment {};
struct TellSpooled {
  Spooled spooled;
};
// These are facts: the sender may forget them.
struct AnswerSender {
  uint64_t positions = 0;
};
// The process ends with this, and nothing else is done any more: an error of the source that does
// not pass, or kAborted: the coordinator knows something else than it has said before.
struct EndReader {
  absl::Status status;
};

using StreamReaderAction = std::variant<StartSource, TakeSamples, OpenSegment, AppendSamples,
                                        SyncSegment, TellSpooled, AnswerSender, EndReader>;
using StreamReaderActions = std::vector<StreamReaderAction>;

class StreamReader {
 public:
  struct Options {
    uint64_t segment_samples = 1;  // SamplesOfSegment
    // More often where a segment is full.
    Duration sync_every = std::chrono::milliseconds(100);
    Duration first_retry = std::chrono::seconds(1);  // doubled each time …
    Duration last_retry = std::chrono::seconds(60);  // … up to this
  };
  explicit StreamReader(const Options& options) : options_(options) {}

  StreamReaderActions Handle(const StreamReaderInput& input, Time now);
  // When TimePassed would do something; nothing: not until something happens.
  std::optional<Time> Wakes() const;

  uint64_t facts() const { return facts_; }  // as told
  uint64_t taken() const { return taken_; }  // positions below it were appended
  // So many there may be.
  uint64_t limit() const { return limit_; }
  // A write or the source has failed, and is tried again.
  bool retries() const { return retry_at_.has_value(); }

 private:
  // The file that we append to, if there is one. Ends with its last sample that is a fact.
  struct Segment {
    int64_t number = 0;
    uint64_t first = 0;
    uint64_t appended = 0;
    uint64_t synced = 0;
    uint64_t most = 0;    // so many it gets, where the spool has no room
    bool closed = false;  // nothing more is appended
  };

  void On(const SpoolFrom& from, Time now, StreamReaderActions& out);
  void On(const AckSpooled& ack, Time now, StreamReaderActions& out);
  void On(const SamplesCame& came, Time now, StreamReaderActions& out);
  void On(const SegmentSynced& synced, Time now, StreamReaderActions& out);
  void On(const SpoolFailed& failed, Time now, StreamReaderActions& out);
  void On(const SourceFailed& failed, Time now, StreamReaderActions& out);
  void On(const TimePassed& passed, Time now, StreamReaderActions& out);

  void Begin(const SpoolFrom& from, StreamReaderActions& out);
  // Whether what the coordinator knows is what we have told it, or a part of that.
  bool GoesOn(const SpoolFrom& from) const;
  void Learn(uint64_t positions, uint64_t needed, uint64_t room, StreamReaderActions& out);
  void Retry(Time now);
  // What follows from all that is known.
  void Advance(Time now, StreamReaderActions& out);
  void Tell(StreamReaderActions& out);
  void Sync(Time now, StreamReaderActions& out);
  void Take(StreamReaderActions& out);
  uint64_t Synced() const;      // positions below it are on the disk
  uint64_t MostOfNext() const;  // samples of the next segment
  uint64_t MostOf(const Segment& segment) const;
  bool IsFull(const Segment& segment) const;
  void End(absl::Status status, StreamReaderActions& out);

  const Options options_;
  bool begun_ = false;
  bool ended_ = false;
  TermNumber term_{0};
  uint64_t facts_ = 0;
  uint64_t limit_ = 0;
  uint64_t room_ = 0;       // positions for which the spool has room
  uint64_t last_most_ = 0;  // `most` of the segment before
  uint64_t taken_ = 0;
  StreamPlace place_{};         // behind `taken_`
  StreamPlace synced_place_{};  // behind Synced()
  bool has_end_ = false;        // the source has said that `taken_` is the end
  bool asks_source_ = false;
  struct Syncing {
    uint64_t samples = 0;  // of the segment
    StreamPlace place{};   // behind these
  };
  std::optional<Syncing> syncs_;
  std::optional<Time> last_sync_;
  int64_t next_number_ = 0;
  std::optional<Segment> segment_;
  std::optional<Spooled> told_;  // and not acknowledged
  int failures_ = 0;             // one after the other
  std::optional<Time> retry_at_;
};

}  // namespace muster
