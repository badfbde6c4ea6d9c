// From the question of a host to what is signed: the journal has it first, and what it says counts.
#include "coordinator/service/joining.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "lib/identity/keys.h"
#include "lib/join/join_token.h"
#include "tests/coordinator/runtime/driver_rig.h"

namespace muster::coordinator {
namespace {

using ::testing::HasSubstr;

class JoiningTest : public DriverRig {
 protected:
  template <class T, class Call>
  static absl::StatusOr<T> Get(Call call) {
    std::promise<absl::StatusOr<T>> answer;
    call([&](absl::StatusOr<T> got) { answer.set_value(std::move(got)); });
    return answer.get_future().get();
  }
  absl::StatusOr<AdmittedHost> Admit(const std::string& host,
                                     const std::string& name_space = "default",
                                     bool certified = false) {
    return Get<AdmittedHost>(
        [&](auto reply) { joining_.Admit(host, name_space, certified, reply); });
  }
  absl::StatusOr<AdmittedHost> Revoke(const std::string& host) {
    return Get<AdmittedHost>([&](auto reply) { joining_.Revoke(host, reply); });
  }
  JoinAnswer Join(const std::string& identity, JoinHost ask) {
    std::promise<JoinAnswer> answer;
    joining_.Decide(identity, ask, [&](JoinAnswer got) { answer.set_value(std::move(got)); });
    return answer.get_future().get();
  }
  static JoinHost Ask(const std::string& host, const std::string& key) {
    return {host, "n", key, absl::ToUnixMillis(absl::Now())};
  }
  static std::string WhyRefused(const JoinAnswer& answer) {
    const auto* refused = std::get_if<JoinRefused>(&answer);
    return refused == nullptr ? "it was signed" : refused->why;
  }

  const std::string key_ = PublicKeyOf(MakeKey().value()).value();
  const std::string other_ = PublicKeyOf(MakeKey().value()).value();
  Joining joining_{
      *driver_, "c1",
      [](const Leaf& leaf) {
        return SignedCertificate{leaf.name.cluster, ToUri(leaf.name) + leaf.token, "authority", 7};
      },
      std::string(32, 'r')};
};

TEST_F(JoiningTest, ATokenLetsOneHostInWithOneKey) {
  const absl::StatusOr<AdmittedHost> made = Admit("a");
  ASSERT_TRUE(made.ok()) << made.status();
  const absl::StatusOr<JoinToken> token = ParseJoinToken(made->token);
  ASSERT_TRUE(token.ok());
  EXPECT_EQ(joining_.KeyOf("host:a"), JoinKeyOf(token->secret));
  EXPECT_EQ(joining_.KeyOf("host:b"), std::nullopt);
  EXPECT_EQ(std::get<HostJoined>(Join("host:a", Ask("a", key_))).certificate_pem,
            "spiffe://c1/host/a");
  EXPECT_THAT(WhyRefused(Join("host:a", Ask("a", other_))), HasSubstr("another key"));
  EXPECT_EQ(WhyRefused(Join("host:a", Ask("a", key_))), "it was signed") << "renewed";
}

TEST_F(JoiningTest, WhatIsWrongWithAQuestionIsSaid) {
  ASSERT_TRUE(Admit("a").ok());
  EXPECT_THAT(WhyRefused(Join("host:a", Ask("b", key_))), HasSubstr("the token is that of host a"));
  EXPECT_THAT(WhyRefused(Join("host:a", Ask("a", "no key"))), HasSubstr("public key"));
  EXPECT_THAT(WhyRefused(Join("host:c", Ask("c", key_))), HasSubstr("has no token"));
  JoinHost late = Ask("a", key_);
  late.now_unix_ms -= 6 * 60 * 1000;
  EXPECT_THAT(WhyRefused(Join("host:a", late)), HasSubstr("by that of host a"));
  EXPECT_EQ(WhyRefused(Join("host:a", Ask("a", key_))), "it was signed");
}

TEST_F(JoiningTest, ARevokedHostIsUnknownUntilAPersonLetsItBack) {
  const std::string before = Admit("a")->token;
  ASSERT_EQ(WhyRefused(Join("host:a", Ask("a", key_))), "it was signed");
  ASSERT_TRUE(Revoke("a").ok());
  EXPECT_EQ(joining_.KeyOf("host:a"), std::nullopt) << "its token is spent";
  EXPECT_THAT(WhyRefused(Join("host:a", Ask("a", key_))), HasSubstr("was revoked"));
  EXPECT_EQ(Revoke("nobody").status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(Admit("a")->token, before);
  EXPECT_EQ(WhyRefused(Join("host:a", Ask("a", other_))), "it was signed");
}

TEST_F(JoiningTest, TheSecretOfARunIsForAnyHostOfOneNamespace) {
  EXPECT_EQ(joining_.KeyOf("run"), JoinKeyOf(std::string(32, 'r')));
  EXPECT_EQ(WhyRefused(Join("run", Ask("t0", key_))), "it was signed");
  ASSERT_TRUE(Admit("v", "vision").ok());
  ASSERT_TRUE(Admit("s", "speech").ok());
  EXPECT_THAT(WhyRefused(Join("run", Ask("t1", other_))), HasSubstr("one namespace"));
  EXPECT_THAT(WhyRefused(Join("run", Ask("t0", key_))), HasSubstr("one namespace"));
}

TEST_F(JoiningTest, ACertifiedHostHasNoToken) {
  EXPECT_EQ(Admit("a", "vision", /*certified=*/true)->token, "");
  EXPECT_EQ(joining_.KeyOf("host:a"), std::nullopt);
  EXPECT_EQ(Admit("../a").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(JoiningTest, UsersGetTheirOwnName) {
  const auto sign = [&](const std::string& user, const std::string& key) {
    return Get<SignedCertificate>([&](auto reply) { joining_.SignUser(user, "#7", key, reply); });
  };
  EXPECT_EQ(sign("ada", key_)->certificate_pem, "spiffe://c1/user/ada#7");
  EXPECT_EQ(sign("ada", "no key").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(sign("", key_).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(JoiningTest, WhatWasBoundIsKnownAfterARestart) {
  ASSERT_TRUE(Admit("a", "vision").ok());
  ASSERT_EQ(WhyRefused(Join("host:a", Ask("a", key_))), "it was signed");
  const HostRecords before = *driver_->KnownWithHosts()->host_records;
  joining_.Stop();
  Stop();
  Start();
  EXPECT_EQ(*driver_->KnownWithHosts()->host_records, before);
  EXPECT_EQ(before.at("a").name_space, "vision");
}

}  // namespace
}  // namespace muster::coordinator
