#include "lib/wire/join_codec.h"

#include <gtest/gtest.h>

#include <random>

namespace muster {
namespace {

TEST(JoinCodec, WhatIsWrittenIsReadAgain) {
  const JoinHost ask{"node7", "machine 7", std::string("\0key", 4), 17};
  const absl::StatusOr<JoinHost> read = DecodeJoinHost(Encode(ask));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, ask);
  for (const JoinAnswer& answer : {JoinAnswer(HostJoined{"c1", "certificate", "authority", 18}),
                                   JoinAnswer(JoinRefused{"it is bound to another key", true})}) {
    const absl::StatusOr<JoinAnswer> again = DecodeJoinAnswer(Encode(answer));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, answer);
  }
}

TEST(JoinCodec, WhatIsWrongIsRefusedByItsField) {
  const auto refused = [](const JoinHost& ask) {
    return std::string(DecodeJoinHost(Encode(ask)).status().message());
  };
  EXPECT_NE(refused({"..", "n", "k", 1}).find("JoinHost: host"), std::string::npos);
  EXPECT_NE(refused({"a", "n", "k", -1}).find("JoinHost: now_unix_ms"), std::string::npos);
  EXPECT_NE(refused({"a", "n", std::string(5000, 'k'), 1}).find("JoinHost: public_key"),
            std::string::npos);
  EXPECT_FALSE(DecodeJoinHost(std::string(kMostJoinBytes + 1, 'a')).ok());
  EXPECT_FALSE(DecodeJoinAnswer("").ok());
  EXPECT_FALSE(DecodeJoinAnswer(Encode(JoinAnswer(HostJoined{"../c", "", "", 1}))).ok());
  EXPECT_FALSE(DecodeJoinAnswer(std::string(kMostJoinAnswerBytes + 1, 'a')).ok());
}

TEST(JoinCodec, OfAHostOfAnotherVersionNothingElseIsRead) {
  JoinHost later{"..", "n", "key", -1};
  later.speaks = {kProtocol + 1, kProtocol + 1, "9.9.9"};
  const absl::Status refused = DecodeJoinHost(Encode(later)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  for (const std::string& said : {std::string("host .. is Muster 9.9.9"), std::string(kVersion)})
    EXPECT_NE(refused.message().find(said), std::string::npos) << refused;
  later = {"a", "n", "key", 1};
  later.speaks.newest = kProtocol + 1;
  EXPECT_TRUE(DecodeJoinHost(Encode(later)).ok()) << "one form is common";
}

// A refusal is shown to people, and the other end is not one of ours yet.
TEST(JoinCodec, WhatPeopleReadCannotSteerATerminal) {
  const absl::StatusOr<JoinAnswer> answer =
      DecodeJoinAnswer(Encode(JoinAnswer(JoinRefused{"no\x1b[2J", false})));
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(std::get<JoinRefused>(*answer).why.find('\x1b'), std::string::npos);
}

TEST(JoinCodec, OddBytesAreReadOrRefused) {
  std::mt19937_64 random(7);
  const std::string sound = Encode(JoinHost{"node7", "n", "key", 17});
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = sound;
    for (int change = 0; change < 3; ++change)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    bytes.resize(random() % (bytes.size() + 1));
    if (const auto read = DecodeJoinHost(bytes); read.ok()) {
      EXPECT_EQ(*DecodeJoinHost(Encode(*read)), *read);
    }
    DecodeJoinAnswer(bytes).status().IgnoreError();
  }
}

}  // namespace
}  // namespace muster
