#include "lib/data/decoder_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <deque>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/status.h"
#include "lib/data/decoder_wire.h"
#include "lib/data/hash_listener.h"
#include "lib/kernels/sha256.h"
#include "muster/data_set.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

constexpr char kProgramName[] = "muster-decoder";
constexpr size_t kMostWords = 1000;  // of an error
constexpr int kSocketBytes = 1 << 20;
constexpr size_t kMostKept = size_t{8} << 20;  // of memory for what is sent
// What a process knows of at a time, where it is asked for many.
constexpr size_t kMostAsked = 64;
constexpr size_t kMostBytesAsked = size_t{512} << 10;
// Of the time that the thread which trains may stand still, what one answer may take; five such
// waits are well within it. No answer needs longer than the longest.
constexpr int kAnswersInPatience = 8;
constexpr std::chrono::milliseconds kLongestPatience = std::chrono::seconds(60);

std::string ProgramOf(const DecoderOptions& options) {
  if (!options.program.empty()) return options.program;
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path beside = folder / kProgramName;
  return fs::exists(beside, error) ? beside.string()
                                   : (folder.parent_path() / "bin" / kProgramName).string();
}

// How it gave no answer, as HowItEnded says how it ended.
std::string WasSilent(absl::string_view patience) {
  return absl::StrCat("gave no answer within ", patience);
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

DecoderOptions DecoderOptionsOfThread() {
  DecoderOptions options;
  const HashListener* listener = CurrentHashListener();
  if (listener == nullptr) return options;
  options.patience = std::min(kLongestPatience, std::chrono::ceil<std::chrono::milliseconds>(
                                                    listener->patience / kAnswersInPatience));
  options.warns = listener->warns;
  return options;
}

absl::StatusOr<std::unique_ptr<DecoderProcess>> DecoderProcess::Start(
    const DecoderOptions& options) {
  const std::string program = ProgramOf(options);
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return CannotStart(program, errno);
  Descriptor ours(ends[0]), theirs(ends[1]);
  if (fcntl(ours.get(), F_SETFL, O_NONBLOCK) != 0) return CannotStart(program, errno);
  // An image has room in it, so that the process goes on with the next one. It may be given less.
  for (const int end : {ours.get(), theirs.get()})
    setsockopt(end, SOL_SOCKET, SO_SNDBUF, &kSocketBytes, sizeof(kSocketBytes));
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

absl::Status DecoderProcess::Wait(Deadline deadline) const {
  const bool has_more = sent_ < to_send_.size();
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now()).count();
    pollfd waited{socket_.get(), POLLIN, 0};
    if (has_more) waited.events |= POLLOUT;
    const int ready = left <= 0 ? 0 : poll(&waited, 1, static_cast<int>(left));
    if (ready > 0) return absl::OkStatus();
    if (ready == 0) return absl::DeadlineExceededError("");
    if (errno != EINTR) return absl::UnavailableError(std::generic_category().message(errno));
  }
}

absl::Status DecoderProcess::SendSome() {
  while (sent_ < to_send_.size()) {
    const ssize_t sent =
        send(socket_.get(), to_send_.data() + sent_, to_send_.size() - sent_, MSG_NOSIGNAL);
    if (sent >= 0)
      sent_ += static_cast<size_t>(sent);
    else if (errno == EAGAIN)
      return absl::OkStatus();
    else if (errno != EINTR)
      return absl::UnavailableError(std::generic_category().message(errno));
  }
  to_send_.clear();
  if (to_send_.capacity() > kMostKept) to_send_ = std::string();
  sent_ = 0;
  return absl::OkStatus();
}

absl::StatusOr<absl::string_view> DecoderProcess::Receive(size_t bytes, Deadline deadline) {
  while (!received_.Has(bytes)) {
    const absl::Span<char> room = received_.Room(bytes);
    const ssize_t got = recv(socket_.get(), room.data(), room.size(), 0);
    if (got == 0) return absl::UnavailableError("");
    if (got > 0) {
      received_.Wrote(static_cast<size_t>(got));
    } else if (errno == EAGAIN) {
      MUSTER_RETURN_IF_ERROR(SendSome());
      MUSTER_RETURN_IF_ERROR(Wait(deadline));
    } else if (errno != EINTR) {
      return absl::UnavailableError(std::generic_category().message(errno));
    }
  }
  return received_.Take(bytes);
}

