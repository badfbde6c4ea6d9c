#include "agent/runtime/local_cluster.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/transport/loop/loop_network.h"
#include "lib/wire/message_codec.h"
#include "nlohmann/json.hpp"
#include "tests/agent/runtime/stand_in.h"
#include "tests/agent/runtime/taken_port.h"

namespace muster::agent {
namespace {

using ::testing::ElementsAre;

// A cluster whose coordinator is this test, and whose workers end at once, as after their work.
class LocalClusterTest : public ::testing::Test {
 protected:
  LocalClusterTest() {
    MakeProgram("muster-coordinator", "sleep 600");
    MakeProgram("muster-server", "exit 0");
    MakeProgram("muster-worker", "echo works; exit 0");
    auto made = LocalCluster::Make(
        *loop_, speaks_,
        {.folder = folder_ + "/cluster", .host = {.programs = folder_, .slots = 2}},
        {.on_start =
             [this](const NoteStart& note) {
               if (note.key != kCoordinatorKey && on_worker) on_worker();
             },
         .on_exit = [this](const NoteExit& note) { OnExit(note); },
         .on_no_session =
             [this](const std::string& why) {
               if (on_no_session) on_no_session(why);
             },
         .on_stopped = [this] { loop_->Quit(); }});
    EXPECT_TRUE(made.ok()) << made.status();
    cluster_ = *std::move(made);
    Listen();
  }
  std::string Grpc() const {
    std::ifstream file(folder_ + "/cluster/cluster.json");
    return nlohmann::json::parse(file)["grpc"].get<std::string>();
  }
  void Listen() {
    listener_.reset();
    listener_ = there_
                    ->Listen(Grpc(),
                             [this](std::shared_ptr<Session> session) {
                               loop_->Post([this, session] {
                                 session_ = session;
                                 Want(1);
                               });
                               return SessionHandler{.on_frame = [](const Frame&) {},
                                                     .on_broken = [](const absl::Status&) {}};
                             })
                    .value();
  }
  ~LocalClusterTest() override {
    cluster_.reset();
    std::filesystem::remove_all(folder_);
  }

  void MakeProgram(const std::string& name, const std::string& does) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << "#!/bin/sh\n" << does << "\n";
    chmod(path.c_str(), 0755);
  }
  void Want(int64_t start) {
    const JobProcesses job{
        "j", StartNumber(start), {{member_, role_}}, StartNumber(goes_on_ ? 1 : start)};
    session_->Send({.header = Encode(ToAgent(Wanted{{job}})), .payload = {}});
  }
  void OnExit(const NoteExit& note) {
    if (note.key == kCoordinatorKey) return on_coordinator ? on_coordinator(note) : void();
    notes_.push_back(note.text);
    if (notes_.size() == 1) {  // the job is deleted, and submitted again; or it goes on
      if (folder_goes_) std::filesystem::remove_all(cluster_->folder().job("j"));
      if (starts_again_) return;
      return Want(2);
    }
    cluster_->host().Stop();
    cluster_->host().Stop();
  }

  void LookWhetherItIsOver() {
    loop_->At(std::chrono::steady_clock::now() + std::chrono::milliseconds(10), [this] {
      if (!cluster_->host().WantedJobs().empty()) return LookWhetherItIsOver();
      EXPECT_TRUE(notes_.empty()) << "its process runs";
      std::ofstream(folder_ + "/go") << "x";
      cluster_->host().Stop();
    });
  }

  // How often worker-0 says in its log that it works.
  int TimesInTheLog() const {
    std::ifstream log(cluster_->folder().LogFile({"j", "worker-0"}));
    int times = 0;
    for (std::string line; std::getline(log, line);) times += line == "works";
    return times;
  }

