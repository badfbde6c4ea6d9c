// A segment of a spool.
#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "lib/base/bytes.h"
#include "lib/kernels/crc.h"
#include "lib/spool/segment.h"
#include "lib/spool/spool_reader.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/number_at.h"

namespace muster::fuzz {
namespace {

constexpr size_t kMostHeld = size_t{4} << 20;
constexpr size_t kMostHeldPerByte = 8;
constexpr size_t kCrcAt = 12, kFirstAt = 16, kSampleBytesAt = 24, kWriterAt = 32, kNumberAt = 48;
constexpr uint64_t kMostSampleBytes = 4096;  // of what is read whole

struct Field {
  const char* name;
  size_t at, bytes;
};
constexpr Field kFields[] = {{"magic", 0, 8},
                             {"form", 8, 4},
                             {"checksum", kCrcAt, 4},
                             {"first", kFirstAt, 8},
                             {"bytes", kSampleBytesAt, 8},
                             {"writer", kWriterAt, 16},
                             {"number", kNumberAt, 8},
                             {"zeros", 56, 8}};

// What the head says; as many samples as there is a byte of.
struct Told {
  uint64_t sample_bytes;
  SpoolSegment fact;
};
Told ToldBy(std::string_view bytes) {
  Told told{At<uint64_t>(bytes, kSampleBytesAt),
            {At<int64_t>(bytes, kNumberAt),
             {At<uint64_t>(bytes, kWriterAt), At<uint64_t>(bytes, kWriterAt + 8)},
             At<uint64_t>(bytes, kFirstAt),
             0}};
  told.sample_bytes = std::clamp<uint64_t>(told.sample_bytes, 1, kMostSampleBytes);
  told.fact.first = std::min(told.fact.first, kMostSamples / 2);
  const uint64_t left = bytes.size() < kSpoolHeadBytes ? 0 : bytes.size() - kSpoolHeadBytes;
  told.fact.count = left / (told.sample_bytes + kSpoolTailBytes) + 1;
  return told;
}

void MakeHeadRight(std::string& bytes) {
  Put<uint32_t>(bytes, kCrcAt, 0);
  if (bytes.size() >= kSpoolHeadBytes)
    Put<uint32_t>(bytes, kCrcAt, Crc32c(BytesOf(bytes).first(kSpoolHeadBytes)));
}

void MakeRight(std::string& bytes) {
  MakeHeadRight(bytes);
  const Told told = ToldBy(bytes);
  const auto size = static_cast<size_t>(told.sample_bytes);
  for (uint64_t i = 0; i + 1 < told.fact.count; ++i) {
    const auto at = static_cast<size_t>(OffsetInSpool(i, told.sample_bytes));
    Put(bytes, at + size, SpoolChecksum(told.fact.first + i, BytesOf(bytes).subspan(at, size)));
  }
}

std::string Written(Random& random) {
  const uint64_t sample_bytes = 1 + Below(random, 40);
  const SpoolHead head =
      MakeSpoolHead({static_cast<int64_t>(Below(random, 9)), {random(), random()}},
                    Below(random, 1000), sample_bytes);
  std::string bytes(reinterpret_cast<const char*>(head.data()), head.size());
  bytes.resize(bytes.size() + Below(random, 5) * (sample_bytes + kSpoolTailBytes), 'x');
  MakeRight(bytes);
  return bytes;
}

std::string Change(const std::string& input, Random& random) {
  if (input.size() < kSpoolHeadBytes) return "";
  std::string bytes = input;
  switch (Below(random, 5)) {
    case 0: bytes.resize(Below(random, bytes.size())); break;
    case 1: Put(bytes, Below(random, kSpoolHeadBytes) / 8 * 8, UglyNumber(random)); break;
    case 2: Put(bytes, Below(random, bytes.size()) / 4 * 4, static_cast<int32_t>(random())); break;
    case 3: bytes += std::string(Below(random, 60), 'y'); break;
    default: Put<uint64_t>(bytes, kSampleBytesAt, 1 + Below(random, 64));
  }
  if (Below(random, 4) > 0) MakeRight(bytes);
  return bytes;
}

const Form kForm = {Written, Change};

void ExpectAll() {
  Expect("end", {"all read", "some read", "a wrong checksum", "refused", "cut off"});
  ExpectAtLeast("error", 6);
  std::vector<std::string> fields;
  for (const Field& field : kFields) fields.push_back(field.name);
  Expect("field", fields);
}

class Bytes final : public SpoolBytes {
 public:
  explicit Bytes(std::string_view bytes) : bytes_(bytes) {}
  const std::string& name() const override { return name_; }
  absl::StatusOr<size_t> ReadAt(uint64_t offset, absl::Span<std::byte> into) const override {
    Check(offset <= most_ && into.size() <= most_ - offset, "no byte beyond the facts is read");
    if (offset >= bytes_.size()) return 0;
    const size_t read = std::min(into.size(), bytes_.size() - static_cast<size_t>(offset));
    std::memcpy(into.data(), bytes_.data() + offset, read);
    return read;
  }
  void Allow(uint64_t most) { most_ = most; }

