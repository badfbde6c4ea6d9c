#include "lib/transport/grpc/connection_gate.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/status.h"
#include "lib/transport/grpc/settings.h"

namespace muster {
namespace {

constexpr int kPauseMs = 100;  // when nobody can be accepted
// So often freed memory is given back, which the allocator would keep: after a flood, and where
// much more is held than the last time, as many who each bring little leave as much. Until all of
// it is certainly freed.
constexpr Duration kGiveBackEvery = std::chrono::seconds(2);
constexpr Duration kGiveBackFor = kWatchAfterFlood + kGiveBackEvery;

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

// False: not a numeric address.
bool Fill(const HostPort& address, SocketAddress& to) {
  if (address.host.find(':') != std::string::npos) {
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&to.storage);
    *v6 = {.sin6_family = AF_INET6, .sin6_port = htons(address.port)};
    to.size = sizeof(*v6);
    return inet_pton(AF_INET6, address.host.c_str(), &v6->sin6_addr) == 1;
  }
  auto* v4 = reinterpret_cast<sockaddr_in*>(&to.storage);
  *v4 = {.sin_family = AF_INET, .sin_port = htons(address.port)};
  to.size = sizeof(*v4);
  const std::string host = address.host == "localhost" ? "127.0.0.1" : address.host;
  return inet_pton(AF_INET, host.c_str(), &v4->sin_addr) == 1;
}

// As gRPC says it of the same connection (Session::Peer).
std::string PeerText(const SocketAddress& peer) {
  char host[INET6_ADDRSTRLEN] = "";
  if (peer.storage.ss_family != AF_INET6) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&peer.storage);
    inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
    return absl::StrCat(host, ":", ntohs(v4->sin_port));
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&peer.storage);
  const uint16_t port = ntohs(v6->sin6_port);
  if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
    inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], host, sizeof(host));
    return absl::StrCat(host, ":", port);
  }
  inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
  const std::string scope = v6->sin6_scope_id == 0 ? "" : absl::StrCat("%25", v6->sin6_scope_id);
  return absl::StrCat("[", host, scope, "]:", port);
}

// A socket that listens, or minus the reason.
int ListeningSocket(const HostPort& address) {
  SocketAddress to;
  if (!Fill(address, to)) return -EINVAL;
  const int fd = socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -errno;
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(fd, to.get(), to.size) == 0 && listen(fd, SOMAXCONN) == 0) return fd;
  const int error = errno;
  close(fd);
  return -error;
}

absl::Status CannotListen(const HostPort& address, int error) {
  const std::string text = NumericAddress(address);
  switch (error) {
    case EADDRINUSE:
      return absl::AlreadyExistsError(absl::StrCat(
          "address ", text, " is in use by another process; choose another port, or port 0"));
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
    case EINVAL:
      return absl::InvalidArgumentError(
          absl::StrCat("address ", text, " is not one of this machine: ", std::strerror(error)));
    case EACCES:
      return absl::PermissionDeniedError(
          absl::StrCat("address ", text, " may not be listened on; choose a port above 1023"));
    default:
      return absl::UnavailableError(
          absl::StrCat("cannot listen on ", text, " (", std::strerror(error), "); try again"));
  }
}

// What a gRPC server would say: its settings, and that the connection ends, with the reason.
std::string GoAway(const std::string& why) {
  constexpr char kEnhanceYourCalm = 0x0b;
  const auto length = static_cast<uint32_t>(8 + why.size());
  std::string frames("\0\0\0\x04\0\0\0\0\0", 9);
  frames += {static_cast<char>(length >> 16), static_cast<char>(length >> 8),
             static_cast<char>(length), 0x07};
  frames.append(5 + 4 + 3, '\0');  // no flags, stream 0; no stream was taken; and the code's zeros
  frames += kEnhanceYourCalm;
  return frames + why;
}

// What TLS can say to one of whom nothing has been heard: it ends (fatal, internal_error). The
// reason would be readable by all.
std::string Alert() { return {"\x15\x03\x03\0\x02\x02\x50", 7}; }

// As poll takes it.
int Milliseconds(std::optional<Duration> wait) {
  return wait ? static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(*wait).count()) : -1;
}

int OpenSpare() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

