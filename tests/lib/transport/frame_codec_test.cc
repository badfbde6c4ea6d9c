#include "lib/transport/grpc/frame_codec.h"

#include <gmock/gmock.h>
#include <grpcpp/support/slice.h>
#include <gtest/gtest.h>

#include <random>

namespace muster {
namespace {

using testing::HasSubstr;

// `bytes` as a message, cut where `cuts` says.
grpc::ByteBuffer Message(const std::string& bytes, const std::vector<size_t>& cuts = {}) {
  std::vector<grpc::Slice> slices;
  size_t at = 0;
  for (size_t cut : cuts) {
    slices.emplace_back(bytes.substr(at, cut - at));
    at = cut;
  }
  slices.emplace_back(bytes.substr(at));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string Text(const Payload& payload) {
  std::string text;
  for (const auto& slice : payload.slices) {
    text.append(reinterpret_cast<const char*>(slice.data()), slice.size());
  }
  return text;
}

const std::string kGood = std::string("\x03\0\0\0", 4) + "abc" + "payload";

TEST(FrameCodec, DecodesWhereverItIsCut) {
  for (size_t a = 0; a <= kGood.size(); ++a) {
    for (size_t b = a; b <= kGood.size(); ++b) {
      const auto frame = DecodeFrame(Message(kGood, {a, b}));
      ASSERT_TRUE(frame.ok()) << frame.status();
      EXPECT_EQ(frame->header, "abc");
      EXPECT_EQ(Text(frame->payload), "payload");
    }
  }
}

TEST(FrameCodec, EveryTruncationOfTheHeaderIsRefused) {
  for (size_t length = 0; length < 7; ++length) {
    const auto frame = DecodeFrame(Message(kGood.substr(0, length)));
    EXPECT_EQ(frame.status().code(), absl::StatusCode::kInvalidArgument) << length;
  }
}

TEST(FrameCodec, HugeHeaderLengthIsRefusedBeforeAnythingIsAllocated) {
  const auto frame = DecodeFrame(Message("\xff\xff\xff\xff rest"));
  EXPECT_EQ(frame.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(frame.status().ToString(), HasSubstr("4294967295"));
}

TEST(FrameCodec, LimitsHoldForHeaderAndPayloadEach) {
  EXPECT_TRUE(DecodeFrame(EncodeFrame({std::string(kMaxHeaderBytes, 'h'), {}})).ok());
  EXPECT_EQ(DecodeFrame(EncodeFrame({std::string(kMaxHeaderBytes + 1, 'h'), {}})).status().code(),
            absl::StatusCode::kResourceExhausted);
  const std::string bytes(kMaxPayloadBytes + 1, 'p');
  const absl::Span<const std::byte> all(reinterpret_cast<const std::byte*>(bytes.data()),
                                        bytes.size());
  EXPECT_TRUE(DecodeFrame(EncodeFrame({"", {{all.first(kMaxPayloadBytes)}, nullptr}})).ok());
  EXPECT_EQ(DecodeFrame(EncodeFrame({"", {{all}, nullptr}})).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(FrameCodec, PayloadIsLentNotCopied) {
  auto bytes = std::make_shared<const std::string>(100'000, 'z');
  const auto* data = reinterpret_cast<const std::byte*>(bytes->data());
  {
    const grpc::ByteBuffer message = EncodeFrame({"h", {{{data, bytes->size()}}, bytes}});
    EXPECT_GT(bytes.use_count(), 1);
    const auto frame = DecodeFrame(message);
    ASSERT_TRUE(frame.ok()) << frame.status();
    ASSERT_EQ(frame->payload.slices.size(), 1u);
    EXPECT_EQ(frame->payload.slices[0].data(), data);
  }
  EXPECT_EQ(bytes.use_count(), 1);
}

TEST(FrameCodec, APayloadThatIsKeptDoesNotKeepItsHeader) {
  const auto header = std::make_shared<const std::string>(100'000, 'h');
  const auto bytes = std::make_shared<const std::string>(100'000, 'z');
  const auto* data = reinterpret_cast<const std::byte*>(bytes->data());
  Payload kept;
  {
    Frame frame;
    frame.shared_header = header;
    frame.payload = {{{data, bytes->size()}}, bytes};
    kept = DecodeFrame(EncodeFrame(frame)).value().payload;
  }
  EXPECT_EQ(header.use_count(), 1);
  EXPECT_EQ(bytes.use_count(), 2);
  EXPECT_EQ(Text(kept), *bytes);
}

TEST(FrameCodec, RandomBytesAreRefusedOrDecodeToWhatTheySay) {
  std::mt19937 random(7);
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes(random() % 24, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random() % (i % 2 ? 256 : 8));
    const auto frame = DecodeFrame(Message(bytes, {bytes.size() / 2}));
    if (!frame.ok()) continue;
    EXPECT_EQ(frame->header.size() + frame->payload.size() + kFramePrefixBytes, bytes.size());
  }
}

}  // namespace
}  // namespace muster
