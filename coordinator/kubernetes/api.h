// Asks the API of the Kubernetes cluster that this process is in, over HTTPS, with the token of its
// service account. Which request means what is not known here. Source: Kubernetes' "API Concepts"
// (lists, watches, bookmarks) and "Accessing the Kubernetes API from a Pod".
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/base/backoff.h"
#include "lib/base/time.h"

namespace muster {
class CurlHandle;
}  // namespace muster

namespace muster::coordinator {

struct KubeServer {
  std::string url;             // "https://10.96.0.1:443"
  std::string token_file;      // read for each request: the kubelet replaces it
  std::string authority_file;  // whom to trust there, in PEM
};
// As the kubelet tells it to a pod. kFailedPrecondition: this is no pod with a service account.
absl::StatusOr<KubeServer> ServerOfThisPod();

absl::StatusOr<std::string> NamespaceOfThisPod();
// A file that the kubelet keeps: a link into a folder that it swaps, readable for all in the pod.
absl::StatusOr<std::string> ReadMountedFile(const std::string& path);

struct KubeAnswer {
  int status = 0;  // of HTTP
  std::string body;
  std::optional<Duration> retry_after;  // five minutes at most
};

// How long not to ask again: at least what the API asked for, and our own pause besides, since
// others were told the same.
inline Duration PauseFor(Backoff& backoff, const std::optional<Duration>& retry_after) {
  return retry_after.value_or(Duration()) + backoff.Next();
}

inline constexpr size_t kLongestKubeAnswer = size_t{64} << 20;
inline constexpr size_t kLongestKubeLine = size_t{4} << 20;

// One thread at a time; as many threads have one each. A request ends within its patience, and soon
// after `stop` is true.
class KubeApi {
 public:
  KubeApi(KubeServer server, const std::atomic<bool>& stop);
  ~KubeApi();
  KubeApi(const KubeApi&) = delete;
  KubeApi& operator=(const KubeApi&) = delete;

  // `path`: with its query. `type`: of the body. kUnavailable: nobody answered, and why; an answer
  // of the server is one, whatever its status is.
  absl::StatusOr<KubeAnswer> Ask(const std::string& method, const std::string& path,
                                 const std::string& body = "", const std::string& type = "");
  // Hands over line by line what comes, until the server ends it, `on_line` says false, nothing has
  // come for `silence`, or it is stopped. What it answers otherwise than with 200 is the answer.
  absl::StatusOr<KubeAnswer> Stream(const std::string& path, Duration silence,
                                    const std::function<bool(absl::string_view)>& on_line);

 private:
  const KubeServer server_;
  const std::atomic<bool>& stop_;
  const std::unique_ptr<CurlHandle> handle_;
};

}  // namespace muster::coordinator
