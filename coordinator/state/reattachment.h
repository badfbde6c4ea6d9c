// After a restart of the coordinator: who of a job's last view may still come back
// (docs/protocol.md section 6). Lives from the restart until all are back, or have ended, or nobody
// has come for a while; for longer where the only copy of the state may still come.
#pragma once

#include <map>
#include <set>
#include <string>

#include "coordinator/state/job_state.h"
#include "lib/base/time.h"

namespace muster::coordinator {

class Reattachment {
 public:
  Reattachment(const JobJournal& job, Time now);

  // These give all others their time anew, from the last tick on.
  void Came(const MemberId& member, const std::string& node, Time last_tick);
  void Ended(Incarnation member, Time last_tick);
  void WasDeaf(Time now) { since_ = now; }  // we were, so all are to come again
  // We handled nothing for so long, or longer: who came meanwhile may still wait.
  void HeldUp(Duration time) { since_ += time; }

  // How long nobody has come or ended.
  Duration Silence(Time last_tick) const { return last_tick - since_; }
  // `for_copy`: for those without whom there is no copy of the state.
  bool IsOver(Time last_tick, Duration patience, Duration for_copy) const;

 private:
  struct Awaited {
    std::string name;
    std::string node;
    bool holds_state = false;  // with servers: its part of it, which nobody else has whole
  };
  bool Lose(Incarnation member);  // false: nobody waits for it, and it held nothing
  bool CopyMayCome() const;

  const bool has_view_;  // in this start; without one, we cannot tell who is still to come
  const bool forming_;   // a later view was; one who got the state for it may come, too
  const bool of_servers_;
  bool has_state_ = false;  // there was one
  std::map<Incarnation, Awaited> awaited_;
  std::set<Incarnation> back_;  // those of them that hold it
  bool part_is_lost_ = false;   // with servers: one is gone, and so is its part
  Time since_;
};

}  // namespace muster::coordinator
