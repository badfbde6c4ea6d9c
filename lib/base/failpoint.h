// Named places at which a test has a process kill itself, to see what others make of it. Armed by a
// flag of the program (`--fail-at point:n`), never by the environment; unarmed ones cost a look at
// an empty list.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

// The points of members and of coordinators. A name that is not here cannot be armed.
inline constexpr absl::string_view kFailpointNames[] = {
    "forward",           "phase",         "last_backward",         "half_sent",
    "summed_unreplied",  "half_received", "before_apply",          "donor",
    "sealed_unanswered", "receiver",      "base_acknowledged",     "part_copied",
    "segment_written",   "measuring",     "measured_untold",       "measured_told",
    "spooled_untold",    "spooled_told",  "persisted_unpublished", "forming",
    "before_commit"};

class Failpoints {
 public:
  // `fire` ends the process: it says which point it was and raises SIGKILL. Tests may hand in
  // another.
  explicit Failpoints(std::function<void(absl::string_view point)> fire) : fire_(std::move(fire)) {}

  // "forward:3": at the third pass of `forward`, counted from now. Before other threads Pass.
  // kInvalidArgument: unknown point (the known ones are named), or a number below 1.
  absl::Status Arm(absl::string_view point_and_pass);

  // Whether any point is armed. If none is, nobody needs to find out whether a point is reached.
  bool armed() const { return !armed_.empty(); }

  // Any thread. At the pass that was asked for, and at no other, calls `fire`.
  void Pass(absl::string_view point);

 private:
  struct Armed {
    std::string point;
    int64_t pass = 1;
    std::atomic<int64_t> passed{0};
  };
  const std::function<void(absl::string_view)> fire_;
  std::vector<std::unique_ptr<Armed>> armed_;
};

// Writes {"event":"failpoint","point":…} to `report_fd` (-1: nowhere), then SIGKILL to ourselves.
[[noreturn]] void DieAt(absl::string_view point, int report_fd);

}  // namespace muster
