#include "coordinator/service/token_text.h"

#include <gtest/gtest.h>

#include <string>

namespace muster::coordinator {
namespace {

constexpr char kToken[] = "muster-ada-00112233445566778899aabbccddeeff";

TEST(TokenText, ATokenNamesItsUserAndNoTwoAreTheSame) {
  const std::string a = MakeTokenText("ada-l"), b = MakeTokenText("ada-l");
  EXPECT_EQ(UserInToken(a), "ada-l");
  EXPECT_NE(a, b);
  EXPECT_EQ(a.size(), std::string("muster-ada-l-").size() + 32);
}

TEST(TokenText, WhatHasAnotherFormIsNone) {
  EXPECT_EQ(UserInToken(kToken), "ada");
  for (const char* text :
       {"", "muster-", "muster-ada", "muster--00112233445566778899aabbccddeeff",
        "muster-00112233445566778899aabbccddeeff", "muster-ada-00112233445566778899aabbccddeef",
        "muster-ada-00112233445566778899AABBCCDDEEFF",
        "muster-a/b-00112233445566778899aabbccddeeff",
        "other-ada-00112233445566778899aabbccddeeff"})
    EXPECT_EQ(UserInToken(text), std::nullopt) << text;
}

TEST(TokenText, ItsHashIsSha256) {
  EXPECT_EQ(HashOfToken("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_TRUE(SameHash(HashOfToken(kToken), HashOfToken(kToken)));
  EXPECT_FALSE(SameHash(HashOfToken(kToken), HashOfToken("abc")));
  EXPECT_FALSE(SameHash("ab", "abc"));
}

TEST(TokenText, ItComesInAnAuthorizationHeader) {
  EXPECT_EQ(BearerIn(std::string("Bearer ") + kToken), kToken);
  EXPECT_EQ(BearerIn(std::string("bearer ") + kToken), kToken);
  for (const char* value : {"", "Bearer", "Bearer ", "Basic YTpi", "Bearer a b", "Bearer a, b"})
    EXPECT_EQ(BearerIn(value), std::nullopt) << value;
}

}  // namespace
}  // namespace muster::coordinator
