#include "tests/sim/peer_links.h"

#include <algorithm>
#include <utility>

#include "lib/base/lease.h"

namespace muster::sim {
namespace {

constexpr int64_t kGreetingTimeout = 2000;
constexpr int64_t kWaits = kDefaultLease.count();

}  // namespace

std::vector<MemberId> PeerLinks::Hold(const std::vector<ViewMember>& peers) {
  std::map<MemberId, bool> listed;
  for (const ViewMember& peer : peers)
    if (peer.id != me_) listed[peer.id] = false;
  std::vector<MemberId> down;
  for (const auto& [peer, session] : up_)
    if (listed.count(peer) == 0) down.push_back(peer);
  for (const MemberId& peer : down) {
    const SimSessionId session = up_[peer];
    up_.erase(peer);
    around_.network.Close(session, node_);
  }
  std::vector<MemberId> dialed;
  for (const auto& [peer, session] : dialed_)
    if (listed.count(peer) == 0) dialed.push_back(peer);
  for (const MemberId& peer : dialed) around_.network.Close(std::exchange(dialed_[peer], 0), node_);
  std::map<MemberId, bool> before = std::exchange(listed_, std::move(listed));
  for (auto& [peer, due] : listed_) {
    const auto old = before.find(peer);
    due = old != before.end() && old->second;
    if (old == before.end() && me_ < peer && !Up(peer))
      ConnectLater(peer, around_.schedule.Random(1, 20));
  }
  for (const auto& [peer, session] : waiting_)
    if (listed_.count(peer) > 0)
      runner_.Later(0, [this, peer = peer, session = session] { LetIn(peer, session); });
  return down;
}

bool PeerLinks::Answers(const MemberId& peer, SimSessionId session) {
  if (listed_.count(peer) > 0) return true;
  around_.coverage.Add(Corner::kEarlyGreetings);
  const SimSessionId older = std::exchange(waiting_[peer], session);
  if (older != 0) around_.network.Close(older, node_);
  runner_.Later(kWaits, [this, peer, session] {
    const auto it = waiting_.find(peer);
    if (it == waiting_.end() || it->second != session) return;
    waiting_.erase(it);
    around_.coverage.Add(Corner::kRefusedGreetings);
    around_.network.Close(session, node_);
  });
  return false;
}

void PeerLinks::LetIn(const MemberId& peer, SimSessionId session) {
  const auto it = waiting_.find(peer);
  if (it == waiting_.end() || it->second != session || listed_.count(peer) == 0) return;
  waiting_.erase(it);
  around_.coverage.Add(Corner::kLetIn);
  around_.network.Greet(session);
}

void PeerLinks::ConnectLater(const MemberId& peer, int64_t delay) {
  const auto it = listed_.find(peer);
  if (it == listed_.end() || std::exchange(it->second, true)) return;
  runner_.Later(delay, [this, peer] { Connect(peer); });
}

void PeerLinks::Connect(const MemberId& peer) {
  const auto it = listed_.find(peer);
  if (it == listed_.end()) return;
  it->second = false;
  if (Up(peer) || dialed_[peer] != 0) return;
  PeerLinks* other = events_.find(peer);
  const SimSessionId session =
      other == nullptr
          ? 0
          : around_.network.Open(node_, other->node(), EventsWith(peer), other->EventsWith(me_));
  if (session == 0) return ConnectLater(peer, 50);  // refused
  dialed_[peer] = session;
  runner_.Later(kGreetingTimeout, [this, peer, session] {
    if (dialed_[peer] == session) around_.network.Close(session, node_);
  });
}

SimSessionEvents PeerLinks::EventsWith(const MemberId& peer) {
  return {[this, peer](SimSessionId session) { OnUp(peer, session); },
          [this, peer](SimSessionId session) { OnDown(peer, session); },
          [this, peer](SimSessionId session) { return Answers(peer, session); }};
}

void PeerLinks::OnUp(const MemberId& peer, SimSessionId session) {
  if (dialed_[peer] == session) {
    dialed_[peer] = 0;
  } else if (me_ < peer) {
    return around_.network.Close(session, node_);  // given up meanwhile
  }
  if (const auto old = up_.find(peer); old != up_.end()) {
    const SimSessionId replaced = old->second;
    up_.erase(old);
    around_.network.Close(replaced, node_);
    events_.down(peer);
  }
  up_[peer] = session;
  events_.up(peer);
}

void PeerLinks::OnDown(const MemberId& peer, SimSessionId session) {
  if (dialed_[peer] == session) dialed_[peer] = 0;
  if (const auto it = waiting_.find(peer); it != waiting_.end() && it->second == session)
    waiting_.erase(it);
  if (const auto it = up_.find(peer); it != up_.end() && it->second == session) {
    up_.erase(it);
    events_.down(peer);
  }
  if (me_ < peer && !Up(peer) && dialed_[peer] == 0)
    ConnectLater(peer, around_.schedule.Random(5, 60));
}

SimSessionId PeerLinks::SessionTo(const MemberId& peer) const {
  const auto it = up_.find(peer);
  return it == up_.end() ? 0 : it->second;
}

}  // namespace muster::sim
