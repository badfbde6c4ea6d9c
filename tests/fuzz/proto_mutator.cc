#include "tests/fuzz/proto_mutator.h"

#include <google/protobuf/descriptor.pb.h>

#include <algorithm>
#include <set>

namespace muster::fuzz {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr size_t kMostParts = 256;
constexpr int kMostCopies = 40;
constexpr int kMostPartsSeen = 4;  // of a list

// `call` for every message that this one holds, however deep, and for itself.
template <class Call>
void ForEachPart(Message& message, size_t& parts, const Call& call) {
  if (++parts > kMostParts) return;
  call(message);
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_map()) continue;
    if (!field->is_repeated()) {
      ForEachPart(*reflection.MutableMessage(&message, field), parts, call);
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i)
      ForEachPart(*reflection.MutableRepeatedMessage(&message, field, i), parts, call);
  }
}

// One way to set or to add a value of the field's type.
#define MUSTER_PUT(Type, value)                                \
  if (!field.is_repeated()) {                                  \
    reflection.Set##Type(&message, &field, value);             \
  } else if (at >= 0) {                                        \
    reflection.SetRepeated##Type(&message, &field, at, value); \
  } else {                                                     \
    reflection.Add##Type(&message, &field, value);             \
  }                                                            \
  return

// `at`: which item of a list; -1: another one.
void Put(Message& message, const FieldDescriptor& field, int at, Random& random) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: {
      MUSTER_PUT(Int32, static_cast<int32_t>(UglyNumber(random)));
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      MUSTER_PUT(Int64, UglyNumber(random));
    }
    case FieldDescriptor::CPPTYPE_UINT32: {
      MUSTER_PUT(UInt32, static_cast<uint32_t>(UglyNumber(random)));
    }
    case FieldDescriptor::CPPTYPE_UINT64: {
      MUSTER_PUT(UInt64, static_cast<uint64_t>(UglyNumber(random)));
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      MUSTER_PUT(Double, UglyReal(random));
    }
    case FieldDescriptor::CPPTYPE_FLOAT: {
      MUSTER_PUT(Float, static_cast<float>(UglyReal(random)));
    }
    case FieldDescriptor::CPPTYPE_BOOL: {
      MUSTER_PUT(Bool, Below(random, 2) == 1);
    }
    case FieldDescriptor::CPPTYPE_ENUM: {
      MUSTER_PUT(EnumValue, static_cast<int>(Below(random, 9)));
    }
    case FieldDescriptor::CPPTYPE_STRING: {
      MUSTER_PUT(String, UglyText(random));
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      if (!field.is_repeated())
        reflection.MutableMessage(&message, &field);
      else if (at < 0)
        reflection.AddMessage(&message, &field);
  }
}

#undef MUSTER_PUT

void ChangeList(Message& message, const FieldDescriptor& field, Random& random) {
  const Reflection& reflection = *message.GetReflection();
  const int size = reflection.FieldSize(message, &field);
  const int at = static_cast<int>(Below(random, static_cast<size_t>(size)));
  switch (Below(random, 5)) {
    case 0:
      if (size > 0) reflection.RemoveLast(&message, &field);
      return;
    case 1:
      if (size > 1) reflection.SwapElements(&message, &field, at, size - 1);
      return;
    case 2:
      for (size_t copies = Below(random, kMostCopies); copies > 0; --copies)
        Put(message, field, -1, random);
      return;
    case 3: return Put(message, field, -1, random);
    default: return Put(message, field, size > 0 ? at : -1, random);
  }
}

void ChangeField(Message& message, const FieldDescriptor& field, Random& random) {
  const Reflection& reflection = *message.GetReflection();
  if (Below(random, 8) == 0) return reflection.ClearField(&message, &field);
  if (field.is_repeated()) return ChangeList(message, field, random);
  Put(message, field, -1, random);
}

void AddFields(const Descriptor& type, std::set<const Descriptor*>& seen,
               std::vector<std::string>& names) {
  if (!seen.insert(&type).second) return;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (!type.options().map_entry()) names.push_back(field.full_name());
    if (field.message_type() != nullptr) AddFields(*field.message_type(), seen, names);
  }
}

}  // namespace

void ChangeMessage(Message& message, Random& random) {
  std::vector<Message*> parts;
  size_t count = 0;
  ForEachPart(message, count, [&](Message& part) { parts.push_back(&part); });
  Message& part = *parts[Below(random, parts.size())];
  const Descriptor& type = *part.GetDescriptor();
  if (type.field_count() == 0) return;
  const size_t choice = Below(random, static_cast<size_t>(type.field_count()));
  ChangeField(part, *type.field(static_cast<int>(choice)), random);
}

std::vector<std::string> FieldsOfType(const Descriptor& type) {
  std::set<const Descriptor*> seen;
  std::vector<std::string> names;
  AddFields(type, seen, names);
  return names;
}

void ReachFields(const Message& message) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    Reach("field", field->full_name());
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_map()) continue;
    if (!field->is_repeated()) {
      ReachFields(reflection.GetMessage(message, field));
    } else {
      const int size = std::min(kMostPartsSeen, reflection.FieldSize(message, field));
      for (int i = 0; i < size; ++i) ReachFields(reflection.GetRepeatedMessage(message, field, i));
    }
  }
}

}  // namespace muster::fuzz
