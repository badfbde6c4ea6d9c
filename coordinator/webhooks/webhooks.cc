#include "coordinator/webhooks/webhooks.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "coordinator/webhooks/crowd.h"
#include "lib/base/plural.h"
#include "lib/base/status.h"
#include "lib/log/log.h"

namespace muster::coordinator {
namespace {

constexpr size_t kMostDeletedAtOnce = 10'000;
constexpr const char* kResults[] = {"delivered", "failed", "given_up",
                                    "dropped",   "gone",   "unreadable"};
constexpr size_t kDroppedBesides = 20;  // a twentieth of all

}  // namespace

absl::StatusOr<std::unique_ptr<Webhooks>> Webhooks::Start(Journal& journal, Metrics& metrics,
                                                          WebhooksOptions options) {
  const absl::StatusOr<std::vector<WebhookSettings>> settings = ReadWebhooks(options.file);
  journal.KeepOutbox();
  std::unique_ptr<Webhooks> webhooks(new Webhooks(journal, metrics, std::move(options)));
  MUSTER_ASSIGN_OR_RETURN(webhooks->cursors_, ReadCursors(journal.kv()));
  // A cluster that could begin with it before does not stand still for it.
  if (!settings.ok() && webhooks->cursors_.empty()) return settings.status();
  MUSTER_RETURN_IF_ERROR(ScanOutbox(
      journal.kv(), {},
      [&](const PlacedEvent&) {
        ++webhooks->found_;
        return true;
      },
      [&](const DamagedEvent&) { ++webhooks->found_; }));
  if (settings.ok()) {
    LogInfo("%s, of %s; %s wait from before",
            Plural(static_cast<int64_t>(settings->size()), "webhook"), webhooks->options_.file,
            Plural(webhooks->found_, "event"));
    webhooks->Become(*settings);
  } else {
    LogWarning("--webhooks: %s; nobody is told of anything until it can be read, and events wait",
               settings.status().message());
  }
  webhooks->reading_.Obeyed(settings);
  // From the start, so that the first of its kind counts as an increase.
  for (const char* result : kResults) metrics.GetCounter("muster_webhook_deliveries_total", result);
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
    if (const absl::Status saved = Save(); !saved.ok())
      log_.Warn(
          "how far webhooks are cannot be written down (%s): after a crash they would be "
          "told some events again",
          saved.message());
    if (const absl::Status dropped = DropWhatIsTooMuch(); !dropped.ok())
      log_.Warn("too many events for webhooks wait, and none can be dropped: %s",
                dropped.message());
    metrics_.GetGauge("muster_queue_depth", "webhooks").Set(static_cast<double>(Stored()));
  }
  for (const auto& [name, receiver] : receivers_) receiver->Stop();
  for (const auto& [name, receiver] : receivers_) receiver->Finish();
  (void)Save();  // as above
}

void Webhooks::LookAtFile() {
  const absl::StatusOr<std::vector<WebhookSettings>> settings = ReadWebhooks(options_.file);
  if (!reading_.Settles(settings)) return;
  if (settings.ok()) return Become(*settings);
  LogWarning("--webhooks: %s; those of before stay until it can be read",
             settings.status().message());
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
    const OutboxPlace from = known == cursors_.end() ? journal_.OutboxEnd() : known->second;
    cursors[one.name] = from;
    if (!receivers_.contains(one.name))
      receivers_[one.name] = std::make_unique<Receiver>(
          one, from,
          ReceiverSurroundings{.journal = journal_,
                               .metrics = metrics_,
                               .check_claim = options_.check_claim,
                               .limits = options_.limits,
                               .patience = options_.patience,
                               .unreadable_pause = options_.unreadable_pause});
  }
  cursors_ = std::move(cursors);
}

// After Save, so that what is there is lacked by somebody. Some more than have to go, as all are
// looked at for it. What a receiver has in memory already it sends all the same.
absl::Status Webhooks::DropWhatIsTooMuch() {
  const int64_t too_many = Stored() - static_cast<int64_t>(options_.most_kept);
  if (too_many <= 0) return absl::OkStatus();
  const size_t many = static_cast<size_t>(too_many) + options_.most_kept / kDroppedBesides;
  Crowd crowd;
  const absl::Status seen = ScanOutbox(
      journal_.kv(), {},
      [&](const PlacedEvent& placed) {
        crowd.Add(placed);
        return true;
      },
      [](const DamagedEvent&) {});  // receivers say it
  if (!seen.ok() && !absl::IsDataLoss(seen)) return seen;
  const std::vector<OutboxPlace> surplus = seen.ok() ? crowd.Surplus(many) : OldestUnseen(many);
  for (size_t from = 0; from < surplus.size(); from += kMostDeletedAtOnce)
    MUSTER_RETURN_IF_ERROR(Drop(
        {surplus.begin() + static_cast<std::ptrdiff_t>(from),
         surplus.begin() +
             static_cast<std::ptrdiff_t>(std::min(surplus.size(), from + kMostDeletedAtOnce))}));
  log_.Warn("more than %s for webhooks wait, so %d %s are dropped, the oldest first",
            Plural(static_cast<int64_t>(options_.most_kept), "event"), surplus.size(),
            seen.ok() ? "of the jobs with most of them" : "behind a damaged part of the store");
  return absl::OkStatus();
}

// Up to `many` of this term, by their numbers: behind a damaged part of the store nobody can see
// which are there. One that had gone before counts twice then, so that at the worst twice as many
// are kept as may be.
std::vector<OutboxPlace> Webhooks::OldestUnseen(size_t many) {
  const OutboxPlace end = journal_.OutboxEnd();
  OutboxPlace place = end;
  for (const auto& [name, cursor] : cursors_) place = std::min(place, cursor);
  place = std::max({place, unseen_end_, OutboxPlace{end.term, 1}});
  std::vector<OutboxPlace> oldest;
  for (; oldest.size() < many && place < end; ++place.seq) oldest.push_back(place);
  unseen_end_ = place;
  return oldest;
}

absl::Status Webhooks::Drop(const std::vector<OutboxPlace>& places) {
  MUSTER_RETURN_IF_ERROR(DeleteEvents(journal_.kv(), places));
  deleted_ += static_cast<int64_t>(places.size());
  metrics_.GetCounter("muster_webhook_deliveries_total", "dropped")
      .Add(static_cast<double>(places.size()));
  return absl::OkStatus();
}

absl::Status Webhooks::Save() {
  for (const auto& [name, receiver] : receivers_) cursors_[name] = receiver->cursor();
  OutboxPlace end = journal_.OutboxEnd();
  for (const auto& [name, cursor] : cursors_) end = std::min(end, cursor);
  for (size_t deleted = kMostDeletedAtOnce; deleted == kMostDeletedAtOnce;) {
    MUSTER_ASSIGN_OR_RETURN(deleted,
                            WriteCursors(journal_.kv(), cursors_, end, kMostDeletedAtOnce));
    deleted_ += static_cast<int64_t>(deleted);
  }
  return absl::OkStatus();
}

int64_t Webhooks::Stored() const { return found_ + journal_.OutboxEnd().seq - 1 - deleted_; }

}  // namespace muster::coordinator
