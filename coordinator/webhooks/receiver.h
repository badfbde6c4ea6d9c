// One webhook, with a thread of its own, so that none waits for another's receiver: reads the
// outbox, and sends what its webhook wants until it is taken. Lives until the webhook is changed or
// removed, or the coordinator ends.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <random>
#include <thread>

#include "absl/status/status.h"
#include "coordinator/runtime/journal.h"
#include "coordinator/webhooks/pending_events.h"
#include "coordinator/webhooks/poster.h"
#include "coordinator/webhooks/settings.h"
#include "lib/base/mutex.h"
#include "lib/base/stop_signal.h"
#include "lib/log/limited_log.h"
#include "lib/metrics/metrics.h"

namespace muster::coordinator {

// What all receivers share; the references outlive them.
struct ReceiverSurroundings {
  const Journal& journal;
  Metrics& metrics;
  // kAborted: another coordinator has taken this one's place, which then sends nothing any more.
  std::function<absl::Status()> check_claim;
  RetryLimits limits{};
  PostPatience patience{};
  Duration look_every = std::chrono::milliseconds(100);  // for new events
  Duration unreadable_pause = std::chrono::seconds(1);   // after the store could not be read
};

class Receiver {
 public:
  // Begins with the event at `from`.
  Receiver(WebhookSettings settings, OutboxPlace from, ReceiverSurroundings surroundings);
  ~Receiver();
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  // Where another one goes on; once. It waits for the thread, which Stop tells to end.
  OutboxPlace Finish();

  // All thread-safe.
  void Stop();
  const WebhookSettings& settings() const { return settings_; }
  OutboxPlace cursor() const;  // all before it was dealt with

 private:
  void Run();
  void ReadMore();
  void Send(const PlacedEvent& placed);
  void Note(const PlacedEvent& placed, const WebhookAnswer& answer,
            const PendingEvents::Outcome& outcome, int failures_before);
  void Count(const char* result, size_t many = 1);

  const WebhookSettings settings_;
  const ReceiverSurroundings around_;
  std::atomic<bool> stopping_{false};
  StopSignal stop_;
  mutable Mutex mutex_;
  OutboxPlace cursor_ ABSL_GUARDED_BY(mutex_);
  // The thread's, from here on.
  PendingEvents pending_;
  Poster poster_;
  Time read_again_{};  // not before
  LimitedLog log_;
  std::mt19937_64 random_{std::random_device()()};
  bool is_gone_ = false;  // it wants nothing any more
  bool is_replaced_ =
      false;  // another coordinator has taken our place, and goes on from our cursor
  std::thread thread_;
};

}  // namespace muster::coordinator
