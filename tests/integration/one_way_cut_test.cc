// A host that hears everybody and that nobody hears, with a worker of each of two jobs: they do not
// stay half members for ever. The other faults of a network are in network_faults_test.
#include "gtest/gtest.h"
#include "tests/integration/host_cluster.h"
#include "tests/integration/host_network.h"

namespace muster::integration {
namespace {

TEST(OneWayCut, AHostThatNobodyHearsIsGoneOnWithoutAndComesBack) {
  HostNetwork network(3);
  network.LiftRules(2);  // says whether there can be rules
  if (!network.missing().empty()) GTEST_SKIP() << network.missing();
  HostCluster cluster(network, kThreeHosts);
  cluster.SubmitTwo(/*workers=*/3, /*samples=*/1009);
  cluster.AwaitSteps(20);
  network.CutOutbound(2);
  cluster.AwaitWorkers(2);
  cluster.AwaitSteps(20);
  network.LiftRules(2);
  cluster.AwaitWorkers(3);
  cluster.AwaitSteps(20);
  for (const auto& [id, job] : cluster.StopAndCheck())
    EXPECT_EQ(job.value("recoveries", 0), 1) << id << "\n" << cluster.Trace();
  cluster.ExpectThatAllEnd();
  EXPECT_EQ(network.missing(), "");
}

}  // namespace
}  // namespace muster::integration

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return muster::integration::RunAsProcessOne([] { return RUN_ALL_TESTS(); });
}
