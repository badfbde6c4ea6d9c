#include "coordinator/runtime/adoption.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "coordinator/runtime/checkpoint_root.h"
#include "coordinator/runtime/checkpoints.h"
#include "coordinator/runtime/parts_copy.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/checkpoint/load.h"
#include "lib/checkpoint/segment.h"
#include "lib/domain/fork.h"
#include "lib/domain/grid.h"
#include "lib/domain/job_id.h"
#include "lib/domain/validation.h"
#include "lib/wire/job_codec.h"

namespace muster::coordinator {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostCandidates = 16;
constexpr size_t kMostSpecBytes = size_t{16} << 20;  // as JSON; a request has 2 MiB
// Of an adopted job: all steps that it does here are of later ones.
constexpr LineageNumber kAdoptedLineage{1};

absl::Status NoneThere(const std::string& folder) {
  return absl::NotFoundError(
      absl::StrCat(folder, " holds no manifest of a checkpoint (lineage-L-step-S/", kManifestFile,
                   "): name the folder of one job's checkpoints, as CHECKPOINTS/JOB"));
}

absl::Status NotReadable(const std::string& path) {
  return absl::PermissionDeniedError(absl::StrCat(
      "'", path, "' may not be read by the coordinator's user: let it, and adopt again"));
}

using Place = CheckpointPlace;

absl::Status Unusable(const std::string& path, absl::string_view why) {
  return absl::DataLossError(absl::StrCat("'", path, "': ", why));
}

// The specification as this cluster takes it: it goes on from what is adopted, whatever it was
// told to go on from there.
absl::StatusOr<JobSpec> SpecOf(const Manifest& manifest) {
  if (manifest.spec.size() > kMostSpecBytes)
    return absl::DataLossError(absl::StrCat("its specification has ", manifest.spec.size(),
                                            " bytes, and a job's has ", kMostSpecBytes));
  MUSTER_ASSIGN_OR_RETURN(JobSpec spec, ParseJobJson(manifest.spec, "its specification"));
  spec.runtime.resume = Resume{};
  return spec;
}

absl::Status CheckUsable(const std::string& path, const ManifestFile& file) {
  const Manifest& manifest = file.manifest;
  const absl::StatusOr<JobSpec> spec = SpecOf(manifest);
  if (!spec.ok()) return Unusable(path, spec.status().message());
  const TrainingSpec& training = spec->training;
  if (IsStreamed(training))
    return absl::FailedPreconditionError(absl::StrCat(
        "'", path,
        "': its data is a stream, and what came of it only its own cluster knows; bring "
        "that cluster's folder back, or submit another job"));
  const absl::StatusOr<Layout> layout = LayoutOf(manifest);
  if (!layout.ok()) return Unusable(path, layout.status().message());
  const absl::Status complete = CheckComplete(manifest, *layout, SlotCount(training));
  if (!complete.ok()) return Unusable(path, complete.message());
  const bool is_of_job =
      manifest.tensors == file.environment.tensors && manifest.chunk_bytes == ChunkBytes(training);
  if (!is_of_job) return Unusable(path, "its tensors are not those of its job");
  const bool has_step = IsSampleCount(file.environment.samples) &&
                        (manifest.step > Step(0) || IsFork(training)) &&
                        manifest.step <= Step(TotalSteps(training, file.environment.samples));
  if (!has_step)
    return Unusable(path, absl::StrCat("step ", manifest.step.value(), " is none of its job"));
  if (!MayPend(manifest.pending, training, file.environment.samples, manifest.tensors,
               manifest.step))
    return Unusable(path, "it does not say what a follower measured, as its step needs it");
  return absl::OkStatus();
}

absl::StatusOr<ManifestFile> ReadUsable(const CheckpointFiles& files, const Place& place) {
  const std::string name = ManifestFileOf(place.first, place.second);
  absl::StatusOr<ManifestFile> file = ReadManifestFile(files, name);
  if (absl::IsPermissionDenied(file.status())) return NotReadable(files.PathOf(name));
  MUSTER_RETURN_IF_ERROR(file.status());
  MUSTER_RETURN_IF_ERROR(CheckUsable(files.PathOf(name), *file));
  return file;
}

// That checkpoint is lost, and an older one may do. Any other error is no word about it.
bool IsLost(const absl::Status& why) { return absl::IsDataLoss(why) || absl::IsNotFound(why); }

void PassOver(const absl::Status& why, std::vector<std::string>& passed_over) {
  passed_over.push_back(Cut(std::string(why.message())));
}

uint64_t BytesOf(const Manifest& manifest) {
  uint64_t bytes = 0;
  for (const Segment& segment : manifest.segments)
    for (const SegmentEntry& entry : segment.entries) bytes += entry.bytes;
  return bytes;
}

absl::Status CopyParts(const CheckpointFiles& files, const Manifest& from, PartsCopy& copy,
                       const CopyProgress& progress, const std::stop_token& stop) {
  const uint64_t of_bytes = BytesOf(from);
  uint64_t bytes = 0;
  progress(bytes, of_bytes);
  for (const Segment& segment : from.segments) {
    const absl::StatusOr<SegmentReader> reader =
        SegmentReader::Open(files, segment, {from.job, from.lineage, from.step});
    if (absl::IsPermissionDenied(reader.status())) return NotReadable(files.PathOf(segment.file));
    MUSTER_RETURN_IF_ERROR(reader.status());
    copy.finite = segment.finite;
    for (const SegmentEntry& entry : segment.entries) {
      if (stop.stop_requested()) return absl::CancelledError("the adoption was stopped");
      std::vector<float> values(entry.bytes / sizeof(float));
      MUSTER_RETURN_IF_ERROR(reader->Read(entry, absl::MakeSpan(values)));
      MUSTER_RETURN_IF_ERROR(copy.Add(entry.slot, entry.chunk, std::move(values)));
      progress(bytes += entry.bytes, of_bytes);
    }
    MUSTER_RETURN_IF_ERROR(copy.Write());
  }
  return absl::OkStatus();
}

// The checkpoints of all jobs lie in one folder, whose claim tells whether its cluster lives.
absl::Status CheckItsClusterIsGone(const std::string& folder, const std::string& cluster) {
  std::error_code error;
  const fs::path real = fs::canonical(folder, error);
  if (error) return absl::OkStatus();  // whoever lists it says what is wrong
  return CheckNobodyLives(real.parent_path().string(), cluster);
}

struct Target {
  Catalogue& catalogue;
  const std::string& cluster;
  const AdoptionPlan& plan;
  CheckpointFiles& to;
};

absl::StatusOr<Adopt> CopyOne(const CheckpointFiles& files, const ManifestFile& file,
                              const Target& target, const CopyProgress& progress,
                              const std::stop_token& stop) {
  const auto& [catalogue, cluster, plan, to] = target;
  const Manifest& from = file.manifest;
  MUSTER_ASSIGN_OR_RETURN(JobSpec spec, SpecOf(from));
  const std::string cause =
      absl::StrCat("adopted from cluster ", file.cluster, ", job ", from.job, ", ", Describe(from));
  ManifestFile own{cluster, from, file.environment, {{kAdoptedLineage, {}, from.step, cause}}};
  own.manifest.job = plan.id;
  own.manifest.lineage = kAdoptedLineage;
  own.manifest.spec = ToJson(spec);
  PartsCopy copy(to, {plan.id, kAdoptedLineage, from.step, cluster}, "adopted");
  // Before the first byte, so that a start finds what we leave if we are killed.
  MUSTER_RETURN_IF_ERROR(catalogue.Begin(plan.id));
  absl::Status copied = to.MakeFolder();
  if (copied.ok()) copied = CopyParts(files, from, copy, progress, stop);
  if (copied.ok()) copied = CheckItsClusterIsGone(plan.folder, cluster);
  if (!copied.ok()) {
    copy.Drop();
    return copied;
  }
  own.manifest.segments = copy.Release();
  const int64_t now = absl::ToUnixSeconds(absl::Now());
  absl::StatusOr<Manifest> committed = CommitCheckpoint(catalogue, own, to, false, now);
  if (!committed.ok()) {
    // Where another coordinator has taken our place, nothing is deleted any more.
    const absl::Status dropped = catalogue.RemoveAll(plan.id, to);
    return dropped.ok() ? committed.status() : dropped;
  }
  return Adopt{plan.id, std::move(spec), *std::move(committed), file.environment, cause};
}

}  // namespace

