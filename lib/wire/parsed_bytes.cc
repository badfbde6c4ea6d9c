#include "lib/wire/parsed_bytes.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "google/protobuf/descriptor.pb.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/message.h"
#include "google/protobuf/wire_format_lite.h"

namespace muster {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::MessageFactory;
using google::protobuf::internal::WireFormatLite;

constexpr int kMostDepth = 100;           // as Protobuf's own parser
constexpr size_t kScalarBytes = 16;       // also of one that is not known
constexpr size_t kTextBytes = 48;         // besides its characters
constexpr size_t kMapEntryBytes = 128;    // besides its value, where that is a message
constexpr size_t kPackedNumberBytes = 8;  // of each byte, which may be a whole number

class Counter {
 public:
  explicit Counter(size_t most) : most_(most) {}
  std::optional<size_t> sum() const { return is_whole_ ? std::optional(sum_) : std::nullopt; }

  // Everything up to the end of the bytes, which are of `type`.
  void Count(std::string_view bytes, const Descriptor& type, int depth) {
    google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                                              static_cast<int>(bytes.size()));
    while (is_whole_ && sum_ <= most_ && depth <= kMostDepth) {
      const uint32_t tag = in.ReadTag();
      if (tag == 0) return;
      const FieldDescriptor* field = type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
      switch (WireFormatLite::GetTagWireType(tag)) {
        case WireFormatLite::WIRETYPE_LENGTH_DELIMITED: {
          uint32_t size = 0;
          is_whole_ = in.ReadVarint32(&size);
          const auto at = static_cast<size_t>(in.CurrentPosition());
          is_whole_ = is_whole_ && size <= bytes.size() - at;
          if (!is_whole_) return;
          CountPart(bytes.substr(at, size), field, depth);
          in.Skip(static_cast<int>(size));
          break;
        }
        case WireFormatLite::WIRETYPE_START_GROUP:
        case WireFormatLite::WIRETYPE_END_GROUP: sum_ += kTextBytes; break;
        default: sum_ += kScalarBytes; is_whole_ = WireFormatLite::SkipField(&in, tag);
      }
    }
  }

 private:
  void CountPart(std::string_view bytes, const FieldDescriptor* field, int depth) {
    if (field == nullptr || field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      sum_ += kTextBytes + bytes.size();
    } else if (field->message_type() != nullptr) {
      sum_ += sizeof(void*) + SizeOf(*field->message_type());
      Count(bytes, *field->message_type(), depth + 1);
    } else {
      sum_ += PackedBytes(bytes.size(), *field);
    }
  }

  static size_t PackedBytes(size_t bytes, const FieldDescriptor& field) {
    switch (field.type()) {
      case FieldDescriptor::TYPE_DOUBLE:
      case FieldDescriptor::TYPE_FLOAT:
      case FieldDescriptor::TYPE_FIXED32:
      case FieldDescriptor::TYPE_FIXED64:
      case FieldDescriptor::TYPE_SFIXED32:
      case FieldDescriptor::TYPE_SFIXED64:
      case FieldDescriptor::TYPE_BOOL: return bytes;
      case FieldDescriptor::TYPE_INT32:
      case FieldDescriptor::TYPE_SINT32:
      case FieldDescriptor::TYPE_UINT32:
      case FieldDescriptor::TYPE_ENUM: return bytes * sizeof(uint32_t);
      default: return bytes * kPackedNumberBytes;
    }
  }

  // Asked for with each frame, and found under a lock of the whole process.
  static size_t SizeOf(const Descriptor& type) {
    thread_local std::map<const Descriptor*, size_t> sizes;
    size_t& size = sizes[&type];
    if (size == 0) size = SpaceOf(type);
    return size;
  }

  // The prototype of a map's entry has no value to ask for its size.
  static size_t SpaceOf(const Descriptor& type) {
    if (!type.options().map_entry())
      return MessageFactory::generated_factory()->GetPrototype(&type)->SpaceUsedLong();
    const Descriptor* value = type.map_value()->message_type();
    return kMapEntryBytes + (value == nullptr ? 0 : SpaceOf(*value));
  }

  const size_t most_;
  size_t sum_ = 0;
  bool is_whole_ = true;
};

}  // namespace

std::optional<size_t> ParsedBytes(std::string_view bytes, const Descriptor& type, size_t most) {
  Counter counter(most);
  counter.Count(bytes, type, 0);
  return counter.sum();
}

bool HoldsOnly(std::string_view bytes, std::initializer_list<int> fields) {
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                                            static_cast<int>(bytes.size()));
  for (uint32_t tag = in.ReadTag(); tag != 0; tag = in.ReadTag()) {
    const int number = WireFormatLite::GetTagFieldNumber(tag);
    if (std::find(fields.begin(), fields.end(), number) == fields.end()) return false;
    if (!WireFormatLite::SkipField(&in, tag)) return true;
  }
  return true;
}

}  // namespace muster
