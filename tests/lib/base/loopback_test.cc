#include "lib/base/loopback.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using testing::HasSubstr;

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
    EXPECT_TRUE(CheckPlaintextAddress(text).ok()) << text;
  }
}

TEST(Loopback, OtherAddressesAreRefusedWithAReasonAndAWayOut) {
  for (const char* text : {"0.0.0.0:80", "10.0.0.1:80", "[::]:80", "128.0.0.1:80", "126.0.0.1:80",
                           "[::ffff:10.0.0.1]:80", "[::2]:80"}) {
    EXPECT_FALSE(IsLoopbackAddress(text)) << text;
    const absl::Status status = CheckPlaintextAddress(text);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_THAT(std::string(status.message()), HasSubstr("--identity")) << text;
  }
}

TEST(Loopback, NamesAreNotResolved) {
  for (const char* text :
       {"localhost.example.com:80", "example.com:80", "127.0.0.1.example.com:80", "127.1:80"}) {
    EXPECT_EQ(CheckPlaintextAddress(text).code(), absl::StatusCode::kFailedPrecondition) << text;
  }
}

}  // namespace
}  // namespace muster
