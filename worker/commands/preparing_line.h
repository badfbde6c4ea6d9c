// How far what a task prepares is, for whoever waits at a terminal: one line that is written again
// and goes with its object. Nothing where standard error is no terminal.
#pragma once

#include <unistd.h>

#include <iostream>

#include "absl/strings/str_cat.h"
#include "lib/base/mutex.h"
#include "worker/plugins/prepare_task.h"

namespace muster::worker {

class PreparingLine {
 public:
  PreparingLine() = default;
  PreparingLine(const PreparingLine&) = delete;
  PreparingLine& operator=(const PreparingLine&) = delete;
  ~PreparingLine() {
    const MutexLock lock(mutex_);
    if (is_shown_) std::cerr << "\r\033[K" << std::flush;
  }

  // Which tells this line; it lives as long.
  Preparing TellsThis() {
    Preparing preparing;
    preparing.told = [this](const PreparedSoFar& so_far) { At(so_far); };
    return preparing;
  }

 private:
  void At(const PreparedSoFar& so_far) {
    if (isatty(STDERR_FILENO) == 0) return;
    const MutexLock lock(mutex_);
    is_shown_ = true;
    std::cerr << absl::StrCat("\r", TextOf(so_far), "\033[K") << std::flush;
  }

  Mutex mutex_;
  bool is_shown_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace muster::worker
