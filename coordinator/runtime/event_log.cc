#include "coordinator/runtime/event_log.h"

#include <algorithm>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"

namespace muster::coordinator {
namespace {

struct Place {
  std::optional<int64_t> term;  // not given: this term
  int64_t seq = 0;
};

Place ParsePlace(const std::string& after) {
  Place place;
  const std::pair<std::string, std::string> parts = absl::StrSplit(after, absl::MaxSplits('-', 1));
  int64_t term = 0;
  if (parts.second.empty()) {
    if (!absl::SimpleAtoi(parts.first, &place.seq)) place.seq = 0;
  } else if (absl::SimpleAtoi(parts.first, &term) && absl::SimpleAtoi(parts.second, &place.seq)) {
    place.term = term;
  }
  return place;
}

}  // namespace

std::string EventLog::IdOf(int64_t seq) const { return absl::StrCat(term_.value(), "-", seq); }

void EventLog::Append(const std::string& job, JobEvent event) {
  event.seq = next_++;
  event.id = IdOf(event.seq);
  const bool last = event.event == "done";
  std::erase_if(watchers_, [&](const auto& entry) {
    return entry.first == job && (!entry.second->OnEvent(event) || last);
  });
  DropClosed();
  OfJob& events = events_[job];
  events.kept.push_back(std::move(event));
  ++kept_;
  if (events.kept.size() > keep_) DropOldest(events);
  if (kept_ > keep_in_all_) MakeRoom();
}

void EventLog::DropOldest(OfJob& events) {
  events.dropped = events.kept.front().seq;
  events.kept.pop_front();
  --kept_;
}

void EventLog::MakeRoom() {
  const auto most = std::max_element(
      events_.begin(), events_.end(),
      [](const auto& a, const auto& b) { return a.second.kept.size() < b.second.kept.size(); });
  DropOldest(most->second);
}

void EventLog::Forget(const std::string& job) {
  if (const auto it = events_.find(job); it != events_.end()) {
    kept_ -= it->second.kept.size();
    events_.erase(it);
  }
  std::erase_if(watchers_, [&](const auto& entry) { return entry.first == job; });
}

JobEvent EventLog::Notice(const std::string& event, const std::string& text, int64_t seq) const {
  return {IdOf(seq), seq, absl::ToUnixMillis(absl::Now()), event, text, {}};
}

void EventLog::Watch(const std::string& job, const std::string& after,
                     const std::shared_ptr<JobWatcher>& watcher, bool over) {
  if (Replay(job, after, *watcher) && !over) watchers_.emplace_back(job, watcher);
}

void EventLog::DropClosed() {
  std::erase_if(watchers_, [](const auto& entry) { return entry.second->closed(); });
}

// False: it wants no more.
bool EventLog::Replay(const std::string& job, const std::string& after, JobWatcher& watcher) const {
  Place place = ParsePlace(after);
  const bool other_term = place.term && *place.term != term_.value();
  if (other_term || place.seq >= next_) {
    place.seq = 0;
    if (!watcher.OnEvent(
            Notice("restart",
                   "the coordinator was started again: events are numbered from 1 again, and older "
                   "ones are gone",
                   0)))
      return false;
  }
  const auto of = events_.find(job);
  if (of == events_.end()) return true;
  const int64_t dropped = of->second.dropped;
  if (place.seq < dropped &&
      !watcher.OnEvent(
          Notice("gap", absl::StrCat("events up to ", dropped, " are not kept any more"), dropped)))
    return false;
  for (const JobEvent& event : of->second.kept)
    if (event.seq > place.seq && !watcher.OnEvent(event)) return false;
  return true;
}

}  // namespace muster::coordinator