  std::string member_ = "worker-0";
  Role role_ = Role::kWorker;
  bool folder_goes_ = false;                            // with the job
  bool starts_again_ = false;                           // its process does, and no job is submitted
  std::function<void()> on_worker;                      // has started
  std::function<void(const NoteExit&)> on_coordinator;  // has ended
  std::function<void(const std::string& why)> on_no_session;
  bool goes_on_ = false;  // it is not another job, but the next start of the same
  const std::string folder_ = MakeTestFolder();
  std::unique_ptr<EventLoop> loop_ = EventLoop::Make().value();
  LoopNetwork network_;
  int transports_ = 0;
  const TransportMaker speaks_ = [this](const std::shared_ptr<IdentitySource>& identity) {
    EXPECT_EQ(identity, nullptr) << "nobody says of which cluster it is";
    return network_.MakeTransport(absl::StrCat("agent-", ++transports_));
  };
  std::unique_ptr<Transport> there_ = network_.MakeTransport("coordinator");
  std::shared_ptr<Session> session_;
  std::vector<std::string> notes_;  // of exits of workers
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<LocalCluster> cluster_;
};

TEST_F(LocalClusterTest, AMissingProgramIsSaidBeforeAnythingStarts) {
  std::filesystem::remove(folder_ + "/muster-worker");
  const auto made = LocalCluster::Make(
      *loop_, speaks_, {.folder = folder_ + "/other", .host = {.programs = folder_}}, {});
  EXPECT_EQ(made.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(made.status().message()),
              testing::HasSubstr(folder_ + "/muster-worker is no program that can be run"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/other"));
}

// That nothing was wanted in between, the agent may not have heard.
TEST_F(LocalClusterTest, MoreSlotsThanItMayHaveFilesForAreRefused) {
  const auto made = LocalCluster::Make(
      *loop_, speaks_,
      {.folder = folder_ + "/other", .host = {.programs = folder_, .slots = 100'000}}, {});
  EXPECT_EQ(made.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(made.status().message()), testing::HasSubstr("100000 are asked for"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/other"));
}

TEST_F(LocalClusterTest, AJobThatIsSubmittedAgainAfterItWasDeletedHasItsFolder) {
  folder_goes_ = true;
  cluster_->Start();
  RunUntilQuit(*loop_);
  EXPECT_THAT(notes_, ElementsAre("worker-0 ended with exit code 0 (done)",
                                  "worker-0 ended with exit code 0 (done)"));
}

TEST_F(LocalClusterTest, AProcessThatStartsAgainHasItsFolderAgain) {
  MakeProgram("muster-worker", "echo works; exit 1");
  folder_goes_ = starts_again_ = true;
  cluster_->Start();
  RunUntilQuit(*loop_);
  ASSERT_EQ(notes_.size(), 2u);
  EXPECT_THAT(notes_[1], testing::HasSubstr("worker-0 ended with exit code 1"));
  EXPECT_EQ(TimesInTheLog(), 1) << "of the second process";
}

// Its processes take a while to end.
TEST_F(LocalClusterTest, AJobThatHasEndedIsNotUnderWayAnyMore) {
  MakeProgram("muster-worker",
              "trap '' TERM; while [ ! -e " + folder_ + "/go ]; do sleep 0.01; done");
  on_worker = [this] {
    EXPECT_THAT(cluster_->host().WantedJobs(), ElementsAre("j"));
    session_->Send({.header = Encode(ToAgent(Wanted{{}})), .payload = {}});
    LookWhetherItIsOver();
  };
  starts_again_ = true;
  cluster_->Start();
  RunUntilQuit(*loop_);
}

// With certificates, beyond loopback, and where other hosts join.
TEST_F(LocalClusterTest, TheCoordinatorHasAnAuthorityAndAsksForTokensBeyondLoopback) {
  MakeProgram("muster-coordinator", "echo \"$@\"; exit 64");
  for (const bool is_far : {false, true}) {
    const std::string folder = absl::StrCat(folder_, "/secure-", is_far);
    const auto made =
        LocalCluster::Make(*loop_,
                           [this](const std::shared_ptr<IdentitySource>& identity) {
                             EXPECT_NE(identity, nullptr);
                             return network_.MakeTransport(absl::StrCat("agent-", ++transports_));
                           },
                           {.folder = folder,
                            .http = is_far ? "0.0.0.0:0" : "",
                            .join = is_far ? "127.0.0.1:0" : "",
                            .cluster_in = [](const std::string&) { return ""; },
                            .host = {.programs = folder_, .slots = 2}},
                           {.on_exit = [&](const NoteExit&) { loop_->Quit(); }});
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_THAT((*made)->url(), testing::StartsWith("https://"));
    EXPECT_NE((*made)->trust().cluster, "");
    (*made)->Start();
    RunUntilQuit(*loop_);
    std::ifstream log((*made)->folder().LogFile(kCoordinatorKey));
    std::ostringstream lines;
    lines << log.rdbuf();
    EXPECT_THAT(lines.str(), testing::HasSubstr(" --authority --tokens"))
        << "loopback belongs to every user of the machine";
    const std::string joins =
        absl::StrCat(" --join-listen ", (*made)->join(), " --join-secret-file ",
                     (*made)->folder().path(), "/store/identity/join.secret");
    EXPECT_EQ(lines.str().find(joins) != std::string::npos, is_far) << lines.str();
  }
}

TEST_F(LocalClusterTest, MetricsMayBeServedElsewhere) {
  MakeProgram("muster-coordinator", "echo \"$@\"; exit 64");
  MakeProgram("muster-worker", "exit 0");
  const auto made = LocalCluster::Make(
      *loop_,
      [this](const std::shared_ptr<IdentitySource>&) {
        return network_.MakeTransport(absl::StrCat("agent-", ++transports_));
      },
      {.folder = folder_ + "/asks",
       .cluster_in = [](const std::string&) { return ""; },
       .host = {.programs = folder_, .metrics_address = "127.0.0.2", .metrics_port = 9000}},
      {.on_exit = [&](const NoteExit&) { loop_->Quit(); }});
  ASSERT_TRUE(made.ok()) << made.status();
  (*made)->Start();
  RunUntilQuit(*loop_);
  std::ifstream log((*made)->folder().LogFile(kCoordinatorKey));
  std::ostringstream lines;
  lines << log.rdbuf();
  EXPECT_THAT(lines.str(), testing::HasSubstr(" --metrics 127.0.0.2:9000"));
}

// That is among its arguments; of the folder of the job it is told nothing.
TEST_F(LocalClusterTest, AReaderIsTheProgramOfServersThatIsToldToRead) {
  member_ = kReaderName;
  role_ = Role::kReader;
  MakeProgram("muster-server", "echo \"$0\" \"$@\"; exit 0");
  MakeProgram("muster-worker", "exit 64");
  cluster_->Start();
  RunUntilQuit(*loop_);
  std::ifstream log(cluster_->folder().LogFile({"j", kReaderName}));
  std::ostringstream lines;
  lines << log.rdbuf();
  EXPECT_THAT(lines.str(), testing::HasSubstr("\n" + folder_ + "/muster-server --coordinator "));
  EXPECT_THAT(lines.str(), testing::HasSubstr(" --name reader-0 "));
  EXPECT_THAT(lines.str(), testing::HasSubstr(" --read "));
  EXPECT_THAT(lines.str(), testing::Not(testing::HasSubstr(" --dir ")));
}

// It would wait without end. Nobody but the agent knows the address yet.
TEST_F(LocalClusterTest, ACoordinatorWhosePortIsTakenGoesElsewhere) {
  MakeProgram("muster-coordinator", "exit 75");
  MakeProgram("muster-worker", "echo \"$@\"; exit 0");
  listener_.reset();
  const std::string before = Grpc();
  const TakenPort taken(before);
  std::vector<std::string> said;
  on_coordinator = [&](const NoteExit& note) {
    said.push_back(note.text);
    if (said.size() == 1) Listen();
  };
  cluster_->Start();
  RunUntilQuit(*loop_);
  ASSERT_FALSE(said.empty());
  EXPECT_NE(Grpc(), before);
  EXPECT_THAT(said[0], testing::EndsWith("; another program has " + before + " (gRPC), so " +
                                         Grpc() + " takes its place"));
  EXPECT_EQ(notes_.size(), 2u) << "of workers, which the coordinator there wanted";
  std::ifstream log(cluster_->folder().LogFile({"j", "worker-0"}));
  std::ostringstream lines;
  lines << log.rdbuf();
  EXPECT_THAT(lines.str(), testing::HasSubstr("--coordinator " + Grpc()));
}

// Nobody would be told of it, while jobs wait for slots. Until it listens it is only being started.
TEST_F(LocalClusterTest, ItIsToldWhyTheCoordinatorDoesNotHearItsOwnHost) {
  MakeProgram("muster-coordinator",
              "while [ ! -e " + folder_ +
                  "/go ]; do sleep 0.01; done; echo '{\"event\":\"listening\"}' >&3; sleep 600");
  listener_.reset();
  int refused = 0;
  const auto refuse = [&](const std::shared_ptr<Session>& session) {
    if (++refused == 2) std::ofstream(folder_ + "/go") << "x";
    session->Close(absl::PermissionDeniedError("host here was revoked"));
  };
  listener_ = there_
                  ->Listen(Grpc(),
                           [&](std::shared_ptr<Session> session) {
                             loop_->Post([&refuse, session] { refuse(session); });
                             return SessionHandler{.on_frame = [](const Frame&) {},
                                                   .on_broken = [](const absl::Status&) {}};
                           })
                  .value();
  std::string told;
  on_no_session = [&](const std::string& why) {
    if (!std::exchange(told, why).empty()) return;
    EXPECT_GE(refused, 9) << "what came before it listened counts for nothing";
    cluster_->host().Stop();
    cluster_->host().Stop();
  };
  cluster_->Start();
  RunUntilQuit(*loop_);
  listener_.reset();
  EXPECT_THAT(told, testing::HasSubstr("host here was revoked"));
}

TEST_F(LocalClusterTest, AnAddressThatMembersKnowStaysAndItIsSaidWhoHasIt) {
  MakeProgram("muster-coordinator",
              "while [ ! -e " + folder_ + "/go ]; do sleep 0.01; done; exit 75");
  MakeProgram("muster-worker", "exec sleep 600");
  const std::string before = Grpc();
  std::optional<TakenPort> taken;
  on_worker = [&] {
    taken.emplace(before);
    std::ofstream(folder_ + "/go") << "x";
  };
  std::string said;
  on_coordinator = [&](const NoteExit& note) {
    said = note.text;
    starts_again_ = true;  // whatever ends now does so because of Stop
    cluster_->host().Stop();
    cluster_->host().Stop();
  };
  cluster_->Start();
  RunUntilQuit(*loop_);
  EXPECT_THAT(said, testing::HasSubstr("; another program has " + before +
                                       " (gRPC), and it cannot go elsewhere (members that run "
                                       "know it): stop that program"));
  EXPECT_EQ(Grpc(), before);
}

// A deletion through REST leaves the folder.
TEST_F(LocalClusterTest, AJobDoesNotContinueTheLogsOfADeletedOneOfItsId) {
  cluster_->Start();
  RunUntilQuit(*loop_);
  EXPECT_EQ(TimesInTheLog(), 1);
}

TEST_F(LocalClusterTest, AJobThatGoesOnContinuesItsLogs) {
  goes_on_ = true;
  cluster_->Start();
  RunUntilQuit(*loop_);
  EXPECT_EQ(TimesInTheLog(), 2);
}

}  // namespace
}  // namespace muster::agent
