#include "lib/identity/seen_certificates.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lib/identity/made_certificates.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

class SeenCertificatesTest : public ::testing::Test {
 protected:
  static PeerName User(const std::string& name) {
    return ParsePeerName(absl::StrCat("spiffe://c1/user/", name)).value();
  }

  const Authority authority_ = TestAuthority();
  const absl::Time now_ = absl::Now();
  const Identity own_ = TestIdentity(authority_, ParsePeerName("spiffe://c1/coordinator").value());
  const Identity ada_ = TestIdentity(authority_, User("ada"));
  SeenCertificates seen_{2};
};

TEST_F(SeenCertificatesTest, SayTheSameEachTime) {
  for (int i = 0; i < 3; ++i) {
    const auto content = seen_.Read(ada_.certificate_pem);
    ASSERT_TRUE(content.ok()) << content.status();
    EXPECT_EQ(content->name, ada_.name);
    EXPECT_EQ(content->ends, ada_.ends);
    EXPECT_EQ(seen_.Verify(own_, ada_.certificate_pem, now_).value(), ada_.name);
    EXPECT_EQ(seen_.Read("no certificate").status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(seen_.Verify(own_, "no certificate", now_).status().code(),
              absl::StatusCode::kUnauthenticated);
  }
}

TEST_F(SeenCertificatesTest, EndWhenTheyEndThoughTheyWereGoodAMomentBefore) {
  const absl::Time last = ada_.ends - absl::Milliseconds(1);
  // Of an identity that ends later, as whoever looks is not the question.
  EXPECT_TRUE(seen_.Verify(own_, ada_.certificate_pem, last).ok());
  EXPECT_THAT(seen_.Verify(own_, ada_.certificate_pem, last + kVerdictCounts).status().ToString(),
              HasSubstr("expired"));
}

TEST_F(SeenCertificatesTest, AreJudgedAnewAfterAWhile) {
  const absl::Time early = ada_.begins - kVerdictCounts - absl::Seconds(1);
  EXPECT_FALSE(seen_.Verify(own_, ada_.certificate_pem, early).ok());
  EXPECT_TRUE(seen_.Verify(own_, ada_.certificate_pem, now_).ok());
  EXPECT_FALSE(seen_.Verify(own_, ada_.certificate_pem, early).ok()) << "the clock was set back";
}

TEST_F(SeenCertificatesTest, AreJudgedAnewByAnotherAuthorityAndInAnotherCluster) {
  EXPECT_TRUE(seen_.Verify(own_, ada_.certificate_pem, now_).ok());
  Identity other = own_;
  other.authority_pem = TestAuthority().certificates_pem;
  EXPECT_FALSE(seen_.Verify(other, ada_.certificate_pem, now_).ok());
  other = own_;
  other.name.cluster = "c2";
  EXPECT_FALSE(seen_.Verify(other, ada_.certificate_pem, now_).ok());
  EXPECT_TRUE(seen_.Verify(own_, ada_.certificate_pem, now_).ok());
}

TEST_F(SeenCertificatesTest, AreForgottenWhereTheyAreManyAndReadAgain) {
  for (const char* name : {"ada", "bob", "eve", "ada"}) {
    const Identity user = TestIdentity(authority_, User(name));
    EXPECT_EQ(seen_.Read(user.certificate_pem)->name, user.name);
    EXPECT_EQ(seen_.Verify(own_, user.certificate_pem, now_).value(), user.name);
  }
}

}  // namespace
}  // namespace muster
