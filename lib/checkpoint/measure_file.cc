#include "lib/checkpoint/measure_file.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "lib/base/status.h"
#include "lib/checkpoint/checked_line.h"
#include "lib/checkpoint/segment.h"

namespace muster {
namespace {

constexpr size_t kMostBytes = 256;

}  // namespace

std::string MeasureFileOf(LineageNumber lineage, Step step) {
  return absl::StrCat(CheckpointFolder(lineage, step), "/", kMeasureFile);
}

absl::StatusOr<StateMeasure> ReadMeasure(const CheckpointFiles& files, LineageNumber lineage,
                                         Step step) {
  const std::string file = MeasureFileOf(lineage, step);
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointFile> in, files.Open(file));
  std::string text(std::min<uint64_t>(in->size(), kMostBytes + 1), '\0');
  MUSTER_RETURN_IF_ERROR(in->ReadAt(0, text.data(), text.size()));
  const std::optional<std::string> line = ReadCheckedLine(text);
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(line.value_or(""), absl::MaxSplits(' ', 1));
  StateMeasure measure{parts.first};
  const bool is_one = text.size() <= kMostBytes && absl::StartsWith(parts.first, kMeasuredPrefix) &&
                      absl::SimpleAtod(parts.second, &measure.value) &&
                      std::isfinite(measure.value);
  if (is_one) return measure;
  return absl::DataLossError(absl::StrCat("'", files.PathOf(file),
                                          "' holds no measure of a checkpoint, or a damaged one; "
                                          "delete that file"));
}

absl::StatusOr<BestFound> FindBest(const CheckpointFiles& files,
                                   const std::vector<Manifest>& manifests, const BestRule& rule) {
  BestFound found;
  if (!rule.wanted()) return found;
  std::vector<std::optional<StateMeasure>> measures(manifests.size());
  for (size_t i = 0; i < manifests.size(); ++i) {
    if (!IsFinite(manifests[i])) continue;
    absl::StatusOr<StateMeasure> measure =
        ReadMeasure(files, manifests[i].lineage, manifests[i].step);
    if (absl::IsUnavailable(measure.status())) return measure.status();
    if (measure.ok()) {
      measures[i] = *std::move(measure);
    } else if (!absl::IsNotFound(measure.status())) {
      found.unread.push_back(i);
      found.why.Update(measure.status());
    }
  }
  found.best = BestOf(measures, rule);
  return found;
}

absl::Status WriteMeasure(CheckpointFiles& files, LineageNumber lineage, Step step,
                          const StateMeasure& measure) {
  const absl::StatusOr<StateMeasure> before = ReadMeasure(files, lineage, step);
  if (before.ok() && *before == measure) return absl::OkStatus();
  return files.Replace(MeasureFileOf(lineage, step),
                       CheckedLine(absl::StrFormat("%s %.17g", measure.measure, measure.value)));
}

}  // namespace muster
