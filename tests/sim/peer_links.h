// A member's sessions with other members, as lib/member/runtime/peer_sessions.h holds them: the end
// with the smaller id connects and tries again; a newer session replaces the older one; who is not
// listed yet waits, unanswered. Lives as long as the process.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "lib/domain/view.h"
#include "tests/sim/around.h"

namespace muster::sim {

class PeerLinks {
 public:
  struct Events {
    std::function<void(const MemberId&)> up;
    std::function<void(const MemberId&)> down;
    // The process of that id; null: there is none.
    std::function<PeerLinks*(const MemberId&)> find;
  };
  PeerLinks(Around around, Runner& runner, NodeId node, MemberId me, Events events)
      : around_(around), runner_(runner), node_(node), me_(std::move(me)), events_(events) {}

  // Holds sessions to exactly these, and returns those whose sessions end by that.
  std::vector<MemberId> Hold(const std::vector<ViewMember>& peers);
  bool Up(const MemberId& peer) const { return up_.count(peer) > 0; }
  // 0: there is none.
  SimSessionId SessionTo(const MemberId& peer) const;
  NodeId node() const { return node_; }

 private:
  SimSessionEvents EventsWith(const MemberId& peer);
  bool Answers(const MemberId& peer, SimSessionId session);
  void LetIn(const MemberId& peer, SimSessionId session);
  void Connect(const MemberId& peer);
  void ConnectLater(const MemberId& peer, int64_t delay);
  void OnUp(const MemberId& peer, SimSessionId session);
  void OnDown(const MemberId& peer, SimSessionId session);

  Around around_;
  Runner& runner_;
  const NodeId node_;
  const MemberId me_;
  const Events events_;
  std::map<MemberId, bool> listed_;          // is a connect under way or due?
  std::map<MemberId, SimSessionId> dialed_;  // by us, not greeted yet
  std::map<MemberId, SimSessionId> up_;
  std::map<MemberId, SimSessionId> waiting_;  // greeted, and not listed
};

}  // namespace muster::sim
