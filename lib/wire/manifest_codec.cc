#include "lib/wire/manifest_codec.h"

#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "lib/base/bytes.h"
#include "lib/base/status.h"
#include "lib/domain/tensor_type.h"
#include "lib/domain/validation.h"
#include "lib/kernels/crc.h"
#include "lib/wire/tensor_proto.h"

namespace muster {
namespace {

constexpr uint32_t kFormat = 1;
constexpr size_t kChecksumBytes = 4;

uint32_t Checksum(absl::string_view bytes) { return Crc32c(BytesOf(bytes)); }

std::string ChecksumText(absl::string_view bytes) {
  const uint32_t crc = Checksum(bytes);
  std::string text(kChecksumBytes, '\0');
  for (size_t i = 0; i < kChecksumBytes; ++i) text[i] = static_cast<char>(crc >> (8 * i) & 0xff);
  return text;
}

absl::Status OutOfRange(absl::string_view field, int64_t value) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", value, " is out of range"));
}

absl::StatusOr<SegmentEntry> FromProto(const v1::SegmentEntry& message) {
  if (message.slot() < 0 || message.slot() > kMaxOptimizerSlots)
    return OutOfRange("slot", message.slot());
  if (message.chunk() < 0) return OutOfRange("chunk", message.chunk());
  return SegmentEntry{message.slot(), ChunkId(message.chunk()), message.offset_in_file(),
                      message.bytes(), message.crc32c()};
}

absl::Status CheckRanges(const v1::Manifest& message) {
  if (message.format() != kFormat)
    return absl::InvalidArgumentError(absl::StrCat("format: ", message.format(),
                                                   " is not known; this program reads ", kFormat,
                                                   ": use the release that wrote it"));
  if (message.job().empty()) return absl::InvalidArgumentError("job: empty");
  if (message.lineage() < 0) return OutOfRange("lineage", message.lineage());
  if (message.step() < 0) return OutOfRange("step", message.step());
  if (message.slots() < 0 || message.slots() > kMaxOptimizerSlots)
    return OutOfRange("slots", message.slots());
  if (message.skipped() < 0) return OutOfRange("skipped", message.skipped());
  if (message.left_out() < 0) return OutOfRange("left_out", message.left_out());
  return absl::OkStatus();
}

absl::StatusOr<TensorSpec> TensorFrom(const v1::Manifest::Tensor& message) {
  TensorSpec tensor{
      message.name(), {message.shape().begin(), message.shape().end()}, KindOfTensor(message)};
  for (const std::string& alias : message.aliases()) tensor.aliases.push_back(alias);
  if (message.type().empty()) return tensor;
  const std::optional<TensorType> type = TensorTypeOf(message.type());
  if (!type)
    return absl::InvalidArgumentError(absl::StrCat("tensor '", message.name(), "': its type, '",
                                                   message.type(), "', is not known"));
  tensor.type = *type;
  return tensor;
}

}  // namespace

v1::Segment ToProto(const Segment& segment) {
  v1::Segment message;
  message.set_file(segment.file);
  message.set_bytes(segment.bytes);
  message.set_header_crc32c(segment.header_crc32c);
  message.set_not_finite(!segment.finite);
  message.mutable_entries()->Reserve(static_cast<int>(segment.entries.size()));
  for (const SegmentEntry& entry : segment.entries) {
    v1::SegmentEntry& out = *message.add_entries();
    out.set_slot(entry.slot);
    out.set_chunk(entry.chunk.value());
    out.set_offset_in_file(entry.offset_in_file);
    out.set_bytes(entry.bytes);
    out.set_crc32c(entry.crc32c);
  }
  return message;
}

