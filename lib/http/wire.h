// HTTP/1.1 on the wire, as pure functions on bytes: where a request's head ends, and what an answer
// looks like.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "lib/http/message.h"

namespace muster::http {

// The length of the request line and headers at the front of `bytes`, with the empty line that ends
// them; nothing where more bytes are needed. kInvalidArgument: no clean HTTP/1.1 can come of it:
// control characters, a line that does not end with CR LF, a folded header, an empty first line.
// Stricter than the parser behind it, which forgives some of these; two readers that forgive
// differently are how requests are smuggled.
absl::StatusOr<std::optional<size_t>> FindHeadEnd(absl::string_view bytes);

struct AnswerForm {
  bool keep_alive = true;
  bool without_body = false;  // the answer to HEAD
  // By the wall, as its header Date says it: whoever asks compares clocks by it. Nothing: no
  // header.
  std::optional<absl::Time> now{};
};
// Control characters in header values of `response` are dropped.
std::string FormatResponse(const Response& response, const AnswerForm& form);

// The head of an endless answer with events.
std::string FormatStreamHead();

}  // namespace muster::http
