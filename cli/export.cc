#include "cli/export.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/amount_text.h"
#include "lib/base/output_file.h"
#include "lib/base/status.h"
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

}  // namespace

absl::Status ExportCheckpoint(const ExportArguments& arguments, const CheckpointFinder& find,
                              std::ostream& out) {
  MUSTER_RETURN_IF_ERROR(CheckOutputFile(arguments.output));
  MUSTER_ASSIGN_OR_RETURN(const FoundCheckpoint found, find(arguments));
  const std::shared_ptr<const CheckpointFiles> files =
      found.files ? found.files : CheckpointFilesIn(found.folder);
  MUSTER_ASSIGN_OR_RETURN(const ManifestFile manifest_file,
                          ReadManifestFile(*files, found.manifest));
  const Manifest& manifest = manifest_file.manifest;
  Exported exported;
  MUSTER_RETURN_IF_ERROR(WriteOutputFileBy(arguments.output, [&](const std::string& path) {
    std::unique_ptr<ProgressLine> line;
    const auto progress = [&](uint64_t bytes, uint64_t of) {
      if (!line) line = std::make_unique<ProgressLine>(static_cast<double>(of), Bytes);
      line->At(static_cast<double>(bytes));
    };
    const absl::StatusOr<Exported> written = WriteFile(*files, manifest,
                                                       {.format = *ExportFormatOf(arguments.format),
                                                        .optimizer = arguments.optimizer,
                                                        .average = arguments.average,
                                                        .progress = progress},
                                                       path);
    if (written.ok()) exported = *written;
    return written.status();
  }));
  const WrittenExport told{manifest.job,     manifest.step.value(), arguments.format,
                           arguments.output, exported.tensors,      exported.bytes,
                           arguments.average};
  out << (arguments.json ? ExportAsJson(told) : ExportAsText(told));
  return absl::OkStatus();
}

absl::StatusOr<WorkerCommand> ExportCommand(const ExportArguments& arguments,
                                            const CheckpointFinder& find) {
  if (arguments.optimizer)
    return absl::InvalidArgumentError(
        "--optimizer: torch::load of a module takes none; take --format pt or safetensors");
  MUSTER_RETURN_IF_ERROR(CheckOutputFile(arguments.output));
  MUSTER_ASSIGN_OR_RETURN(const FoundCheckpoint found, find(arguments));
  WorkerCommand command = CommandWith("export", arguments, found);
  command.words.insert(command.words.end(), {"--output", arguments.output});
  if (arguments.json) command.words.push_back("--json");
  return command;
}

}  // namespace muster::cli
