#include "lib/identity/certificates.h"

#include <gtest/gtest.h>
#include <openssl/pem.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/identity/identity.h"
#include "lib/identity/keys.h"
#include "lib/identity/tls_context.h"
#include "tests/lib/identity/made_certificates.h"

namespace muster {
namespace {

using absl::StatusCode;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);
const PeerName kHost{"c1", HostPeer{"alpha"}};

Authority NewAuthority(const std::string& cluster = "c1") {
  return MakeAuthority(cluster, kNow).value();
}

Identity Issue(const Authority& authority, const PeerName& name = kHost) {
  return IssueIdentity(authority, name, kNow).value();
}

TEST(Certificates, ProveTheNameTheyWereSignedFor) {
  const Authority authority = NewAuthority();
  const PeerName all[] = {{"c1", CoordinatorPeer{}},
                          kHost,
                          {"c1", UserPeer{"eve"}},
                          {"c1", MemberPeer{"demo", "w0", PlacementNumber(3), Incarnation{5, 6}}}};
  for (const PeerName& name : all) {
    const Identity identity = Issue(authority, name);
    EXPECT_EQ(identity.name, name);
    const absl::StatusOr<PeerName> proved =
        Verify(authority.certificates_pem, identity.certificate_pem, kNow);
    ASSERT_TRUE(proved.ok()) << proved.status();
    EXPECT_EQ(*proved, name);
  }
}

TEST(Certificates, OfUsersMaySayWithWhichTokenTheyWereAskedFor) {
  const Authority authority = NewAuthority();
  Leaf leaf{.name = {"c1", UserPeer{"eve"}},
            .public_key = PublicKeyOf(MakeKey().value()).value(),
            .token = "0123456789ab"};
  const std::string pem = SignLeaf(authority, leaf, kNow).value();
  EXPECT_EQ(ReadCertificate(pem)->token, "0123456789ab");
  EXPECT_EQ(*Verify(authority.certificates_pem, pem, kNow), leaf.name);
  leaf.token = "";
  EXPECT_EQ(ReadCertificate(SignLeaf(authority, leaf, kNow).value())->token, "");
  leaf.token = "no id";
  EXPECT_EQ(SignLeaf(authority, leaf, kNow).status().code(), StatusCode::kInvalidArgument);
  leaf.token = "0123456789ab";
  leaf.name = kHost;
  EXPECT_EQ(SignLeaf(authority, leaf, kNow).status().code(), StatusCode::kInvalidArgument)
      << "a host has no token of people";
}

TEST(Certificates, BeginAnHourBackAndEndAfterADay) {
  const Authority authority = NewAuthority();
  const Identity identity = Issue(authority);
  EXPECT_EQ(identity.begins, kNow - kBeginsBefore);
  EXPECT_EQ(identity.ends, kNow + kLeafLasts);
  const auto verify = [&](absl::Time now) {
    return Verify(authority.certificates_pem, identity.certificate_pem, now).status().code();
  };
  EXPECT_EQ(verify(kNow - kBeginsBefore + absl::Seconds(1)), StatusCode::kOk);
  EXPECT_EQ(verify(kNow - kBeginsBefore - absl::Seconds(1)), StatusCode::kUnauthenticated);
  EXPECT_EQ(verify(kNow + kLeafLasts - absl::Seconds(1)), StatusCode::kOk);
  EXPECT_EQ(verify(kNow + kLeafLasts + absl::Seconds(1)), StatusCode::kUnauthenticated);
}

TEST(Certificates, OfAForeignAuthorityProveNothing) {
  const Identity ours = Issue(NewAuthority()), theirs = Issue(NewAuthority());
  EXPECT_EQ(Verify(ours.authority_pem, theirs.certificate_pem, kNow).status().code(),
            StatusCode::kUnauthenticated);
}

TEST(Certificates, OfAnotherClusterAreNobodys) {
  const Authority authority = NewAuthority();
  const Identity ours = Issue(authority);
  const Identity other = Issue(authority, {"c2", HostPeer{"alpha"}});
  EXPECT_TRUE(VerifyPeer(ours, ours.certificate_pem, kNow).ok());
  EXPECT_EQ(VerifyPeer(ours, other.certificate_pem, kNow).status().code(),
            StatusCode::kUnauthenticated);
}

TEST(Certificates, OfAnAuthorityAreNobodys) {
  const Authority authority = NewAuthority();
  EXPECT_EQ(Verify(authority.certificates_pem, authority.certificates_pem, kNow).status().code(),
            StatusCode::kUnauthenticated);
}

TEST(Certificates, OfALeafCannotSign) {
  const Identity leaf = Issue(NewAuthority());
  EXPECT_EQ(CheckAuthority({leaf.certificate_pem, leaf.key_pem}).code(),
            StatusCode::kInvalidArgument);
}

// As an authority from outside may make them; ours signs P-256 alone.
TEST(Certificates, WithAWeakKeyProveNothing) {
  const Authority authority = TestAuthority();
  const Identity good = TestIdentity(authority, kHost);
  const auto verify = [&](const Identity& identity) {
    return Verify(authority.certificates_pem, identity.certificate_pem, absl::Now()).status();
  };
  EXPECT_EQ(verify(WithRsaKey(authority, good, 2048)), absl::OkStatus());
  const absl::Status weak = verify(WithRsaKey(authority, good, 1024));
  EXPECT_EQ(weak.code(), StatusCode::kUnauthenticated);
  EXPECT_TRUE(absl::StrContains(weak.message(), "key too weak")) << weak;
}

TEST(Certificates, OfClientsAreNoServers) {
  const Authority authority = TestAuthority();
  const Identity good = TestIdentity(authority, {"c1", CoordinatorPeer{}});
  const auto check = [&](const Identity& identity) {
    return CheckCoordinator({authority.certificates_pem, "c1"}, identity.certificate_pem,
                            absl::Now())
        .code();
  };
  EXPECT_EQ(check(good), StatusCode::kOk);
  EXPECT_EQ(check(ForOneEnd(authority, good, "serverAuth")), StatusCode::kOk);
  EXPECT_EQ(check(ForOneEnd(authority, good, "clientAuth")), StatusCode::kUnauthenticated);
}

TEST(Certificates, AreTrustedFromBothAuthoritiesWhileTheyChange) {
  const Authority old = NewAuthority(), fresh = NewAuthority();
  const Authority both{absl::StrCat(fresh.certificates_pem, old.certificates_pem), old.key_pem};
  const std::string by_old = Issue(both).certificate_pem, by_fresh = Issue(fresh).certificate_pem;
  EXPECT_TRUE(Verify(both.certificates_pem, by_old, kNow).ok());
  EXPECT_TRUE(Verify(both.certificates_pem, by_fresh, kNow).ok());
  EXPECT_FALSE(Verify(fresh.certificates_pem, by_old, kNow).ok());
}

TEST(Certificates, OfAnAuthoritySayForWhichClusterItSpeaks) {
  const Authority one = NewAuthority(), again = NewAuthority(), other = NewAuthority("c2");
  EXPECT_EQ(ClusterOfAuthority(one.certificates_pem).value(), "c1");
  EXPECT_EQ(ClusterOfAuthority(one.certificates_pem + again.certificates_pem).value(), "c1");
  EXPECT_EQ(ClusterOfAuthority(one.certificates_pem + other.certificates_pem).value(), "");
  EXPECT_EQ(ClusterOfAuthority(Issue(one).certificate_pem).value(), "") << "it is a host's";
  EXPECT_EQ(ClusterOfAuthority("no certificate").status().code(), StatusCode::kInvalidArgument);
}

TEST(Certificates, OfTheCoordinatorAreTakenForItByThoseWhoTrustItsAuthority) {
  const Authority authority = NewAuthority();
  const auto check = [&](const Trust& trust, const PeerName& name, absl::Duration later) {
    return CheckCoordinator(trust, Issue(authority, name).certificate_pem, kNow + later).code();
  };
  const Trust ours{authority.certificates_pem, "c1"};
  const PeerName coordinator{"c1", CoordinatorPeer{}};
  const absl::Duration now = absl::ZeroDuration();
  EXPECT_EQ(check(ours, coordinator, now), StatusCode::kOk);
  EXPECT_EQ(check({authority.certificates_pem, ""}, coordinator, now), StatusCode::kOk);
  EXPECT_EQ(check(ours, coordinator, 2 * kLeafLasts), StatusCode::kUnauthenticated);
  EXPECT_EQ(check({NewAuthority().certificates_pem, "c1"}, coordinator, now),
            StatusCode::kUnauthenticated);
  EXPECT_EQ(check({authority.certificates_pem, "c2"}, coordinator, now),
            StatusCode::kPermissionDenied);
  EXPECT_EQ(check(ours, {"c2", CoordinatorPeer{}}, now), StatusCode::kPermissionDenied);
  EXPECT_EQ(check(ours, kHost, now), StatusCode::kPermissionDenied);
  EXPECT_EQ(check(ours, {"c1", UserPeer{"eve"}}, now), StatusCode::kPermissionDenied);
}

TEST(Certificates, EndNoLaterThanTheirAuthority) {
  const Authority authority = NewAuthority();
  const absl::Time late = kNow + kAuthorityLasts - absl::Hours(2);
  const Identity identity = IssueIdentity(authority, kHost, late).value();
  EXPECT_EQ(identity.ends, kNow + kAuthorityLasts);
}

TEST(Certificates, SayHowTheirHolderIsReached) {
  const Authority authority = NewAuthority();
  for (const char* good : {"10.0.0.2", "fd00::2", "node7.example"})
    EXPECT_TRUE(IssueIdentity(authority, kHost, kNow, {good}).ok()) << good;
  for (const char* bad : {"", "a b", "*.example", "a,URI:spiffe://c1/coordinator", "-a"})
    EXPECT_EQ(IssueIdentity(authority, kHost, kNow, {bad}).status().code(),
              StatusCode::kInvalidArgument)
        << bad;
}

TEST(Certificates, AreSignedForNamesAndKeysOfOursOnly) {
  const Authority authority = NewAuthority();
  const std::string key = PublicKeyOf(MakeKey().value()).value();
  EXPECT_TRUE(SignLeaf(authority, {kHost, key}, kNow).ok());
  const Leaf bad[] = {{{"c1", HostPeer{"a/b"}}, key},
                      {{"", HostPeer{"a"}}, key},
                      {kHost, ""},
                      {kHost, key + "x"},
                      {kHost, key.substr(1)},
                      {kHost, std::string(100'000, 'x')}};
  for (const Leaf& leaf : bad)
    EXPECT_EQ(SignLeaf(authority, leaf, kNow).status().code(), StatusCode::kInvalidArgument);
}

// A change of any byte leaves no point of the curve, or no key at all.
TEST(Keys, AreReadStrictly) {
  const std::string key = PublicKeyOf(MakeKey().value()).value();
  EXPECT_TRUE(CheckPublicKey(key).ok());
  for (size_t i = 0; i < key.size(); ++i) {
    std::string changed = key;
    changed[i] = static_cast<char>(changed[i] ^ 0x55);
    EXPECT_FALSE(CheckPublicKey(changed).ok()) << i;
    EXPECT_FALSE(CheckPublicKey(key.substr(0, i)).ok()) << i;
  }
}

TEST(Keys, OfOtherCurvesAreRefused) {
  EVP_PKEY* const other = EVP_EC_gen("P-384");
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(other, &der);
  const std::string text(reinterpret_cast<char*>(der), static_cast<size_t>(size));
  OPENSSL_free(der);
  EVP_PKEY_free(other);
  EXPECT_EQ(CheckPublicKey(text).code(), StatusCode::kInvalidArgument);
}

TEST(Identities, AreOfPartsThatFitTogether) {
  const Authority authority = NewAuthority();
  const Identity a = Issue(authority), b = Issue(authority), foreign = Issue(NewAuthority());
  const auto code = [](const std::string& trust, const std::string& chain, const std::string& key) {
    return MakeIdentity(trust, chain, key).status().code();
  };
  EXPECT_EQ(code(a.authority_pem, a.certificate_pem, a.key_pem), StatusCode::kOk);
  EXPECT_EQ(code(a.authority_pem, a.certificate_pem, b.key_pem), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(foreign.authority_pem, a.certificate_pem, a.key_pem),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code(a.authority_pem, authority.certificates_pem, authority.key_pem),
            StatusCode::kInvalidArgument);
}

// What is damaged is refused and crashes nobody.
TEST(Identities, AreReadFromHostileText) {
  const Identity good = Issue(NewAuthority());
  const std::string huge(kMostPemBytes + 1, '-');
  std::string many;
  for (size_t i = 0; i <= kMostCertificates; ++i) many += good.certificate_pem;
  const std::string encrypted =
      "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAA=\n-----END ENCRYPTED PRIVATE KEY-----\n";
  for (const std::string& bad : {std::string(), huge, many, encrypted, std::string(99, '\0'),
                                 std::string("-----BEGIN CERTIFICATE-----\n")}) {
    EXPECT_FALSE(MakeIdentity(bad, good.certificate_pem, good.key_pem).ok());
    EXPECT_FALSE(MakeIdentity(good.authority_pem, bad, good.key_pem).ok());
    EXPECT_FALSE(MakeIdentity(good.authority_pem, good.certificate_pem, bad).ok());
    EXPECT_FALSE(Verify(good.authority_pem, bad, kNow).ok());
    EXPECT_FALSE(ReadCertificate(bad).ok());
  }
  for (size_t size = 0; size + 2 < good.certificate_pem.size(); size += 7)
    EXPECT_FALSE(Verify(good.authority_pem, good.certificate_pem.substr(0, size), kNow).ok());
}

}  // namespace
}  // namespace muster
