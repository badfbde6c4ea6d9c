// The state machine of a follower (docs/decisions/0111): it measures one committed checkpoint at a
// time, as the coordinator asks it to, and says what it found until that is acknowledged. It is in
// no view. Deterministic, single-threaded, no clock; lib/member/runtime/follower_exchange acts.
// Lives as long as its process.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lib/domain/message.h"
#include "lib/member/state/actions.h"
#include "lib/member/state/config.h"
#include "lib/member/state/obeyed.h"

namespace muster {

using FollowerInput = std::variant<CoordinatorUp, CoordinatorSays, MeasureEnded>;

// ---- actions, besides TellCoordinator, GiveUpMeasure and Quit

struct StartMeasure {  // the train thread: read this checkpoint and measure it; ends what it does
  int64_t id = 0;
  Manifest manifest;
};
using FollowerAction = std::variant<TellCoordinator, StartMeasure, GiveUpMeasure, Quit>;

class Follower {
 public:
  explicit Follower(MemberConfig config) : config_(std::move(config)) {}

  std::vector<FollowerAction> Handle(const FollowerInput& input);

  // For people, and for the life signs: the step of the state that is measured, or was last.
  Step step() const { return step_; }
  std::string Phase() const;
  bool measures() const { return running_.has_value(); }

 private:
  struct Asked {
    LineageNumber lineage;
    Step step;
    bool operator==(const Asked&) const = default;
  };
  struct Running {
    int64_t id = 0;
    Asked what;
  };
  using Actions = std::vector<FollowerAction>;

  void On(const CoordinatorUp&, Actions& out);
  void On(const CoordinatorSays& says, Actions& out);
  void On(const MeasureEnded& ended, Actions& out);
  void On(const JobIs& job, Actions& out);
  void On(const MeasureState& measure, Actions& out);
  void On(const AckMeasured& ack, Actions& out);
  void On(const Leave& leave, Actions& out);
  // The rest is for members of views.
  template <class M>
  void On(const M&, Actions&) {}

  const MemberConfig config_;
  Obeyed obeyed_;
  int64_t last_id_ = 0;
  Step step_;
  std::optional<Running> running_;
  std::optional<Measured> answer_;  // that is not acknowledged
};

}  // namespace muster
