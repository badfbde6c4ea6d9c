// Signs certificates of members with the cluster's own authority (docs/identity.md section 4).
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lib/domain/message.h"

namespace muster::coordinator {

using Signer = std::function<absl::StatusOr<MemberSigned>(const SignMember&)>;

// With the authority that lies in this folder of the coordinator's identity, for as long as a
// certificate is to last. Null: no authority.key lies there, so that another authority signs whom
// it knows, and nobody signs members. Errors of ReadAuthority; they name the file.
absl::StatusOr<Signer> ReadSigner(const std::string& identity_folder, absl::Duration lasts);

}  // namespace muster::coordinator
