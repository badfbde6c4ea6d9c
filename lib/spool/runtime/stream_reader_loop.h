// Carries out what a StreamReader decides: source, segments of a spool, and the conversation with
// the coordinator, which others carry. Run takes one thread; Post and Stop are for any.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "lib/base/clock.h"
#include "lib/base/mailbox.h"
#include "lib/spool/runtime/stream_source.h"
#include "lib/spool/spool_writer.h"
#include "lib/spool/state/stream_reader.h"

namespace muster {

class StreamReaderLoop {
 public:
  struct Parts {
    std::string folder;  // of the spool; the one that it is in is there
    uint64_t sample_bytes = 1;
    Incarnation writer;
    StreamReader::Options options{};
    StreamSource* source = nullptr;  // outlives the loop, as the clock does
    const Clock* clock = nullptr;
    std::function<void(const Spooled&)> tell;      // the coordinator
    std::function<void(const std::string&)> told;  // people: what fails and is tried again
    // Why no samples come from the source to the disk, though it is tried again; empty: they can.
    // When that has changed.
    std::function<void(const std::string&)> lacks = [](const std::string&) {};
    // Said now and then, every few seconds at least while nothing hangs.
    std::function<void()> goes_on = [] {};
  };
  explicit StreamReaderLoop(Parts parts);

  void Post(std::variant<SpoolFrom, AckSpooled> message);
  // What was posted before is still heard. `is_done`: all samples that the job uses are safe, and
  // whoever sends them is told so.
  void Stop(bool is_done);
  // Until it is stopped, which is OK, or cannot go on, as EndReader says. kDataLoss: the source's
  // data is bad (65); kInvalidArgument, kFailedPrecondition: its path can be none (64).
  absl::Status Run();

 private:
  void Handle(StreamReaderInput input);
  // Whether the actions behind it are to be done.
  bool Do(const StreamReaderAction& action);
  bool Write(absl::Status status);
  absl::Status Open(const OpenSegment& segment);
  void TakeFromSource();
  void NoteLack(const StreamReaderInput& input);
  Duration WaitAtMost() const;

  const Parts parts_;
  StreamReader reader_;
  Mailbox<std::variant<SpoolFrom, AckSpooled>> messages_;
  std::unique_ptr<SpoolWriter> segment_;
  std::deque<StreamReaderInput> inputs_;
  std::string samples_;   // that came last
  uint64_t wanted_ = 0;   // samples of the source; 0: none
  absl::Status started_;  // whether the source could be started
  std::string source_lacks_, spool_lacks_, told_lacks_;
  bool ended_ = false;
  std::atomic<bool> is_done_ = false;
  absl::Status status_;
};

}  // namespace muster
