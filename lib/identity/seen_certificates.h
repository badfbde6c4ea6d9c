// What was found out about certificates lately. OpenSSL takes a third of a millisecond to read and
// to verify one, and whoever has a connection makes many calls with the same.
#pragma once

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "lib/base/mutex.h"
#include "lib/identity/certificates.h"
#include "lib/identity/identity.h"

namespace muster {

// For so long a verdict counts, unless the certificate ends before, or another authority is
// trusted.
inline constexpr absl::Duration kVerdictCounts = absl::Seconds(1);

// Thread-safe.
class SeenCertificates {
 public:
  // Certificates that are kept; then all are forgotten.
  explicit SeenCertificates(size_t most = 1024) : most_(most) {}

  // As ReadCertificate.
  absl::StatusOr<CertificateContent> Read(absl::string_view pem);
  // As VerifyPeer, by a verdict of the last second where there is one.
  absl::StatusOr<PeerName> Verify(const Identity& own, absl::string_view chain_pem, absl::Time now);

 private:
  struct Verdict {
    std::string authority_pem;
    std::string cluster;
    absl::StatusOr<PeerName> who;
    absl::Time from;
    absl::Time until;
  };

  const size_t most_;
  Mutex mutex_;
  // By the hash of what was shown, which may be long.
  absl::flat_hash_map<std::string, absl::StatusOr<CertificateContent>> read_
      ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, Verdict> verdicts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster
