#include "coordinator/mlflow/client.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/mlflow/messages.h"
#include "lib/base/printable.h"
#include "lib/curl/curl.h"

namespace muster::coordinator {
namespace {

struct Transfer {
  std::string body;
  bool is_too_long = false;
};

size_t OnBytes(char* bytes, size_t, size_t count, void* context) {
  Transfer& transfer = *static_cast<Transfer*>(context);
  transfer.is_too_long = transfer.body.size() + count > kMostMlflowAnswer;
  if (transfer.is_too_long) return 0;
  transfer.body.append(bytes, count);
  return count;
}

absl::Status StatusOf(int http, const MlflowError& error) {
  const std::string said = error.text.empty() ? "" : absl::StrCat(" (", error.text, ")");
  if (error.code == "RESOURCE_DOES_NOT_EXIST") return absl::NotFoundError(error.text);
  if (error.code == "RESOURCE_ALREADY_EXISTS") return absl::AlreadyExistsError(error.text);
  const std::string text = absl::StrCat("it answers ", http, said);
  if (http == 401 || http == 403)
    return absl::PermissionDeniedError(absl::StrCat(
        text,
        ": a token or a user with a password comes from MLFLOW_TRACKING_TOKEN, or "
        "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD of the environment, or from "
        "--mlflow-token-file"));
  if (http >= 300 && http < 400)
    return absl::InvalidArgumentError(
        absl::StrCat(text, ", and redirects are not followed: name where it leads to"));
  if (http == 408 || http == 429 || http >= 500) return absl::UnavailableError(text);
  return absl::InvalidArgumentError(text);
}

}  // namespace

MlflowClient::MlflowClient(MlflowSettings settings, MlflowPatience patience,
                           const std::atomic<bool>& stop)
    : settings_(std::move(settings)),
      patience_(patience),
      stop_(stop),
      handle_(std::make_unique<CurlHandle>()) {}

MlflowClient::~MlflowClient() = default;

absl::StatusOr<std::string> MlflowClient::Ask(const std::string& path, const std::string& body) {
  CURL* const curl = handle_->get();
  CurlHeaders headers;
  bool has_memory = curl != nullptr && Append(headers, "Content-Type: application/json") &&
                    Append(headers, "Expect:");
  if (!settings_.authorization.empty())
    has_memory =
        has_memory && Append(headers, absl::StrCat("Authorization: ", settings_.authorization));
  if (!has_memory) return absl::UnavailableError("there is no memory for a request");
  Transfer transfer;
  char error[CURL_ERROR_SIZE] = "";
  SendTo(curl, settings_.url + path, settings_.ca, {patience_.connect, patience_.whole});
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, OnBytes);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  StopWith(curl, stop_);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
  if (!body.empty()) {
    SendBody(curl, body);
    // On a connection that was open already libcurl sends a request once more by itself where it
    // breaks before an answer, and what the server took of the first would be there twice.
    curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, 1L);
    curl_easy_setopt(curl, CURLOPT_FORBID_REUSE, 1L);
  }
  const auto [code, status] = Perform(curl);
  if (transfer.is_too_long)
    return absl::DataLossError(
        absl::StrCat("it answers with more than ", kMostMlflowAnswer, " bytes; is it MLflow?"));
  if (code != CURLE_OK) {
    const std::string why = Cut(Printable(*error != '\0' ? error : curl_easy_strerror(code)), 256);
    return code == CURLE_OPERATION_TIMEDOUT ? absl::DeadlineExceededError(why)
                                            : absl::UnavailableError(why);
  }
  if (status >= 200 && status < 300) return std::move(transfer.body);
  return StatusOf(status, MlflowErrorIn(transfer.body));
}

}  // namespace muster::coordinator
