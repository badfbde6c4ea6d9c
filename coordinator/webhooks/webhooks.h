// The webhooks of a coordinator: who they are, as the file of --webhooks says from time to time,
// and from where each goes on, which is written down about once a second. So after a crash what a
// receiver has had in the last second may come again, with its id; nothing is left out.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/runtime/journal.h"
#include "coordinator/webhooks/receiver.h"
#include "coordinator/webhooks/settings.h"
#include "coordinator/webhooks/settled_reading.h"
#include "lib/base/stop_signal.h"
#include "lib/log/limited_log.h"
#include "lib/metrics/metrics.h"

namespace muster::coordinator {

struct WebhooksOptions {
  std::string file;
  std::function<absl::Status()> check_claim;  // as of ReceiverSurroundings
  RetryLimits limits{};
  PostPatience patience{};
  Duration unreadable_pause = std::chrono::seconds(1);  // as of ReceiverSurroundings
  Duration save_every = std::chrono::seconds(1);
  int saves_per_look = 2;  // at the file
  // Events that are kept for the slowest; of more some are dropped (crowd.h). They are of some
  // hundred bytes each, and of 2 KiB at most.
  size_t most_kept = 100'000;
};

class Webhooks {
 public:
  // Before the first Write of `journal`, which keeps an outbox from then on and, as `metrics`,
  // outlives this. A webhook of a new name is told what is decided from now on. Errors: those of
  // ReadWebhooks, and of the store.
  static absl::StatusOr<std::unique_ptr<Webhooks>> Start(Journal& journal, Metrics& metrics,
                                                         WebhooksOptions options);
  ~Webhooks();  // after a last look at how far each is; what is not sent then the next start sends
  Webhooks(const Webhooks&) = delete;
  Webhooks& operator=(const Webhooks&) = delete;

 private:
  Webhooks(const Journal& journal, Metrics& metrics, WebhooksOptions options)
      : journal_(journal), metrics_(metrics), options_(std::move(options)) {}

  void Loop();
  void LookAtFile();
  void Become(const std::vector<WebhookSettings>& settings);
  absl::Status DropWhatIsTooMuch();
  std::vector<OutboxPlace> OldestUnseen(size_t many);
  absl::Status Drop(const std::vector<OutboxPlace>& places);
  absl::Status Save();
  int64_t Stored() const;  // events in the outbox

  const Journal& journal_;
  Metrics& metrics_;
  const WebhooksOptions options_;
  // Of Start, and then of the thread.
  std::map<std::string, OutboxPlace> cursors_;  // by name
  std::map<std::string, std::unique_ptr<Receiver>> receivers_;
  int64_t found_ = 0;         // events that this start found
  int64_t deleted_ = 0;       // since
  OutboxPlace unseen_end_{};  // what OldestUnseen gave last ended here
  SettledReading reading_;
  LimitedLog log_;
  StopSignal stop_;
  std::thread thread_;
};

}  // namespace muster::coordinator
