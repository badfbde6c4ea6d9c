#include "coordinator/runtime/checkpoint_times.h"

#include <algorithm>
#include <chrono>

namespace muster::coordinator {
namespace {

constexpr size_t kMostOpen = 64;      // checkpoints whose commit may still come
constexpr double kLongestPart = 1e6;  // seconds; more is no measurement

}  // namespace

void CheckpointTimes::PartWritten(const std::string& job, LineageNumber lineage, Step step,
                                  double seconds, Time now) {
  const double took = seconds > 0 && seconds < kLongestPart ? seconds : 0;
  const Time begin =
      now - std::chrono::duration_cast<Duration>(std::chrono::duration<double>(took));
  const auto [it, is_new] = begun_.try_emplace({job, lineage, step}, begin);
  if (!is_new) it->second = std::min(it->second, begin);
  if (begun_.size() <= kMostOpen) return;
  begun_.erase(std::min_element(begun_.begin(), begun_.end(),
                                [](const auto& a, const auto& b) { return a.second < b.second; }));
}

std::optional<double> CheckpointTimes::Committed(const std::string& job, LineageNumber lineage,
                                                 Step step, Time now) {
  const auto it = begun_.find({job, lineage, step});
  std::optional<double> seconds;
  if (it != begun_.end()) seconds = Seconds(now - it->second);
  begun_.erase(begun_.lower_bound({job, LineageNumber(0), Step(0)}),
               begun_.upper_bound({job, lineage, step}));
  return seconds;
}

void CheckpointTimes::Forget(const std::string& job) {
  std::erase_if(begun_, [&](const auto& entry) { return std::get<0>(entry.first) == job; });
}

}  // namespace muster::coordinator
