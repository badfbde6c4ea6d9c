// Everything of a job short of training it: what its model is, what memory its members need, how
// its data is cut into steps, and whether one lane runs, gives the same bits twice and has the
// gradient of its loss. On the train thread of a worker that has no job.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/domain/history.h"
#include "lib/domain/job.h"
#include "muster/task.h"
#include "muster/task_info.h"
#include "worker/runtime/lane_measures.h"
#include "worker/tasks/remembers.h"

namespace muster::worker {

struct CheckedLane {
  int64_t samples = 0;
  int64_t weight = 0;
  double loss = 0;  // of one sample, or token: divided by the weight
  double seconds = 0;
  double input_seconds = 0;  // of these
  double gradient_norm = 0;  // L2, of the lane's summed gradient
  bool is_finite = true;     // loss and gradient
  // What of the model a lane leaves otherwise than it found it, and nobody puts back.
  std::vector<std::string> changes{};
  bool is_repeatable = true;  // run again after another lane, its gradient has the same bits
};

// In bytes, of a worker that computes as many lanes as any does with most workers. Where a disk is
// slower than checkpoints come, there is one more copy for them.
struct CheckedMemory {
  int64_t program = 0;  // the process with its libraries, its data and its module
  int64_t state = 0;    // parameters and buffers, and results of two steps
  int64_t slots = 0;    // of the optimizer, where workers apply it
  int64_t sums = 0;     // of its lanes' gradients
  int64_t copies = 0;   // of its part of a checkpoint, on the way to the disk
  int64_t lane = 0;     // what lanes take at most while they run: one, or all that meet in phases
  int64_t worker() const { return program + state + slots + sums + copies + lane; }
  int64_t server = 0;    // 0: the job has none
  int64_t follower = 0;  // likewise
};

// Where the job begins with the values of a file.
struct CheckedInitial {
  std::string file;
  std::string hash;
  std::vector<bool> loaded;         // for each tensor of the model
  std::vector<std::string> unused;  // tensors of the file
  std::string left_out;             // as one sentence; empty: nothing
};

// One entry of the gradient, beside what the loss itself says.
struct CheckedGradient {
  std::string tensor;
  int64_t element = 0;     // of the tensor, row by row
  double computed = 0;     // by the task
  double difference = 0;   // central difference of the lane's loss
  double uncertainty = 0;  // that rounding and curvature leave to the latter
  bool agrees = true;
  bool is_told = true;  // the uncertainty is small beside the entry, or they differ by more than it
};

// What the model is measured with, of a job that has validation.
struct CheckedValidation {
  uint64_t samples = 0;
  std::string data_hash;
  std::string left_out;
  std::vector<MetricValue> values;  // of the first weights, over the first samples
};

// How a follower keeps up, of a job that has one. Estimates, by a few samples and the first lane.
struct CheckedFollower {
  double seconds = 0;  // to measure one state
  double steps = 0;    // that a worker does in that time
};

struct CheckReport {
  JobSpec spec;
  std::string plugin;                     // empty: the task is part of Muster
  std::vector<TaskParameter> declared{};  // the task's parameters
  std::vector<TensorSpec> tensors;
  int64_t parameters = 0;  // elements of all of them
  uint64_t samples = 0;
  std::string data_hash;
  std::string left_out;              // of the data
  std::vector<TensorSpec> phases{};  // that lanes meet in (sync_batch_norm)
  std::optional<uint64_t> bytes{};   // of the data's files; nothing: the task makes its data
  std::optional<CheckedValidation> validation{};
  std::optional<CheckedFollower> follower{};
  std::optional<CheckedInitial> initial{};
  // Of a stream, of which nobody knows how many samples will come; 0: the data is none.
  uint64_t sample_bytes = 0;
  int64_t steps_per_epoch = 0;  // of a stream nobody knows
  int64_t steps = 0;            // of the job; of one with a stream at most, 0: to its end
  CheckedLane lane;
  CheckedMemory memory;
  std::vector<CheckedGradient> gradients;
  std::vector<std::string> notes{};   // sentences: what is allowed and yet hardly meant
  std::vector<std::string> problems;  // likewise; with one the job is not fit to run
};

struct CheckOptions {
  int gradients = 0;  // entries of the gradient that are compared; 0: none
  // Told before each piece of work that is the task's, on the thread that checks.
  std::function<void()> goes_on = [] {};
  Remembers* remembers = nullptr;  // a side of the task; null: it has none
};

// `task` is that of `spec`, which is complete; `measures` are those of a job with validation, else
// null. Errors are those of the task.
absl::StatusOr<CheckReport> Check(const JobSpec& spec, Task& task, LaneMeasures* measures,
                                  const CheckOptions& options);

}  // namespace muster::worker
