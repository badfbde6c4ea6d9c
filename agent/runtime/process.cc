#include "agent/runtime/process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "lib/base/check.h"
#include "lib/base/descriptor.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/base/utf8.h"
#include "lib/base/whole_file.h"
#include "nlohmann/json.hpp"

namespace muster::agent {
namespace {

constexpr int kReportFd = 3;      // in the child
constexpr int kFirstFreeFd = 16;  // ours stay clear of the numbers that the child's are moved to
constexpr off_t kTailBytes = 3072;
constexpr int kTailLines = 20;

absl::Status ErrnoStatus(int error, absl::string_view what) {
  const std::string text = absl::StrCat(what, ": ", std::strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR: return absl::NotFoundError(text);
    case EACCES:
    case EPERM:
    case EROFS: return absl::PermissionDeniedError(text);
    case E2BIG:
    case EINVAL:
    case ELIBBAD:
    case ELOOP:
    case ENAMETOOLONG:
    case ENOEXEC: return absl::FailedPreconditionError(text);
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOSPC: return absl::ResourceExhaustedError(text);
    default: return absl::UnavailableError(text);
  }
}

// The same descriptor with a number the child's own cannot collide with, closed on exec.
absl::StatusOr<Descriptor> MovedUp(Descriptor fd, absl::string_view what) {
  if (!fd.is_open()) return ErrnoStatus(errno, what);
  Descriptor moved(fcntl(fd.get(), F_DUPFD_CLOEXEC, kFirstFreeFd));
  if (!moved.is_open()) return ErrnoStatus(errno, what);
  return moved;
}

struct Pipe {
  Descriptor read;
  Descriptor write;
};

absl::StatusOr<Pipe> MakePipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return ErrnoStatus(errno, "cannot make a pipe");
  Descriptor read(ends[0]);
  Descriptor write(ends[1]);
  Pipe pipe;
  MUSTER_ASSIGN_OR_RETURN(pipe.read, MovedUp(std::move(read), "cannot make a pipe"));
  MUSTER_ASSIGN_OR_RETURN(pipe.write, MovedUp(std::move(write), "cannot make a pipe"));
  return pipe;
}

// Of something that says nothing about the program, whatever went wrong with it.
absl::Status HostStatus(const absl::Status& why, const std::string& what) {
  const std::string text = absl::StrCat(what, ": ", why.message());
  return absl::IsResourceExhausted(why) ? absl::ResourceExhaustedError(text)
                                        : absl::UnavailableError(text);
}

absl::Status LogStatus(const std::string& path, const absl::Status& why) {
  return HostStatus(why, absl::StrCat("cannot write the log ", path));
}

// The first line of a run. Where the program's own lines are JSON, it is one of the same form.
std::string FirstLine(const std::vector<std::string>& arguments) {
  const std::string& program = arguments[0];
  const auto now = [](const char* format) {
    return absl::FormatTime(format, absl::Now(), absl::UTCTimeZone());
  };
  if (std::find(arguments.begin(), arguments.end(), "--log-json") == arguments.end())
    return absl::StrCat("--- ", now("%Y-%m-%dT%H:%M:%SZ"), " starting ", program, "\n");
  const std::string name = program.substr(program.rfind('/') + 1);
  const nlohmann::ordered_json line = {{"time", now("%Y-%m-%dT%H:%M:%E3SZ")},
                                       {"level", "info"},
                                       {"program", Printable(name)},
                                       {"text", absl::StrCat("starting ", Printable(program))}};
  return line.dump() + "\n";
}

absl::StatusOr<Descriptor> OpenLog(const std::string& path,
                                   const std::vector<std::string>& arguments) {
  // Whoever reads a pipe in its place, or does not, would hold us up.
  if (const absl::Status regular = CheckRegularFile(path); !regular.ok())
    return LogStatus(path, regular);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW;
  auto opened = MovedUp(Descriptor(open(path.c_str(), kFlags, 0644)), "open");
  if (!opened.ok()) return LogStatus(path, opened.status());
  Descriptor log = *std::move(opened);
  const std::string header = FirstLine(arguments);
  if (write(log.get(), header.data(), header.size()) < 0)
    return LogStatus(path, ErrnoStatus(errno, "write"));
  return log;
}

// Ours, with these in it.
std::vector<std::string> EnvironmentWith(const std::map<std::string, std::string>& changed) {
  std::vector<std::string> environment;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string text = *variable;
    if (!changed.contains(text.substr(0, text.find('=')))) environment.push_back(text);
  }
  for (const auto& [name, value] : changed) environment.push_back(absl::StrCat(name, "=", value));
  return environment;
}

