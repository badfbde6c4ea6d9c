#include "lib/identity/clocks.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace muster {

absl::Status CheckClocks(absl::Time ours, absl::Time theirs, absl::string_view whose) {
  if (absl::AbsDuration(ours - theirs) <= kClocksMayDiffer) return absl::OkStatus();
  const auto text = [](absl::Time time) {
    return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", time, absl::UTCTimeZone());
  };
  return absl::FailedPreconditionError(absl::StrCat(
      "by the clock here it is ", text(ours), ", by that of ", whose, " ", text(theirs),
      ": certificates need clocks that are at most five minutes apart; set the wrong one"));
}

}  // namespace muster
