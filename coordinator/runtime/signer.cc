#include "coordinator/runtime/signer.h"

#include <utility>

#include "absl/time/clock.h"
#include "lib/base/status.h"
#include "lib/identity/identity_folder.h"

namespace muster::coordinator {
namespace {

bool Same(const Authority& a, const Authority& b) {
  return a.certificates_pem == b.certificates_pem && a.key_pem == b.key_pem &&
         a.vouched_pem == b.vouched_pem;
}

}  // namespace

absl::StatusOr<std::shared_ptr<SigningAuthority>> SigningAuthority::Open(
    std::string identity_folder) {
  MUSTER_ASSIGN_OR_RETURN(const Identity own, ReadIdentity(identity_folder));
  std::shared_ptr<SigningAuthority> opened(
      new SigningAuthority(std::move(identity_folder), own.name.cluster));
  const absl::StatusOr<bool> found = opened->Look();
  if (!found.ok() && !absl::IsNotFound(found.status())) return found.status();
  return opened;
}

absl::StatusOr<bool> SigningAuthority::Look() {
  MUSTER_ASSIGN_OR_RETURN(Authority found, ReadAuthority(folder_));
  auto fresh = std::make_shared<const Authority>(std::move(found));
  const MutexLock lock(mutex_);
  if (authority_ != nullptr && Same(*authority_, *fresh)) return false;
  authority_.swap(fresh);
  return true;
}

std::shared_ptr<const Authority> SigningAuthority::Get() const {
  const MutexLock lock(mutex_);
  return authority_;
}

bool SigningAuthority::signs() const { return Get() != nullptr; }

std::string SigningAuthority::trust() const {
  const std::shared_ptr<const Authority> authority = Get();
  return authority == nullptr ? "" : HashOfTrust(authority->certificates_pem);
}

absl::StatusOr<SigningAuthority::Signed> SigningAuthority::Sign(const Leaf& leaf,
                                                                absl::Time now) const {
  const std::shared_ptr<const Authority> authority = Get();
  if (authority == nullptr)
    return absl::FailedPreconditionError(
        "this coordinator has no key of an authority, and signs nothing");
  MUSTER_ASSIGN_OR_RETURN(std::string certificate, SignLeaf(*authority, leaf, now));
  return Signed{std::move(certificate), authority->certificates_pem};
}

Signer SignerOfMembers(std::shared_ptr<const SigningAuthority> authority, absl::Duration lasts) {
  if (!authority->signs()) return nullptr;
  return [authority = std::move(authority),
          lasts](const SignMember& ask) -> absl::StatusOr<MemberSigned> {
    const ProcessName& process = ask.process;
    const MemberPeer member{process.job, process.name, process.placement, process.incarnation};
    const absl::Time now = absl::Now();
    MUSTER_ASSIGN_OR_RETURN(
        SigningAuthority::Signed made,
        authority->Sign(
            {.name = {authority->cluster(), member}, .public_key = ask.public_key, .lasts = lasts},
            now));
    return MemberSigned{process, std::move(made.certificate_pem), std::move(made.authority_pem),
                        absl::ToUnixMillis(now)};
  };
}

}  // namespace muster::coordinator
