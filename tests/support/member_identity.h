// What the program of a worker or server needs to start: the certificate of its process.
#pragma once

#include <string>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "lib/identity/certificates.h"
#include "lib/identity/identity_folder.h"

namespace muster {

// In `folder`, of an authority that signs nobody else, without an agent's placement. Returns
// `folder`.
inline std::string MakeMemberIdentity(const std::string& folder, const std::string& job,
                                      const std::string& name) {
  const absl::Time now = absl::Now();
  const MemberPeer member{job, name, PlacementNumber(0), {1, 2}};
  const absl::StatusOr<Authority> authority = MakeAuthority("c1", now);
  EXPECT_TRUE(authority.ok()) << authority.status();
  if (!authority.ok()) return folder;
  const absl::StatusOr<Identity> identity = IssueIdentity(*authority, {"c1", member}, now);
  EXPECT_TRUE(identity.ok()) << identity.status();
  if (!identity.ok()) return folder;
  EXPECT_EQ(WriteIdentity(folder, *identity), absl::OkStatus());
  return folder;
}

}  // namespace muster
