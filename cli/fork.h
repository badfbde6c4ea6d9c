// muster fork: the job that is asked for is made of another one's specification here, and the
// coordinator copies the state.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "cli/arguments.h"
#include "cli/rest_client.h"
#include "cli/screen.h"

namespace muster::cli {

// "JOB", "JOB@STEP", "JOB@NAME", "JOB@best" or "JOB@latest".
struct ForkPlace {
  std::string job;
  std::optional<int64_t> step{};
  std::string name{};  // with neither of them: the newest
  bool operator==(const ForkPlace&) const = default;
};
// kInvalidArgument: it is none of these.
absl::StatusOr<ForkPlace> ParseForkPlace(const std::string& text);

// The new job, once it is there. Whoever ends this earlier ends no fork: the same again waits for
// it, where it has an id.
absl::StatusOr<JobAnswer> Fork(const RemoteArguments& arguments, const RestClient& rest,
                               const Terminal& terminal);

}  // namespace muster::cli
