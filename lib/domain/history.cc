#include "lib/domain/history.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"

namespace muster {
namespace {

std::string NumberOrNull(std::optional<double> number) {
  return number && std::isfinite(*number) ? absl::StrFormat("%.9g", *number) : "null";
}

// Flat names, as tables want them. Metrics are named by tasks: lower-case letters, digits and "_".
std::string Validation(const HistoryStep& step) {
  std::string text;
  for (const MetricValue& measured : step.validation)
    absl::StrAppend(&text, ",\"validation.", measured.metric, "\":", NumberOrNull(measured.value));
  return text;
}

}  // namespace

std::string UtcTime(int64_t unix_ms) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::FromUnixMillis(unix_ms),
                          absl::UTCTimeZone());
}

std::string HistoryLine(const HistoryStep& step) {
  const std::string time =
      step.unix_ms == 0 ? "null" : absl::StrCat("\"", UtcTime(step.unix_ms), "\"");
  return absl::StrCat(
      "{\"step\":", step.step, ",\"lineage\":", step.lineage, ",\"epoch\":", step.epoch,
      ",\"time\":", time, ",\"loss\":", NumberOrNull(step.loss),
      ",\"learning_rate\":", NumberOrNull(step.learning_rate),
      ",\"gradient_norm\":", NumberOrNull(step.gradient_norm),
      ",\"samples_per_second\":", NumberOrNull(step.samples_per_second),
      ",\"samples\":", step.samples ? absl::StrCat(*step.samples) : "null",
      ",\"seconds\":", NumberOrNull(step.seconds), Validation(step),
      step.last_state ? absl::StrCat(",\"last_state\":", *step.last_state) : "", "}\n");
}

}  // namespace muster
