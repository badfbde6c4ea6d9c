#include "coordinator/service/cluster_authority.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "lib/base/loopback.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
#include "lib/identity/certificates.h"
#include "lib/identity/identity.h"
#include "lib/identity/identity_folder.h"
#include "lib/log/log.h"
#include "lib/storage/kv.h"

namespace muster::coordinator {
namespace {

constexpr Duration kLookEvery = std::chrono::minutes(1);

absl::Status Make(const std::string& folder, const std::string& cluster, absl::Time now) {
  MUSTER_ASSIGN_OR_RETURN(const Authority authority, MakeAuthority(cluster, now));
  MUSTER_ASSIGN_OR_RETURN(const Identity own,
                          IssueIdentity(authority, {cluster, CoordinatorPeer{}}, now));
  // The mark goes first: an authority without it, and of no store, is one whose store was lost.
  MUSTER_RETURN_IF_ERROR(MakePrivateFolder(folder));
  MUSTER_RETURN_IF_ERROR(WriteSecret(UnusedMarkOf(folder), ""));
  MUSTER_RETURN_IF_ERROR(WriteAuthority(folder, authority, own));
  LogInfo("the authority of cluster %s is made, in %s: who loses it needs new certificates for all",
          cluster, folder);
  return absl::OkStatus();
}

bool IsUnused(const std::string& folder) {
  std::error_code error;
  return std::filesystem::exists(UnusedMarkOf(folder), error);
}

absl::Status AuthorityIsMissing(const std::string& cluster, const std::string& folder,
                                absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat(
      "the authority of cluster ", cluster, " is missing in ", folder, why, ", but its store is ",
      "there: bring back the newest copy of that folder; where there is none, begin a new cluster ",
      "in another --dir, and let all hosts join it"));
}

bool IsAnyAddress(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

}  // namespace

std::string AuthorityFolderOf(const std::string& dir) { return dir + "/identity"; }

absl::StatusOr<std::string> ClusterMadeFor(const std::string& folder) {
  if (!IsUnused(folder)) return "";
  const absl::StatusOr<Identity> own = ReadIdentity(folder);
  if (absl::IsNotFound(own.status())) return "";  // who made the mark was ended before it was made
  MUSTER_RETURN_IF_ERROR(own.status());
  return own->name.cluster;
}

absl::StatusOr<std::string> ClusterWithoutAuthority(const std::string& dir) {
  auto kv = OpenRocksToRead(JournalOf(dir), JournalFamilies());
  if (absl::IsNotFound(kv.status())) return "";
  MUSTER_RETURN_IF_ERROR(kv.status());
  MUSTER_ASSIGN_OR_RETURN(const auto journal, Journal::OpenToRead(*std::move(kv), TermFileOf(dir)));
  MUSTER_ASSIGN_OR_RETURN(const bool had_one, journal->HasAuthority());
  if (had_one) return AuthorityIsMissing(journal->cluster(), AuthorityFolderOf(dir), "");
  return journal->cluster();
}

absl::Status ProvideAuthority(const std::string& folder, const Journal& journal, absl::Time now) {
  MUSTER_ASSIGN_OR_RETURN(const bool is_marked, journal.HasAuthority());
  const absl::StatusOr<Authority> there = ReadAuthority(folder);
  if (!there.ok() && !absl::IsNotFound(there.status())) return there.status();
  if (!there.ok() && is_marked)
    return AuthorityIsMissing(journal.cluster(), folder,
                              absl::StrCat(" (", there.status().message(), ")"));
  if (!there.ok()) {
    MUSTER_RETURN_IF_ERROR(Make(folder, journal.cluster(), now));
  } else {
    MUSTER_ASSIGN_OR_RETURN(const Identity own, ReadIdentity(folder));
    if (own.name.cluster != journal.cluster())
      return absl::FailedPreconditionError(absl::StrCat(
          "the authority in ", folder, " is that of cluster ", own.name.cluster, ", and the store ",
          "is of cluster ", journal.cluster(), ": bring back the store that belongs to it; or, to ",
          "begin anew, name another --dir, and let all hosts join again"));
    // A new store may have been given the same id.
    if (!is_marked && !IsUnused(folder))
      return absl::FailedPreconditionError(absl::StrCat(
          "the authority in ", folder, " has had a store, and the one here is new or another: ",
          "bring back the store that belongs to it; or, to begin anew, name another --dir and ",
          "--cluster-id, and let all hosts join again"));
  }
  if (!is_marked) MUSTER_RETURN_IF_ERROR(journal.NoteAuthority());
  std::error_code error;
  std::filesystem::remove(UnusedMarkOf(folder), error);
  return error ? FileError(error.value(), "remove", UnusedMarkOf(folder)) : absl::OkStatus();
}

absl::StatusOr<bool> RenewOwn(const std::string& folder, const std::vector<std::string>& reached_by,
                              absl::Time now) {
  MUSTER_ASSIGN_OR_RETURN(const Authority authority, ReadAuthority(folder));
  MUSTER_ASSIGN_OR_RETURN(const Identity own, ReadIdentity(folder));
  MUSTER_ASSIGN_OR_RETURN(const CertificateContent content, ReadCertificate(own.certificate_pem));
  const bool is_due = now >= RenewAt(own) || now < own.begins;
  if (!is_due && content.reached_by == reached_by) return false;
  MUSTER_ASSIGN_OR_RETURN(const Identity next, IssueIdentity(authority, own.name, now, reached_by));
  MUSTER_RETURN_IF_ERROR(WriteIdentity(folder, next));
  return true;
}

absl::StatusOr<std::vector<std::string>> ReachedBy(const std::vector<std::string>& listens,
                                                   const std::vector<std::string>& more,
                                                   const std::string& machine) {
  std::set<std::string> names = {"127.0.0.1", "::1", "localhost"};
  for (const std::string& address : listens)
    if (const auto parsed = ParseHostPort(address); parsed.ok() && !IsAnyAddress(parsed->host))
      names.insert(ReachOf(parsed->host));
  names.insert(ReachOf(machine));
  names.erase("");
  for (const std::string& one : more) {
    const std::string name = ReachOf(one);
    if (name.empty())
      return absl::InvalidArgumentError(
          absl::StrCat("'", Cut(Printable(one)), "' is neither an address nor a name of a host"));
    names.insert(name);
  }
  return std::vector<std::string>(names.begin(), names.end());
}

absl::StatusOr<SignedCertificate> SignWith(const std::string& folder, const Leaf& leaf,
                                           absl::Time now) {
  absl::StatusOr<Authority> authority = ReadAuthority(folder);
  if (absl::IsNotFound(authority.status()))
    return absl::FailedPreconditionError(
        "this coordinator has no key of an authority, and signs nothing");
  MUSTER_RETURN_IF_ERROR(authority.status());
  MUSTER_ASSIGN_OR_RETURN(std::string certificate, SignLeaf(*authority, leaf, now));
  return SignedCertificate{leaf.name.cluster, std::move(certificate),
                           std::move(authority->certificates_pem), absl::ToUnixMillis(now)};
}

std::unique_ptr<Renewal> KeepRenewing(std::string folder, std::vector<std::string> reached_by) {
  return std::make_unique<Renewal>(
      [folder = std::move(folder),
       reached_by = std::move(reached_by)](const std::stop_token&) -> Duration {
        const absl::StatusOr<bool> renewed = RenewOwn(folder, reached_by, absl::Now());
        if (!renewed.ok())
          LogWarning("the coordinator's certificate cannot be renewed: %s",
                     renewed.status().message());
        return kLookEvery;
      },
      kLookEvery);
}

}  // namespace muster::coordinator
