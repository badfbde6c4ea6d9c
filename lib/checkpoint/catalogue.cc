#include "lib/checkpoint/catalogue.h"

#include <filesystem>
#include <optional>
#include <set>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "lib/base/status.h"
#include "lib/checkpoint/file.h"
#include "lib/checkpoint/segment.h"
#include "lib/wire/manifest_codec.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

// "manifest/JOB/LINEAGE/STEP", the numbers as 16 hexadecimal digits, so that keys ascend as
// (lineage, step) do. A job's id with '/' in it would share its prefix with another's: its bytes
// are counted in front.
std::string JobPrefix(absl::string_view job) {
  return absl::StrCat("manifest/", job.size(), ":", job, "/");
}
std::string KeyOf(absl::string_view job, LineageNumber lineage, Step step) {
  return absl::StrCat(JobPrefix(job),
                      absl::StrFormat("%016x/%016x", lineage.value(), step.value()));
}

absl::Status DeleteFile(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  return error ? FileError(error.value(), "delete", path.string()) : absl::OkStatus();
}

void DeleteFolderIfEmpty(const fs::path& folder) {
  std::error_code ignored;  // not empty, or gone already
  fs::remove(folder, ignored);
}

absl::Status DeleteFiles(const std::string& dir, const Manifest& manifest) {
  for (const Segment& segment : manifest.segments) {
    const fs::path path = fs::path(dir) / segment.file;
    MUSTER_RETURN_IF_ERROR(DeleteFile(path));
    if (path.parent_path() != fs::path(dir)) DeleteFolderIfEmpty(path.parent_path());
  }
  return absl::OkStatus();
}

using Place = std::pair<LineageNumber, Step>;

// What a folder that CheckpointFolder named is for; nothing for any other name.
std::optional<Place> PlaceOfFolder(const std::string& name) {
  absl::string_view rest = name;
  const size_t split = rest.find("-step-");
  int64_t lineage = 0;
  int64_t step = 0;
  if (!absl::ConsumePrefix(&rest, "lineage-") || split == absl::string_view::npos)
    return std::nullopt;
  if (!absl::SimpleAtoi(name.substr(8, split - 8), &lineage) ||
      !absl::SimpleAtoi(name.substr(split + 6), &step))
    return std::nullopt;
  if (CheckpointFolder(LineageNumber(lineage), Step(step)) != name) return std::nullopt;
  return Place(LineageNumber(lineage), Step(step));
}

bool IsSegmentFile(absl::string_view name) {
  absl::ConsumeSuffix(&name, kTemporarySuffix);
  return absl::EndsWith(name, kSegmentSuffix);
}

std::set<std::string> NamedFiles(const std::vector<Manifest>& manifests) {
  std::set<std::string> files;
  for (const Manifest& manifest : manifests) {
    for (const Segment& segment : manifest.segments) files.insert(segment.file);
  }
  return files;
}

// The entries of a directory; one that is not there has none.
absl::StatusOr<std::vector<fs::directory_entry>> EntriesOf(const fs::path& dir) {
  std::error_code error;
  std::vector<fs::directory_entry> entries;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error))
    entries.push_back(*it);
  if (error && error != std::errc::no_such_file_or_directory)
    return FileError(error.value(), "list directory", dir.string());
  return entries;
}

// A header that cannot be read is what a crash left amid writing.
bool IsOfAnotherCluster(const std::string& path, const std::string& cluster) {
  const absl::StatusOr<SegmentMeta> meta = ReadSegmentMeta(path);
  return meta.ok() && !cluster.empty() && !meta->cluster.empty() && meta->cluster != cluster;
}

absl::Status DeleteOrphansIn(const fs::path& folder, const std::set<std::string>& named,
                             const std::string& cluster) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<fs::directory_entry> files, EntriesOf(folder));
  for (const fs::directory_entry& file : files) {
    const std::string name = file.path().filename().string();
    if (!IsSegmentFile(name) || named.contains(folder.filename().string() + "/" + name)) continue;
    if (IsOfAnotherCluster(file.path().string(), cluster)) continue;
    MUSTER_RETURN_IF_ERROR(DeleteFile(file.path()));
  }
  DeleteFolderIfEmpty(folder);
  return absl::OkStatus();
}

}  // namespace

absl::Status Catalogue::Commit(const Manifest& manifest, bool replaces) {
  MUSTER_ASSIGN_OR_RETURN(const Layout layout, LayoutOf(manifest));
  MUSTER_RETURN_IF_ERROR(CheckComplete(manifest, layout, manifest.slots));
  const std::string key = KeyOf(manifest.job, manifest.lineage, manifest.step);
  const std::string value = EncodeManifest(manifest);
  const auto before = kv_.Get(kCatalogueFamily, key);
  if (before.ok()) {
    const auto known = DecodeManifest(*before);
    if (known.ok() && *known == manifest) return absl::OkStatus();
    if (known.ok() && !replaces)
      return absl::AlreadyExistsError(absl::StrCat(
          "job '", manifest.job, "': another checkpoint of ", Describe(manifest), " is committed"));
  } else if (!absl::IsNotFound(before.status())) {
    return before.status();
  }
  Batch batch;
  batch.Put(kCatalogueFamily, key, value);
  return kv_.Write(batch);
}

