// A member process of the simulation: the real state machine over symbolic memory, with a train
// thread that takes time.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lib/member/state/member.h"
#include "tests/sim/values.h"

namespace muster::sim {

struct SimFrame {
  PeerMessage message;
  std::vector<Value> payload;  // in header order
};

// Segment files on the shared disk.
using Disk = std::map<std::string, std::map<std::pair<int32_t, int32_t>, Value>>;

// What a process asks of the world around it.
struct Surroundings {
  std::function<void(const MemberId& to, SimFrame)> send;
  std::function<void(ToCoordinator)> tell;
  std::function<void(std::vector<ViewMember>)> connect;
  std::function<void(int64_t delay, std::function<void()>)>
      later;  // on this process; forgotten when it dies
  std::function<int64_t(int64_t low, int64_t high)> random;
  std::function<bool()> fails;  // does this write to the disk fail?
  std::function<void(const std::string&)> violate;
  std::function<void(int code, const std::string&)> quit;
  Disk* disk = nullptr;
  Reference* reference = nullptr;
};

class Machine {
 public:
  Machine(MemberConfig config, Surroundings world);

  void Input(const muster::Input& input);
  void Deliver(const MemberId& from, SimFrame frame);
  void SessionUp(const MemberId& peer);
  void SessionDown(const MemberId& peer);
  void CheckInvariants();

  size_t held() const {
    size_t n = 0;
    for (const auto& [from, frames] : held_) n += frames.size();
    return n;
  }
  const Member& member() const { return member_; }
  LaneCount lane_count() const { return count_; }

 private:
  struct Command {
    std::variant<Compute, Abandon, Apply, StepBoundary, Make> what;
  };
  void Act(const Compute&);
  void Act(const Abandon&);
  void Act(const Apply&);
  void Act(const StepBoundary&);
  void Act(const Make&);
  void Act(const Connect&);
  void Act(const TellCoordinator&);
  void Act(const Send&);
  void Act(const FoldIn&);
  void Act(const ForgetSums&);
  void Act(const StoreResults&);
  void Act(const StorePieces&);
  void Act(const ApplyChunks&);
  void Act(const PrepareCopy&);
  void Act(const DropState&) {}
  void Act(const Completed&) {}
  void Act(const Quit&);

  void Train(Command command);
  void NextCommand();
  void Run(const Compute&);
  void Run(const Abandon&);
  void RunLane(Compute command, size_t index);
  void Announce(Compute command, int32_t from_chunk);
  void Run(const Apply&);
  void Run(const StepBoundary&);
  void Run(const Make&);
  void DoStepBoundary(const StepBoundary&);
  void FoldLanes();
  void DoWork();
  void Answer(const muster::Input& input) { work_.push_front({input, std::nullopt}); }
  bool server_mode() const { return config_.training.sync == Sync::kServer; }
  std::vector<Value>& Values(Step step) {
    return server_mode() ? generation_[(step.value() + 1) % 2] : values_;
  }
  std::vector<Value>& ReceiveBuffer(Step step) {
    return server_mode() ? generation_[step.value() % 2] : results_[step.value() % 2];
  }
  Value ResultOf(Step step, int32_t chunk);  // what a right result is
  std::vector<Value> PayloadOf(const PeerMessage& message);
  int32_t chunks() const { return static_cast<int32_t>(config_.chunks.size()); }

  MemberConfig config_;
  Surroundings world_;
  Member member_;
  const SimFrame* frame_ = nullptr;  // whose outcome is carried out
  struct Work {
    muster::Input input;
    std::optional<SimFrame> frame;
  };
  std::deque<Work> work_;
  bool working_ = false;

  std::vector<Value> values_, slots_, results_[2], generation_[2];
  std::map<TreeNode, std::vector<Value>> gradients_;  // partial sums of our lanes
  std::vector<std::map<TreeNode, Value>> waiting_;    // owner: by chunk
  std::vector<Value> sums_;                           // owner that applies: complete ones
  std::deque<Command> commands_;
  bool busy_ = false;
  int64_t epoch_ = 0;  // grows at Abandon: older lanes are forgotten
  LaneCount count_;
  int64_t segments_ = 0;
  std::map<MemberId, std::deque<SimFrame>> held_;
};

}  // namespace muster::sim
