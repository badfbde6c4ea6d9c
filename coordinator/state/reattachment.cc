#include "coordinator/state/reattachment.h"

#include <algorithm>

namespace muster::coordinator {

Reattachment::Reattachment(const JobJournal& job, Time now)
    : has_view_(job.view && !job.resumes), since_(now) {
  if (!has_view_) return;
  for (const ViewMember& m : job.view->members)
    if (!job.lanes.HasEnded(m.id.incarnation)) awaited_.insert(m.id.incarnation);
}

void Reattachment::Came(const MemberId& member, Time last_tick) {
  awaited_.erase(member.incarnation);
  since_ = std::max(since_, last_tick);
}

void Reattachment::Ended(Incarnation member, Time last_tick) {
  awaited_.erase(member);
  since_ = std::max(since_, last_tick);
}

bool Reattachment::IsOver(Time last_tick, Duration lease) const {
  return (has_view_ && awaited_.empty()) || last_tick - since_ >= lease;
}

}  // namespace muster::coordinator
