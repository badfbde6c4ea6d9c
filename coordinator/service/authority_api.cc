#include "coordinator/service/authority_api.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "coordinator/runtime/background.h"
#include "coordinator/runtime/once.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"

namespace muster::coordinator {
namespace {

constexpr size_t kMostWaiting = 16;
constexpr size_t kNamed = 8;

CertificateOfAuthority InfoOf(const AuthorityCertificate& one) {
  return {one.hash, absl::ToUnixMillis(one.begins), absl::ToUnixMillis(one.ends), one.pem};
}

HostTrust TrustOf(const HostStatus& host, const std::string& trust) {
  if (!host.up) return {host.name, kTrustAway};
  return {host.name, host.trusts == trust ? kTrustRenewed : kTrustNotYet};
}

class Api final : public AuthorityApi {
 public:
  Api(Driver& driver, ClusterAuthority& authority)
      : driver_(driver), authority_(authority), thread_(kMostWaiting) {}

  void Get(Reply<AuthorityInfo> reply) override {
    Run(std::move(reply), [this] { return Show(); });
  }

  void Change(Reply<AuthorityInfo> reply) override {
    Run(std::move(reply), [this]() -> absl::StatusOr<AuthorityInfo> {
      MUSTER_RETURN_IF_ERROR(authority_.Change(absl::Now()));
      return Show();
    });
  }

  void Finish(bool force, Reply<AuthorityInfo> reply) override {
    Run(std::move(reply), [this, force]() -> absl::StatusOr<AuthorityInfo> {
      MUSTER_ASSIGN_OR_RETURN(const AuthorityInfo before, Show());
      if (!force) MUSTER_RETURN_IF_ERROR(CheckAllTrust(before));
      MUSTER_RETURN_IF_ERROR(authority_.Finish(absl::Now()));
      return Show();
    });
  }

 private:
  // Whoever is away has no certificate of the new one either, or cannot be asked.
  static absl::Status CheckAllTrust(const AuthorityInfo& info) {
    std::vector<std::string> late;
    for (const HostTrust& host : info.hosts)
      if (host.state != kTrustRenewed) late.push_back(host.name);
    if (late.empty() || !info.change_ends_unix_ms) return absl::OkStatus();
    const size_t shown = std::min(kNamed, late.size());
    return absl::FailedPreconditionError(absl::StrCat(
        "these hosts have no certificates of the new authority yet: ",
        absl::StrJoin(late.begin(), late.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
        shown < late.size() ? ", …" : "",
        "; those that are here get them within a minute or two (`muster certs status`). With ",
        "--force they are nobody until they join again with their tokens"));
  }

  absl::StatusOr<AuthorityInfo> Show() {
    MUSTER_ASSIGN_OR_RETURN(const AuthorityStanding standing, authority_.Standing());
    MUSTER_ASSIGN_OR_RETURN(const KnownCluster known, driver_.KnownWithHosts());
    AuthorityInfo info{.signs = InfoOf(standing.trusted.front())};
    for (size_t i = 1; i < standing.trusted.size(); ++i)
      info.trusted_on.push_back(InfoOf(standing.trusted[i]));
    if (standing.change_ends) info.change_ends_unix_ms = absl::ToUnixMillis(*standing.change_ends);
    const std::string trust = authority_.trust();
    for (const HostStatus& host : *known.hosts) info.hosts.push_back(TrustOf(host, trust));
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
