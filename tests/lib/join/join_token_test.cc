#include "lib/join/join_token.h"

#include <gtest/gtest.h>

#include "absl/strings/escaping.h"

namespace muster {
namespace {

constexpr char kSecret[] = "0123456789abcdef0123456789abcdef";

TEST(JoinToken, IsReadAsItIsWritten) {
  for (const char* host : {"node7", "rack-2-node.7", ""}) {
    const JoinToken token = MakeJoinToken(host);
    const absl::StatusOr<JoinToken> read = ParseJoinToken(TextOf(token));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, token) << TextOf(token);
    EXPECT_EQ(HostInJoinIdentity(JoinIdentityOf(token)), host);
  }
  EXPECT_NE(MakeJoinToken("a").secret, MakeJoinToken("a").secret);
}

TEST(JoinToken, WhatIsNoneIsRefused) {
  for (const std::string& text :
       {std::string(), std::string("muster-join-"), std::string("muster-ada-") + kSecret,
        std::string("muster-join-node7-short"), std::string("muster-join-node7-") + kSecret + "\n",
        std::string("muster-join-.x-") + kSecret, std::string("muster-join--") + kSecret,
        std::string("muster-join-a/b-") + kSecret,
        std::string("muster-join-node7-") + std::string(300, 'a')})
    EXPECT_FALSE(ParseJoinToken(text).ok()) << text;
}

TEST(JoinToken, NamesOfKeysAreOnlyThese) {
  EXPECT_EQ(HostInJoinIdentity("run"), "");
  EXPECT_EQ(HostInJoinIdentity("host:a"), "a");
  for (const char* text : {"", "host:", "host:/", "host:.a", "runs", "user:a"})
    EXPECT_FALSE(HostInJoinIdentity(text)) << text;
}

// HKDF-SHA256 with these bytes as input, no salt, and "muster join 1" as info, as another program
// (Python's hmac) derives it.
TEST(JoinToken, TheKeyIsDerivedAsItIsWrittenDown) {
  EXPECT_EQ(absl::BytesToHexString(JoinKeyOf(kSecret)),
            "c638959372e01fca9a49da04e411938e5ec92ac739a7e9328e0ad6a6ebe637b8");
  EXPECT_NE(JoinKeyOf(kSecret), JoinKeyOf("0123456789abcdef0123456789abcdee"));
}

}  // namespace
}  // namespace muster
