#include "lib/base/descriptors.h"

#include <sys/resource.h>

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/base/status.h"

namespace muster {
namespace {

constexpr rlim_t kMostDescriptors = 65'536;

}  // namespace

absl::StatusOr<DescriptorBudget> SplitDescriptors(int limit) {
  if (limit < kFewestDescriptors)
    return absl::FailedPreconditionError(
        absl::StrCat("this process may open ", limit, " files, and needs at least ",
                     kFewestDescriptors, "; raise the limit with `ulimit -n`"));
  DescriptorBudget budget;
  budget.reserved = std::clamp(limit / 4, 48, 1024);
  const int rest = limit - budget.reserved;
  budget.http = std::clamp(rest / 4, 8, kMostHttpConnections);
  budget.sessions = std::min(rest - budget.http, kMostSessions);
  return budget;
}

absl::StatusOr<DescriptorBudget> SplitDescriptorsOfMember(int limit) {
  MUSTER_ASSIGN_OR_RETURN(DescriptorBudget budget, SplitDescriptors(limit));
  const int connected = budget.sessions / 2;
  budget.sessions -= connected;
  budget.reserved += connected;
  return budget;
}

int RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kFewestDescriptors;
  const rlim_t wanted = std::min(limit.rlim_max, kMostDescriptors);
  if (limit.rlim_cur < wanted) {
    const rlimit raised{wanted, limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit.rlim_cur = wanted;
  }
  return static_cast<int>(std::min(limit.rlim_cur, kMostDescriptors));
}

}  // namespace muster
