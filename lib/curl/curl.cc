#include "lib/curl/curl.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "lib/base/digits.h"

namespace muster {
namespace {

int OnProgress(void* stop, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return *static_cast<const std::atomic<bool>*>(stop) ? 1 : 0;
}

}  // namespace

void BeginCurl() {
  static const bool begun = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  (void)begun;
}

CurlHandle::CurlHandle() {
  BeginCurl();
  curl_ = curl_easy_init();
}

CurlHandle::~CurlHandle() {
  if (curl_ != nullptr) curl_easy_cleanup(curl_);
}

long CurlMilliseconds(Duration time) {
  return static_cast<long>(std::chrono::ceil<std::chrono::milliseconds>(time).count());
}

bool Append(CurlHeaders& headers, const std::string& line) {
  curl_slist* const longer = curl_slist_append(headers.get(), line.c_str());
  if (longer == nullptr) return false;
  (void)headers.release();
  headers.reset(longer);
  return true;
}

std::optional<int64_t> RetryAfterIn(absl::string_view line) {
  constexpr absl::string_view kName = "retry-after:";
  if (!absl::StartsWithIgnoreCase(line, kName)) return std::nullopt;
  const absl::string_view value = absl::StripAsciiWhitespace(line.substr(kName.size()));
  if (value.empty() || !std::all_of(value.begin(), value.end(), absl::ascii_isdigit))
    return std::nullopt;
  int64_t seconds = 0;
  return ParseDigits(value, &seconds) ? std::min(seconds, kMostRetryAfter) : kMostRetryAfter;
}

void SendTo(CURL* curl, const std::string& url, const std::string& ca,
            const CurlPatience& patience) {
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "https,http");  // the latter on loopback alone
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_PROXY, "");
  curl_easy_setopt(curl, CURLOPT_CA_CACHE_TIMEOUT, 0L);  // the machine's may be replaced
  curl_easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L);        // does not wait for a resolver that hangs
  curl_blob trusted{
      .data = const_cast<char*>(ca.data()), .len = ca.size(), .flags = CURL_BLOB_NOCOPY};
  if (!ca.empty()) {
    curl_easy_setopt(curl, CURLOPT_CAINFO, nullptr);
    curl_easy_setopt(curl, CURLOPT_CAINFO_BLOB, &trusted);
    curl_easy_setopt(curl, CURLOPT_CAPATH, nullptr);
  }
  curl_easy_setopt(curl, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "muster-coordinator");
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, CurlMilliseconds(patience.connect));
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, CurlMilliseconds(patience.whole));
}

void StopWith(CURL* curl, const std::atomic<bool>& stop) {
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, OnProgress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &stop);
}

void SendBody(CURL* curl, const std::string& body) {
  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.data());
  curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
}

CurlEnd Perform(CURL* curl) {
  CurlEnd end{.code = curl_easy_perform(curl)};
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  end.status = static_cast<int>(status);
  curl_easy_reset(curl);
  return end;
}

}  // namespace muster
