// Identity folders on this machine: whose they are, until when, and whether others may read what is
// secret in them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/doctor/finding.h"
#include "lib/identity/certificates.h"
#include "lib/identity/identity.h"

namespace muster::cli::doctor {

struct IdentityFacts {
  std::string folder;
  bool is_of_another_user = false;                              // who may not look into it
  absl::StatusOr<Identity> identity = absl::NotFoundError("");  // kNotFound: there is none
  // Those that are trusted, the one that signs first; kNotFound: its key is not here.
  absl::StatusOr<std::vector<AuthorityCertificate>> authority = absl::NotFoundError("");
  // Of files with a secret beside it, such as admin.token.
  std::vector<absl::Status> secrets;
  // A start of the cluster makes the certificate anew, as it has the authority's key.
  bool is_at_rest = false;
};
IdentityFacts GatherIdentity(const std::string& folder, bool is_at_rest);
// `check`: whose certificate it is, "certificate of the coordinator".
Findings JudgeIdentity(const std::string& check, const IdentityFacts& facts, absl::Time now);

// An authority, as of GET /v1/authority or a folder, that ends then.
Finding JudgeAuthorityEnd(absl::Time ends, absl::Time now);

// "until 2027-01-15 08:00:00 UTC, in 3 d 4 h".
std::string Until(absl::Time ends, absl::Time now);

}  // namespace muster::cli::doctor
