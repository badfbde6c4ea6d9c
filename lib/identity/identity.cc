#include "lib/identity/identity.h"

#include <openssl/err.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/status.h"
#include "lib/identity/keys.h"
#include "lib/identity/openssl.h"

namespace muster {
namespace {

absl::Status CheckKeyFits(const std::string& certificate_pem, const std::string& key_pem) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<openssl::Certificate> chain,
                          openssl::ParseCertificates(certificate_pem));
  MUSTER_ASSIGN_OR_RETURN(const openssl::Key key, openssl::ParseKey(key_pem));
  const bool fits = X509_check_private_key(chain.front().get(), key.get()) == 1;
  ERR_clear_error();
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError("key.pem is not the key of certificate.pem");
}

}  // namespace

absl::StatusOr<Identity> MakeIdentity(std::string authority_pem, std::string certificate_pem,
                                      std::string key_pem) {
  const absl::StatusOr<CertificateContent> content = ReadCertificate(certificate_pem);
  if (!content.ok()) return Prefix("certificate.pem", content.status());
  MUSTER_RETURN_IF_ERROR(CheckKeyFits(certificate_pem, key_pem));
  const absl::StatusOr<PeerName> proved = Verify(
      authority_pem, certificate_pem, content->begins + (content->ends - content->begins) / 2);
  if (!proved.ok())
    return absl::InvalidArgumentError(absl::StrCat(
        "certificate.pem is not of the authority in authority.pem: ", proved.status().message()));
  return Identity{std::move(authority_pem), std::move(certificate_pem),
                  std::move(key_pem),       content->name,
                  content->begins,          content->ends};
}

absl::Status CheckTime(const Identity& identity, absl::Time now) {
  if (identity.begins <= now && now < identity.ends) return absl::OkStatus();
  const absl::TimeZone utc = absl::UTCTimeZone();
  return absl::FailedPreconditionError(absl::StrCat(
      "certificate.pem is valid from ", absl::FormatTime(identity.begins, utc), " until ",
      absl::FormatTime(identity.ends, utc), ", and now it is ", absl::FormatTime(now, utc),
      " by this machine's clock: set the clock right, or put a certificate there that is valid"));
}

absl::StatusOr<Identity> IssueIdentity(const Authority& authority, const PeerName& name,
                                       absl::Time now, std::vector<std::string> reached_by) {
  MUSTER_ASSIGN_OR_RETURN(std::string key_pem, MakeKey());
  Leaf leaf{.name = name, .reached_by = std::move(reached_by)};
  MUSTER_ASSIGN_OR_RETURN(leaf.public_key, PublicKeyOf(key_pem));
  MUSTER_ASSIGN_OR_RETURN(std::string certificate, SignLeaf(authority, leaf, now));
  return MakeIdentity(authority.certificates_pem, std::move(certificate), std::move(key_pem));
}

absl::Time RenewAt(const Identity& identity) {
  return identity.begins + (identity.ends - identity.begins) / 2;
}

absl::StatusOr<PeerName> VerifyPeer(const Identity& own, absl::string_view chain_pem,
                                    absl::Time now) {
  MUSTER_ASSIGN_OR_RETURN(PeerName name, Verify(own.authority_pem, chain_pem, now));
  if (name.cluster == own.name.cluster) return name;
  return absl::UnauthenticatedError(absl::StrCat(ToUri(name), " is of cluster ", name.cluster,
                                                 ", and this is ", own.name.cluster));
}

}  // namespace muster
