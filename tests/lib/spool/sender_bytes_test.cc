#include "lib/spool/state/sender_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "lib/base/bytes.h"

namespace muster {
namespace {

using std::string_literals::operator""s;
using testing::HasSubstr;

TEST(StreamWords, AreLittleEndian) {
  EXPECT_EQ(StreamGreeting(0x0102, 3), "MSTRSTM1\x02\x01\0\0\0\0\0\0\x03\0\0\0\0\0\0\0"s);
  EXPECT_EQ(StreamAnswer(0x0102), "\x02\x01\0\0\0\0\0\0"s);
}

TEST(SenderBytes, SamplesAreTakenHoweverTheyAreCut) {
  const std::string said = "\1abc\1de\2\1\1\1\1\2"s;  // of three bytes each, whatever is in them
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    SenderBytes in(3);
    std::string samples;
    uint64_t all = 0;
    for (size_t at = 0; at < said.size();) {
      const size_t wanted = static_cast<size_t>(in.Wanted(1 + random() % 3));
      const size_t size = std::min(said.size() - at, 1 + random() % wanted);
      uint64_t count = 0;
      ASSERT_TRUE(in.Take(BytesOf(said.substr(at, size)), samples, count).ok());
      all += count;
      ASSERT_EQ(samples.size(), all * 3);
      at += size;
    }
    EXPECT_EQ(samples, "abcde\2\1\1\1"s);
    EXPECT_EQ(all, 3u);
    EXPECT_TRUE(in.ended());
    EXPECT_FALSE(in.has_part());
  }
}

TEST(SenderBytes, NoByteBehindTheLastWantedSampleIsWanted) {
  SenderBytes in(3);
  std::string samples;
  uint64_t count = 0;
  EXPECT_EQ(in.Wanted(2), 8u);
  ASSERT_TRUE(in.Take(BytesOf("\1ab"), samples, count).ok());
  EXPECT_EQ(in.Wanted(2), 5u);
  EXPECT_TRUE(in.has_part());
  ASSERT_TRUE(in.Take(BytesOf("c\1"), samples, count).ok());
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(in.Wanted(1), 3u);
  // However large both are.
  EXPECT_GT(SenderBytes(uint64_t{1} << 30).Wanted(uint64_t{1} << 40), 0u);
}

TEST(SenderBytes, WhatIsNoStreamIsToldAndWhatWasWholeStays) {
  SenderBytes in(3);
  std::string samples;
  uint64_t count = 0;
  const absl::Status status = in.Take(BytesOf("\1abcGET /"), samples, count);
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(status.message(), HasSubstr("the sender says 71 where"));
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(samples, "abc");
  SenderBytes after(3);
  const absl::Status more = after.Take(BytesOf("\2\1"), samples, count);
  EXPECT_THAT(more.message(), HasSubstr("says more after the end"));
}

TEST(AnswersOut, TheNewestIsSaidOnceTheOneBeforeIsWhole) {
  AnswersOut out("greeting");
  out.Say(1);
  const auto next = [&] {
    const auto span = out.Next();
    return std::string(span.data(), span.size());
  };
  EXPECT_EQ(next(), "greeting");
  out.Sent(5);
  EXPECT_EQ(next(), "ing");
  out.Sent(3);
  EXPECT_EQ(next(), StreamAnswer(1));
  out.Sent(2);
  out.Say(2);
  out.Say(7);
  EXPECT_EQ(next(), StreamAnswer(1).substr(2));
  out.Sent(6);
  EXPECT_EQ(next(), StreamAnswer(7));
  out.Sent(8);
  EXPECT_EQ(next(), "");
  out.Say(7);
  EXPECT_EQ(next(), "");
}

}  // namespace
}  // namespace muster
