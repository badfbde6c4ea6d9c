// The history of a job as readers get it: what the ledger gives and the control API shares. Plain
// values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster {

struct HistoryStep {
  int64_t step = 0;
  int64_t lineage = 0;
  int64_t epoch = 0;
  int64_t unix_ms = 0;                  // when it was recorded; 0: not known
  std::optional<double> loss;           // mean; nothing: it is not finite, or there were no samples
  std::optional<double> learning_rate;  // nothing: the job has no such step
  std::optional<double> gradient_norm;  // before clipping; nothing: it is not measured
  std::optional<double> samples_per_second;  // over the last steps of its view; nothing: unknown
};

struct HistoryQuery {
  int64_t from = 0;     // this step and later ones
  int64_t lineage = 0;  // of the step before `from`, as the asker has it; 0: it has none
  int64_t limit = 0;    // most steps, up to kMostHistorySteps; 0: kHistoryStepsPerPage
};
inline constexpr int64_t kHistoryStepsPerPage = 1'000;
inline constexpr int64_t kMostHistorySteps = 10'000;

// Where a rewind has left out steps below `from` that the asker has, it begins with the first of
// them.
struct HistoryPage {
  std::vector<HistoryStep> steps;
  std::optional<int64_t> next;  // the step from which those follow; nothing: there are none
};

// As one line of metrics.jsonl, with its end.
std::string HistoryLine(const HistoryStep& step);

// "2026-11-21T10:11:20.096Z", as all times that programs are given.
std::string UtcTime(int64_t unix_ms);

}  // namespace muster
