// How the one message of each end stands in its stream: four bytes of length, the most significant
// first, and the message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace muster {

inline constexpr size_t kLengthBytes = 4;

inline std::string WithLength(const std::string& message) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8)
    bytes.push_back(static_cast<char>(message.size() >> shift & 0xff));
  return bytes + message;
}

// Nothing: more is to come. kInvalidArgument: it is longer than `most`.
inline absl::StatusOr<std::optional<std::string>> MessageIn(absl::string_view bytes, size_t most) {
  if (bytes.size() < kLengthBytes) return std::nullopt;
  size_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i)
    length = length << 8 | static_cast<unsigned char>(bytes[i]);
  if (length > most)
    return absl::InvalidArgumentError(
        absl::StrCat("a message of ", length, " bytes; at most ", most, " are allowed"));
  if (bytes.size() - kLengthBytes < length) return std::nullopt;
  return std::string(bytes.substr(kLengthBytes, length));
}

}  // namespace muster
