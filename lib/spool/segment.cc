#include "lib/spool/segment.h"

#include <bit>
#include <charconv>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "lib/base/digits.h"
#include "lib/kernels/crc.h"

namespace muster {
namespace {

static_assert(std::endian::native == std::endian::little,
              "files are little-endian, and so must the machine be");

constexpr char kMagic[] = "MSTRSPL1";
constexpr size_t kMagicBytes = 8;
constexpr uint32_t kForm = 1;
constexpr size_t kFormAt = 8, kCrcAt = 12, kFirstAt = 16, kSampleBytesAt = 24, kWriterAt = 32,
                 kNumberAt = 48, kZeroAt = 56;
constexpr char kSuffix[] = ".spool";
constexpr size_t kHexDigits = 32;

template <class T>
void Put(SpoolHead& head, size_t at, T value) {
  std::memcpy(head.data() + at, &value, sizeof(value));
}
template <class T>
T At(const SpoolHead& head, size_t at) {
  T value;
  std::memcpy(&value, head.data() + at, sizeof(value));
  return value;
}

uint32_t HeadChecksum(SpoolHead head) {
  Put<uint32_t>(head, kCrcAt, 0);
  return Crc32c(head);
}

std::optional<uint64_t> Hex(absl::string_view digits) {
  uint64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

}  // namespace

std::string NameOf(const SpoolFileName& file) {
  return absl::StrCat(absl::StrFormat("%08d", file.number), "-", ToHex(file.writer), kSuffix);
}

std::optional<SpoolFileName> SpoolFileNamed(absl::string_view name) {
  absl::string_view left = name;
  if (!absl::ConsumeSuffix(&left, kSuffix) || left.size() < kHexDigits) return std::nullopt;
  const absl::string_view writer = left.substr(left.size() - kHexDigits);
  left.remove_suffix(kHexDigits);
  SpoolFileName file;
  if (!absl::ConsumeSuffix(&left, "-") || !ParseDigits(left, &file.number)) return std::nullopt;
  const auto hi = Hex(writer.substr(0, kHexDigits / 2)), lo = Hex(writer.substr(kHexDigits / 2));
  if (!hi || !lo) return std::nullopt;
  file.writer = {*hi, *lo};
  if (NameOf(file) != name) return std::nullopt;
  return file;
}

SpoolHead MakeSpoolHead(const SpoolFileName& file, uint64_t first, uint64_t sample_bytes) {
  SpoolHead head{};
  std::memcpy(head.data(), kMagic, kMagicBytes);
  Put(head, kFormAt, kForm);
  Put(head, kFirstAt, first);
  Put(head, kSampleBytesAt, sample_bytes);
  Put(head, kWriterAt, file.writer.hi);
  Put(head, kWriterAt + 8, file.writer.lo);
  Put(head, kNumberAt, file.number);
  Put(head, kCrcAt, HeadChecksum(head));
  return head;
}

absl::Status CheckSpoolHead(absl::string_view path, const SpoolHead& head, const SpoolSegment& fact,
                            uint64_t sample_bytes) {
  const auto bad = [&](size_t at, const auto&... words) {
    return absl::DataLossError(absl::StrCat(path, ": at byte ", at, ": ", words...));
  };
  if (std::memcmp(head.data(), kMagic, kMagicBytes) != 0)
    return bad(0, "it is no segment of a spool");
  if (const auto form = At<uint32_t>(head, kFormAt); form != kForm)
    return bad(kFormAt, "its form is ", form, ", and this program reads form ", kForm);
  if (At<uint32_t>(head, kCrcAt) != HeadChecksum(head))
    return bad(kCrcAt, "the checksum of its head is wrong");
  if (const auto bytes = At<uint64_t>(head, kSampleBytesAt); bytes != sample_bytes)
    return bad(kSampleBytesAt, "its samples have ", bytes, " bytes, and those of the job ",
               sample_bytes);
  if (const auto first = At<uint64_t>(head, kFirstAt); first != fact.first)
    return bad(kFirstAt, "it begins with position ", first, ", and should with ", fact.first);
  const Incarnation writer{At<uint64_t>(head, kWriterAt), At<uint64_t>(head, kWriterAt + 8)};
  if (writer != fact.writer)
    return bad(kWriterAt, "another process than that of its name has written it");
  if (const auto number = At<int64_t>(head, kNumberAt); number != fact.number)
    return bad(kNumberAt, "it is segment ", number, ", and should be ", fact.number);
  if (At<uint64_t>(head, kZeroAt) != 0) return bad(kZeroAt, "something else than zeros");
  return absl::OkStatus();
}

uint32_t SpoolChecksum(uint64_t position, absl::Span<const std::byte> sample) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&position);
  return Crc32c(sample, Crc32c(absl::MakeConstSpan(bytes, sizeof(position))));
}

absl::Status TakeSpooled(absl::string_view path, uint64_t offset, uint64_t position,
                         uint64_t sample_bytes, absl::Span<const std::byte> stored,
                         absl::Span<std::byte> into) {
  const auto bytes = static_cast<size_t>(sample_bytes);
  for (size_t from = 0, to = 0; from < stored.size();
       from += bytes + kSpoolTailBytes, to += bytes, ++position) {
    const absl::Span<const std::byte> sample = stored.subspan(from, bytes);
    uint32_t checksum = 0;
    std::memcpy(&checksum, stored.data() + from + bytes, sizeof(checksum));
    if (checksum != SpoolChecksum(position, sample))
      return absl::DataLossError(absl::StrCat(
          path, ": at byte ", offset + from, ": the checksum of position ", position, " is wrong"));
    std::memcpy(into.data() + to, sample.data(), bytes);
  }
  return absl::OkStatus();
}

}  // namespace muster
