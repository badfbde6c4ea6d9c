// Writes a member's parts of checkpoints, one after the other, on a thread of its own: a disk
// never holds up a step.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "lib/base/failpoint.h"
#include "lib/base/mailbox.h"
#include "lib/member/runtime/events.h"
#include "lib/member/runtime/step_boundary.h"

namespace muster {

class SegmentWriter {
 public:
  // `writer`: unique per incarnation; names the files. Answers (SegmentWritten, SegmentFailed) go
  // to `events`.
  SegmentWriter(SetupPtr setup, std::string writer, std::shared_ptr<EventBox> events,
                Failpoints& failpoints);
  ~SegmentWriter();  // waits for the one being written; those after it are dropped
  SegmentWriter(const SegmentWriter&) = delete;
  SegmentWriter& operator=(const SegmentWriter&) = delete;

  // Any thread; returns at once. The state machine sees to it that no more than
  // CheckpointParts::kMost parts are under way.
  void Write(CheckpointPartCopy part);
  size_t waiting() const { return jobs_.size(); }

 private:
  void Run();
  void WriteOne(std::shared_ptr<const CheckpointPartCopy> part);
  bool IsFinite(const CheckpointPartCopy& part) const;

  const SetupPtr setup_;
  const std::string writer_;
  const std::shared_ptr<EventBox> events_;
  Failpoints& failpoints_;
  int64_t written_ = 0;             // the writer thread's
  std::atomic<int> under_way_ = 0;  // given, and not answered
  Mailbox<std::shared_ptr<const CheckpointPartCopy>> jobs_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace muster