v1::Manifest ToProto(const Manifest& manifest) {
  v1::Manifest message;
  message.set_format(kFormat);
  message.set_job(manifest.job);
  message.set_lineage(manifest.lineage.value());
  message.set_step(manifest.step.value());
  for (const Segment& segment : manifest.segments) *message.add_segments() = ToProto(segment);
  message.set_spec(manifest.spec);
  for (const TensorSpec& tensor : manifest.tensors) WriteTensor(tensor, *message.add_tensors());
  message.set_chunk_bytes(manifest.chunk_bytes);
  message.set_slots(manifest.slots);
  message.set_fingerprint(manifest.fingerprint);
  message.set_unix_seconds(manifest.unix_seconds);
  message.set_total_bytes(manifest.total_bytes);
  message.set_skipped(manifest.skipped);
  message.set_left_out(manifest.left_out);
  message.set_enough(manifest.enough);
  if (manifest.pending) {
    v1::PendingMeasure& out = *message.mutable_pending();
    out.set_step(manifest.pending->step.value());
    out.mutable_sums()->Add(manifest.pending->sums.floats.begin(),
                            manifest.pending->sums.floats.end());
  }
  return message;
}

absl::StatusOr<Segment> FromProto(const v1::Segment& message) {
  if (!IsSafeRelativeName(message.file()))
    return absl::InvalidArgumentError(
        absl::StrCat("file: '", message.file(), "' is not a safe name"));
  Segment segment{
      message.file(), message.bytes(), message.header_crc32c(), {}, !message.not_finite()};
  segment.entries.reserve(static_cast<size_t>(message.entries_size()));
  for (int i = 0; i < message.entries_size(); ++i) {
    auto entry = FromProto(message.entries(i));
    if (!entry.ok())
      return Prefix(absl::StrCat("segment '", message.file(), "': entries[", i, "]"),
                    entry.status());
    segment.entries.push_back(*entry);
  }
  return segment;
}

absl::StatusOr<Manifest> FromProto(const v1::Manifest& message) {
  MUSTER_RETURN_IF_ERROR(CheckRanges(message));
  Manifest manifest;
  manifest.job = message.job();
  manifest.lineage = LineageNumber(message.lineage());
  manifest.step = Step(message.step());
  for (const v1::Segment& segment : message.segments()) {
    MUSTER_ASSIGN_OR_RETURN(Segment read, FromProto(segment));
    manifest.segments.push_back(std::move(read));
  }
  manifest.spec = message.spec();
  for (const v1::Manifest::Tensor& tensor : message.tensors()) {
    MUSTER_ASSIGN_OR_RETURN(TensorSpec read, TensorFrom(tensor));
    manifest.tensors.push_back(std::move(read));
  }
  manifest.chunk_bytes = message.chunk_bytes();
  manifest.slots = message.slots();
  manifest.fingerprint = message.fingerprint();
  manifest.unix_seconds = message.unix_seconds();
  manifest.total_bytes = message.total_bytes();
  manifest.skipped = message.skipped();
  manifest.left_out = message.left_out();
  manifest.enough = message.enough();
  if (message.has_pending()) {
    const v1::PendingMeasure& pending = message.pending();
    if (pending.step() < 0 || pending.step() >= message.step())
      return OutOfRange("pending.step", pending.step());
    manifest.pending = {Step(pending.step()), {{pending.sums().begin(), pending.sums().end()}}};
    if (const std::string why = WhyNotSums(manifest.pending->sums); !why.empty())
      return absl::InvalidArgumentError(absl::StrCat("pending.sums: ", why));
  }
  return manifest;
}

std::string EncodeManifest(const Manifest& manifest) {
  const std::string body = ToProto(manifest).SerializeAsString();
  return ChecksumText(body) + body;
}

absl::StatusOr<Manifest> DecodeManifest(absl::string_view bytes) {
  if (bytes.size() < kChecksumBytes) return absl::DataLossError("manifest: too short");
  const absl::string_view body = bytes.substr(kChecksumBytes);
  if (bytes.substr(0, kChecksumBytes) != ChecksumText(body))
    return absl::DataLossError("manifest: checksum is wrong");
  v1::Manifest message;
  if (body.size() > static_cast<size_t>(std::numeric_limits<int>::max()) ||
      !message.ParseFromArray(body.data(), static_cast<int>(body.size())))
    return absl::DataLossError("manifest: not a manifest");
  auto manifest = FromProto(message);
  if (!manifest.ok())
    return absl::DataLossError(absl::StrCat("manifest: ", manifest.status().message()));
  return manifest;
}

}  // namespace muster
