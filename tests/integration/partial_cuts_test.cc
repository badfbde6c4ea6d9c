// Cuts that not everybody sees: a host that hears everybody and that nobody hears, and two hosts
// that cannot reach each other though the coordinator hears both. The other faults of a network are
// in network_faults_test.
#include "gtest/gtest.h"
#include "tests/integration/host_cluster.h"
#include "tests/integration/host_network.h"

namespace muster::integration {
namespace {

class PartialCuts : public ::testing::Test {
 protected:
  void SetUp() override {
    network_.LiftRules(2);  // says whether there can be rules
    if (!network_.missing().empty()) GTEST_SKIP() << network_.missing();
  }
  void TearDown() override { EXPECT_EQ(network_.missing(), ""); }

  HostNetwork network_{3};
};

TEST_F(PartialCuts, AHostThatNobodyHearsIsGoneOnWithoutAndComesBack) {
  HostCluster cluster(network_, kThreeHosts);
  cluster.SubmitTwo(/*workers=*/3, /*samples=*/1009);
  cluster.AwaitSteps(20);
  network_.CutOutbound(2);
  cluster.AwaitWorkers(2);
  cluster.AwaitSteps(20);
  network_.LiftRules(2);
  cluster.AwaitWorkers(3);
  cluster.AwaitSteps(20);
  for (const auto& [id, job] : cluster.StopAndCheck())
    EXPECT_EQ(job.value("recoveries", 0), 1) << id << "\n" << cluster.Trace();
  cluster.ExpectThatAllEnd();
}

// How soon the verdict comes is looked at in network_faults_test.
TEST_F(PartialCuts, OfHostsThatCannotReachEachOtherTheJobGoesOnWithoutTheWorkersOfOne) {
  HostCluster cluster(network_, {.slots = {2, 2, 2}});
  cluster.Submit({.id = kSummed, .workers = 6, .servers = 0, .samples = 1009, .settings = {}});
  cluster.AwaitSteps(20);
  network_.CutPair(1, 2);
  cluster.AwaitEvent("a verdict",
                     [](const auto& event) { return event.value("event", "") == "verdict"; });
  cluster.AwaitWorkers(4);
  cluster.AwaitSteps(20);
  for (const int host : {1, 2}) network_.LiftRules(host);  // they are kept apart all the same
  cluster.StopAndCheck();
  cluster.ExpectThatAllEnd();
}

}  // namespace
}  // namespace muster::integration

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return muster::integration::RunAsProcessOne([] { return RUN_ALL_TESTS(); });
}
