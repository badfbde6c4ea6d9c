// The value of a checkpoint in the catalogue. The first byte of the input says whether the checksum
// is made right, so that libFuzzer's own changes get past it.
#include "lib/domain/layout.h"
#include "lib/domain/manifest.h"
#include "lib/kernels/crc.h"
#include "lib/wire/manifest_codec.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/proto_mutator.h"
#include "tests/lib/wire/random_message.h"

namespace muster::fuzz {
namespace {

constexpr size_t kChecksumBytes = 4;
// A grid has at most kMostChunks chunks, of 24 bytes each, while its vector grows.
constexpr size_t kMostHeld = size_t{320} << 20;
constexpr size_t kMostHeldPerByte = 500;

std::string WithChecksum(const std::string& body) {
  const uint32_t crc =
      Crc32c(absl::MakeConstSpan(reinterpret_cast<const std::byte*>(body.data()), body.size()));
  std::string bytes;
  for (size_t i = 0; i < kChecksumBytes; ++i) bytes += static_cast<char>(crc >> (8 * i) & 0xff);
  return bytes + body;
}

// A checkpoint that is complete: every chunk of every slot in one of two files.
Manifest Complete(Random& random) {
  Manifest manifest;
  manifest.job = "job";
  manifest.lineage = LineageNumber(1);
  manifest.step = Step(static_cast<int64_t>(Below(random, 100)));
  manifest.spec = "{}";
  manifest.tensors = {
      {"weight", {static_cast<int64_t>(1 + Below(random, 200))}, TensorKind::kParameter},
      {"mean", {7}, TensorKind::kBuffer}};
  manifest.chunk_bytes = 64 * static_cast<int64_t>(1 + Below(random, 4));
  manifest.slots = static_cast<int32_t>(Below(random, 3));
  manifest.fingerprint = "00ff";
  manifest.unix_seconds = 1;
  manifest.segments = {{"lineage-1-step-2/a.segment", 64, 1, {}}, {"b.segment", 64, 2, {}}};
  const Layout layout = *LayoutOf(manifest);
  for (int32_t slot = 0; slot <= manifest.slots; ++slot) {
    const int32_t chunks = slot == 0 ? layout.chunk_count() : layout.parameter_chunk_count();
    for (int32_t c = 0; c < chunks; ++c) {
      Segment& segment = manifest.segments[Below(random, 2)];
      const auto bytes = static_cast<uint64_t>(4 * layout.chunk(ChunkId(c)).count);
      segment.entries.push_back({slot, ChunkId(c), segment.bytes, bytes, 7});
      segment.bytes += bytes;
    }
  }
  for (const Segment& segment : manifest.segments) manifest.total_bytes += segment.bytes;
  return manifest;
}

std::string Make(Random& random) {
  Manifest manifest = Complete(random);
  if (Below(random, 2) == 0) RandomMessage(random(), true).Fill(manifest);
  return std::string(1, '\0') + EncodeManifest(manifest);
}

std::string Change(const std::string& input, Random& random) {
  if (input.size() <= 1 + kChecksumBytes) return "";
  const std::string changed =
      ChangedMessage<v1::Manifest>(std::string_view(input).substr(1 + kChecksumBytes), random);
  return changed.empty() ? "" : input.substr(0, 1) + WithChecksum(changed);
}

const Form kForm = {Make, Change};

void ExpectAll() {
  Expect("field", FieldsOfType(*v1::Manifest::descriptor()));
  Expect("end", {"complete", "not complete", "no layout"});
  ExpectAtLeast("error", 30);
}

void Run(std::string_view input) {
  if (input.size() <= 1 + kChecksumBytes) return;
  std::string bytes(input.substr(1));
  if (input[0] % 2 == 1) bytes = WithChecksum(bytes.substr(kChecksumBytes));
  const MemoryLimit limit(kMostHeld + kMostHeldPerByte * input.size());
  const auto manifest = DecodeManifest(bytes);
  if (!manifest.ok()) return ReachError(manifest.status().message());
  v1::Manifest message;
  Check(message.ParseFromString(bytes.substr(kChecksumBytes)), "what was read is a message");
  ReachFields(message);
  const auto again = DecodeManifest(EncodeManifest(*manifest));
  Check(again.ok() && *again == *manifest, "written and read again");
  const auto layout = LayoutOf(*manifest);
  if (!layout.ok()) {
    Reach("end", "no layout");
    return ReachError(layout.status().message());
  }
  const absl::Status complete = CheckComplete(*manifest, *layout, manifest->slots);
  Reach("end", complete.ok() ? "complete" : "not complete");
  if (!complete.ok()) ReachError(complete.message());
}

}  // namespace
}  // namespace muster::fuzz

MUSTER_FUZZ_TARGET(muster::fuzz::kForm, muster::fuzz::ExpectAll, muster::fuzz::Run);
