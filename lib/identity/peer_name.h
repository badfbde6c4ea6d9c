// Who somebody is: the names that certificates bind to keys (docs/identity.md section 1). Plain
// values, and how they are written.
#pragma once

#include <compare>
#include <cstddef>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/base/ids.h"

namespace muster {

struct CoordinatorPeer {
  auto operator<=>(const CoordinatorPeer&) const = default;
};
struct HostPeer {  // the agent of a host
  std::string host;
  auto operator<=>(const HostPeer&) const = default;
};
struct MemberPeer {  // one process of a member
  std::string job;
  std::string name;
  PlacementNumber placement;
  Incarnation incarnation;
  auto operator<=>(const MemberPeer&) const = default;
};
struct UserPeer {  // a person, or a program that speaks gRPC
  std::string user;
  auto operator<=>(const UserPeer&) const = default;
};

struct PeerName {
  std::string cluster;
  std::variant<CoordinatorPeer, HostPeer, MemberPeer, UserPeer> who;
  auto operator<=>(const PeerName&) const = default;
};

inline constexpr size_t kLongestPeerName = 1024;

// kInvalidArgument: it is no such name, or not written as ToUri writes it.
absl::StatusOr<PeerName> ParsePeerName(absl::string_view uri);
std::string ToUri(const PeerName& name);

// Whom somebody who connects expects at the other end.
struct ExpectedMember {  // of a view, so it is one process
  std::string job;
  std::string name;
  Incarnation incarnation;
  auto operator<=>(const ExpectedMember&) const = default;
};
using ExpectedPeer = std::variant<CoordinatorPeer, ExpectedMember>;

// OK, or kPermissionDenied: who is there is another, and who.
absl::Status CheckExpected(const ExpectedPeer& expected, const PeerName& there);

}  // namespace muster
