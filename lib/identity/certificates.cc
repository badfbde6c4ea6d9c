#include "lib/identity/certificates.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/domain/member_name.h"
#include "lib/identity/keys.h"
#include "lib/identity/openssl.h"

namespace muster {
namespace {

using openssl::Certificate;
using openssl::Key;

constexpr long kVersion3 = 2;
constexpr int kSerialBytes = 16;
constexpr int kDeepestChain = 4;
constexpr int kLeastStrength = 2;  // OpenSSL's level of 112 bits: RSA of 2048, no SHA-1
constexpr size_t kLongestInSubject = 64;
constexpr char kUriOfCluster[] = "spiffe://";     // before the name of the cluster
constexpr char kUnitOfToken[] = "Muster token ";  // before the id of a token

bool SetSerial(X509* certificate) {
  std::array<unsigned char, kSerialBytes> random{};
  if (RAND_bytes(random.data(), static_cast<int>(random.size())) != 1) return false;
  random[0] = static_cast<unsigned char>((random[0] & 0x7f) | 0x40);  // positive, of full length
  BIGNUM* number = BN_bin2bn(random.data(), static_cast<int>(random.size()), nullptr);
  const bool set = number != nullptr &&
                   BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nullptr;
  BN_free(number);
  return set;
}

bool AddToSubject(X509* certificate, const char* field, absl::string_view text) {
  X509_NAME* const name = X509_get_subject_name(certificate);
  const std::string cut(text.substr(0, kLongestInSubject));
  return X509_NAME_add_entry_by_txt(name, field, MBSTRING_ASC,
                                    reinterpret_cast<const unsigned char*>(cut.data()),
                                    static_cast<int>(cut.size()), -1, 0) == 1;
}

bool SetTimes(X509* certificate, absl::Time begins, absl::Time ends) {
  return ASN1_TIME_set(X509_getm_notBefore(certificate), absl::ToTimeT(begins)) != nullptr &&
         ASN1_TIME_set(X509_getm_notAfter(certificate), absl::ToTimeT(ends)) != nullptr;
}

// `value` is in the words of OpenSSL's configuration files: no text from outside may be part of it.
bool AddExtension(X509* certificate, X509* issuer, int kind, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const openssl::Extension extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

bool AddUri(GENERAL_NAMES* names, const std::string& uri) {
  GENERAL_NAME* const name = GENERAL_NAME_new();
  ASN1_IA5STRING* const text = ASN1_IA5STRING_new();
  if (name == nullptr || text == nullptr ||
      ASN1_STRING_set(text, uri.data(), static_cast<int>(uri.size())) != 1)
    return false;
  GENERAL_NAME_set0_value(name, GEN_URI, text);
  return sk_GENERAL_NAME_push(names, name) > 0;
}

// The bytes of an address of either kind.
std::optional<std::string> AddressBytes(const std::string& text) {
  std::array<char, 16> bytes{};
  if (inet_pton(AF_INET, text.c_str(), bytes.data()) == 1) return std::string(bytes.data(), 4);
  if (inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1)
    return std::string(bytes.data(), bytes.size());
  return std::nullopt;
}

bool IsDnsName(absl::string_view text) {
  return !text.empty() && text.size() <= 253 && text[0] != '.' && text[0] != '-' &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.';
         });
}

bool AddReach(GENERAL_NAMES* names, const std::string& reached_by) {
  GENERAL_NAME* const name = GENERAL_NAME_new();
  const std::optional<std::string> address = AddressBytes(reached_by);
  ASN1_STRING* const text = address ? ASN1_OCTET_STRING_new() : ASN1_IA5STRING_new();
  const std::string& value = address ? *address : reached_by;
  if (name == nullptr || text == nullptr ||
      ASN1_STRING_set(text, value.data(), static_cast<int>(value.size())) != 1)
    return false;
  GENERAL_NAME_set0_value(name, address ? GEN_IPADD : GEN_DNS, text);
  return sk_GENERAL_NAME_push(names, name) > 0;
}

bool AddNames(X509* certificate, const std::string& uri,
              const std::vector<std::string>& reached_by) {
  const openssl::Names names(sk_GENERAL_NAME_new_null());
  if (names == nullptr || !AddUri(names.get(), uri)) return false;
  for (const std::string& one : reached_by)
    if (!AddReach(names.get(), one)) return false;
  return X509_add1_ext_i2d(certificate, NID_subject_alt_name, names.get(), 0, X509V3_ADD_DEFAULT) ==
         1;
}

// All of a certificate but names, issuer and signature.
absl::StatusOr<Certificate> Begin(EVP_PKEY* public_key, absl::string_view common_name,
                                  absl::Time begins, absl::Time ends) {
  ERR_clear_error();
  Certificate made(X509_new());
  if (made == nullptr || X509_set_version(made.get(), kVersion3) != 1 || !SetSerial(made.get()) ||
      !AddToSubject(made.get(), "CN", common_name) || !SetTimes(made.get(), begins, ends) ||
      X509_set_pubkey(made.get(), public_key) != 1)
    return openssl::Failed("begin a certificate");
  return made;
}

absl::Time TimeOf(const ASN1_TIME* text) {
  tm parts{};
  if (ASN1_TIME_to_tm(text, &parts) != 1) return absl::InfinitePast();
  return absl::FromTM(parts, absl::UTCTimeZone());
}

absl::StatusOr<std::string> UriIn(const X509* certificate) {
  const openssl::Names names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::optional<std::string> uri;
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    int kind = 0;
    const void* const value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names.get(), i), &kind);
    if (kind != GEN_URI) continue;
    if (uri) return absl::InvalidArgumentError("the certificate has several names (URIs)");
    const auto* text = static_cast<const ASN1_STRING*>(value);
    uri.emplace(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                static_cast<size_t>(ASN1_STRING_length(text)));
  }
  if (!uri) return absl::InvalidArgumentError("the certificate has no name (URI)");
  return *std::move(uri);
}

