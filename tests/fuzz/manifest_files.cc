// The file of a checkpoint that a folder of somebody else holds, as `muster adopt` reads it. The
// first byte of the input says whether lengths and checksums are made right, so that libFuzzer's
// own changes get past them.
#include <algorithm>

#include "lib/domain/layout.h"
#include "lib/kernels/crc.h"
#include "lib/wire/manifest_file_codec.h"
#include "muster/v1/journal.pb.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/proto_mutator.h"
#include "tests/lib/wire/random_message.h"

namespace muster::fuzz {
namespace {

constexpr size_t kFixedBytes = 32;  // of the header, in front of the cluster's id
constexpr size_t kChecksumFrom = 16;
constexpr size_t kMostClusterBytes = kMostManifestHeaderBytes - kFixedBytes;
// What its parts may come to; the rest goes by the input.
constexpr size_t kMostHeld = size_t{320} << 20;
constexpr size_t kMostHeldPerByte = 1000;

void Put(std::string& bytes, size_t at, uint64_t number, size_t length) {
  for (size_t i = 0; i < length; ++i) bytes[at + i] = static_cast<char>(number >> (8 * i) & 0xff);
}

uint32_t CrcOf(std::string_view bytes) {
  return Crc32c(
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()));
}

// Of bytes that have the header's fixed part.
size_t HeaderBytes(std::string_view bytes) {
  const auto cluster = static_cast<unsigned char>(bytes[28]);
  return kFixedBytes + std::min({size_t{cluster}, kMostClusterBytes, bytes.size() - kFixedBytes});
}

std::string Fitted(std::string bytes) {
  if (bytes.size() < kFixedBytes) return bytes;
  const size_t header = HeaderBytes(bytes);
  const std::string_view body = std::string_view(bytes).substr(header);
  Put(bytes, 16, body.size(), 8);
  Put(bytes, 24, CrcOf(body), 4);
  Put(bytes, 28, header - kFixedBytes, 4);
  Put(bytes, 12, CrcOf(std::string_view(bytes).substr(kChecksumFrom, header - kChecksumFrom)), 4);
  return bytes;
}

std::string Make(Random& random) {
  ManifestFile file{.cluster = "00ff"};
  if (Below(random, 2) == 0) RandomMessage(random(), true).Fill(file.manifest);
  file.manifest.job = "job";
  file.environment.samples = 1 + Below(random, 100);
  file.environment.data_hash = "made";
  file.environment.tensors = {{"weight", {7}, TensorKind::kParameter}};
  file.environment.numeric = {{"isa", "any"}};
  for (int64_t i = 0; i < static_cast<int64_t>(Below(random, 4)); ++i)
    file.lineages.push_back({LineageNumber(i + 1), LineageNumber(i), Step(i), "start"});
  return std::string(1, '\0') + EncodeManifestFile(file);
}

std::string Change(const std::string& input, Random& random) {
  if (input.size() <= 1 + kFixedBytes) return "";
  const size_t header = HeaderBytes(std::string_view(input).substr(1));
  const std::string changed =
      ChangedMessage<v1::Fields>(std::string_view(input).substr(1 + header), random);
  return changed.empty() ? "" : input.substr(0, 1) + Fitted(input.substr(1, header) + changed);
}

const Form kForm = {Make, Change};

void ExpectAll() {
  Expect("end", {"read", "refused"});
  ExpectAtLeast("error", 6);
}

void Run(std::string_view input) {
  if (input.size() <= 1) return;
  std::string bytes(input.substr(1));
  if (input[0] % 2 == 1) bytes = Fitted(bytes);
  const MemoryLimit limit(kMostHeld + kMostHeldPerByte * input.size());
  const auto cluster =
      DecodeManifestCluster(absl::string_view(bytes).substr(0, kMostManifestHeaderBytes));
  const auto file = DecodeManifestFile(bytes);
  Reach("end", file.ok() ? "read" : "refused");
  if (!file.ok()) return ReachError(file.status().message());
  Check(cluster.ok() && *cluster == file->cluster, "its header tells whose it is");
  for (const Segment& segment : file->manifest.segments)
    Check(IsSafeRelativeName(segment.file), "no file of a segment is elsewhere");
  const auto again = DecodeManifestFile(EncodeManifestFile(*file));
  Check(again.ok() && *again == *file, "written and read again");
}

}  // namespace
}  // namespace muster::fuzz

MUSTER_FUZZ_TARGET(muster::fuzz::kForm, muster::fuzz::ExpectAll, muster::fuzz::Run);
