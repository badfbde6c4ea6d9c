#include "coordinator/webhooks/webhooks.h"

#include <algorithm>
#include <utility>

#include "lib/base/plural.h"
#include "lib/base/status.h"
#include "lib/log/log.h"

namespace muster::coordinator {
namespace {

constexpr size_t kMostDeletedAtOnce = 10'000;

}  // namespace

absl::StatusOr<std::unique_ptr<Webhooks>> Webhooks::Start(Journal& journal, Metrics& metrics,
                                                          WebhooksOptions options) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<WebhookSettings> settings, ReadWebhooks(options.file));
  journal.KeepOutbox();
  std::unique_ptr<Webhooks> webhooks(new Webhooks(journal, metrics, std::move(options)));
  MUSTER_ASSIGN_OR_RETURN(webhooks->cursors_, ReadCursors(journal.kv()));
  const absl::Status counted = ScanOutbox(journal.kv(), {}, [&](const PlacedEvent&) {
    ++webhooks->found_;
    return true;
  });
  if (!counted.ok() && !absl::IsDataLoss(counted)) return counted;
  LogInfo("%s, of %s; %s wait from before",
          Plural(static_cast<int64_t>(settings.size()), "webhook"), webhooks->options_.file,
          Plural(webhooks->found_, "event"));
  webhooks->Become(settings);
  MUSTER_RETURN_IF_ERROR(webhooks->Save());  // so that from here on a crash loses nothing
  webhooks->thread_ = std::thread([self = webhooks.get()] { self->Loop(); });
  return webhooks;
}

Webhooks::~Webhooks() {
  stop_.Stop();
  if (thread_.joinable()) thread_.join();
}

void Webhooks::Loop() {
  for (int i = 1; !stop_.WaitFor(options_.save_every); ++i) {
    if (i % options_.saves_per_look == 0) LookAtFile();
    if (const absl::Status saved = Save(); saved.ok())
      DropWhatIsTooMuch();
    else
      log_.Warn(
          "how far webhooks are cannot be written down (%s): after a crash they would be "
          "told some events again",
          saved.message());
    metrics_.GetGauge("muster_queue_depth", "webhooks").Set(static_cast<double>(Stored()));
  }
  for (const auto& [name, receiver] : receivers_) receiver->Stop();
  for (const auto& [name, receiver] : receivers_) receiver->Finish();
  (void)Save();  // as above
}

void Webhooks::LookAtFile() {
  const absl::StatusOr<std::vector<WebhookSettings>> settings = ReadWebhooks(options_.file);
  const std::string trouble(settings.status().message());
  if (trouble != trouble_ && !trouble.empty())
    LogWarning("--webhooks: %s; those of before stay until it can be read", trouble);
  trouble_ = trouble;
  if (settings.ok()) Become(*settings);
}

// Those that are as before go on. Of the others all are told to stop before one is waited for.
void Webhooks::Become(const std::vector<WebhookSettings>& settings) {
  const auto stays = [&](const Receiver& receiver) {
    return std::find(settings.begin(), settings.end(), receiver.settings()) != settings.end();
  };
  for (const auto& [name, receiver] : receivers_)
    if (!stays(*receiver)) receiver->Stop();
  std::erase_if(receivers_, [&](auto& entry) {
    if (stays(*entry.second)) return false;
    cursors_[entry.first] = entry.second->Finish();
    return true;
  });
  std::map<std::string, OutboxPlace> cursors;
  for (const WebhookSettings& one : settings) {
    const auto known = cursors_.find(one.name);
    const OutboxPlace from =
        std::max(floor_, known == cursors_.end() ? journal_.OutboxEnd() : known->second);
    cursors[one.name] = from;
    if (!receivers_.contains(one.name))
      receivers_[one.name] =
          std::make_unique<Receiver>(one, from,
                                     ReceiverSurroundings{.journal = journal_,
                                                          .metrics = metrics_,
                                                          .check_claim = options_.check_claim,
                                                          .limits = options_.limits,
                                                          .patience = options_.patience});
  }
  cursors_ = std::move(cursors);
}

// After Save, so that what is there is lacked by somebody. The next Save deletes it.
void Webhooks::DropWhatIsTooMuch() {
  const int64_t too_many = Stored() - static_cast<int64_t>(options_.most_kept);
  if (too_many <= 0) return;
  int64_t passed = 0;
  (void)ScanOutbox(journal_.kv(), {}, [&](const PlacedEvent& placed) {  // damaged ones go, too
    floor_ = placed.place;
    return ++passed <= too_many;
  });
  metrics_.GetCounter("muster_webhook_deliveries_total", "dropped")
      .Add(static_cast<double>(too_many));
  log_.Warn("%s for webhooks wait, so the oldest are dropped",
            Plural(static_cast<int64_t>(options_.most_kept), "event"));
  for (const auto& [name, receiver] : receivers_) receiver->DropBefore(floor_);
}

absl::Status Webhooks::Save() {
  for (const auto& [name, receiver] : receivers_) cursors_[name] = receiver->cursor();
  OutboxPlace end = journal_.OutboxEnd();
  for (auto& [name, cursor] : cursors_) {
    cursor = std::max(cursor, floor_);
    end = std::min(end, cursor);
  }
  for (size_t deleted = kMostDeletedAtOnce; deleted == kMostDeletedAtOnce;) {
    MUSTER_ASSIGN_OR_RETURN(deleted,
                            WriteCursors(journal_.kv(), cursors_, end, kMostDeletedAtOnce));
    deleted_ += static_cast<int64_t>(deleted);
  }
  return absl::OkStatus();
}

int64_t Webhooks::Stored() const { return found_ + journal_.OutboxEnd().seq - 1 - deleted_; }

}  // namespace muster::coordinator
