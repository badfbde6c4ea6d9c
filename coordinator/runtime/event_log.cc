#include "coordinator/runtime/event_log.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "lib/base/printable.h"

namespace muster::coordinator {

std::string EventLog::IdOf(int64_t seq) const { return absl::StrCat(term_.value(), "-", seq); }

void EventLog::Append(const std::string& job, JobEvent event) {
  event.text = Cut(PrintableLines(event.text), kMostLinesBytes);
  for (auto& [name, value] : event.fields) value = Cut(Printable(value));
  {
    const MutexLock lock(mutex_);
    event.seq = next_++;
    event.id = IdOf(event.seq);
    OfJob& events = events_[job];
    const size_t bytes = BytesOf(event);
    events.kept.push_back(std::make_shared<const JobEvent>(std::move(event)));
    events.bytes += bytes;
    bytes_ += bytes;
    ++kept_;
    while (events.kept.size() > of_job_.events || events.bytes > of_job_.bytes) DropOldest(events);
    while (kept_ > in_all_.events || bytes_ > in_all_.bytes) MakeRoom();
    news_ = true;
  }
  changed_.NotifyOne();
}

void EventLog::DropOldest(OfJob& events) {
  const size_t bytes = BytesOf(*events.kept.front());
  events.bytes -= bytes;
  bytes_ -= bytes;
  events.dropped = events.kept.front()->seq;
  events.kept.pop_front();
  --kept_;
}

void EventLog::MakeRoom() {
  const bool by_count = kept_ > in_all_.events;
  const auto size = [by_count](const OfJob& of) { return by_count ? of.kept.size() : of.bytes; };
  const auto most = std::max_element(
      events_.begin(), events_.end(),
      [&](const auto& a, const auto& b) { return size(a.second) < size(b.second); });
  DropOldest(most->second);
}

void EventLog::Forget(const std::string& job) {
  std::vector<WatcherPtr> gone;  // let go of without the lock
  const MutexLock lock(mutex_);
  if (const auto it = events_.find(job); it != events_.end()) {
    kept_ -= it->second.kept.size();
    bytes_ -= it->second.bytes;
    events_.erase(it);
  }
  for (const WatcherPtr& watcher : watchers_)
    if (watcher->job == job) gone.push_back(watcher);
  std::erase_if(watchers_, [&](const WatcherPtr& watcher) { return watcher->job == job; });
}

EventLog::Event EventLog::Notice(const std::string& event, const std::string& text,
                                 int64_t seq) const {
  return std::make_shared<const JobEvent>(
      JobEvent{IdOf(seq), seq, absl::ToUnixMillis(absl::Now()), event, text, {}});
}

int64_t EventLog::next() const {
  const MutexLock lock(mutex_);
  return next_;
}

void EventLog::AllIsTold() {
  const MutexLock lock(mutex_);
  ++told_;
}

void EventLog::Watch(const std::string& job, std::optional<EventPlace> after, int64_t since,
                     std::shared_ptr<JobWatcher> watcher, bool over) {
  {
    const MutexLock lock(mutex_);
    const bool other_term = after && (after->term != term_ || after->seq >= next_);
    watchers_.push_back(std::make_shared<Watcher>(
        Watcher{job, std::move(watcher), after && !other_term ? after->seq : 0, since, other_term,
                over ? std::optional(told_ + 1) : std::nullopt}));
    news_ = true;
  }
  changed_.NotifyOne();
}

std::vector<EventLog::Event> EventLog::NextFor(Watcher& watcher) {
  constexpr size_t kMostAtOnce = 256;
  std::vector<Event> next;
  if (std::exchange(watcher.other_term, false))
    next.push_back(
        Notice("restart",
               "the coordinator was started again: events are numbered from 1 again, and older "
               "ones are gone",
               0));
  const auto of = events_.find(watcher.job);
  if (of == events_.end()) return next;
  const std::deque<Event>& kept = of->second.kept;
  if (const int64_t dropped = of->second.dropped; watcher.seen < dropped) {
    next.push_back(
        Notice("gap", absl::StrCat("events up to ", dropped, " are not kept any more"), dropped));
    watcher.seen = dropped;
  }
  auto event = std::upper_bound(kept.begin(), kept.end(), watcher.seen,
                                [](int64_t seen, const Event& e) { return seen < e->seq; });
  for (; event != kept.end() && next.size() < kMostAtOnce; ++event) next.push_back(*event);
  if (!next.empty()) watcher.seen = std::max(watcher.seen, next.back()->seq);
  return next;
}

// The lock is not held while a watcher is given something: it may take its time.
bool EventLog::Deliver() {
  std::vector<WatcherPtr> watchers;
  {
    const MutexLock lock(mutex_);
    news_ = false;
    watchers = watchers_;
  }
  bool gave = false;
  for (const WatcherPtr& watcher : watchers) {
    std::vector<Event> next;
    bool had_all = false;
    if (!watcher->to->closed()) {
      const MutexLock lock(mutex_);
      next = NextFor(*watcher);
      had_all = next.empty() && watcher->over && told_ >= *watcher->over;
    }
    bool wants_more = !watcher->to->closed() && !had_all;
    for (const Event& event : next) {
      const bool last = event->event == "done" && event->seq >= watcher->since;
      wants_more = watcher->to->OnEvent(*event) && !last;
      if (!wants_more) break;
    }
    gave = gave || !next.empty();
    watcher->gone = !wants_more;
  }
  const MutexLock lock(mutex_);
  std::erase_if(watchers_, [](const WatcherPtr& watcher) { return watcher->gone; });
  return gave;
}

void EventLog::AwaitNews(Time deadline) {
  MutexLock lock(mutex_);
  while (!news_ && changed_.WaitUntil(mutex_, deadline)) {
  }
}

void EventLog::Wake() {
  {
    const MutexLock lock(mutex_);
    news_ = true;
  }
  changed_.NotifyOne();
}

size_t EventLog::watchers() const {
  const MutexLock lock(mutex_);
  return watchers_.size();
}

}  // namespace muster::coordinator
