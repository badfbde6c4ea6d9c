#include "agent/runtime/link.h"

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/speaks.h"
#include "lib/transport/loop/loop_network.h"
#include "lib/wire/message_codec.h"
#include "tests/agent/runtime/stand_in.h"

namespace muster::agent {
namespace {

using ::testing::ElementsAre;

// The other end of the session; it answers as a coordinator does.
class LinkTest : public ::testing::Test {
 protected:
  void Listen(const std::string& address = "10.0.0.1:1") {
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
      EXPECT_GT(hello->now_unix_ms, 0);
      heard_.push_back("hello from " + hello->node);
      if (!hello->devices.empty()) HearDevices(hello->devices);
      if (on_hello_) on_hello_();
      if (answers_)
        session_->Send({.header = Encode(ToAgent(Wanted{
                            .jobs = {{.job = "j", .processes = {{"worker-0", Role::kWorker}}}},
                            .cluster = cluster_,
                            .term = term_,
                            .speaks = speaks_}))});
    } else if (const auto* held = std::get_if<DevicesHeld>(&message)) {
      HearDevices(held->devices);
      loop_->Post([this] { loop_->Quit(); });
    } else {
      const auto& exited = std::get<ProcessExited>(message);
      heard_.push_back(exited.name + " " + exited.cause);
      loop_->Post([this] { loop_->Quit(); });
    }
  }
  void HearDevices(const std::vector<HostDevice>& devices) {
    for (const HostDevice& device : devices)
      heard_.push_back("device " + device.id + " held by " + std::to_string(device.holder.value()));
  }
  void MakeLink(const std::string& addresses = "10.0.0.1:1", NameLookup names = NameLookup()) {
    link_.emplace(
        *loop_, *agent_, addresses,
        AgentHello{.agent = {"node-a", {1, 1}}, .node = "node-a", .slots = 3},
        LinkEvents{
            .on_up = [this] { events_.push_back("up"); },
            .on_wanted =
                [this](const Wanted& wanted) {
                  events_.push_back("wanted " + wanted.jobs.at(0).processes.at(0).name);
                  if (on_wanted_) on_wanted_();
                },
            .on_down = [this](const absl::Status&) { events_.push_back("down"); },
            .on_failed =
                [this](const absl::Status& why) { failed_.push_back(std::string(why.message())); },
            .on_new_term =
                [this](const KnownTerms& terms) {
                  known_ = terms;
                  events_.push_back("term " + std::to_string(terms.back().term.value()));
                },
            .on_try = [this](const std::string& at) { return on_try_(at); }},
        known_, std::move(names));
    link_->Start();
  }

