#include "cli/ssh_hosts.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/format.h"
#include "lib/base/exit_codes.h"

namespace muster::cli {
namespace {

constexpr int kSshFailed = 255;  // no program of ours ends so
// The other hosts read how the run ended once a second, and the first one waits for them.
constexpr Duration kOthersLeaveTime = std::chrono::seconds(75);
// The other end hears that its input is closed and ends within this time, or is left alone.
constexpr Duration kCloseTime = std::chrono::seconds(90);
// An ssh that is told to end does so, unless it is stopped or hangs in the system.
constexpr Duration kKillTime = std::chrono::seconds(5);

}  // namespace

std::vector<std::string> SshCommandFor(const SshCommand& command, const NamedHosts& list,
                                       int number) {
  std::vector<std::string> words = {command.program, "run"};
  words.insert(words.end(), command.words.begin(), command.words.end());
  const auto add = [&](const char* option, const std::string& value) {
    words.emplace_back(option);
    words.push_back(value);
  };
  add("--nnodes", absl::StrCat(command.hosts_min, ":", list.hosts.size()));
  add("--node-rank", absl::StrCat(number));
  if (!command.run_id.empty()) add("--run-id", command.run_id);
  if (list.slots) add("--nproc-per-node", absl::StrCat(*list.slots));
  words.emplace_back("--over-ssh");
  const auto quoted = [](std::string* out, const std::string& word) {
    absl::StrAppend(out, ShellWord(word));
  };
  // What the person's own configuration says of that host counts, but for what bounds the wait.
  return {"ssh",
          "-T",
          "-o",
          "BatchMode=yes",
          "-o",
          "ConnectTimeout=20",
          "-o",
          "ServerAliveInterval=10",
          "-o",
          "ServerAliveCountMax=3",
          "--",
          list.hosts[static_cast<size_t>(number)],
          absl::StrCat("cd ", ShellWord(command.folder), " && exec ",
                       absl::StrJoin(words, " ", quoted))};
}

std::vector<std::string> WordsForHosts(const std::vector<std::string>& words) {
  constexpr const char* kOurs[] = {"--hosts", "--hostfile", "--exclude",
                                   "--env",   "--nnodes",   "--nodes"};
  std::vector<std::string> kept;
  for (size_t i = 0; i < words.size(); ++i) {
    const bool is_ours = std::any_of(std::begin(kOurs), std::end(kOurs),
                                     [&](const char* option) { return words[i] == option; });
    const bool has_value = std::any_of(std::begin(kOurs), std::end(kOurs), [&](const char* option) {
      return absl::StartsWith(words[i], absl::StrCat(option, "="));
    });
    if (is_ours) ++i;  // its value is the next word
    if (!is_ours && !has_value) kept.push_back(words[i]);
  }
  return kept;
}

SshHosts::SshHosts(std::vector<std::string> names, int hosts_min, Duration patience, Time now)
    : hosts_min_(hosts_min), begin_until_(now + patience) {
  for (std::string& name : names) hosts_.push_back({.name = std::move(name)});
}

SshHosts::Actions SshHosts::Begun(int host) {
  hosts_[static_cast<size_t>(host)].has_begun = true;
  return {};
}

SshHosts::Actions SshHosts::Ended(int number, int code, Time now) {
  Actions out;
  Host& host = hosts_[static_cast<size_t>(number)];
  host.has_ended = true;
  const bool was_lost = code == kSshFailed || code < 0;
  if (number == 0) {
    if (was_lost)
      out.emplace_back(Say{absl::StrCat(
          "host ", host.name,
          host.has_begun ? ", the first one, is lost: its ssh has ended; the same command with the "
                           "same --dir goes on"
                         : ", the first one, cannot be reached by ssh, which says why above")});
    // It knows how the run ended, whatever we wanted; but that too few are left it is only told of
    // by an end.
    const bool knows = !was_lost && host.has_begun && !(too_few_ && code == kExitLater);
    if (knows || !exit_code_)
      exit_code_ = !was_lost ? code : host.has_begun ? kExitLater : kExitFailed;
    // The others read how the run ended, if anybody was left to write it.
    EndOthers(was_lost || !host.has_begun ? now : now + kOthersLeaveTime,
              now + kOthersLeaveTime + kCloseTime);
    for (Action& action : Tick(now)) out.push_back(std::move(action));
  } else {
    host.is_out = !host.has_begun || (code != kExitDone && code != kExitLater);
    if (host.is_out) OtherEnded(host, code, out);
  }
  return out;
}

// The run goes on without it, where there are enough.
void SshHosts::OtherEnded(Host& host, int code, Actions& out) {
  if (hosts_.front().has_ended || signals_ > 0) return;
  const bool was_lost = code == kSshFailed || code < 0;
  if (!host.has_begun) {
    out.emplace_back(
        Say{absl::StrCat("host ", host.name,
                         " cannot be reached by ssh, or cannot start muster there; what it "
                         "says stands above")});
  } else if (was_lost) {
    out.emplace_back(Say{absl::StrCat("host ", host.name, " is lost: its ssh has ended")});
  } else if (!enough_joined_) {  // later they all end as the run does
    out.emplace_back(Say{absl::StrCat("host ", host.name, " has ended with exit code ", code,
                                      "; what it says stands above")});
  }
  const auto left =
      std::count_if(hosts_.begin(), hosts_.end(), [](const Host& other) { return !other.is_out; });
  if (left >= hosts_min_ || enough_joined_ || exit_code_) return;
  out.emplace_back(Say{absl::StrCat(
      "only ", left, " of at least ", hosts_min_, " hosts are left, so the run ends; --nnodes MIN:",
      hosts_.size(), " begins with fewer, --exclude leaves hosts out")});
  exit_code_ = kExitFailed;
  too_few_ = true;
  CloseAll(out);
}

SshHosts::Actions SshHosts::Signal(Time now) {
  Actions out;
  ++signals_;
  // The first host stops the job after a checkpoint; the others hear of it by the shared folder.
  const bool is_gentle = signals_ == 1 && hosts_.front().has_begun && !hosts_.front().has_ended;
  if (is_gentle) {
    out.emplace_back(TellToStop{0});
    return out;
  }
  if (!exit_code_) exit_code_ = kExitLater;
  if (signals_ <= 2) {
    // At once: an input that is closed is a second SIGINT to one that had a first.
    CloseAll(out);
    if (!kill_at_) EndOthers(now, now + kCloseTime);
    return out;
  }
  for (size_t i = 0; i < hosts_.size(); ++i) KillPolitely(i, now, out);
  return out;
}

// Those that stay are killed by Tick.
void SshHosts::KillPolitely(size_t number, Time now, Actions& out) {
  Host& host = hosts_[number];
  if (host.has_ended || host.killed) return;
  host.killed = now;
  out.emplace_back(Kill{.host = static_cast<int>(number)});
}

SshHosts::Actions SshHosts::Tick(Time now) {
  Actions out;
  if (close_at_ && now >= *close_at_) {
    close_at_.reset();
    CloseAll(out);
  }
  const bool is_late = now >= begin_until_;
  for (size_t i = 0; i < hosts_.size(); ++i) {
    const bool never_began = is_late && !hosts_[i].has_begun;
    const bool never_ends = kill_at_ && now >= *kill_at_;
    if (!hosts_[i].has_ended && hosts_[i].killed && now >= *hosts_[i].killed + kKillTime)
      out.emplace_back(Kill{.host = static_cast<int>(i), .at_once = true});
    if (never_began || never_ends) KillPolitely(i, now, out);
  }
  return out;
}

void SshHosts::CloseAll(Actions& out) const {
  for (size_t i = 0; i < hosts_.size(); ++i)
    if (!hosts_[i].has_ended) out.emplace_back(CloseInput{static_cast<int>(i)});
}

void SshHosts::EndOthers(Time close_at, Time kill_at) {
  close_at_ = close_at;
  kill_at_ = kill_at;
}

bool SshHosts::over() const {
  return std::all_of(hosts_.begin(), hosts_.end(), [](const Host& host) { return host.has_ended; });
}

}  // namespace muster::cli
