#include "cli/export.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "cli/json_text.h"
#include "cli/saved_model.h"
#include "lib/base/amount_text.h"
#include "lib/base/plural.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
#include "lib/checkpoint/file_writer.h"
#include "lib/checkpoint/manifest_file.h"
#include "lib/export/export.h"
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

void Tell(const ExportArguments& arguments, const Manifest& manifest, const Exported& exported,
          std::ostream& out) {
  if (arguments.json) {
    out << Text(nlohmann::ordered_json{{"job", manifest.job},
                                       {"step", manifest.step.value()},
                                       {"format", arguments.format},
                                       {"file", arguments.output},
                                       {"tensors", exported.tensors},
                                       {"bytes", exported.bytes}})
        << "\n";
    return;
  }
  out << PrintableLines(absl::StrCat(arguments.output, ": ",
                                     Plural(static_cast<int64_t>(exported.tensors), "tensor"), ", ",
                                     Bytes(static_cast<double>(exported.bytes)), ", of job ",
                                     manifest.job, " at step ", manifest.step.value(), "\n"));
}

// The file takes the place of what is there, which would end a device or a pipe.
absl::Status CheckOutput(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status there = std::filesystem::status(path, error);
  if (!std::filesystem::exists(there) || std::filesystem::is_regular_file(there))
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--output: '", path, "' is no file; name one"));
}

}  // namespace

absl::Status ExportCheckpoint(const ExportArguments& arguments, std::ostream& out) {
  MUSTER_RETURN_IF_ERROR(CheckOutput(arguments.output));
  MUSTER_ASSIGN_OR_RETURN(const FoundCheckpoint found, FindCheckpoint(arguments));
  const std::unique_ptr<CheckpointFiles> files = CheckpointFilesIn(found.folder);
  MUSTER_ASSIGN_OR_RETURN(const ManifestFile file, ReadManifestFile(*files, found.manifest));
  const std::string temporary = arguments.output + kTemporarySuffix;
  absl::StatusOr<Exported> exported;
  {
    std::unique_ptr<ProgressLine> line;
    const auto progress = [&](uint64_t bytes, uint64_t of) {
      if (!line) line = std::make_unique<ProgressLine>(static_cast<double>(of), Bytes);
      line->At(static_cast<double>(bytes));
    };
    exported = WriteFile(*files, file.manifest,
                         {.format = *ExportFormatOf(arguments.format),
                          .optimizer = arguments.optimizer,
                          .progress = progress},
                         temporary);
  }
  if (!exported.ok()) {
    std::remove(temporary.c_str());
    return exported.status();
  }
  MUSTER_RETURN_IF_ERROR(MoveIntoPlace(temporary, arguments.output));
  Tell(arguments, file.manifest, *exported, out);
  return absl::OkStatus();
}

absl::StatusOr<WorkerCommand> ExportCommand(const ExportArguments& arguments) {
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
