#include "cli/agent.h"

#include <signal.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cli/hand_cluster.h"

namespace muster::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

AgentArguments HostNamedHere(int slots = 1) {
  AgentArguments arguments;
  arguments.coordinator = "127.0.0.1:7070";
  arguments.host = "here";
  arguments.slots = slots;
  return arguments;
}

class AgentTest : public ::testing::Test {
 protected:
  int Run() {
    return RunAgent(HostNamedHere(2),
                    [this](const ClusterOptions& options, ClusterEvents events) {
                      given_ = options;
                      auto cluster =
                          std::make_unique<HandCluster>("", "/folder", std::move(events));
                      cluster->on_start = on_start_;
                      cluster->has_devices = {"0", "7"};
                      return absl::StatusOr<std::unique_ptr<Cluster>>(std::move(cluster));
                    },
                    {.out = out_, .err = out_});
  }

  // Calls `then` once the host was told where the coordinator is now.
  static void AwaitMove(HandCluster& cluster, const std::function<void()>& then) {
    if (!cluster.went_to.empty()) return then();
    std::this_thread::yield();
    cluster.Post([&cluster, then] { AwaitMove(cluster, then); });
  }

  std::function<void(HandCluster&)> on_start_;
  ClusterOptions given_;
  std::ostringstream out_;
};

TEST_F(AgentTest, SaysThatItHasJoinedAndEndsWhenItIsToldTo) {
  on_start_ = [](HandCluster& cluster) {
    cluster.Post([&cluster] {
      cluster.events.on_no_coordinator("nobody listens");
      cluster.events.on_no_coordinator("nobody listens");
      cluster.events.on_coordinator(true);
      cluster.events.on_start({.job = "j", .process = "worker-0", .pid = 7, .placement = 12});
      cluster.events.on_exit({.job = "j", .process = "worker-0", .text = "worker-0 has ended"});
      cluster.events.on_start({.job = "j",
                               .process = "worker-0",
                               .pid = 8,
                               .placement = 12,
                               .incarnation = "0123456789abcdef"});
      cluster.events.on_interrupt(15);
      EXPECT_EQ(cluster.leaves, 1);
      EXPECT_EQ(cluster.stops, 0) << "its members leave first";
      cluster.Stop();  // as the host does when they have
    });
  };
  EXPECT_EQ(Run(), 75);
  EXPECT_TRUE(given_.joins);
  EXPECT_EQ(given_.coordinator, "127.0.0.1:7070");
  EXPECT_THAT(out_.str(), HasSubstr("host here with 2 slots and 2 devices (0 and 7) in /folder"));
  EXPECT_THAT(out_.str(), HasSubstr("no session with the coordinator at 127.0.0.1:7070: nobody "
                                    "listens; trying again"));
  EXPECT_THAT(out_.str(), HasSubstr("joined the cluster at 127.0.0.1:7070"));
  EXPECT_THAT(out_.str(),
              HasSubstr("job j: worker-0 starts as placement 12\n"
                        "job j: worker-0 has ended\n"
                        "job j: worker-0 starts as placement 12, incarnation 0123456789abcdef\n"));
  EXPECT_THAT(out_.str(), HasSubstr("leaving"));
}

TEST_F(AgentTest, MembersThatDoNotLeaveAreStopped) {
  on_start_ = [](HandCluster& cluster) {
    cluster.Post([&cluster] {
      cluster.events.on_coordinator(true);
      cluster.events.on_interrupt(15);
      EXPECT_EQ(cluster.stops, 0);
      ASSERT_EQ(cluster.later.size(), 2U) << "a step takes its time: nobody stops them sooner";
      cluster.later.back()();  // their time to leave is over
      EXPECT_EQ(cluster.stops, 1);
    });
  };
  EXPECT_EQ(Run(), 75);
}

// Nobody is there who would tell them when to go.
TEST_F(AgentTest, WithoutACoordinatorMembersHaveLittleTimeToLeave) {
  on_start_ = [](HandCluster& cluster) {
    cluster.Post([&cluster] {
      cluster.events.on_coordinator(true);
      cluster.events.on_interrupt(15);
      cluster.events.on_no_coordinator("connection refused");
      cluster.events.on_coordinator(true);
      cluster.later.back()();
      EXPECT_EQ(cluster.stops, 0) << "it was back in between";
      cluster.events.on_no_coordinator("connection refused");
      cluster.later.back()();
      EXPECT_EQ(cluster.stops, 1);
    });
  };
  EXPECT_EQ(Run(), 75);
}

TEST_F(AgentTest, TheSecondTimeItDoesNotWaitForThemToLeave) {
  on_start_ = [](HandCluster& cluster) {
    cluster.Post([&cluster] {
      cluster.events.on_interrupt(2);
      cluster.events.on_interrupt(2);
      EXPECT_EQ(cluster.leaves, 1);
      EXPECT_EQ(cluster.stops, 1);
    });
  };
  EXPECT_EQ(Run(), 75);
}

