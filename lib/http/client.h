// A small blocking HTTP/1.1 client for command lines and tests. URLs are http://host:port/path, for
// which the loopback rule of lib/base/loopback.h holds here too, or https://host:port/path, where
// only the coordinator of whom an authority says so is spoken to, at any address and by any name.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/base/clock.h"
#include "lib/http/message.h"
#include "lib/identity/tls_context.h"

namespace muster::http {

struct ClientOptions {
  Duration timeout = std::chrono::seconds(10);  // for the whole exchange
  // Sent as `Authorization: Bearer`, over https:// or to loopback only; empty: none.
  std::string token{};
  Trust trust{};  // for https://
};

// Any HTTP status is a Response (StatusFromResponse makes a status of it). kInvalidArgument: the
// URL does not parse; kFailedPrecondition: loopback rule, or no TLS can be spoken there;
// kUnauthenticated, kPermissionDenied: somebody else than `trust` says is there, and was told
// nothing; kUnavailable: nobody listens there, or the connection broke; kDeadlineExceeded.
absl::StatusOr<Response> Get(const std::string& url, const ClientOptions& options = {});
absl::StatusOr<Response> Post(const std::string& url, const std::string& json,
                              const ClientOptions& options = {});

absl::StatusOr<Response> Put(const std::string& url, const std::string& json,
                             const ClientOptions& options = {});
absl::StatusOr<Response> Patch(const std::string& url, const std::string& json,
                               const ClientOptions& options = {});
absl::StatusOr<Response> Delete(const std::string& url, const ClientOptions& options = {});

// Of a kUnavailable: no program answered. One that did gave a reason of its own.
bool NobodyListens(const absl::Status& error);

// As a segment of a URL's path or a value of its query: whatever has a meaning there becomes %XX.
std::string EscapeUrlPart(absl::string_view text);

struct Event {
  std::string id;  // the newest one seen, so far
  std::string name;
  std::string data;
};

struct StreamOptions {
  std::string last_event_id;  // resume after it; empty: from the start
  Duration connect_timeout = std::chrono::seconds(10);
  Duration idle_timeout =
      std::chrono::seconds(60);  // without a byte, heartbeats included: kDeadlineExceeded
  std::string token{};           // as of ClientOptions
  Trust trust{};                 // likewise
};

// Calls `on_event` on the calling thread for each event until it returns false (then OK).
// kUnavailable: nobody listens, or the stream ended or broke: come again with the last id. Answers
// other than 200: as StatusFromResponse.
absl::Status StreamEvents(const std::string& url, const std::function<bool(const Event&)>& on_event,
                          const StreamOptions& options = {});

}  // namespace muster::http