// Everything the child needs, made before the fork: after it only system calls are allowed.
struct ChildPlan {
  std::vector<char*> arguments;    // ends with nullptr
  std::vector<char*> environment;  // likewise
  pid_t parent;
  int null_fd;
  int log_fd;
  int report_fd;
  int error_fd;
  cpu_set_t cores;
  bool has_cores;
};

cpu_set_t SetOf(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(static_cast<size_t>(core), &set);
  return set;
}

[[noreturn]] void RunChild(const ChildPlan& plan) {
  const auto fail = [&] {
    const int error = errno;
    [[maybe_unused]] const ssize_t n = write(plan.error_fd, &error, sizeof error);
    _exit(127);
  };
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) fail();
  if (getppid() != plan.parent) _exit(127);  // it ended before the line above
  if (setpgid(0, 0) != 0) fail();
  if (dup2(plan.null_fd, 0) < 0 || dup2(plan.log_fd, 1) < 0 || dup2(plan.log_fd, 2) < 0 ||
      dup2(plan.report_fd, kReportFd) < 0)
    fail();
  // Libraries' descriptors may lack close-on-exec. An old kernel without this call only leaves
  // those open.
  syscall(SYS_close_range, kReportFd + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  for (int s = 1; s < NSIG; ++s) signal(s, SIG_DFL);
  // What a launcher sends to all processes of a step, and would end this one.
  for (const int s : {SIGHUP, SIGUSR1, SIGUSR2}) signal(s, SIG_IGN);
  // One of them may have been taken away from us meanwhile: then it runs where we do.
  if (plan.has_cores) sched_setaffinity(0, sizeof plan.cores, &plan.cores);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(plan.arguments[0], plan.arguments.data(), plan.environment.data());
  fail();
  _exit(127);
}

// 0 once the program runs, else the errno that stopped it.
int ReadStartError(int fd) {
  int error = 0;
  ssize_t n = 0;
  do {
    n = read(fd, &error, sizeof error);
  } while (n < 0 && errno == EINTR);
  return n == static_cast<ssize_t>(sizeof error) ? error : 0;
}

