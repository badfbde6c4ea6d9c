// What a network may do between three hosts, one fault after the other: the job goes on with the
// bits of an undisturbed run, nothing is run or added twice, and no member is started a second time
// where it still runs. Faults last until something has been seen, never for a time.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/host_cluster.h"
#include "tests/integration/host_network.h"

namespace muster::integration {
namespace {

constexpr int kSamples = 1009;       // a model of 4 KB
constexpr int kManySamples = 60013;  // of 240 KB, so that a chunk takes several packets

class NetworkFaults : public ::testing::Test {
 protected:
  explicit NetworkFaults(HostNetwork::Wire wire = HostNetwork::Wire::kPlain) : network_(3, wire) {}

  void SetUp() override {
    network_.LiftRules(0);  // says whether there can be rules
    if (!network_.missing().empty()) GTEST_SKIP() << network_.missing();
  }
  void TearDown() override { EXPECT_EQ(network_.missing(), ""); }

  // One member of the job on each host; so it is known who is cut off.
  void Begin(int samples = kSamples, const std::vector<std::string>& settings = {}) {
    Begin({1, 1, 1}, 3, samples, settings);
  }
  void Begin(const std::vector<int>& slots, int workers, int samples,
             const std::vector<std::string>& settings = {}) {
    cluster_ = std::make_unique<HostCluster>(network_, slots);
    cluster_->Submit(workers, samples, settings);
    cluster_->AwaitSteps(20);
  }
  // All are there, and training goes on with them.
  void End(int workers = 3) {
    cluster_->AwaitWorkers(workers);
    EndWithWhoIsThere();
  }
  void EndWithWhoIsThere() {
    cluster_->AwaitSteps(20);
    job_ = cluster_->StopAndCheck();
    cluster_->ExpectThatAllEnd();
  }
  // Nobody was lost, and nobody came a second time.
  void ExpectThatNobodyWasLost(int workers = 3) {
    EXPECT_EQ(job_.value("views", 0), 1) << cluster_->Trace();
    EXPECT_EQ(cluster_->Processes(), workers) << cluster_->Trace();
  }
  void AwaitPacketsTaken(int host, int64_t packets) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (network_.PacketsTaken(host) < packets)
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "the rules take no packets";
  }

