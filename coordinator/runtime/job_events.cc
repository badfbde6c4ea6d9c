#include "coordinator/runtime/job_events.h"

#include <utility>

#include "absl/strings/str_split.h"
#include "lib/base/digits.h"

namespace muster {

std::optional<EventPlace> ParseEventPlace(absl::string_view id) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(id, absl::MaxSplits('-', 1));
  int64_t term = 0;
  int64_t seq = 0;
  if (!ParseDigits(parts.first, &term) || !ParseDigits(parts.second, &seq)) return std::nullopt;
  return EventPlace{TermNumber(term), seq};
}

}  // namespace muster
