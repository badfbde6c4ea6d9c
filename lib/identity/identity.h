// Who we are, and whom we trust: an authority, a certificate of it, and its key, which fit
// together.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lib/identity/certificates.h"
#include "lib/identity/peer_name.h"

namespace muster {

struct Identity {
  std::string authority_pem;
  std::string certificate_pem;  // ours first, then what leads to the authority
  std::string key_pem;
  PeerName name;
  absl::Time begins;
  absl::Time ends;
};

// The three, if they fit together at all; whether it is time for them is seen when they are used.
// kInvalidArgument: one is damaged, or they do not fit, and which.
absl::StatusOr<Identity> MakeIdentity(std::string authority_pem, std::string certificate_pem,
                                      std::string key_pem);

// Whether its certificate is valid at `now`. kFailedPrecondition: when it is, and what to do.
absl::Status CheckTime(const Identity& identity, absl::Time now);

// Of a leaf that this authority signs: a new key, and its certificate.
absl::StatusOr<Identity> IssueIdentity(const Authority& authority, const PeerName& name,
                                       absl::Time now, std::vector<std::string> reached_by = {});

// From when on a new certificate is asked for: half of its time.
absl::Time RenewAt(const Identity& identity);

// Who the holder of this chain is, as a peer of `own` at `now`: Verify, and one of our cluster.
// kUnauthenticated: nobody, and why.
absl::StatusOr<PeerName> VerifyPeer(const Identity& own, absl::string_view chain_pem,
                                    absl::Time now);

}  // namespace muster
