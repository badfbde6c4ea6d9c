#include "coordinator/runtime/checkpoint_times.h"

#include <algorithm>
#include <chrono>

namespace muster::coordinator {
namespace {

constexpr size_t kMostOpen = 64;      // checkpoints whose commit may still come
constexpr double kLongestPart = 1e6;  // seconds; more is no measurement

}  // namespace

void CheckpointTimes::PartWritten(LineageNumber lineage, Step step, double seconds, Time now) {
  const double took = seconds > 0 && seconds < kLongestPart ? seconds : 0;
  const Time begin =
      now - std::chrono::duration_cast<Duration>(std::chrono::duration<double>(took));
  const auto [it, is_new] = begun_.try_emplace({lineage, step}, begin);
  if (!is_new) it->second = std::min(it->second, begin);
  if (begun_.size() > kMostOpen) begun_.erase(begun_.begin());
}

std::optional<double> CheckpointTimes::Committed(LineageNumber lineage, Step step, Time now) {
  const auto it = begun_.find({lineage, step});
  std::optional<double> seconds;
  if (it != begun_.end()) seconds = Seconds(now - it->second);
  begun_.erase(begun_.begin(), begun_.upper_bound({lineage, step}));
  return seconds;
}

}  // namespace muster::coordinator
