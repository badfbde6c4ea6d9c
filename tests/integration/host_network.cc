#include "tests/integration/host_network.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "tests/support/program.h"

namespace muster::integration {
namespace {

constexpr char kOurs[] = "/proc/self/ns/net";

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

HostNetwork::HostNetwork(int hosts) {
  bridge_ = NewNamespace();
  for (int i = 0; i < hosts; ++i) hosts_.push_back(NewNamespace());
  Ip(bridge_, {"link", "add", "bridge", "type", "bridge"});
  Ip(bridge_, {"link", "set", "bridge", "up"});
  for (int i = 0; i < hosts; ++i) Connect(i);
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

void HostNetwork::Ip(const Descriptor& where, std::vector<std::string> words) {
  if (!missing_.empty()) return;
  words.insert(words.begin(), "/usr/sbin/ip");
  Program ip(words, Inside(where.get()));
  if (ip.End() == 0) return;
  for (const std::string& word : words) missing_ += word + " ";
  missing_ += "fails: " + ip.output();
}

void HostNetwork::Connect(int host) {
  const Descriptor& there = hosts_[static_cast<size_t>(host)];
  const std::string path =
      "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(there.get());
  Ip(bridge_, {"link", "add", Port(host), "type", "veth", "peer", "name", "wire", "netns", path});
  Ip(bridge_, {"link", "set", Port(host), "master", "bridge"});
  Ip(bridge_, {"link", "set", Port(host), "up"});
  Ip(there, {"address", "add", Address(host) + "/24", "dev", "wire"});
  Ip(there, {"link", "set", "wire", "up"});
  Ip(there, {"link", "set", "lo", "up"});
}

std::function<bool()> HostNetwork::On(int host) const {
  return Inside(hosts_[static_cast<size_t>(host)].get());
}

std::string HostNetwork::Address(int host) const { return "10.77.0." + std::to_string(host + 1); }

}  // namespace muster::integration
