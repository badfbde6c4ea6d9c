#include "cli/ssh_run.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "cli/each_second.h"
#include "cli/ssh_input.h"
#include "lib/base/descriptor.h"
#include "lib/base/descriptors.h"
#include "lib/base/exit_codes.h"
#include "lib/base/mutex.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"

namespace muster::cli {
namespace {

constexpr size_t kLongestEnvironment = 60'000;     // of a line that a pipe takes whole
constexpr size_t kLongestLine = size_t{64} << 10;  // a longer one comes in pieces

Time Now() { return std::chrono::steady_clock::now(); }

absl::Status SystemError(const char* what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

struct Pipe {
  Descriptor read;
  Descriptor write;
};

absl::StatusOr<Pipe> MakePipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return SystemError("cannot make a pipe");
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

// Hands over whole lines of what a pipe gives.
class Lines {
 public:
  explicit Lines(Descriptor pipe) : pipe_(std::move(pipe)) {
    fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);
  }
  int fd() const { return pipe_.get(); }  // -1: it is at its end

  // What is there. `ends`: nobody writes any more who counts.
  void Read(bool ends, const std::function<void(const std::string&)>& on_line) {
    std::array<char, 16384> bytes{};
    while (pipe_.is_open()) {
      const ssize_t n = read(pipe_.get(), bytes.data(), bytes.size());
      for (ssize_t i = 0; i < n; ++i) Take(bytes[static_cast<size_t>(i)], on_line);
      const bool is_empty = n < 0 && (errno == EAGAIN || errno == EINTR);
      if (!ends && (n > 0 || is_empty)) return;  // others have their turn
      if (n > 0) continue;
      pipe_.Close();
      if (!line_.empty()) on_line(std::exchange(line_, {}));
    }
  }

 private:
  void Take(char c, const std::function<void(const std::string&)>& on_line) {
    const bool is_end = c == '\n';
    if (!is_end) line_ += c;
    if (is_end || line_.size() == kLongestLine) on_line(std::exchange(line_, {}));
  }

  Descriptor pipe_;
  std::string line_;  // that has no end yet
};

// What the hosts are told. Thread-safe: life signs go on while the main thread cannot print.
class Inputs {
 public:
  void Add(Descriptor pipe) {
    const MutexLock lock(mutex_);
    fcntl(pipe.get(), F_SETFL, O_NONBLOCK);  // who does not read holds nobody up
    pipes_.push_back(std::move(pipe));
  }
  void Tell(int host, const std::string& line) {
    const MutexLock lock(mutex_);
    Write(pipes_[static_cast<size_t>(host)], line);
  }
  void TellAll(const std::string& line) {
    const MutexLock lock(mutex_);
    for (const Descriptor& pipe : pipes_) Write(pipe, line);
  }
  void Close(int host) {
    const MutexLock lock(mutex_);
    pipes_[static_cast<size_t>(host)].Close();
  }

 private:
  // A line that does not fit whole is as good as one that was lost with its connection.
  static void Write(const Descriptor& pipe, const std::string& line) {
    if (!pipe.is_open()) return;
    [[maybe_unused]] const ssize_t n = write(pipe.get(), line.data(), line.size());
  }

  Mutex mutex_;
  std::vector<Descriptor> pipes_ ABSL_GUARDED_BY(mutex_);  // by host
};

// One ssh.
struct Child {
  pid_t pid = -1;
  Descriptor exit;  // readable once it has ended
  Lines out;
  Lines err;
};

[[noreturn]] void RunChild(const std::vector<char*>& words, int in, int out, int err,
                           pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(127);  // it ended before the line above
  setsid();  // Ctrl-C is for us, who tell the hosts; nor does it stop where it asks a terminal
  dup2(in, 0);
  dup2(out, 1);
  dup2(err, 2);
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) signal(s, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execvp(words[0], words.data());
  const std::string why = absl::StrCat(words[0], ": ", std::strerror(errno), "\n");
  [[maybe_unused]] const ssize_t n = write(2, why.data(), why.size());
  _exit(255);
}

class Runner {
 public:
  Runner(const SshRun& run, const Terminal& terminal)
      : run_(run), terminal_(terminal), hosts_(run.names, run.hosts_min, run.patience, Now()) {}

  absl::StatusOr<int> Run() {
    const std::string environment = EnvironmentLine(run_.environment);
    if (environment.size() > kLongestEnvironment)
      return absl::InvalidArgumentError(
          absl::StrCat("--env: names and values have ", environment.size(), " bytes, and ",
                       kLongestEnvironment, " are allowed: put them into a file"));
    sigset_t signals;
    sigemptyset(&signals);
    for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) sigaddset(&signals, s);
    signals_ = Descriptor(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_.is_open()) return SystemError("cannot watch for signals");
    for (const std::vector<std::string>& command : run_.commands)
      MUSTER_RETURN_IF_ERROR(Start(command));
    inputs_.TellAll(environment);
    const EachSecond alive([this] { inputs_.TellAll("alive\n"); });
    while (!hosts_.over()) {
      Await();
      Do(hosts_.Tick(Now()));
    }
    return hosts_.exit_code();
  }

