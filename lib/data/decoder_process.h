// Libraries that are not safe with every file run in a process of their own, muster-decoder, which
// may have so much memory and so much time. What ends it ends no worker.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/base/descriptor.h"
#include "lib/base/mutex.h"

namespace muster {

struct DecoderOptions {
  std::string program;  // empty: muster-decoder beside the running program, or in ../bin
  uint64_t memory = uint64_t{1} << 30;                            // bytes of address space
  std::chrono::milliseconds patience = std::chrono::seconds(60);  // for one answer
  int most_deaths = 16;  // of all processes; after them none is started any more
};

// One such process; one thread at a time.
class DecoderProcess {
 public:
  static absl::StatusOr<std::unique_ptr<DecoderProcess>> Start(const DecoderOptions& options);
  ~DecoderProcess();
  DecoderProcess(const DecoderProcess&) = delete;
  DecoderProcess& operator=(const DecoderProcess&) = delete;

  // The answer's bytes. After an error it is of no use any more. kDeadlineExceeded: it takes too
  // long. kUnavailable: it has ended by a fault of its own; the message says how, "ended by signal
  // 11". kAborted: likewise, but somebody or the machine has ended it, or it could not begin.
  absl::StatusOr<std::string> Exchange(absl::string_view request);

 private:
  DecoderProcess(pid_t pid, Descriptor socket, std::chrono::milliseconds patience)
      : pid_(pid), socket_(std::move(socket)), patience_(patience) {}

  using Deadline = std::chrono::steady_clock::time_point;
  absl::Status WaitFor(short events,
                       Deadline deadline) const;  // NOLINT(google-runtime-int): poll's
  absl::Status Send(absl::string_view bytes, Deadline deadline) const;
  absl::Status Receive(char* into, size_t bytes, Deadline deadline) const;
  absl::Status Ended();

  pid_t pid_;  // -1: it has been waited for
  const Descriptor socket_;
  const std::chrono::milliseconds patience_;
};

// As many processes as threads ask at a time. Any thread.
class Decoders {
 public:
  explicit Decoders(DecoderOptions options = {}) : options_(std::move(options)) {}

  // What is asked for. Where a process ends or is short of memory, one that is fresh is asked the
  // same once more: it may have been the only thing at hand for somebody who needed memory, or have
  // been at its limit by what it had open. kDataLoss: the decoder says that the bytes are bad, or
  // two ended by faults of their own, which is bad everywhere (BadSample, muster/data_set.h); or it
  // says why else it cannot be, was ended, or took too long, which may be this machine's. What
  // ended two is not asked again. kInternal: it cannot be started, or has ended too often.
  absl::StatusOr<std::string> Ask(absl::string_view request);
  // Of what can be asked for in parts, too: nothing is asked once more, and no error is a
  // BadSample, since any part may be the bad one.
  absl::StatusOr<std::string> AskForMany(absl::string_view request);

 private:
  // A request on which two ended by faults of their own, and how they did. It may be long.
  struct Fatal {
    size_t bytes = 0;
    std::string hash;
    std::string how;
  };

  absl::StatusOr<std::string> AskUpTo(int attempts, absl::string_view request);
  absl::StatusOr<std::unique_ptr<DecoderProcess>> Take(bool fresh);
  void GiveBack(std::unique_ptr<DecoderProcess> process);

  const DecoderOptions options_;
  Mutex mutex_;
  std::vector<std::unique_ptr<DecoderProcess>> idle_ ABSL_GUARDED_BY(mutex_);
  int deaths_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Fatal> fatal_ ABSL_GUARDED_BY(mutex_);  // as few as there may be deaths
};

}  // namespace muster
