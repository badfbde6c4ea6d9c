#include "agent/runtime/member_command.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

namespace muster::agent {
namespace {

std::string CommandOf(Role role, const std::string& name, MemberSurroundings around) {
  const Spawn spawn{
      .key = {"job", name}, .start = StartNumber(7), .role = role, .placement = PlacementNumber(9)};
  return absl::StrJoin(MemberCommand(spawn, around), " ");
}

const MemberSurroundings kAround{.programs = "/bin",
                                 .coordinator = "c:1",
                                 .node = "n",
                                 .listen = "a:0",
                                 .metrics = "m:2",
                                 .job_folder = "/jobs/job"};

// It is a worker's program that is told to follow. Without that word it would train.
TEST(MemberCommand, TellsEachWhatItIs) {
  const std::string common =
      " --coordinator c:1 --job job --start 7 --placement 9 --name NAME --node n --listen a:0 "
      "--metrics m:2";
  const auto named = [&common](const std::string& name) {
    std::string text = common;
    return text.replace(text.find("NAME"), 4, name);
  };
  EXPECT_EQ(CommandOf(Role::kWorker, "worker-0", kAround),
            "/bin/muster-worker" + named("worker-0") + " --dir /jobs/job");
  EXPECT_EQ(CommandOf(Role::kServer, "server-1", kAround),
            "/bin/muster-server" + named("server-1"));
  EXPECT_EQ(CommandOf(Role::kFollower, "follower-0", kAround),
            "/bin/muster-worker" + named("follower-0") + " --follow --dir /jobs/job");
  EXPECT_EQ(CommandOf(Role::kReader, "reader-0", kAround),
            "/bin/muster-server" + named("reader-0") + " --read");
}

TEST(MemberCommand, AFollowerHasIdentityClusterAndPluginsAsAWorkerHas) {
  MemberSurroundings around = kAround;
  around.identity = "/ids/x";
  around.cluster = "c1";
  around.plugins = {"/p", "/q"};
  std::string worker = CommandOf(Role::kWorker, "follower-0", around);
  const std::string follower = CommandOf(Role::kFollower, "follower-0", around);
  EXPECT_EQ(worker.insert(worker.find(" --dir"), " --follow"), follower);
  EXPECT_NE(follower.find("--identity /ids/x --cluster c1 --follow"), std::string::npos);
  EXPECT_NE(follower.find("--plugins /p --plugins /q"), std::string::npos);
  EXPECT_EQ(CommandOf(Role::kServer, "server-0", around).find("--plugins"), std::string::npos);
}

}  // namespace
}  // namespace muster::agent
