// For lib/wire alone: what a message holds, and what it takes in memory once it is parsed, found
// without parsing it.
// An empty part of a list takes two bytes of a frame and two hundred in memory.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string_view>

#include "google/protobuf/descriptor.h"

namespace muster {

// About; counting ends above `most`, and where the bytes are not a message.
size_t ParsedBytes(std::string_view bytes, const google::protobuf::Descriptor& type, size_t most);

// False: a field of another number stands at the top of the message. True also where the bytes are
// not a message.
bool HoldsOnly(std::string_view bytes, std::initializer_list<int> fields);

}  // namespace muster
