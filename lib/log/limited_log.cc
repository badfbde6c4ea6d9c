#include "lib/log/limited_log.h"

#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "lib/log/log.h"

namespace muster {

void LimitedLog::WarnOf(absl::string_view text) {
  const Time now = clock_.Now();
  std::optional<int64_t> left_out;
  {
    const MutexLock lock(mutex_);
    left_out = allowance_.Take(now);
  }
  if (!left_out) return;
  LogWarning("%s%s", *left_out == 0 ? "" : absl::StrCat("(", *left_out, " more like this before) "),
             text);
}

}  // namespace muster
