#include "tests/identity/captured_streams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace muster::identity {
namespace {

using ::testing::ElementsAre;

struct Segment {
  uint32_t number = 0;
  std::string bytes;
  bool begins = false;
  uint16_t from_port = 1000, to_port = 2000;
};

std::string Big(uint32_t value, size_t bytes) {
  std::string text;
  for (size_t i = bytes; i-- > 0;) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

std::string Tcp(const Segment& s) {
  return Big(s.from_port, 2) + Big(s.to_port, 2) + Big(s.number, 4) + Big(0, 4) + "\x50" +
         std::string(1, s.begins ? '\x02' : '\x10') + std::string(6, '\0') + s.bytes;
}

std::string Packet(const Segment& s) {
  const std::string tcp = Tcp(s);
  std::string ip = "\x45" + std::string(1, '\0') + Big(static_cast<uint32_t>(20 + tcp.size()), 2) +
                   std::string(5, '\0') + "\x06" + std::string(2, '\0');
  ip += std::string("\x0a\x00\x00\x01\x0a\x00\x00\x02", 8);
  return ip + tcp;
}

std::string Packet6(const Segment& s) {
  const std::string tcp = Tcp(s);
  return "\x60" + std::string(3, '\0') + Big(static_cast<uint32_t>(tcp.size()), 2) + "\x06\x40" +
         std::string(15, '\0') + "\x01" + std::string(15, '\0') + "\x02" + tcp;
}

std::vector<std::string> RunsOf(const std::vector<std::string>& packets) {
  CapturedStreams streams;
  for (const std::string& packet : packets) streams.Add(packet);
  std::vector<std::string> runs;
  for (const std::string_view run : streams.Runs()) runs.emplace_back(run);
  return runs;
}

TEST(CapturedStreams, PutsTogetherWhatComesLateTwiceAndCutAnew) {
  EXPECT_THAT(RunsOf({Packet({10, "", true}), Packet({11, "abc"}), Packet({14, "def"})}),
              ElementsAre("abcdef"));
  EXPECT_THAT(RunsOf({Packet({14, "def"}), Packet({11, "abc"})}), ElementsAre("abcdef"));
  EXPECT_THAT(RunsOf({Packet({11, "abc"}), Packet({11, "abc"}), Packet({12, "bcdef"})}),
              ElementsAre("abcdef"));
  EXPECT_THAT(RunsOf({Packet({11, "ab"}), Packet({17, "gh"}), Packet({12, "bcdefg"})}),
              ElementsAre("abcdefgh"));
  EXPECT_THAT(RunsOf({Packet6({11, "abc"}), Packet6({14, "def"})}), ElementsAre("abcdef"));
}

TEST(CapturedStreams, BridgesNoGapAndMixesNoDirectionsAndConnections) {
  EXPECT_THAT(RunsOf({Packet({11, "abc"}), Packet({15, "e"})}), ElementsAre("abc", "e"));
  EXPECT_THAT(RunsOf({Packet({11, "abc"}), Packet({14, "x", false, 2000, 1000}),
                      Packet({14, "y", false, 1001, 2000}), Packet({14, "def"})}),
              ElementsAre("abcdef", "y", "x"));
  EXPECT_THAT(RunsOf({Packet({10, "", true}), Packet({11, "abc"}), Packet({90, "", true}),
                      Packet({91, "def"})}),
              ElementsAre("abc", "def"))
      << "another connection has the same ports";
}

TEST(CapturedStreams, NumbersBeginAnewAtZero) {
  EXPECT_THAT(RunsOf({Packet({0xfffffffe, "abc"}), Packet({1, "def"}), Packet({4, "g"})}),
              ElementsAre("abcdefg"));
  EXPECT_THAT(RunsOf({Packet({1, "def"}), Packet({0xfffffffe, "abc"})}), ElementsAre("abcdef"));
}

TEST(CapturedStreams, WhatIsNoPacketIsPassedOver) {
  std::mt19937 random(1);
  for (size_t size = 0; size < 200; ++size) {
    std::string bytes(size, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    RunsOf({bytes});
    const std::string whole = Packet({11, std::string(100, 'a')});
    RunsOf({whole.substr(0, size)});
  }
  EXPECT_THAT(RunsOf({Packet({11, "abc"}) + std::string(8, '\0')}), ElementsAre("abc"))
      << "the frame was filled up";
}

class Floats : public testing::Test {
 protected:
  Floats() : tensor_(1000) {
    std::mt19937 random(2);
    for (float& value : tensor_) value = std::uniform_real_distribution<float>(-1, 1)(random);
  }
  std::string BytesOf(size_t first, size_t count) const {
    std::string bytes(count * sizeof(float), '\0');
    std::memcpy(bytes.data(), &tensor_[first], bytes.size());
    return bytes;
  }
  bool Found(const std::vector<std::string>& packets) const {
    CapturedStreams streams;
    for (const std::string& packet : packets) streams.Add(packet);
    return HoldFloats(streams.Runs(), tensor_);
  }
  std::vector<float> tensor_;
};

TEST_F(Floats, EightInARowAreFoundAtAnyByteAndSevenAreNot) {
  for (const char* const before : {"", "x", "xy", "xyz"}) {
    EXPECT_TRUE(Found({Packet({1, before + BytesOf(500, 8) + "tail"})}));
    EXPECT_FALSE(Found({Packet({1, before + BytesOf(500, 7) + "tail"})}));
  }
  EXPECT_TRUE(Found({Packet({1, BytesOf(992, 8)})})) << "the last ones";
  EXPECT_FALSE(HoldFloats({}, tensor_));
  EXPECT_FALSE(HoldFloats({"abc"}, absl::MakeConstSpan(tensor_).subspan(0, 7)));
}

TEST_F(Floats, AreFoundWhereTheyAreSplitOverPackets) {
  const std::string bytes = "head" + BytesOf(10, 8) + "tail";
  for (uint32_t cut = 1; cut < bytes.size(); ++cut) {
    const std::string first = Packet({1, bytes.substr(0, cut)});
    const std::string second = Packet({1 + cut, bytes.substr(cut)});
    EXPECT_TRUE(Found({first, second})) << cut;
    EXPECT_TRUE(Found({second, first})) << cut;
  }
  const std::string other = Packet({19, "z", false, 7});
  EXPECT_TRUE(Found({Packet({1, bytes.substr(0, 18)}), other, Packet({19, bytes.substr(18)})}));
  EXPECT_FALSE(Found({Packet({1, bytes.substr(0, 18)}), Packet({20, bytes.substr(19)})}))
      << "a byte is missing";
}

TEST(HoldText, FindsATokenSplitOverPackets) {
  CapturedStreams streams;
  streams.Add(Packet({1, "Bearer muster-ada-00"}));
  streams.Add(Packet({21, "112233"}));
  EXPECT_TRUE(HoldText(streams.Runs(), "muster-ada-00112233"));
  EXPECT_FALSE(HoldText(streams.Runs(), "muster-ada-0011223344"));
}

}  // namespace
}  // namespace muster::identity
