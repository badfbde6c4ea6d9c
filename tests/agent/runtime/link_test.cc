#include "agent/runtime/link.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/transport/loop/loop_network.h"
#include "lib/wire/message_codec.h"
#include "tests/agent/runtime/stand_in.h"

namespace muster::agent {
namespace {

using ::testing::ElementsAre;

// The other end of the session; it answers as a coordinator does.
class LinkTest : public ::testing::Test {
 protected:
  void Listen(const std::string& address = "coordinator:1") {
    listener_ =
        coordinator_
            ->Listen(address,
                     [this](std::shared_ptr<Session> session) {
                       session_ = session;
                       return SessionHandler{.on_frame = [this](Frame frame) { OnFrame(frame); },
                                             .on_broken = [](absl::Status) {}};
                     })
            .value();
  }
  void OnFrame(const Frame& frame) {
    const FromAgent message = DecodeFromAgent(frame.header).value();
    if (const auto* hello = std::get_if<AgentHello>(&message)) {
      EXPECT_EQ(hello->slots, 3);
      heard_.push_back("hello from " + hello->node);
      if (on_hello_) on_hello_();
      if (answers_)
        session_->Send({.header = Encode(ToAgent(Wanted{
                            .jobs = {{.job = "j", .processes = {{"worker-0", Role::kWorker}}}},
                            .cluster = cluster_,
                            .term = term_}))});
    } else {
      const auto& exited = std::get<ProcessExited>(message);
      heard_.push_back(exited.name + " " + exited.cause);
      loop_->Post([this] { loop_->Quit(); });
    }
  }
  void MakeLink(const std::string& addresses = "coordinator:1") {
    link_.emplace(
        *loop_, *agent_, addresses,
        AgentHello{.agent = {"node-a", {1, 1}}, .node = "node-a", .slots = 3},
        LinkEvents{.on_up = [this] { events_.push_back("up"); },
                   .on_wanted =
                       [this](const Wanted& wanted) {
                         events_.push_back("wanted " + wanted.jobs.at(0).processes.at(0).name);
                         if (on_wanted_) on_wanted_();
                       },
                   .on_down = [this](const absl::Status&) { events_.push_back("down"); }});
    link_->Start();
  }

  std::unique_ptr<EventLoop> loop_ = EventLoop::Make().value();
  LoopNetwork network_;
  std::unique_ptr<Transport> coordinator_ = network_.MakeTransport("coordinator");
  std::unique_ptr<Transport> agent_ = network_.MakeTransport("agent");
  bool answers_ = true;
  std::string cluster_ = "ours";
  TermNumber term_{2};
  std::shared_ptr<Session> session_;
  std::vector<std::string> heard_;   // by the coordinator
  std::vector<std::string> events_;  // of the link
  std::function<void()> on_wanted_;
  std::function<void()> on_hello_;  // before it is answered
  std::unique_ptr<Listener> listener_;
  std::optional<CoordinatorLink> link_;
};

TEST_F(LinkTest, GoesToAnotherAddress) {
  Listen("coordinator:2");
  on_wanted_ = [&] { loop_->Quit(); };
  MakeLink();
  link_->GoTo("coordinator:2");
  RunUntilQuit(*loop_);
  link_.reset();
  EXPECT_THAT(events_, ElementsAre("up", "wanted worker-0"));
}

TEST_F(LinkTest, GoesRoundItsAddressesAndFollowsACoordinatorThatMoved) {
  Listen("coordinator:2");
  int times = 0;
  on_wanted_ = [&] {
    if (++times == 2) return loop_->Quit();
    loop_->Post([this] {
      listener_.reset();
      Listen("coordinator:1");
    });
  };
  MakeLink("coordinator:1,coordinator:2");
  RunUntilQuit(*loop_);
  link_.reset();
  EXPECT_THAT(events_, ElementsAre("up", "wanted worker-0", "down", "up", "wanted worker-0"));
}

TEST_F(LinkTest, OneThatWasReplacedOrIsOfAnotherClusterIsNotObeyed) {
  Listen();
  int hellos = 0;
  on_hello_ = [&] {
    ++hellos;
    term_ = TermNumber(hellos == 2 ? 1 : 3);
    cluster_ = hellos == 3 ? "theirs" : "ours";
  };
  int times = 0;
  on_wanted_ = [&] {
    if (++times == 2) return loop_->Quit();
    network_.Break("agent", "coordinator");
  };
  MakeLink();
  RunUntilQuit(*loop_);
  link_.reset();
  EXPECT_EQ(hellos, 4);
  EXPECT_THAT(events_, ElementsAre("up", "wanted worker-0", "down", "up", "wanted worker-0"));
}

TEST_F(LinkTest, SaysHelloHearsWhatIsWantedTellsExits) {
  Listen();
  on_wanted_ = [&] {
    link_->SendExit({.job = "j", .name = "worker-0", .signal = 9, .cause = "killed by SIGKILL"});
  };
  MakeLink();
  RunUntilQuit(*loop_);
  link_.reset();
  EXPECT_THAT(events_, ElementsAre("up", "wanted worker-0"));
  EXPECT_THAT(heard_, ElementsAre("hello from node-a", "worker-0 killed by SIGKILL"));
}

TEST_F(LinkTest, ComesBackAfterABreakAndWhenNobodyListensYet) {
  MakeLink();  // nobody listens: it tries again
  loop_->At(std::chrono::steady_clock::now() + std::chrono::milliseconds(60), [this] { Listen(); });
  int times = 0;
  on_wanted_ = [&] {
    if (++times == 1)
      network_.Break("agent", "coordinator");
    else
      loop_->Quit();
  };
  RunUntilQuit(*loop_);
  link_.reset();
  EXPECT_THAT(events_, ElementsAre("up", "wanted worker-0", "down", "up", "wanted worker-0"));
}

TEST_F(LinkTest, NothingIsToldBeforeTheCoordinatorAnswers) {
  answers_ = false;
  Listen();
  MakeLink();
  link_->SendExit({.job = "j", .name = "stale"});
  EXPECT_FALSE(link_->up());
  link_.reset();
  listener_.reset();
  for (const std::string& text : heard_) EXPECT_EQ(text, "hello from node-a");
}

}  // namespace
}  // namespace muster::agent
