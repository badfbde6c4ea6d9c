#include "lib/identity/seen_certificates.h"

#include <algorithm>
#include <utility>

#include "lib/kernels/sha256.h"

namespace muster {
namespace {

template <class Value>
void Keep(absl::flat_hash_map<std::string, Value>& all, const std::string& key, Value value,
          size_t most) {
  if (all.size() >= most) all.clear();
  all.insert_or_assign(key, std::move(value));
}

}  // namespace

absl::StatusOr<CertificateContent> SeenCertificates::Read(absl::string_view pem) {
  const std::string key = HexSha256(pem);
  {
    const MutexLock lock(mutex_);
    if (const auto found = read_.find(key); found != read_.end()) return found->second;
  }
  absl::StatusOr<CertificateContent> content = ReadCertificate(pem);
  const MutexLock lock(mutex_);
  Keep(read_, key, content, most_);
  return content;
}

absl::StatusOr<PeerName> SeenCertificates::Verify(const Identity& own, absl::string_view chain_pem,
                                                  absl::Time now) {
  const std::string key = HexSha256(chain_pem);
  {
    const MutexLock lock(mutex_);
    const auto found = verdicts_.find(key);
    if (found != verdicts_.end() && found->second.from <= now && now < found->second.until &&
        found->second.cluster == own.name.cluster &&
        found->second.authority_pem == own.authority_pem)
      return found->second.who;
  }
  Verdict verdict{own.authority_pem, own.name.cluster, VerifyPeer(own, chain_pem, now), now,
                  now + kVerdictCounts};
  if (verdict.who.ok())
    if (const auto content = ReadCertificate(chain_pem); content.ok())
      verdict.until = std::min(verdict.until, content->ends);
  const MutexLock lock(mutex_);
  Keep(verdicts_, key, verdict, most_);
  return verdict.who;
}

}  // namespace muster
