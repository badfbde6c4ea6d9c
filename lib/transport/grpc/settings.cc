#include "lib/transport/grpc/settings.h"

#include <grpc/impl/codegen/compression_types.h>
#include <grpc/impl/codegen/grpc_types.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "lib/base/printable.h"
#include "lib/transport/grpc/frame_codec.h"
#include "lib/transport/transport.h"

namespace muster {
namespace {

constexpr int kMebi = 1 << 20;
constexpr int kKeepaliveTimeoutMs = 5'000;

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

}  // namespace

grpc::ChannelArguments ChannelSettings() {
  grpc::ChannelArguments arguments;
  for (const IntSetting& setting : kBothEnds) arguments.SetInt(setting.name, setting.value);
  for (const IntSetting& setting : kConnectingEnd) arguments.SetInt(setting.name, setting.value);
  return arguments;
}

void ApplyServerSettings(grpc::ServerBuilder& builder, int streams) {
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, streams);
  for (const IntSetting& s : kBothEnds) builder.AddChannelArgument(s.name, s.value);
  for (const IntSetting& s : kAcceptingEnd) builder.AddChannelArgument(s.name, s.value);
  builder.SetMaxReceiveMessageSize(static_cast<int>(kMaxMessageBytes));
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
}

void ApplySocketSettings(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const int timeout_ms = kKeepaliveTimeoutMs;
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
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
  return grpc::Status(grpc::StatusCode::ABORTED, Cut(Printable(why.ToString())));
}

absl::Status BreakReason(const grpc::Status& status, const std::string& peer) {
  const std::string& text = status.error_message();
  switch (status.error_code()) {
    case grpc::StatusCode::ABORTED:
      return absl::UnavailableError(absl::StrCat("closed by ", peer, ": ", text));
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return absl::ResourceExhaustedError(absl::StrCat("session with ", peer, ": ", text));
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
  return absl::UnavailableError(
      absl::StrCat("session with ", peer, " broke: ", text.empty() ? "the peer ended it" : text));
}

}  // namespace muster
