#include "worker/commands/commands.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/amount_text.h"
#include "lib/base/descriptor.h"
#include "lib/base/exit_codes.h"
#include "lib/base/memory_cgroup.h"
#include "lib/base/output_file.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/checkpoint/served_files.h"
#include "lib/data/hash_listener.h"
#include "lib/data/kept_hash.h"
#include "lib/domain/validation.h"
#include "lib/export/written_export.h"
#include "lib/kernels/float_env.h"
#include "lib/launch/command_line.h"
#include "lib/launch/last_word.h"
#include "lib/launch/progress_line.h"
#include "lib/launch/standard_output.h"
#include "lib/task/registry.h"
#include "lib/wire/job_codec.h"
#include "worker/commands/check.h"
#include "worker/commands/check_text.h"
#include "worker/commands/check_watch.h"
#include "worker/commands/convert.h"
#include "worker/commands/data.h"
#include "worker/commands/data_text.h"
#include "worker/commands/evaluate.h"
#include "worker/commands/evaluate_text.h"
#include "worker/commands/growing_text.h"
#include "worker/commands/memory_of_process.h"
#include "worker/commands/preparing_line.h"
#include "worker/commands/saved_model.h"
#include "worker/commands/task_text.h"
#include "worker/plugins/make_any_task.h"
#include "worker/plugins/plugin_folder.h"
#include "worker/tasks/layer_list.h"
#include "worker/torch/libtorch_archive.h"

namespace muster::worker {
namespace {

constexpr char kTasks[] = "tasks";
constexpr char kCheck[] = "check";
constexpr char kInspectData[] = "data-inspect";
constexpr char kHashData[] = "data-hash";
constexpr char kConvertData[] = "data-convert";
constexpr char kEvaluate[] = "evaluate";
constexpr char kGenerate[] = "generate";
constexpr char kExport[] = "export";
constexpr size_t kMostSpecBytes = size_t{4} << 20;
constexpr int kMostEntries = 100'000;
constexpr int kMostShardMib = 1 << 20;

struct Words {
  std::string task;  // empty: all
  std::vector<std::string> plugin_folders;
  int gradients = 0;
  SavedModelPlace place;  // its folders of plug-ins are those above
  int files = -1;         // an open socket on which those of `place` are served; -1: it is a folder
  std::string prompt;
  uint64_t bytes = 0;
  uint64_t seed = 0;
  std::string output;      // a file, or a folder
  std::string format;      // of it; empty: its name says it
  uint64_t shard_mib = 0;  // 0: as ConvertOptions has it
  bool json = false;
  LastWord last_word;
};

// For whoever has started this, whatever becomes of it.
auto TellsItsCode(const Words& words) {
  return [&words](const std::string& what) { words.last_word.Runs(what); };
}

// What a task prepares is told on a line.
Preparing PreparingFor(const Words& words, PreparingLine& line) {
  Preparing preparing = line.TellsThis();
  preparing.enters = TellsItsCode(words);
  return preparing;
}

// A checkpoint that is not there is a wrong word of whoever asked.
int ExitCodeOfModel(const absl::Status& status) {
  return absl::IsNotFound(status) ? kExitBadConfiguration : ExitCodeOfTask(status);
}

// What a task throws in a lane is the model's fault, where no other worker could do better; so is
// one that does not fit into memory.
int ExitCodeOfCheck(const absl::Status& status) {
  return absl::IsInternal(status) || absl::IsResourceExhausted(status) ? kExitBadConfiguration
                                                                       : ExitCodeOfModel(status);
}

// A task that is part of Muster prepares nothing: what it lacks is memory, and no room on a disk.
int ExitCodeOfMaking(const TrainingSpec& training, const absl::Status& status) {
  const bool is_memory = absl::IsResourceExhausted(status) && FindTask(training.task) != nullptr;
  return is_memory ? kExitBadConfiguration : ExitCodeOfModel(status);
}

int Refuse(const char* command, const absl::Status& why, int code) {
  std::cerr << "muster " << command << ": " << PrintableLines(why.message()) << std::endl;
  return code;
}

int TellTasks(const Words& words, std::ostream& out) {
  std::vector<ListedTask> tasks;
  for (const TaskInfo& info : Tasks())
    tasks.push_back(
        {info, "", info.name == "layers" ? LayersThereAre() : std::vector<LayerHelp>()});
  const absl::StatusOr<FoundPlugins> found = LoadPlugins(
      words.plugin_folders, [&](const std::string& what) { words.last_word.Runs(what); });
  if (!found.ok()) return Refuse(kTasks, found.status(), kExitBadConfiguration);
  for (const PluginTask& task : found->tasks) tasks.push_back({task.type.info, task.file});
  for (const std::string& refused : found->refused)
    std::cerr << "muster tasks: " << PrintableLines(refused) << std::endl;
  if (!words.task.empty()) {
    std::erase_if(tasks, [&](const ListedTask& task) { return task.info.name != words.task; });
    if (tasks.empty())
      return Refuse(kTasks,
                    absl::NotFoundError(absl::StrCat("there is no task '", words.task,
                                                     "'; `muster tasks` shows those there are")),
                    kExitBadConfiguration);
  }
  if (words.json) {
    out << PrintableJson(TasksAsJson(tasks));
  } else {
    out << (words.task.empty() ? TasksAsText(tasks) : TaskAsText(tasks.front()));
  }
  return found->refused.empty() ? kExitDone : kExitBadConfiguration;
}

// What `muster` says there is not the input of whoever has typed /dev/stdin for a file of data.
void CloseInput() {
  const Descriptor nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (nothing.is_open()) dup2(nothing.get(), STDIN_FILENO);
}

absl::StatusOr<JobSpec> SpecOnInput() {
  const absl::Cleanup close = CloseInput;
  std::string text(kMostSpecBytes + 1, '\0');
  std::cin.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::cin.gcount()));
  if (text.size() > kMostSpecBytes)
    return absl::InvalidArgumentError("the specification on standard input is too long");
  return ParseJobJson(text, "standard input");
}

