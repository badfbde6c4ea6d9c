// The authority of a cluster is changed while a job runs on two hosts, and members are killed: who
// is started meets whom the one before has signed (docs/identity.md section 7). Some seconds pass,
// in which processes look at their folders.
#include <signal.h>
#include <stdlib.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"
#include "tests/integration/up_cluster.h"
#include "tests/support/program.h"
#include "tests/support/run_trust.h"
#include "tests/support/text_of.h"

namespace muster::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The states of its hosts, as `muster certs status` tells them.
std::vector<std::string> TrustOfHosts(const UpCluster& cluster) {
  std::vector<std::string> states;
  const nlohmann::json status = cluster.Ask({"certs", "status", "--json"});
  for (const nlohmann::json& host : status.value("hosts", nlohmann::json::array()))
    states.push_back(host.value("state", ""));
  return states;
}

TEST(AuthorityChangeTest, TheAuthorityIsChangedWhileAJobRunsAndNobodyHalts) {
  AdoptOrphans();
  const Folder folder;
  const std::string dir = folder / "cluster";
  const std::string spec = CountingSpec(1009, /*lanes=*/7, /*epochs=*/100'000);
  WriteFile(folder / "job.yaml", spec);
  UpCluster cluster(dir, {"--slots", "2", "--coordinator", "127.0.0.1:0"});
  const std::unique_ptr<Program> second = cluster.Join("second", {"--slots", "2"});
  ASSERT_EQ(
      cluster.Say({"submit", folder / "job.yaml", "--id", "job", "--set", "workers=3"}).exit_code,
      0);
  Program watch(cluster.Command({"watch", "job", "--json"}));
  const auto await = [&](const std::string& text) {
    return watch.WaitFor(text, watch.output().size());
  };
  ASSERT_TRUE(await("\"event\":\"step\"")) << watch.output();
  const std::string before = TextOf(dir + "/store/identity/current/authority.pem");
  const std::string copied = folder / "authority.pem";
  WriteFile(copied, before);
  const std::vector<std::string> all_renewed = {"renewed", "renewed"};
  const auto await_renewed = [&] {
    while (TrustOfHosts(cluster) != all_renewed)
      ASSERT_TRUE(await("\"event\":\"step\"")) << watch.output();
  };
  // Who is started from now on meets those who have not looked at their folders yet.
  const auto kill_one = [&] {
    const std::vector<pid_t> workers = cluster.WorkerPids();
    ASSERT_FALSE(workers.empty());
    kill(workers.front(), SIGKILL);
    ASSERT_TRUE(await(" joined\"")) << watch.output();
    ASSERT_TRUE(await("\"event\":\"step\"")) << watch.output();
  };
  await_renewed();
  const UpCluster::Said changed = cluster.Say({"certs", "change"});
  ASSERT_EQ(changed.exit_code, 0) << changed.text;
  kill_one();
  await_renewed();
  kill_one();
  // Whoever has a copy of the certificate before is not locked out by the change.
  setenv("MUSTER_TOKEN_FILE", AdminTokenFileOf(dir).c_str(), /*overwrite=*/1);
  Program old(MusterCommand({"list", "--to", cluster.url(), "--authority", copied}));
  unsetenv("MUSTER_TOKEN_FILE");
  EXPECT_EQ(old.End(), 0) << old.output();
  EXPECT_EQ(cluster.Say({"certs", "change"}).exit_code, 64) << "one at a time";
  const UpCluster::Said finished = cluster.Say({"certs", "finish"});
  ASSERT_EQ(finished.exit_code, 0) << finished.text;
  await_renewed();
  kill_one();
  const std::string after = TextOf(dir + "/store/identity/current/authority.pem");
  EXPECT_THAT(before, Not(HasSubstr(after)));
  EXPECT_EQ(cluster.Say({"stop", "job"}).exit_code, 0);
  watch.End();
  const nlohmann::json status = cluster.Ask({"status", "job", "--json"});
  EXPECT_EQ(status.value("recoveries", 0), 3) << status;
  EXPECT_EQ(status.value("rewinds", 0), 0) << status;
  const std::string steps = std::to_string(status.value("step", int64_t{0}));
  EXPECT_EQ(status.value("digest", ""),
            UndisturbedDigest(absl::StrReplaceAll(spec, {{"epochs: 100000", "steps: " + steps}}),
                              folder / "undisturbed"));
  const UpCluster::Said audit = cluster.Say({"audit", "job"});
  EXPECT_EQ(audit.exit_code, 0) << audit.text;
}

}  // namespace
}  // namespace muster::integration
