// Reads the lanes that will be run next on threads of its own, so that the train thread need not
// wait for them. It changes when bytes are read, and never which.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/base/mutex.h"
#include "muster/data_set.h"
#include "muster/task.h"

namespace muster {

class Loader {
 public:
  // `set` outlives it. What is read and not taken yet has at most `most_bytes`, or is one lane.
  // Without threads all is read when it is taken.
  // With kSkip a bad sample is left out of its lane, else it is an error.
  Loader(const DataSet& set, int threads, size_t most_bytes,
         OnBadSample on_bad_sample = OnBadSample::kStop);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // As ReadsAhead::Coming. What was read for a lane that does not come any more is forgotten.
  void Coming(std::vector<ComingLane> lanes);

  // What set.Read gives, read before or now, as far as it is missing, also by the calling thread.
  // `left_out`, where the caller gives it: the positions in `ids` of those that are left out, whose
  // rows say nothing; ascending.
  absl::StatusOr<Batch> Take(int64_t epoch, absl::Span<const uint64_t> ids,
                             std::vector<uint32_t>* left_out = nullptr);

 private:
  // A lane, cut into slices, which threads read into one batch.
  struct Lane {
    ComingLane wanted;
    Batch batch;  // made when the first slice is read
    bool has_batch = false;
    size_t handed_out = 0;       // samples that somebody reads or has read
    size_t done = 0;             // samples
    size_t bad_from = SIZE_MAX;  // first sample of the first slice that failed
    absl::Status status;         // of that
    std::vector<uint32_t> left_out;
  };
  using LanePtr = std::shared_ptr<Lane>;
  struct Slice {
    size_t first = 0;
    size_t count = 0;
  };

  void Run();
  LanePtr NextLane() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  LanePtr Find(int64_t epoch, absl::Span<const uint64_t> ids) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Slice HandOut(Lane& lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Read(Lane& lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(const Lane& lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  size_t BytesOf(const Lane& lane) const;

  const DataSet& set_;
  const size_t most_bytes_;
  const OnBadSample on_bad_sample_;
  const size_t slice_;  // samples
  Mutex mutex_;
  CondVar changed_;
  std::deque<LanePtr> lanes_ ABSL_GUARDED_BY(mutex_);  // in the order in which they are wanted
  size_t held_bytes_ ABSL_GUARDED_BY(mutex_) = 0;      // of the batches in lanes_
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace muster
