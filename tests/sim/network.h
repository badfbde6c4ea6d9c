// Sessions between processes. Frames of a session arrive in order and once, until it breaks: then
// some of those under way are lost, and both ends hear of it. A way between two processes can be
// cut: what is under way waits, as a network sends again what was not acknowledged. Lives as long
// as the world.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/coverage.h"
#include "tests/sim/schedule.h"

namespace muster::sim {

using NodeId = int64_t;  // of a process; the coordinator and the agent keep theirs
using SessionId = int64_t;
inline constexpr NodeId kCoordinatorNode = 1;
inline constexpr NodeId kAgentNode = 2;
inline constexpr NodeId kFirstMemberNode = 3;

// What one end of a session hears, in its own process. `down` comes also without `up`.
struct SessionEvents {
  std::function<void(SessionId)> up;
  std::function<void(SessionId)> down;
};

class Network {
 public:
  Network(Schedule& schedule, Coverage& coverage) : schedule_(schedule), coverage_(coverage) {}

  void Add(NodeId node, Runner* runner) { runners_[node] = runner; }
  void Remove(NodeId node);  // it has died: its sessions break
  bool Has(NodeId node) const { return runners_.count(node) > 0; }

  // 0: nobody listens there.
  SessionId Open(NodeId from, NodeId to, SessionEvents at_from, SessionEvents at_to);
  // Lost when the session has broken. `lost` is called when the frame is lost under way.
  void Send(SessionId session, NodeId from, std::function<void()> deliver,
            std::function<void()> lost = nullptr);
  void Break(SessionId session);
  // Nothing comes through from one to the other for so long.
  void Cut(NodeId from, NodeId to, int64_t ms);
  bool IsCut(NodeId from, NodeId to) const { return CutUntil(from, to) > schedule_.now(); }

  struct Ends {
    NodeId from, to;
  };
  std::map<SessionId, Ends> OpenSessions() const;
  SessionId Between(NodeId a, NodeId b) const;  // an open one; 0: none

 private:
  struct Frame {
    std::function<void()> deliver;
    std::function<void()> lost;
    bool local = false;  // an end's own knowledge: no partition holds it up
  };
  struct Direction {
    NodeId from = 0, to = 0;
    int64_t last = 0;  // no frame arrives before this
    std::deque<Frame> under_way;
  };
  struct Session {
    Direction out, back;  // from the end that connected, and to it
    SessionEvents at_from, at_to;
    bool broken = false;
  };

  void Push(SessionId id, bool out, int64_t delay, Frame frame);
  void Arrive(SessionId id, bool out);
  void End(SessionId id, bool local);
  void LoseTail(Direction& direction);
  int64_t CutUntil(NodeId from, NodeId to) const;

  Schedule& schedule_;
  Coverage& coverage_;
  std::map<NodeId, Runner*> runners_;
  std::map<SessionId, Session> sessions_;
  SessionId next_ = 1;
  std::map<std::pair<NodeId, NodeId>, int64_t> cut_until_;
};

}  // namespace muster::sim