absl::StatusOr<PeerName> NameIn(const X509* certificate) {
  MUSTER_ASSIGN_OR_RETURN(const std::string uri, UriIn(certificate));
  return ParsePeerName(uri);
}

std::string TextOfAddress(const std::string& bytes) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const int family = bytes.size() == 4 ? AF_INET : AF_INET6;
  const bool right = bytes.size() == 4 || bytes.size() == 16;
  const char* const written =
      right ? inet_ntop(family, bytes.data(), text.data(), text.size()) : nullptr;
  return written == nullptr ? "" : written;
}

std::vector<std::string> ReachIn(const X509* certificate) {
  const openssl::Names names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::vector<std::string> all;
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    int kind = 0;
    const void* const value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names.get(), i), &kind);
    if (kind != GEN_DNS && kind != GEN_IPADD) continue;
    const auto* text = static_cast<const ASN1_STRING*>(value);
    const std::string bytes(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                            static_cast<size_t>(ASN1_STRING_length(text)));
    all.push_back(kind == GEN_DNS ? bytes : TextOfAddress(bytes));
  }
  std::sort(all.begin(), all.end());
  return all;
}

std::string TokenIn(const X509* certificate) {
  const X509_NAME* const subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_organizationalUnitName, -1);
  if (at < 0) return "";
  const ASN1_STRING* const unit = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
  absl::string_view text(reinterpret_cast<const char*>(ASN1_STRING_get0_data(unit)),
                         static_cast<size_t>(ASN1_STRING_length(unit)));
  return absl::ConsumePrefix(&text, kUnitOfToken) ? std::string(text) : "";
}

struct Signer {
  Certificate certificate;
  Key key;
};

absl::StatusOr<Signer> SignerOf(const Authority& authority) {
  MUSTER_ASSIGN_OR_RETURN(Key key, openssl::ParseKey(authority.key_pem));
  MUSTER_ASSIGN_OR_RETURN(std::vector<Certificate> all,
                          openssl::ParseCertificates(authority.certificates_pem));
  for (Certificate& one : all) {
    const bool fits = X509_check_private_key(one.get(), key.get()) == 1;
    ERR_clear_error();
    if (!fits) continue;
    if (X509_check_ca(one.get()) != 1)
      return absl::InvalidArgumentError("the certificate of the authority's key may not sign");
    return Signer{std::move(one), std::move(key)};
  }
  return absl::InvalidArgumentError("the authority's key is of none of its certificates");
}

