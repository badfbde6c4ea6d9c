#include "lib/transport/grpc/settings.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <grpc/impl/codegen/compression_types.h>
#include <grpc/impl/codegen/grpc_types.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "lib/base/printable.h"
#include "lib/transport/grpc/frame_codec.h"
#include "lib/transport/transport.h"

namespace muster {
namespace {

constexpr int kMebi = 1 << 20;
constexpr int kKeepaliveTimeoutMs = 5'000;
// What the kernels of both ends do (docs/decisions/0057): without data a probe each second; a
// connection of which nothing was acknowledged for so long breaks, after two probes in vain.
constexpr int kProbeEverySeconds = 1;
constexpr int kSilentWayMs = 2'500;

struct IntSetting {
  const char* name;
  int value;
};

// Frames of HTTP/2 as large as ours: at the default of 16 KiB throughput halves. A dead peer is
// found within keepalive time + timeout also on an idle connection, and no ping is ever a strike:
// both ends are ours.
constexpr IntSetting kBothEnds[] = {
    {GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 1 * kMebi},
    {GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE, 8 * kMebi},
    {GRPC_ARG_KEEPALIVE_TIME_MS, 10'000},
    {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs},
    {GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1},
    {GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0},
    {GRPC_ARG_MAX_METADATA_SIZE, 8 << 10},
    {GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, static_cast<int>(kMaxMessageBytes)},
};

// One connection per session, straight to the address; a session that breaks is made anew by those
// who use it, never retried in here.
constexpr IntSetting kConnectingEnd[] = {
    {GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1},
    {GRPC_ARG_ENABLE_RETRIES, 0},
    {GRPC_ARG_ENABLE_HTTP_PROXY, 0},
    {GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1},
    {GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 << GRPC_COMPRESS_NONE},
};

// A connection without a call is closed after a while: it takes a descriptor (connection_gate.h).
constexpr IntSetting kAcceptingEnd[] = {
    {GRPC_ARG_MAX_CONNECTION_IDLE_MS, 30'000},
    {GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10'000},
    {GRPC_ARG_ENABLE_CHANNELZ, 1},  // it counts streams (stream_counts.h)
    {GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000},
    {GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0},
};

// As ApplySocketSettings leaves one, by what it sets last.
bool HasSocketSettings(int fd) {
  int timeout = 0;
  socklen_t size = sizeof(timeout);
  return getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, &size) == 0 &&
         timeout == kSilentWayMs;
}

// Ports are compared first: a process may have thousands of connections.
bool IsConnectedTo(int fd, const HostPort& peer) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return false;
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address);
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address);
  char host[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET && ntohs(v4->sin_port) == peer.port)
    inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
  if (address.ss_family == AF_INET6 && ntohs(v6->sin6_port) == peer.port) {
    // Where there is IPv6, gRPC reaches IPv4 through it: ::ffff:10.0.0.2.
    constexpr size_t kPrefix = 12;
    if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
      inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[kPrefix], host, sizeof(host));
    else
      inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
  }
  return NumericAddress({host, peer.port}) == NumericAddress(peer);
}

}  // namespace

grpc::ChannelArguments ChannelSettings() {
  grpc::ChannelArguments arguments;
  for (const IntSetting& setting : kBothEnds) arguments.SetInt(setting.name, setting.value);
  for (const IntSetting& setting : kConnectingEnd) arguments.SetInt(setting.name, setting.value);
  return arguments;
}

void ApplyServerSettings(grpc::ServerBuilder& builder, int streams, int most_at_once) {
  if (most_at_once > 0) builder.AddChannelArgument(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, most_at_once);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, streams);
  for (const IntSetting& s : kBothEnds) builder.AddChannelArgument(s.name, s.value);
  for (const IntSetting& s : kAcceptingEnd) builder.AddChannelArgument(s.name, s.value);
  builder.SetMaxReceiveMessageSize(static_cast<int>(kMaxMessageBytes));
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
}