// Of a task that never comes back from its constructor, or from a pass through its model.
auto EndsHung(const char* command, const Words& words) {
  return [command, &words](const std::string& why) {
    std::cerr << "muster " << command << ": " << PrintableLines(why) << std::endl;
    words.last_word.HasEnded();
    std::_Exit(kExitBadConfiguration);
  };
}

// Null: of a job without validation. `trained`: the task over the training data.
absl::StatusOr<std::unique_ptr<LaneMeasures>> MeasuresOf(const JobSpec& spec,
                                                         const MadeTask& trained,
                                                         const Words& words, CheckWatch& watch) {
  const TrainingSpec& training = spec.training;
  if (!training.validation.wanted()) return nullptr;
  Preparing preparing = watch.Makes(TellsItsCode(words));
  preparing.known = trained.prepared;
  preparing.plugin = trained.plugin;
  absl::StatusOr<MadeTask> made =
      MakeAnyTask(training, DataPart::kValidation, words.plugin_folders, preparing);
  MUSTER_RETURN_IF_ERROR(ErrorOfValidation(training, made.status()));
  return LaneMeasures::Make(std::move(made->task), training, trained.task->Tensors());
}

// Of an error, `code` is that with which the command ends.
absl::StatusOr<CheckReport> CheckWatched(const JobSpec& spec, const Words& words, int& code) {
  CheckWatch watch(spec.training.task, PatienceOf(spec.runtime), EndsHung(kCheck, words));
  absl::StatusOr<MadeTask> made = MakeAnyTask(
      spec.training, DataPart::kTraining, words.plugin_folders, watch.Makes(TellsItsCode(words)));
  code = ExitCodeOfMaking(spec.training, made.status());
  MUSTER_RETURN_IF_ERROR(made.status());
  absl::StatusOr<std::unique_ptr<LaneMeasures>> measures = MeasuresOf(spec, *made, words, watch);
  absl::Status measured = measures.status();
  if (measured.ok() && *measures) measured = (*measures)->CheckBest(spec);
  if (measured.ok() && *measures) measured = (*measures)->CheckSplit(*made->task);
  code = ExitCodeOfCheck(measured);
  MUSTER_RETURN_IF_ERROR(measured);
  watch.RunsTheModel();
  absl::StatusOr<CheckReport> report = Check(spec, *made->task, measures->get(),
                                             {.gradients = words.gradients,
                                              .goes_on = [&watch] { watch.GoesOn(); },
                                              .remembers = made->remembers});
  watch.EndsTheModel();
  code = ExitCodeOfCheck(report.status());
  MUSTER_RETURN_IF_ERROR(report.status());
  report->plugin = made->plugin;
  report->declared = made->parameters;
  if (!spec.training.data.paths.empty()) {
    const absl::StatusOr<SizeOfFiles> size = FindSize(spec.training.data);
    code = ExitCodeOfModel(size.status());
    MUSTER_RETURN_IF_ERROR(size.status());
    report->bytes = size->bytes;
  }
  return report;
}

