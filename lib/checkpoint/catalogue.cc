#include "lib/checkpoint/catalogue.h"

#include <optional>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
#include "lib/checkpoint/kept_name.h"
#include "lib/checkpoint/manifest_file.h"
#include "lib/checkpoint/measure_file.h"
#include "lib/checkpoint/segment.h"
#include "lib/checkpoint/survey.h"
#include "lib/wire/manifest_codec.h"

namespace muster {
namespace {

// "manifest/JOB/LINEAGE/STEP", the numbers as 16 hexadecimal digits, so that keys ascend as
// (lineage, step) do. A job's id with '/' in it would share its prefix with another's: its bytes
// are counted in front.
constexpr absl::string_view kKeys = "manifest/";

std::string JobPrefix(absl::string_view job) {
  return absl::StrCat(kKeys, job.size(), ":", job, "/");
}
// Nothing: the key is none of ours.
std::optional<absl::string_view> JobIn(absl::string_view key) {
  const size_t colon = key.find(':');
  size_t bytes = 0;
  if (!absl::ConsumePrefix(&key, kKeys) || colon == absl::string_view::npos ||
      !absl::SimpleAtoi(key.substr(0, colon - kKeys.size()), &bytes))
    return std::nullopt;
  const absl::string_view rest = key.substr(colon - kKeys.size() + 1);
  if (bytes >= rest.size() || rest[bytes] != '/') return std::nullopt;
  return rest.substr(0, bytes);
}
std::string KeyOf(absl::string_view job, LineageNumber lineage, Step step) {
  return absl::StrCat(JobPrefix(job),
                      absl::StrFormat("%016x/%016x", lineage.value(), step.value()));
}

// "unfinished/JOB", without a value.
constexpr absl::string_view kUnfinished = "unfinished/";
std::string UnfinishedKey(absl::string_view job) { return absl::StrCat(kUnfinished, job); }

// Empty: the job's own.
std::string FolderOf(const std::string& file) {
  const size_t slash = file.rfind('/');
  return slash == std::string::npos ? "" : file.substr(0, slash);
}

absl::StatusOr<std::string> ClusterOf(const CheckpointFiles& files, const std::string& file) {
  absl::string_view name = file;
  absl::ConsumeSuffix(&name, kTemporarySuffix);
  if (name == kManifestFile || absl::EndsWith(name, absl::StrCat("/", kManifestFile)))
    return ReadManifestCluster(files, file);
  if (absl::EndsWith(name, absl::StrCat("/", kKeptFile)) ||
      absl::EndsWith(name, absl::StrCat("/", kGoingFile)) ||
      absl::EndsWith(name, absl::StrCat("/", kMeasureFile)))
    return ReadManifestCluster(files, absl::StrCat(FolderOf(file), "/", kManifestFile));
  MUSTER_ASSIGN_OR_RETURN(SegmentMeta meta, ReadSegmentMeta(files, file));
  return std::move(meta.cluster);
}

// A file without a header is what a crash left amid writing; one that we may not read is none that
// we made. What cannot be read just now may be anybody's: kUnavailable.
absl::StatusOr<bool> IsOfAnotherCluster(const CheckpointFiles& files, const std::string& file,
                                        const std::string& cluster) {
  if (cluster.empty()) return false;
  const absl::StatusOr<std::string> whose = ClusterOf(files, file);
  if (absl::IsUnavailable(whose.status())) return whose.status();
  if (!whose.ok()) return absl::IsPermissionDenied(whose.status());
  return !whose->empty() && *whose != cluster;
}

// The manifest's own file goes first: none is left beside segments that are gone.
absl::Status DeleteFiles(CheckpointFiles& files, const Manifest& manifest,
                         const std::string& cluster) {
  const std::string own = ManifestFileOf(manifest.lineage, manifest.step);
  MUSTER_ASSIGN_OR_RETURN(const bool is_theirs, IsOfAnotherCluster(files, own, cluster));
  if (!is_theirs) {
    MUSTER_RETURN_IF_ERROR(files.Remove(own));
    MUSTER_RETURN_IF_ERROR(files.Remove(KeptFileOf(manifest.lineage, manifest.step)));
    MUSTER_RETURN_IF_ERROR(files.Remove(MeasureFileOf(manifest.lineage, manifest.step)));
  }
  MUSTER_RETURN_IF_ERROR(files.Remove(GoingFileOf(manifest.lineage, manifest.step)));
  files.RemoveFolder(FolderOf(own));
  for (const Segment& segment : manifest.segments) {
    MUSTER_RETURN_IF_ERROR(files.Remove(segment.file));
    if (const std::string folder = FolderOf(segment.file); !folder.empty())
      files.RemoveFolder(folder);
  }
  return absl::OkStatus();
}

using Place = std::pair<LineageNumber, Step>;

std::set<std::string> NamedFiles(const std::vector<Manifest>& manifests) {
  std::set<std::string> files;
  for (const Manifest& manifest : manifests) {
    files.insert(ManifestFileOf(manifest.lineage, manifest.step));
    files.insert(KeptFileOf(manifest.lineage, manifest.step));
    files.insert(GoingFileOf(manifest.lineage, manifest.step));
    files.insert(MeasureFileOf(manifest.lineage, manifest.step));
    for (const Segment& segment : manifest.segments) files.insert(segment.file);
  }
  return files;
}

// Of a folder; one that is not there has none.
absl::StatusOr<std::vector<std::string>> FilesIn(const CheckpointFiles& files,
                                                 const std::string& folder) {
  std::vector<std::string> found;
  const absl::Status listed = files.List(folder, [&](const CheckpointFiles::Entry& entry) {
    if (IsCheckpointFile(entry.name)) found.push_back(absl::StrCat(folder, "/", entry.name));
    return true;
  });
  if (!listed.ok() && !absl::IsNotFound(listed)) return listed;
  return found;
}

// `unseen`: why a file stays that could not be looked at. Others go all the same.
absl::Status DeleteOrphansIn(CheckpointFiles& files, const std::string& folder,
                             const std::set<std::string>& named, const std::string& cluster,
                             absl::Status& unseen) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> found, FilesIn(files, folder));
  for (const std::string& file : found) {
    if (named.contains(file)) continue;
    const absl::StatusOr<bool> is_theirs = IsOfAnotherCluster(files, file, cluster);
    unseen.Update(is_theirs.status());
    if (is_theirs.ok() && !*is_theirs) MUSTER_RETURN_IF_ERROR(files.Remove(file));
  }
  files.RemoveFolder(folder);
  return absl::OkStatus();
}