bool OutOfDescriptors(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ConnectionGate>> ConnectionGate::Listen(const HostPort& address,
                                                                       GateLimits limits) {
  const int listener = ListeningSocket(address);
  if (listener < 0) return CannotListen(address, -listener);
  std::unique_ptr<ConnectionGate> gate(new ConnectionGate(limits, listener));
  MUSTER_RETURN_IF_ERROR(gate->ReadAddress(address));
  return gate;
}

ConnectionGate::ConnectionGate(GateLimits limits, int listener)
    : limits_(limits),
      listener_(listener),
      closing_(eventfd(0, EFD_CLOEXEC)),
      spare_(OpenSpare()),
      given_(std::make_shared<GivenSockets>(static_cast<size_t>(limits.connections),
                                            limits.most_of_stranger)) {}

ConnectionGate::~ConnectionGate() {
  if (thread_.joinable()) {
    eventfd_write(closing_, 1);
    thread_.join();
  }
  for (const int fd : {listener_, closing_, spare_})
    if (fd >= 0) close(fd);
}

absl::Status ConnectionGate::ReadAddress(HostPort address) {
  SocketAddress in_effect;
  in_effect.size = sizeof(in_effect.storage);
  if (closing_ < 0 || getsockname(listener_, in_effect.get(), &in_effect.size) != 0)
    return CannotListen(address, errno);
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&in_effect.storage);
  address.port = ntohs(v4->sin_port);  // an IPv6 address has its port in the same place
  address_ = NumericAddress(address);
  return absl::OkStatus();
}

void ConnectionGate::Open(Welcome welcome) {
  welcome_ = std::move(welcome);
  thread_ = std::thread([this] { Run(); });
}

void ConnectionGate::Run() {
  int timeout_ms = -1;
  while (AwaitKnock(timeout_ms)) {
    AcceptAll();
    const Time now = std::chrono::steady_clock::now();
    given_->JudgeStirred(now);
    std::optional<Duration> wait = given_->Judge(now);
    if (given_->size() > 0) busy_until_ = now + kGiveBackFor;
    if (now < busy_until_) {
      wait = std::min(wait.value_or(kGiveBackEvery), kGiveBackEvery);
      GiveBack(now);
    }
    timeout_ms = Milliseconds(wait);
  }
}

void ConnectionGate::GiveBack(Time now) {
  if (now - gave_back_ < kGiveBackEvery) return;
  gave_back_ = now;
  const std::optional<Time> flood = given_->last_flood();
  const bool has_flooded = flood && now - *flood < kGiveBackFor;
  if (!has_flooded && MemoryHeld() < held_ + kMostOfFlood) return;
  malloc_trim(0);
  held_ = MemoryHeld();
}

bool ConnectionGate::AwaitKnock(int timeout_ms) {
  pollfd waits[3] = {{.fd = closing_, .events = POLLIN, .revents = 0},
                     {.fd = listener_, .events = POLLIN, .revents = 0},
                     {.fd = given_->stirs(), .events = POLLIN, .revents = 0}};
  while (poll(waits, 3, timeout_ms) < 0 && errno == EINTR) {
  }
  return waits[0].revents == 0;
}

// Only the end cuts it short.
void ConnectionGate::Pause() {
  pollfd end{.fd = closing_, .events = POLLIN, .revents = 0};
  poll(&end, 1, kPauseMs);
}

void ConnectionGate::AcceptAll() {
  while (true) {
    SocketAddress peer;
    peer.size = sizeof(peer.storage);
    const int fd = accept4(listener_, peer.get(), &peer.size, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && OutOfDescriptors(errno)) return AcceptWithSpare();
    if (fd < 0 && (errno == ECONNABORTED || errno == EINTR)) continue;
    if (fd < 0) return;
    Take(fd, PeerText(peer));
    given_->Judge(std::chrono::steady_clock::now());
  }
}

void ConnectionGate::Take(int fd, const std::string& peer) {
  const Time now = std::chrono::steady_clock::now();
  if (!given_->HasRoom(now)) return TurnAway(fd, Full());
  if (const std::string why = given_->WhyNot(peer, now); !why.empty()) return TurnAway(fd, why);
  if (!given_->Add(fd, peer))
    return TurnAway(fd, absl::StrCat(peer, " has a connection to ", address_, " already"));
  ApplySocketSettings(fd);
  welcome_(listener_, fd);
}

std::string ConnectionGate::Full() const {
  return absl::StrCat(address_, " has ", limits_.connections,
                      " connections, all that it may have; try again later");
}

void ConnectionGate::TurnAway(int fd, const std::string& why) const {
  const std::string words = limits_.speaks_tls ? Alert() : GoAway(why);
  send(fd, words.data(), words.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  shutdown(fd, SHUT_WR);
  close(fd);
}

void ConnectionGate::AcceptWithSpare() {
  if (spare_ >= 0) {
    close(spare_);
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) TurnAway(fd, Full());
  }
  spare_ = OpenSpare();
  Pause();
}

}  // namespace muster