int CheckJob(const Words& words, std::ostream& out) {
  const absl::StatusOr<JobSpec> spec = SpecOnInput();
  if (!spec.ok()) return Refuse(kCheck, spec.status(), kExitBadConfiguration);
  SetFloatEnvironment();
  // A plug-in may map more than there is; a model that is part of the job has no reason to.
  if (FindTask(spec->training.task) != nullptr) LimitMemory(MemoryForUs() / 10 * 9);
  int code = kExitDone;
  const absl::StatusOr<CheckReport> report = CheckWatched(*spec, words, code);
  if (!report.ok()) return Refuse(kCheck, report.status(), code);
  out << (words.json ? CheckAsJson(*report) : CheckAsText(*report));
  return report->problems.empty() ? kExitDone : kExitBadConfiguration;
}

// Whose task may be one of a plug-in that is not here: it is not asked.
absl::StatusOr<JobSpec> DataOnInput() {
  MUSTER_ASSIGN_OR_RETURN(JobSpec spec, SpecOnInput());
  if (spec.training.data.paths.empty() && !IsStreamed(spec.training))
    return absl::InvalidArgumentError("data.paths: it is empty; name files or directories");
  return spec;
}

int RefuseData(const char* subcommand, const absl::Status& why, int code) {
  return Refuse(absl::StrCat("data ", subcommand).c_str(), why, code);
}

// Tells what goes wrong with the files that are opened, and is mended, while it lives.
class DataWarnings {
 public:
  DataWarnings() { listener_.warns = WarnOnStandardError; }

 private:
  HashListener listener_{[](const PreparedSoFar&) {}, [] { return true; }};
  const HashListening listening_{muster_set_hash_listener, listener_};
};

int Inspect(const Words& words, std::ostream& out) {
  const DataWarnings warnings;
  const absl::StatusOr<JobSpec> spec = DataOnInput();
  if (!spec.ok()) return RefuseData("inspect", spec.status(), kExitBadConfiguration);
  const absl::StatusOr<InspectedData> inspected = InspectData(spec->training);
  if (!inspected.ok())
    return RefuseData("inspect", inspected.status(), ExitCodeOfTask(inspected.status()));
  out << (words.json ? InspectionAsJson(*spec, *inspected) : InspectionAsText(*spec, *inspected));
  return kExitDone;
}

int Hash(const Words& words, std::ostream& out) {
  const DataWarnings warnings;
  const absl::StatusOr<JobSpec> spec = DataOnInput();
  if (!spec.ok()) return RefuseData("hash", spec.status(), kExitBadConfiguration);
  absl::StatusOr<HashedData> hashed;
  {
    std::optional<ProgressLine> progress;
    bool waits = false;
    hashed = HashData(
        spec->training, KeptHashFolder(),
        [&](uint64_t bytes, uint64_t all) {
          if (!progress.has_value()) progress.emplace(static_cast<double>(all), Bytes);
          progress->At(static_cast<double>(bytes));
        },
        [&](const PreparedSoFar& so_far) {
          if (!so_far.is_ours && !std::exchange(waits, true))
            std::cerr << "muster data hash: " << TextOf(so_far) << std::endl;
        });
  }
  if (!hashed.ok()) return RefuseData("hash", hashed.status(), ExitCodeOfTask(hashed.status()));
  out << (words.json ? HashAsJson(*hashed) : HashAsText(*hashed));
  return kExitDone;
}

int Convert(const Words& words, std::ostream& out) {
  const DataWarnings warnings;
  const absl::StatusOr<JobSpec> spec = DataOnInput();
  if (!spec.ok()) return RefuseData("convert", spec.status(), kExitBadConfiguration);
  if (IsStreamed(spec->training))
    return RefuseData("convert",
                      absl::InvalidArgumentError("data.format: a stream has no files to convert"),
                      kExitBadConfiguration);
  ConvertOptions options{.target = words.output, .format = ConvertFormatOf(words.format)};
  if (words.shard_mib > 0) options.shard_bytes = words.shard_mib << 20;
  absl::StatusOr<ConvertedData> converted;
  {
    std::optional<ProgressLine> progress;
    options.told = [&](uint64_t bytes, uint64_t all) {
      if (!progress.has_value()) progress.emplace(static_cast<double>(all), Bytes);
      progress->At(static_cast<double>(bytes));
    };
    converted = ConvertData(spec->training, options);
  }
  if (!converted.ok())
    return RefuseData("convert", converted.status(), ExitCodeOfTask(converted.status()));
  out << (words.json ? ConversionAsJson(*spec, *converted) : ConversionAsText(*spec, *converted));
  return kExitDone;
}

