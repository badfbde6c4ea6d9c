// One heal plan that is being carried out: how this member reaches the base of a forming view.
// Lives from the coordinator's Heal until the view is active, or the next Seal.
#pragma once

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "lib/member/state/actions.h"
#include "lib/member/state/config.h"
#include "lib/member/state/healing.h"
#include "lib/member/state/open_step.h"

namespace muster {

// Nothing: the plan does not name this member.
std::optional<int32_t> IndexIn(const HealPlan& plan, const MemberId& id);

class Healer {
 public:
  // `me`: our index among the plan's members. `held`: results of our open step.
  Healer(ConfigPtr config, ViewNumber view, HealPlan plan, int32_t me, const ChunkSet& held);

  const HealPlan& plan() const { return plan_; }
  int32_t me() const { return me_; }
  HealBy how() const { return plan_.how[static_cast<size_t>(me_)]; }
  bool Names(const MemberId& peer) const { return IndexIn(plan_, peer).has_value(); }
  bool NeedsState() const { return how() == HealBy::kHold || how() == HealBy::kCatchUp; }
  bool BringsState() const { return how() == HealBy::kCopy || MakesState(); }
  // Our open step is the one before the base; it is applied when all its results are here.
  bool CatchesUp(Step open) const { return how() == HealBy::kCatchUp && open < plan_.base; }
  bool MakesState() const { return how() == HealBy::kMake || how() == HealBy::kLoad; }
  bool at_base() const { return at_base_; }
  bool told() const { return told_; }

  // How a state comes into being that does not come by catching up; nothing: it is here already.
  std::vector<Action> Begin() const;
  // The fetches that are missing, from those of `reachable`.
  std::vector<Action> Ask(const std::set<MemberId>& reachable) const;
  // Results go into the open step; other pieces are only told where to go.
  void Handle(const MemberId& from, const Pieces& pieces, std::optional<HeldState>& state,
              Outcome& out);

  // What to do next, when no action whose answer we await is under way.
  enum class Next {
    kWait,     // for pieces
    kApply,    // the last step before the base
    kBase,     // we hold state(base): ReachBase, then ask for the results that are done
    kTellBase  // nothing more is wanted: tell the coordinator
  };
  Next NextFor(Step open) const;
  void ReachBase(const ChunkSet& held);
  void Told() { told_ = true; }
  // The state could not be made: nothing is next until the coordinator has another plan.
  void GiveUp(BaseFailed failure) { failure_ = std::move(failure); }
  const std::optional<BaseFailed>& failure() const { return failure_; }

 private:
  // Those of the pieces that were still wanted.
  std::vector<ChunkId> Arrive(const Pieces& pieces);

  ConfigPtr config_;
  ViewNumber view_;
  HealPlan plan_;
  int32_t me_ = -1;
  Wants wants_;  // of the first stage; once at the base, of the second
  bool at_base_ = false;
  std::optional<BaseFailed> failure_;  // given up
  bool told_ = false;                  // the coordinator knows that we hold the base
};

}  // namespace muster
