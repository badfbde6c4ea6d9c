// Where the samples of a stream lie, as far as a member was told: the exchange thread puts the list
// here, and data sets find it. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "lib/domain/stream.h"

namespace muster {

class SpoolMap {
 public:
  // In the order of their positions. Never changes: a new list takes its place.
  using Facts = std::shared_ptr<const std::vector<SpoolSegment>>;

  explicit SpoolMap(std::string folder) : folder_(std::move(folder)) {}

  const std::string& folder() const { return folder_; }
  void Set(Facts facts) {
    const MutexLock lock(mutex_);
    facts_ = std::move(facts);
  }
  Facts facts() const {
    const MutexLock lock(mutex_);
    return facts_;
  }

  // From now on nobody waits for bytes that are late: the process ends.
  void Close() {
    {
      const MutexLock lock(mutex_);
      closed_ = true;
    }
    changed_.NotifyAll();
  }
  // Returns after so long; false: it is closed.
  bool Pause(Duration time) const {
    const Time until = RealClock().Now() + time;
    const MutexLock lock(mutex_);
    while (!closed_ && changed_.WaitUntil(mutex_, until)) {
    }
    return !closed_;
  }

 private:
  const std::string folder_;
  mutable Mutex mutex_;
  mutable CondVar changed_;
  Facts facts_ ABSL_GUARDED_BY(mutex_) = std::make_shared<const std::vector<SpoolSegment>>();
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace muster
