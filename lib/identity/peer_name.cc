#include "lib/identity/peer_name.h"

#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "lib/base/digits.h"
#include "lib/base/printable.h"
#include "lib/domain/job_id.h"
#include "lib/domain/member_name.h"

namespace muster {
namespace {

constexpr char kScheme[] = "spiffe://";
constexpr size_t kDigitsOfHalf = 16;

std::optional<Incarnation> ParseIncarnation(absl::string_view text) {
  Incarnation incarnation;
  if (text.size() != 2 * kDigitsOfHalf ||
      !absl::SimpleHexAtoi(text.substr(0, kDigitsOfHalf), &incarnation.hi) ||
      !absl::SimpleHexAtoi(text.substr(kDigitsOfHalf), &incarnation.lo))
    return std::nullopt;
  return incarnation;
}

std::optional<MemberPeer> ParseMember(const std::vector<absl::string_view>& parts) {
  int64_t placement = 0;
  const std::optional<Incarnation> incarnation = ParseIncarnation(parts[5]);
  if (!IsJobId(parts[2]) || !IsMemberName(parts[3]) || parts[4].empty() ||
      !ParseDigits(parts[4], &placement) || placement > kMaxNumber || !incarnation)
    return std::nullopt;
  return MemberPeer{std::string(parts[2]), std::string(parts[3]), PlacementNumber(placement),
                    *incarnation};
}

std::optional<PeerName> Parse(absl::string_view uri) {
  if (uri.size() > kLongestPeerName || !absl::ConsumePrefix(&uri, kScheme)) return std::nullopt;
  const std::vector<absl::string_view> parts = absl::StrSplit(uri, '/');
  if (!IsMemberName(parts[0]) || parts.size() < 2) return std::nullopt;
  PeerName name{.cluster = std::string(parts[0])};
  const absl::string_view kind = parts[1];
  if (kind == "coordinator" && parts.size() == 2) {
    name.who = CoordinatorPeer{};
  } else if (kind == "host" && parts.size() == 3 && IsMemberName(parts[2])) {
    name.who = HostPeer{std::string(parts[2])};
  } else if (kind == "user" && parts.size() == 3 && IsMemberName(parts[2])) {
    name.who = UserPeer{std::string(parts[2])};
  } else if (kind == "job" && parts.size() == 6) {
    std::optional<MemberPeer> member = ParseMember(parts);
    if (!member) return std::nullopt;
    name.who = *std::move(member);
  } else {
    return std::nullopt;
  }
  return name;
}

struct PathOf {
  std::string operator()(const CoordinatorPeer&) const { return "coordinator"; }
  std::string operator()(const HostPeer& peer) const { return absl::StrCat("host/", peer.host); }
  std::string operator()(const UserPeer& peer) const { return absl::StrCat("user/", peer.user); }
  std::string operator()(const MemberPeer& peer) const {
    return absl::StrCat("job/", peer.job, "/", peer.name, "/", peer.placement.value(), "/",
                        ToHex(peer.incarnation));
  }
};

struct TextOf {
  std::string operator()(const CoordinatorPeer&) const { return "the coordinator"; }
  std::string operator()(const ExpectedMember& member) const {
    return absl::StrCat(member.name, " of job ", member.job, " (",
                        ToHex(member.incarnation).substr(0, 8), ")");
  }
};

bool Is(const ExpectedPeer& expected, const PeerName& there) {
  if (std::holds_alternative<CoordinatorPeer>(expected))
    return std::holds_alternative<CoordinatorPeer>(there.who);
  const auto& wanted = std::get<ExpectedMember>(expected);
  const auto* member = std::get_if<MemberPeer>(&there.who);
  return member != nullptr && member->job == wanted.job && member->name == wanted.name &&
         member->incarnation == wanted.incarnation;
}

}  // namespace

// Each name is written in one way only, so that nobody has two.
absl::StatusOr<PeerName> ParsePeerName(absl::string_view uri) {
  std::optional<PeerName> name = Parse(uri);
  if (!name || ToUri(*name) != uri)
    return absl::InvalidArgumentError(
        absl::StrCat("'", Cut(Printable(std::string(uri))), "' is no name of a Muster cluster"));
  return *std::move(name);
}

std::string ToUri(const PeerName& name) {
  return absl::StrCat(kScheme, name.cluster, "/", std::visit(PathOf{}, name.who));
}

absl::Status CheckExpected(const ExpectedPeer& expected, const PeerName& there) {
  if (Is(expected, there)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      ToUri(there), " is there, and not ", std::visit(TextOf{}, expected), ", who was expected"));
}

}  // namespace muster
