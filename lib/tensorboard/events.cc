#include "lib/tensorboard/events.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "lib/domain/history_series.h"
#include "lib/kernels/crc.h"

namespace muster::tensorboard {
namespace {

constexpr size_t kHead = 12, kFoot = 4;  // of a record, around its bytes

template <class T>
std::string LittleEndian(T value) {
  static_assert(std::endian::native == std::endian::little);
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

template <class T>
T ReadLittleEndian(absl::string_view bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

uint32_t MaskedCrc(absl::string_view bytes) {
  const uint32_t crc = Crc32c(absl::MakeConstSpan(reinterpret_cast<const std::byte*>(bytes.data()),
                                                  bytes.size()));  // NOLINT
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

std::string Record(const std::string& bytes) {
  const std::string length = LittleEndian(static_cast<uint64_t>(bytes.size()));
  return absl::StrCat(length, LittleEndian(MaskedCrc(length)), bytes,
                      LittleEndian(MaskedCrc(bytes)));
}

// Fields of a Protobuf message.
std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  bytes += static_cast<char>(value);
  return bytes;
}
std::string Key(uint32_t field, uint32_t wire_type) { return Varint(field << 3 | wire_type); }
std::string Number(uint32_t field, uint64_t value) { return Key(field, 0) + Varint(value); }
std::string Double(uint32_t field, double value) { return Key(field, 1) + LittleEndian(value); }
std::string Float(uint32_t field, float value) { return Key(field, 5) + LittleEndian(value); }
std::string Bytes(uint32_t field, absl::string_view value) {
  return absl::StrCat(Key(field, 2), Varint(value.size()), value);
}

// Numbers of the fields, by message.
namespace event {
constexpr uint32_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
}
namespace session_log {
constexpr uint32_t kStatus = 1;
constexpr uint64_t kStart = 1;
}  // namespace session_log
namespace summary {
constexpr uint32_t kValue = 1;
}
namespace value {
constexpr uint32_t kTag = 1, kSimpleValue = 2, kTensor = 8, kMetadata = 9;
}
namespace metadata {
constexpr uint32_t kPluginData = 1, kPluginName = 1, kContent = 2, kDataClass = 4;
constexpr uint64_t kTensorClass = 2;
}  // namespace metadata
namespace tensor {
constexpr uint32_t kDtype = 1, kShape = 2, kFloatValue = 5, kStringValue = 8;
constexpr uint32_t kDimension = 2, kSize = 1;  // of the shape
constexpr uint64_t kFloatType = 1, kStringType = 7;
}  // namespace tensor
namespace hparams {
constexpr uint32_t kSessionStart = 3, kSessionEnd = 4;
constexpr uint32_t kParameters = 1, kGroup = 4, kStartTime = 5;  // of the start
constexpr uint32_t kStatus = 1, kEndTime = 2;                    // of the end
constexpr uint32_t kMapKey = 1, kMapValue = 2;
}  // namespace hparams
namespace any_value {  // google.protobuf.Value
constexpr uint32_t kNumber = 2, kString = 3, kBool = 4;
}

double Seconds(int64_t unix_ms) { return static_cast<double>(unix_ms) / 1e3; }

std::string Event(int64_t unix_ms, int64_t step, const std::string& what) {
  return Record(absl::StrCat(Double(event::kWallTime, Seconds(unix_ms)),
                             Number(event::kStep, static_cast<uint64_t>(step)), what));
}

std::string SummaryOf(const std::string& values) { return Bytes(event::kSummary, values); }

std::string OneElement(uint64_t type, const std::string& element) {
  const std::string shape = Bytes(tensor::kDimension, Number(tensor::kSize, 1));
  return absl::StrCat(Number(tensor::kDtype, type), Bytes(tensor::kShape, shape), element);
}

std::string PluginValue(absl::string_view tag, absl::string_view plugin, absl::string_view content,
                        const std::string& tensor) {
  const std::string plugin_data =
      absl::StrCat(Bytes(metadata::kPluginName, plugin), Bytes(metadata::kContent, content));
  const std::string about = absl::StrCat(Bytes(metadata::kPluginData, plugin_data),
                                         Number(metadata::kDataClass, metadata::kTensorClass));
  return Bytes(summary::kValue, absl::StrCat(Bytes(value::kTag, tag), Bytes(value::kTensor, tensor),
                                             Bytes(value::kMetadata, about)));
}

// Its content is all that the plug-in reads; the tensor stands there for whoever wants one.
std::string HparamsValue(absl::string_view tag, const std::string& content) {
  return SummaryOf(
      PluginValue(tag, "hparams", content,
                  OneElement(tensor::kFloatType, Bytes(tensor::kFloatValue, LittleEndian(0.0F)))));
}

std::string AnyValue(const HyperParameter& parameter) {
  if (const auto* number = std::get_if<double>(&parameter.value))
    return Double(any_value::kNumber, *number);
  if (const auto* flag = std::get_if<bool>(&parameter.value))
    return Number(any_value::kBool, *flag ? 1 : 0);
  return Bytes(any_value::kString, std::get<std::string>(parameter.value));
}

// Takes one field off the front of `message`. False: the rest is none.
struct Field {
  uint64_t number = 0;
  uint64_t varint = 0;
  absl::string_view bytes;
};
bool TakeVarint(absl::string_view& message, uint64_t& value) {
  value = 0;
  for (size_t i = 0; i < std::min<size_t>(message.size(), 10); ++i) {
    const auto byte = static_cast<unsigned char>(message[i]);
    value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      message.remove_prefix(i + 1);
      return true;
    }
  }
  return false;
}
bool TakeField(absl::string_view& message, Field& field) {
  field = {};
  uint64_t key = 0, size = 0;
  if (!TakeVarint(message, key)) return false;
  field.number = key >> 3;
  switch (key & 7) {
    case 0: return TakeVarint(message, field.varint);
    case 1: size = 8; break;
    case 5: size = 4; break;
    case 2:
      if (!TakeVarint(message, size)) return false;
      break;
    default: return false;
  }
  if (size > message.size()) return false;
  field.bytes = message.substr(0, size);
  message.remove_prefix(size);
  return true;
}

absl::string_view FirstOf(absl::string_view message, uint64_t number) {
  for (Field field; TakeField(message, field);)
    if (field.number == number) return field.bytes;
  return {};
}

LastRecord RecordOf(absl::string_view bytes) {
  LastRecord record;
  const absl::string_view values = FirstOf(bytes, event::kSummary);
  record.tag = std::string(FirstOf(FirstOf(values, summary::kValue), value::kTag));
  for (Field field; TakeField(bytes, field);) {
    if (field.number == event::kStep) record.step = static_cast<int64_t>(field.varint);
    if (field.number == event::kWallTime && field.bytes.size() == sizeof(double))
      record.unix_ms = std::llround(ReadLittleEndian<double>(field.bytes) * 1e3);
  }
  return record;
}

}  // namespace

std::string Begin(int64_t unix_ms) {
  return absl::StrCat(
      Event(unix_ms, 0, Bytes(event::kFileVersion, "brain.Event:2")),
      Event(unix_ms, 0,
            Bytes(event::kSessionLog, Number(session_log::kStatus, session_log::kStart))));
}

std::string HyperParameters(int64_t unix_ms, const std::string& run,
                            const std::vector<HyperParameter>& parameters) {
  std::string start;
  for (const HyperParameter& parameter : parameters)
    start +=
        Bytes(hparams::kParameters, absl::StrCat(Bytes(hparams::kMapKey, parameter.name),
                                                 Bytes(hparams::kMapValue, AnyValue(parameter))));
  absl::StrAppend(&start, Bytes(hparams::kGroup, run),
                  Double(hparams::kStartTime, Seconds(unix_ms)));
  return Event(unix_ms, 0, HparamsValue(kStartTag, Bytes(hparams::kSessionStart, start)));
}

std::string StepValues(const HistoryStep& step) {
  std::string values;
  for (const auto& [name, number] : ValuesOf(step)) {
    if (!std::isfinite(number)) continue;
    values += Bytes(summary::kValue,
                    absl::StrCat(Bytes(value::kTag, name),
                                 Float(value::kSimpleValue, static_cast<float>(number))));
  }
  return values.empty() ? "" : Event(step.unix_ms, step.step, SummaryOf(values));
}

std::string Text(int64_t unix_ms, int64_t step, const std::string& tag, const std::string& text) {
  return Event(
      unix_ms, step,
      SummaryOf(PluginValue(tag, "text", "",
                            OneElement(tensor::kStringType, Bytes(tensor::kStringValue, text)))));
}

std::string End(int64_t unix_ms, int64_t step, Status status) {
  const std::string end = absl::StrCat(Number(hparams::kStatus, static_cast<uint64_t>(status)),
                                       Double(hparams::kEndTime, Seconds(unix_ms)));
  return Event(unix_ms, step, HparamsValue(kEndTag, Bytes(hparams::kSessionEnd, end)));
}

// Four blanks before each line: what marks the end of another kind of code could stand in the text.
std::string AsCode(const std::string& text) {
  std::string code;
  for (const absl::string_view line : absl::StrSplit(text, '\n'))
    absl::StrAppend(&code, code.empty() ? "" : "\n", "    ", line);
  return code;
}

// Backwards: a place where a length stands before its own checksum and reaches to the end. What
// somebody has written into a text cannot look like that, as it ends before the text's record does.
std::optional<LastRecord> FindLastRecord(absl::string_view tail) {
  if (tail.size() < kHead + kFoot) return std::nullopt;
  for (size_t at = tail.size() - kHead - kFoot + 1; at-- > 0;) {
    const absl::string_view head = tail.substr(at, kHead);
    const size_t length = tail.size() - at - kHead - kFoot;
    if (ReadLittleEndian<uint64_t>(head) != length) continue;
    if (ReadLittleEndian<uint32_t>(head.substr(8)) != MaskedCrc(head.substr(0, 8))) continue;
    const absl::string_view bytes = tail.substr(at + kHead, length);
    if (ReadLittleEndian<uint32_t>(tail.substr(at + kHead + length)) != MaskedCrc(bytes)) continue;
    return RecordOf(bytes);
  }
  return std::nullopt;
}

}  // namespace muster::tensorboard
