#include "lib/data/decoder_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/status.h"
#include "lib/data/decoder_wire.h"
#include "lib/kernels/sha256.h"
#include "muster/data_set.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

constexpr char kProgramName[] = "muster-decoder";
constexpr size_t kMostWords = 1000;  // of an error

std::string ProgramOf(const DecoderOptions& options) {
  if (!options.program.empty()) return options.program;
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path beside = folder / kProgramName;
  return fs::exists(beside, error) ? beside.string()
                                   : (folder.parent_path() / "bin" / kProgramName).string();
}

std::string HasEnded(absl::string_view how) {
  return absl::StrCat("the process that decodes it ", how);
}

std::string HowItEnded(int status) {
  if (WIFSIGNALED(status)) return absl::StrCat("ended by signal ", WTERMSIG(status));
  return absl::StrCat("ended with exit code ", WEXITSTATUS(status));
}

// By what a file has made of it. All other signals come from somebody, or from the machine, such as
// SIGBUS where a page of the program cannot be read; and it leaves only where it cannot begin.
bool IsItsOwnFault(int status) {
  if (!WIFSIGNALED(status)) return false;
  const int signal = WTERMSIG(status);
  return signal == SIGSEGV || signal == SIGABRT || signal == SIGFPE || signal == SIGILL;
}

absl::Status CannotStart(const std::string& program, int error) {
  return absl::InternalError(absl::StrCat(
      program,
      ", which decodes this format, cannot be started: ", std::generic_category().message(error)));
}

// Signals are as at the begin of a program, whatever this thread has made of them.
int Spawn(const std::string& program, std::vector<std::string> words, int socket, pid_t& pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int error =
      posix_spawn(&pid, program.c_str(), &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DecoderProcess>> DecoderProcess::Start(
    const DecoderOptions& options) {
  const std::string program = ProgramOf(options);
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return CannotStart(program, errno);
  Descriptor ours(ends[0]), theirs(ends[1]);
  if (fcntl(ours.get(), F_SETFL, O_NONBLOCK) != 0) return CannotStart(program, errno);
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(options.patience).count();
  pid_t pid = -1;
  const int error =
      Spawn(program, {kProgramName, absl::StrCat(options.memory), absl::StrCat(seconds)},
            theirs.get(), pid);
  if (error != 0) return CannotStart(program, error);
  return std::unique_ptr<DecoderProcess>(
      new DecoderProcess(pid, std::move(ours), options.patience));
}

DecoderProcess::~DecoderProcess() { Ended().IgnoreError(); }

// One that has ended by itself keeps the cause that it had.
absl::Status DecoderProcess::Ended() {
  if (pid_ < 0) return absl::OkStatus();
  int status = 0;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return IsItsOwnFault(status) ? absl::UnavailableError(HowItEnded(status))
                               : absl::AbortedError(HowItEnded(status));
}

absl::Status DecoderProcess::WaitFor(short events, Deadline deadline) const {  // NOLINT: poll's
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now()).count();
    pollfd waited{socket_.get(), events, 0};
    const int ready = left <= 0 ? 0 : poll(&waited, 1, static_cast<int>(left));
    if (ready > 0) return absl::OkStatus();
    if (ready == 0) return absl::DeadlineExceededError("");
    if (errno != EINTR) return absl::UnavailableError(std::generic_category().message(errno));
  }
}

absl::Status DecoderProcess::Send(absl::string_view bytes, Deadline deadline) const {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      MUSTER_RETURN_IF_ERROR(WaitFor(POLLOUT, deadline));
    } else if (errno != EINTR) {
      return absl::UnavailableError(std::generic_category().message(errno));
    }
  }
  return absl::OkStatus();
}

