// What webhooks are to be told (coordinator/webhooks): events of jobs. Each is written in the batch
// that decides what it tells, beside the journal, and stays there until each webhook has had it. So
// none is lost with a crash, and no decision waits for a webhook. Layout, in the family of the
// journal (docs/formats.md):
//   outbox/TERM SEQ → fields of OutboxEvent          (numbers: 8 bytes, big-endian)
//   webhook/NAME    → TERM SEQ, the place from which that one goes on
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/state/job_state.h"
#include "lib/base/allowance.h"
#include "lib/base/time.h"
#include "lib/storage/kv.h"

namespace muster::coordinator {

// Events are numbered in each term from 1, in the order in which they were decided.
struct OutboxPlace {
  int64_t term = 0;
  int64_t seq = 0;
  auto operator<=>(const OutboxPlace&) const = default;
};

struct OutboxEvent {
  std::string type{};  // of kWebhookEventTypes
  int64_t unix_ms = 0;
  std::string job{};
  std::string name_space{};
  std::string owner{};             // empty: nobody was asked
  std::string state{};             // the job's, then
  std::string reason{};            // for people
  std::string digest{};            // empty: it has none yet
  int64_t start = 0;               // of the job's last start; 0: it never started
  int64_t step = 0;                // steps done; of a checkpoint, the one that it is of
  std::optional<int> exit_code{};  // of a job that has ended
  bool operator==(const OutboxEvent&) const = default;
};
struct PlacedEvent {
  OutboxPlace place;
  OutboxEvent event;
};
struct DamagedEvent {
  std::optional<OutboxPlace> place;  // nothing: that cannot be read, either
  std::string why;                   // for people
};

inline constexpr absl::string_view kCheckpointCommitted = "checkpoint.committed";
inline constexpr absl::string_view kCheckpointFailed = "checkpoint.failed";
inline constexpr absl::string_view kWebhookEventTypes[] = {
    "job.queued",     "job.checking",  "job.starting",       "job.running",
    "job.recovering", "job.stopping",  "job.done",           "job.stopped",
    "job.failed",     "job.cancelled", kCheckpointCommitted, kCheckpointFailed};
// It tells that its job has ended.
bool TellsOfAnEnd(const OutboxEvent& event);

// What is told of a job that is in another phase than `before`; nothing: it is not known of before.
// One that was queued for so short that nobody wrote it down is told to have been.
std::vector<OutboxEvent> EventsOfChange(std::optional<JobPhase> before, const JobJournal& now,
                                        int64_t unix_ms);
// What the announcement of a checkpoint (Announce) becomes; nothing: it is none of those.
std::optional<OutboxEvent> EventOfAnnouncement(const std::string& event, const std::string& text,
                                               const std::map<std::string, std::string>& fields,
                                               const JobJournal& job, int64_t unix_ms);

// Which failed checkpoints are told. Members say that they failed, as often and of which steps they
// like: of a job and step one is told, and of a job an Allowance of them; `reason` of the next then
// counts what was left out. A plain value.
class FailedCheckpoints {
 public:
  // False: `event`, a kCheckpointFailed, is left out.
  bool Take(OutboxEvent& event, Time now);
  void Forget(const std::string& job) { jobs_.erase(job); }

 private:
  struct OfJob {
    int64_t start = -1;  // of the last one
    int64_t step = -1;
    Allowance allowance;
  };
  std::map<std::string, OfJob> jobs_;
};

void PutEvent(Batch& batch, OutboxPlace place, const OutboxEvent& event);

// In the order of their places, from `from` on, until `visit` says false. An event that is none is
// passed over, and `damaged` gets why, with its place. Errors: those of the store; what is behind
// then was not seen, so nobody may pass it over. kDataLoss also says what to do.
absl::Status ScanOutbox(const Kv& kv, OutboxPlace from,
                        const std::function<bool(PlacedEvent)>& visit,
                        const std::function<void(const DamagedEvent&)>& damaged);

absl::Status DeleteEvents(Kv& kv, const std::vector<OutboxPlace>& places);

// Deletes up to `most` that lie before `end`, in one batch, which also has where each webhook goes
// on; others are forgotten. How many were deleted.
absl::StatusOr<size_t> WriteCursors(Kv& kv, const std::map<std::string, OutboxPlace>& cursors,
                                    OutboxPlace end, size_t most);
absl::StatusOr<std::map<std::string, OutboxPlace>> ReadCursors(const Kv& kv);

}  // namespace muster::coordinator
