#include "cli/agent.h"

#include <memory>
#include <sstream>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cli/hand_cluster.h"

namespace muster::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class AgentTest : public ::testing::Test {
 protected:
  int Run() {
    return RunAgent({.coordinator = "127.0.0.1:7070", .host = "here", .slots = 2},
                    [this](const ClusterOptions& options, ClusterEvents events) {
                      given_ = options;
                      auto cluster =
                          std::make_unique<HandCluster>("", "/folder", std::move(events));
                      cluster->on_start = on_start_;
                      return absl::StatusOr<std::unique_ptr<Cluster>>(std::move(cluster));
                    },
                    {.out = out_, .err = out_});
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
      cluster.events.on_exit({.job = "j", .process = "worker-0", .text = "worker-0 has ended"});
      cluster.events.on_interrupt(15);
      EXPECT_EQ(cluster.leaves, 1);
      EXPECT_EQ(cluster.stops, 0) << "its members leave first";
      cluster.Stop();  // as the host does when they have
    });
  };
  EXPECT_EQ(Run(), 75);
  EXPECT_TRUE(given_.joins);
  EXPECT_EQ(given_.coordinator, "127.0.0.1:7070");
  EXPECT_THAT(out_.str(), HasSubstr("host here with 2 slots in /folder"));
  EXPECT_THAT(out_.str(), HasSubstr("no session with the coordinator at 127.0.0.1:7070: nobody "
                                    "listens; trying again"));
  EXPECT_THAT(out_.str(), HasSubstr("joined the cluster at 127.0.0.1:7070"));
  EXPECT_THAT(out_.str(), HasSubstr("job j: worker-0 has ended"));
  EXPECT_THAT(out_.str(), HasSubstr("leaving"));
}

TEST_F(AgentTest, MembersThatDoNotLeaveAreStopped) {
  on_start_ = [](HandCluster& cluster) {
    cluster.Post([&cluster] {
      cluster.events.on_coordinator(true);
      cluster.events.on_interrupt(15);
      EXPECT_EQ(cluster.stops, 0);
      cluster.later.back()();  // their time to leave is over
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
