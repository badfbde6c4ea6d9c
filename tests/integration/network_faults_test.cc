// What a network may do between three hosts, one fault after the other, with two jobs on them, one
// of which has a server: each goes on with the bits of an undisturbed run, nothing is run or added
// twice, and nobody is started twice. Faults last until something has been seen, never for a time.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/clock.h"
#include "tests/integration/host_cluster.h"
#include "tests/integration/host_network.h"

namespace muster::integration {
namespace {

constexpr int kSamples = 1009;       // a model of 4 KB
constexpr int kManySamples = 60013;  // of 240 KB, so that a chunk takes several packets

// On three hosts, of which the first has the server, too.
const HostClusterOptions kTwoOnEach = {.slots = {5, 4, 4}, .devices = {2, 2, 2}};
// With the server on the second host, as the first one is to be lost.
const HostClusterOptions kServerOnSecond = {
    .slots = {4, 5, 4}, .devices = {2, 2, 2}, .coordinators = {0, 1}};
constexpr int kWorkers = 6;
constexpr int kWithoutOneHost = 4;

class NetworkFaults : public ::testing::Test {
 protected:
  explicit NetworkFaults(HostNetwork::Wire wire = HostNetwork::Wire::kPlain, int hosts = 3)
      : network_(hosts, wire) {}

  void SetUp() override {
    network_.LiftRules(0);  // says whether there can be rules
    if (!network_.missing().empty()) GTEST_SKIP() << network_.missing();
  }
  void TearDown() override { EXPECT_EQ(network_.missing(), ""); }

  // Two workers of each of the two jobs on each host, which share its faults; so it is known who is
  // cut off.
  void Begin(int samples = kSamples, const std::vector<std::string>& settings = {}) {
    Begin(kTwoOnEach, kWorkers, samples, settings);
  }
  void Begin(const HostClusterOptions& options, int workers = kWorkers, int samples = kSamples,
             const std::vector<std::string>& settings = {}) {
    Start(options);
    cluster_->SubmitTwo(workers, samples, settings);
    cluster_->AwaitSteps(20);
  }
  void Start(const HostClusterOptions& options) {
    cluster_ = std::make_unique<HostCluster>(network_, options);
  }
  // All are there, and training goes on with them.
  void End(int workers = kWorkers) {
    cluster_->AwaitWorkers(workers);
    EndWithWhoIsThere();
  }
  // While it waits for so many.
  double StepsPerSecond(int64_t steps) {
    const Time begin = RealClock().Now();
    cluster_->AwaitSteps(steps);
    return static_cast<double>(steps) / Seconds(RealClock().Now() - begin);
  }
  static void TellSpeed(int percent, double before, double under) {
    std::printf("%d %% of all packets lost: %.1f steps/s, before %.1f\n", percent, under, before);
  }
  void EndWithWhoIsThere() {
    cluster_->AwaitSteps(20);
    jobs_ = cluster_->StopAndCheck();
    cluster_->ExpectThatAllEnd();
  }
  // Nobody was lost, and nobody came a second time.
  void ExpectThatNobodyWasLost() {
    for (const auto& [id, job] : jobs_) ExpectThatNobodyWasLostOf(id);
  }
  void ExpectThatNobodyWasLostOf(const std::string& job) {
    EXPECT_EQ(jobs_[job].value("views", 0), 1) << job << "\n" << cluster_->Trace();
    EXPECT_EQ(cluster_->Starts(job), cluster_->Members(job)) << job << "\n" << cluster_->Trace();
  }
  void ExpectOneRecoveryOfEach() {
    for (const auto& [id, job] : jobs_)
      EXPECT_EQ(job.value("recoveries", 0), 1) << id << "\n" << cluster_->Trace();
  }
  void AwaitPacketsTaken(int host, int64_t packets) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (network_.PacketsTaken(host) < packets)
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "the rules take no packets";
  }

