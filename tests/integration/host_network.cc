#include "tests/integration/host_network.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include "tests/support/program.h"

namespace muster::integration {
namespace {

constexpr char kOurs[] = "/proc/self/ns/net";

// "socket:[4711]" for each that the process has open.
std::set<std::string> SocketsOf(pid_t process) {
  std::set<std::string> sockets;
  std::error_code gone;
  const std::string folder = "/proc/" + std::to_string(process) + "/fd";
  for (const auto& entry : std::filesystem::directory_iterator(folder, gone)) {
    const std::filesystem::path target = std::filesystem::read_symlink(entry.path(), gone);
    if (!gone) sockets.insert(target.string());
  }
  return sockets;
}

// "…:1F90" → 8080
int PortIn(const std::string& address) {
  return std::stoi(address.substr(address.rfind(':') + 1), nullptr, 16);
}

// The ports from which the process has connections to that port.
std::vector<int> PortsOf(pid_t process, int port) {
  const std::set<std::string> sockets = SocketsOf(process);
  std::vector<int> ports;
  for (const char* table : {"tcp", "tcp6"}) {
    std::ifstream lines("/proc/" + std::to_string(process) + "/net/" + table);
    std::string line;
    std::getline(lines, line);  // the head
    while (std::getline(lines, line)) {
      std::istringstream words(line);
      std::string slot, local, remote, state, queues, timer, resent, user, timeout, inode;
      words >> slot >> local >> remote >> state >> queues >> timer >> resent >> user >> timeout >>
          inode;
      if (PortIn(remote) == port && sockets.contains("socket:[" + inode + "]"))
        ports.push_back(PortIn(local));
    }
  }
  return ports;
}

std::function<bool()> Inside(int name_space) {
  return [name_space] { return setns(name_space, CLONE_NEWNET) == 0; };
}

}  // namespace

int RunAsProcessOne(const std::function<int()>& run) {
  if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) return run();
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const bool sees_itself = mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                             mount("proc", "/proc", "proc", 0, nullptr) == 0;
    _exit(sees_itself ? run() : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

HostNetwork::HostNetwork(int hosts, Wire wire) {
  bridge_ = NewNamespace();
  for (int i = 0; i < hosts; ++i) {
    hosts_.push_back(NewNamespace());
    addresses_.push_back(i + 1);
  }
  Ip(bridge_, {"link", "add", "bridge", "type", "bridge"});
  Ip(bridge_, {"link", "set", "bridge", "up"});
  for (int i = 0; i < hosts; ++i) Connect(i, wire);
}

Descriptor HostNetwork::NewNamespace() {
  if (!missing_.empty()) return {};
  const Descriptor ours(open(kOurs, O_RDONLY | O_CLOEXEC));
  if (unshare(CLONE_NEWNET) != 0) {
    missing_ = std::string("network namespaces cannot be made here: ") + std::strerror(errno);
    return {};
  }
  Descriptor made(open(kOurs, O_RDONLY | O_CLOEXEC));
  if (setns(ours.get(), CLONE_NEWNET) != 0) missing_ = "there is no way back";
  return made;
}

// Its frames have whole checksums and are no longer than the MTU, because the device says that it
// can do nothing for the kernel.
Descriptor HostNetwork::NewTap(const Descriptor& where, const std::string& name) {
  if (!missing_.empty()) return {};
  const Descriptor ours(open(kOurs, O_RDONLY | O_CLOEXEC));
  if (setns(where.get(), CLONE_NEWNET) != 0) missing_ = "there is no way there";
  Descriptor tap(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  ifreq request{};
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  if (missing_.empty() && (!tap.is_open() || ioctl(tap.get(), TUNSETIFF, &request) != 0))
    missing_ = std::string("TAP devices cannot be made here: ") + std::strerror(errno);
  if (setns(ours.get(), CLONE_NEWNET) != 0) missing_ = "there is no way back";
  return tap;
}

std::string HostNetwork::Run(const Descriptor& where, std::vector<std::string> words) {
  if (!missing_.empty()) return "";
  words[0] = "/usr/sbin/" + words[0];
  Program program(words, Inside(where.get()));
  const int exit_code = program.End();
  if (exit_code == 0) return program.output();
  if (exit_code == 127) missing_ = "not installed, see ./dev setup: ";
  for (const std::string& word : words) missing_ += word + " ";
  missing_ += "fails: " + program.output();
  return "";
}

void HostNetwork::Ip(const Descriptor& where, std::vector<std::string> words) {
  words.insert(words.begin(), "ip");
  Run(where, std::move(words));
}

std::string HostNetwork::Rules(int host, std::vector<std::string> words) {
  words.insert(words.begin(), {"iptables", "-w"});
  return Run(Host(host), std::move(words));
}

void HostNetwork::Connect(int host, Wire wire) {
  const Descriptor& there = Host(host);
  if (wire == Wire::kRelay) {
    Descriptor port = NewTap(bridge_, Port(host));
    relays_.push_back(std::make_unique<FrameRelay>(NewTap(there, "wire"), std::move(port),
                                                   static_cast<uint64_t>(host)));
  } else {
    const std::string path =
        "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(there.get());
    Ip(bridge_, {"link", "add", Port(host), "type", "veth", "peer", "name", "wire", "netns", path});
  }
  Ip(bridge_, {"link", "set", Port(host), "master", "bridge"});
  Ip(bridge_, {"link", "set", Port(host), "up"});
  Ip(there, {"address", "add", Address(host) + "/24", "dev", "wire"});
  Ip(there, {"link", "set", "wire", "up"});
  Ip(there, {"link", "set", "lo", "up"});
}

// What a host says to itself goes by another device, and is not touched by any rule.
void HostNetwork::CutInbound(int host) { Rules(host, {"-A", "INPUT", "-i", "wire", "-j", "DROP"}); }

void HostNetwork::CutOutbound(int host) {
  Rules(host, {"-A", "OUTPUT", "-o", "wire", "-j", "DROP"});
}

void HostNetwork::CutOneWay(int from, int to) {
  Rules(to, {"-A", "INPUT", "-s", Address(from), "-j", "DROP"});
}

void HostNetwork::CutPair(int host, int other) {
  CutOneWay(other, host);
  CutOneWay(host, other);
}

void HostNetwork::Lose(int host, double probability) {
  Rules(host, {"-A", "INPUT", "-i", "wire", "-m", "statistic", "--mode", "random", "--probability",
               std::to_string(probability), "-j", "DROP"});
}

void HostNetwork::DropLongerThan(int host, int bytes) {
  Rules(host, {"-A", "OUTPUT", "-o", "wire", "-m", "length", "--length",
               std::to_string(bytes + 1) + ":", "-j", "DROP"});
}

void HostNetwork::ResetConnections(int host) {
  Rules(host,
        {"-A", "INPUT", "-i", "wire", "-p", "tcp", "-j", "REJECT", "--reject-with", "tcp-reset"});
}

void HostNetwork::ResetConnectionsAfter(int host, int64_t bytes) {
  Rules(host, {"-A", "INPUT", "-i", "wire", "-p", "tcp", "-m", "connbytes", "--connbytes",
               std::to_string(bytes) + ":", "--connbytes-dir", "both", "--connbytes-mode", "bytes",
               "-j", "REJECT", "--reject-with", "tcp-reset"});
}

// First it can make no new one, then those that it has are found.
void HostNetwork::CutConnections(int host, pid_t process, int port) {
  const std::string to = std::to_string(port);
  Rules(host, {"-A", "OUTPUT", "-o", "wire", "-p", "tcp", "--syn", "--dport", to, "-j", "DROP"});
  const std::vector<int> own = PortsOf(process, port);
  if (own.empty() && missing_.empty()) missing_ = "the process has no connection to port " + to;
  for (const int from : own)
    Rules(host, {"-A", "OUTPUT", "-o", "wire", "-p", "tcp", "--sport", std::to_string(from),
                 "--dport", to, "-j", "DROP"});
}

void HostNetwork::Readdress(int host) {
  const Descriptor& there = Host(host);
  Ip(there, {"address", "flush", "dev", "wire"});
  addresses_[static_cast<size_t>(host)] += 100;
  Ip(there, {"address", "add", Address(host) + "/24", "dev", "wire"});
}

int64_t HostNetwork::PacketsTaken(int host) {
  std::istringstream lines(Rules(host, {"-L", "-v", "-x", "-n"}));
  int64_t taken = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    int64_t packets = 0, bytes = 0;
    if (words >> packets >> bytes) taken += packets;
  }
  return taken;
}

void HostNetwork::LiftRules(int host) { Rules(host, {"-F"}); }

void HostNetwork::Narrow(int host, const std::string& rate) {
  Run(Host(host), {"tc", "qdisc", "add", "dev", "wire", "root", "tbf", "rate", rate, "burst",
                   "16kbit", "latency", "100ms"});
}

void HostNetwork::Widen(int host) {
  Run(Host(host), {"tc", "qdisc", "del", "dev", "wire", "root"});
}

void HostNetwork::Unplug(int host) { Ip(Host(host), {"link", "set", "wire", "down"}); }

void HostNetwork::PlugIn(int host) { Ip(Host(host), {"link", "set", "wire", "up"}); }

std::function<bool()> HostNetwork::On(int host) const { return Inside(Host(host).get()); }

std::string HostNetwork::Address(int host) const {
  return "10.77.0." + std::to_string(addresses_[static_cast<size_t>(host)]);
}

}  // namespace muster::integration
