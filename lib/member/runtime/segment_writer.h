// Writes a member's parts of checkpoints, one after the other, on a thread of its own: a disk
// never holds up a step. It writes with rests (pace.h), so that the steps beside it are not slower;
// without them while another part waits, while the member does not train, and at its end.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "lib/base/failpoint.h"
#include "lib/base/mailbox.h"
#include "lib/base/time.h"
#include "lib/member/runtime/events.h"
#include "lib/member/runtime/pace.h"
#include "lib/member/runtime/step_boundary.h"
#include "lib/member/runtime/thread_progress.h"

namespace muster {

class SegmentWriter {
 public:
  // `writer`: unique per incarnation; names the files. Answers (SegmentWritten, SegmentFailed) go
  // to `events`. `progress` is of its thread: a disk that hangs is seen there; a rest is no work.
  SegmentWriter(SetupPtr setup, std::string writer, std::shared_ptr<EventBox> events,
                Failpoints& failpoints, ThreadProgress& progress, PaceRules pace = {});
  ~SegmentWriter();  // waits for the one being written; those after it are dropped
  SegmentWriter(const SegmentWriter&) = delete;
  SegmentWriter& operator=(const SegmentWriter&) = delete;

  // Any thread; returns at once. The state machine sees to it that no more than
  // CheckpointParts::kMost parts are under way, besides those of the one state that is to be
  // measured: such a part is tried again if it cannot be written, until a later one has all that it
  // has, and each failure is told.
  void Write(CheckpointPartCopy part);
  // Any thread; returns at once. Parts of other lineages are not tried again.
  void KeepOnly(LineageNumber lineage) { kept_lineage_ = lineage.value(); }
  // Any thread; returns at once. Parts of so many elements are to come: their memory is touched
  // ahead, so that the first copy takes no longer than later ones.
  void Expect(size_t elements);
  // Any thread. Nothing is gained by rests while no steps run.
  void SetTraining(bool training) { pace_.HurryAll(!training); }
  size_t waiting() const { return jobs_.size(); }

 private:
  void Run();
  void Did(size_t bytes);
  void TouchMemory(size_t elements);
  void WriteOne(std::shared_ptr<const CheckpointPartCopy> part, int failures);
  void TryAgain(std::shared_ptr<const CheckpointPartCopy> part, int failures, std::string why);
  void ForgetCopiesIn(const CheckpointPartCopy& newer);
  void WriteDue();
  Time NextTry() const;
  bool IsFinite(const CheckpointPartCopy& part);

  const SetupPtr setup_;
  const std::string writer_;
  const std::shared_ptr<EventBox> events_;
  Failpoints& failpoints_;
  ThreadProgress& progress_;
  Pace pace_;
  int64_t written_ = 0;  // the writer thread's
  std::atomic<bool> touching_ = false;
  std::atomic<int> under_way_ = 0;  // given, and not answered; or waiting for another try
  std::atomic<int64_t> kept_lineage_ = 0;
  struct Expected {
    size_t elements = 0;
  };
  using Part = std::shared_ptr<const CheckpointPartCopy>;
  struct Retry {
    Part part;
    int failures = 0;
    Time due{};
  };
  std::vector<Retry> retries_;  // the writer thread's
  Mailbox<std::variant<Part, Expected>> jobs_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace muster
