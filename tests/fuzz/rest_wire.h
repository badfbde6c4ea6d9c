// The REST interface in this thread: bytes in, bytes out, over a pair of sockets and the server's
// own connections and routes. Behind them stands an API that answers everything at once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster::fuzz {

enum class ServerKind {
  kUsual,
  kNarrow,  // takes heads of 1 KiB, and has no room for bodies
  kHasty,   // what is not there when it looks has not come in time
};

// All that the server says to these bytes, which come to it in pieces of `piece` bytes (0: in one).
// To a hasty one they come at once.
std::string AnswersTo(std::string_view bytes, size_t piece, ServerKind kind = ServerKind::kUsual);

struct Answer {
  int status = 0;
  std::string head;  // with the status line
  std::string body;
};
// Ends the run as a finding where they are not whole answers, one after the other.
std::vector<Answer> Split(std::string_view answers);

}  // namespace muster::fuzz
