#include "cli/doctor/network.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lib/base/descriptor.h"
#include "lib/base/loopback.h"
#include "lib/base/plural.h"
#include "lib/base/printable.h"
#include "lib/base/socket_address.h"
#include "lib/base/status.h"
#include "lib/base/this_process.h"
#include "lib/base/whole_file.h"

namespace muster::cli::doctor {
namespace {

// Each session takes one at the end that connects, each member one more.
constexpr int64_t kManyPorts = 1024;
constexpr size_t kMostBytesOfSockets = size_t{64} << 20;  // of a list of the kernel's

bool IsLoopback(const std::string& ip) { return IsLoopbackAddress(absl::StrCat(ip, ":0")); }

absl::Status SystemError(int number, absl::string_view what) {
  const std::string text = absl::StrCat(what, ": ", std::strerror(number));
  switch (number) {
    case EADDRINUSE: return absl::AlreadyExistsError(text);
    case EACCES:
    case EPERM: return absl::PermissionDeniedError(text);
    case EADDRNOTAVAIL: return absl::InvalidArgumentError(text);
    case ETIMEDOUT: return absl::DeadlineExceededError(text);
    default: return absl::UnavailableError(text);
  }
}

absl::StatusOr<Descriptor> ListenAt(const SocketAddress& at) {
  Descriptor listener(
      socket(at.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, /*protocol=*/0));
  if (listener.get() < 0) return SystemError(errno, "make a socket");
  const int on = 1;  // as the servers do it: what is left of earlier connections is no hindrance
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&at.storage), at.size) != 0)
    return SystemError(errno, "bind");
  if (listen(listener.get(), 1) != 0) return SystemError(errno, "listen");
  return listener;
}

absl::Status ConnectTo(const SocketAddress& at, Duration patience) {
  const Descriptor connection(
      socket(at.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, /*protocol=*/0));
  if (connection.get() < 0) return SystemError(errno, "make a socket");
  const auto* to = reinterpret_cast<const sockaddr*>(&at.storage);
  if (connect(connection.get(), to, at.size) == 0) return absl::OkStatus();
  if (errno != EINPROGRESS) return SystemError(errno, "connect");
  pollfd wait{.fd = connection.get(), .events = POLLOUT, .revents = 0};
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(patience).count();
  if (poll(&wait, 1, static_cast<int>(milliseconds)) != 1) return SystemError(ETIMEDOUT, "connect");
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(connection.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? absl::OkStatus() : SystemError(error, "connect");
}

absl::Status ReachesItself(const std::string& ip, Duration patience) {
  MUSTER_ASSIGN_OR_RETURN(const HostPort host, ParseHostPort(absl::StrCat(BeforePort(ip), ":0")));
  MUSTER_ASSIGN_OR_RETURN(SocketAddress at, ToSocketAddress(host));
  MUSTER_ASSIGN_OR_RETURN(const Descriptor listener, ListenAt(at));
  auto* chosen = reinterpret_cast<sockaddr*>(&at.storage);
  if (getsockname(listener.get(), chosen, &at.size) != 0) return SystemError(errno, "listen");
  return ConnectTo(at, patience);
}

// "32768	60999".
std::optional<int64_t> FreePorts(const std::string& root) {
  const std::string text =
      ReadWholeFile(root + "/proc/sys/net/ipv4/ip_local_port_range").value_or("");
  const std::vector<std::string> words =
      absl::StrSplit(text, absl::ByAnyChar(" \t\n"), absl::SkipEmpty());
  int64_t first = 0, last = 0;
  if (words.size() != 2 || !absl::SimpleAtoi(words[0], &first) ||
      !absl::SimpleAtoi(words[1], &last))
    return std::nullopt;
  return last - first + 1;
}

// Of the sockets that listen at the port. Lines "NUMBER: LOCAL REMOTE STATE … INODE …", addresses
// as ADDRESS:PORT in hexadecimal digits.
std::set<std::string> ListenersAt(uint16_t port, const std::string& root) {
  constexpr char kListens[] = "0A";
  std::set<std::string> inodes;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    const std::string text = ReadWholeFile(root + table, kMostBytesOfSockets).value_or("");
    for (const absl::string_view line : absl::StrSplit(text, '\n')) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
      if (words.size() < 10 || words[3] != kListens) continue;
      const std::vector<std::string> local = absl::StrSplit(words[1], ':');
      uint32_t number = 0;
      if (local.size() == 2 && absl::SimpleHexAtoi(local[1], &number) && number == port)
        inodes.insert(words[9]);
    }
  }
  return inodes;
}

