#include "lib/transport/grpc/connection_gate.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/status.h"
#include "lib/transport/grpc/settings.h"

namespace muster {
namespace {

constexpr Duration kLookEvery = std::chrono::milliseconds(50);
constexpr int kPauseMs = 100;  // when nobody can be accepted

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

int OpenSpare() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

bool OutOfDescriptors(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

bool GivenSockets::HasRoom(Time now) {
  if (inode_of_.size() < most_) return true;
  if (now - looked_ < kLookEvery) return false;
  looked_ = now;
  ForgetClosed();
  return inode_of_.size() < most_;
}

void GivenSockets::Add(int fd) {
  struct stat environment {};
  if (fstat(fd, &environment) == 0) inode_of_[fd] = environment.st_ino;
}

void GivenSockets::ForgetClosed() {
  std::erase_if(inode_of_, [](const auto& given) {
    struct stat environment {};
    return fstat(given.first, &environment) != 0 || environment.st_ino != given.second;
  });
}

absl::StatusOr<std::unique_ptr<ConnectionGate>> ConnectionGate::Listen(const HostPort& address,
                                                                       int connections) {
  const int listener = ListeningSocket(address);
  if (listener < 0) return CannotListen(address, -listener);
  std::unique_ptr<ConnectionGate> gate(new ConnectionGate(connections, listener));
  MUSTER_RETURN_IF_ERROR(gate->ReadAddress(address));
  return gate;
}

ConnectionGate::ConnectionGate(int connections, int listener)
    : connections_(connections),
      listener_(listener),
      closing_(eventfd(0, EFD_CLOEXEC)),
      spare_(OpenSpare()),
      given_(static_cast<size_t>(connections)) {}

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
  while (AwaitKnock(-1)) AcceptAll();
}

bool ConnectionGate::AwaitKnock(int timeout_ms) {
  pollfd waits[2] = {{.fd = closing_, .events = POLLIN, .revents = 0},
                     {.fd = listener_, .events = POLLIN, .revents = 0}};
  const nfds_t count = timeout_ms < 0 ? 2 : 1;  // a pause: only for the end
  while (poll(waits, count, timeout_ms) < 0 && errno == EINTR) {
  }
  return waits[0].revents == 0;
}

void ConnectionGate::AcceptAll() {
  while (true) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && OutOfDescriptors(errno)) return AcceptWithSpare();
    if (fd < 0 && (errno == ECONNABORTED || errno == EINTR)) continue;
    if (fd < 0) return;
    if (!given_.HasRoom(std::chrono::steady_clock::now())) {
      TurnAway(fd);
      continue;
    }
    ApplySocketSettings(fd);
    given_.Add(fd);
    welcome_(listener_, fd);
  }
}

void ConnectionGate::TurnAway(int fd) const {
  const std::string words = GoAway(absl::StrCat(
      address_, " has ", connections_, " connections, all that it may have; try again later"));
  send(fd, words.data(), words.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  shutdown(fd, SHUT_WR);
  close(fd);
}

void ConnectionGate::AcceptWithSpare() {
  if (spare_ >= 0) {
    close(spare_);
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) TurnAway(fd);
  }
  spare_ = OpenSpare();
  AwaitKnock(kPauseMs);
}

}  // namespace muster