absl::Status DecoderProcess::Failed(const absl::Status& status) {
  const absl::Status ended = Ended();
  return absl::IsDeadlineExceeded(status) ? status : ended;
}

void DecoderProcess::Ask(absl::string_view request) {
  to_send_ += WireWriter().Number(request.size()).bytes();
  to_send_.append(request.data(), request.size());
  SendSome().IgnoreError();  // who waits for the answer hears of it
}

absl::StatusOr<absl::string_view> DecoderProcess::NextAnswer() {
  const Deadline deadline = steady_clock::now() + patience_;
  const absl::StatusOr<absl::string_view> length = Receive(kLengthBytes, deadline);
  if (!length.ok()) return Failed(length.status());
  const uint64_t bytes = WireReader(*length).Number();
  if (bytes > kMostAnswerBytes) return Failed(absl::UnavailableError(""));
  absl::StatusOr<absl::string_view> answer = Receive(static_cast<size_t>(bytes), deadline);
  if (!answer.ok()) return Failed(answer.status());
  return answer;
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

void Decoders::CountDeath() {
  const MutexLock lock(mutex_);
  ++deaths_;
}

void Decoders::GiveBack(std::unique_ptr<DecoderProcess> process) {
  const MutexLock lock(mutex_);
  idle_.push_back(std::move(process));
}

std::string Decoders::Patience() const {
  return absl::StrCat(std::chrono::duration<double>(options_.patience).count(), " s");
}

// Whoever stops one of them often stops all, so those that are idle are not waited for in turn.
absl::Status Decoders::TookTooLong(absl::string_view about, Time from) {
  std::vector<std::unique_ptr<DecoderProcess>> ended;
  int silences = 0;
  {
    const MutexLock lock(mutex_);
    ++deaths_;
    ended.swap(idle_);
    if (from - last_silence_ > kAnswersInPatience * options_.patience) silences_ = 0;
    if (silences_ == 0 || from >= last_silence_) {
      ++silences_;
      last_silence_ = steady_clock::now();
    }
    silences = silences_;
  }
  if (options_.warns)
    options_.warns(absl::StrCat("muster-decoder gave no answer for ", about, " within ", Patience(),
                                "; it was ended, and another one takes its place"));
  if (silences <= options_.most_silences) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "muster-decoder, started anew each time, gave no answer ", silences, " times within ",
      Patience(),
      "; see whether this machine or its disk stands still, or many files are made so that they "
      "take too long"));
}

std::optional<std::string> Decoders::WhyItEndsThem(absl::string_view request) const {
  const MutexLock lock(mutex_);
  const auto found = std::find_if(fatal_.begin(), fatal_.end(), [&](const Fatal& fatal) {
    return fatal.bytes == request.size() && fatal.hash == HexSha256(request);
  });
  return found == fatal_.end() ? std::nullopt : std::optional(found->why);
}

absl::StatusOr<std::string> Decoders::Ask(absl::string_view request, absl::string_view about,
                                          int takes) {
  const std::optional<std::string> why = WhyItEndsThem(request);
  if (why) return BadSample(*why);
  return AskTwice(request, about, takes);
}

namespace {

absl::Status CheckRequest(absl::string_view request) {
  if (request.size() <= kMostRequestBytes) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("it has ", request.size(), " bytes; at most ",
                                          kMostRequestBytes, " are allowed"));
}

