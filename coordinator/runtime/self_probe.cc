#include "coordinator/runtime/self_probe.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/clock.h"
#include "lib/base/descriptor.h"
#include "lib/base/loopback.h"
#include "lib/base/plural.h"
#include "lib/log/log.h"

namespace muster::coordinator {
namespace {

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

Heard Probe(const ProbedListener& listener, Duration patience) {
  const Time deadline = RealClock().Now() + patience;
  const absl::StatusOr<HostPort> at = ParseHostPort(listener.address);
  if (!at.ok()) return Heard::kNothing;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int lookup =
      getaddrinfo(Reachable(at->host).c_str(), absl::StrCat(at->port).c_str(), &hints, &found);
  if (lookup != 0)
    return lookup == EAI_SYSTEM || lookup == EAI_MEMORY ? Heard::kNotAsked : Heard::kNothing;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
  const Descriptor fd(socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) return Heard::kNotAsked;
  if (!Connects(fd.get(), *found, deadline)) return Heard::kNothing;
  // One write takes so few bytes, or the connection is broken already, which is an answer too.
  (void)send(fd.get(), listener.greeting.data(), listener.greeting.size(), MSG_NOSIGNAL);
  char byte = 0;
  const bool answered = Await(fd.get(), POLLIN, deadline) && recv(fd.get(), &byte, 1, 0) == 1;
  return answered ? Heard::kAnswer : Heard::kNothing;
}

SelfProbe::SelfProbe(std::vector<ProbedListener> listeners, ProbeOptions options,
                     std::function<void(const std::string&)> on_deaf)
    : listeners_(std::move(listeners)), options_(options), on_deaf_(std::move(on_deaf)) {
  thread_ = std::thread([this] { Run(); });
}

SelfProbe::~SelfProbe() {
  stop_.Stop();
  thread_.join();
}

void SelfProbe::Run() {
  struct SinceAnAnswer {
    int failures = 0, unasked = 0;
  };
  std::vector<SinceAnAnswer> since(listeners_.size());
  while (!stop_.WaitFor(options_.every)) {
    for (size_t i = 0; i < listeners_.size(); ++i) {
      auto& [failures, unasked] = since[i];
      switch (Probe(listeners_[i], options_.patience)) {
        case Heard::kAnswer: since[i] = {}; break;
        case Heard::kNothing: ++failures; break;
        case Heard::kNotAsked: ++unasked; break;
      }
      if (failures >= options_.failures)
        return on_deaf_(absl::StrCat("our own listener at ", listeners_[i].address,
                                     " has not answered ", Plural(failures, "time"), " in a row"));
      if (unasked >= options_.most_unasked)
        return on_deaf_(absl::StrCat("our own listener at ", listeners_[i].address,
                                     " could not be asked ", Plural(unasked, "time"),
                                     " in a row: this process may open no more files"));
    }
  }
}

}  // namespace muster::coordinator