absl::StatusOr<AdoptionPlan> PlanAdoption(const AdoptionSource& source, const std::string& cluster,
                                          const std::string& root) {
  MUSTER_RETURN_IF_ERROR(CheckItsClusterIsGone(source.folder, cluster));
  const std::unique_ptr<CheckpointFiles> files = CheckpointFilesIn(source.folder);
  absl::StatusOr<std::vector<Place>> found = CheckpointPlacesIn(*files);
  if (absl::IsPermissionDenied(found.status())) return NotReadable(files->PathOf(""));
  MUSTER_RETURN_IF_ERROR(found.status());
  std::vector<Place> places = *std::move(found);
  if (places.empty()) return NoneThere(source.folder);
  std::sort(places.begin(), places.end(), std::greater<>());
  if (places.size() > kMostCandidates) places.resize(kMostCandidates);
  AdoptionPlan plan{.folder = source.folder};
  absl::Status wrong;
  for (size_t i = 0; i < places.size(); ++i) {
    const absl::StatusOr<ManifestFile> file = ReadUsable(*files, places[i]);
    if (IsLost(file.status())) {
      if (wrong.ok()) wrong = file.status();
      PassOver(file.status(), plan.passed_over);
      continue;
    }
    MUSTER_RETURN_IF_ERROR(file.status());
    plan.cluster = file->cluster;
    plan.job = file->manifest.job;
    plan.id = source.id.empty() ? plan.job : source.id;
    MUSTER_ASSIGN_OR_RETURN(plan.spec, SpecOf(file->manifest));
    // Before anything is removed there.
    std::error_code error;
    if (fs::equivalent(plan.folder, CheckpointDir(root, plan.id), error))
      return absl::FailedPreconditionError(absl::StrCat(
          plan.folder, " is where this cluster would keep the job itself: move it elsewhere, ",
          "or name another id"));
    plan.places.assign(places.begin() + static_cast<std::ptrdiff_t>(i), places.end());
    return plan;
  }
  return wrong;
}