absl::StatusOr<std::string> HashOf(const X509* certificate) {
  ERR_clear_error();
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned size = 0;
  if (X509_digest(certificate, EVP_sha256(), hash.data(), &size) != 1)
    return openssl::Failed("hash a certificate");
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(hash.data()), size));
}

bool IsRoot(X509* certificate) {
  return X509_NAME_cmp(X509_get_subject_name(certificate), X509_get_issuer_name(certificate)) == 0;
}

absl::string_view KindOf(const PeerName& name) {
  struct Kind {
    absl::string_view operator()(const CoordinatorPeer&) const { return "coordinator"; }
    absl::string_view operator()(const HostPeer&) const { return "host"; }
    absl::string_view operator()(const MemberPeer&) const { return "member"; }
    absl::string_view operator()(const UserPeer&) const { return "user"; }
  };
  return std::visit(Kind{}, name.who);
}

absl::Status CheckLeaf(const Leaf& leaf) {
  if (const std::string uri = ToUri(leaf.name); !ParsePeerName(uri).ok())
    return absl::InvalidArgumentError(
        absl::StrCat("'", Cut(Printable(uri)), "' is no name for a certificate"));
  const bool is_user = std::holds_alternative<UserPeer>(leaf.name.who);
  if (!leaf.token.empty() && (!is_user || !IsMemberName(leaf.token)))
    return absl::InvalidArgumentError("that is no id of a token, or not for a user");
  for (const std::string& one : leaf.reached_by)
    if (!AddressBytes(one) && !IsDnsName(one))
      return absl::InvalidArgumentError(
          absl::StrCat("'", Cut(Printable(one)), "' is neither an address nor a name of a host"));
  return absl::OkStatus();
}

// That it may sign others who sign is for what vouches for the next one: OpenSSL does not count
// that, but others do.
constexpr char kOfRoot[] = "critical,CA:TRUE,pathlen:1",
               kOfVoucher[] = "critical,CA:TRUE,pathlen:0";
constexpr size_t kMostVouchers = 3;

// One who signs others, before it is signed itself.
absl::StatusOr<Certificate> BeginAuthority(EVP_PKEY* key, const std::string& cluster,
                                           const char* constraints, absl::Time begins,
                                           absl::Time ends) {
  MUSTER_ASSIGN_OR_RETURN(Certificate made,
                          Begin(key, absl::StrCat("Muster ", cluster), begins, ends));
  X509* const x = made.get();
  if (!AddExtension(x, x, NID_basic_constraints, constraints) ||
      !AddExtension(x, x, NID_key_usage, "critical,keyCertSign,cRLSign") ||
      !AddExtension(x, x, NID_subject_key_identifier, "hash") ||
      !AddNames(x, absl::StrCat(kUriOfCluster, cluster), {}))
    return openssl::Failed("make an authority");
  return made;
}

}  // namespace

absl::StatusOr<Authority> MakeAuthority(const std::string& cluster, absl::Time now) {
  if (!IsMemberName(cluster))
    return absl::InvalidArgumentError(absl::StrCat(
        "'", Cut(Printable(cluster)), "' is no name of a cluster; it must be ", MemberNameRule()));
  MUSTER_ASSIGN_OR_RETURN(std::string key_pem, MakeKey());
  MUSTER_ASSIGN_OR_RETURN(const Key key, openssl::ParseKey(key_pem));
  MUSTER_ASSIGN_OR_RETURN(
      const Certificate made,
      BeginAuthority(key.get(), cluster, kOfRoot, now - kBeginsBefore, now + kAuthorityLasts));
  X509* const x = made.get();
  if (X509_set_issuer_name(x, X509_get_subject_name(x)) != 1 ||
      X509_sign(x, key.get(), EVP_sha256()) <= 0)
    return openssl::Failed("make an authority");
  return Authority{openssl::PemOf(x), std::move(key_pem)};
}