// Whole text, as messages and JSON want it: a byte that belongs to no character becomes '?'.
std::string ValidUtf8(absl::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length == 0)
      out += '?';
    else
      out.append(text.data(), length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

void WaitForEnd(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

absl::StatusOr<ChildProcess> ChildProcess::Start(const Command& command) {
  MUSTER_CHECK(syscall(SYS_gettid) == getpid(), "processes are started from the main thread");
  MUSTER_CHECK(!command.arguments.empty());
  // Where it is ignored, as a parent may have left it to us, the kernel keeps no child's end for
  // us.
  signal(SIGCHLD, SIG_DFL);
  const std::string& program = command.arguments[0];
  MUSTER_ASSIGN_OR_RETURN(Descriptor log, OpenLog(command.log_file, command.arguments));
  MUSTER_ASSIGN_OR_RETURN(
      Descriptor null, MovedUp(Descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC)), "/dev/null"));
  MUSTER_ASSIGN_OR_RETURN(Pipe report, MakePipe());
  MUSTER_ASSIGN_OR_RETURN(Pipe error, MakePipe());
  // Also at the child's end: an agent that does not read (Ctrl-Z, a terminal that does not take its
  // output) must not hold its processes up.
  if (fcntl(report.read.get(), F_SETFL, O_NONBLOCK) != 0 ||
      fcntl(report.write.get(), F_SETFL, O_NONBLOCK) != 0)
    return ErrnoStatus(errno, "cannot make a pipe");

  std::vector<std::string> arguments = command.arguments;
  arguments.push_back("--report-fd");
  arguments.push_back(absl::StrCat(kReportFd));
  ChildPlan plan{.parent = getpid(),
                 .null_fd = null.get(),
                 .log_fd = log.get(),
                 .report_fd = report.write.get(),
                 .error_fd = error.write.get(),
                 .cores = SetOf(command.cores),
                 .has_cores = !command.cores.empty()};
  for (std::string& argument : arguments) plan.arguments.push_back(argument.data());
  plan.arguments.push_back(nullptr);
  std::vector<std::string> environment = EnvironmentWith(command.environment);
  for (std::string& variable : environment) plan.environment.push_back(variable.data());
  plan.environment.push_back(nullptr);

  ChildProcess child;
  child.log_file_ = command.log_file;
  child.log_start_ = lseek(log.get(), 0, SEEK_END);
  const pid_t pid = fork();
  if (pid < 0) return ErrnoStatus(errno, absl::StrCat("cannot start ", program));
  if (pid == 0) RunChild(plan);
  child.pid_ = pid;
  child.report_ = std::move(report.read);
  error.write.Close();
  if (const int why = ReadStartError(error.read.get()); why != 0) {
    WaitForEnd(std::exchange(child.pid_, -1));
    return ErrnoStatus(why, absl::StrCat("cannot start ", program));
  }
  child.exit_ = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!child.exit_.is_open()) {
    const absl::Status why =
        ErrnoStatus(errno, "no descriptor for a process (Linux 5.3 or newer is needed)");
    // Nobody has waited for it yet, so that the number is still its own.
    kill(pid, SIGKILL);
    WaitForEnd(std::exchange(child.pid_, -1));
    return HostStatus(why, absl::StrCat("cannot watch ", program));
  }
  return child;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      exit_(std::move(other.exit_)),
      report_(std::move(other.report_)),
      log_file_(std::move(other.log_file_)),
      log_start_(other.log_start_) {}

ChildProcess::~ChildProcess() {
  if (pid_ < 0) return;
  Signal(SIGKILL);
  WaitForEnd(pid_);
}

// By its descriptor, so that this cannot hit another process, whoever may have reaped ours.
void ChildProcess::Signal(int signal) const {
  if (pid_ > 0) syscall(SYS_pidfd_send_signal, exit_.get(), signal, nullptr, 0U);
}

std::optional<Exit> ChildProcess::TryReap() {
  if (pid_ < 0) return std::nullopt;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  pid_ = -1;
  Exit exit;
  if (WIFSIGNALED(status))
    exit.signal = WTERMSIG(status);
  else
    exit.code = WEXITSTATUS(status);
  exit.last_lines = ValidUtf8(LastLines());
  return exit;
}

std::string ChildProcess::LastLines() const {
  const absl::StatusOr<Descriptor> file = OpenRegularFile(log_file_, O_RDONLY);
  if (!file.ok()) return "";
  const off_t end = lseek(file->get(), 0, SEEK_END);
  const off_t start = end < log_start_ ? 0 : log_start_;  // it was cut (log_file.h)
  const off_t from = std::max(start, end - kTailBytes);
  if (end <= from) return "";
  std::string text(static_cast<size_t>(end - from), '\0');
  const ssize_t n = pread(file->get(), text.data(), text.size(), from);
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  size_t begin = text.size();
  for (int lines = 0; lines < kTailLines && begin != std::string::npos && begin > 0; ++lines)
    begin = text.rfind('\n', begin - 1);
  // The first may have lost its beginning, and with it what it is.
  if (begin == std::string::npos && from > start) begin = text.find('\n');
  return begin == std::string::npos || begin == 0 ? text : text.substr(begin + 1);
}

}  // namespace muster::agent
