// How it stands with what makes pods for jobs (coordinator/kubernetes): the launcher writes it, and
// whoever asks for hosts reads it. Thread-safe. Lives as long as either.
#pragma once

#include <string>
#include <utility>

#include "lib/base/mutex.h"

namespace muster::coordinator {

class LauncherNote {
 public:
  explicit LauncherNote(std::string name_space) : name_space_(std::move(name_space)) {}

  const std::string& name_space() const { return name_space_; }  // of Kubernetes
  // For people: what keeps it from making pods for any job; empty: nothing.
  void SetTrouble(std::string trouble) {
    const MutexLock lock(mutex_);
    trouble_ = std::move(trouble);
  }
  std::string trouble() const {
    const MutexLock lock(mutex_);
    return trouble_;
  }

 private:
  const std::string name_space_;
  mutable Mutex mutex_;
  std::string trouble_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster::coordinator
