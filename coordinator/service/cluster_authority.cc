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
#include "lib/identity/identity_source.h"
#include "lib/log/log.h"
#include "lib/storage/kv.h"

namespace muster::coordinator {
namespace {

constexpr Duration kLookEvery = std::chrono::minutes(1);
constexpr absl::Duration kWarnsBefore = absl::Hours(24 * 60);

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

std::string IsBefore(const AuthorityCertificate& signs, absl::Time now) {
  const auto text = [](absl::Time time) {
    return absl::FormatTime(absl::RFC3339_sec, time, absl::UTCTimeZone());
  };
  return absl::StrCat("the authority of this cluster begins at ", text(signs.begins),
                      ", and by this machine's clock it is ", text(now), ": set the clock right");
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
  MUSTER_RETURN_IF_ERROR(FinishChange(folder).status());
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
  MUSTER_ASSIGN_OR_RETURN(const Authority authority, ReadAuthority(folder));
  MUSTER_ASSIGN_OR_RETURN(const auto trusted, TrustedBy(authority));
  const std::string& hash = trusted.front().hash;
  if (is_marked) {
    MUSTER_ASSIGN_OR_RETURN(const bool may_be, journal.MayBeAuthority(hash));
    if (!may_be)
      return AuthorityIsMissing(journal.cluster(), folder,
                                " (what lies there is from before it was changed)");
  }
  MUSTER_RETURN_IF_ERROR(journal.NoteAuthority({hash}));
  std::error_code error;
  std::filesystem::remove(UnusedMarkOf(folder), error);
  return error ? FileError(error.value(), "remove", UnusedMarkOf(folder)) : absl::OkStatus();
}

absl::StatusOr<bool> RenewOwn(const std::string& folder, const std::vector<std::string>& reached_by,
                              absl::Time now) {
  MUSTER_ASSIGN_OR_RETURN(const Authority authority, ReadAuthority(folder));
  MUSTER_ASSIGN_OR_RETURN(const Identity own, ReadIdentity(folder));
  MUSTER_ASSIGN_OR_RETURN(const CertificateContent content, ReadCertificate(own.certificate_pem));
  MUSTER_ASSIGN_OR_RETURN(const auto trusted, TrustedBy(authority));
  if (now < trusted.front().begins) return absl::UnavailableError(IsBefore(trusted.front(), now));
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

ClusterAuthority::ClusterAuthority(Options options)
    : reached_by_(std::move(options.reached_by)),
      signs_(std::move(options.signs)),
      note_(std::move(options.note)),
      on_change_(std::move(options.on_change)),
      due_for_(options.due_for),
      folder_(std::move(options.folder)),
      renewal_([this](const std::stop_token&) { return Look(); },
               reached_by_ ? kLookEvery : kLookAtIdentityEvery) {}

absl::Status ClusterAuthority::CheckIsOwn() const {
  if (reached_by_) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the authority is from outside: change it where it is kept, and put its files into ", folder_,
      ", from which they are read again"));
}

absl::StatusOr<AuthorityStanding> ClusterAuthority::Read() const {
  const absl::StatusOr<Authority> authority = ReadAuthority(folder_);
  if (absl::IsNotFound(authority.status()))
    return absl::FailedPreconditionError(
        "this coordinator has no key of an authority, and signs nothing");
  MUSTER_RETURN_IF_ERROR(authority.status());
  AuthorityStanding standing{.trust = HashOfTrust(authority->certificates_pem)};
  MUSTER_ASSIGN_OR_RETURN(standing.trusted, TrustedBy(*authority));
  if (standing.trusted.size() > 1 && reached_by_) {
    absl::Time changed = absl::InfinitePast();
    for (const AuthorityCertificate& one : standing.trusted)
      changed = std::max(changed, one.begins + kBeginsBefore);
    standing.change_ends = changed + kTrustedOn;
  }
  return standing;
}

absl::StatusOr<AuthorityStanding> ClusterAuthority::Standing() {
  const MutexLock lock(mutex_);
  return Read();
}

// The coordinator shows a certificate of the one that signs, so that who trusts that one alone
// takes it, too. An older copy of the folder is known by the journal.
absl::Status ClusterAuthority::Install(const Authority& authority,
                                       const std::vector<std::string>& hashes, absl::Time now) {
  MUSTER_ASSIGN_OR_RETURN(const Identity own, ReadIdentity(folder_));
  MUSTER_ASSIGN_OR_RETURN(const Identity next,
                          IssueIdentity(authority, own.name, now, *reached_by_));
  MUSTER_RETURN_IF_ERROR(note_(hashes));
  MUSTER_RETURN_IF_ERROR(ChangeAuthority(folder_, authority, next));
  MUSTER_ASSIGN_OR_RETURN(const AuthorityStanding standing, Read());
  return note_({standing.trusted.front().hash});
}

absl::Status ClusterAuthority::Change(absl::Time now) {
  {
    const MutexLock lock(mutex_);
    MUSTER_RETURN_IF_ERROR(CheckIsOwn());
    MUSTER_RETURN_IF_ERROR(FinishChange(folder_).status());
    MUSTER_ASSIGN_OR_RETURN(const AuthorityStanding standing, Read());
    if (standing.change_ends)
      return absl::FailedPreconditionError(absl::StrCat(
          "the authority was changed already, and the one before is trusted until ",
          absl::FormatTime(absl::RFC3339_sec, *standing.change_ends, absl::UTCTimeZone()),
          ": wait until then, or end that change sooner with `muster certs finish`"));
    const AuthorityCertificate& signs = standing.trusted.front();
    if (now < signs.begins) return absl::FailedPreconditionError(IsBefore(signs, now));
    MUSTER_ASSIGN_OR_RETURN(const Authority before, ReadAuthority(folder_));
    MUSTER_ASSIGN_OR_RETURN(const Authority next, SucceedAuthority(before, now));
    MUSTER_ASSIGN_OR_RETURN(const auto trusted, TrustedBy(next));
    MUSTER_RETURN_IF_ERROR(Install(next, {signs.hash, trusted.front().hash}, now));
    MUSTER_RETURN_IF_ERROR(signs_->Look().status());
    LogInfo("the authority is another one from now on; the one before is trusted for %d hours",
            absl::ToInt64Hours(kTrustedOn));
  }
  on_change_(/*fewer=*/false);
  return absl::OkStatus();
}

absl::Status ClusterAuthority::Finish(absl::Time now) {
  {
    const MutexLock lock(mutex_);
    MUSTER_RETURN_IF_ERROR(FinishUnderLock(now));
  }
  on_change_(/*fewer=*/true);
  return absl::OkStatus();
}

absl::Status ClusterAuthority::FinishUnderLock(absl::Time now) {
  MUSTER_RETURN_IF_ERROR(CheckIsOwn());
  MUSTER_RETURN_IF_ERROR(FinishChange(folder_).status());
  MUSTER_ASSIGN_OR_RETURN(const AuthorityStanding standing, Read());
  if (!standing.change_ends)
    return absl::FailedPreconditionError(
        "the authority is not being changed: one alone is trusted, as `muster certs status` shows");
  MUSTER_ASSIGN_OR_RETURN(Authority left, ReadAuthority(folder_));
  left.certificates_pem = standing.trusted.front().pem;
  MUSTER_RETURN_IF_ERROR(Install(left, {standing.trusted.front().hash}, now));
  MUSTER_RETURN_IF_ERROR(signs_->Look().status());
  LogInfo("the authority before is trusted no more");
  return absl::OkStatus();
}

// A clock that was wrong for a moment ends no change: it is due at all looks of some time.
bool ClusterAuthority::IsDue(const AuthorityStanding& standing, absl::Time now) {
  if (!standing.change_ends || now < *standing.change_ends) {
    due_since_.reset();
    return false;
  }
  const Time steady = std::chrono::steady_clock::now();
  if (!due_since_) due_since_ = steady;
  return steady - *due_since_ >= due_for_;
}

// All that it has signed ends with it.
void ClusterAuthority::WarnOfEnd(const AuthorityStanding& standing, absl::Time now) {
  const absl::Time ends = standing.trusted.front().ends;
  if (now < ends - kWarnsBefore || now < warned_ + absl::Hours(24)) return;
  warned_ = now;
  LogWarning("the authority ends at %s: `muster certs change` makes another one%s",
             absl::FormatTime(ends),
             reached_by_ ? "" : ", where it is kept; this one is from outside");
}

Duration ClusterAuthority::Look() {
  absl::Status done;
  bool is_other = false, is_fewer = false;
  {
    const MutexLock lock(mutex_);
    const absl::Time now = absl::Now();
    if (reached_by_) {
      done = FinishChange(folder_).status();
      if (done.ok()) done = RenewOwn(folder_, *reached_by_, now).status();
    }
    const absl::StatusOr<AuthorityStanding> standing = Read();
    if (standing.ok()) WarnOfEnd(*standing, now);
    if (done.ok() && standing.ok() && IsDue(*standing, now)) {
      done = FinishUnderLock(now);
      is_fewer = is_other = done.ok();
    } else if (const absl::StatusOr<bool> looked = signs_->Look(); looked.ok()) {
      is_other = *looked;
    } else if (!absl::IsNotFound(looked.status())) {
      LogWarning("%s; the authority that was read before signs on", looked.status().message());
    }
  }
  if (!done.ok()) LogWarning("the coordinator's certificate cannot be renewed: %s", done.message());
  if (is_other) on_change_(is_fewer);
  return reached_by_ ? kLookEvery : kLookAtIdentityEvery;
}

}  // namespace muster::coordinator