absl::StatusOr<Catalogue::Listing> Catalogue::List(const std::string& job) const {
  Listing listing;
  const std::string prefix = JobPrefix(job);
  MUSTER_RETURN_IF_ERROR(kv_.Scan(
      kCatalogueFamily, prefix, PrefixEnd(prefix),
      [&](absl::string_view key, absl::string_view value) {
        auto manifest = DecodeManifest(value);
        if (manifest.ok() && KeyOf(manifest->job, manifest->lineage, manifest->step) == key) {
          listing.manifests.push_back(*std::move(manifest));
        } else {
          listing.damaged.push_back(absl::StrCat(
              "catalogue entry '", key,
              "': ", manifest.ok() ? "holds another manifest" : manifest.status().message()));
        }
        return true;
      }));
  return listing;
}

absl::Status Catalogue::Remove(const std::string& job, LineageNumber lineage, Step step,
                               const std::string& dir) {
  const std::string key = KeyOf(job, lineage, step);
  const auto value = kv_.Get(kCatalogueFamily, key);
  if (absl::IsNotFound(value.status())) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(value.status());
  Batch batch;
  batch.Delete(kCatalogueFamily, key);
  MUSTER_RETURN_IF_ERROR(kv_.Write(batch));
  const auto manifest = DecodeManifest(*value);
  return manifest.ok() ? DeleteFiles(dir, *manifest)
                       : absl::OkStatus();  // unknown files are orphans from now on
}

absl::Status Catalogue::RemoveAll(const std::string& job, const std::string& dir) {
  Batch batch;
  const std::string prefix = JobPrefix(job);
  MUSTER_RETURN_IF_ERROR(kv_.Scan(kCatalogueFamily, prefix, PrefixEnd(prefix),
                                  [&](absl::string_view key, absl::string_view) {
                                    batch.Delete(kCatalogueFamily, key);
                                    return true;
                                  }));
  if (!batch.empty()) MUSTER_RETURN_IF_ERROR(kv_.Write(batch));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<fs::directory_entry> folders, EntriesOf(dir));
  for (const fs::directory_entry& folder : folders) {
    if (!PlaceOfFolder(folder.path().filename().string())) continue;
    MUSTER_RETURN_IF_ERROR(DeleteOrphansIn(folder.path(), /*named=*/{}, cluster_));
  }
  DeleteFolderIfEmpty(dir);
  return absl::OkStatus();
}

absl::Status Catalogue::Prune(const std::string& job, const Allowed& allowed, int32_t keep,
                              const std::string& dir) {
  if (keep < 1)
    return absl::InvalidArgumentError(absl::StrCat("keep: ", keep, " is out of range, at least 1"));
  MUSTER_ASSIGN_OR_RETURN(const Listing listing, List(job));
  std::vector<Manifest> candidates, removed;
  for (const Manifest& m : listing.manifests)
    (allowed(m.lineage, m.step) ? candidates : removed).push_back(m);
  const std::vector<bool> kept = Kept(candidates, static_cast<size_t>(keep));
  for (size_t i = 0; i < candidates.size(); ++i)
    if (!kept[i]) removed.push_back(candidates[i]);
  for (const Manifest& m : removed) MUSTER_RETURN_IF_ERROR(Remove(job, m.lineage, m.step, dir));
  return absl::OkStatus();
}

absl::Status Catalogue::RemoveOrphans(const std::string& dir, const std::string& job,
                                      LineageNumber lineage, Step step) {
  MUSTER_ASSIGN_OR_RETURN(const Listing listing, List(job));
  if (!listing.damaged.empty())
    return absl::DataLossError(
        absl::StrCat("orphans of '", dir, "' are kept: ", listing.damaged.front()));
  const std::set<std::string> named = NamedFiles(listing.manifests);
  MUSTER_ASSIGN_OR_RETURN(const std::vector<fs::directory_entry> folders, EntriesOf(dir));
  for (const fs::directory_entry& folder : folders) {
    const std::optional<Place> place = PlaceOfFolder(folder.path().filename().string());
    std::error_code gone;
    if (!place || *place >= Place(lineage, step) ||
        folder.symlink_status(gone).type() != fs::file_type::directory)
      continue;
    MUSTER_RETURN_IF_ERROR(DeleteOrphansIn(folder.path(), named, cluster_));
  }
  return absl::OkStatus();
}

}  // namespace muster