// It waits anew from when it has lost the coordinator.
TEST_F(AgentTest, EndsWithoutACoordinatorForTenMinutes) {
  on_start_ = [](HandCluster& cluster) {
    cluster.Post([&cluster] {
      cluster.events.on_coordinator(true);
      cluster.later.at(0)();  // ten minutes after its start
      EXPECT_EQ(cluster.stops, 0) << "it has joined";
      cluster.events.on_no_coordinator("connection refused");
      cluster.events.on_coordinator(true);
      cluster.events.on_no_coordinator("connection refused");
      cluster.later.at(1)();
      EXPECT_EQ(cluster.stops, 0) << "it was back in between";
      cluster.later.at(2)();
      EXPECT_EQ(cluster.stops, 1);
    });
  };
  EXPECT_EQ(Run(), 75);
  EXPECT_THAT(out_.str(), HasSubstr("no session with a coordinator for ten minutes"));
}

// One more host of a run goes where the coordinator goes, and ends as the run does.
TEST_F(AgentTest, AHostOfARunEndsWithItsExitCode) {
  std::string folder = ::testing::TempDir() + "/muster-host-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const auto write = [&](const char* coordinator, std::optional<int> exit_code) {
    ASSERT_TRUE(WriteMeeting(folder, {.coordinator = coordinator, .exit_code = exit_code}).ok());
  };
  const MeetingReader reader(folder, "");
  write("127.0.0.1:7070", std::nullopt);
  HandCluster* cluster = nullptr;
  std::vector<std::string> went_to;
  const ClusterMaker make = [&](const ClusterOptions&, ClusterEvents events) {
    auto made = std::make_unique<HandCluster>("", folder, std::move(events));
    cluster = made.get();
    made->on_start = [&](HandCluster& started) {
      started.Post([&] {
        write("127.0.0.1:7071", std::nullopt);
        started.Post([&] { AwaitMove(started, [&] { write("127.0.0.1:7071", 66); }); });
      });
    };
    made->on_stop = [&] { went_to = cluster->went_to; };
    return absl::StatusOr<std::unique_ptr<Cluster>>(std::move(made));
  };
  EXPECT_EQ(RunHost(HostNamedHere(), reader, /*json=*/false, make, {.out = out_, .err = out_}), 66);
  EXPECT_THAT(went_to, ElementsAre("127.0.0.1:7071"));
  EXPECT_THAT(out_.str(), HasSubstr("the run is over, with exit code 66"));
}

// It comes to all hosts: the first one stops the job, which needs all its members for that.
TEST_F(AgentTest, AHostOfARunGoesOnAfterAWarningUntilTheRunIsOver) {
  std::string folder = ::testing::TempDir() + "/muster-host-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const MeetingReader reader(folder, "");
  const ClusterMaker make = [&](const ClusterOptions&, ClusterEvents events) {
    auto made = std::make_unique<HandCluster>("", folder, std::move(events));
    made->on_start = [&](HandCluster& started) {
      started.Post([&] {
        started.events.on_coordinator(true);
        const size_t timers = started.later.size();
        started.events.on_interrupt(SIGUSR1);
        EXPECT_EQ(started.leaves, 0) << "its members would be lost to the last checkpoint";
        EXPECT_EQ(started.stops, 0);
        EXPECT_EQ(started.later.size(), timers) << "it is stopped after a while all the same";
        ASSERT_TRUE(WriteMeeting(folder, {.coordinator = "127.0.0.1:7070", .exit_code = 75}).ok());
      });
    };
    return absl::StatusOr<std::unique_ptr<Cluster>>(std::move(made));
  };
  EXPECT_EQ(RunHost(HostNamedHere(), reader, /*json=*/false, make, {.out = out_, .err = out_}), 75);
  EXPECT_THAT(out_.str(), HasSubstr("time will be up"));
  EXPECT_THAT(out_.str(), HasSubstr("the run is over, with exit code 75"));
}

TEST_F(AgentTest, ASecondWarningStopsAHostOfARun) {
  const MeetingReader reader(::testing::TempDir() + "/muster-nowhere", "");
  const ClusterMaker make = [&](const ClusterOptions&, ClusterEvents events) {
    auto made = std::make_unique<HandCluster>("", "/folder", std::move(events));
    made->on_start = [](HandCluster& started) {
      started.Post([&started] {
        started.events.on_coordinator(true);
        started.events.on_interrupt(SIGUSR2);
        EXPECT_EQ(started.stops, 0);
        started.events.on_interrupt(SIGTERM);
        EXPECT_EQ(started.stops, 1);
        EXPECT_EQ(started.leaves, 0);
      });
    };
    return absl::StatusOr<std::unique_ptr<Cluster>>(std::move(made));
  };
  EXPECT_EQ(RunHost(HostNamedHere(), reader, /*json=*/false, make, {.out = out_, .err = out_}), 75);
}

TEST_F(AgentTest, WhatKeepsItFromStartingIsAnError) {
  std::ostringstream err;
  const int code = RunAgent(
      {.coordinator = "127.0.0.1:7070"},
      [](const ClusterOptions&, ClusterEvents) -> absl::StatusOr<std::unique_ptr<Cluster>> {
        return absl::InvalidArgumentError("the name of this host, '../x', must be other");
      },
      {.out = out_, .err = err});
  EXPECT_EQ(code, 64);
  EXPECT_EQ(err.str(), "muster: the name of this host, '../x', must be other\n");
  EXPECT_THAT(out_.str(), Not(HasSubstr("joined")));
}

}  // namespace
}  // namespace muster::cli
