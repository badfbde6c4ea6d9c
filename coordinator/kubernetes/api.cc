#include "coordinator/kubernetes/api.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
#include "lib/curl/curl.h"

namespace muster::coordinator {
namespace {

constexpr char kAccount[] = "/var/run/secrets/kubernetes.io/serviceaccount";
constexpr Duration kPatience = std::chrono::seconds(30);
constexpr Duration kConnectPatience = std::chrono::seconds(10);
constexpr int64_t kLongestRetryAfter = 300;  // seconds
// Of TCP, so that a watch whose other end went without a word is noticed in half a minute, which
// the kernel's nine probes make of it.
constexpr long kProbeAfterSeconds = 10;
constexpr long kProbeEverySeconds = 2;

// What is under way of one request.
struct Transfer {
  CURL* curl = nullptr;
  const std::atomic<bool>* stop = nullptr;
  KubeAnswer answer;
  std::function<bool(absl::string_view)> on_line;  // null: all is kept
  std::string line;                                // what has come of it
  bool is_over = false;                            // nobody wants more
  bool is_too_long = false;
};

// A watch that is refused says so in a body like any other.
bool IsStreamed(const Transfer& transfer) {
  long status = 0;
  curl_easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &status);
  return transfer.on_line != nullptr && status == 200;
}

size_t OnBytes(char* bytes, size_t, size_t count, void* context) {
  Transfer& transfer = *static_cast<Transfer*>(context);
  absl::string_view rest(bytes, count);
  if (!IsStreamed(transfer)) {
    transfer.is_too_long = transfer.answer.body.size() + count > kLongestKubeAnswer;
    if (transfer.is_too_long) return 0;
    transfer.answer.body.append(rest.data(), rest.size());
    return count;
  }
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    const absl::string_view piece = rest.substr(0, end);
    transfer.line.append(piece.data(), piece.size());
    transfer.is_too_long = transfer.line.size() > kLongestKubeLine;
    if (transfer.is_too_long) return 0;
    if (end == absl::string_view::npos) break;
    rest.remove_prefix(end + 1);
    if (!transfer.line.empty() && !transfer.on_line(std::exchange(transfer.line, {}))) {
      transfer.is_over = true;
      return 0;
    }
  }
  return count;
}

size_t OnHeader(char* bytes, size_t, size_t count, void* context) {
  if (const auto seconds = RetryAfterIn({bytes, count}); seconds && *seconds > 0)
    static_cast<Transfer*>(context)->answer.retry_after =
        std::chrono::seconds(std::min(*seconds, kLongestRetryAfter));
  return count;
}

// Zero: without end.
struct Times {
  Duration whole{};
  Duration silence{};
};

}  // namespace

absl::StatusOr<std::string> ReadMountedFile(const std::string& path) {
  absl::StatusOr<std::string> text = ReadGivenFile(path);
  if (!text.ok()) return absl::UnavailableError(text.status().message());
  if (text->empty()) return absl::UnavailableError(absl::StrCat(path, " is empty"));
  return text;
}

absl::StatusOr<std::string> NamespaceOfThisPod() {
  MUSTER_ASSIGN_OR_RETURN(const std::string text,
                          ReadMountedFile(absl::StrCat(kAccount, "/namespace")));
  return std::string(absl::StripAsciiWhitespace(text));
}

absl::StatusOr<KubeServer> ServerOfThisPod() {
  const char* const host = std::getenv("KUBERNETES_SERVICE_HOST");
  const char* const port = std::getenv("KUBERNETES_SERVICE_PORT");
  if (host == nullptr || port == nullptr)
    return absl::FailedPreconditionError(
        "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set, as the kubelet sets them "
        "for each pod: run it in a pod");
  const std::string name = host;
  const std::string written = absl::StrContains(name, ':') ? absl::StrCat("[", name, "]") : name;
  KubeServer server{.url = absl::StrCat("https://", written, ":", port),
                    .token_file = absl::StrCat(kAccount, "/token"),
                    .authority_file = absl::StrCat(kAccount, "/ca.crt")};
  if (const auto token = ReadMountedFile(server.token_file); !token.ok())
    return absl::FailedPreconditionError(absl::StrCat(
        "the token of the pod's service account cannot be read (", token.status().message(),
        "): its automountServiceAccountToken is to be true"));
  return server;
}

