// Changes a Protobuf message somewhere, by reflection, so that it stays one and its parts deep
// inside are reached.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/fuzz.h"

namespace muster::fuzz {

void ChangeMessage(google::protobuf::Message& message, Random& random);

// Every field that a message of this type can hold, at any depth, as "muster.v1.Join.environment".
std::vector<std::string> FieldsOfType(const google::protobuf::Descriptor& type);
// Reaches ("field") those that this message holds.
void ReachFields(const google::protobuf::Message& message);

// `bytes` as a Message, changed; empty where they are none.
template <class Message>
std::string ChangedMessage(std::string_view bytes, Random& random) {
  Message message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return "";
  for (size_t changes = 1 + Below(random, 3); changes > 0; --changes)
    ChangeMessage(message, random);
  return message.SerializePartialAsString();
}

}  // namespace muster::fuzz