// Once: whoever serves is let go with what this returns.
SavedModelPlace PlaceOf(const Words& words) {
  SavedModelPlace place = words.place;
  place.plugin_folders = words.plugin_folders;
  if (words.files < 0) return place;
  fcntl(words.files, F_SETFD, FD_CLOEXEC);
  place.files = ServedFiles(Descriptor(words.files), place.folder);
  return place;
}

absl::StatusOr<SavedModel> ModelOf(const Words& words, SavedModelUse use) {
  SetFloatEnvironment();
  PreparingLine line;
  return LoadSavedModel(PlaceOf(words), use, PreparingFor(words, line));
}

int EvaluateModel(const Words& words, std::ostream& out) {
  const absl::StatusOr<SavedModel> model = ModelOf(words, SavedModelUse::kMeasure);
  if (!model.ok()) return Refuse(kEvaluate, model.status(), ExitCodeOfModel(model.status()));
  Task& task = *model->made.task;
  const TrainingSpec& training = model->spec.training;
  // As many at a time as a lane of training has, since so many fit into memory.
  const auto batch = static_cast<uint64_t>((training.batch + training.lanes - 1) / training.lanes);
  absl::StatusOr<std::vector<Measured>> measured;
  {
    const double samples = static_cast<double>(task.SampleCount());
    ProgressLine progress(samples, [](double n) { return absl::StrFormat("%.0f samples", n); });
    measured = EvaluateAll(task, model->model(), batch,
                           [&](uint64_t done) { progress.At(static_cast<double>(done)); });
  }
  if (!measured.ok())
    return Refuse(kEvaluate, measured.status(),
                  absl::IsUnimplemented(measured.status()) ? kExitBadConfiguration
                                                           : ExitCodeOfModel(measured.status()));
  const EvaluatedModel evaluated{.job = model->manifest.job,
                                 .task = training.task,
                                 .step = model->manifest.step.value(),
                                 .samples = task.SampleCount(),
                                 .data_hash = task.DataHash(),
                                 .measured = *std::move(measured),
                                 .average = words.place.average};
  out << (words.json ? EvaluationAsJson(evaluated) : EvaluationAsText(evaluated));
  return kExitDone;
}

int GenerateText(const Words& words, std::ostream& out) {
  const absl::StatusOr<SavedModel> model = ModelOf(
      words, words.prompt.empty() ? SavedModelUse::kGenerate : SavedModelUse::kGenerateFromPrompt);
  if (!model.ok()) return Refuse(kGenerate, model.status(), ExitCodeOfModel(model.status()));
  Generates* const generates = model->made.task->generates();
  if (generates == nullptr)
    return Refuse(kGenerate,
                  absl::UnimplementedError(
                      absl::StrCat("task ", model->spec.training.task, " makes no text")),
                  kExitBadConfiguration);
  if (words.json) {
    const absl::StatusOr<std::string> text =
        generates->Generate(model->model(), words.prompt, words.bytes, words.seed,
                            [](absl::string_view) { return absl::OkStatus(); });
    if (!text.ok()) return Refuse(kGenerate, text.status(), ExitCodeOfModel(text.status()));
    out << GeneratedAsJson(words.prompt, *text);
    return kExitDone;
  }
  const absl::Status written = WriteGrowingText(out, words.prompt, [&](const TextListener& told) {
    return generates->Generate(model->model(), words.prompt, words.bytes, words.seed, told);
  });
  // Of an output that takes nothing more, what the program ends with is said elsewhere.
  if (!written.ok() && out) return Refuse(kGenerate, written, ExitCodeOfModel(written));
  return kExitDone;
}

// In the one format that LibTorch alone writes.
int ExportModel(const Words& words, std::ostream& out) {
  const absl::StatusOr<SavedState> saved = LoadSavedState(PlaceOf(words));
  if (!saved.ok()) return Refuse(kExport, saved.status(), ExitCodeOfModel(saved.status()));
  const absl::Status written = WriteOutputFileBy(words.output, [&](const std::string& path) {
    return WriteLibTorchArchive(saved->layout.ModelSpace(), saved->model(), path);
  });
  if (!written.ok()) return Refuse(kExport, written, ExitCodeOfModel(written));
  const Manifest& manifest = saved->manifest;
  const FlatSpace model = saved->layout.ModelSpace();
  WrittenExport told{manifest.job, manifest.step.value(), "libtorch", words.output,
                     model.tensors.size()};
  for (const Placed& tensor : model.tensors)
    told.bytes += static_cast<uint64_t>(tensor.spec.Bytes());
  told.average = words.place.average;
  out << (words.json ? ExportAsJson(told) : ExportAsText(told));
  return kExitDone;
}