KubeApi::KubeApi(KubeServer server, const std::atomic<bool>& stop)
    : server_(std::move(server)), stop_(stop), handle_(std::make_unique<CurlHandle>()) {}

KubeApi::~KubeApi() = default;

namespace {

absl::StatusOr<KubeAnswer> Perform(const KubeServer& server, const std::string& method,
                                   const std::string& path, const std::string& body,
                                   const std::string& type, const Times& times, Transfer transfer) {
  CURL* const curl = transfer.curl;
  if (curl == nullptr) return absl::UnavailableError("there is no memory for a request");
  MUSTER_ASSIGN_OR_RETURN(const std::string token, ReadMountedFile(server.token_file));
  MUSTER_ASSIGN_OR_RETURN(std::string authority, ReadMountedFile(server.authority_file));
  const std::string url = server.url + path;
  CurlHeaders headers;
  // Where there is no memory for one, the server refuses what lacks it.
  Append(headers, absl::StrCat("Authorization: Bearer ", absl::StripAsciiWhitespace(token)));
  Append(headers, "Accept: application/json");
  if (!type.empty()) Append(headers, absl::StrCat("Content-Type: ", type));
  Append(headers, "Expect:");
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "https");
  curl_easy_setopt(curl, CURLOPT_PROXY, "");  // the API of the own cluster is behind none
  curl_blob trusted{.data = authority.data(), .len = authority.size(), .flags = CURL_BLOB_NOCOPY};
  curl_easy_setopt(curl, CURLOPT_CAINFO_BLOB, &trusted);
  curl_easy_setopt(curl, CURLOPT_CAPATH, nullptr);  // and nobody whom the machine trusts besides
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method.c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "muster-coordinator");
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, CurlMilliseconds(kConnectPatience));
  curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(curl, CURLOPT_TCP_KEEPIDLE, kProbeAfterSeconds);
  curl_easy_setopt(curl, CURLOPT_TCP_KEEPINTVL, kProbeEverySeconds);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, CurlMilliseconds(times.whole));
  if (times.silence > Duration::zero()) {
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, CurlMilliseconds(times.silence) / 1000);
  }
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, OnBytes);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, OnHeader);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  StopWith(curl, *transfer.stop);
  if (!body.empty()) SendBody(curl, body);
  const auto [code, status] = muster::Perform(curl);
  transfer.answer.status = status;
  if (code == CURLE_OK || transfer.is_over) return std::move(transfer.answer);
  if (transfer.is_too_long)
    return absl::ResourceExhaustedError(
        absl::StrCat("the answer of the Kubernetes API to ", path, " is too long"));
  if (*transfer.stop) return absl::CancelledError("this coordinator ends");
  return absl::UnavailableError(absl::StrCat("the Kubernetes API at ", server.url,
                                             " does not answer: ", curl_easy_strerror(code)));
}

}  // namespace

absl::StatusOr<KubeAnswer> KubeApi::Ask(const std::string& method, const std::string& path,
                                        const std::string& body, const std::string& type) {
  return Perform(server_, method, path, body, type, {.whole = kPatience},
                 {.curl = handle_->get(), .stop = &stop_});
}

absl::StatusOr<KubeAnswer> KubeApi::Stream(const std::string& path, Duration silence,
                                           const std::function<bool(absl::string_view)>& on_line) {
  return Perform(server_, "GET", path, "", "", {.silence = silence},
                 {.curl = handle_->get(), .stop = &stop_, .on_line = on_line});
}

}  // namespace muster::coordinator
