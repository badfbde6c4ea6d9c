// Short ways to write what the tests of a member's parts take in and give back.
#pragma once

#include <memory>
#include <vector>

#include "lib/member/state/actions.h"
#include "lib/member/state/config.h"
#include "lib/member/state/seat.h"

namespace muster {

inline MemberId NameOf(const std::string& name) { return {name, {1, 1}}; }

inline ChunkSet Bits(const std::vector<int>& bits) { return ChunkSet(bits.begin(), bits.end()); }

inline std::vector<ChunkId> Chunks(const std::vector<int32_t>& numbers) {
  return {numbers.begin(), numbers.end()};
}

// A job of two lanes whose second chunk is a buffer when `buffer` says so.
inline MemberConfig PartConfig(Role role, Sync sync, bool clips, bool buffer = false) {
  MemberConfig config;
  config.id = NameOf(role == Role::kWorker ? "worker-0" : "server-0");
  config.role = role;
  config.chunks = {TensorKind::kParameter, buffer ? TensorKind::kBuffer : TensorKind::kParameter};
  config.training.sync = sync;
  config.training.clip_norm = clips ? 1 : 0;
  config.training.batch = 2;
  config.training.lanes = 2;
  config.environment.samples = 100;
  return config;
}
inline ConfigPtr Shared(MemberConfig config) {
  return std::make_shared<const MemberConfig>(std::move(config));
}

// A view of worker-0 and worker-1: chunk c belongs to owners[c], lane l to lanes[l]. We are the
// first.
inline Seat PartSeat(std::vector<int32_t> owners, std::vector<int32_t> lanes) {
  Seat seat;
  seat.me = 0;
  seat.view.number = ViewNumber(1);
  seat.view.lineage = LineageNumber(1);
  for (const char* name : {"worker-0", "worker-1"}) {
    ViewMember m;
    m.id = NameOf(name);
    seat.view.members.push_back(m);
  }
  seat.view.first_done.assign(owners.size(), false);
  seat.view.owner_of = std::move(owners);
  seat.view.lanes.holder_of = seat.view.first_lanes.holder_of = std::move(lanes);
  seat.view.end = Step(50);
  return seat;
}

template <class A>
std::vector<A> Of(const std::vector<Action>& actions) {
  std::vector<A> found;
  for (const Action& action : actions)
    if (const auto* a = std::get_if<A>(&action)) found.push_back(*a);
  return found;
}

}  // namespace muster
