// The last events of this term, numbered, for people and programs that come later or come back.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/ids.h"
#include "lib/transport/job_api.h"

namespace muster::coordinator {

inline constexpr size_t kKeptEvents = 10'000;

// One thread at a time: the driver's.
class EventLog {
 public:
  explicit EventLog(TermNumber term, size_t keep = kKeptEvents) : term_(term), keep_(keep) {}

  // Gives it the next number, keeps it and hands it to who watches the job. A "done" is a job's
  // last event: its watchers are let go.
  void Append(const std::string& job, JobEvent event);

  // First what is kept after `after`; before that, where events are missing, one "gap", or
  // "restart" where `after` is of another term. Then the watcher is let go where the job is over,
  // else kept for what comes.
  void Watch(const std::string& job, const std::string& after,
             const std::shared_ptr<JobWatcher>& watcher, bool over);

  void DropClosed();
  size_t watchers() const { return watchers_.size(); }

 private:
  bool Replay(const std::string& job, const std::string& after, JobWatcher& watcher) const;
  JobEvent Notice(const std::string& event, const std::string& text, int64_t seq) const;
  std::string IdOf(int64_t seq) const;

  const TermNumber term_;
  const size_t keep_;
  int64_t next_ = 1;
  std::deque<std::pair<std::string, JobEvent>> events_;
  // By job: the number of the last event that is kept no more.
  std::map<std::string, int64_t> dropped_;
  std::vector<std::pair<std::string, std::shared_ptr<JobWatcher>>> watchers_;  // by job
};

}  // namespace muster::coordinator
