// How our channels and servers are set up: every gRPC argument, in one place.
#pragma once

#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>

#include <string>

#include "absl/status/status.h"
#include "lib/base/loopback.h"

namespace muster {

inline constexpr char kSessionMethod[] = "/muster.v1.Exchange/Session";

grpc::ChannelArguments ChannelSettings();
// `streams`: that a connection may have open at a time. `most_at_once`: bytes that are read from
// one at a time; 0: gRPC's own choice.
void ApplyServerSettings(grpc::ServerBuilder& builder, int streams, int most_at_once);
// Of a connection that was accepted for a server: what gRPC's own acceptor would set, and what
// finds a silent way soon.
void ApplySocketSettings(int fd);
// The same for our connections to that peer that lack it: gRPC does not say which descriptor one
// has that it made.
void ApplySocketSettingsTo(const HostPort& peer);

// "localhost" is 127.0.0.1, so that a port is one socket. "127.0.0.1:80", "[::1]:80".
std::string NumericAddress(const HostPort& address);
// The same as a gRPC target that no resolver looks up.
std::string ChannelTarget(const HostPort& address);
// A peer as gRPC names it, "ipv4:127.0.0.1:80", "ipv6:%5B::1%5D:80", as people write it.
std::string ReadablePeer(const std::string& peer);

// Our own reason for ending a stream, as the accepting end says it, and what the connecting end
// makes of any status it got from `peer`.
grpc::Status GoodbyeStatus(const absl::Status& why);
absl::Status BreakReason(const grpc::Status& status, const std::string& peer);

}  // namespace muster
