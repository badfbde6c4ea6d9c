// Certificates, as PEM: making them, and who it is that they prove (docs/identity.md section 1).
// Time comes in by the door; it is that of the wall, since certificates are compared by it. All
// functions are thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "lib/identity/peer_name.h"

namespace muster {

inline constexpr size_t kMostPemBytes = 64 << 10;  // of one file
inline constexpr size_t kMostCertificates = 8;     // in one file

// Clocks of hosts differ.
inline constexpr absl::Duration kBeginsBefore = absl::Hours(1);
inline constexpr absl::Duration kLeafLasts = absl::Hours(24);
inline constexpr absl::Duration kAuthorityLasts = absl::Hours(24 * 3652);

// Whoever holds it says who is who.
struct Authority {
  std::string certificates_pem;  // whom to trust: one, or several while the authority is changed
  std::string key_pem;           // of one of them
  // The certificate of that key by the one before it, and of that one by the one before, …: they go
  // behind whatever it signs. Empty: there was none before it.
  std::string vouched_pem = {};
};

// A new one. kInvalidArgument: no name for a cluster.
absl::StatusOr<Authority> MakeAuthority(const std::string& cluster, absl::Time now);
// The one after `before`, of which both are trusted: a new key, for which the one before vouches,
// so that who trusts that one alone takes what the new one signs (docs/identity.md section 7).
// kInvalidArgument: as CheckAuthority.
absl::StatusOr<Authority> SucceedAuthority(const Authority& before, absl::Time now);
// kInvalidArgument: the key is of none of these certificates, or that one may not sign.
absl::Status CheckAuthority(const Authority& authority);

// Of one who may sign.
struct AuthorityCertificate {
  std::string pem;
  std::string hash;  // SHA-256 of its DER, in hexadecimal digits, as browsers show it
  absl::Time begins;
  absl::Time ends;
};
// That of the key, first, and the others that are trusted. kInvalidArgument: as CheckAuthority.
absl::StatusOr<std::vector<AuthorityCertificate>> TrustedBy(const Authority& authority);

// Whom somebody trusts, as one word to compare: SHA-256 of that text, in hexadecimal digits.
std::string HashOfTrust(absl::string_view authority_pem);

// The cluster for which it speaks, as an authority of Muster's own says it. Empty: these say none,
// or several. kInvalidArgument: there is no certificate.
absl::StatusOr<std::string> ClusterOfAuthority(absl::string_view certificates_pem);

struct Leaf {
  PeerName name;
  std::string public_key;  // PublicKeyOf
  // Addresses and names by which the holder is reached by HTTPS: "10.0.0.2", "node7.example".
  std::vector<std::string> reached_by = {};
  absl::Duration lasts = kLeafLasts;
  std::string token = {};  // of a user: the id of the token that it was asked for with
};
// The certificate, and behind it that of the authority where it is no root itself, and what vouches
// for it. It begins
// kBeginsBefore `now`, and ends no later than the authority. kInvalidArgument: the key, a name, or
// the authority is none.
absl::StatusOr<std::string> SignLeaf(const Authority& authority, const Leaf& leaf, absl::Time now);

// As it stands in a certificate: addresses in their usual form. Empty: it is neither an address nor
// a name of a host.
std::string ReachOf(const std::string& address_or_name);

// What stands in the first certificate of a text. Nothing is verified.
struct CertificateContent {
  PeerName name;
  std::string public_key;
  absl::Time begins;
  absl::Time ends;
  std::vector<std::string> reached_by = {};  // each as of ReachOf, in order
  std::string token = {};                    // as of Leaf; empty: none
};
// kInvalidArgument: no certificate, or one with no name of ours or with several.
absl::StatusOr<CertificateContent> ReadCertificate(absl::string_view pem);

// Who shows a certificate. Ours serve both ends of a connection; an authority from outside may make
// some for one end alone.
enum class ShownBy { kAnyEnd, kServer };

// Who the first certificate of `chain_pem` proves its holder to be, to those who trust
// `authority_pem`, at `now`; those behind it may lead there. kUnauthenticated: it proves nothing,
// and why; so does one with a key that is too weak (RSA below 2048 bits). The cluster is the
// caller's to compare.
absl::StatusOr<PeerName> Verify(absl::string_view authority_pem, absl::string_view chain_pem,
                                absl::Time now, ShownBy shown_by = ShownBy::kAnyEnd);

}  // namespace muster
