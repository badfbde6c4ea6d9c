#include "lib/checkpoint/survey.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
#include "lib/checkpoint/kept_name.h"
#include "lib/checkpoint/measure_file.h"
#include "lib/checkpoint/segment.h"

namespace muster {
namespace {

constexpr size_t kMostEntries = 100'000;

absl::StatusOr<std::vector<CheckpointPlace>> PlacesIn(const CheckpointFiles& files) {
  std::vector<CheckpointPlace> places;
  size_t entries = 0;
  MUSTER_RETURN_IF_ERROR(files.List("", [&](const CheckpointFiles::Entry& entry) {
    const std::optional<CheckpointPlace> place = PlaceOfFolder(entry.name);
    if (place && entry.is_folder) places.push_back(*place);
    return ++entries <= kMostEntries;
  }));
  if (entries > kMostEntries)
    return absl::InvalidArgumentError(absl::StrCat(files.PathOf(""), " has more than ",
                                                   kMostEntries,
                                                   " entries: it is no folder of checkpoints"));
  std::sort(places.begin(), places.end());
  return places;
}

absl::StatusOr<std::vector<std::string>> FilesOf(const CheckpointFiles& files,
                                                 const std::string& folder) {
  std::vector<std::string> found;
  const absl::Status listed = files.List(folder, [&](const CheckpointFiles::Entry& entry) {
    if (IsCheckpointFile(entry.name)) found.push_back(absl::StrCat(folder, "/", entry.name));
    return found.size() <= kMostEntries;
  });
  if (!listed.ok() && !absl::IsNotFound(listed)) return listed;
  return found;
}

absl::Status CheckFiles(const CheckpointFiles& files, const Manifest& manifest) {
  MUSTER_ASSIGN_OR_RETURN(const Layout layout, LayoutOf(manifest));
  MUSTER_RETURN_IF_ERROR(CheckComplete(manifest, layout, manifest.slots));
  for (const Segment& segment : manifest.segments) {
    MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointFile> file, files.Open(segment.file));
    if (file->size() != segment.bytes)
      return absl::DataLossError(absl::StrCat("'", files.PathOf(segment.file), "' has ",
                                              file->size(), " bytes, and had ", segment.bytes));
  }
  return absl::OkStatus();
}

// Of a file that need not be there. Where a cluster gives checkpoints out, a missing one is
// kFailedPrecondition.
absl::Status UnlessMissing(const absl::Status& read) {
  const bool is_missing = absl::IsNotFound(read) || absl::IsFailedPrecondition(read);
  return is_missing ? absl::OkStatus() : read;
}

SurveyedCheckpoint Survey(const CheckpointFiles& files, LineageNumber lineage, Step step) {
  SurveyedCheckpoint found{.lineage = lineage, .step = step};
  if (const auto all = FilesOf(files, CheckpointFolder(lineage, step)); all.ok())
    for (const std::string& file : *all)
      if (const auto in = files.Open(file); in.ok()) found.bytes += (*in)->size();
  absl::StatusOr<std::string> name = ReadKeptName(files, lineage, step);
  found.name_read = UnlessMissing(name.status());
  if (name.ok()) found.name = *std::move(name);
  absl::StatusOr<StateMeasure> measure = ReadMeasure(files, lineage, step);
  found.measure_read = UnlessMissing(measure.status());
  if (measure.ok()) found.measure = *std::move(measure);
  absl::StatusOr<ManifestFile> file = ReadManifestFile(files, ManifestFileOf(lineage, step));
  if (!file.ok()) {
    found.why_not = absl::IsNotFound(file.status()) ? "it has no manifest"
                                                    : std::string(file.status().message());
    return found;
  }
  if (const absl::Status whole = CheckFiles(files, file->manifest); !whole.ok())
    found.why_not = std::string(whole.message());
  found.file = *std::move(file);
  return found;
}

}  // namespace

bool IsCheckpointFile(absl::string_view name) {
  absl::ConsumeSuffix(&name, kTemporarySuffix);
  return absl::EndsWith(name, kSegmentSuffix) || name == kManifestFile || name == kKeptFile ||
         name == kGoingFile || name == kMeasureFile;
}

absl::StatusOr<std::vector<SurveyedCheckpoint>> SurveyCheckpoints(const CheckpointFiles& files) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<CheckpointPlace> places, PlacesIn(files));
  return SurveyCheckpoints(files, places);
}

std::vector<SurveyedCheckpoint> SurveyCheckpoints(const CheckpointFiles& files,
                                                  const std::vector<CheckpointPlace>& places) {
  std::vector<SurveyedCheckpoint> found;
  for (const auto& [lineage, step] : places) found.push_back(Survey(files, lineage, step));
  return found;
}

absl::Status VerifyCheckpoint(const CheckpointFiles& files, const Manifest& manifest,
                              const std::function<void(uint64_t bytes)>& progress) {
  MUSTER_RETURN_IF_ERROR(CheckFiles(files, manifest));
  std::vector<float> values;
  uint64_t done = 0;
  for (const Segment& segment : manifest.segments) {
    MUSTER_ASSIGN_OR_RETURN(
        const SegmentReader reader,
        SegmentReader::Open(files, segment, {manifest.job, manifest.lineage, manifest.step}));
    for (const SegmentEntry& entry : segment.entries) {
      values.resize(entry.bytes / sizeof(float));
      MUSTER_RETURN_IF_ERROR(reader.Read(entry, absl::MakeSpan(values)));
      done += entry.bytes;
      progress(done);
    }
  }
  return absl::OkStatus();
}

absl::Status DeleteCheckpoint(CheckpointFiles& files, LineageNumber lineage, Step step) {
  const std::string folder = CheckpointFolder(lineage, step);
  MUSTER_RETURN_IF_ERROR(files.Remove(ManifestFileOf(lineage, step)));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> left, FilesOf(files, folder));
  for (const std::string& file : left) MUSTER_RETURN_IF_ERROR(files.Remove(file));
  files.RemoveFolder(folder);
  return absl::OkStatus();
}

}  // namespace muster
