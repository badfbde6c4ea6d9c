// The requests that an HTTP handler is given and the responses that it answers.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster::http {

struct Request {
  std::string method;                         // "GET"
  std::string path;                           // decoded and free of `.`, `..` and empty segments
  std::map<std::string, std::string> params;  // what stood for the {names} of the route's pattern
  std::map<std::string, std::string> query;   // decoded; a key given twice is refused before this
  std::map<std::string, std::string>
      headers;  // names in lower case; repeated ones joined with ", "
  std::string body;
  std::string peer;  // the client's address, without the port; empty: there is no connection
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
};

// What is said in plain text, with status 400, to one who speaks that to a port of TLS.
inline constexpr char kSpeaksHttps[] =
    "this port speaks HTTPS: ask for https:// in place of http://\n";

// {"error":{"code":"invalid_argument","message":"…","field":"…"}}; `field` is left out where empty.
Response JsonError(int http_status, absl::string_view code, absl::string_view message,
                   absl::string_view field = "");

// The same made of a status that is not OK: invalid_argument 400, not_found 404, already_exists and
// failed_precondition 409, resource_exhausted 429, unavailable 503, deadline_exceeded 504, internal
// 500 …
Response ErrorResponse(const absl::Status& status, absl::string_view field = "");

// The other way, for clients: the status that such an answer stands for; OK for 2xx.
absl::Status StatusFromResponse(const Response& response);

}  // namespace muster::http