absl::StatusOr<AdoptedCopy> CopyAdopted(const AdoptionPlan& plan, Catalogue catalogue,
                                        const std::string& cluster, CheckpointFiles& to,
                                        const CopyProgress& progress, const std::stop_token& stop) {
  // What an earlier adoption left: there is no job of that id.
  MUSTER_RETURN_IF_ERROR(catalogue.RemoveAll(plan.id, to));
  const Target target{catalogue, cluster, plan, to};
  const std::unique_ptr<CheckpointFiles> files = CheckpointFilesIn(plan.folder);
  AdoptedCopy result{.adopt = {}, .passed_over = plan.passed_over};
  absl::Status wrong;
  for (const Place& place : plan.places) {
    // One folder holds one job's; what is not of it is told by its header where that is enough.
    const absl::StatusOr<std::string> whose =
        ReadManifestCluster(*files, ManifestFileOf(place.first, place.second));
    if (whose.ok() && *whose != plan.cluster) continue;
    const absl::StatusOr<ManifestFile> file = ReadUsable(*files, place);
    if (file.ok() && (file->cluster != plan.cluster || file->manifest.job != plan.job)) continue;
    absl::StatusOr<Adopt> adopted = file.ok() ? CopyOne(*files, *file, target, progress, stop)
                                              : absl::StatusOr<Adopt>(file.status());
    if (adopted.ok()) {
      result.adopt = *std::move(adopted);
      return result;
    }
    if (!IsLost(adopted.status())) return adopted.status();
    if (wrong.ok()) wrong = adopted.status();
    PassOver(adopted.status(), result.passed_over);
  }
  return absl::DataLossError(absl::StrCat("no checkpoint in ", plan.folder, " is whole: ",
                                          wrong.message(), "; bring back a copy of it"));
}

}  // namespace muster::coordinator
