#include "lib/http/message.h"

#include <array>
#include <nlohmann/json.hpp>

#include "lib/base/printable.h"

namespace muster::http {
namespace {

struct CodeRow {
  absl::StatusCode code;
  const char* name;
  int http_status;
};
constexpr std::array kCodes = {
    CodeRow{absl::StatusCode::kInvalidArgument, "invalid_argument", 400},
    CodeRow{absl::StatusCode::kOutOfRange, "out_of_range", 400},
    CodeRow{absl::StatusCode::kUnauthenticated, "unauthenticated", 401},
    CodeRow{absl::StatusCode::kPermissionDenied, "permission_denied", 403},
    CodeRow{absl::StatusCode::kNotFound, "not_found", 404},
    CodeRow{absl::StatusCode::kAlreadyExists, "already_exists", 409},
    CodeRow{absl::StatusCode::kFailedPrecondition, "failed_precondition", 409},
    CodeRow{absl::StatusCode::kAborted, "aborted", 409},
    CodeRow{absl::StatusCode::kResourceExhausted, "resource_exhausted", 429},
    CodeRow{absl::StatusCode::kCancelled, "cancelled", 499},
    CodeRow{absl::StatusCode::kInternal, "internal", 500},
    CodeRow{absl::StatusCode::kUnknown, "unknown", 500},
    CodeRow{absl::StatusCode::kDataLoss, "data_loss", 500},
    CodeRow{absl::StatusCode::kUnimplemented, "unimplemented", 501},
    CodeRow{absl::StatusCode::kUnavailable, "unavailable", 503},
    CodeRow{absl::StatusCode::kDeadlineExceeded, "deadline_exceeded", 504},
};

absl::StatusCode CodeOfHttpStatus(int http_status) {
  switch (http_status) {
    case 405: return absl::StatusCode::kUnimplemented;
    case 408: return absl::StatusCode::kDeadlineExceeded;
    case 413:
    case 431: return absl::StatusCode::kResourceExhausted;
    default: break;
  }
  for (const CodeRow& row : kCodes) {
    if (row.http_status == http_status) return row.code;
  }
  return http_status >= 500 ? absl::StatusCode::kInternal : absl::StatusCode::kInvalidArgument;
}

std::string TextAt(const nlohmann::json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

}  // namespace

Response JsonError(int http_status, absl::string_view code, absl::string_view message,
                   absl::string_view field) {
  nlohmann::json error = {{"code", std::string(code)}, {"message", Cut(PrintableLines(message))}};
  if (!field.empty()) error["field"] = Cut(Printable(field));
  const nlohmann::json body = {{"error", std::move(error)}};
  Response response;
  response.status = http_status;
  response.body = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  return response;
}

Response ErrorResponse(const absl::Status& status, absl::string_view field) {
  for (const CodeRow& row : kCodes) {
    if (row.code == status.code())
      return JsonError(row.http_status, row.name, status.message(), field);
  }
  return JsonError(500, "internal", status.message(), field);
}

absl::Status StatusFromResponse(const Response& response) {
  if (response.status >= 200 && response.status < 300) return absl::OkStatus();
  if (response.status == 400 && response.body == kSpeaksHttps)
    return absl::FailedPreconditionError(
        "the coordinator speaks HTTPS: ask for https:// in place of http://, and name its "
        "authority with --authority FILE");
  const auto body = nlohmann::json::parse(response.body, nullptr, false);
  if (!body.is_object() || !body.contains("error") || !body["error"].is_object()) {
    return absl::Status(
        CodeOfHttpStatus(response.status),
        "HTTP status " + std::to_string(response.status) +
            " from something that is not a Muster coordinator; is this its address?");
  }
  const nlohmann::json& error = body["error"];
  const std::string name = TextAt(error, "code");
  absl::StatusCode code = CodeOfHttpStatus(response.status);
  for (const CodeRow& row : kCodes) {
    if (name == row.name) code = row.code;
  }
  return absl::Status(code, Cut(TextAt(error, "message")));
}

}  // namespace muster::http
