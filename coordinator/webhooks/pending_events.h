// What one webhook has not had yet, and what is to be sent when. Decides; it has no thread and no
// clock. Events of a job go one after another, each once the one before it is dealt with; those of
// other jobs do not wait for it. Lives as long as the webhook is told things.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/runtime/outbox.h"
#include "lib/base/time.h"

namespace muster::coordinator {

// What a receiver answered to one event.
struct WebhookAnswer {
  int status = 0;     // of HTTP; 0: nobody answered
  std::string why{};  // for people, if nobody did
  std::optional<Duration> retry_after{};
};

enum class Reception {
  kTaken,
  kEventTrouble,     // it does not take this one: others may go on
  kReceiverTrouble,  // it takes nothing now
  kGone              // it wants nothing any more
};
Reception ReceptionOf(const WebhookAnswer& answer);

struct RetryLimits {
  Duration first_pause = std::chrono::seconds(1);
  Duration longest_pause = std::chrono::minutes(15);
  Duration longest_retry_after = std::chrono::hours(1);
  // An event that is so old by the wall clock, or was first tried so long ago, is given up once it,
  // or the receiver, has failed so often: so neither a clock that jumps nor a coordinator that was
  // away for a day drops what was hardly tried.
  Duration give_up_after = std::chrono::hours(24);
  int least_tries = 12;
  size_t window = 2048;  // events in memory
};

// After so many failures in a row; `chance` from 0 to 1 spreads those who wait.
Duration PauseAfter(int failures, double chance, const RetryLimits& limits);

class PendingEvents {
 public:
  PendingEvents(OutboxPlace from, const RetryLimits& limits) : limits_(limits), read_from_(from) {}

  // From where to read on, and how much there is room for.
  OutboxPlace read_from() const { return read_from_; }
  size_t room() const { return limits_.window - waiting_.size(); }
  // In the order of their places.
  void Add(PlacedEvent event);
  void PassOver(OutboxPlace place);  // it is none for this webhook
  void ReadUpTo(OutboxPlace end);    // there is nothing more before it

  // What is to be sent now; null: nothing is. It stays until it is answered.
  const PlacedEvent* Next(Time now) const;
  // When there will be something; nothing: only once more is added.
  std::optional<Time> NextAt() const;

  struct Outcome {
    Reception reception = Reception::kTaken;
    std::vector<PlacedEvent> given_up{};
  };
  // `place`: of what Next gave. kGone is for the owner to act on: nothing changes here.
  Outcome OnAnswer(OutboxPlace place, const WebhookAnswer& answer, Time now, int64_t now_unix_ms,
                   double chance);

  // What is before it is dropped. How many.
  size_t DropBefore(OutboxPlace place);

  // All before it was dealt with.
  OutboxPlace cursor() const { return waiting_.empty() ? read_from_ : waiting_.begin()->first; }
  size_t size() const { return waiting_.size(); }
  int failures() const { return failures_; }  // of the receiver, in a row

 private:
  struct Waiting {
    PlacedEvent event;
    int tries = 0;
    Time first_try{};
    Time not_before{};
  };
  bool IsGivenUp(const Waiting& waiting, Time now, int64_t now_unix_ms) const;

  RetryLimits limits_;
  std::map<OutboxPlace, Waiting> waiting_;
  OutboxPlace read_from_;  // the place after the last one that was added or passed over
  int failures_ = 0;
  Time paused_until_{};
};

}  // namespace muster::coordinator
