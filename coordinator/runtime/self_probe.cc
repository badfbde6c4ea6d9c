#include "coordinator/runtime/self_probe.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/clock.h"
#include "lib/base/loopback.h"
#include "lib/base/plural.h"
#include "lib/log/log.h"

namespace muster::coordinator {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

std::string Reachable(const std::string& host) {
  if (host == "0.0.0.0") return "127.0.0.1";
  return host == "::" ? "::1" : host;
}

bool Await(int fd, short events, Time deadline) {
  using std::chrono::milliseconds;
  const auto left = std::chrono::ceil<milliseconds>(deadline - RealClock().Now());
  if (left <= milliseconds()) return false;
  pollfd wanted{fd, events, 0};
  return poll(&wanted, 1, static_cast<int>(left.count())) == 1;
}

bool Connects(int fd, const addrinfo& to, Time deadline) {
  if (connect(fd, to.ai_addr, to.ai_addrlen) == 0) return true;
  if (errno != EINPROGRESS || !Await(fd, POLLOUT, deadline)) return false;
  int error = 0;
  socklen_t size = sizeof(error);
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

}  // namespace

bool Answers(const ProbedListener& listener, Duration patience) {
  const Time deadline = RealClock().Now() + patience;
  const absl::StatusOr<HostPort> at = ParseHostPort(listener.address);
  if (!at.ok()) return false;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(Reachable(at->host).c_str(), absl::StrCat(at->port).c_str(), &hints, &found) != 0)
    return false;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
  const Descriptor fd(socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  // For want of a descriptor of our own we cannot tell.
  if (fd.get() < 0) return errno == EMFILE || errno == ENFILE;
  if (!Connects(fd.get(), *found, deadline)) return false;
  // One write takes so few bytes, or the connection is broken already, which is an answer too.
  (void)send(fd.get(), listener.greeting.data(), listener.greeting.size(), MSG_NOSIGNAL);
  char byte = 0;
  return Await(fd.get(), POLLIN, deadline) && recv(fd.get(), &byte, 1, 0) == 1;
}

SelfProbe::SelfProbe(std::vector<ProbedListener> listeners, ProbeOptions options,
                     std::function<void(const std::string&)> on_deaf)
    : listeners_(std::move(listeners)), options_(options), on_deaf_(std::move(on_deaf)) {
  thread_ = std::thread([this] { Run(); });
}

SelfProbe::~SelfProbe() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void SelfProbe::Run() {
  std::vector<int> failures(listeners_.size());
  while (Wait(options_.every)) {
    for (size_t i = 0; i < listeners_.size(); ++i) {
      failures[i] = Answers(listeners_[i], options_.patience) ? 0 : failures[i] + 1;
      if (failures[i] < options_.failures) continue;
      return on_deaf_(absl::StrCat("our own listener at ", listeners_[i].address,
                                   " has not answered ", Plural(failures[i], "time"), " in a row"));
    }
  }
}

bool SelfProbe::Wait(Duration time) {
  const Time deadline = RealClock().Now() + time;
  MutexLock lock(mutex_);
  while (!ending_ && changed_.WaitUntil(mutex_, deadline)) {
  }
  return !ending_;
}

}  // namespace muster::coordinator
