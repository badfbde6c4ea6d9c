#include "lib/domain/view.h"

#include <algorithm>
#include <utility>

namespace muster {

LaneHolders::LaneHolders(std::initializer_list<MemberId> by_lane) {
  for (const MemberId& holder : by_lane) {
    const auto known = std::find(members_.begin(), members_.end(), holder);
    by_lane_.push_back(static_cast<int32_t>(known - members_.begin()));
    if (known == members_.end()) members_.push_back(holder);
  }
}

bool LaneHolders::operator==(const LaneHolders& other) const {
  if (size() != other.size()) return false;
  if (members_ == other.members_ && by_lane_ == other.by_lane_) return true;
  for (size_t lane = 0; lane < size(); ++lane)
    if ((*this)[lane] != other[lane]) return false;
  return true;
}

bool View::HasPart(int32_t index) const {
  if (index < 0) return false;
  const auto names_it = [&](const std::vector<int32_t>& holders) {
    return std::find(holders.begin(), holders.end(), index) != holders.end();
  };
  if (members[static_cast<size_t>(index)].role == Role::kServer) return names_it(owner_of);
  return names_it(lanes.holder_of) || names_it(first_lanes.holder_of);
}

std::map<MemberId, int32_t> View::Indexes() const {
  std::map<MemberId, int32_t> indexes;
  for (size_t i = 0; i < members.size(); ++i)
    indexes.emplace(members[i].id, static_cast<int32_t>(i));
  return indexes;
}

LaneHolders View::LaneHoldersAt(Step step) const {
  std::vector<MemberId> holders;
  std::vector<int32_t> by_lane, place(members.size(), -1);
  by_lane.reserve(lanes.holder_of.size());
  for (const int32_t member : LanesAt(step).holder_of) {
    int32_t& at = place[static_cast<size_t>(member)];
    if (at < 0) {
      at = static_cast<int32_t>(holders.size());
      holders.push_back(members[static_cast<size_t>(member)].id);
    }
    by_lane.push_back(at);
  }
  return {std::move(holders), std::move(by_lane)};
}

std::vector<int32_t> StripeOwners(int32_t chunks, int32_t stripe,
                                  const std::vector<int32_t>& owners) {
  std::vector<int32_t> owner_of(static_cast<size_t>(chunks));
  for (int32_t c = 0; c < chunks; ++c)
    owner_of[static_cast<size_t>(c)] = owners[static_cast<size_t>(c / stripe) % owners.size()];
  return owner_of;
}

std::vector<int32_t> OwnersOf(const std::vector<ViewMember>& members, const LaneMap& lanes,
                              Sync sync) {
  std::vector<bool> owns(members.size(), false);
  if (sync == Sync::kServer) {
    for (size_t i = 0; i < members.size(); ++i) owns[i] = members[i].role == Role::kServer;
  } else {
    for (int32_t holder : lanes.holder_of) owns[static_cast<size_t>(holder)] = true;
  }
  std::vector<int32_t> owners;
  for (size_t i = 0; i < members.size(); ++i)
    if (owns[i]) owners.push_back(static_cast<int32_t>(i));
  return owners;
}

}  // namespace muster
