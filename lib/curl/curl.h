// What all users of libcurl have in common. Plain functions, which any thread may call, and values
// that one thread owns.
#pragma once

#include <curl/curl.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "lib/base/time.h"

namespace muster {

// Once a program, before any of its threads makes a handle.
void BeginCurl();

// Requests one after the other, over connections that stay open between them.
class CurlHandle {
 public:
  CurlHandle();
  ~CurlHandle();
  CurlHandle(const CurlHandle&) = delete;
  CurlHandle& operator=(const CurlHandle&) = delete;

  CURL* get() const { return curl_; }  // nullptr: there is no memory

 private:
  CURL* curl_ = nullptr;
};

long CurlMilliseconds(Duration time);  // rounded up

struct FreeCurlList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using CurlHeaders = std::unique_ptr<curl_slist, FreeCurlList>;
// False: there is no memory, and nothing is added.
bool Append(CurlHeaders& headers, const std::string& line);

// The seconds that a line of an answer's head asks to wait for, of more than these as many.
// Nothing: it is another line, or names a date.
inline constexpr int64_t kMostRetryAfter = 999'999'999;
std::optional<int64_t> RetryAfterIn(absl::string_view line);

struct CurlPatience {
  Duration connect;
  Duration whole;  // of one request
};
// The request on `curl` goes to a place that an operator has named (url.h), and to no other: no
// redirect is followed, and no proxy is asked. `ca`, in PEM, says whom to trust, empty: those whom
// the machine trusts; it outlives the request.
void SendTo(CURL* curl, const std::string& url, const std::string& ca,
            const CurlPatience& patience);

// The request on `curl` is broken off once `stop` is true, which is looked at about once a second.
void StopWith(CURL* curl, const std::atomic<bool>& stop);

// The request on `curl` has this body, which outlives it.
void SendBody(CURL* curl, const std::string& body);

struct CurlEnd {
  CURLcode code = CURLE_OK;
  int status = 0;  // of HTTP; 0: there was no answer
};
// Does the request that was made ready on `curl`, which knows of none of ours any more then.
CurlEnd Perform(CURL* curl);

}  // namespace muster
