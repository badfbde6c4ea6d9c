// Sessions between processes. Frames of a session arrive in order and once, until it breaks: then
// some of those under way are lost, and both ends hear of it. A way between two processes can be
// cut: what is under way waits, as a network sends again what was not acknowledged. A receiver that
// keeps the receipt of a frame reads nothing more of its session meanwhile. Lives as long as the
// world.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/transport/inbound.h"
#include "tests/sim/coverage.h"
#include "tests/sim/schedule.h"

namespace muster::sim {

using NodeId = int64_t;  // of a process; the coordinator and the agents of hosts keep theirs
using SimSessionId = int64_t;
inline constexpr NodeId kCoordinatorNode = 1;
inline constexpr NodeId kFirstAgentNode = 2;           // of the first host; the others follow
inline constexpr NodeId kOtherCoordinatorNode = 5000;  // where a second one is started by mistake
inline constexpr NodeId kFirstMemberNode = 10000;

// Where a coordinator may be: tried in turn while none answers.
class CoordinatorAddresses {
 public:
  explicit CoordinatorAddresses(bool are_two) : are_two_(are_two) {}
  NodeId current() const { return current_; }
  void GoOn() {
    if (are_two_)
      current_ = current_ == kCoordinatorNode ? kOtherCoordinatorNode : kCoordinatorNode;
  }

 private:
  bool are_two_;
  NodeId current_ = kCoordinatorNode;
};

// What one end of a session hears, in its own process. `down` comes also without `up`.
struct SimSessionEvents {
  std::function<void(SimSessionId)> up;
  std::function<void(SimSessionId)> down;
  // Of the end that is called: whether it answers now. If not it calls Greet later, or closes.
  // Null: it always does.
  std::function<bool(SimSessionId)> answers = nullptr;
};

class Network {
 public:
  Network(Schedule& schedule, Coverage& coverage) : schedule_(schedule), coverage_(coverage) {}

  void Add(NodeId node, Runner* runner) { runners_[node] = runner; }
  void Remove(NodeId node);  // it has died: its sessions break
  bool Has(NodeId node) const { return runners_.count(node) > 0; }

  // 0: nobody listens there.
  SimSessionId Open(NodeId from, NodeId to, SimSessionEvents at_from, SimSessionEvents at_to);
  // The end that was called answers: both are up.
  void Greet(SimSessionId session);
  // The frame is lost when the session has broken. `lost` is called when it is lost under way.
  void Send(SimSessionId session, NodeId from, std::function<void()> deliver,
            std::function<void()> lost = nullptr);
  // To a receiver that may keep the receipt.
  void SendWeighed(SimSessionId session, NodeId from, std::function<void(Receipt)> deliver);
  void Break(SimSessionId session);
  // One end wants no more of it: as Break, and that end reads what still comes.
  void Close(SimSessionId session, NodeId by);
  // Nothing comes through from one to the other for so long. Where both are members, the kernels of
  // both find the way silent when that lasts, and their sessions break. `stops_a_frame` is called
  // for each frame that the cut holds back or loses; for one that it holds back, each time it would
  // arrive.
  void Cut(NodeId from, NodeId to, int64_t ms, std::function<void()> stops_a_frame = nullptr);

  // The end of the last cut of that way; not after now: it is open.
  int64_t CutUntil(NodeId from, NodeId to) const;

  // A way between it and another member was cut then, or later.
  bool WasCutFromMembers(NodeId node, int64_t since) const;

  struct Ends {
    NodeId from, to;
  };
  std::map<SimSessionId, Ends> OpenSessions() const;
  SimSessionId Between(NodeId a, NodeId b) const;  // an open one; 0: none

 private:
  struct Frame {
    std::function<void(Receipt)> deliver;
    std::function<void()> lost;
    bool local = false;      // an end's own knowledge: no partition holds it up
    bool both_ways = false;  // it needs an answer: a cut of either way holds it up
  };
  struct Direction {
    NodeId from = 0, to = 0;
    int64_t last = 0;  // no frame arrives before this
    std::deque<Frame> under_way;
    std::shared_ptr<InboundRoom> room;  // at `to`
    int64_t unread = 0;                 // of those under way, arrived while there was no room
  };
  struct Session {
    Direction out, back;  // from the end that connected, and to it
    SimSessionEvents at_from, at_to;
    bool broken = false;
  };
  struct CutWay {
    int64_t until;
    std::function<void()> stops_a_frame;  // null: nobody asks
  };

  void SendFrame(SimSessionId id, NodeId from, Frame frame);
  void Push(SimSessionId id, bool out, int64_t delay, Frame frame);
  void Arrive(SimSessionId id, bool out);
  std::shared_ptr<InboundRoom> RoomOf(SimSessionId id, bool out);
  void ReadOn(SimSessionId id, bool out);
  void End(SimSessionId id, bool local);
  void LoseTail(Direction& direction);
  void BreakSilent(NodeId from, NodeId to);
  void NoteStoppedFrame(NodeId from, NodeId to);

  Schedule& schedule_;
  Coverage& coverage_;
  std::map<NodeId, Runner*> runners_;
  std::map<SimSessionId, Session> sessions_;
  SimSessionId next_ = 1;
  std::map<std::pair<NodeId, NodeId>, std::vector<CutWay>> cuts_;
};

}  // namespace muster::sim
