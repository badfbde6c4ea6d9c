// How a process of ours ends, as its exit code: one table for all programs and for those that start
// them (docs/operations.md explains it to people). The codes of sysexits.h where there is one.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;  // whatever has no code of its own
inline constexpr int kExitBadConfiguration = 64;
inline constexpr int kExitBadData = 65;
inline constexpr int kExitNotFinite = 66;  // the job stopped at a step that was not finite
inline constexpr int kExitStopped = 67;    // a person stopped or cancelled the job
inline constexpr int kExitReplaced = 69;   // another process has taken this member's place
inline constexpr int kExitNoPlugin = 72;   // this host lacks the plug-in that the job's task needs
inline constexpr int kExitLater = 75;      // a signal ended it, or it cannot work for now: go on
inline constexpr int kExitOtherEnvironment = 78;  // data, library, machine or version do not fit
inline constexpr int kExitTerminated = 143;       // told to go: 128 + SIGTERM

// No other process of that job would do better on that host, and where no other host would, the
// job fails: with this code, or for want of the plug-in with 64.
constexpr bool EndsItsJob(int code) {
  return code == kExitBadConfiguration || code == kExitBadData || code == kExitNoPlugin ||
         code == kExitOtherEnvironment;
}

// Of a process that ends because of `status`.
int ExitCodeOf(const absl::Status& status);

// Of one that ends because of what a task says: kFailedPrecondition is the specification's fault,
// kInvalidArgument and kDataLoss the data's (muster/task.h).
int ExitCodeOfTask(const absl::Status& status);

// kFailedPrecondition, by which a member's process ends with kExitNoPlugin: this host lacks what
// the task needs of a plug-in, and another may have it. Prefix keeps that.
absl::Status LackOfPlugin(absl::string_view message);
bool IsLackOfPlugin(const absl::Status& status);

}  // namespace muster
