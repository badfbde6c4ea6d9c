#include "cli/in_worker.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cli/spec_file.h"
#include "lib/base/descriptor.h"
#include "lib/base/status.h"
#include "lib/wire/job_codec.h"

namespace muster::cli {
namespace {

void AddPlugins(const std::vector<std::string>& plugins, std::vector<std::string>& words) {
  for (const std::string& folder : plugins) {
    words.push_back("--plugins");
    words.push_back(folder);
  }
}

struct FileEnding {
  absl::string_view ending;
  const char* format;
};
constexpr FileEnding kEndings[] = {{".csv", "csv"},        {".npy", "numpy"},
                                   {".npz", "numpy"},      {".safetensors", "safetensors"},
                                   {".pt", "pt"},          {".pth", "pt"},
                                   {".h5", "hdf5"},        {".hdf5", "hdf5"},
                                   {".tar", "webdataset"}, {".png", "images"},
                                   {".jpg", "images"},     {".jpeg", "images"},
                                   {"-ubyte", "idx"},      {"-ubyte.gz", "idx"}};

bool IsSpecification(absl::string_view path) {
  return absl::EndsWith(path, ".yaml") || absl::EndsWith(path, ".yml") ||
         absl::EndsWith(path, ".json") || path == "-";
}

absl::string_view FormatOf(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return "images";
  const auto* known =
      std::find_if(std::begin(kEndings), std::end(kEndings),
                   [&](const FileEnding& of) { return absl::EndsWith(path, of.ending); });
  return known == std::end(kEndings) ? "" : known->format;
}

// A job of these files alone. A guess is good enough to look at them; a job says what they are.
absl::StatusOr<JobSpec> SpecOfFiles(const std::vector<std::string>& paths,
                                    const std::vector<std::string>& settings) {
  nlohmann::json job = {{"task", "data"}, {"steps", 1}};
  job["data"]["paths"] = nlohmann::json::array();
  for (const std::string& path : paths) {
    if (IsSpecification(path))
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": a specification stands alone; it names its files itself"));
    job["data"]["paths"].push_back(std::filesystem::absolute(path).string());
  }
  if (const absl::string_view format = FormatOf(paths.front()); !format.empty())
    job["data"]["format"] = format;
  return ParseJobYaml(job.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
                      paths.front(), settings);
}

const char* NameOf(DataArguments::Command command) {
  switch (command) {
    case DataArguments::Command::kInspect: return "data-inspect";
    case DataArguments::Command::kHash: return "data-hash";
    case DataArguments::Command::kConvert: return "data-convert";
  }
  return "";
}

absl::Status PutOnInput(const std::string& input) {
  const Descriptor file(memfd_create("input", MFD_CLOEXEC));
  if (file.get() < 0) return absl::ErrnoToStatus(errno, "memfd_create");
  for (size_t at = 0; at < input.size();) {
    const ssize_t written = write(file.get(), input.data() + at, input.size() - at);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return absl::ErrnoToStatus(errno, "write");
    at += static_cast<size_t>(written);
  }
  if (lseek(file.get(), 0, SEEK_SET) < 0 || dup2(file.get(), STDIN_FILENO) < 0)
    return absl::ErrnoToStatus(errno, "dup2");
  return absl::OkStatus();
}

}  // namespace

WorkerCommand TasksCommand(const TasksArguments& tasks, const std::vector<std::string>& plugins) {
  WorkerCommand command{{"tasks"}, ""};
  AddPlugins(plugins, command.words);
  if (tasks.json) command.words.push_back("--json");
  if (!tasks.task.empty()) command.words.insert(command.words.end(), {"--", tasks.task});
  return command;
}

absl::StatusOr<WorkerCommand> CheckCommand(const CheckArguments& check,
                                           const std::vector<std::string>& plugins) {
  MUSTER_ASSIGN_OR_RETURN(const JobSpec spec,
                          ReadSpec(check.spec, check.settings, check.workers, check.servers));
  WorkerCommand command{{"check"}, ToJson(spec)};
  AddPlugins(plugins, command.words);
  if (check.json) command.words.push_back("--json");
  if (check.gradients > 0)
    command.words.insert(command.words.end(), {"--gradients", absl::StrCat(check.gradients)});
  return command;
}

absl::StatusOr<WorkerCommand> DataCommand(const DataArguments& data,
                                          const std::vector<std::string>&) {
  const bool is_spec = data.what.size() == 1 && IsSpecification(data.what[0]);
  MUSTER_ASSIGN_OR_RETURN(const JobSpec spec, is_spec ? ReadSpec(data.what[0], data.settings)
                                                      : SpecOfFiles(data.what, data.settings));
  WorkerCommand command{{NameOf(data.command)}, ToJson(spec)};
  if (data.json) command.words.push_back("--json");
  if (data.command != DataArguments::Command::kConvert) return command;
  command.words.insert(command.words.end(),
                       {"--output", std::filesystem::absolute(data.output).string()});
  if (!data.format.empty()) command.words.insert(command.words.end(), {"--format", data.format});
  if (data.shard_mib > 0)
    command.words.insert(command.words.end(), {"--shard-mib", absl::StrCat(data.shard_mib)});
  return command;
}

absl::Status BecomeWorker(const std::string& program, const WorkerCommand& command) {
  MUSTER_RETURN_IF_ERROR(Prefix("the worker's input", PutOnInput(command.input)));
  std::vector<std::string> words = {program};
  words.insert(words.end(), command.words.begin(), command.words.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(program.c_str(), argv.data());
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot start ", program,
                                                 ", which lies beside muster where Muster is "
                                                 "installed whole"));
}

}  // namespace muster::cli