// kResourceExhausted: it says that it has no memory. kInternal: it talks nonsense. Else as what it
// says is meant.
absl::StatusOr<absl::string_view> WhatItSays(absl::string_view answer) {
  WireReader reader(answer);
  const uint64_t code = reader.Number();
  const absl::string_view text = reader.Text();
  if (!reader.AtEnd()) return absl::InternalError(kDecoderTalksNonsense);
  const absl::string_view words = text.substr(0, kMostWords);
  switch (static_cast<DecoderAnswer>(code)) {
    case DecoderAnswer::kRead: return text;
    case DecoderAnswer::kBadBytes: return BadSample(words);
    case DecoderAnswer::kFault: return absl::DataLossError(words);
    case DecoderAnswer::kOutOfMemory: return absl::ResourceExhaustedError(words);
  }
  return absl::InternalError(kDecoderTalksNonsense);
}

}  // namespace

absl::StatusOr<std::string> Decoders::AskTwice(absl::string_view request, absl::string_view about,
                                               int takes) {
  MUSTER_RETURN_IF_ERROR(CheckRequest(request));
  std::string why;
  bool is_own_fault = true;
  int took_too_long = 0;
  for (const bool again : {false, true}) {
    MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<DecoderProcess> process, Take(/*fresh=*/again));
    const Time from = steady_clock::now();
    process->Ask(request);
    const absl::StatusOr<absl::string_view> answer = process->NextAnswer();
    if (answer.ok()) {
      const absl::StatusOr<absl::string_view> said = WhatItSays(*answer);
      absl::StatusOr<std::string> told = said.ok() ? absl::StatusOr<std::string>(std::string(*said))
                                                   : absl::StatusOr<std::string>(said.status());
      if (said.ok() || IsBadSample(said.status())) GiveBack(std::move(process));
      if (!absl::IsResourceExhausted(said.status())) {
        if (absl::IsInternal(said.status())) return absl::DataLossError(said.status().message());
        return told;
      }
      if (again) return absl::DataLossError(said.status().message());
      is_own_fault = false;
      continue;
    }
    if (absl::IsDeadlineExceeded(answer.status())) {
      MUSTER_RETURN_IF_ERROR(TookTooLong(about, from));
      why = HasEnded(WasSilent(Patience()));
      if (++took_too_long == takes) break;
      continue;
    }
    why = HasEnded(answer.status().message());
    is_own_fault = is_own_fault && absl::IsUnavailable(answer.status());
    CountDeath();
  }
  if (!is_own_fault) return absl::DataLossError(why);
  if (took_too_long == takes)
    why = absl::StrCat("two processes that were to decode it, one after the other, ",
                       WasSilent(Patience()));
  const MutexLock lock(mutex_);
  fatal_.push_back({request.size(), HexSha256(request), why});
  return BadSample(why);
}

absl::StatusOr<Decoders::Asked> Decoders::AskForMany(NextRequest next, TakeAnswer take,
                                                     NameOf about) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<DecoderProcess> process, Take(/*fresh=*/false));
  std::deque<size_t> asked;  // bytes of those that are not answered
  size_t bytes_asked = 0;
  bool are_more = true;
  for (size_t part = 0;; ++part) {
    while (are_more && asked.size() < kMostAsked &&
           (asked.empty() || bytes_asked < kMostBytesAsked)) {
      const std::optional<std::string> request = next(part + asked.size());
      are_more = request.has_value();
      if (!are_more) break;
      process->Ask(*request);
      asked.push_back(request->size());
      bytes_asked += request->size();
    }
    if (asked.empty()) {
      GiveBack(std::move(process));
      return Asked{part};
    }
    const Time from = steady_clock::now();
    const absl::StatusOr<absl::string_view> answer = process->NextAnswer();
    if (absl::IsDeadlineExceeded(answer.status())) {
      MUSTER_RETURN_IF_ERROR(TookTooLong(about(part), from));
      return Asked{part, /*took_too_long=*/true};
    }
    if (!answer.ok()) {
      CountDeath();
      return Asked{part};
    }
    const absl::StatusOr<absl::string_view> said = WhatItSays(*answer);
    // It may have more room for what it is short of when it is asked for that alone.
    if (absl::IsResourceExhausted(said.status()) || absl::IsInternal(said.status()))
      return Asked{part};
    take(part, said);
    bytes_asked -= asked.front();
    asked.pop_front();
  }
}

}  // namespace muster