// Those before `end`; not what lies behind a link, wherever that leads.
absl::StatusOr<std::vector<std::string>> FoldersBefore(const CheckpointFiles& files,
                                                       const std::optional<Place>& end) {
  std::vector<std::string> folders;
  const absl::Status listed = files.List("", [&](const CheckpointFiles::Entry& entry) {
    const std::optional<Place> place = PlaceOfFolder(entry.name);
    if (entry.is_folder && place && (!end || *place < *end)) folders.push_back(entry.name);
    return true;
  });
  if (!listed.ok() && !absl::IsNotFound(listed)) return listed;
  return folders;
}

}  // namespace

absl::StatusOr<bool> Catalogue::CheckCommit(const Manifest& manifest, bool replaces) const {
  MUSTER_ASSIGN_OR_RETURN(const Layout layout, LayoutOf(manifest));
  MUSTER_RETURN_IF_ERROR(CheckComplete(manifest, layout, manifest.slots));
  const auto before =
      kv_.Get(kCatalogueFamily, KeyOf(manifest.job, manifest.lineage, manifest.step));
  if (absl::IsNotFound(before.status())) return true;
  MUSTER_RETURN_IF_ERROR(before.status());
  const auto known = DecodeManifest(*before);
  if (known.ok() && *known == manifest) return false;
  if (known.ok() && !replaces)
    return absl::AlreadyExistsError(absl::StrCat("job '", manifest.job, "': another checkpoint of ",
                                                 Describe(manifest), " is committed"));
  return true;
}

absl::Status Catalogue::Commit(const Manifest& manifest, bool replaces) {
  MUSTER_ASSIGN_OR_RETURN(const bool is_new, CheckCommit(manifest, replaces));
  if (!is_new) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(may_change_());
  Batch batch;
  batch.Put(kCatalogueFamily, KeyOf(manifest.job, manifest.lineage, manifest.step),
            EncodeManifest(manifest));
  batch.Delete(kCatalogueFamily, UnfinishedKey(manifest.job));
  return kv_.Write(batch);
}

absl::Status Catalogue::Begin(const std::string& job) {
  MUSTER_RETURN_IF_ERROR(may_change_());
  Batch batch;
  batch.Put(kCatalogueFamily, UnfinishedKey(job), "");
  return kv_.Write(batch);
}

absl::StatusOr<std::set<std::string>> Catalogue::Unfinished() const {
  std::set<std::string> jobs;
  MUSTER_RETURN_IF_ERROR(kv_.Scan(kCatalogueFamily, kUnfinished, PrefixEnd(kUnfinished),
                                  [&](absl::string_view key, absl::string_view) {
                                    jobs.emplace(key.substr(kUnfinished.size()));
                                    return true;
                                  }));
  return jobs;
}

