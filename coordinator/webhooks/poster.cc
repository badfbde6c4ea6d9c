#include "coordinator/webhooks/poster.h"

#include <curl/curl.h>

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lib/base/digits.h"
#include "lib/base/printable.h"

namespace muster::coordinator {
namespace {

// So much of an answer's body is read, so that the connection can be used again.
constexpr size_t kMostRead = size_t{64} << 10;
constexpr int64_t kLongestRetryAfter = 24 * 3600;  // seconds; who waits has a bound of its own

// Once a program, before any of its threads makes a handle.
void Begin() {
  static const bool begun = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  (void)begun;
}

struct Transfer {
  const std::atomic<bool>* stop = nullptr;
  size_t read = 0;
  std::optional<Duration> retry_after;
};

size_t OnBytes(char*, size_t, size_t count, void* context) {
  Transfer& transfer = *static_cast<Transfer*>(context);
  transfer.read += count;
  return transfer.read > kMostRead ? 0 : count;
}

size_t OnHeader(char* bytes, size_t, size_t count, void* context) {
  const absl::string_view line(bytes, count);
  constexpr absl::string_view kRetryAfter = "retry-after:";
  if (!absl::StartsWithIgnoreCase(line, kRetryAfter)) return count;
  const std::string value(absl::StripAsciiWhitespace(line.substr(kRetryAfter.size())));
  // It may be a date, too: then our own pause has to do.
  if (int64_t seconds = 0; ParseDigits(value, &seconds))
    static_cast<Transfer*>(context)->retry_after =
        std::chrono::seconds(std::min(seconds, kLongestRetryAfter));
  return count;
}

int OnProgress(void* context, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return *static_cast<Transfer*>(context)->stop ? 1 : 0;
}

long Milliseconds(Duration time) {
  return static_cast<long>(std::chrono::ceil<std::chrono::milliseconds>(time).count());
}

struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using Headers = std::unique_ptr<curl_slist, FreeList>;

// False: there is no memory.
bool Append(Headers& headers, const std::string& line) {
  curl_slist* const longer = curl_slist_append(headers.get(), line.c_str());
  if (longer == nullptr) return false;
  (void)headers.release();
  headers.reset(longer);
  return true;
}

}  // namespace

struct Poster::Handle {
  CURL* curl = nullptr;
};

Poster::Poster(std::string url, std::string ca_file, PostPatience patience,
               const std::atomic<bool>& stop)
    : url_(std::move(url)),
      ca_file_(std::move(ca_file)),
      patience_(patience),
      stop_(stop),
      handle_(std::make_unique<Handle>()) {
  Begin();
  handle_->curl = curl_easy_init();
}

Poster::~Poster() {
  if (handle_->curl != nullptr) curl_easy_cleanup(handle_->curl);
}

WebhookAnswer Poster::Post(const std::vector<std::string>& lines, const std::string& body) {
  CURL* const curl = handle_->curl;
  Headers headers;
  bool has_memory = curl != nullptr && Append(headers, "Content-Type: application/json") &&
                    Append(headers, "Expect:");
  for (const std::string& line : lines) has_memory = has_memory && Append(headers, line);
  if (!has_memory) return {.why = "there is no memory for a request"};
  Transfer transfer{.stop = &stop_};
  char error[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(curl, CURLOPT_URL, url_.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "https,http");  // the latter on loopback alone
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_PROXY, "");
  curl_easy_setopt(curl, CURLOPT_CA_CACHE_TIMEOUT, 0L);  // its file may be replaced
  curl_easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L);        // does not wait for a resolver that hangs
  if (!ca_file_.empty()) {
    curl_easy_setopt(curl, CURLOPT_CAINFO, ca_file_.c_str());
    curl_easy_setopt(curl, CURLOPT_CAPATH, nullptr);
  }
  curl_easy_setopt(curl, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "muster-coordinator");
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, Milliseconds(patience_.connect));
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, Milliseconds(patience_.whole));
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, OnBytes);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, OnHeader);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, OnProgress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.data());
  curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  const CURLcode code = curl_easy_perform(curl);
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_reset(curl);  // it knows of none of ours any more; its connections stay open
  // Whatever becomes of its body: a status is an answer.
  if (status >= 200)
    return {.status = static_cast<int>(status), .retry_after = transfer.retry_after};
  const std::string why = *error != '\0' ? error : curl_easy_strerror(code);
  return {.why = Cut(Printable(why), 256)};
}

}  // namespace muster::coordinator