absl::Status DecoderProcess::Receive(char* into, size_t bytes, Deadline deadline) const {
  while (bytes > 0) {
    const ssize_t got = recv(socket_.get(), into, bytes, 0);
    if (got == 0) return absl::UnavailableError("");
    if (got > 0) {
      into += got;
      bytes -= static_cast<size_t>(got);
    } else if (errno == EAGAIN) {
      MUSTER_RETURN_IF_ERROR(WaitFor(POLLIN, deadline));
    } else if (errno != EINTR) {
      return absl::UnavailableError(std::generic_category().message(errno));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> DecoderProcess::Exchange(absl::string_view request) {
  const Deadline deadline = steady_clock::now() + patience_;
  std::string answer;
  const auto exchange = [&]() -> absl::Status {
    MUSTER_RETURN_IF_ERROR(Send(WireWriter().Number(request.size()).bytes(), deadline));
    MUSTER_RETURN_IF_ERROR(Send(request, deadline));
    char length[kLengthBytes] = {};
    MUSTER_RETURN_IF_ERROR(Receive(length, sizeof(length), deadline));
    const uint64_t bytes = WireReader({length, sizeof(length)}).Number();
    if (bytes > kMostAnswerBytes) return absl::UnavailableError("");
    answer.resize(static_cast<size_t>(bytes));
    return Receive(answer.data(), answer.size(), deadline);
  };
  const absl::Status status = exchange();
  if (status.ok()) return answer;
  const absl::Status ended = Ended();
  return absl::IsDeadlineExceeded(status) ? status : ended;
}

absl::StatusOr<std::unique_ptr<DecoderProcess>> Decoders::Take(bool fresh) {
  {
    const MutexLock lock(mutex_);
    if (deaths_ > options_.most_deaths)
      return absl::InternalError(
          absl::StrCat("the process that decodes it has ended ", deaths_,
                       " times, and is not started again; look for what ends it"));
    if (!fresh && !idle_.empty()) {
      std::unique_ptr<DecoderProcess> taken = std::move(idle_.back());
      idle_.pop_back();
      return taken;
    }
  }
  return DecoderProcess::Start(options_);
}

void Decoders::GiveBack(std::unique_ptr<DecoderProcess> process) {
  const MutexLock lock(mutex_);
  idle_.push_back(std::move(process));
}

absl::StatusOr<std::string> Decoders::Ask(absl::string_view request) {
  const auto is_this = [&](const Fatal& fatal) {
    return fatal.bytes == request.size() && fatal.hash == HexSha256(request);
  };
  {
    const MutexLock lock(mutex_);
    const auto found = std::find_if(fatal_.begin(), fatal_.end(), is_this);
    if (found != fatal_.end()) return BadSample(HasEnded(found->how));
  }
  return AskUpTo(2, request);
}

absl::StatusOr<std::string> Decoders::AskForMany(absl::string_view request) {
  absl::StatusOr<std::string> answer = AskUpTo(1, request);
  if (IsBadSample(answer.status())) return absl::DataLossError(answer.status().message());
  return answer;
}

absl::StatusOr<std::string> Decoders::AskUpTo(int attempts, absl::string_view request) {
  if (request.size() > kMostRequestBytes)
    return absl::DataLossError(absl::StrCat("it has ", request.size(), " bytes; at most ",
                                            kMostRequestBytes, " are allowed"));
  std::string ended;
  bool is_own_fault = true;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<DecoderProcess> process, Take(attempt > 0));
    const absl::StatusOr<std::string> answer = process->Exchange(request);
    if (answer.ok()) {
      WireReader reader(*answer);
      const uint64_t code = reader.Number();
      const absl::string_view text = reader.Text();
      if (!reader.AtEnd() || code > static_cast<uint64_t>(DecoderAnswer::kOutOfMemory))
        return absl::DataLossError(kDecoderTalksNonsense);
      const absl::string_view words = text.substr(0, kMostWords);
      switch (static_cast<DecoderAnswer>(code)) {
        case DecoderAnswer::kRead: GiveBack(std::move(process)); return std::string(text);
        case DecoderAnswer::kBadBytes: GiveBack(std::move(process)); return BadSample(words);
        case DecoderAnswer::kFault: return absl::DataLossError(words);
        case DecoderAnswer::kOutOfMemory: break;
      }
      if (attempt + 1 == attempts) return absl::DataLossError(words);
      is_own_fault = false;
      continue;
    }
    ended = std::string(answer.status().message());
    is_own_fault = is_own_fault && absl::IsUnavailable(answer.status());
    const MutexLock lock(mutex_);
    ++deaths_;
    if (absl::IsDeadlineExceeded(answer.status()))
      return absl::DataLossError(absl::StrCat(
          "it could not be decoded in ",
          std::chrono::duration_cast<std::chrono::seconds>(options_.patience).count(), " s"));
  }
  if (!is_own_fault || attempts == 1) return absl::DataLossError(HasEnded(ended));
  const MutexLock lock(mutex_);
  fatal_.push_back({request.size(), HexSha256(request), ended});
  return BadSample(HasEnded(ended));
}

}  // namespace muster
