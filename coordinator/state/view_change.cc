#include "coordinator/state/view_change.h"

#include <algorithm>
#include <utility>

namespace muster::coordinator {
namespace {

std::vector<MemberId> Sorted(std::vector<MemberId> members) {
  std::sort(members.begin(), members.end());
  return members;
}

}  // namespace

ViewChange::ViewChange(ViewNumber number, std::vector<MemberId> members, std::string cause,
                       bool after_loss, Time since)
    : number_(number),
      members_(Sorted(std::move(members))),
      cause_(std::move(cause)),
      after_loss_(after_loss),
      since_(since) {}

bool ViewChange::Names(const MemberId& member) const {
  return std::binary_search(members_.begin(), members_.end(), member);
}

bool ViewChange::Answer(const MemberId& member, const Sealed& sealed) {
  if (sealed.view != number_ || plan_ || !Names(member)) return false;
  answers_[member] = sealed.local_state;
  return answers_.size() == members_.size();
}

bool ViewChange::Hold(const MemberId& member, const HoldsBase& holds) {
  if (holds.view != number_ || !plan_ || !Names(member)) return false;
  holding_[member] = holds.lanes_run;
  return holding_.size() == members_.size();
}

bool ViewChange::MakesHolder(const MemberId& member, const HoldsBase& holds) const {
  if (holds.view != number_ || !plan_) return false;
  const HealPlan& heal = plan_->heal;
  for (size_t i = 0; i < heal.members.size(); ++i)
    if (heal.members[i].id == member) return heal.how[i] != HealBy::kNothing;
  return false;
}

std::vector<MemberId> ViewChange::NotReady() const {
  std::vector<MemberId> late;
  for (const MemberId& id : members_)
    if ((plan_ ? holding_.count(id) : answers_.count(id)) == 0) late.push_back(id);
  return late;
}

FromCoordinator ViewChange::CurrentMessage(TermNumber term) const {
  if (plan_) return Heal{term, number_, plan_->heal};
  return Seal{term, number_};
}

}  // namespace muster::coordinator
