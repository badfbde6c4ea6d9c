#include "worker/commands/evaluate_text.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/plural.h"
#include "lib/base/printable.h"
#include "lib/wire/json_text.h"

namespace muster::worker {
namespace {

using nlohmann::ordered_json;

constexpr size_t kLeastColumn = 12;

}  // namespace

std::string EvaluationAsText(const EvaluatedModel& evaluated) {
  std::string text =
      absl::StrCat("job ", Printable(evaluated.job), ", task ", evaluated.task, ", step ",
                   evaluated.step, evaluated.average ? ", moving average" : "", ", on ",
                   Plural(static_cast<int64_t>(evaluated.samples), "sample"), "\n");
  size_t width = kLeastColumn;
  for (const Measured& measured : evaluated.measured) width = std::max(width, measured.name.size());
  for (const Measured& measured : evaluated.measured)
    absl::StrAppend(&text, absl::StrFormat("%-*s %.6g\n", width, measured.name, measured.value));
  return text;
}

std::string EvaluationAsJson(const EvaluatedModel& evaluated) {
  ordered_json json = {{"job", evaluated.job},
                       {"task", evaluated.task},
                       {"step", evaluated.step},
                       {"average", evaluated.average},
                       {"samples", evaluated.samples},
                       {"data_hash", evaluated.data_hash},
                       {"metrics", ordered_json::object()}};
  for (const Measured& measured : evaluated.measured)
    json["metrics"][measured.name] =
        std::isfinite(measured.value) ? ordered_json(measured.value) : ordered_json(nullptr);
  return TextOfJson(json) + "\n";
}

std::string GeneratedAsJson(const std::string& prompt, const std::string& text) {
  return TextOfJson(ordered_json({{"prompt", prompt}, {"text", text}})) + "\n";
}

}  // namespace muster::worker
