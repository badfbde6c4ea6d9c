// What a process tells its agent through the report pipe: one JSON object per line, {"event":
// "step", …}. Progress shows this way while the coordinator is down.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster::agent {

struct StepReport {
  int64_t step = 0;  // completed
  int64_t epoch = 0;
  double loss = 0;                           // not a number when the process gave none
  int64_t samples = 0;                       // of the whole step, all workers
  double seconds = 0;                        // that the step took
  std::optional<double> gradient_norm = {};  // where the job clips
  bool operator==(const StepReport&) const = default;
};

struct Report {
  std::string event;
  std::optional<StepReport> step;  // when event is "step"
  std::string text;                // for people; may be empty
  std::string metrics;      // HOST:PORT where the process serves its metrics; empty: not told
  std::string point;        // when event is "failpoint"
  std::optional<int> code;  // when event is "ends"
  std::string json;         // the whole line
};

// kInvalidArgument: not an object with "event", or a step without its number.
absl::StatusOr<Report> ParseReport(absl::string_view line);

// Cuts what a pipe delivers into lines. A line longer than the limit is dropped whole.
class LineReader {
 public:
  static constexpr size_t kLongestLine = 64 * 1024;
  // Reads what is there, without waiting and not without end. False at the end of the file (a last
  // line without its end is dropped).
  bool ReadFrom(int fd, const std::function<void(absl::string_view line)>& on_line);

 private:
  void Split(absl::string_view bytes, const std::function<void(absl::string_view)>& on_line);
  std::string partial_;
  bool too_long_ = false;
};

}  // namespace muster::agent
