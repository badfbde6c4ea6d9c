#include "lib/kernels/sha256.h"

#include <gtest/gtest.h>

#include <string_view>

namespace muster {
namespace {

constexpr std::string_view kTwoBlocks = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
constexpr char kTwoBlocksDigest[] =
    "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1";

std::string Digest(std::string_view text, size_t piece) {
  Sha256 hash;
  for (size_t at = 0; at < text.size(); at += piece) {
    const std::string_view part = text.substr(at, piece);
    hash.Update(absl::MakeConstSpan(reinterpret_cast<const std::byte*>(part.data()), part.size()));
  }
  return hash.HexFinish();
}

TEST(Sha256, GivesTheKnownDigests) {  // FIPS 180-4 examples
  EXPECT_EQ(Digest("", 1), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Digest("abc", 3), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Digest(kTwoBlocks, 100), kTwoBlocksDigest);
}

TEST(Sha256, DoesNotDependOnThePieces) {
  for (size_t piece = 1; piece <= kTwoBlocks.size(); ++piece) {
    EXPECT_EQ(Digest(kTwoBlocks, piece), kTwoBlocksDigest) << piece;
  }
}

}  // namespace
}  // namespace muster
