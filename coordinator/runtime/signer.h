// With whom a coordinator signs (docs/identity.md sections 4 and 7): the authority whose key lies
// in the folder of its identity, as that was read last, because it changes while the coordinator
// runs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lib/base/mutex.h"
#include "lib/domain/message.h"
#include "lib/identity/certificates.h"

namespace muster::coordinator {

// Thread-safe. Only Open and Look wait for a disk.
class SigningAuthority {
 public:
  struct Signed {
    std::string certificate_pem;
    std::string authority_pem;  // whom to trust
  };

  // Errors of ReadIdentity and ReadAuthority, but for kNotFound of an authority.key: then another
  // authority signs whom it knows, and nobody signs here.
  static absl::StatusOr<std::shared_ptr<SigningAuthority>> Open(std::string identity_folder);
  SigningAuthority(const SigningAuthority&) = delete;
  SigningAuthority& operator=(const SigningAuthority&) = delete;

  // Reads the folder again. True: there is another authority, or others are trusted. Errors as of
  // Open: the one that was read before is used on.
  absl::StatusOr<bool> Look();

  bool signs() const;
  const std::string& cluster() const { return cluster_; }
  // HashOfTrust of what goes with each certificate; empty: nobody signs.
  std::string trust() const;
  // kFailedPrecondition: nobody signs; others of SignLeaf.
  absl::StatusOr<Signed> Sign(const Leaf& leaf, absl::Time now) const;

 private:
  SigningAuthority(std::string folder, std::string cluster)
      : folder_(std::move(folder)), cluster_(std::move(cluster)) {}
  std::shared_ptr<const Authority> Get() const;

  const std::string folder_;
  const std::string cluster_;
  mutable Mutex mutex_;
  std::shared_ptr<const Authority> authority_ ABSL_GUARDED_BY(mutex_);  // null: nobody signs
};

using Signer = std::function<absl::StatusOr<MemberSigned>(const SignMember&)>;

// Of members, whose certificates are to last so long. Null: nobody signs.
Signer SignerOfMembers(std::shared_ptr<const SigningAuthority> authority, absl::Duration lasts);

}  // namespace muster::coordinator
