// What an observer of a network learns: the bytes of each direction of each TCP connection, put
// together again from the packets that it saw, and what can be found in them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"

namespace muster::identity {

class CapturedStreams {
 public:
  // An IP packet, of either version, as the network carried it. What is no TCP is passed over.
  // Packets may come late, twice, and cut anew, as TCP sends them again.
  void Add(std::string_view packet);

  // The bytes that follow each other without a gap, of all directions.
  std::vector<std::string_view> Runs() const;
  size_t bytes() const;

 private:
  struct Way {  // one direction of one connection; unused bytes of version 4 are 0
    std::array<char, 16> from{}, to{};
    uint16_t from_port = 0, to_port = 0;
    auto operator<=>(const Way&) const = default;
  };
  // Offsets count from the first byte that was seen. No two runs touch.
  struct Stream {
    uint32_t first = 0;  // sequence number of offset 0
    int64_t newest = 0;  // offset, for numbers that begin anew at 0
    std::map<int64_t, std::string> runs{};
  };
  static void Insert(Stream& stream, int64_t at, std::string_view bytes);

  std::map<Way, Stream> open_;
  std::vector<Stream> ended_;  // whose ports another connection has taken
};

// Whether so many floats that follow each other in `tensor` stand somewhere, at any byte.
inline constexpr size_t kFloatsInARow = 8;
bool HoldFloats(const std::vector<std::string_view>& runs, absl::Span<const float> tensor);
bool HoldText(const std::vector<std::string_view>& runs, std::string_view text);

}  // namespace muster::identity
