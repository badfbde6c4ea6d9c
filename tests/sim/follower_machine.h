// A follower of the simulation from the inside: the real state machine, and a train thread that
// measures what the simulated disk has. Lives as long as the process.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "lib/member/state/follower.h"
#include "tests/sim/coverage.h"
#include "tests/sim/job.h"
#include "tests/sim/schedule.h"

namespace muster::sim {

class FollowerMachine {
 public:
  struct Outside {
    Schedule* schedule;
    Runner* runner;
    Coverage* coverage;
    SimJob* job;
    std::function<void(ToCoordinator)> tell;
    std::function<void(int code, const std::string& reason)> quit;
    std::function<void(const std::string&)> violate;
  };
  FollowerMachine(MemberConfig config, Outside outside)
      : outside_(std::move(outside)), follower_(std::move(config)) {}

  void Feed(const FollowerInput& input);
  const Follower& follower() const { return follower_; }
  // What it measures now, or next, it never gets done.
  void Hang() { hangs_ = true; }
  // For how many milliseconds it has stood still; nothing if it does not measure.
  std::optional<int64_t> StoodStill() const {
    return follower_.measures() ? std::optional(outside_.schedule->now() - went_on_at_)
                                : std::nullopt;
  }

 private:
  void Do(const TellCoordinator& a) { outside_.tell(a.message); }
  void Do(const StartMeasure& a);
  void Do(const GiveUpMeasure&) {}
  void Do(const Quit& a);
  absl::StatusOr<MeasureSums> MeasureOf(const Manifest& manifest);

  const Outside outside_;
  Follower follower_;
  int64_t went_on_at_ = 0;
  bool hangs_ = false;
  bool left_ = false;
};

}  // namespace muster::sim