// The name stays, so what vouches is an authority's word about itself, which counts for no length
// of a path (RFC 5280 section 6.1, "self-issued").
absl::StatusOr<Authority> SucceedAuthority(const Authority& before, absl::Time now) {
  MUSTER_ASSIGN_OR_RETURN(const Signer signer, SignerOf(before));
  X509* const issuer = signer.certificate.get();
  if (!IsRoot(issuer))
    return absl::InvalidArgumentError(
        "the authority's certificate is signed by another one: it is changed where that is kept");
  MUSTER_ASSIGN_OR_RETURN(const std::string cluster, ClusterOfAuthority(openssl::PemOf(issuer)));
  MUSTER_ASSIGN_OR_RETURN(Authority next, MakeAuthority(cluster, now));
  MUSTER_ASSIGN_OR_RETURN(const Key key, openssl::ParseKey(next.key_pem));
  MUSTER_ASSIGN_OR_RETURN(const Certificate vouches,
                          BeginAuthority(key.get(), cluster, kOfVoucher, now - kBeginsBefore,
                                         TimeOf(X509_get0_notAfter(issuer))));
  X509* const x = vouches.get();
  if (X509_set_issuer_name(x, X509_get_subject_name(issuer)) != 1 ||
      !AddExtension(x, issuer, NID_authority_key_identifier, "keyid") ||
      X509_sign(x, signer.key.get(), EVP_sha256()) <= 0)
    return openssl::Failed("vouch for an authority");
  // Who has heard of none of the last changes finds the way through those before.
  next.vouched_pem = openssl::PemOf(x);
  if (!before.vouched_pem.empty()) {
    MUSTER_ASSIGN_OR_RETURN(const std::vector<Certificate> earlier,
                            openssl::ParseCertificates(before.vouched_pem));
    for (size_t i = 0; i < earlier.size() && i + 1 < kMostVouchers; ++i)
      next.vouched_pem += openssl::PemOf(earlier[i].get());
  }
  next.certificates_pem += openssl::PemOf(issuer);
  return next;
}

absl::StatusOr<std::vector<AuthorityCertificate>> TrustedBy(const Authority& authority) {
  MUSTER_ASSIGN_OR_RETURN(const Signer signer, SignerOf(authority));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<Certificate> all,
                          openssl::ParseCertificates(authority.certificates_pem));
  std::vector<AuthorityCertificate> trusted;
  for (const Certificate& one : all) {
    MUSTER_ASSIGN_OR_RETURN(std::string hash, HashOf(one.get()));
    AuthorityCertificate& added = trusted.emplace_back(AuthorityCertificate{
        openssl::PemOf(one.get()), std::move(hash), TimeOf(X509_get0_notBefore(one.get())),
        TimeOf(X509_get0_notAfter(one.get()))});
    if (X509_cmp(one.get(), signer.certificate.get()) == 0) std::swap(added, trusted.front());
  }
  return trusted;
}

std::string HashOfTrust(absl::string_view authority_pem) { return HashOfKey(authority_pem); }

absl::StatusOr<std::string> ClusterOfAuthority(absl::string_view certificates_pem) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<Certificate> all,
                          openssl::ParseCertificates(certificates_pem));
  std::string cluster;
  for (const Certificate& one : all) {
    const std::string uri = UriIn(one.get()).value_or("");
    const absl::string_view named = absl::StripPrefix(uri, kUriOfCluster);
    if (named.size() == uri.size() || !IsMemberName(named)) return "";
    if (!cluster.empty() && cluster != named) return "";
    cluster = std::string(named);
  }
  return cluster;
}

std::string ReachOf(const std::string& address_or_name) {
  if (const std::optional<std::string> bytes = AddressBytes(address_or_name))
    return TextOfAddress(*bytes);
  return IsDnsName(address_or_name) ? address_or_name : "";
}

absl::Status CheckAuthority(const Authority& authority) { return SignerOf(authority).status(); }

