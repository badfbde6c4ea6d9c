#include "agent/runtime/own_identity.h"

#include <chrono>
#include <filesystem>
#include <system_error>

#include "absl/time/clock.h"
#include "lib/base/status.h"
#include "lib/base/this_process.h"
#include "lib/base/whole_file.h"
#include "lib/identity/identity_folder.h"
#include "lib/join/join_token.h"
#include "lib/log/log.h"

namespace muster::agent {
namespace {

constexpr Duration kLookEvery = std::chrono::minutes(1);

absl::StatusOr<Authority> ProvideAuthority(const OwnIdentityOptions& options) {
  // Of a coordinator that was killed; another one is not there yet.
  if (const absl::StatusOr<bool> finished = FinishChange(options.authority); !finished.ok())
    return finished.status();
  const absl::StatusOr<Authority> there = ReadAuthority(options.authority);
  if (!absl::IsNotFound(there.status())) return there;
  MUSTER_ASSIGN_OR_RETURN(std::string cluster, options.cluster());
  if (cluster.empty()) cluster = ToHex(DrawIncarnation());
  MUSTER_RETURN_IF_ERROR(MakeUnusedAuthority(options.authority, cluster, absl::Now()));
  return ReadAuthority(options.authority);
}

absl::Status Issue(const Authority& authority, const PeerName& name, const std::string& folder) {
  MUSTER_ASSIGN_OR_RETURN(const Identity own, IssueIdentity(authority, name, absl::Now()));
  return WriteIdentity(folder, own);
}

// Each minute, as the clock of the wall may be set.
absl::Status RenewWhereDue(const std::string& authority_folder, const std::string& folder) {
  MUSTER_ASSIGN_OR_RETURN(const Identity own, ReadIdentity(folder));
  MUSTER_ASSIGN_OR_RETURN(const Authority authority, ReadAuthority(authority_folder));
  const absl::Time now = absl::Now();
  if (now >= own.begins && now < RenewAt(own) && own.authority_pem == authority.certificates_pem)
    return absl::OkStatus();
  return Issue(authority, own.name, folder);
}

absl::Status Remove(const std::string& folder) {
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  return error ? FileError(error.value(), "remove", folder) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<OwnIdentity>> OwnIdentity::Make(const OwnIdentityOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(const Authority authority, ProvideAuthority(options));
  MUSTER_ASSIGN_OR_RETURN(const Identity coordinator, ReadIdentity(options.authority));
  // What was left there is of a muster that was killed.
  MUSTER_RETURN_IF_ERROR(Remove(options.folder));
  MUSTER_RETURN_IF_ERROR(MakePrivateFolder(options.folder));
  const std::string folder = FolderIn(options.folder);
  MUSTER_RETURN_IF_ERROR(
      Issue(authority, {coordinator.name.cluster, HostPeer{options.host}}, folder));
  MUSTER_ASSIGN_OR_RETURN(auto source, IdentitySource::Open(folder));
  auto renewal = std::make_unique<Renewal>(
      [in = options.authority, folder](const std::stop_token&) -> Duration {
        if (const absl::Status renewed = RenewWhereDue(in, folder); !renewed.ok())
          LogWarning("the certificate of this host cannot be renewed: %s", renewed.message());
        return kLookEvery;
      },
      kLookEvery);
  return std::unique_ptr<OwnIdentity>(
      new OwnIdentity(options.folder, std::move(source), std::move(renewal)));
}

OwnIdentity::~OwnIdentity() {
  renewal_.reset();
  Remove(folder_).IgnoreError();  // at the next start it is tried again
}

absl::StatusOr<std::string> ProvideJoinSecret(const std::string& authority_folder) {
  std::string file = authority_folder + "/join.secret";
  const absl::StatusOr<std::string> there = ReadSecret(file);
  if (absl::IsNotFound(there.status()))
    MUSTER_RETURN_IF_ERROR(WriteSecret(file, TextOf(MakeJoinToken("")) + "\n"));
  else
    MUSTER_RETURN_IF_ERROR(there.status());
  return file;
}

}  // namespace muster::agent
