// One answer for all who ask the same thing while it is being made.
#pragma once

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/runtime/once.h"
#include "coordinator/service/control_api.h"
#include "lib/base/mutex.h"

namespace muster::coordinator {

// All methods thread-safe. Destroyed without an answer, it tells all that the coordinator ends.
template <class T>
class SharedAnswer {
 public:
  // False: the answer was given already; `reply` gets none.
  bool Join(JobApi::Reply<T> reply) {
    MutexLock lock(mutex_);
    if (given_) return false;
    replies_.push_back(Once(std::move(reply)));
    return true;
  }

  void Give(const absl::StatusOr<T>& answer) {
    std::vector<JobApi::Reply<T>> replies;
    {
      MutexLock lock(mutex_);
      given_ = true;
      replies.swap(replies_);
    }
    for (const JobApi::Reply<T>& reply : replies) reply(answer);
  }

 private:
  Mutex mutex_;
  bool given_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<JobApi::Reply<T>> replies_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster::coordinator