bool HasOneOf(const std::filesystem::path& process, const std::set<std::string>& links) {
  std::error_code none;
  for (const auto& file : std::filesystem::directory_iterator(process / "fd", none))
    if (links.contains(std::filesystem::read_symlink(file.path(), none).string())) return true;
  return false;
}

}  // namespace

NameFacts GatherName(const Resolver& resolve) {
  const std::string host = HostName();
  return {.host = host, .found = resolve(host), .own = OwnAddresses()};
}

Finding JudgeName(const NameFacts& facts) {
  constexpr char kCheck[] = "name";
  constexpr char kAdvice[] =
      "correct /etc/hosts or the DNS; or give addresses: --address to muster agent, --coordinator "
      "or --interface to muster run";
  if (!facts.found.ok())
    return Warning(kCheck,
                   absl::StrCat("The name of this machine, ", Printable(facts.host),
                                ", stands for no address. muster run finds the first host by its "
                                "name."),
                   kAdvice);
  const auto is_own = [&](const std::string& ip) {
    return std::any_of(facts.own.begin(), facts.own.end(),
                       [&](const OwnAddress& a) { return BeforePort(a.ip) == ip; });
  };
  const std::string list = absl::StrJoin(*facts.found, ", ");
  const std::string text =
      absl::StrCat("The name of this machine, ", Printable(facts.host), ", stands for ", list);
  const bool has_others = std::any_of(facts.own.begin(), facts.own.end(), [](const OwnAddress& a) {
    return !IsLoopback(BeforePort(a.ip));
  });
  // It is taken at its word (lib/launch/own_address.h).
  if (has_others && facts.found->front() == "127.0.0.1")
    return Warning(kCheck,
                   absl::StrCat(text,
                                ": the first host of a muster run listens there, and nobody "
                                "from another machine comes to it."),
                   absl::StrCat("where a run has several machines, ", kAdvice));
  if (std::all_of(facts.found->begin(), facts.found->end(), IsLoopback))
    return Ok(kCheck, absl::StrCat(text,
                                   ", which leads nobody here from elsewhere; another address "
                                   "of this machine is taken."));
  if (std::none_of(facts.found->begin(), facts.found->end(), is_own))
    return Warning(kCheck, absl::StrCat(text, ", which is no address of an interface here."),
                   kAdvice);
  return Ok(kCheck, absl::StrCat(text, "."));
}

AddressFacts GatherAddresses(Duration patience, const std::string& root) {
  AddressFacts facts{.own = OwnAddresses(), .free_ports = FreePorts(root)};
  for (const OwnAddress& own : facts.own)
    if (!IsLoopback(BeforePort(own.ip)))
      facts.reached.emplace_back(own.ip, ReachesItself(own.ip, patience));
  return facts;
}

Findings JudgeAddresses(const AddressFacts& facts) {
  constexpr char kCheck[] = "addresses";
  Findings findings;
  std::vector<std::string> good;
  for (const auto& [ip, reached] : facts.reached) {
    if (reached.ok()) {
      good.push_back(ip);
      continue;
    }
    findings.push_back(
        Problem(kCheck,
                absl::StrCat("This machine does not reach itself at ", ip, " (", reached.message(),
                             "), so members that listen there are not reached either."),
                "let the firewall pass TCP among the hosts of the cluster, or give another address "
                "with --address"));
  }
  if (facts.reached.empty())
    findings.push_back(
        Warning(kCheck,
                "This machine has no address but loopback, so no other host can "
                "join it, and it can join none.",
                "bring a network interface up, where there are to be several hosts"));
  if (!good.empty())
    findings.push_back(
        Ok(kCheck, absl::StrCat("Members can listen at ", absl::StrJoin(good, ", "), ".")));
  if (facts.free_ports && *facts.free_ports < kManyPorts)
    findings.push_back(
        Warning("port range",
                absl::StrCat("The kernel chooses from ", Plural(*facts.free_ports, "port"),
                             " only, and each member and each session takes one."),
                "widen it: sysctl net.ipv4.ip_local_port_range='32768 60999'"));
  return findings;
}