void AddPlace(CLI::App& app, Words& words) {
  SavedModelPlace& place = words.place;
  app.add_option("--checkpoints", place.folder,
                 "folder of the job's checkpoints; with --files, what messages call it")
      ->required();
  app.add_option("--files", words.files,
                 "an open socket, on which whoever has started this gives out its files")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--average", place.average, "of its parameters, in their place");
  app.add_option("--manifest", place.manifest, "of the checkpoint, relative to it")->required();
  app.add_option("--set", place.settings, "of its specification")->allow_extra_args(false);
  app.add_option("--data", place.data, "in place of the job's data")->allow_extra_args(false);
}

// It is of no use without whoever waits for its answer.
LastWord WordFor(int fd) {
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  return LastWord(fd);
}

struct Command {
  const char* name;
  const char* about;
  int (*run)(const Words& words, std::ostream& out);
  void (*add)(CLI::App& app, Words& words);
};

constexpr Command kCommands[] = {
    {kTasks, "What tasks there are", TellTasks,
     [](CLI::App& app, Words& words) {
       app.add_option("task", words.task, "one of them, with its parameters");
     }},
    {kCheck, "A job on standard input is checked, short of training it", CheckJob,
     [](CLI::App& app, Words& words) {
       app.add_option("--gradients", words.gradients, "entries of the gradient that are compared")
           ->check(CLI::Range(0, kMostEntries));
     }},
    {kInspectData, "What the files of a job on standard input hold", Inspect,
     [](CLI::App&, Words&) {}},
    {kHashData, "The hash of the data of a job on standard input", Hash, [](CLI::App&, Words&) {}},
    {kConvertData, "The data of a job on standard input in another format", Convert,
     [](CLI::App& app, Words& words) {
       app.add_option("--output", words.output, "a file or folder")->required();
       app.add_option("--format", words.format, "of it")
           ->check(CLI::IsMember({"numpy", "safetensors", "webdataset"}));
       app.add_option("--shard-mib", words.shard_mib, "of a shard at most")
           ->check(CLI::Range(1, kMostShardMib));
     }},
    {kEvaluate, "What the model of a checkpoint is worth on a data set", EvaluateModel,
     [](CLI::App& app, Words& words) { AddPlace(app, words); }},
    {kGenerate, "Text by the model of a checkpoint", GenerateText,
     [](CLI::App& app, Words& words) {
       AddPlace(app, words);
       app.add_option("--prompt", words.prompt, "what it goes on from");
       app.add_option("--bytes", words.bytes, "how many it makes");
       app.add_option("--seed", words.seed, "of what it draws");
     }},
    {kExport, "The tensors of a checkpoint as an archive of torch::load", ExportModel,
     [](CLI::App& app, Words& words) {
       AddPlace(app, words);
       app.add_option("--output", words.output, "the file")->required();
     }},
};

}  // namespace

std::optional<int> RunCommand(int argc, const char* const* argv) {
  const std::string word = argc > 1 ? argv[1] : "";
  const auto* command = std::find_if(std::begin(kCommands), std::end(kCommands),
                                     [&](const Command& c) { return c.name == word; });
  if (command == std::end(kCommands)) return std::nullopt;
  // A plug-in may close or turn elsewhere what it finds as its standard streams.
  const Descriptor out(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  const Descriptor errors(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  StandardOutput output(out.is_open() ? out.get() : STDOUT_FILENO);
  const StandardError error_output(errors.is_open() ? errors.get() : STDERR_FILENO);
  Words words;
  const std::string name = absl::StrCat("muster-worker ", word);
  CLI::App app(command->about, name);
  app.add_option("--plugins", words.plugin_folders, "folder of plug-ins; may be given again")
      ->allow_extra_args(false)
      ->type_name("FOLDER");
  app.add_flag("--json", words.json, "for programs");
  app.add_option_function<int>(
      "--last-word", [&](int fd) { words.last_word = WordFor(fd); },
      "an open file, for whoever has started this in its place");
  command->add(app, words);
  const std::optional<int> refused = ParseOrExit(app, name, argc - 1, argv + 1);
  // A model prints, too, as does a plug-in.
  if (!refused) output.LeavesPrintsToStandardError();
  const int code =
      output.CodeOnceWritten(refused ? *refused : command->run(words, output.own()), name);
  words.last_word.HasEnded();
  return code;
}

}  // namespace muster::worker
