// What a process that leaves says of it in its log.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include "lib/base/exit_codes.h"
#include "lib/log/log.h"
#include "lib/member/runtime/exchange.h"

namespace muster {
namespace {

using testing::EndsWith;

std::string LoggedOf(const Quit& quit) {
  const std::string file = testing::TempDir() + "leaving-" + std::to_string(getpid()) + ".log";
  std::ofstream(file, std::ios::trunc);
  EXPECT_TRUE(StartLog({.program = "muster-worker", .member = "worker-1", .file = file}).ok());
  LogLeaving(quit);
  EXPECT_TRUE(StartLog({.program = "muster"}).ok());
  std::stringstream logged;
  logged << std::ifstream(file).rdbuf();
  return logged.str();
}

// Its agent takes the first error for the cause, which becomes the job's reason.
TEST(LogLeaving, WhatEndsTheJobOrIsAFailureIsAnError) {
  for (const int code :
       {kExitFailed, kExitBadConfiguration, kExitBadData, kExitNoPlugin, kExitOtherEnvironment})
    EXPECT_THAT(LoggedOf({code, "its data differs"}),
                EndsWith(" error muster-worker worker-1 its data differs\n"));
}

TEST(LogLeaving, WhoeverWasToldToGoHasNotFailed) {
  for (const int code :
       {kExitDone, kExitNotFinite, kExitStopped, kExitReplaced, kExitLater, kExitTerminated})
    EXPECT_THAT(LoggedOf({code, "job j is done"}),
                EndsWith(" info muster-worker worker-1 leaving: job j is done\n"));
}

TEST(EndAfter, AHostWithoutThePluginIsTheFaultOfNeitherJobNorData) {
  const Quit lacks = EndAfter({LackOfPlugin("task: 'mlp' is unknown")});
  EXPECT_EQ(lacks.exit_code, kExitNoPlugin);
  EXPECT_EQ(lacks.reason, "task: 'mlp' is unknown");
  EXPECT_EQ(EndAfter({absl::FailedPreconditionError("seed: is no number")}).exit_code,
            kExitBadConfiguration);
  EXPECT_EQ(EndAfter({absl::DataLossError("rows.csv: ends amid a row")}).exit_code, kExitBadData);
}

}  // namespace
}  // namespace muster
