#include "lib/base/loopback.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using testing::HasSubstr;

const NetworkNamespaces kOwn = {"net:[2]", "net:[1]"};
const NetworkNamespaces kShared = {"net:[1]", "net:[1]"};

TEST(Loopback, ParsesHostAndPort) {
  const auto v4 = ParseHostPort("127.0.0.1:65535");
  ASSERT_TRUE(v4.ok()) << v4.status();
  EXPECT_EQ(v4->host, "127.0.0.1");
  EXPECT_EQ(v4->port, 65535);
  const auto v6 = ParseHostPort("[fe80::1]:0");
  ASSERT_TRUE(v6.ok()) << v6.status();
  EXPECT_EQ(v6->host, "fe80::1");
}

TEST(Loopback, RefusesWhatIsNoAddress) {
  for (const char* text : {"", ":", ":80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536",
                           "127.0.0.1:-1", "h:+1", "h: 1", "::1:80", "[]:80", "h:0x10"}) {
    EXPECT_EQ(ParseHostPort(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(Loopback, LoopbackNeedsNothing) {
  for (const char* text :
       {"127.0.0.1:0", "127.255.3.4:80", "[::1]:80", "localhost:80", "[::ffff:127.0.0.1]:80"}) {
    EXPECT_TRUE(IsLoopbackAddress(text)) << text;
    EXPECT_TRUE(CheckPlaintextAddress(text, {}, kShared).ok()) << text;
    EXPECT_TRUE(CheckPlaintextAddress(text, {}, {}).ok()) << text;
  }
}

TEST(Loopback, OtherAddressesAreRefusedWithAReasonAndAWayOut) {
  for (const char* text : {"0.0.0.0:80", "10.0.0.1:80", "[::]:80", "128.0.0.1:80", "126.0.0.1:80",
                           "[::ffff:10.0.0.1]:80", "[::2]:80"}) {
    EXPECT_FALSE(IsLoopbackAddress(text)) << text;
    const absl::Status status = CheckPlaintextAddress(text, {}, kOwn);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_THAT(std::string(status.message()), HasSubstr("--allow-plaintext")) << text;
  }
}

TEST(Loopback, NamesAreNotResolved) {
  for (const char* text :
       {"localhost.example.com:80", "example.com:80", "127.0.0.1.example.com:80", "127.1:80"}) {
    EXPECT_EQ(CheckPlaintextAddress(text, {{"0.0.0.0/0"}}, kOwn).code(),
              absl::StatusCode::kFailedPrecondition)
        << text;
  }
}

TEST(Loopback, AnAllowedNetworkNeedsANamespaceOfItsOwn) {
  const Credentials allowed = {{"10.231.0.0/20", "fd00:1::/33"}};
  EXPECT_TRUE(CheckPlaintextAddress("10.231.15.255:80", allowed, kOwn).ok());
  EXPECT_TRUE(CheckPlaintextAddress("[::ffff:10.231.0.7]:80", allowed, kOwn).ok());
  EXPECT_TRUE(CheckPlaintextAddress("[fd00:1:7fff::9]:80", allowed, kOwn).ok());
  for (const char* outside : {"10.231.16.0:80", "10.230.255.255:80", "[fd00:1:8000::9]:80"}) {
    EXPECT_EQ(CheckPlaintextAddress(outside, allowed, kOwn).code(),
              absl::StatusCode::kFailedPrecondition)
        << outside;
  }
  for (const NetworkNamespaces& environment :
       {kShared, NetworkNamespaces{}, NetworkNamespaces{"net:[1]", {}},
        NetworkNamespaces{{}, "net:[1]"}}) {
    const absl::Status status = CheckPlaintextAddress("10.231.0.1:80", allowed, environment);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("process 1"));
  }
}

TEST(Loopback, BadNetworksAreNamedEvenWhereLoopbackIsAsked) {
  for (const char* cidr : {"", "10.0.0.0", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/8x",
                           "fd00::/129", "10.0.0/8", "example.com/8", "/8"}) {
    const absl::Status status = CheckPlaintextAddress("127.0.0.1:80", {{cidr}}, kOwn);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << cidr;
    EXPECT_THAT(std::string(status.message()), HasSubstr("allow-plaintext")) << cidr;
  }
}

TEST(Loopback, WholeAddressSpaceAndSingleHost) {
  EXPECT_TRUE(CheckPlaintextAddress("0.0.0.0:80", {{"0.0.0.0/0"}}, kOwn).ok());
  EXPECT_FALSE(CheckPlaintextAddress("[::2]:80", {{"0.0.0.0/0"}}, kOwn).ok());
  EXPECT_TRUE(CheckPlaintextAddress("192.0.2.1:80", {{"192.0.2.1/32"}}, kOwn).ok());
  EXPECT_FALSE(CheckPlaintextAddress("192.0.2.2:80", {{"192.0.2.1/32"}}, kOwn).ok());
}

TEST(Loopback, ReadsOurNamespace) {
  const NetworkNamespaces environment = ReadNetworkNamespaces();
  ASSERT_TRUE(environment.ours.has_value());
  EXPECT_THAT(*environment.ours, HasSubstr("net:["));
}

}  // namespace
}  // namespace muster
