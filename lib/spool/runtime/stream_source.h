// Where the samples of a stream come from.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/time.h"
#include "lib/domain/stream.h"
#include "lib/spool/state/stream_reader.h"

namespace muster {

// One thread at a time, but for Wake.
// Errors: kDataLoss, kInvalidArgument and kFailedPrecondition: it can be no source, or not any
// more; the message names file or field. Others may pass: Start again then.
class StreamSource {
 public:
  virtual ~StreamSource() = default;

  // What Take gives next is the sample of `position`; `place` is what was given before that.
  virtual absl::Status Start(uint64_t position, const StreamPlace& place) = 0;
  // Appends up to `most` samples to `samples`, and waits for about `wait` for the first of them.
  // After the end was told it is not called.
  virtual absl::StatusOr<SamplesCame> Take(uint64_t most, Duration wait, std::string& samples) = 0;
  // Whoever sends them need not keep the first `positions` samples any more; with kStreamIsDone
  // (sender_bytes.h) none at all.
  virtual void Answer(uint64_t positions) = 0;
  // Take, now or the next time, does not wait. Any thread.
  virtual void Wake() = 0;
};

}  // namespace muster