 private:
  const std::string name_ = "a.spool";
  const std::string_view bytes_;
  uint64_t most_ = 0;
};

absl::Status ReadAll(std::string_view bytes, const Told& told) {
  Bytes source(bytes);
  source.Allow(SpoolFileBytes(told.fact.count, told.sample_bytes));
  std::vector<std::byte> samples(static_cast<size_t>(told.fact.count * told.sample_bytes));
  const absl::Status read =
      ReadSpooled(source, told.fact, told.sample_bytes, told.fact.first, absl::MakeSpan(samples));
  Check(read.ok() || absl::IsDataLoss(read) || absl::IsUnavailable(read), "an error of two kinds");
  Check(read.ok() || read.message().substr(0, 7) == "a.spool", "an error names the file");
  for (uint64_t i = 0; read.ok() && i < told.fact.count; ++i) {
    const auto size = static_cast<size_t>(told.sample_bytes);
    const auto at = static_cast<size_t>(OffsetInSpool(i, told.sample_bytes));
    Check(std::memcmp(samples.data() + i * size, bytes.data() + at, size) == 0, "its own bytes");
  }
  return read;
}

// A bit of one field of a sound head changed, and its checksum made right: it is sound, and
// another.
void ChangeOneField(std::string_view bytes, const Told& told) {
  const size_t draw = std::hash<std::string_view>()(bytes);
  const Field& field = kFields[draw % std::size(kFields)];
  std::string changed(bytes);
  const size_t at = field.at + draw / std::size(kFields) % field.bytes;
  changed[at] = static_cast<char>(changed[at] ^ 0x10);
  if (field.at != kCrcAt) MakeHeadRight(changed);
  Reach("field", field.name);
  Check(absl::IsDataLoss(ReadAll(changed, told)), "a changed field is told");
}

void Run(std::string_view input) {
  const MemoryLimit limit(kMostHeld + kMostHeldPerByte * input.size());
  Told told = ToldBy(input);
  // One sample more than there are, and then those that there are.
  absl::Status read = ReadAll(input, told);
  Check(!read.ok(), "what is not there is not read");
  if (absl::IsUnavailable(read)) Reach("end", "cut off");
  ReachError(read.message());
  if (--told.fact.count == 0) return;
  read = ReadAll(input, told);
  if (!read.ok()) {
    ReachError(read.message());
    const bool is_sample = read.message().find("position") != absl::string_view::npos;
    Reach("end", is_sample ? "a wrong checksum" : "refused");
    return;
  }
  Reach("end", "all read");
  ChangeOneField(input, told);
  if (told.fact.count < 2) return;
  --told.fact.count;
  Check(ReadAll(input, told).ok(), "fewer facts of a sound file can be read");
  Reach("end", "some read");
}

}  // namespace
}  // namespace muster::fuzz

MUSTER_FUZZ_TARGET(muster::fuzz::kForm, muster::fuzz::ExpectAll, muster::fuzz::Run);
