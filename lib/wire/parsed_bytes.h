// For lib/wire alone: what a message holds, and what it takes in memory once it is parsed, found
// without parsing it.
// An empty part of a list takes two bytes of a frame and two hundred in memory.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "google/protobuf/descriptor.h"

namespace muster {

// About; counting ends above `most`. Nothing: some part says that it is longer than what holds it,
// so the bytes are not a message. Protobuf's parser would make room for up to 50 MB of such a part
// before it finds that out.
std::optional<size_t> ParsedBytes(std::string_view bytes, const google::protobuf::Descriptor& type,
                                  size_t most);

// False: a field of another number stands at the top of the message. True also where the bytes are
// not a message.
bool HoldsOnly(std::string_view bytes, std::initializer_list<int> fields);

}  // namespace muster
