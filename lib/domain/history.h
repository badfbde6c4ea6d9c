// One step of a job's loss history, and how programs are told of it: in metrics.jsonl, and by
// muster history. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster {

// What was measured, as people want it: a mean, or e to it.
struct MetricValue {
  std::string metric;
  std::optional<double> value;  // nothing: it is not finite
  bool operator==(const MetricValue&) const = default;
};

struct HistoryStep {
  int64_t step = 0;
  int64_t lineage = 0;
  int64_t epoch = 0;
  int64_t unix_ms = 0;                  // when it was recorded; 0: not known
  std::optional<double> loss;           // mean; nothing: it is not finite, or there were no samples
  std::optional<double> learning_rate;  // nothing: the job has no such step
  std::optional<double> gradient_norm;  // before clipping; nothing: not finite, or not measured
  std::optional<double> samples_per_second;  // over the last steps of its view; nothing: unknown
  std::optional<int64_t>
      samples;                    // that the job has used with it; nothing: no job can have so many
  std::optional<double> seconds;  // since the step before; nothing: that is of another view
  std::vector<MetricValue> validation{};  // that the step brought (docs/decisions/0111)
  // No step: this last state was measured, and nothing else is known. It ends the history of a job
  // that has ended, under the number of the step that would bring it (docs/decisions/0120).
  std::optional<int64_t> last_state{};
};

// As one line of metrics.jsonl, with its end.
std::string HistoryLine(const HistoryStep& step);

// "2026-11-21T10:11:20.096Z", as all times that programs are given.
std::string UtcTime(int64_t unix_ms);

}  // namespace muster
