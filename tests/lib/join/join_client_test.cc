// What a host makes of the answer: a certificate for its own key and name, by its own clock.
#include "lib/join/join_client.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "lib/identity/certificates.h"
#include "lib/identity/keys.h"
#include "lib/join/join_listener.h"

namespace muster {
namespace {

const JoinToken kToken{"a", std::string(32, 's')};

Time In(std::chrono::seconds time) { return std::chrono::steady_clock::now() + time; }

class JoinClientTest : public ::testing::Test {
 protected:
  using Answer = std::function<JoinAnswer(const JoinHost&)>;
  absl::StatusOr<Identity> Join(Answer answer, const std::stop_token& stop = {}) {
    const auto listener =
        JoinListener::Start(
            "127.0.0.1:0",
            [](const std::string&) { return std::optional(JoinKeyOf(kToken.secret)); },
            [answer](const std::string&, const JoinHost& ask,
                     const std::function<void(JoinAnswer)>& give) { give(answer(ask)); })
            .value();
    return JoinCluster({.address = listener->Address(), .token = kToken, .host = "a"}, key_,
                       In(std::chrono::seconds(60)), stop);
  }
  HostJoined Signed(const PeerName& name, const std::string& public_key, absl::Time now) const {
    return {"c1", SignLeaf(authority_, {.name = name, .public_key = public_key}, now).value(),
            authority_.certificates_pem, absl::ToUnixMillis(now)};
  }

  const Authority authority_ = MakeAuthority("c1", absl::Now()).value();
  const std::string key_ = MakeKey().value();
};

TEST_F(JoinClientTest, WhatIsSignedIsAnIdentity) {
  const absl::StatusOr<Identity> identity = Join([&](const JoinHost& ask) {
    return Signed({"c1", HostPeer{"a"}}, ask.public_key, absl::Now());
  });
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_EQ(ToUri(identity->name), "spiffe://c1/host/a");
  EXPECT_EQ(identity->key_pem, key_);
}

TEST_F(JoinClientTest, ACertificateOfAnotherKeyOrNameIsOfNoUse) {
  const std::string other = PublicKeyOf(MakeKey().value()).value();
  EXPECT_EQ(Join([&](const JoinHost&) {
              return Signed({"c1", HostPeer{"a"}}, other, absl::Now());
            })
                .status()
                .code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(Join([&](const JoinHost& ask) {
              return Signed({"c1", HostPeer{"b"}}, ask.public_key, absl::Now());
            })
                .status()
                .code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(Join([&](const JoinHost&) {
              return HostJoined{"c1", "x", "y", 1};
            })
                .status()
                .code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(JoinClientTest, ClocksThatDifferAreNamed) {
  const absl::StatusOr<Identity> identity = Join([&](const JoinHost& ask) {
    return Signed({"c1", HostPeer{"a"}}, ask.public_key, absl::Now() - absl::Minutes(6));
  });
  EXPECT_EQ(identity.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(identity.status().message().find("that of the coordinator"), std::string::npos)
      << identity.status();
  EXPECT_TRUE(
      Join([&](const JoinHost& ask) {
        return Signed({"c1", HostPeer{"a"}}, ask.public_key, absl::Now() - absl::Minutes(4));
      }).ok());
}

TEST_F(JoinClientTest, ARefusalIsToldWithItsReason) {
  EXPECT_EQ(Join([](const JoinHost&) {
              return JoinRefused{"was revoked", false};
            }).status(),
            absl::PermissionDeniedError("was revoked"));
  EXPECT_EQ(Join([](const JoinHost&) {
              return JoinRefused{"not yet", true};
            }).status(),
            absl::AbortedError("not yet"));
}

TEST_F(JoinClientTest, WhereNobodyListensItIsSaid) {
  const absl::StatusOr<Identity> nobody =
      JoinCluster({.address = "127.0.0.1:1", .token = kToken, .host = "a"}, key_,
                  In(std::chrono::seconds(60)), {});
  EXPECT_EQ(nobody.status().code(), absl::StatusCode::kUnavailable);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(Join([](const JoinHost&) { return JoinRefused{}; }, stop.get_token()).status().code(),
            absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace muster
