#include "coordinator/webhooks/poster.h"

#include <utility>

#include "lib/base/printable.h"
#include "lib/curl/curl.h"

namespace muster::coordinator {
namespace {

// So much of an answer's body is read, so that the connection can be used again.
constexpr size_t kMostRead = size_t{64} << 10;
constexpr int64_t kLongestRetryAfter = 24 * 3600;  // seconds; who waits has a bound of its own

struct Transfer {
  size_t read = 0;
  std::optional<Duration> retry_after;
};

size_t OnBytes(char*, size_t, size_t count, void* context) {
  Transfer& transfer = *static_cast<Transfer*>(context);
  transfer.read += count;
  return transfer.read > kMostRead ? 0 : count;
}

// It may name a date, too: then our own pause has to do.
size_t OnHeader(char* bytes, size_t, size_t count, void* context) {
  if (const auto seconds = RetryAfterIn({bytes, count}))
    static_cast<Transfer*>(context)->retry_after =
        std::chrono::seconds(std::min(*seconds, kLongestRetryAfter));
  return count;
}

}  // namespace

Poster::Poster(std::string url, std::string ca, PostPatience patience,
               const std::atomic<bool>& stop)
    : url_(std::move(url)),
      ca_(std::move(ca)),
      patience_(patience),
      stop_(stop),
      handle_(std::make_unique<CurlHandle>()) {}

Poster::~Poster() = default;

WebhookAnswer Poster::Post(const std::vector<std::string>& lines, const std::string& body) {
  CURL* const curl = handle_->get();
  CurlHeaders headers;
  bool has_memory = curl != nullptr && Append(headers, "Content-Type: application/json") &&
                    Append(headers, "Expect:");
  for (const std::string& line : lines) has_memory = has_memory && Append(headers, line);
  if (!has_memory) return {.why = "there is no memory for a request"};
  Transfer transfer;
  char error[CURL_ERROR_SIZE] = "";
  SendTo(curl, url_, ca_, {patience_.connect, patience_.whole});
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, OnBytes);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, OnHeader);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  StopWith(curl, stop_);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
  SendBody(curl, body);
  const auto [code, status] = Perform(curl);
  // Whatever becomes of its body: a status is an answer.
  if (status >= 200) return {.status = status, .retry_after = transfer.retry_after};
  const std::string why = *error != '\0' ? error : curl_easy_strerror(code);
  return {.why = Cut(Printable(why), 256)};
}

}  // namespace muster::coordinator
