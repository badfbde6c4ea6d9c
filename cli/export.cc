#include "cli/export.h"

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/cluster_folder.h"
#include "cli/saved_model.h"
#include "lib/base/amount_text.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
#include "lib/checkpoint/file_writer.h"
#include "lib/checkpoint/manifest_file.h"
#include "lib/export/export.h"
#include "lib/export/written_export.h"
#include "lib/launch/progress_line.h"
#include "lib/wire/job_codec.h"

namespace muster::cli {
namespace {

absl::StatusOr<Exported> WriteFile(const CheckpointFiles& files, const Manifest& manifest,
                                   const ExportOptions& options, const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(const JobSpec spec,
                          ParseStoredJob(manifest.spec, "the checkpoint's specification"));
  // Who exports reads the file soon.
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<FileWriter> file,
                          FileWriter::Create(path, FileWriter::PageCache::kThrough));
  MUSTER_ASSIGN_OR_RETURN(const Exported exported,
                          Export(files, manifest, spec.training, options, *file));
  MUSTER_RETURN_IF_ERROR(file->Finish());
  return exported;
}

// The file takes the place of what is there, which would end a device or a pipe.
absl::Status CheckOutput(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status there = std::filesystem::status(path, error);
  if (!std::filesystem::exists(there) || std::filesystem::is_regular_file(there))
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--output: '", path, "' is no file; name one"));
}

// Where a checkpoint is read from.
struct Source {
  std::unique_ptr<CheckpointFiles> files;
  ManifestFile manifest;
};

absl::StatusOr<Source> InFolder(const ExportArguments& arguments) {
  MUSTER_ASSIGN_OR_RETURN(const FoundCheckpoint found, FindCheckpoint(arguments));
  Source source{.files = CheckpointFilesIn(found.folder), .manifest = {}};
  MUSTER_ASSIGN_OR_RETURN(source.manifest, ReadManifestFile(*source.files, found.manifest));
  return source;
}

// A checkpoint that goes meanwhile is one that newer ones took the place of.
absl::Status WhyNotRead(const absl::Status& why, const ClusterFiles& files, const std::string& job,
                        const CheckpointPlace& place) {
  if (why.ok() || !files.missed()) return why;
  return absl::NotFoundError(absl::StrCat(
      "the checkpoint of step ", place.second.value(), " of job ", job,
      " is not there any more: it went while it was read, as newer ones came; export again, or "
      "keep more of them (checkpoint.keep of the job)"));
}

absl::Status ExportFrom(const Source& source, const ExportArguments& arguments, std::ostream& out) {
  const Manifest& manifest = source.manifest.manifest;
  Exported exported;
  MUSTER_RETURN_IF_ERROR(ReplaceFileBy(arguments.output, [&](const std::string& path) {
    std::unique_ptr<ProgressLine> line;
    const auto progress = [&](uint64_t bytes, uint64_t of) {
      if (!line) line = std::make_unique<ProgressLine>(static_cast<double>(of), Bytes);
      line->At(static_cast<double>(bytes));
    };
    const absl::StatusOr<Exported> written = WriteFile(*source.files, manifest,
                                                       {.format = *ExportFormatOf(arguments.format),
                                                        .optimizer = arguments.optimizer,
                                                        .progress = progress},
                                                       path);
    if (written.ok()) exported = *written;
    return written.status();
  }));
  const WrittenExport told{manifest.job,     manifest.step.value(), arguments.format,
                           arguments.output, exported.tensors,      exported.bytes};
  out << (arguments.json ? ExportAsJson(told) : ExportAsText(told));
  return absl::OkStatus();
}

}  // namespace

absl::Status ExportCheckpoint(const ExportArguments& arguments, std::ostream& out) {
  MUSTER_RETURN_IF_ERROR(CheckOutput(arguments.output));
  MUSTER_ASSIGN_OR_RETURN(const Source source, InFolder(arguments));
  return ExportFrom(source, arguments, out);
}

absl::Status ExportFromCluster(const ExportArguments& arguments, const RestClient& rest,
                               std::ostream& out, ClusterFilesPatience patience) {
  MUSTER_RETURN_IF_ERROR(CheckOutput(arguments.output));
  const std::string id = arguments.job.substr(0, arguments.job.find('@'));
  if (id.empty())
    return absl::InvalidArgumentError("say which job, as in muster export JOB --to HOST:PORT");
  MUSTER_RETURN_IF_ERROR(CheckJobId(id));
  MUSTER_ASSIGN_OR_RETURN(const JobAnswer job, rest.Job(id));
  std::vector<CheckpointPlace> places;
  for (const CheckpointAnswer& saved : job.saved)
    places.emplace_back(LineageNumber(saved.lineage), Step(saved.step));
  if (places.empty())
    return absl::NotFoundError(
        absl::StrCat("job ", id, " has no checkpoint", IsOver(job) ? "" : " yet"));
  std::unique_ptr<ClusterFiles> files = FilesOfCluster(rest, id, patience);
  MUSTER_ASSIGN_OR_RETURN(const CheckpointPlace place,
                          FindPlace(*files, places, absl::StrCat("job ", id), WhichOf(arguments)));
  files = FilesOfCluster(rest, id, patience);  // that has missed no name of one without
  const ClusterFiles& of_place = *files;
  absl::StatusOr<ManifestFile> manifest =
      ReadManifestFile(of_place, ManifestFileOf(place.first, place.second));
  if (!manifest.ok()) return WhyNotRead(manifest.status(), of_place, id, place);
  const Source source{std::move(files), *std::move(manifest)};
  return WhyNotRead(ExportFrom(source, arguments, out), of_place, id, place);
}

absl::StatusOr<WorkerCommand> ExportCommand(const ExportArguments& arguments) {
  if (arguments.remote.has_to)
    return absl::InvalidArgumentError(
        "--format libtorch is written by a worker, which reads folders of this machine: take "
        "--format pt or safetensors with --to");
  if (arguments.optimizer)
    return absl::InvalidArgumentError(
        "--optimizer: torch::load of a module takes none; take --format pt or safetensors");
  MUSTER_RETURN_IF_ERROR(CheckOutput(arguments.output));
  MUSTER_ASSIGN_OR_RETURN(const FoundCheckpoint found, FindCheckpoint(arguments));
  WorkerCommand command{{"export", "--checkpoints", found.folder, "--manifest", found.manifest,
                         "--output", arguments.output},
                        ""};
  if (arguments.json) command.words.push_back("--json");
  return command;
}

}  // namespace muster::cli
