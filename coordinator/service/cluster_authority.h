// The authority of a cluster, as far as the coordinator has it (docs/identity.md section 1): a
// folder with its own identity and, where it may sign for others, the authority's key.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/runtime/journal.h"
#include "coordinator/service/control_api.h"
#include "lib/identity/certificates.h"
#include "lib/identity/identity_source.h"
#include "lib/identity/renewal.h"

namespace muster::coordinator {

// In a coordinator's --dir.
std::string AuthorityFolderOf(const std::string& dir);

// The id of a cluster of which the authority was made before it (muster certs init); empty: there
// is none.
absl::StatusOr<std::string> ClusterMadeFor(const std::string& folder);

// The id of the cluster whose store lies in a coordinator's --dir, and which never had an
// authority; empty: there is no store. kFailedPrecondition: it had one, and what to do.
absl::StatusOr<std::string> ClusterWithoutAuthority(const std::string& dir);

// The cluster's own authority, in that folder: made together with the store, and each names it.
// kFailedPrecondition: one of the two is there without the other, and what to do.
absl::Status ProvideAuthority(const std::string& folder, const Journal& journal, absl::Time now);

// The coordinator's certificate is signed anew where it has had half of its time, or somebody
// reaches the coordinator by other names than stand in it. True: it was.
absl::StatusOr<bool> RenewOwn(const std::string& folder, const std::vector<std::string>& reached_by,
                              absl::Time now);

// By which names those who speak HTTPS reach a coordinator that listens there. `more`: named by a
// person; kInvalidArgument: one is neither an address nor a name of a host.
absl::StatusOr<std::vector<std::string>> ReachedBy(const std::vector<std::string>& listens,
                                                   const std::vector<std::string>& more,
                                                   const std::string& machine);

// Signs with what the folder holds at that moment. Waits for its disk. kFailedPrecondition: there
// is no key of an authority; kInvalidArgument: the key, or another field of the leaf.
absl::StatusOr<SignedCertificate> SignWith(const std::string& folder, const Leaf& leaf,
                                           absl::Time now);

// Renews the coordinator's certificate as long as it lives; whoever has the folder open sees the
// new one.
std::unique_ptr<Renewal> KeepRenewing(std::string folder, std::vector<std::string> reached_by);

}  // namespace muster::coordinator