  HostNetwork network_;
  std::unique_ptr<HostCluster> cluster_;
  std::map<std::string, nlohmann::json> jobs_;
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
  cluster_->AwaitWorkers(kWithoutOneHost);
  cluster_->AwaitSteps(50);
  network_.LiftRules(2);
  End();
  ExpectOneRecoveryOfEach();
}

INSTANTIATE_TEST_SUITE_P(Ways, CutTest,
                         ::testing::Values(Direction::kBoth, Direction::kIn, Direction::kOut),
                         [](const auto& test) {
                           return std::string(test.param == Direction::kBoth ? "Both"
                                              : test.param == Direction::kIn ? "OnlyIn"
                                                                             : "OnlyOut");
                         });

// Those who train are on the other hosts. The coordinator hears none of them any more, and waits
// for all who have the state: the workers of one job, and of the other one the server, whose
// workers are lost for it meanwhile. Of those it waits for, all are back within half a lease of the
// first.
TEST_F(NetworkFaults, StepsGoOnWithoutTheCoordinatorsHostAndAreRecordedAfterwards) {
  Start({.slots = {1, 3, 2}, .devices = {0, 1, 1}});
  ASSERT_EQ(cluster_->Say({"drain", "a"}).exit_code, 0);
  cluster_->SubmitTwo(2, kSamples, {"lease=4"});
  cluster_->AwaitSteps(20);
  network_.Cut(0);
  for (const char* job : {kServed, kSummed})
    cluster_->AwaitEvent(
        "that members are silent",
        [](const auto& event) {
          return absl::StrContains(event.value("text", ""), "is waited for");
        },
        job);
  std::map<std::string, nlohmann::json> before;
  for (const char* job : {kServed, kSummed}) before[job] = cluster_->Status(job);
  for (const int host : {1, 2}) cluster_->AwaitLanes(host, 400);
  for (const char* job : {kServed, kSummed}) {
    const nlohmann::json after = cluster_->Status(job);
    for (const char* field : {"step", "checkpoint_step"})
      EXPECT_EQ(before[job][field], after[field]) << job;
  }
  network_.Heal(0);
  cluster_->AwaitSteps(100);
  End(2);
  ExpectThatNobodyWasLostOf(kSummed);
}

// Agents and members know both addresses. Who trained beside it has the state meanwhile, and the
// server is on another host.
TEST_F(NetworkFaults, ACoordinatorThatMovesToAnotherHostIsFound) {
  AdoptOrphans();
  Begin(kServerOnSecond);
  cluster_->MoveCoordinator(1);
  End();
}

// Somebody starts it again where it was before, on the copy that stayed there: it is turned away by
// the lock on the checkpoints, and by the claim on them where that lock is lost. Agents and members
// try its address, too, as long as it is up.
TEST_F(NetworkFaults, ASecondCoordinatorThatIsStartedByMistakeIsTurnedAway) {
  AdoptOrphans();
  Begin(kServerOnSecond);
  cluster_->MoveCoordinator(1);
  cluster_->AwaitWorkers(kWorkers);
  for (const char* why : {"is in use by another coordinator of the same cluster",
                          "does not know of it: it is an older copy"}) {
    const UpCluster::Said said = cluster_->StartWhatStayedBehind();
    EXPECT_NE(said.exit_code, 0) << said.text;
    EXPECT_THAT(said.text, ::testing::HasSubstr(why));
    cluster_->AwaitSteps(20);
    cluster_->LoseLocks();
  }
  End();
}

// A name is looked up again for each try: first it means nothing, then one machine, then another.
TEST_F(NetworkFaults, ACoordinatorIsFoundByItsNameThatComesLateAndThenMeansAnotherAddress) {
  AdoptOrphans();
  Begin({.slots = {4, 5, 4}, .devices = {2, 2, 2}, .by_name = true});
  cluster_->MoveCoordinator(1);
  End();
}

TEST_F(NetworkFaults, AHostThatComesBackUnderAnotherAddressTakesPartAgain) {
  Begin();
  network_.Readdress(2);
  cluster_->Agent(2).Signal(SIGKILL);
  cluster_->AwaitWorkers(kWithoutOneHost);
  cluster_->AwaitSteps(20);
  cluster_->Join(2);
  cluster_->AwaitWorkers(kWorkers);
  for (const char* job : {kServed, kSummed}) EXPECT_EQ(cluster_->WorkersOn(2, job).size(), 2u);
  End();
  ExpectOneRecoveryOfEach();
}

class FourHosts : public NetworkFaults {
 protected:
  FourHosts() : NetworkFaults(HostNetwork::Wire::kPlain, 4) {}
};

// The fourth host comes later and has room for whoever may be placed anew. Host b has lost its
// agent alone: its members go on, and nobody is started in their stead, however long it lasts. Host
// c has lost everybody: its members are placed anew, and end when it is back. As b is away for
// longer than c, it would have been lost before.
TEST_F(FourHosts, NobodyIsStartedTwiceThoughAgentsAreCutOffForLongAndThereIsRoom) {
  Begin({.slots = {5, 4, 4, 8}, .devices = {2, 2, 2, 4}, .hosts = 3});
  cluster_->Join(3);
  network_.CutConnections(1, cluster_->Agent(1).pid(), 7070);
  cluster_->AwaitHost(1, /*up=*/false);
  network_.Cut(2);
  for (const char* job : {kServed, kSummed})
    cluster_->AwaitEvent(
        "the loss of host c",
        [](const auto& event) {
          return absl::StrContains(event.value("text", ""),
                                   "host c is lost; its members are placed anew");
        },
        job);
  cluster_->AwaitWorkers(kWorkers);
  cluster_->AwaitSteps(20);
  cluster_->AwaitHost(1, /*up=*/false);  // still
  network_.Heal(2);
  network_.LiftRules(1);
  for (const int host : {1, 2}) cluster_->AwaitHost(host, /*up=*/true);
  End();
  ExpectOneRecoveryOfEach();
  EXPECT_EQ(cluster_->Starts(), cluster_->Members() + 4) << "two of each job are placed anew";
}

class LossTest : public NetworkFaults, public ::testing::WithParamInterface<int> {};

TEST_P(LossTest, PacketsThatAreLostLoseNobody) {
  Begin(kSamples, {"lease=10"});
  const double before = StepsPerSecond(50);
  for (const int host : {0, 1, 2}) network_.Lose(host, GetParam() / 100.0);
  TellSpeed(GetParam(), before, StepsPerSecond(50));
  AwaitPacketsTaken(1, 1);
  End();
  ExpectThatNobodyWasLost();
}

INSTANTIATE_TEST_SUITE_P(Percent, LossTest, ::testing::Values(1, 10),
                         ::testing::PrintToStringParamName());

// Where almost every third packet is lost, sessions break again and again, and a member may be left
// out for it. Steps are made all the same, and are the right ones.
TEST_F(NetworkFaults, AThirdOfAllPacketsLostStopsNoJob) {
  Begin(kSamples, {"lease=30"});
  const double before = StepsPerSecond(50);
  for (const int host : {0, 1, 2}) network_.Lose(host, 0.3);
  TellSpeed(30, before, StepsPerSecond(20));
  for (const int host : {0, 1, 2}) AwaitPacketsTaken(host, 20);
  for (const int host : {0, 1, 2}) network_.LiftRules(host);
  EndWithWhoIsThere();
}

// What comes too slowly still comes.
TEST_F(NetworkFaults, ANarrowLinkLosesNobody) {
  Begin(kManySamples);
  network_.Narrow(2, "8mbit");
  cluster_->AwaitSteps(10);
  network_.Widen(2);
  End();
  ExpectThatNobodyWasLost();
}

// Hosts are cut off one after the other and come back in another order. From that of the
// coordinator all others are cut off, too, so it goes on alone.
TEST_F(NetworkFaults, HostsAreCutOffAndComeBackInAnyOrder) {
  constexpr unsigned kSeed = 12;
  std::mt19937 random(kSeed);
  Begin();
  std::set<int> cut, drawn;
  const auto go_on = [&] {
    cluster_->AwaitWorkers(2 * (cut.contains(0) ? 1 : 3 - static_cast<int>(cut.size())));
    cluster_->AwaitSteps(5);
  };
  for (int round = 0; round < 3; ++round) {
    std::vector<int> hosts = {0, 1, 2};
    std::shuffle(hosts.begin(), hosts.end(), random);
    hosts.resize(1 + random() % 2);
    drawn.insert(hosts.begin(), hosts.end());
    for (const int host : hosts) {
      network_.Cut(host);
      cut.insert(host);
      go_on();
    }
    std::shuffle(hosts.begin(), hosts.end(), random);
    for (const int host : hosts) {
      network_.Heal(host);
      cut.erase(host);
      go_on();
    }
  }
  EXPECT_TRUE(drawn.contains(0)) << "choose another seed";
  End();
}

TEST_F(NetworkFaults, ConnectionsThatAreResetInTheMiddleOfAChunkAddNothingTwice) {
  Begin(kManySamples);
  for (int round = 0; round < 3; ++round) {
    network_.ResetConnections(2);
    AwaitPacketsTaken(2, 20);
    network_.LiftRules(2);
    cluster_->AwaitWorkers(kWorkers);
    cluster_->AwaitSteps(5);
  }
  End();
}

// A step of both jobs is less than a megabyte for any of them, so that the cut comes in the middle
// of one, at another byte each time.
TEST_F(NetworkFaults, ConnectionsThatAreResetAfterSoManyBytesAddNothingTwice) {
  Begin(kManySamples);
  network_.ResetConnectionsAfter(2, 3 << 20);
  AwaitPacketsTaken(2, 20);
  cluster_->AwaitSteps(20);
  network_.LiftRules(2);
  EndWithWhoIsThere();
}

// Nobody says goodbye for it: its cable was pulled first.
TEST_F(NetworkFaults, AHostThatDiesSilentlyIsGoneOnWithout) {
  Begin();
  network_.Unplug(2);
  cluster_->Agent(2).Signal(SIGKILL);
  cluster_->AwaitWorkers(kWithoutOneHost);
  cluster_->AwaitSteps(50);
  network_.PlugIn(2);
  cluster_->Join(2);
  End();
}

// The job that sums cannot go on with both; the other one needs its server alone.
TEST_F(NetworkFaults, OfHostsThatCannotReachEachOtherAJobGoesOnWithoutTheMembersOfOne) {
  Begin();
  network_.CutPair(1, 2);
  cluster_->AwaitEvent(
      "a verdict", [](const auto& event) { return event.value("event", "") == "verdict"; },
      kSummed);
  cluster_->AwaitWorkers(kWithoutOneHost, kSummed);
  cluster_->AwaitSteps(10);
  for (const int host : {1, 2}) network_.LiftRules(host);
  EndWithWhoIsThere();
  ExpectThatNobodyWasLostOf(kServed);
}

// Signs of life are short and get through, chunks are not and do not: the job stands still.
// Sessions with that host are cut and made again for as long as the hole is there.
TEST_F(NetworkFaults, AHoleForLongPacketsCutsSessionsAndIsGoneOnFrom) {
  Begin(kManySamples);
  network_.DropLongerThan(2, 1400);
  AwaitPacketsTaken(2, 5);
  // Either end of a session may see it first.
  cluster_->AwaitLog("long packets are lost on the way");
  network_.LiftRules(2);
  EndWithWhoIsThere();
}

class VerdictTest : public NetworkFaults {
 protected:
  // From the cut to the verdict. The coordinator hears both hosts. One worker of the job that sums
  // is left out, and there is no other host for it; those of the other one need only the server.
  double SecondsToTheVerdict() {
    constexpr double kNever = std::numeric_limits<double>::infinity();
    Begin(kThreeHosts, 3);
    const std::vector<std::string> one = cluster_->WorkersOn(1, kSummed);
    const std::vector<std::string> other = cluster_->WorkersOn(2, kSummed);
    EXPECT_EQ(one.size() + other.size(), 2u);
    const absl::Time cut = absl::Now();
    network_.CutPair(1, 2);
    const nlohmann::json verdict = cluster_->AwaitEvent(
        "a verdict", [](const auto& event) { return event.value("event", "") == "verdict"; },
        kSummed);
    if (!verdict.is_object() || HasFailure()) return kNever;
    EXPECT_THAT(verdict.value("text", ""), ::testing::AllOf(::testing::HasSubstr(one.front()),
                                                            ::testing::HasSubstr(other.front())));
    cluster_->AwaitSteps(20);
    for (const int host : {1, 2}) network_.LiftRules(host);
    cluster_->AwaitWorkers(2, kSummed);
    cluster_->AwaitWorkers(3, kServed);
    EndWithWhoIsThere();
    ExpectThatNobodyWasLostOf(kServed);
    absl::Time came;
    const bool is_time =
        absl::ParseTime(absl::RFC3339_full, verdict.value("time", ""), &came, nullptr);
    return is_time ? absl::ToDoubleSeconds(came - cut) : kNever;
  }
};

// The one test that looks at a clock, because five seconds are what is promised to people. In one
// of three rounds others may have the processors for a while.
TEST_F(VerdictTest, NamesAPairThatIsCutWithinFiveSeconds) {
  constexpr double kMost = 5;
  std::vector<double> rounds;
  for (int round = 0; round < 3 && !HasFailure(); ++round) {
    cluster_.reset();  // before the next one has its addresses
    rounds.push_back(SecondsToTheVerdict());
    std::cout << "the verdict came " << rounds.back() << " s after the cut\n";
  }
  EXPECT_GE(std::count_if(rounds.begin(), rounds.end(), [&](double s) { return s <= kMost; }), 2);
}

using std::chrono::milliseconds;

// Each way between two hosts goes through the weather of both.
struct Forecast {
  std::string name;
  Weather weather;
  int64_t Fates::*must_happen;
  int steps = 50;
  std::vector<std::string> settings{};
};

class WeatherTest : public NetworkFaults, public ::testing::WithParamInterface<Forecast> {
 protected:
  WeatherTest() : NetworkFaults(HostNetwork::Wire::kRelay) {}
};

TEST_P(WeatherTest, LosesNobody) {
  Begin(kSamples, GetParam().settings);
  for (const int host : {0, 1, 2}) network_.Relay(host).SetWeather(GetParam().weather);
  cluster_->AwaitSteps(GetParam().steps);
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
        // When it begins, TCP takes what is late for lost, and life signs queue behind that.
        Forecast{"HalfASecondLate",
                 {.delay = milliseconds(250), .jitter = milliseconds(50)},
                 &Fates::admitted,
                 /*steps=*/5,
                 {"lease=5"}},
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
