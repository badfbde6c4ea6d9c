#include "lib/base/failpoint.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace muster {

absl::Status Failpoints::Arm(absl::string_view point_and_pass) {
  const std::vector<absl::string_view> parts = absl::StrSplit(point_and_pass, ':');
  const auto known = std::find(std::begin(kFailpointNames), std::end(kFailpointNames), parts[0]);
  if (known == std::end(kFailpointNames))
    return absl::InvalidArgumentError(
        absl::StrCat("--fail-at: '", parts[0],
                     "' is not known; allowed: ", absl::StrJoin(kFailpointNames, ", ")));
  auto armed = std::make_unique<Armed>();
  armed->point = std::string(parts[0]);
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[1], &armed->pass) || armed->pass < 1)
    return absl::InvalidArgumentError(
        absl::StrCat("--fail-at: '", point_and_pass, "': write POINT:N with N from 1"));
  armed_.push_back(std::move(armed));
  return absl::OkStatus();
}

void Failpoints::Pass(absl::string_view point) {
  for (const auto& armed : armed_)
    if (armed->point == point && armed->passed.fetch_add(1) + 1 == armed->pass) fire_(point);
}

void DieAt(absl::string_view point, int report_fd) {
  const std::string line = absl::StrCat("{\"event\":\"failpoint\",\"point\":\"", point, "\"}\n");
  if (report_fd >= 0 && write(report_fd, line.data(), line.size()) < 0) {
    // Nobody reads: the kill is what matters.
  }
  kill(getpid(), SIGKILL);
  std::abort();  // not reached: SIGKILL cannot be held off
}

}  // namespace muster
