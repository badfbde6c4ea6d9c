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
#include "absl/strings/strip.h"
#include "lib/base/status.h"
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
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(absl::StripSuffix(text, "\n"), absl::MaxSplits(' ', 1));
  StateMeasure measure{parts.first};
  const bool is_one = text.size() <= kMostBytes && absl::StartsWith(parts.first, kMeasuredPrefix) &&
                      absl::SimpleAtod(parts.second, &measure.value) &&
                      std::isfinite(measure.value);
  if (is_one) return measure;
  return absl::DataLossError(absl::StrCat("'", files.PathOf(file),
                                          "' holds no measure of a checkpoint; delete that file"));
}

absl::StatusOr<std::optional<size_t>> FindBest(const CheckpointFiles& files,
                                               const std::vector<Manifest>& manifests,
                                               const BestRule& rule) {
  if (!rule.wanted()) return std::nullopt;
  std::vector<std::optional<StateMeasure>> measures;
  for (const Manifest& manifest : manifests) {
    absl::StatusOr<StateMeasure> measure = ReadMeasure(files, manifest.lineage, manifest.step);
    if (absl::IsUnavailable(measure.status())) return measure.status();
    measures.emplace_back();
    if (measure.ok() && IsFinite(manifest)) measures.back() = *std::move(measure);
  }
  return BestOf(measures, rule);
}

absl::Status WriteMeasure(CheckpointFiles& files, LineageNumber lineage, Step step,
                          const StateMeasure& measure) {
  const absl::StatusOr<StateMeasure> before = ReadMeasure(files, lineage, step);
  if (before.ok() && *before == measure) return absl::OkStatus();
  return files.Replace(MeasureFileOf(lineage, step),
                       absl::StrFormat("%s %.17g\n", measure.measure, measure.value));
}

}  // namespace muster
