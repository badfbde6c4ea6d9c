// One answer for all who ask the same thing while it is being made.
#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/runtime/once.h"
#include "lib/transport/job_api.h"

namespace muster::coordinator {

// All methods thread-safe. Destroyed without an answer, it tells all that the coordinator ends.
template <class T>
class SharedAnswer {
 public:
  // False: the answer was given already; `reply` gets none.
  bool Join(JobApi::Reply<T> reply) {
    std::lock_guard lock(mutex_);
    if (given_) return false;
    replies_.push_back(Once(std::move(reply)));
    return true;
  }

  void Give(const absl::StatusOr<T>& answer) {
    std::vector<JobApi::Reply<T>> replies;
    {
      std::lock_guard lock(mutex_);
      given_ = true;
      replies.swap(replies_);
    }
    for (const JobApi::Reply<T>& reply : replies) reply(answer);
  }

 private:
  std::mutex mutex_;
  bool given_ = false;                     // guarded by mutex_
  std::vector<JobApi::Reply<T>> replies_;  // guarded by mutex_
};

}  // namespace muster::coordinator