void ApplySocketSettings(int fd) {
  const auto set = [fd](int level, int name, int value) {
    setsockopt(fd, level, name, &value, sizeof(value));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kProbeEverySeconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kProbeEverySeconds);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, kSilentWayMs);
}

void ApplySocketSettingsTo(const HostPort& peer) {
  const std::unique_ptr<DIR, int (*)(DIR*)> all(opendir("/proc/self/fd"), closedir);
  if (all == nullptr) return;
  while (const dirent* entry = readdir(all.get())) {
    int number = -1;
    if (!absl::SimpleAtoi(entry->d_name, &number)) continue;
    // The number may become another's meanwhile, ours does not.
    const bool lacks_them = !HasSocketSettings(number) && IsConnectedTo(number, peer);
    const int own = lacks_them ? fcntl(number, F_DUPFD_CLOEXEC, 0) : -1;
    if (own < 0) continue;
    if (IsConnectedTo(own, peer)) ApplySocketSettings(own);
    close(own);
  }
}

std::string NumericAddress(const HostPort& address) {
  const std::string host = address.host == "localhost" ? "127.0.0.1" : address.host;
  const bool v6 = host.find(':') != std::string::npos;
  return v6 ? absl::StrCat("[", host, "]:", address.port) : absl::StrCat(host, ":", address.port);
}

std::string ChannelTarget(const HostPort& address) {
  const bool v6 = address.host.find(':') != std::string::npos;
  return absl::StrCat(v6 ? "ipv6:" : "ipv4:", NumericAddress(address));
}

std::string ReadablePeer(const std::string& peer) {
  const std::string plain = absl::StrReplaceAll(peer, {{"%5B", "["}, {"%5D", "]"}});
  const bool prefixed = plain.starts_with("ipv4:") || plain.starts_with("ipv6:");
  return prefixed ? plain.substr(5) : plain;
}

grpc::Status GoodbyeStatus(const absl::Status& why) {
  if (absl::IsPermissionDenied(why))
    return grpc::Status(grpc::StatusCode::PERMISSION_DENIED, Cut(Printable(why.message())));
  return grpc::Status(grpc::StatusCode::ABORTED, Cut(Printable(why.ToString())));
}

absl::Status BreakReason(const grpc::Status& status, const std::string& peer) {
  const std::string& text = status.error_message();
  switch (status.error_code()) {
    case grpc::StatusCode::ABORTED: return ClosedByPeerError(peer, text);
    case grpc::StatusCode::PERMISSION_DENIED:
      return absl::PermissionDeniedError(absl::StrCat("refused by ", peer, ": ", text));
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return absl::ResourceExhaustedError(absl::StrCat("session with ", peer, ": ", text));
    case grpc::StatusCode::UNAUTHENTICATED:
      return absl::UnauthenticatedError(absl::StrCat(peer, " refused our certificate: ", text));
    case grpc::StatusCode::UNIMPLEMENTED:
      return absl::UnimplementedError(absl::StrCat(peer, " does not serve ", kSessionMethod,
                                                   "; is it a Muster process? (", text, ")"));
    default: break;
  }
  // gRPC keeps the errno only in its text.
  if (absl::StrContains(text, "Connection refused")) {
    return ConnectRefusedError(
        absl::StrCat("connection to ", peer,
                     " refused; is the process that should listen there running? (", text, ")"));
  }
  // Of the kernel, where all that goes one way, or all that is long, is lost (kSilentWayMs).
  const bool is_silent = absl::StrContains(text, "Connection timed out");
  return absl::UnavailableError(absl::StrCat(
      "session with ", peer, " broke: ",
      is_silent ? "what was sent is not acknowledged: its host is gone or cut off, or long packets "
                  "are lost on the way (compare the MTU of both ends): "
                : "",
      text.empty() ? "the peer ended it" : text));
}

}  // namespace muster
