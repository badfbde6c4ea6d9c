// The last events of each job in this term, numbered, for people and programs that come later or
// come back. A job that has much to say forgets its own.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/runtime/job_events.h"
#include "lib/base/ids.h"

namespace muster::coordinator {

inline constexpr size_t kKeptEvents = 10'000;  // of one job
inline constexpr size_t kKeptInAll =
    10 * kKeptEvents;  // of all jobs: the one with the most forgets first

// One thread at a time: the driver's.
class EventLog {
 public:
  explicit EventLog(TermNumber term, size_t keep = kKeptEvents, size_t keep_in_all = kKeptInAll)
      : term_(term), keep_(keep), keep_in_all_(keep_in_all) {}

  // Gives it the next number, keeps it and hands it to whoever watches the job. A "done" is a job's
  // last event: its watchers are let go.
  void Append(const std::string& job, JobEvent event);

  // Gives the watcher the kept events after `after`. Where events are missing it first gives one
  // "gap", or "restart" if `after` is of another term. Then the watcher is let go if the job is
  // over, else kept for the events to come.
  void Watch(const std::string& job, const std::string& after,
             const std::shared_ptr<JobWatcher>& watcher, bool over);

  // It was deleted; its watchers are let go.
  void Forget(const std::string& job);

  void DropClosed();
  size_t watchers() const { return watchers_.size(); }

 private:
  bool Replay(const std::string& job, const std::string& after, JobWatcher& watcher) const;
  JobEvent Notice(const std::string& event, const std::string& text, int64_t seq) const;
  std::string IdOf(int64_t seq) const;

  struct OfJob {
    std::deque<JobEvent> kept;
    int64_t dropped = 0;  // the number of the last event that is kept no more
  };
  void DropOldest(OfJob& events);
  void MakeRoom();

  const TermNumber term_;
  const size_t keep_;
  const size_t keep_in_all_;
  int64_t next_ = 1;
  std::map<std::string, OfJob> events_;                                        // by job
  size_t kept_ = 0;                                                            // in all
  std::vector<std::pair<std::string, std::shared_ptr<JobWatcher>>> watchers_;  // by job
};

}  // namespace muster::coordinator
