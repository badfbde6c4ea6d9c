// Warnings whose cause a stranger can repeat at will: some of them a minute, and with the next one
// how many were left out. Thread-safe. Lives as long as whoever warns.
#pragma once

#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "lib/base/allowance.h"
#include "lib/base/clock.h"
#include "lib/base/mutex.h"

namespace muster {

class LimitedLog {
 public:
  LimitedLog() = default;
  explicit LimitedLog(const Clock& clock) : clock_(clock) {}  // which outlives it

  template <class... Args>
  void Warn(const absl::FormatSpec<Args...>& format, const Args&... args) {
    WarnOf(absl::StrFormat(format, args...));
  }

 private:
  void WarnOf(absl::string_view text);

  static inline const RealClock kRealClock{};
  const Clock& clock_ = kRealClock;
  Mutex mutex_;
  Allowance allowance_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster
