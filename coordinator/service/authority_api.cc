#include "coordinator/service/authority_api.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "coordinator/runtime/background.h"
#include "coordinator/runtime/once.h"
#include "lib/base/status.h"
#include "lib/identity/clocks.h"

namespace muster::coordinator {
namespace {

constexpr size_t kMostWaiting = 16;
constexpr size_t kNamed = 8;

CertificateOfAuthority InfoOf(const AuthorityCertificate& one) {
  return {one.hash, absl::ToUnixMillis(one.begins), absl::ToUnixMillis(one.ends), one.pem};
}

// What is only drained, or left out, and gone, is no host now.
bool IsThere(const HostStatus& host) { return host.up || host.slots > 0; }

HostTrust TrustOf(const HostStatus& host, const std::string& trust) {
  if (!host.up) return {host.name, kTrustAway};
  return {host.name, host.trusts == trust ? kTrustRenewed : kTrustNotYet};
}

absl::Status CheckClock(const std::optional<absl::Time>& theirs) {
  return theirs ? CheckClocks(absl::Now(), *theirs, "whoever asks") : absl::OkStatus();
}

class Api final : public AuthorityApi {
 public:
  Api(Driver& driver, ClusterAuthority& authority)
      : driver_(driver), authority_(authority), thread_(kMostWaiting) {}

  void Get(Reply<AuthorityInfo> reply) override {
    Run(std::move(reply), [this] { return Show(); });
  }

  void Change(std::optional<absl::Time> now, Reply<AuthorityInfo> reply) override {
    Run(std::move(reply), [this, now]() -> absl::StatusOr<AuthorityInfo> {
      MUSTER_RETURN_IF_ERROR(CheckClock(now));
      MUSTER_RETURN_IF_ERROR(authority_.Change(absl::Now()));
      return Show();
    });
  }

  void Finish(bool force, std::optional<absl::Time> now, Reply<AuthorityInfo> reply) override {
    Run(std::move(reply), [this, force, now]() -> absl::StatusOr<AuthorityInfo> {
      MUSTER_RETURN_IF_ERROR(CheckClock(now));
      MUSTER_ASSIGN_OR_RETURN(const AuthorityInfo before, Show());
      if (!force) MUSTER_RETURN_IF_ERROR(CheckAllTrust(before));
      MUSTER_RETURN_IF_ERROR(authority_.Finish(absl::Now()));
      return Show();
    });
  }

 private:
  // Whoever is away joins again when it is back, since nobody takes it any more.
  static absl::Status CheckAllTrust(const AuthorityInfo& info) {
    std::vector<std::string> late;
    for (const HostTrust& host : info.hosts)
      if (host.state == kTrustNotYet) late.push_back(host.name);
    if (late.empty() || !info.change_ends_unix_ms) return absl::OkStatus();
    const size_t shown = std::min(kNamed, late.size());
    return absl::FailedPreconditionError(absl::StrCat(
        "these hosts have no certificates of the new authority yet: ",
        absl::StrJoin(late.begin(), late.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
        shown < late.size() ? ", …" : "",
        "; they get them within a minute or two, as `muster certs status` shows. With --force "
        "they ",
        "are nobody until they join again with their tokens"));
  }

  absl::StatusOr<AuthorityInfo> Show() {
    MUSTER_ASSIGN_OR_RETURN(const AuthorityStanding standing, authority_.Standing());
    MUSTER_ASSIGN_OR_RETURN(const KnownCluster known, driver_.KnownWithHosts());
    AuthorityInfo info{.signs = InfoOf(standing.trusted.front())};
    for (size_t i = 1; i < standing.trusted.size(); ++i)
      info.trusted_on.push_back(InfoOf(standing.trusted[i]));
    if (standing.change_ends) info.change_ends_unix_ms = absl::ToUnixMillis(*standing.change_ends);
    for (const HostStatus& host : *known.hosts)
      if (IsThere(host)) info.hosts.push_back(TrustOf(host, standing.trust));
    return info;
  }

  void Run(Reply<AuthorityInfo> reply, std::function<absl::StatusOr<AuthorityInfo>()> call) {
    const auto answer = Once(std::move(reply));  // also where what waits is dropped
    thread_.Run([call = std::move(call), answer](const std::stop_token&) { answer(call()); });
  }

  Driver& driver_;
  ClusterAuthority& authority_;
  Background thread_;
};

}  // namespace

std::unique_ptr<AuthorityApi> MakeAuthorityApi(Driver& driver, ClusterAuthority& authority) {
  return std::make_unique<Api>(driver, authority);
}

}  // namespace muster::coordinator