  ~Runner() {
    for (const Child& child : children_) {
      if (child.pid < 0) continue;
      kill(child.pid, SIGKILL);  // one that is stopped would never end otherwise
      waitpid(child.pid, nullptr, 0);
    }
  }

 private:
  absl::Status Start(std::vector<std::string> command) {
    MUSTER_ASSIGN_OR_RETURN(Pipe in, MakePipe());
    MUSTER_ASSIGN_OR_RETURN(Pipe out, MakePipe());
    MUSTER_ASSIGN_OR_RETURN(Pipe err, MakePipe());
    std::vector<char*> words;
    for (std::string& word : command) words.push_back(word.data());
    words.push_back(nullptr);
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid < 0) return SystemError("cannot start ssh");
    if (pid == 0) RunChild(words, in.read.get(), out.write.get(), err.write.get(), parent);
    inputs_.Add(std::move(in.write));
    children_.push_back({.pid = pid,
                         .exit = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))),
                         .out = Lines(std::move(out.read)),
                         .err = Lines(std::move(err.read))});
    if (children_.back().exit.is_open()) return absl::OkStatus();
    return SystemError("no descriptor for a process (Linux 5.3 or newer is needed)");
  }

  // A second at most, as the hosts are looked at so often.
  void Await() {
    std::vector<pollfd> wait = {{.fd = signals_.get(), .events = POLLIN, .revents = 0}};
    for (const Child& child : children_)
      for (const int fd : {child.exit.get(), child.out.fd(), child.err.fd()})
        wait.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    if (poll(wait.data(), wait.size(), /*milliseconds=*/1000) < 1) return;
    if (wait[0].revents != 0) TakeSignals();
    for (size_t i = 0; i < children_.size(); ++i) {
      const bool has_ended = wait[3 * i + 1].revents != 0;
      if (has_ended || wait[3 * i + 2].revents != 0)
        children_[i].out.Read(has_ended, [&](const std::string& line) { OnLine(i, line); });
      if (has_ended || wait[3 * i + 3].revents != 0)
        children_[i].err.Read(has_ended, [&](const std::string& line) { Show(i, line, true); });
      if (has_ended) Reap(i);
    }
  }

  void TakeSignals() {
    signalfd_siginfo info;
    bool some = false;
    while (read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info))
      some = true;
    // A Ctrl-C may come twice, through the group and its leader.
    if (!some || (last_signal_ && Now() - *last_signal_ < std::chrono::seconds(1))) return;
    last_signal_ = Now();
    Do(hosts_.Signal(Now()));
  }

  // What the shell there prints before us is shown as it is, and may lack its end.
  void OnLine(size_t host, const std::string& line) {
    absl::string_view text = line;
    if (absl::ConsumeSuffix(&text, kSshBegun)) {
      Do(hosts_.Begun(static_cast<int>(host)));
      if (text.empty()) return;
    }
    if (host == 0 && text == kSshJoined) return hosts_.EnoughHaveJoined();
    Show(host, std::string(text), false);
  }

  // The first host shows the run, so its lines are the output of this command, too.
  void Show(size_t host, const std::string& line, bool is_error) {
    const bool is_output = host == 0 && !is_error;
    std::ostream& to = is_error || (run_.json && !is_output) ? terminal_.err : terminal_.out;
    to << (is_output ? "" : absl::StrCat("[", Printable(run_.names[host]), "] ")) << Printable(line)
       << std::endl;
  }

  void Reap(size_t host) {
    Child& child = children_[host];
    int status = 0;
    if (waitpid(std::exchange(child.pid, -1), &status, 0) < 0) status = 0xff00;
    child.exit.Close();
    inputs_.Close(static_cast<int>(host));
    Do(hosts_.Ended(static_cast<int>(host),
                    WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status), Now()));
  }

  void Do(const SshHosts::Actions& actions) {
    for (const SshHosts::Action& action : actions)
      std::visit([this](const auto& a) { Act(a); }, action);
  }
  void Act(const SshHosts::Say& say) {
    terminal_.err << "muster: " << PrintableLines(say.text) << std::endl;
  }
  void Act(const SshHosts::TellToStop& tell) { inputs_.Tell(tell.host, "stop\n"); }
  void Act(const SshHosts::CloseInput& close) { inputs_.Close(close.host); }
  void Act(const SshHosts::Kill& kill_it) {
    const Child& child = children_[static_cast<size_t>(kill_it.host)];
    if (child.pid > 0) kill(child.pid, kill_it.at_once ? SIGKILL : SIGTERM);
  }

  const SshRun& run_;
  const Terminal& terminal_;
  SshHosts hosts_;
  Descriptor signals_;
  std::vector<Child> children_;
  Inputs inputs_;
  std::optional<Time> last_signal_;
};

}  // namespace

int RunOverSsh(const SshRun& run, const Terminal& terminal) {
  RaiseDescriptorLimit();  // each host takes four
  const absl::StatusOr<int> code = Runner(run, terminal).Run();
  if (code.ok()) return *code;
  terminal.err << "muster: " << PrintableLines(code.status().message()) << std::endl;
  return ExitCodeOf(code.status());
}

}  // namespace muster::cli
