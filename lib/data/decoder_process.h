// Libraries that are not safe with every file run in a process of their own, muster-decoder, which
// may have so much memory and so much time. What ends it ends no worker.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/base/descriptor.h"
#include "lib/base/mutex.h"
#include "lib/data/received_bytes.h"

namespace muster {

struct DecoderOptions {
  std::string program;  // empty: muster-decoder beside the running program, or in ../bin
  uint64_t memory = uint64_t{1} << 30;                            // bytes of address space
  std::chrono::milliseconds patience = std::chrono::seconds(15);  // for one answer
  int most_deaths = 16;   // of all processes; after them none is started any more
  int most_silences = 4;  // one after the other; one more is no sample's fault
  std::function<void(const std::string& text)> warns{};  // people; may be empty; any thread
};

// As whoever makes a task on this thread wants them (HashListener). All the waits for a standstill
// together are well within the time that the thread which trains may stand still.
DecoderOptions DecoderOptionsOfThread();

// One such process; one thread at a time.
class DecoderProcess {
 public:
  static absl::StatusOr<std::unique_ptr<DecoderProcess>> Start(const DecoderOptions& options);
  ~DecoderProcess();
  DecoderProcess(const DecoderProcess&) = delete;
  DecoderProcess& operator=(const DecoderProcess&) = delete;

  // Puts a request behind those that have no answer yet. It is sent while answers are waited for,
  // so that the process has always something to do.
  void Ask(absl::string_view request);
  // To the first request that has none yet. Its bytes are there until the next of these calls.
  // After an error it is of no use any more. kDeadlineExceeded: it takes too long. kUnavailable: it
  // has ended by a fault of its own; the message says how, "ended by signal 11". kAborted:
  // likewise, but somebody or the machine has ended it, or it could not begin.
  absl::StatusOr<absl::string_view> NextAnswer();

 private:
  DecoderProcess(pid_t pid, Descriptor socket, std::chrono::milliseconds patience)
      : pid_(pid), socket_(std::move(socket)), patience_(patience) {}

  using Deadline = std::chrono::steady_clock::time_point;
  // Until there is something to receive or room for what is to be sent.
  absl::Status Wait(Deadline deadline) const;
  // As much as there is room for.
  absl::Status SendSome();
  // The next so many bytes. They stay where they are until more are received.
  absl::StatusOr<absl::string_view> Receive(size_t bytes, Deadline deadline);
  absl::Status Ended();
  // `status` is no success. What has become of the process says more.
  absl::Status Failed(const absl::Status& status);

  pid_t pid_;  // -1: it has been waited for
  const Descriptor socket_;
  const std::chrono::milliseconds patience_;
  std::string to_send_;  // bytes from sent_ on
  size_t sent_ = 0;
  ReceivedBytes received_;
};

// As many processes as threads ask at a time. Any thread.
class Decoders {
 public:
  explicit Decoders(DecoderOptions options = DecoderOptionsOfThread())
      : options_(std::move(options)) {}

  // What is asked for. Where a process ends, takes too long or is short of memory, one that is
  // fresh is asked the same once more: it may have been the only thing at hand for somebody who
  // needed memory, have been stopped, or have been at its limit by what it had open. kDataLoss: the
  // decoder says that the bytes are bad, or two ended by faults of their own or took too long,
  // which counts as bad everywhere (BadSample, muster/data_set.h); or it says why else it cannot
  // be, was ended, or more took too long than samples are to blame for, which may be this
  // machine's. What ended two is not asked again. kInternal: it cannot be started, or has ended too
  // often. `about`: what it is, for people, "sample 7: cat.jpg". `takes`: how many may take too
  // long for it, 1 or 2.
  absl::StatusOr<std::string> Ask(absl::string_view request, absl::string_view about = "a file",
                                  int takes = 2);
  // Whether this is known to end them, or to keep them for too long.
  bool AreEndedBy(absl::string_view request) const { return WhyItEndsThem(request).has_value(); }

  struct Asked {
    size_t answered = 0;
    bool took_too_long = false;  // the next one
  };
  // Asks one process for one thing after the other, of which it knows some before it has answered
  // the first. `next` gives the requests, 0 first; nullopt: there are no more. `take` gets the
  // answer to each, 0 first: what Ask would give, but nothing is asked once more. Returns how many
  // were answered: where fewer than `next` gave, the process has ended on the next one, or that
  // took too long, or memory is short. `about` names one, as for Ask. kInternal, kDataLoss that is
  // no BadSample: as Ask.
  using NextRequest = absl::FunctionRef<std::optional<std::string>(size_t part)>;
  using TakeAnswer =
      absl::FunctionRef<void(size_t part, const absl::StatusOr<absl::string_view>& answer)>;
  using NameOf = absl::FunctionRef<std::string(size_t part)>;
  absl::StatusOr<Asked> AskForMany(NextRequest next, TakeAnswer take, NameOf about);

 private:
  using Time = std::chrono::steady_clock::time_point;
  // A request on which two ended by faults of their own or took too long, and a sentence that says
  // so. It may be long.
  struct Fatal {
    size_t bytes = 0;
    std::string hash;
    std::string why;
  };

  std::optional<std::string> WhyItEndsThem(absl::string_view request) const;
  absl::StatusOr<std::string> AskTwice(absl::string_view request, absl::string_view about,
                                       int takes);
  absl::StatusOr<std::unique_ptr<DecoderProcess>> Take(bool fresh);
  void GiveBack(std::unique_ptr<DecoderProcess> process);
  void CountDeath();
  // One took too long, which was asked at `from`. kDataLoss: too many have, one after the other.
  absl::Status TookTooLong(absl::string_view about, Time from);
  std::string Patience() const;  // "15 s"

  const DecoderOptions options_;
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<DecoderProcess>> idle_ ABSL_GUARDED_BY(mutex_);
  int deaths_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Fatal> fatal_ ABSL_GUARDED_BY(mutex_);  // as few as there may be deaths
  // Of those who took too long, one after the other. Threads that wait at the same time wait once.
  int silences_ ABSL_GUARDED_BY(mutex_) = 0;
  Time last_silence_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster
