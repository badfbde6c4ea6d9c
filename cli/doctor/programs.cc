#include "cli/doctor/programs.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lib/base/descriptor.h"
#include "lib/base/plural.h"
#include "lib/base/printable.h"

namespace muster::cli::doctor {
namespace {

constexpr size_t kMostOutput = 64 << 10;

// Until the end of the output, or the deadline: false.
bool ReadToEnd(int fd, std::chrono::steady_clock::time_point deadline, std::string& output) {
  std::array<char, 4096> buffer{};
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd wait{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = poll(&wait, 1, static_cast<int>(left.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t n = read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return true;
    const size_t room = kMostOutput - std::min(output.size(), kMostOutput);
    output.append(buffer.data(), std::min(room, static_cast<size_t>(n)));
  }
}

// One that has closed its output may go on. True as well where the kernel cannot tell.
bool EndsBefore(pid_t pid, std::chrono::steady_clock::time_point deadline) {
  const Descriptor process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (process.get() < 0) return true;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  pollfd wait{.fd = process.get(), .events = POLLIN, .revents = 0};
  return poll(&wait, 1, static_cast<int>(std::max<int64_t>(left.count(), 0))) == 1;
}

absl::StatusOr<pid_t> Spawn(const std::vector<std::string>& words, const std::string& variable,
                            int output) {
  std::vector<char*> arguments, environment;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  for (char** entry = environ; *entry != nullptr; ++entry) environment.push_back(*entry);
  if (!variable.empty()) environment.push_back(const_cast<char*>(variable.c_str()));
  environment.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, words[0].c_str(), &actions, /*attrp=*/nullptr,
                                arguments.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return absl::ErrnoToStatus(error, absl::StrCat(words[0], " cannot be started"));
  return pid;
}

}  // namespace

absl::StatusOr<Ended> RunProgram(const std::vector<std::string>& words, const std::string& variable,
                                 Duration patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    return absl::ErrnoToStatus(errno, "there is no pipe to be had");
  const Descriptor from(ends[0]);
  absl::StatusOr<pid_t> pid = absl::UnknownError("");
  {
    const Descriptor into(ends[1]);
    pid = Spawn(words, variable, into.get());
  }
  if (!pid.ok()) return pid.status();
  Ended ended;
  const bool is_over = ReadToEnd(from.get(), deadline, ended.output) && EndsBefore(*pid, deadline);
  if (!is_over) kill(*pid, SIGKILL);
  int status = 0;
  while (waitpid(*pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!is_over)
    return absl::DeadlineExceededError(absl::StrCat(words[0], " does not end, and was killed"));
  if (WIFSIGNALED(status))
    ended.signal = WTERMSIG(status);
  else
    ended.code = WEXITSTATUS(status);
  return ended;
}

std::vector<std::string> MissingLibraries(const std::string& list) {
  std::vector<std::string> missing;
  for (const absl::string_view line : absl::StrSplit(list, '\n')) {
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    const bool is_missing =
        words.size() == 4 && words[1] == "=>" && words[2] == "not" && words[3] == "found";
    if (is_missing && std::find(missing.begin(), missing.end(), words[0]) == missing.end())
      missing.push_back(words[0]);
  }
  return missing;
}

ProgramFacts GatherProgram(const std::string& path, Duration patience) {
  ProgramFacts facts{.path = path, .is_there = access(path.c_str(), F_OK) == 0};
  if (!facts.is_there) return facts;
  facts.version = RunProgram({path, "--version"}, "", patience);
  if (facts.version.ok() && facts.version->signal == 0 && facts.version->code == 0) return facts;
  // The linker then lists what the program needs, in place of starting it.
  const absl::StatusOr<Ended> list = RunProgram({path}, "LD_TRACE_LOADED_OBJECTS=1", patience);
  if (list.ok()) facts.missing_libraries = MissingLibraries(list->output);
  return facts;
}

Finding JudgeProgram(const std::string& name, const std::string& what, const ProgramFacts& facts,
                     const std::string& version) {
  const std::string path = Printable(facts.path);
  constexpr char kInstall[] = "install all programs of one version of Muster into one folder";
  if (!facts.is_there)
    return Problem(name, absl::StrCat(path, " is not there: ", what, "."), kInstall);
  if (!facts.missing_libraries.empty())
    return Problem(
        name,
        absl::StrCat(path, " does not start: ",
                     Plural(static_cast<int64_t>(facts.missing_libraries.size()), "library is",
                            "libraries are"),
                     " missing, ", absl::StrJoin(facts.missing_libraries, ", "), "."),
        "install them, or name their folder in LD_LIBRARY_PATH; those of LibTorch (libtorch, "
        "libc10) lie in lib/ of the LibTorch that Muster was built with");
  if (!facts.version.ok())
    return Problem(
        name, Sentence(facts.version.status().message()),
        absl::IsPermissionDenied(facts.version.status())
            ? "let this user execute it (chmod), and mount its file system without noexec"
            : kInstall);
  const Ended& ended = *facts.version;
  if (ended.signal == SIGILL)
    return Problem(name,
                   absl::StrCat(path, " needs instructions that this processor does not have."),
                   "build Muster and LibTorch for this processor, or take another machine");
  if (ended.signal != 0 || ended.code != 0)
    return Problem(name,
                   absl::StrCat(path, " does not start: it ends with ",
                                ended.signal != 0 ? absl::StrCat("signal ", ended.signal)
                                                  : absl::StrCat("code ", ended.code),
                                ended.output.empty() ? "" : ": ",
                                Cut(Printable(absl::StripAsciiWhitespace(ended.output)), 256), "."),
                   kInstall);
  const std::string theirs(absl::StripAsciiWhitespace(ended.output));
  if (theirs != version)
    return Problem(name,
                   absl::StrCat(path, " is of version ", Cut(Printable(theirs), 64),
                                ", and this muster of ", version, "."),
                   kInstall);
  return Ok(name, absl::StrCat(path, " starts, and is of this version, ", version, "."));
}

}  // namespace muster::cli::doctor
