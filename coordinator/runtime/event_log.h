// The last events of each job in this term, numbered, for people and programs that come later or
// come back. A job that has much to say forgets its own. Whoever appends waits for no watcher: each
// watcher has a place in the log, and one thread gives all of them what comes after it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/runtime/job_events.h"
#include "lib/base/ids.h"
#include "lib/base/mutex.h"
#include "lib/base/time.h"

namespace muster::coordinator {

// How much is kept. Events are weighed as well as counted: some tell what a member said.
struct EventBudget {
  size_t events = SIZE_MAX;
  size_t bytes = SIZE_MAX;
};
inline constexpr EventBudget kKeptOfJob{.events = 10'000, .bytes = size_t{8} << 20};
// Of all jobs: the one with the most forgets first.
inline constexpr EventBudget kKeptInAll{.events = 100'000, .bytes = size_t{64} << 20};

// Thread-safe, but for Deliver.
class EventLog {
 public:
  explicit EventLog(TermNumber term, EventBudget of_job = kKeptOfJob,
                    EventBudget in_all = kKeptInAll)
      : term_(term), of_job_(of_job), in_all_(in_all) {}

  // Gives it the next number and keeps it. A "done" is a job's last event: whoever watches is let
  // go when it has had that.
  void Append(const std::string& job, JobEvent event);

  // The number that the next event gets.
  int64_t next() const;

  // The watcher is to get the kept events after `after` (nothing: all), and those to come. Where
  // events are missing it first gets one "gap", or "restart" if `after` is of another term. `since`
  // is what next() was before the job was looked at: a "done" from there on is its end. Of a job
  // that was over then it is let go when it has had what is kept once all is told (AllIsTold).
  void Watch(const std::string& job, std::optional<EventPlace> after, int64_t since,
             std::shared_ptr<JobWatcher> watcher, bool over);

  // Of what others may know to be over, the end has been appended.
  void AllIsTold();

  // It was deleted; its watchers are let go.
  void Forget(const std::string& job);

  // Gives some watchers some of what they have not had, and lets go of those that are closed.
  // False: there was nothing to give. By one thread only.
  bool Deliver();
  // Until there may be something to deliver.
  void AwaitNews(Time deadline);
  void Wake();  // whoever awaits

  size_t watchers() const;

 private:
  using Event = std::shared_ptr<const JobEvent>;
  struct Watcher {
    std::string job;
    std::shared_ptr<JobWatcher> to;
    int64_t seen = 0;   // the number of the last event that it had
    int64_t since = 0;  // events from this number on came after it did
    bool other_term = false;
    std::optional<int64_t> over;  // let go once this many times all was told
    bool gone = false;
  };
  struct OfJob {
    std::deque<Event> kept;
    size_t bytes = 0;     // of `kept`
    int64_t dropped = 0;  // the number of the last event that is kept no more
  };
  using WatcherPtr = std::shared_ptr<Watcher>;

  Event Notice(const std::string& event, const std::string& text, int64_t seq) const;
  std::string IdOf(int64_t seq) const;
  std::vector<Event> NextFor(Watcher& watcher) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropOldest(OfJob& events) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MakeRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const TermNumber term_;
  const EventBudget of_job_;
  const EventBudget in_all_;

  mutable Mutex mutex_;
  CondVar changed_;
  bool news_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t next_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<std::string, OfJob> events_ ABSL_GUARDED_BY(mutex_);  // by job
  size_t kept_ ABSL_GUARDED_BY(mutex_) = 0;                      // in all
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;                     // likewise
  int64_t told_ ABSL_GUARDED_BY(mutex_) = 0;                     // how often all was
  std::vector<WatcherPtr> watchers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster::coordinator
