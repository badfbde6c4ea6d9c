#include "lib/curl/url.h"

#include <curl/curl.h>

#include <algorithm>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/loopback.h"

namespace muster {
namespace {

constexpr size_t kLongestUrl = 2048;

struct FreeUrl {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
using Url = std::unique_ptr<CURLU, FreeUrl>;

// Empty: it has none.
std::string PartOf(const Url& url, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(url.get(), part, &text, 0) != CURLUE_OK) return "";
  std::string copy = text;
  curl_free(text);
  return copy;
}

// The letters, digits and signs that names of hosts have, or an IPv6 address in brackets.
bool IsNameOrAddress(absl::string_view host) {
  if (absl::StartsWith(host, "[")) return true;  // curl has read it
  return !absl::StartsWith(host, ".") && !absl::StartsWith(host, "-") &&
         !absl::StrContains(host, "..") && std::all_of(host.begin(), host.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' ||
                  c == '_';
         });
}

}  // namespace

std::string WhyNotSentTo(const std::string& text, absl::string_view example,
                         absl::string_view without_user) {
  if (text.size() > kLongestUrl) return absl::StrCat("is longer than ", kLongestUrl, " bytes");
  const Url url(curl_url());
  if (url == nullptr ||
      curl_url_set(url.get(), CURLUPART_URL, text.c_str(), CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK)
    return absl::StrCat("is no URL, as in ", example);
  if (!PartOf(url, CURLUPART_USER).empty() || !PartOf(url, CURLUPART_PASSWORD).empty())
    return absl::StrCat("holds a user or a password; ", without_user);
  if (!PartOf(url, CURLUPART_FRAGMENT).empty())
    return "holds a fragment (#...), which is not sent; leave it out";
  const std::string host = PartOf(url, CURLUPART_HOST);
  if (!IsNameOrAddress(host))
    return "names a host with characters that none has; a name in other letters is written as "
           "xn--...";
  const std::string scheme = PartOf(url, CURLUPART_SCHEME);
  if (scheme == "https") return "";
  if (scheme != "http") return absl::StrCat("has the scheme ", scheme, "; give an https URL");
  return IsLoopbackAddress(absl::StrCat(host, ":1"))
             ? ""
             : "is plain text, which is for loopback alone; give an https URL";
}

}  // namespace muster
