#include "coordinator/runtime/signer.h"

#include <utility>

#include "absl/time/clock.h"
#include "lib/base/status.h"
#include "lib/identity/certificates.h"
#include "lib/identity/identity_folder.h"

namespace muster::coordinator {

absl::StatusOr<Signer> ReadSigner(const std::string& identity_folder, absl::Duration lasts) {
  MUSTER_ASSIGN_OR_RETURN(const Identity own, ReadIdentity(identity_folder));
  absl::StatusOr<Authority> authority = ReadAuthority(identity_folder);
  if (absl::IsNotFound(authority.status())) return Signer();
  MUSTER_RETURN_IF_ERROR(authority.status());
  return Signer([authority = *std::move(authority), cluster = own.name.cluster,
                 lasts](const SignMember& ask) -> absl::StatusOr<MemberSigned> {
    const ProcessName& process = ask.process;
    const MemberPeer member{process.job, process.name, process.placement, process.incarnation};
    const absl::Time now = absl::Now();
    MemberSigned answer{process, {}, authority.certificates_pem, absl::ToUnixMillis(now)};
    MUSTER_ASSIGN_OR_RETURN(
        answer.certificate_pem,
        SignLeaf(authority,
                 {.name = {cluster, member}, .public_key = ask.public_key, .lasts = lasts}, now));
    return answer;
  });
}

}  // namespace muster::coordinator