std::string HolderOf(uint16_t port, const std::string& root) {
  std::set<std::string> links;
  for (const std::string& inode : ListenersAt(port, root))
    links.insert(absl::StrCat("socket:[", inode, "]"));
  if (links.empty()) return "";
  std::error_code none;
  for (const auto& process : std::filesystem::directory_iterator(root + "/proc", none)) {
    const std::string pid = process.path().filename();
    if (!absl::ascii_isdigit(static_cast<unsigned char>(pid[0]))) continue;
    if (!HasOneOf(process.path(), links)) continue;
    // Words that end with a zero each, the first of which is the program; the kernel's own name for
    // it is cut at 15 characters.
    const std::string words = ReadWholeFile(process.path() / "cmdline").value_or("");
    const std::string program = words.substr(0, words.find('\0'));
    const std::string name = program.substr(program.rfind('/') + 1);
    return absl::StrCat(name.empty() ? "a program" : Cut(Printable(name), 64), " (process ", pid,
                        ")");
  }
  return "";
}

PortFacts GatherPort(const std::string& address, const std::string& root) {
  PortFacts facts{.address = address};
  facts.listens = CheckListensHere(OwnAddresses(), "--listen", address);
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  if (!facts.listens.ok() || !parsed.ok()) return facts;
  const absl::StatusOr<SocketAddress> at = ToSocketAddress(*parsed);
  facts.listens = at.ok() ? ListenAt(*at).status() : at.status();
  if (absl::IsAlreadyExists(facts.listens)) facts.holder = HolderOf(parsed->port, root);
  return facts;
}

Finding JudgePort(const PortFacts& facts) {
  const std::string check = absl::StrCat("port ", facts.address);
  if (facts.listens.ok()) return Ok(check, "It is free to be listened on.");
  if (facts.is_of_folder) return Ok(check, "The cluster answers there.");
  if (absl::IsAlreadyExists(facts.listens)) {
    const std::string text = absl::StrCat(
        "It is taken by ", facts.holder.empty() ? "a program of another user" : facts.holder, ".");
    const std::string advice = "end that program, or give another port to muster up --listen";
    return facts.is_named ? Problem(check, text, advice) : Warning(check, text, advice);
  }
  if (absl::IsPermissionDenied(facts.listens))
    return Problem(
        check, "This user may not listen there.",
        "take a port above 1023, or let sysctl net.ipv4.ip_unprivileged_port_start begin "
        "below it");
  return Problem(check,
                 absl::StrCat("Nothing can listen there: ", Sentence(facts.listens.message())),
                 "name a numeric address of this machine, and a port");
}

std::vector<ReachFacts> GatherReach(const std::vector<std::string>& addresses, Duration patience,
                                    const Resolver& resolve) {
  std::vector<ReachFacts> all;
  for (const std::string& address : addresses) {
    ReachFacts facts{.address = address, .found = std::vector<std::string>{}};
    const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
    facts.found = parsed.ok() ? resolve(parsed->host) : parsed.status();
    facts.reached = absl::UnavailableError("no address was tried");
    if (facts.found.ok())
      for (const std::string& ip : *facts.found) {
        const absl::StatusOr<HostPort> numeric = ParseHostPort(absl::StrCat(ip, ":", parsed->port));
        const absl::StatusOr<SocketAddress> at =
            numeric.ok() ? ToSocketAddress(*numeric) : numeric.status();
        facts.reached = at.ok() ? ConnectTo(*at, patience) : at.status();
        if (facts.reached.ok()) break;
      }
    all.push_back(std::move(facts));
  }
  return all;
}

Findings JudgeReach(const std::vector<ReachFacts>& facts) {
  const bool one_answers =
      std::any_of(facts.begin(), facts.end(), [](const ReachFacts& f) { return f.reached.ok(); });
  Findings findings;
  for (const ReachFacts& f : facts) {
    const std::string check = absl::StrCat("way to ", Printable(f.address));
    Finding finding = Ok(check, "A program listens there.");
    if (!f.found.ok())
      finding = Problem(check, Sentence(f.found.status().message()),
                        "correct the name, /etc/hosts or the DNS; or give the address itself");
    else if (absl::IsDeadlineExceeded(f.reached))
      finding = Problem(
          check, absl::StrCat("Nothing comes back from ", absl::StrJoin(*f.found, ", "), "."),
          "let the firewalls on the way pass this port; see whether that machine is "
          "up, and whether its address is right");
    else if (!f.reached.ok())
      finding = Problem(check, absl::StrCat("Nobody listens there (", f.reached.message(), ")."),
                        "start the coordinator (muster up --coordinator), on an address that other "
                        "hosts reach, or correct the port");
    // A coordinator is at one address of the list, and may move to another one.
    if (finding.verdict == Verdict::kProblem && one_answers) {
      finding.verdict = f.found.ok() ? Verdict::kOk : Verdict::kWarning;
      if (f.found.ok()) finding.advice.clear();
      finding.text += " Another address of the list answers.";
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace muster::cli::doctor
