// What a command is at, such as how far what a task prepares is, for whoever waits at a terminal:
// one line that is written again and goes with its object. Nothing where standard error is no
// terminal. Any thread.
#pragma once

#include <unistd.h>

#include <iostream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/mutex.h"
#include "lib/base/printable.h"
#include "worker/plugins/prepare_task.h"

namespace muster::worker {

// For people, of what went wrong and was mended. Any thread.
inline void WarnOnStandardError(const std::string& text) {
  std::cerr << absl::StrCat("muster: ", Printable(text), "\n") << std::flush;
}

class PreparingLine {
 public:
  PreparingLine() = default;
  PreparingLine(const PreparingLine&) = delete;
  PreparingLine& operator=(const PreparingLine&) = delete;
  ~PreparingLine() { Clear(); }

  // Which tells this line; it lives as long.
  Preparing TellsThis() {
    Preparing preparing;
    preparing.told = [this](const PreparedSoFar& so_far) { Shows(TextOf(so_far)); };
    preparing.warns = WarnOnStandardError;
    return preparing;
  }

  void Shows(const std::string& text) {
    if (isatty(STDERR_FILENO) == 0) return;
    const MutexLock lock(mutex_);
    is_shown_ = true;
    std::cerr << absl::StrCat("\r", Printable(text), "\033[K") << std::flush;
  }

  void Clear() {
    const MutexLock lock(mutex_);
    if (std::exchange(is_shown_, false)) std::cerr << "\r\033[K" << std::flush;
  }

 private:
  Mutex mutex_;
  bool is_shown_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace muster::worker
