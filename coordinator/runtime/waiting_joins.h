// Sessions whose Join has come and waits for the driver's thread. They are nobody's until it is
// handled, and yet show that a member lives: one that comes back, or one that is new. Thread-safe;
// lives as long as the driver.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "coordinator/runtime/member_sessions.h"
#include "lib/base/mutex.h"
#include "lib/base/time.h"
#include "lib/domain/message.h"

namespace muster::coordinator {

class WaitingJoins {
 public:
  // `heard`: as in MemberSessions::Opened.
  void Came(SessionId session, const MemberId& member, std::function<Time(Time now)> heard) {
    const MutexLock lock(mutex_);
    waiting_[session] = {member, std::move(heard)};
  }
  // From now on the session speaks for its member, or is refused.
  void Taken(SessionId session) {
    const MutexLock lock(mutex_);
    waiting_.erase(session);
  }
  // Adds when their members were heard; the newest word counts.
  void AddTo(std::map<MemberId, Time>& heard, Time now) const {
    const MutexLock lock(mutex_);
    for (const auto& [session, join] : waiting_) {
      Time& newest = heard[join.member];
      newest = std::max(newest, join.heard(now));
    }
  }

 private:
  struct Waiting {
    MemberId member;
    std::function<Time(Time now)> heard;
  };
  mutable Mutex mutex_;
  std::map<SessionId, Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster::coordinator
