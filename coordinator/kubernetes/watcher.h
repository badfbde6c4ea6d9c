// Keeps up with the objects of one kind in a Kubernetes cluster: lists them, then follows what
// changes, and begins anew where it has lost the thread. A thread of its own. Source: Kubernetes'
// "API Concepts", "Efficient detection of changes".
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/kubernetes/api.h"
#include "lib/base/stop_signal.h"

namespace muster::coordinator {

// Called on the watcher's thread. Objects are JSON.
struct WatcherEvents {
  std::function<void(std::vector<std::string> objects)> on_list;  // there are these and no others
  std::function<void(const std::string& object)> on_put;
  std::function<void(const std::string& object)> on_gone;
  // It knows no more how it is, and why; OK: it does again.
  std::function<void(const absl::Status&)> on_trouble;
};

class Watcher {
 public:
  // `collection`: its path; `selector`: a query ("labelSelector=…"). `wait`: waits so long between
  // two tries, unless it is to end, which it answers; null: by the clock.
  Watcher(const KubeServer& server, std::string collection, std::string selector,
          WatcherEvents events, std::function<bool(Duration)> wait = nullptr);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

 private:
  void Run();
  absl::Status Follow();
  absl::StatusOr<std::string> List();
  absl::StatusOr<std::string> Watch(const std::string& version);
  absl::Status Refusal(const KubeAnswer& answer);

  const std::string collection_;
  const std::string selector_;
  const WatcherEvents events_;
  const std::function<bool(Duration)> wait_;
  Backoff backoff_;
  std::optional<Duration> retry_after_;  // of what was refused last
  std::atomic<bool> stopping_{false};
  StopSignal stop_;
  KubeApi api_;
  std::thread thread_;
};

// An answer that is no success, as an error: kNotFound 404, kUnauthenticated 401, kPermissionDenied
// 403, kAborted 409 and 410, kInvalidArgument 400 and 422, kUnavailable any other.
absl::Status StatusOfAnswer(const KubeAnswer& answer);

}  // namespace muster::coordinator
