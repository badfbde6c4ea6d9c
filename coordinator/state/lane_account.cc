#include "coordinator/state/lane_account.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace muster::coordinator {
namespace {

// Agents tell the totals: absurd ones make the largest number, and none that wraps around.
int64_t Sum(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return b < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
}

// How many lanes of a lost member must be run again, when there was no rewind.
int64_t RunInVain(const LaneAccount::Departed& member) {
  const LaneCount& ran = *member.ran;
  if (ran.lineage != member.lineage || ran.step < *member.base) return 0;
  if (ran.step == *member.base) return std::min(ran.in_step, member.reassigned);
  return Sum(member.reassigned, ran.in_step);  // it was a step ahead: that step's lanes go too
}

int32_t IndexOf(const View& view, Incarnation member) {
  for (size_t i = 0; i < view.members.size(); ++i)
    if (view.members[i].id.incarnation == member) return static_cast<int32_t>(i);
  return -1;
}

}  // namespace

void LaneAccount::Lose(Incarnation member, Role role) {
  Departed& departed = value_.departed[member];
  departed.lost = true;
  if (role == Role::kServer && !departed.ran) departed.ran = LaneCount{.incarnation = member};
}

bool LaneAccount::Told(const LaneCount& ran) {
  if (std::exchange(value_.departed[ran.incarnation].ran, ran) == ran) return false;
  Settle();
  return true;
}

bool LaneAccount::HasEnded(Incarnation member) const {
  const auto it = value_.departed.find(member);
  return it != value_.departed.end() && it->second.ran.has_value();
}

std::set<Incarnation> LaneAccount::Gone() const {
  std::set<Incarnation> gone;
  for (const auto& [incarnation, member] : value_.departed)
    if (member.lost || member.ran) gone.insert(incarnation);
  return gone;
}

void LaneAccount::GoOn(const View& before, const View& after,
                       const std::vector<LaneId>& reassigned) {
  for (auto& [incarnation, member] : value_.departed) {
    if (!member.lost || member.base) continue;
    member.base = after.first_step;
    member.lineage = after.lineage;
    const int32_t index = IndexOf(before, incarnation);
    if (index < 0) continue;
    const LaneMap& held = before.LanesAt(after.first_step);
    member.reassigned = std::count_if(reassigned.begin(), reassigned.end(), [&](LaneId lane) {
      return held.holder_of[static_cast<size_t>(lane.value())] == index;
    });
  }
  Settle();
  ForgetSettled(after);
}

void LaneAccount::Rewind(const View& after, int32_t lanes,
                         const std::map<MemberId, int64_t>& lanes_run) {
  value_.known = Sum(value_.settled_total, -after.first_step.value() * lanes);
  for (const auto& [member, run] : lanes_run) value_.known = Sum(value_.known, run);
  for (auto& [incarnation, member] : value_.departed) {
    if (!member.lost) continue;
    member.base = after.first_step;
    member.lineage = after.lineage;
    member.rewound = true;
    member.counted = false;
  }
  Settle();
  ForgetSettled(after);
}

// Forgets members that are counted, and those that ended before any view. If an agent reports one
// again, it is forgotten again.
void LaneAccount::ForgetSettled(const View& view) {
  std::erase_if(value_.departed, [&](const auto& entry) {
    const auto& [incarnation, member] = entry;
    if (member.counted) value_.settled_total = Sum(value_.settled_total, member.ran->total);
    return member.counted || (!member.lost && member.ran && IndexOf(view, incarnation) < 0);
  });
}

bool LaneAccount::settled() const {
  return std::all_of(value_.departed.begin(), value_.departed.end(),
                     [](const auto& entry) { return !entry.second.lost || entry.second.counted; });
}

void LaneAccount::Settle() {
  for (auto& [incarnation, member] : value_.departed) {
    if (!member.lost || !member.base || !member.ran || member.counted) continue;
    const int64_t again = member.rewound ? member.ran->total : RunInVain(member);
    value_.known = Sum(value_.known, again);
    member.counted = true;
  }
  value_.recomputed = std::max(value_.recomputed, value_.known);
}

}  // namespace muster::coordinator
