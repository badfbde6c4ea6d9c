// One change of view (docs/protocol.md section 4). Lives from when it begins until the view is
// active, or until another change takes its place.
//
//   sealing ──(all have answered: the plan)──▶ healing ──(all hold the base)──▶ active
//      └──────────── a named member is lost, or is not ready in time ───────────▶ the next change
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/state/plan.h"
#include "lib/base/time.h"
#include "lib/domain/message.h"

namespace muster::coordinator {

class ViewChange {
 public:
  ViewChange(ViewNumber number, std::vector<MemberId> members, std::string cause, bool after_loss,
             Time since);

  ViewNumber number() const { return number_; }
  const std::vector<MemberId>& members() const { return members_; }
  const std::string& cause() const { return cause_; }
  bool after_loss() const { return after_loss_; }
  Time since() const { return since_; }  // as far as others were heard
  void HeldUp(Duration time, Time now) { since_ = std::min(now, since_ + time); }
  bool Names(const MemberId& member) const;

  // Takes what a member holds. Answers of others, about other views or after the plan are ignored.
  // True: now all have answered.
  bool Answer(const MemberId& member, const Sealed& sealed);
  const std::map<MemberId, LocalState>& answers() const { return answers_; }

  void Follow(Planned plan) { plan_ = std::move(plan); }  // once
  const std::optional<Planned>& plan() const { return plan_; }

  // True: now all hold the base.
  bool Hold(const MemberId& member, const HoldsBase& holds);
  // Does it say that a member has a state now? A spare says that it is ready, and has none.
  bool MakesHolder(const MemberId& member, const HoldsBase& holds) const;
  // Who holds the base, each with the number of lanes that it has run.
  const std::map<MemberId, int64_t>& holding() const { return holding_; }

  // Whom it waits for.
  std::vector<MemberId> NotReady() const;
  // What its members are told now; a member whose session is new hears it again.
  FromCoordinator CurrentMessage(TermNumber term) const;

 private:
  const ViewNumber number_;
  const std::vector<MemberId> members_;  // ascending
  const std::string cause_;
  const bool after_loss_;
  Time since_;
  std::map<MemberId, LocalState> answers_;
  std::optional<Planned> plan_;
  std::map<MemberId, int64_t> holding_;
};

}  // namespace muster::coordinator
