#include "coordinator/webhooks/pending_events.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

namespace muster::coordinator {
namespace {

// Of those that say that the receiver, or what stands before it, takes nothing now.
constexpr int kOfReceiver[] = {408, 425, 429, 502, 503, 504};

}  // namespace

Reception ReceptionOf(const WebhookAnswer& answer) {
  if (answer.status >= 200 && answer.status < 300) return Reception::kTaken;
  if (answer.status == 410) return Reception::kGone;
  const bool of_receiver =
      answer.status == 0 || std::find(std::begin(kOfReceiver), std::end(kOfReceiver),
                                      answer.status) != std::end(kOfReceiver);
  return of_receiver ? Reception::kReceiverTrouble : Reception::kEventTrouble;
}

Duration PauseAfter(int failures, double chance, const RetryLimits& limits) {
  Duration pause = limits.first_pause;
  for (int i = 1; i < failures && pause < limits.longest_pause; ++i) pause *= 2;
  pause = std::min(pause, limits.longest_pause);
  const double part = 0.5 + std::clamp(chance, 0.0, 1.0) / 2;
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(pause) * part);
}

void PendingEvents::Add(PlacedEvent event) {
  const OutboxPlace place = event.place;
  PassOver(place);
  waiting_.emplace(place, Waiting{std::move(event)});
}

void PendingEvents::PassOver(OutboxPlace place) { ReadUpTo({place.term, place.seq + 1}); }

void PendingEvents::ReadUpTo(OutboxPlace end) { read_from_ = std::max(read_from_, end); }

const PlacedEvent* PendingEvents::Next(Time now) const {
  if (now < paused_until_) return nullptr;
  std::set<std::string> held_up;  // jobs
  for (const auto& [place, waiting] : waiting_) {
    if (!held_up.insert(waiting.event.event.job).second) continue;
    if (waiting.not_before <= now) return &waiting.event;
  }
  return nullptr;
}

std::optional<Time> PendingEvents::NextAt() const {
  std::optional<Time> soonest;
  std::set<std::string> held_up;
  for (const auto& [place, waiting] : waiting_)
    if (held_up.insert(waiting.event.event.job).second)
      soonest = std::min(soonest.value_or(waiting.not_before), waiting.not_before);
  if (soonest) soonest = std::max(*soonest, paused_until_);
  return soonest;
}

bool PendingEvents::IsGivenUp(const Waiting& waiting, Time now, int64_t now_unix_ms) const {
  if (waiting.tries < limits_.least_tries && failures_ < limits_.least_tries) return false;
  const auto age = std::chrono::milliseconds(now_unix_ms - waiting.event.event.unix_ms);
  const bool tried_for_long = waiting.tries > 0 && now - waiting.first_try >= limits_.give_up_after;
  return age >= limits_.give_up_after || tried_for_long;
}

PendingEvents::Outcome PendingEvents::OnAnswer(OutboxPlace place, const WebhookAnswer& answer,
                                               Time now, int64_t now_unix_ms, double chance) {
  Outcome outcome{.reception = ReceptionOf(answer)};
  const auto it = waiting_.find(place);
  if (it == waiting_.end() || outcome.reception == Reception::kGone) return outcome;
  Waiting& waiting = it->second;
  if (outcome.reception == Reception::kTaken) {
    failures_ = 0;
    waiting_.erase(it);
    return outcome;
  }
  if (waiting.tries++ == 0) waiting.first_try = now;
  const bool of_receiver = outcome.reception == Reception::kReceiverTrouble;
  failures_ = of_receiver ? failures_ + 1 : 0;
  Duration pause = PauseAfter(of_receiver ? failures_ : waiting.tries, chance, limits_);
  if (answer.retry_after)
    pause = std::max(pause, std::min(*answer.retry_after, limits_.longest_retry_after));
  (of_receiver ? paused_until_ : waiting.not_before) = now + pause;
  for (auto old = waiting_.begin(); old != waiting_.end();) {
    const bool is_over = (of_receiver || old == it) && IsGivenUp(old->second, now, now_unix_ms);
    if (is_over) outcome.given_up.push_back(std::move(old->second.event));
    old = is_over ? waiting_.erase(old) : std::next(old);
  }
  return outcome;
}

size_t PendingEvents::DropBefore(OutboxPlace place) {
  const auto end = waiting_.lower_bound(place);
  const auto dropped = static_cast<size_t>(std::distance(waiting_.begin(), end));
  waiting_.erase(waiting_.begin(), end);
  ReadUpTo(place);
  return dropped;
}

}  // namespace muster::coordinator