  HostNetwork network_;
  std::unique_ptr<HostCluster> cluster_;
  nlohmann::json job_;
};

enum class Direction { kBoth, kIn, kOut };

class CutTest : public NetworkFaults, public ::testing::WithParamInterface<Direction> {
 protected:
  void CutHost(int host) {
    if (GetParam() != Direction::kOut) network_.CutInbound(host);
    if (GetParam() != Direction::kIn) network_.CutOutbound(host);
  }
};

TEST_P(CutTest, AHostThatIsCutOffForLessThanItsLeaseStaysAsItIs) {
  Begin(kSamples, {"lease=60"});
  CutHost(2);
  AwaitPacketsTaken(2, 5);
  network_.LiftRules(2);
  End();
  ExpectThatNobodyWasLost();
}

TEST_P(CutTest, AHostThatIsCutOffForLongerIsGoneOnWithoutAndComesBack) {
  Begin();
  CutHost(2);
  cluster_->AwaitWorkers(2);
  cluster_->AwaitSteps(50);
  network_.LiftRules(2);
  End();
  EXPECT_EQ(job_.value("recoveries", 0), 1) << cluster_->Trace();
}

INSTANTIATE_TEST_SUITE_P(Ways, CutTest,
                         ::testing::Values(Direction::kBoth, Direction::kIn, Direction::kOut),
                         [](const auto& test) {
                           return std::string(test.param == Direction::kBoth ? "Both"
                                              : test.param == Direction::kIn ? "OnlyIn"
                                                                             : "OnlyOut");
                         });

// Those who train are on the other hosts. The coordinator hears none of them any more, and waits
// for all of them, because they have the state.
TEST_F(NetworkFaults, StepsGoOnWithoutTheCoordinatorsHostAndAreRecordedAfterwards) {
  Begin({1, 2, 2}, 4, kSamples);
  network_.Cut(0);
  cluster_->AwaitEvent("that members are silent", [](const auto& event) {
    return absl::StrContains(event.value("text", ""), "is waited for");
  });
  const nlohmann::json before = cluster_->Status();
  for (const int host : {1, 2}) cluster_->AwaitLanes(host, 200);
  const nlohmann::json after = cluster_->Status();
  for (const char* field : {"step", "checkpoint_step"}) EXPECT_EQ(before[field], after[field]);
  network_.Heal(0);
  cluster_->AwaitSteps(100);
  End(4);
  ExpectThatNobodyWasLost(4);
}

class LossTest : public NetworkFaults, public ::testing::WithParamInterface<int> {};

TEST_P(LossTest, PacketsThatAreLostLoseNobody) {
  Begin(kSamples, {"lease=10"});
  for (const int host : {0, 1, 2}) network_.Lose(host, GetParam() / 100.0);
  cluster_->AwaitSteps(50);
  AwaitPacketsTaken(1, 1);
  End();
}

INSTANTIATE_TEST_SUITE_P(Percent, LossTest, ::testing::Values(1, 10),
                         ::testing::PrintToStringParamName());

// What comes too slowly still comes.
TEST_F(NetworkFaults, ANarrowLinkLosesNobody) {
  Begin(kManySamples);
  network_.Narrow(2, "8mbit");
  cluster_->AwaitSteps(10);
  network_.Widen(2);
  End();
  ExpectThatNobodyWasLost();
}

// Hosts are cut off one after the other and come back in another order.
TEST_F(NetworkFaults, HostsAreCutOffAndComeBackInAnyOrder) {
  constexpr unsigned kSeed = 11;
  std::mt19937 random(kSeed);
  Begin();
  for (int round = 0; round < 2; ++round) {
    std::vector<int> hosts = {1, 2};
    std::shuffle(hosts.begin(), hosts.end(), random);
    hosts.resize(1 + random() % 2);
    int workers = 3;
    for (const int host : hosts) {
      network_.Cut(host);
      cluster_->AwaitWorkers(--workers);
      cluster_->AwaitSteps(5);
    }
    std::shuffle(hosts.begin(), hosts.end(), random);
    for (const int host : hosts) {
      network_.Heal(host);
      cluster_->AwaitWorkers(++workers);
      cluster_->AwaitSteps(5);
    }
  }
  End();
}

TEST_F(NetworkFaults, ConnectionsThatAreResetInTheMiddleOfAChunkAddNothingTwice) {
  Begin(kManySamples);
  for (int round = 0; round < 3; ++round) {
    network_.ResetConnections(2);
    AwaitPacketsTaken(2, 20);
    network_.LiftRules(2);
    cluster_->AwaitWorkers(3);
    cluster_->AwaitSteps(5);
  }
  End();
}

// Nobody says goodbye for it: its cable was pulled first.
TEST_F(NetworkFaults, AHostThatDiesSilentlyIsGoneOnWithout) {
  Begin();
  network_.Unplug(2);
  cluster_->Agent(2).Signal(SIGKILL);
  cluster_->AwaitWorkers(2);
  cluster_->AwaitSteps(50);
  network_.PlugIn(2);
  cluster_->Join(2);
  End();
}

// Signs of life are short and get through, chunks are not and do not: the job stands still.
// Sessions with that host are cut and made again for as long as the hole is there.
TEST_F(NetworkFaults, AHoleForLongPacketsCutsSessionsAndIsGoneOnFrom) {
  Begin(kManySamples);
  network_.DropLongerThan(2, 1400);
  AwaitPacketsTaken(2, 5);
  cluster_->AwaitLog(2, "broke: UNAVAILABLE: session with ");
  network_.LiftRules(2);
  EndWithWhoIsThere();
}

// The coordinator hears both. One of them is left out, and there is no other host for it.
TEST_F(NetworkFaults, AVerdictNamesAPairThatIsCut) {
  Begin();
  const std::string one = cluster_->MemberOn(1), other = cluster_->MemberOn(2);
  network_.CutPair(1, 2);
  const nlohmann::json verdict = cluster_->AwaitEvent(
      "a verdict", [](const auto& event) { return event.value("event", "") == "verdict"; });
  const std::string text = verdict.is_object() ? verdict.value("text", "") : "";
  EXPECT_THAT(text, ::testing::AllOf(::testing::HasSubstr(one), ::testing::HasSubstr(other)));
  cluster_->AwaitSteps(20);
  for (const int host : {1, 2}) network_.LiftRules(host);
  End(2);
}

using std::chrono::milliseconds;

struct Forecast {
  std::string name;
  Weather weather;
  int64_t Fates::*must_happen;
};

class WeatherTest : public NetworkFaults, public ::testing::WithParamInterface<Forecast> {
 protected:
  WeatherTest() : NetworkFaults(HostNetwork::Wire::kRelay) {}
};

TEST_P(WeatherTest, LosesNobody) {
  Begin(kSamples);
  for (const int host : {0, 1, 2}) network_.Relay(host).SetWeather(GetParam().weather);
  cluster_->AwaitSteps(50);
  End();
  ExpectThatNobodyWasLost();
  for (const int host : {0, 1, 2})
    EXPECT_GT(network_.Relay(host).fates().*GetParam().must_happen, 0) << "host " << host;
}

INSTANTIATE_TEST_SUITE_P(
    Weathers, WeatherTest,
    ::testing::Values(
        Forecast{"Late", {.delay = milliseconds(1), .jitter = milliseconds(1)}, &Fates::admitted},
        Forecast{
            "VeryLate", {.delay = milliseconds(50), .jitter = milliseconds(20)}, &Fates::admitted},
        Forecast{"Overtaken", {.delay = milliseconds(2), .overtake = 0.05}, &Fates::overtook},
        Forecast{"Twice", {.delay = milliseconds(1), .duplicate = 0.05}, &Fates::duplicated},
        Forecast{"Corrupted", {.corrupt = 0.001}, &Fates::corrupted}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace muster::integration

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return muster::integration::RunAsProcessOne([] { return RUN_ALL_TESTS(); });
}
