#include "lib/wire/manifest_codec.h"

#include <gtest/gtest.h>

#include <random>

namespace muster {
namespace {

Manifest Example() {
  Manifest manifest;
  manifest.job = "job-1";
  manifest.lineage = LineageNumber(3);
  manifest.step = Step(int64_t{1} << 40);
  manifest.segments = {{"lineage-3-step-9/w0.segment",
                        640,
                        0xfedcba98,
                        {{0, ChunkId(0), 128, 256, 0xffffffff}, {2, ChunkId(7), 384, 256, 0}}},
                       {"lineage-3-step-9/w1.segment", 64, 1, {}}};
  manifest.spec = "{\"name\":\"\xc3\xa9\"}";
  manifest.tensors = {{"weight", {3, 5}, TensorKind::kParameter},
                      {"mean", {}, TensorKind::kBuffer}};
  manifest.chunk_bytes = 256;
  manifest.slots = 2;
  manifest.fingerprint = "00ff";
  manifest.unix_seconds = 1700000000;
  manifest.total_bytes = 704;
  return manifest;
}

TEST(ManifestCodecTest, ReadsWhatItWrote) {
  for (const Manifest& manifest : {Example(), [] {
                                     Manifest small;
                                     small.job = "x";
                                     return small;
                                   }()}) {
    const auto decoded = DecodeManifest(EncodeManifest(manifest));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(*decoded, manifest);
  }
  const auto segment = FromProto(ToProto(Example().segments[0]));
  ASSERT_TRUE(segment.ok()) << segment.status();
  EXPECT_EQ(*segment, Example().segments[0]);
}

TEST(ManifestCodecTest, EveryFlippedBitAndEveryCutIsDataLoss) {
  const std::string good = EncodeManifest(Example());
  for (size_t at = 0; at < good.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      EXPECT_TRUE(absl::IsDataLoss(DecodeManifest(bad).status()))
          << "byte " << at << " bit " << bit;
    }
    EXPECT_TRUE(absl::IsDataLoss(DecodeManifest(good.substr(0, at)).status())) << "cut to " << at;
  }
}

TEST(ManifestCodecTest, NumbersOutOfRangeAreNamed) {
  const auto refused = [](const char* field, auto spoil) {
    v1::Manifest message = ToProto(Example());
    spoil(message);
    const auto manifest = FromProto(message);
    EXPECT_TRUE(absl::IsInvalidArgument(manifest.status())) << field << ": " << manifest.status();
    EXPECT_NE(manifest.status().message().find(field), absl::string_view::npos)
        << manifest.status();
  };
  refused("format", [](v1::Manifest& m) { m.set_format(2); });
  refused("job", [](v1::Manifest& m) { m.clear_job(); });
  refused("lineage", [](v1::Manifest& m) { m.set_lineage(-1); });
  refused("step", [](v1::Manifest& m) { m.set_step(-1); });
  refused("slots", [](v1::Manifest& m) { m.set_slots(-1); });
  refused("slots", [](v1::Manifest& m) { m.set_slots(1000); });
  refused("file", [](v1::Manifest& m) { m.mutable_segments(0)->set_file("../x"); });
  refused("entries[1]: slot",
          [](v1::Manifest& m) { m.mutable_segments(0)->mutable_entries(1)->set_slot(-1); });
  refused("entries[0]: chunk",
          [](v1::Manifest& m) { m.mutable_segments(0)->mutable_entries(0)->set_chunk(-1); });
}

TEST(ManifestCodecTest, GarbageIsDataLoss) {
  std::mt19937 random(1);
  for (int round = 0; round < 1000; ++round) {
    std::string bytes(random() % 100, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    EXPECT_TRUE(absl::IsDataLoss(DecodeManifest(bytes).status()));
  }
}

}  // namespace
}  // namespace muster