absl::StatusOr<std::set<std::string>> Catalogue::Jobs() const {
  std::set<std::string> jobs;
  MUSTER_RETURN_IF_ERROR(kv_.Scan(kCatalogueFamily, kKeys, PrefixEnd(kKeys),
                                  [&](absl::string_view key, absl::string_view) {
                                    if (const auto job = JobIn(key)) jobs.emplace(*job);
                                    return true;
                                  }));
  return jobs;
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

absl::StatusOr<bool> Catalogue::Has(const std::string& job, LineageNumber lineage,
                                    Step step) const {
  const absl::Status found = kv_.Get(kCatalogueFamily, KeyOf(job, lineage, step)).status();
  if (absl::IsNotFound(found)) return false;
  if (!found.ok()) return found;
  return true;
}

absl::Status Catalogue::Remove(const std::string& job, LineageNumber lineage, Step step,
                               CheckpointFiles& files) {
  const std::string key = KeyOf(job, lineage, step);
  const auto value = kv_.Get(kCatalogueFamily, key);
  if (absl::IsNotFound(value.status())) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(value.status());
  MUSTER_RETURN_IF_ERROR(may_change_());
  Batch batch;
  batch.Delete(kCatalogueFamily, key);
  MUSTER_RETURN_IF_ERROR(kv_.Write(batch));
  const auto manifest = DecodeManifest(*value);
  return manifest.ok() ? DeleteFiles(files, *manifest, cluster_)
                       : absl::OkStatus();  // unknown files are orphans from now on
}

absl::StatusOr<bool> Catalogue::RemoveUnnamed(const std::string& job, LineageNumber lineage,
                                              Step step, CheckpointFiles& files) {
  MUSTER_ASSIGN_OR_RETURN(const bool is_there, Has(job, lineage, step));
  if (!is_there) return true;  // nothing is written where it was
  MUSTER_ASSIGN_OR_RETURN(const bool has_name, IsKept(files, lineage, step));
  if (has_name) return false;
  MUSTER_RETURN_IF_ERROR(may_change_());
  MUSTER_ASSIGN_OR_RETURN(const bool may_go, MayGoUnnamed(files, lineage, step));
  if (!may_go) return false;
  MUSTER_RETURN_IF_ERROR(Remove(job, lineage, step, files));
  return true;
}

absl::Status Catalogue::RemoveAll(const std::string& job, CheckpointFiles& files) {
  Batch batch;
  const std::string prefix = JobPrefix(job);
  MUSTER_RETURN_IF_ERROR(kv_.Scan(kCatalogueFamily, prefix, PrefixEnd(prefix),
                                  [&](absl::string_view key, absl::string_view) {
                                    batch.Delete(kCatalogueFamily, key);
                                    return true;
                                  }));
  MUSTER_RETURN_IF_ERROR(may_change_());
  if (!batch.empty()) {
    // Once no manifest names the job, this tells a later start of the files that a crash leaves.
    batch.Put(kCatalogueFamily, UnfinishedKey(job), "");
    MUSTER_RETURN_IF_ERROR(kv_.Write(batch));
  }
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> folders,
                          FoldersBefore(files, std::nullopt));
  MUSTER_RETURN_IF_ERROR(DeleteOrphans(files, folders, /*named=*/{}));
  files.RemoveFolder("");
  if (!kv_.Get(kCatalogueFamily, UnfinishedKey(job)).ok()) return absl::OkStatus();
  Batch done;
  done.Delete(kCatalogueFamily, UnfinishedKey(job));
  kv_.Write(done).IgnoreError();  // where it stays, a later start finds nothing to remove
  return absl::OkStatus();
}

absl::Status Catalogue::Prune(const std::string& job, const Allowed& allowed, const KeepRule& rule,
                              CheckpointFiles& files, const BestRule& best) {
  if (rule.last < 1)
    return absl::InvalidArgumentError(
        absl::StrCat("keep: ", rule.last, " is out of range, at least 1"));
  MUSTER_ASSIGN_OR_RETURN(const Listing listing, List(job));
  std::vector<Manifest> candidates, removed;
  for (const Manifest& m : listing.manifests)
    (allowed(m.lineage, m.step) ? candidates : removed).push_back(m);
  std::vector<bool> kept = Kept(candidates, rule);
  MUSTER_ASSIGN_OR_RETURN(const BestFound found, FindBest(files, candidates, best));
  if (found.best) kept[*found.best] = true;
  absl::Status unread;
  for (const size_t i : found.unread) {
    if (!kept[i]) unread = found.why;
    kept[i] = true;
  }
  for (size_t i = 0; i < candidates.size(); ++i)
    if (!kept[i]) removed.push_back(candidates[i]);
  for (const Manifest& m : removed)
    MUSTER_RETURN_IF_ERROR(RemoveUnnamed(job, m.lineage, m.step, files).status());
  return unread;
}

absl::Status Catalogue::RemoveOrphans(CheckpointFiles& files, const std::string& job,
                                      LineageNumber lineage, Step step) {
  MUSTER_ASSIGN_OR_RETURN(const Listing listing, List(job));
  if (!listing.damaged.empty())
    return absl::DataLossError(
        absl::StrCat("orphans of '", files.PathOf(""), "' are kept: ", listing.damaged.front()));
  const std::set<std::string> named = NamedFiles(listing.manifests);
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> folders,
                          FoldersBefore(files, Place(lineage, step)));
  return DeleteOrphans(files, folders, named);
}

absl::Status Catalogue::DeleteOrphans(CheckpointFiles& files,
                                      const std::vector<std::string>& folders,
                                      const std::set<std::string>& named) const {
  absl::Status unseen;
  for (const std::string& folder : folders) {
    MUSTER_RETURN_IF_ERROR(may_change_());
    MUSTER_RETURN_IF_ERROR(DeleteOrphansIn(files, folder, named, cluster_, unseen));
  }
  return unseen;
}

}  // namespace muster