absl::StatusOr<std::string> SignLeaf(const Authority& authority, const Leaf& leaf, absl::Time now) {
  MUSTER_RETURN_IF_ERROR(CheckLeaf(leaf));
  MUSTER_ASSIGN_OR_RETURN(const Key public_key, openssl::ParsePublicKey(leaf.public_key));
  MUSTER_ASSIGN_OR_RETURN(const Signer signer, SignerOf(authority));
  X509* const issuer = signer.certificate.get();
  const absl::Time ends = std::min(now + leaf.lasts, TimeOf(X509_get0_notAfter(issuer)));
  MUSTER_ASSIGN_OR_RETURN(const Certificate made,
                          Begin(public_key.get(), absl::StrCat("Muster ", KindOf(leaf.name)),
                                now - kBeginsBefore, ends));
  X509* const x = made.get();
  const bool has_token = !leaf.token.empty();
  if (X509_set_issuer_name(x, X509_get_subject_name(issuer)) != 1 ||
      (has_token && !AddToSubject(x, "OU", absl::StrCat(kUnitOfToken, leaf.token))) ||
      !AddExtension(x, issuer, NID_basic_constraints, "critical,CA:FALSE") ||
      !AddExtension(x, issuer, NID_key_usage, "critical,digitalSignature") ||
      !AddExtension(x, issuer, NID_ext_key_usage, "serverAuth,clientAuth") ||
      !AddExtension(x, issuer, NID_subject_key_identifier, "hash") ||
      !AddExtension(x, issuer, NID_authority_key_identifier, "keyid") ||
      !AddNames(x, ToUri(leaf.name), leaf.reached_by) ||
      X509_sign(x, signer.key.get(), EVP_sha256()) <= 0)
    return openssl::Failed("sign a certificate");
  return absl::StrCat(openssl::PemOf(x), IsRoot(issuer) ? "" : openssl::PemOf(issuer),
                      authority.vouched_pem);
}

absl::StatusOr<CertificateContent> ReadCertificate(absl::string_view pem) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<Certificate> all, openssl::ParseCertificates(pem));
  const X509* const first = all.front().get();
  CertificateContent content;
  MUSTER_ASSIGN_OR_RETURN(content.name, NameIn(first));
  EVP_PKEY* const key = X509_get0_pubkey(first);
  if (key == nullptr) return absl::InvalidArgumentError("the certificate has no key that is known");
  MUSTER_ASSIGN_OR_RETURN(content.public_key, openssl::DerOf(key));
  content.begins = TimeOf(X509_get0_notBefore(first));
  content.ends = TimeOf(X509_get0_notAfter(first));
  content.reached_by = ReachIn(first);
  content.token = TokenIn(first);
  return content;
}

absl::StatusOr<PeerName> Verify(absl::string_view authority_pem, absl::string_view chain_pem,
                                absl::Time now, ShownBy shown_by) {
  const auto refused = [](const absl::Status& why) {
    return absl::UnauthenticatedError(why.message());
  };
  const absl::StatusOr<std::vector<Certificate>> trusted =
      openssl::ParseCertificates(authority_pem);
  if (!trusted.ok()) return refused(Prefix("the authority", trusted.status()));
  const absl::StatusOr<std::vector<Certificate>> chain = openssl::ParseCertificates(chain_pem);
  if (!chain.ok()) return refused(chain.status());
  const openssl::Store store(X509_STORE_new());
  const openssl::CertificateStack between(sk_X509_new_null());
  const openssl::StoreContext context(X509_STORE_CTX_new());
  X509* const leaf = chain->front().get();
  bool made = store != nullptr && between != nullptr && context != nullptr;
  for (const Certificate& one : *trusted)
    made = made && X509_STORE_add_cert(store.get(), one.get()) == 1;
  for (size_t i = 1; i < chain->size(); ++i)
    made = made && sk_X509_push(between.get(), (*chain)[i].get()) > 0;
  if (!made || X509_STORE_CTX_init(context.get(), store.get(), leaf, between.get()) != 1)
    return openssl::Failed("verify a certificate");
  X509_VERIFY_PARAM* const how = X509_STORE_CTX_get0_param(context.get());
  X509_VERIFY_PARAM_set_time(how, absl::ToTimeT(now));
  X509_VERIFY_PARAM_set_depth(how, kDeepestChain);
  X509_VERIFY_PARAM_set_auth_level(how, kLeastStrength);
  if (shown_by == ShownBy::kServer) X509_VERIFY_PARAM_set_purpose(how, X509_PURPOSE_SSL_SERVER);
  if (X509_verify_cert(context.get()) != 1) {
    const int error = X509_STORE_CTX_get_error(context.get());
    ERR_clear_error();
    return absl::UnauthenticatedError(absl::StrCat("the certificate proves nothing here: ",
                                                   X509_verify_cert_error_string(error)));
  }
  if (X509_check_ca(leaf) != 0)
    return absl::UnauthenticatedError("the certificate is an authority's, and nobody's name");
  absl::StatusOr<PeerName> name = NameIn(leaf);
  if (!name.ok()) return refused(name.status());
  return name;
}

}  // namespace muster
