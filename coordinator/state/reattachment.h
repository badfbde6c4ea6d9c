// After a restart of the coordinator: who of a job's last view may still come back
// (docs/protocol.md section 6). Lives from the restart until all are back, or have ended, or nobody
// has come for a lease.
#pragma once

#include <set>

#include "coordinator/state/job_state.h"
#include "lib/base/time.h"

namespace muster::coordinator {

class Reattachment {
 public:
  Reattachment(const JobJournal& job, Time now);

  // These give all others a lease from the last tick on.
  void Came(const MemberId& member, Time last_tick);
  void Ended(Incarnation member, Time last_tick);
  void StoodStill(Time now) { since_ = now; }  // we did, so the silence may be ours

  bool IsOver(Time last_tick, Duration lease) const;

 private:
  const bool has_view_;  // in this start; without one, we cannot tell who is still to come
  std::set<Incarnation> awaited_;
  Time since_;
};

}  // namespace muster::coordinator