  std::unique_ptr<EventLoop> loop_ = EventLoop::Make().value();
  LoopNetwork network_;
  std::unique_ptr<Transport> coordinator_ = network_.MakeTransport("coordinator");
  std::unique_ptr<Transport> agent_ = network_.MakeTransport("agent");
  bool answers_ = true;
  std::string cluster_ = "ours";
  TermNumber term_{2};
  Speaks speaks_;
  std::vector<std::string> failed_;  // why the tries to get a session did
  std::shared_ptr<Session> session_;
  std::vector<std::string> heard_;   // by the coordinator
  std::vector<std::string> events_;  // of the link
  std::function<void()> on_wanted_;
  std::function<void()> on_hello_;  // before it is answered
  std::function<absl::Status(const std::string&)> on_try_ = [](const std::string&) {
    return absl::OkStatus();
  };
  std::unique_ptr<Listener> listener_;
  KnownTerms known_ = {{"ours", TermNumber(2)}};  // on the disk
  std::optional<CoordinatorLink> link_;
};

// What is told before a session is up is in its first frame, or was too late for it.
TEST_F(LinkTest, DevicesAreToldInEachHelloAndWhenTheyChange) {
  Listen("10.0.0.1:1");
  on_wanted_ = [&] { link_->SendDevices({{"0", PlacementNumber(7)}}); };
  MakeLink();
  link_->SendDevices({{"0"}});
  RunUntilQuit(*loop_);
  EXPECT_THAT(heard_, ElementsAre("hello from node-a", "device 0 held by 7"));
  heard_.clear();
  link_->GoTo("10.0.0.1:1");
  on_wanted_ = [&] { loop_->Quit(); };
  RunUntilQuit(*loop_);
  EXPECT_THAT(heard_, ElementsAre("hello from node-a", "device 0 held by 7"));
  link_.reset();
}

TEST_F(LinkTest, GoesToAnotherAddress) {
  Listen("10.0.0.1:2");
  on_wanted_ = [&] { loop_->Quit(); };
  MakeLink();
  link_->GoTo("10.0.0.1:2");
  RunUntilQuit(*loop_);
  link_.reset();
  EXPECT_THAT(events_, ElementsAre("up", "wanted worker-0"));
}

TEST_F(LinkTest, GoesRoundItsAddressesAndFollowsACoordinatorThatMoved) {
  Listen("10.0.0.1:2");
  int times = 0;
  on_wanted_ = [&] {
    if (++times == 2) return loop_->Quit();
    loop_->Post([this] {
      listener_.reset();
      Listen("10.0.0.1:1");
    });
  };
  MakeLink("10.0.0.1:1,10.0.0.1:2");
  RunUntilQuit(*loop_);
  link_.reset();
  EXPECT_THAT(events_, ElementsAre("up", "wanted worker-0", "down", "up", "wanted worker-0"));
}

using Found = absl::StatusOr<std::vector<std::string>>;

TEST_F(LinkTest, TriesAllThatANameHasOnceItIsKnown) {
  Listen("10.0.0.2:1");
  std::atomic<int> lookups = 0;
  std::vector<std::string> tried;
  on_try_ = [&](const std::string& at) {
    tried.push_back(at);
    return absl::OkStatus();
  };
  on_wanted_ = [&] { loop_->Quit(); };
  MakeLink("db:1", NameLookup([&](const std::string& host) -> Found {
             if (++lookups == 1) return absl::UnavailableError(host + " is not known yet");
             return std::vector<std::string>{"10.0.0.1", "10.0.0.2"};
           }));
  RunUntilQuit(*loop_);
  EXPECT_EQ(lookups, 3);
  EXPECT_THAT(tried, ElementsAre("10.0.0.1:1", "10.0.0.2:1"));
  EXPECT_EQ(link_->FromWhatAnswered(), "db:1");
  EXPECT_EQ(link_->cluster(), "ours");
  link_.reset();
  EXPECT_THAT(events_, ElementsAre("up", "wanted worker-0"));
}

// What it says in the end is of a link, and of a loop, that are gone.
TEST_F(LinkTest, ALookupThatHangsHoldsNobodyUp) {
  struct Hanging {
    std::promise<void> released, gone;
    ~Hanging() { gone.set_value(); }
  };
  Listen();
  auto lookup = std::make_shared<Hanging>();
  const std::future<void> gone = lookup->gone.get_future();
  const std::weak_ptr<Hanging> hangs = lookup;
  on_wanted_ = [&] { loop_->Quit(); };
  MakeLink("db:1", NameLookup([lookup = std::move(lookup)](const std::string&) -> Found {
             lookup->released.get_future().wait();
             return std::vector<std::string>{"10.0.0.7"};
           }));
  link_->GoTo("10.0.0.1:1");
  RunUntilQuit(*loop_);
  link_.reset();
  loop_.reset();
  hangs.lock()->released.set_value();  // the lookup's thread keeps it
  gone.wait();
  EXPECT_THAT(events_, ElementsAre("up", "wanted worker-0"));
}

TEST_F(LinkTest, WhereItMayNotGoItGoesOn) {
  Listen("10.0.0.1:1");
  auto second = std::move(listener_);
  Listen("10.0.0.1:2");
  on_try_ = [](const std::string& at) {
    return at == "10.0.0.1:1" ? absl::FailedPreconditionError("not there") : absl::OkStatus();
  };
  on_wanted_ = [&] { loop_->Quit(); };
  MakeLink("10.0.0.1:1,10.0.0.1:2");
  RunUntilQuit(*loop_);
  EXPECT_EQ(link_->FromWhatAnswered(), "10.0.0.1:2,10.0.0.1:1");
  link_.reset();
  EXPECT_THAT(heard_, ElementsAre("hello from node-a"));
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
  EXPECT_THAT(events_,
              ElementsAre("term 3", "up", "wanted worker-0", "down", "up", "wanted worker-0"));
}

// It may be changed for one of our version, so it is tried again.
TEST_F(LinkTest, OneOfAnotherVersionIsNotObeyedUntilItIsOfOurs) {
  Listen();
  int hellos = 0;
  on_hello_ = [&] {
    speaks_ = ++hellos < 3 ? Speaks{kProtocol + 1, kProtocol + 1, "9.9.9"} : Speaks{};
  };
  on_wanted_ = [&] { loop_->Quit(); };
  MakeLink();
  RunUntilQuit(*loop_);
  link_.reset();
  EXPECT_EQ(hellos, 3);
  EXPECT_THAT(events_, ElementsAre("up", "wanted worker-0")) << "nothing of it is kept, either";
  ASSERT_EQ(failed_.size(), 2u);
  for (const std::string& why : failed_)
    EXPECT_EQ(why, WhyNotUnderstood("the coordinator at 10.0.0.1:1",
                                    {kProtocol + 1, kProtocol + 1, "9.9.9"}, "host node-a", {}));
}

// The folder knows of a term before anything of it is carried out, and the agent that is started
// there next heeds it.
TEST_F(LinkTest, ATermIsOnTheDiskBeforeItIsObeyedAndForTheNextAgent) {
  Listen();
  term_ = TermNumber(5);
  on_wanted_ = [&] { loop_->Quit(); };
  MakeLink();
  RunUntilQuit(*loop_);
  link_.reset();
  EXPECT_THAT(events_, ElementsAre("term 5", "up", "wanted worker-0"));
  events_.clear();
  // It speaks first to one that was replaced.
  int hellos = 0;
  on_hello_ = [&] { term_ = TermNumber(++hellos == 1 ? 4 : 5); };
  MakeLink();
  RunUntilQuit(*loop_);
  link_.reset();
  EXPECT_EQ(hellos, 2);
  EXPECT_THAT(events_, ElementsAre("up", "wanted worker-0")) << "what stands there is not written";
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
