#include "lib/http/wire.h"

#include <boost/beast/http/status.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace muster::http {
namespace {

absl::Status Bad(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("request head: ", why));
}

std::string Clean(absl::string_view text) {
  std::string out;
  for (const char c : text) {
    if (!absl::ascii_iscntrl(static_cast<unsigned char>(c))) out += c;
  }
  return out;
}

std::string StatusLine(int status) {
  const auto reason =
      boost::beast::http::obsolete_reason(static_cast<boost::beast::http::status>(status));
  return absl::StrCat("HTTP/1.1 ", status, " ", absl::string_view(reason.data(), reason.size()),
                      "\r\n");
}

// No browser or proxy may guess the type of what we send, or keep it.
constexpr absl::string_view kAlways =
    "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n";

}  // namespace

absl::StatusOr<std::optional<size_t>> FindHeadEnd(absl::string_view bytes) {
  size_t line_start = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto c = static_cast<unsigned char>(bytes[i]);
    if (i == line_start && i > 0 && (c == ' ' || c == '\t')) return Bad("a folded header");
    if (c == '\r') {
      if (i + 1 == bytes.size()) break;
      if (bytes[i + 1] != '\n') return Bad("a CR without LF");
    } else if (c == '\n') {
      if (i == 0 || bytes[i - 1] != '\r') return Bad("a LF without CR");
      const bool empty = i - line_start == 1;
      if (empty && line_start == 0) return Bad("an empty request line");
      if (empty) return std::optional<size_t>(i + 1);
      line_start = i + 1;
    } else if ((c < 0x20 && c != '\t') || c == 0x7f) {
      return Bad("a control character");
    }
  }
  return std::optional<size_t>();
}

std::string FormatResponse(const Response& response, const AnswerForm& form) {
  std::string out = absl::StrCat(StatusLine(response.status), kAlways);
  if (!response.content_type.empty())
    absl::StrAppend(&out, "Content-Type: ", Clean(response.content_type), "\r\n");
  if (form.now)
    absl::StrAppend(&out, "Date: ",
                    absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT", *form.now, absl::UTCTimeZone()),
                    "\r\n");
  absl::StrAppend(&out, "Content-Length: ", response.body.size(), "\r\n");
  absl::StrAppend(&out, "Connection: ", form.keep_alive ? "keep-alive" : "close", "\r\n");
  for (const auto& [name, value] : response.headers)
    absl::StrAppend(&out, Clean(name), ": ", Clean(value), "\r\n");
  absl::StrAppend(&out, "\r\n");
  if (!form.without_body) out += response.body;
  return out;
}

std::string FormatStreamHead() {
  return absl::StrCat(StatusLine(200), kAlways,
                      "Content-Type: text/event-stream\r\nConnection: close\r\n\r\n");
}

}  // namespace muster::http
