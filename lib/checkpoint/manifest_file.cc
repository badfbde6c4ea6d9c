#include "lib/checkpoint/manifest_file.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "lib/base/status.h"
#include "lib/checkpoint/segment.h"

namespace muster {

std::string ManifestFileOf(LineageNumber lineage, Step step) {
  return absl::StrCat(CheckpointFolder(lineage, step), "/", kManifestFile);
}

namespace {

// A folder of somebody else may hold anything.
constexpr size_t kMostEntries = 100'000;

absl::Status Named(const std::string& path, const absl::Status& why) {
  const char* next =
      absl::IsDataLoss(why) ? "; bring back a copy of it, or take an older checkpoint" : "";
  return absl::Status(why.code(), absl::StrCat("'", path, "': ", why.message(), next));
}

absl::StatusOr<std::string> ReadBegin(const CheckpointFile& in, uint64_t bytes) {
  std::string read(bytes, '\0');
  MUSTER_RETURN_IF_ERROR(in.ReadAt(0, read.data(), read.size()));
  return read;
}

}  // namespace

absl::StatusOr<std::vector<CheckpointPlace>> CheckpointPlacesIn(const CheckpointFiles& files) {
  std::vector<CheckpointPlace> folders, places;
  size_t entries = 0;
  MUSTER_RETURN_IF_ERROR(files.List("", [&](const CheckpointFiles::Entry& entry) {
    const std::optional<CheckpointPlace> place = PlaceOfFolder(entry.name);
    if (place && entry.is_folder) folders.push_back(*place);
    return ++entries <= kMostEntries;
  }));
  if (entries > kMostEntries)
    return absl::InvalidArgumentError(absl::StrCat(files.PathOf(""), " has more than ",
                                                   kMostEntries,
                                                   " entries: it is no folder of checkpoints"));
  for (const auto& [lineage, step] : folders)
    if (!absl::IsNotFound(files.Open(ManifestFileOf(lineage, step)).status()))
      places.emplace_back(lineage, step);
  return places;
}

absl::Status WriteManifestFile(CheckpointFiles& files, const ManifestFile& file) {
  const std::string name = ManifestFileOf(file.manifest.lineage, file.manifest.step);
  const std::string bytes = EncodeManifestFile(file);
  if (bytes.size() > kMostManifestFileBytes)
    return absl::InvalidArgumentError(absl::StrCat("'", files.PathOf(name), "' would have ",
                                                   bytes.size(), " bytes, and may have ",
                                                   kMostManifestFileBytes));
  return files.Replace(name, bytes);
}

absl::StatusOr<ManifestFile> ReadManifestFile(const CheckpointFiles& files,
                                              const std::string& name) {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointFile> in, files.Open(name));
  if (in->size() > kMostManifestFileBytes)
    return absl::DataLossError(absl::StrCat("'", files.PathOf(name), "' is longer than ",
                                            kMostManifestFileBytes, " bytes"));
  MUSTER_ASSIGN_OR_RETURN(const std::string bytes, ReadBegin(*in, in->size()));
  absl::StatusOr<ManifestFile> file = DecodeManifestFile(bytes);
  if (!file.ok()) return Named(files.PathOf(name), file.status());
  const Manifest& manifest = file->manifest;
  if (name != ManifestFileOf(manifest.lineage, manifest.step))
    return absl::DataLossError(
        absl::StrCat("'", files.PathOf(name), "' is that of ", Describe(manifest)));
  return file;
}

absl::StatusOr<std::string> ReadManifestCluster(const CheckpointFiles& files,
                                                const std::string& name) {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointFile> in, files.Open(name));
  const uint64_t most = std::min<uint64_t>(in->size(), kMostManifestHeaderBytes);
  MUSTER_ASSIGN_OR_RETURN(const std::string bytes, ReadBegin(*in, most));
  absl::StatusOr<std::string> cluster = DecodeManifestCluster(bytes);
  if (!cluster.ok()) return Named(files.PathOf(name), cluster.status());
  return cluster;
}

}  // namespace muster
