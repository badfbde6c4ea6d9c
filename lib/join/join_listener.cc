#include "lib/join/join_listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/loopback.h"
#include "lib/base/mutex.h"
#include "lib/base/printable.h"
#include "lib/base/socket_address.h"
#include "lib/base/status.h"
#include "lib/join/join_wire.h"
#include "lib/wire/join_codec.h"

namespace muster {
namespace {

constexpr Duration kAcceptPause = std::chrono::milliseconds(100);
constexpr Duration kLongestSleep = std::chrono::seconds(10);
constexpr int kBacklog = 64;

Time Now() { return std::chrono::steady_clock::now(); }

// "10.0.0.7" or "fd00::7"; an IPv4 address that is written as one of IPv6 is the same one.
std::string AddressOf(const sockaddr_storage& from) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* address = &reinterpret_cast<const sockaddr_in&>(from).sin_addr;
  int family = AF_INET;
  if (from.ss_family == AF_INET6) {
    const in6_addr& six = reinterpret_cast<const sockaddr_in6&>(from).sin6_addr;
    const bool is_mapped = IN6_IS_ADDR_V4MAPPED(&six);
    address = is_mapped ? &six.s6_addr[12] : static_cast<const void*>(&six);
    family = is_mapped ? AF_INET : AF_INET6;
  }
  const char* const written = inet_ntop(family, address, text.data(), text.size());
  return written == nullptr ? "" : written;
}

absl::StatusOr<Descriptor> ListenAt(const std::string& address) {
  MUSTER_ASSIGN_OR_RETURN(const HostPort parsed, ParseHostPort(address));
  MUSTER_ASSIGN_OR_RETURN(const SocketAddress at, ToSocketAddress(parsed));
  Descriptor socket_of(socket(at.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  if (socket_of.is_open() &&
      setsockopt(socket_of.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
      bind(socket_of.get(), reinterpret_cast<const sockaddr*>(&at.storage), at.size) == 0 &&
      listen(socket_of.get(), kBacklog) == 0)
    return socket_of;
  if (errno == EADDRINUSE)
    return absl::AlreadyExistsError(
        absl::StrCat("address ", address, ": the port is in use by another process; stop it, or ",
                     "choose another port (0: any free one)"));
  return absl::UnavailableError(
      absl::StrCat("address ", address, ": cannot listen: ", std::strerror(errno)));
}

absl::StatusOr<std::string> AddressInEffect(int socket_of) {
  sockaddr_storage at{};
  socklen_t size = sizeof at;
  if (getsockname(socket_of, reinterpret_cast<sockaddr*>(&at), &size) != 0)
    return absl::UnavailableError(absl::StrCat("cannot listen: ", std::strerror(errno)));
  const bool is_six = at.ss_family == AF_INET6;
  const uint16_t port = is_six ? reinterpret_cast<const sockaddr_in6&>(at).sin6_port
                               : reinterpret_cast<const sockaddr_in&>(at).sin_port;
  const std::string host = AddressOf(at);
  const bool has_colons = host.find(':') != std::string::npos;
  return absl::StrCat(has_colons ? absl::StrCat("[", host, "]") : host, ":", ntohs(port));
}

}  // namespace

class JoinListener::Inbox {
 public:
  Inbox() : wakes_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  int descriptor() const { return wakes_.get(); }
  bool is_open() const { return wakes_.is_open(); }

  void Put(Number number, JoinAnswer answer) {
    {
      const MutexLock lock(mutex_);
      answers_.emplace_back(number, std::move(answer));
    }
    Wake();
  }
  void Close() {
    {
      const MutexLock lock(mutex_);
      closing_ = true;
    }
    Wake();
  }
  std::vector<std::pair<Number, JoinAnswer>> Take() {
    uint64_t count = 0;
    while (read(wakes_.get(), &count, sizeof count) > 0) {
    }
    const MutexLock lock(mutex_);
    return std::exchange(answers_, {});
  }
  bool closing() {
    const MutexLock lock(mutex_);
    return closing_;
  }

 private:
  void Wake() const {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wakes_.get(), &one, sizeof one);
  }

  const Descriptor wakes_;
  Mutex mutex_;
  std::vector<std::pair<Number, JoinAnswer>> answers_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
};

absl::StatusOr<std::unique_ptr<JoinListener>> JoinListener::Start(const std::string& address,
                                                                  PskChannel::FindKey find_key,
                                                                  Decide decide,
                                                                  JoinLimits limits) {
  MUSTER_ASSIGN_OR_RETURN(Descriptor listens, ListenAt(address));
  MUSTER_ASSIGN_OR_RETURN(std::string in_effect, AddressInEffect(listens.get()));
  auto inbox = std::make_shared<Inbox>();
  if (!inbox->is_open())
    return absl::ResourceExhaustedError("no descriptor is left for the join port");
  return std::unique_ptr<JoinListener>(new JoinListener(std::move(listens), std::move(in_effect),
                                                        std::move(find_key), std::move(decide),
                                                        limits, std::move(inbox)));
}

JoinListener::JoinListener(Descriptor socket, std::string address, PskChannel::FindKey find_key,
                           Decide decide, JoinLimits limits, std::shared_ptr<Inbox> inbox)
    : socket_(std::move(socket)),
      address_(std::move(address)),
      find_key_(std::move(find_key)),
      decide_(std::move(decide)),
      limits_(limits),
      inbox_(std::move(inbox)),
      thread_([this] { Run(); }) {}

JoinListener::~JoinListener() {
  inbox_->Close();
  thread_.join();
}

void JoinListener::Run() {
  while (!inbox_->closing()) {
    std::vector<pollfd> polled = {{inbox_->descriptor(), POLLIN, 0}};
    std::vector<Number> numbers;
    for (const auto& [number, connection] : connections_) {
      // One that waits is only asked whether it is still there.
      const int reads = connection.channel == nullptr ? POLLRDHUP : connection.asked ? 0 : POLLIN;
      const int writes = connection.out.empty() ? 0 : POLLOUT;
      polled.push_back({connection.socket.get(), static_cast<int16_t>(reads | writes), 0});
      numbers.push_back(number);
    }
    Time now = Now();
    if (now >= accepts_from_) polled.push_back({socket_.get(), POLLIN, 0});
    const auto sleeps = std::chrono::ceil<std::chrono::milliseconds>(UntilNext(now));
    if (poll(polled.data(), polled.size(), static_cast<int>(sleeps.count())) < 0 && errno != EINTR)
      strangers_.Warn("the join port cannot be watched: %s", std::strerror(errno));
    now = Now();
    for (auto& [number, answer] : inbox_->Take()) Answer(number, answer);
    for (size_t i = 0; i < numbers.size(); ++i) {
      const auto it = connections_.find(numbers[i]);
      if (it == connections_.end()) continue;
      const int16_t events = polled[i + 1].revents;
      bool stays = (events & (POLLERR | POLLNVAL | POLLRDHUP)) == 0;
      // Of a connection that hung up nothing is waited for, and nothing can be told to it.
      if (stays && (events & POLLHUP) != 0 && (events & POLLIN) == 0) stays = false;
      if (stays && (events & POLLIN) != 0) stays = Read(numbers[i], it->second);
      if (stays) stays = Write(it->second);
      if (!stays) connections_.erase(it);
    }
    CloseLate(now);
    if (now >= accepts_from_) AcceptAll(now);
    ServeWaiting(now);
  }
}

Duration JoinListener::UntilNext(Time now) const {
  Time next = now + kLongestSleep;
  for (const auto& [number, connection] : connections_)
    if (connection.channel != nullptr) next = std::min(next, connection.until);
  if (accepts_from_ > now) next = std::min(next, accepts_from_);
  return std::max(Duration{}, next - now);
}

void JoinListener::AcceptAll(Time now) {
  for (;;) {
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    Descriptor accepted(accept4(socket_.get(), reinterpret_cast<sockaddr*>(&from), &size,
                                SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!accepted.is_open()) {
      const int error = errno;
      if (error == EAGAIN || error == EWOULDBLOCK) return;
      if (error == ECONNABORTED || error == EINTR) continue;
      strangers_.Warn("the join port cannot accept a connection: %s", std::strerror(error));
      accepts_from_ = now + kAcceptPause;
      return;
    }
    std::string address = AddressOf(from);
    if (!HasRoomFor(address)) {
      strangers_.Warn("%s has too many connections to the join port, or all have; one is closed",
                      address);
      continue;
    }
    connections_[next_++] = {.socket = std::move(accepted), .address = std::move(address)};
  }
}

bool JoinListener::HasRoomFor(const std::string& address) const {
  const auto here = std::count_if(connections_.begin(), connections_.end(),
                                  [&](const auto& one) { return one.second.address == address; });
  return connections_.size() < static_cast<size_t>(limits_.all) &&
         here < limits_.served_of_address + limits_.waiting_of_address;
}

int JoinListener::Served(const std::string& address) const {
  return static_cast<int>(
      std::count_if(connections_.begin(), connections_.end(), [&](const auto& one) {
        return one.second.channel != nullptr && one.second.address == address;
      }));
}

void JoinListener::ServeWaiting(Time now) {
  for (auto& [number, connection] : connections_) {
    if (connection.channel != nullptr || Served(connection.address) >= limits_.served_of_address)
      continue;
    absl::StatusOr<std::unique_ptr<PskChannel>> channel = PskChannel::Accepting(find_key_);
    if (!channel.ok()) {
      strangers_.Warn("the join port cannot serve: %s", channel.status().message());
      return;
    }
    connection.channel = *std::move(channel);
    connection.until = now + limits_.patience;
  }
}

bool JoinListener::Read(Number number, Connection& connection) {
  std::array<char, 4096> piece{};
  while (!connection.asked && !connection.closes) {
    const ssize_t size = recv(connection.socket.get(), piece.data(), piece.size(), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (size <= 0) return false;
    connection.taken += static_cast<size_t>(size);
    if (connection.taken > limits_.bytes) {
      strangers_.Warn("%s sent more than %d bytes to the join port", connection.address,
                      limits_.bytes);
      return false;
    }
    const absl::Status taken =
        connection.channel->Take(absl::string_view(piece.data(), static_cast<size_t>(size)));
    connection.out += connection.channel->Give();
    if (!taken.ok()) {
      strangers_.Warn("%s did not join: %s", connection.address, taken.message());
      connection.closes = true;  // after it was told why
      return true;
    }
    if (!Hear(number, connection)) return false;
  }
  return true;
}

// Its question, once all of it is there. The listener reads nothing after that.
bool JoinListener::Hear(Number number, Connection& connection) {
  connection.said += connection.channel->Received();
  const absl::StatusOr<std::optional<std::string>> message =
      MessageIn(connection.said, limits_.bytes);
  if (message.ok() && !*message) return !connection.channel->has_ended();
  absl::StatusOr<JoinHost> ask =
      message.ok() ? DecodeJoinHost(**message) : absl::StatusOr<JoinHost>(message.status());
  connection.asked = true;
  connection.said.clear();
  if (!ask.ok()) {
    if (absl::IsFailedPrecondition(ask.status()))
      strangers_.Warn("no host joins from %s: %s", connection.address, ask.status().message());
    Answer(number, JoinRefused{Cut(Printable(std::string(ask.status().message())))});
    return true;
  }
  decide_(connection.channel->identity(), *ask,
          [inbox = inbox_, number](JoinAnswer answer) { inbox->Put(number, std::move(answer)); });
  return true;
}

void JoinListener::Answer(Number number, const JoinAnswer& answer) {
  const auto it = connections_.find(number);
  if (it == connections_.end() || it->second.closes) return;
  Connection& connection = it->second;
  const absl::Status sent = connection.channel->Send(WithLength(Encode(answer)));
  if (!sent.ok()) strangers_.Warn("%s was not answered: %s", connection.address, sent.message());
  connection.channel->End();
  connection.out += connection.channel->Give();
  connection.closes = true;
}

bool JoinListener::Write(Connection& connection) {
  while (!connection.out.empty()) {
    const ssize_t size =
        send(connection.socket.get(), connection.out.data(), connection.out.size(), MSG_NOSIGNAL);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    connection.out.erase(0, static_cast<size_t>(size));
  }
  return !connection.closes;
}

void JoinListener::CloseLate(Time now) {
  for (auto it = connections_.begin(); it != connections_.end();) {
    const Connection& connection = it->second;
    const bool is_late = connection.channel != nullptr && now >= connection.until;
    if (is_late) strangers_.Warn("%s took too long at the join port", connection.address);
    it = is_late ? connections_.erase(it) : std::next(it);
  }
}

}  // namespace muster
