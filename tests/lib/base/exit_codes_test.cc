#include "lib/base/exit_codes.h"

#include <sysexits.h>

#include "gtest/gtest.h"
#include "lib/base/status.h"

namespace muster {
namespace {

TEST(ExitCodes, EveryStatusHasOne) {
  using Code = absl::StatusCode;
  const struct {
    Code status;
    int exit;
  } kTable[] = {
      {Code::kOk, 0},
      {Code::kCancelled, 1},
      {Code::kUnknown, 1},
      {Code::kInvalidArgument, 64},
      {Code::kDeadlineExceeded, 1},
      {Code::kNotFound, 1},
      {Code::kAlreadyExists, 64},
      {Code::kPermissionDenied, 64},
      {Code::kResourceExhausted, 1},
      {Code::kFailedPrecondition, 64},
      {Code::kAborted, 1},
      {Code::kOutOfRange, 1},
      {Code::kUnimplemented, 1},
      {Code::kInternal, 1},
      {Code::kUnavailable, 1},
      {Code::kDataLoss, 65},
      {Code::kUnauthenticated, 1},
  };
  for (const auto& row : kTable)
    EXPECT_EQ(ExitCodeOf(absl::Status(row.status, "why")), row.exit) << row.status;
}

TEST(ExitCodes, AreThoseOfSysexits) {
  EXPECT_EQ(kExitDone, EX_OK);
  EXPECT_EQ(kExitBadConfiguration, EX_USAGE);
  EXPECT_EQ(kExitBadData, EX_DATAERR);
  EXPECT_EQ(kExitNoPlugin, EX_OSFILE);
  EXPECT_EQ(kExitLater, EX_TEMPFAIL);
  EXPECT_EQ(kExitOtherEnvironment, EX_CONFIG);
}

TEST(ExitCodes, FourAreHopeless) {
  for (const int code : {kExitBadConfiguration, kExitBadData, kExitNoPlugin, kExitOtherEnvironment})
    EXPECT_TRUE(EndsItsJob(code)) << code;
  for (const int code :
       {kExitDone, kExitFailed, kExitStopped, kExitReplaced, kExitLater, kExitTerminated, 2, 127})
    EXPECT_FALSE(EndsItsJob(code)) << code;
}

// Whoever has no job, as `muster check`, is told that its words are wrong.
TEST(ExitCodes, ALackOfAPluginIsAMarkedStatus) {
  const absl::Status lack = Prefix("validation", LackOfPlugin("task: 'mlp' is unknown"));
  EXPECT_TRUE(IsLackOfPlugin(lack));
  EXPECT_EQ(lack.message(), "validation: task: 'mlp' is unknown");
  EXPECT_EQ(ExitCodeOfTask(lack), kExitBadConfiguration);
  EXPECT_FALSE(IsLackOfPlugin(absl::FailedPreconditionError("parameters.hidden: is no number")));
  EXPECT_FALSE(IsLackOfPlugin(absl::OkStatus()));
}

}  // namespace
}  // namespace muster
