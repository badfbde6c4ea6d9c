#include "coordinator/webhooks/receiver.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "coordinator/webhooks/message.h"
#include "lib/base/clock.h"
#include "lib/base/plural.h"
#include "lib/log/log.h"

namespace muster::coordinator {
namespace {

Time Now() { return RealClock().Now(); }

std::string AnswerText(const WebhookAnswer& answer) {
  if (answer.status == 0) return answer.why;
  const bool redirects = answer.status >= 300 && answer.status < 400;
  return absl::StrCat("it answers ", answer.status,
                      redirects ? ", and redirects are not followed: name where it leads to" : "");
}

}  // namespace

Receiver::Receiver(WebhookSettings settings, OutboxPlace from, ReceiverSurroundings surroundings)
    : settings_(std::move(settings)),
      around_(std::move(surroundings)),
      cursor_(from),
      pending_(from, around_.limits),
      poster_(settings_.url, settings_.ca, around_.patience, stopping_),
      thread_([this] { Run(); }) {}

Receiver::~Receiver() { Finish(); }

OutboxPlace Receiver::Finish() {
  Stop();
  if (thread_.joinable()) thread_.join();
  return cursor();
}

void Receiver::Stop() {
  stopping_ = true;
  stop_.Stop();
}

OutboxPlace Receiver::cursor() const {
  const MutexLock lock(mutex_);
  return cursor_;
}

void Receiver::Count(const char* result, size_t many) {
  around_.metrics.GetCounter("muster_webhook_deliveries_total", result)
      .Add(static_cast<double>(many));
}

void Receiver::Run() {
  while (!stopping_) {
    if (!is_replaced_) ReadMore();
    const PlacedEvent* next = is_replaced_ ? nullptr : pending_.Next(Now());
    if (next != nullptr) Send(PlacedEvent(*next));
    {
      const MutexLock lock(mutex_);
      cursor_ = pending_.cursor();
    }
    const Time look = Now() + around_.look_every;
    const Time due = is_replaced_ ? look : pending_.NextAt().value_or(look);
    if (next == nullptr) stop_.WaitUntil(std::min(due, look));
  }
}

// One that is gone has had all that there is.
void Receiver::ReadMore() {
  const OutboxPlace end = around_.journal.OutboxEnd();
  if (is_gone_) pending_.DropBefore(end);
  size_t room = pending_.room();
  if (end <= pending_.read_from() || room == 0 || Now() < read_again_) return;
  bool has_read_all = true;
  const auto visit = [&](PlacedEvent placed) {
    if (stopping_ || room == 0) has_read_all = false;
    if (!has_read_all || end <= placed.place) return false;
    if (!Wants(settings_, placed.event)) {
      pending_.PassOver(placed.place);
    } else {
      pending_.Add(std::move(placed));
      --room;
    }
    return true;
  };
  const absl::Status read = ScanOutbox(
      around_.journal.kv(), pending_.read_from(), visit, [&](const DamagedEvent& damaged) {
        if (damaged.place) pending_.PassOver(*damaged.place);
        Count("unreadable");
        log_.Warn("webhook %s: %s, so it is not told", settings_.name, damaged.why);
      });
  if (read.ok()) {
    if (has_read_all) pending_.ReadUpTo(end);
    return;
  }
  // What is behind waits until it can be read.
  Count("unreadable");
  log_.Warn("webhook %s: it is told nothing more for now: %s", settings_.name, read.message());
  read_again_ = Now() + around_.unreadable_pause;
}

void Receiver::Send(const PlacedEvent& placed) {
  if (const absl::Status claim = around_.check_claim(); absl::IsAborted(claim)) {
    is_replaced_ = true;
    return;
  }
  const std::string& cluster = around_.journal.cluster();
  const std::string id = WebhookId(cluster, placed);
  const std::string body = WebhookBody(cluster, placed);
  const int64_t unix_seconds = absl::ToUnixSeconds(absl::Now());
  const WebhookAnswer answer = poster_.Post(
      {absl::StrCat("webhook-id: ", id), absl::StrCat("webhook-timestamp: ", unix_seconds),
       absl::StrCat("webhook-signature: ",
                    WebhookSignature(settings_.keys, id, unix_seconds, body))},
      body);
  if (stopping_ && answer.status == 0) return;  // we have broken it off
  const int failures_before = pending_.failures();
  const double chance = std::uniform_real_distribution<double>()(random_);
  const PendingEvents::Outcome outcome =
      pending_.OnAnswer(placed.place, answer, Now(), absl::ToUnixMillis(absl::Now()), chance);
  Note(placed, answer, outcome, failures_before);
}

void Receiver::Note(const PlacedEvent& placed, const WebhookAnswer& answer,
                    const PendingEvents::Outcome& outcome, int failures_before) {
  const OutboxEvent& event = placed.event;
  switch (outcome.reception) {
    case Reception::kTaken:
      Count("delivered");
      if (failures_before > 0) LogInfo("webhook %s: it takes events again", settings_.name);
      return;
    case Reception::kGone:
      Count("gone", pending_.size());
      LogWarning(
          "webhook %s: it answers 410, so it is told nothing until its entry in the file of "
          "--webhooks changes or the coordinator is started again; %s",
          settings_.name,
          absl::StrCat(Plural(static_cast<int64_t>(pending_.size()), "event"),
                       " that waited for it will not come"));
      is_gone_ = true;
      return;
    case Reception::kEventTrouble:
    case Reception::kReceiverTrouble: break;
  }
  Count("failed");
  const bool is_given_up = !outcome.given_up.empty();
  if (is_given_up) {
    Count("given_up", outcome.given_up.size());
    LogWarning("webhook %s: %s given up after a day, the first %s of job %s: %s", settings_.name,
               Plural(static_cast<int64_t>(outcome.given_up.size()), "event"),
               outcome.given_up.front().event.type, outcome.given_up.front().event.job,
               AnswerText(answer));
    return;
  }
  log_.Warn("webhook %s: %s of job %s is not taken, and tried again later: %s", settings_.name,
            event.type, event.job, AnswerText(answer));
}

}  // namespace muster::coordinator
