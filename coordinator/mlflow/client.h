// Asks an MLflow tracking server, over HTTPS, or plain HTTP on loopback.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/mlflow/settings.h"
#include "lib/base/time.h"

namespace muster {
class CurlHandle;
}  // namespace muster

namespace muster::coordinator {

struct MlflowPatience {
  Duration connect = std::chrono::seconds(5);
  Duration whole = std::chrono::seconds(15);  // of one request
};
// More of an answer is not read.
inline constexpr size_t kMostMlflowAnswer = size_t{1} << 20;

// One thread. A request ends within its patience, and about a second after `stop` is true, which
// outlives this.
class MlflowClient {
 public:
  MlflowClient(MlflowSettings settings, MlflowPatience patience, const std::atomic<bool>& stop);
  ~MlflowClient();
  MlflowClient(const MlflowClient&) = delete;
  MlflowClient& operator=(const MlflowClient&) = delete;

  // What it answers; redirects are not followed, as they would be told who we are. `body` empty: a
  // GET. Errors: kNotFound (RESOURCE_DOES_NOT_EXIST), kAlreadyExists (RESOURCE_ALREADY_EXISTS),
  // kInvalidArgument (others of 400), kPermissionDenied (401, 403), kDataLoss (the answer is too
  // long), kUnavailable, kDeadlineExceeded: it is not known whether the server has done it.
  // Messages name no secret.
  absl::StatusOr<std::string> Ask(const std::string& path, const std::string& body);

 private:
  const MlflowSettings settings_;
  const MlflowPatience patience_;
  const std::atomic<bool>& stop_;
  const std::unique_ptr<CurlHandle> handle_;
};

}  // namespace muster::coordinator
