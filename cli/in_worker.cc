#include "cli/in_worker.h"

#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cli/spec_file.h"
#include "lib/base/descriptor.h"
#include "lib/base/signal_name.h"
#include "lib/base/status.h"
#include "lib/base/utf8.h"
#include "lib/checkpoint/served_files.h"
#include "lib/launch/last_word.h"
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

bool IsFolder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

bool SaysFormat(const std::vector<std::string>& settings) {
  return std::any_of(settings.begin(), settings.end(), [](const std::string& setting) {
    return absl::StartsWith(setting, "data.format=");
  });
}

absl::string_view FormatOf(const std::string& path) {
  if (IsFolder(path)) return "images";
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
    const std::string whole = std::filesystem::absolute(path).string();
    if (!IsUtf8(whole))
      return absl::InvalidArgumentError(
          absl::StrCat(whole,
                       ": its name is no UTF-8, as names in data.paths have to be; rename "
                       "it, or name the folder that it lies in"));
    job["data"]["paths"].push_back(whole);
  }
  if (const absl::string_view format = FormatOf(paths.front()); !format.empty())
    job["data"]["format"] = format;
  absl::StatusOr<JobSpec> spec = ParseJobYaml(
      job.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), paths.front(), settings);
  // What does not fit its images is often meant for files of another format in it.
  if (!spec.ok() && IsFolder(paths.front()) && !SaysFormat(settings))
    return absl::Status(spec.status().code(),
                        absl::StrCat(spec.status().message(), " (", paths.front(),
                                     " is a folder, which is taken for one of images; "
                                     "--set data.format=… says what else its files are)"));
  return spec;
}

const char* NameOf(DataArguments::Command command) {
  switch (command) {
    case DataArguments::Command::kInspect: return "data-inspect";
    case DataArguments::Command::kHash: return "data-hash";
    case DataArguments::Command::kConvert: return "data-convert";
  }
  return "";
}

absl::StatusOr<Descriptor> FileOf(const std::string& input) {
  Descriptor file(memfd_create("input", MFD_CLOEXEC));
  if (file.get() < 0) return absl::ErrnoToStatus(errno, "memfd_create");
  for (size_t at = 0; at < input.size();) {
    const ssize_t written = write(file.get(), input.data() + at, input.size() - at);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return absl::ErrnoToStatus(errno, "write");
    at += static_cast<size_t>(written);
  }
  if (lseek(file.get(), 0, SEEK_SET) < 0) return absl::ErrnoToStatus(errno, "lseek");
  return file;
}

// The terminal sends them to both processes, and what the worker makes of them counts.
class LeavesTerminalSignals {
 public:
  LeavesTerminalSignals()
      : interrupt_(std::signal(SIGINT, SIG_IGN)), quit_(std::signal(SIGQUIT, SIG_IGN)) {}
  ~LeavesTerminalSignals() {
    std::signal(SIGINT, interrupt_);
    std::signal(SIGQUIT, quit_);
  }
  LeavesTerminalSignals(const LeavesTerminalSignals&) = delete;
  LeavesTerminalSignals& operator=(const LeavesTerminalSignals&) = delete;

 private:
  using Handler = void (*)(int);
  const Handler interrupt_, quit_;
};

// Where the worker finds them. Our own were opened in this order, so that none has the number of
// one that comes before it.
constexpr int kLastWord = 3;
constexpr int kFiles = 4;

// `files`: the worker's end of a socket, where it needs one.
absl::StatusOr<pid_t> Spawn(const std::string& program, const WorkerCommand& command,
                            const Descriptor& input, const Descriptor& last_word,
                            const Descriptor& files) {
  std::vector<std::string> words = {program};
  words.insert(words.end(), command.words.begin(), command.words.end());
  // Behind the command's name: what follows may be words that are no options.
  words.insert(words.begin() + 2, {"--last-word", absl::StrCat(kLastWord)});
  if (files.is_open()) words.insert(words.begin() + 4, {"--files", absl::StrCat(kFiles)});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const absl::Cleanup destroy = [&] { posix_spawn_file_actions_destroy(&actions); };
  posix_spawn_file_actions_adddup2(&actions, input.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, last_word.get(), kLastWord);
  if (files.is_open()) posix_spawn_file_actions_adddup2(&actions, files.get(), kFiles);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), environ);
  if (error == 0) return pid;
  return absl::ErrnoToStatus(error, absl::StrCat("cannot start ", program,
                                                 ", which lies beside muster where Muster is "
                                                 "installed whole"));
}

absl::StatusOr<int> CodeOf(int status, const HeardWord& heard) {
  const std::string where = heard.runs.empty() ? "" : absl::StrCat(" while it ran ", heard.runs);
  if (WIFSIGNALED(status))
    return absl::InternalError(
        absl::StrCat("the worker was killed by ", SignalName(WTERMSIG(status)), where,
                     WTERMSIG(status) == SIGKILL ? "; perhaps there was no memory left" : ""));
  if (heard.has_ended) return WEXITSTATUS(status);
  return absl::InternalError(
      absl::StrCat("the worker has ended with exit code ", WEXITSTATUS(status), where,
                   ", before it had come to its end; what it runs has to return an error or "
                   "throw, and not to end the process"));
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

absl::StatusOr<int> RunInWorker(const std::string& program, const WorkerCommand& command) {
  absl::StatusOr<Descriptor> input = FileOf(command.input);
  MUSTER_RETURN_IF_ERROR(Prefix("the worker's input", input.status()));
  MUSTER_ASSIGN_OR_RETURN(const Descriptor last_word, NewLastWord());
  std::pair<Descriptor, Descriptor> socket;
  if (command.files) {
    MUSTER_ASSIGN_OR_RETURN(socket, NewFileSocket());
  }
  MUSTER_ASSIGN_OR_RETURN(const pid_t pid,
                          Spawn(program, command, *input, last_word, socket.second));
  if (command.files) {
    // Its end is then closed when the worker needs no more of them, or has ended.
    socket.second.Close();
    ServeFiles(*command.files, socket.first);
    socket.first.Close();
  }
  int status = 0;
  {
    const LeavesTerminalSignals leaves;
    while (waitpid(pid, &status, 0) < 0)
      if (errno != EINTR) return absl::ErrnoToStatus(errno, "waitpid");
  }
  constexpr int kOfOthers[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGPIPE};
  if (WIFSIGNALED(status) &&
      std::count(std::begin(kOfOthers), std::end(kOfOthers), WTERMSIG(status)) > 0) {
    std::signal(WTERMSIG(status), SIG_DFL);
    std::raise(WTERMSIG(status));
  }
  return CodeOf(status, HearLastWord(last_word));
}

}  // namespace muster::cli
