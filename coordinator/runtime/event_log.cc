#include "coordinator/runtime/event_log.h"

#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"

namespace muster::coordinator {
namespace {

struct Place {
  std::optional<int64_t> term;  // not said: this one
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
    return entry.first == job && (!entry.second->Take(event) || last);
  });
  DropClosed();
  events_.emplace_back(job, std::move(event));
  if (events_.size() <= keep_) return;
  dropped_[events_.front().first] = events_.front().second.seq;
  events_.pop_front();
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
    if (!watcher.Take(
            Notice("restart",
                   "the coordinator was started again: events are numbered from 1 again, and older "
                   "ones are gone",
                   0)))
      return false;
  }
  const auto dropped = dropped_.find(job);
  if (dropped != dropped_.end() && place.seq < dropped->second &&
      !watcher.Take(Notice("gap",
                           absl::StrCat("events up to ", dropped->second, " are not kept any more"),
                           dropped->second)))
    return false;
  for (const auto& [of, event] : events_)
    if (of == job && event.seq > place.seq && !watcher.Take(event)) return false;
  return true;
}

}  // namespace muster::coordinator
