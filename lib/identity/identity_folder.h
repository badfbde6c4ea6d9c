// The folder that holds an identity (docs/identity.md section 1): `current` is a symbolic link to a
// folder with authority.pem, certificate.pem and key.pem, and is swapped by a rename, so that
// readers see the three of one time. Only the owner may look into it, and into keys. A folder
// without `current`, which holds the files themselves, is of somebody else's making.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/identity/identity.h"

namespace muster {

// kNotFound: no folder, or a file of it is missing; kPermissionDenied: somebody else may read or
// write what only the owner may, and which file that is; kInvalidArgument: files that do not fit
// together, which may pass where somebody else is just writing them. All name the file.
absl::StatusOr<Identity> ReadIdentity(const std::string& folder);
// Makes the folder where it is missing. One writer at a time.
absl::Status WriteIdentity(const std::string& folder, const Identity& identity);

// The cluster's own authority lies beside that of the coordinator: its key as authority.key, and
// behind that in the same file what vouches for it; whom to trust in the identity's authority.pem.
// kNotFound: there is no authority.key.
absl::StatusOr<Authority> ReadAuthority(const std::string& folder);
// With the first identity, which is the coordinator's.
absl::Status WriteAuthority(const std::string& folder, const Authority& authority,
                            const Identity& coordinator);

// Another authority signs from now on, `coordinator` with it, and trusts both. Ended in the middle,
// or failed, it has not been, or FinishChange brings it to its end.
absl::Status ChangeAuthority(const std::string& folder, const Authority& next,
                             const Identity& coordinator);
// Where a change was ended in the middle. True: there was one, and it has been.
absl::StatusOr<bool> FinishChange(const std::string& folder);

// A file beside an authority that was made before its cluster: no store belongs to it yet.
std::string UnusedMarkOf(const std::string& folder);
// Makes such an authority, with the coordinator's first identity and the mark.
absl::Status MakeUnusedAuthority(const std::string& folder, const std::string& cluster,
                                 absl::Time now);

// Only its owner may look into it. kPermissionDenied: it is there, and others may.
absl::Status MakePrivateFolder(const std::string& folder);
// As MakePrivateFolder; where it is there already, others lose the rights that they have in it.
// kPermissionDenied: it is somebody else's; kFailedPrecondition: it is no folder, or a link and
// may be none, as where others may put something into its place.
absl::Status CloseToOthers(const std::string& folder, bool may_be_link);

// A file of the folder that only its owner may read, such as a token (0600).
absl::Status WriteSecret(const std::string& path, const std::string& content);
// kPermissionDenied: others may read or write it. One that root has mounted for us, as Kubernetes
// does it with a secret, may be read by its group, and be a link.
absl::StatusOr<std::string> ReadSecret(const std::string& path);

}  // namespace muster
