#include "agent/runtime/local_cluster.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/transport/loop/loop_network.h"
#include "lib/wire/message_codec.h"
#include "nlohmann/json.hpp"
#include "tests/agent/runtime/stand_in.h"

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
        *loop_, *here_, {.folder = folder_ + "/cluster", .programs = folder_, .slots = 2},
        {.on_start =
             [this](const ProcessKey& key, pid_t) {
               if (key != kCoordinatorKey && on_worker) on_worker();
             },
         .on_exit = [this](const NoteExit& note) { OnExit(note); },
         .on_stopped = [this] { loop_->Quit(); }});
    EXPECT_TRUE(made.ok()) << made.status();
    cluster_ = *std::move(made);
    std::ifstream file(folder_ + "/cluster/cluster.json");
    const std::string address = nlohmann::json::parse(file)["grpc"].get<std::string>();
    listener_ = there_
                    ->Listen(address,
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
        "j", StartNumber(start), {{"worker-0", Role::kWorker}}, StartNumber(goes_on_ ? 1 : start)};
    session_->Send({.header = Encode(ToAgent(Wanted{{job}})), .payload = {}});
  }
  void OnExit(const NoteExit& note) {
    if (note.key == kCoordinatorKey) return;
    notes_.push_back(note.text);
    if (notes_.size() == 1) {  // the job is deleted, and submitted again; or it goes on
      if (folder_goes_) std::filesystem::remove_all(cluster_->folder().job("j"));
      if (starts_again_) return;
      return Want(2);
    }
    cluster_->Stop();
    cluster_->Stop();
  }

  void LookWhetherItIsOver() {
    loop_->At(std::chrono::steady_clock::now() + std::chrono::milliseconds(10), [this] {
      if (!cluster_->WantedJobs().empty()) return LookWhetherItIsOver();
      EXPECT_TRUE(notes_.empty()) << "its process runs";
      std::ofstream(folder_ + "/go") << "x";
      cluster_->Stop();
    });
  }

  // How often worker-0 says in its log that it works.
  int TimesInTheLog() const {
    std::ifstream log(cluster_->folder().LogFile({"j", "worker-0"}));
    int times = 0;
    for (std::string line; std::getline(log, line);) times += line == "works";
    return times;
  }

  bool folder_goes_ = false;        // with the job
  bool starts_again_ = false;       // its process does, and no job is submitted
  std::function<void()> on_worker;  // has started
  bool goes_on_ = false;            // it is not another job, but the next start of the same
  const std::string folder_ = MakeTestFolder();
  std::unique_ptr<EventLoop> loop_ = EventLoop::Make().value();
  LoopNetwork network_;
  std::unique_ptr<Transport> here_ = network_.MakeTransport("agent");
  std::unique_ptr<Transport> there_ = network_.MakeTransport("coordinator");
  std::shared_ptr<Session> session_;
  std::vector<std::string> notes_;  // of exits of workers
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<LocalCluster> cluster_;
};

TEST_F(LocalClusterTest, AMissingProgramIsSaidBeforeAnythingStarts) {
  std::filesystem::remove(folder_ + "/muster-worker");
  const auto made =
      LocalCluster::Make(*loop_, *here_, {.folder = folder_ + "/other", .programs = folder_}, {});
  EXPECT_EQ(made.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(made.status().message()),
              testing::HasSubstr(folder_ + "/muster-worker is no program that can be run"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/other"));
}

// That nothing was wanted in between, the agent may not have heard.
TEST_F(LocalClusterTest, MoreSlotsThanItMayHaveFilesForAreRefused) {
  const auto made = LocalCluster::Make(
      *loop_, *here_, {.folder = folder_ + "/other", .programs = folder_, .slots = 100'000}, {});
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
    EXPECT_THAT(cluster_->WantedJobs(), ElementsAre("j"));
    session_->Send({.header = Encode(ToAgent(Wanted{{}})), .payload = {}});
    LookWhetherItIsOver();
  };
  starts_again_ = true;
  cluster_->Start();
  RunUntilQuit(*loop_);
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
