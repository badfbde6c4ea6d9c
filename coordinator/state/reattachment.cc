#include "coordinator/state/reattachment.h"

#include <algorithm>
#include <vector>

namespace muster::coordinator {

Reattachment::Reattachment(const JobJournal& job, Time now)
    : has_view_(job.view && !job.resumes),
      forming_(has_view_ && job.number > job.view->number),
      of_servers_(job.spec.training.sync == Sync::kServer),
      since_(now) {
  if (!has_view_) return;
  // A lineage that was begun since voids what the members of the view hold.
  const View& view = *job.view;
  has_state_ = !job.lineages.empty() && view.lineage == job.lineages.back().number;
  for (size_t i = 0; i < view.members.size(); ++i) {
    const ViewMember& m = view.members[i];
    const bool holds = has_state_ && (m.role == Role::kServer) == of_servers_ &&
                       view.HasPart(static_cast<int32_t>(i));
    awaited_[m.id.incarnation] = {m.id.name, m.node, holds};
  }
  for (const ViewMember& m : view.members)
    if (job.lanes.HasEnded(m.id.incarnation)) Lose(m.id.incarnation);
}

bool Reattachment::Lose(Incarnation member) {
  bool held = back_.erase(member) > 0;
  const auto it = awaited_.find(member);
  const bool was_awaited = it != awaited_.end();
  if (was_awaited) {
    held = held || it->second.holds_state;
    awaited_.erase(it);
  }
  part_is_lost_ = part_is_lost_ || (of_servers_ && held);
  return was_awaited || held;
}

// A host starts the next process of a name only when the one before has ended.
void Reattachment::Came(const MemberId& member, const std::string& node, Time last_tick) {
  since_ = std::max(since_, last_tick);
  const auto it = awaited_.find(member.incarnation);
  if (it != awaited_.end()) {
    if (it->second.holds_state) back_.insert(member.incarnation);
    awaited_.erase(it);
    return;
  }
  std::vector<Incarnation> replaced;
  for (const auto& [incarnation, awaited] : awaited_)
    if (awaited.name == member.name && awaited.node == node &&
        incarnation.hi < member.incarnation.hi)
      replaced.push_back(incarnation);
  for (const Incarnation incarnation : replaced) Lose(incarnation);
}

// An agent tells an end again in each of its sessions: only what is new gives others time.
void Reattachment::Ended(Incarnation member, Time last_tick) {
  if (Lose(member)) since_ = std::max(since_, last_tick);
}

bool Reattachment::CopyMayCome() const {
  const bool is_back = !of_servers_ && !back_.empty();
  if (is_back || part_is_lost_) return false;
  return std::any_of(awaited_.begin(), awaited_.end(),
                     [](const auto& entry) { return entry.second.holds_state; });
}

bool Reattachment::IsOver(Time last_tick, Duration patience, Duration for_copy) const {
  // Where all workers of the view are gone, one that was healed for the next may be on its way.
  const bool somebody_else_may = forming_ && has_state_ && !of_servers_ && back_.empty();
  if (has_view_ && awaited_.empty() && !somebody_else_may) return true;
  return Silence(last_tick) >= (CopyMayCome() ? for_copy : patience);
}

}  // namespace muster::coordinator
