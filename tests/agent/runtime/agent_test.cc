#include "agent/runtime/agent.h"

#include <signal.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/agent/runtime/stand_in.h"

namespace muster::agent {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class AgentTest : public ::testing::Test {
 protected:
  // `what`: of each process by name.
  void Make(std::map<std::string, std::string> what, FaultPlan faults = {}) {
    what_ = std::move(what);
    agent_.emplace(
        *loop_,
        AgentOptions{
            .log_file =
                [folder = MakeTestFolder()](const Spawn& spawn) {
                  return folder + "/" + spawn.key.job + spawn.key.name + ".log";
                },
            .command = [this](const Spawn& spawn) { return StandIn(what_.at(spawn.key.name)); },
            .supervisor = {.first_backoff = milliseconds(1),
                           .leave_grace = milliseconds(5),
                           .stop_grace = milliseconds(20)},
            .faults = std::move(faults)},
        AgentEvents{
            .on_start = [this](const NoteStart& note) { ++starts_[note.key.name]; },
            .on_exit =
                [this](const NoteExit& note) {
                  exits_.push_back(note);
                  if (on_exit_) on_exit_(note);
                },
            .on_report =
                [this](const ProcessKey& key, const Report& report) {
                  if (report.step) steps_[key.name] = report.step->step;
                  if (on_report_) on_report_(key);
                },
            .on_fault = [this](const FaultAction& action) { faults_.push_back(action.text); },
            .tell_coordinator = [this](const ProcessExited& told) { told_.push_back(told); },
            .on_stopped = [this] { loop_->Quit(); }});
  }
  void Want(const std::vector<std::string>& names) {
    JobProcesses job{.job = "j", .start = StartNumber(1), .processes = {}};
    for (const std::string& name : names) job.processes.push_back({name, Role::kWorker});
    agent_->Do(WantMembers{Wanted{{job}}});
  }

  std::unique_ptr<EventLoop> loop_ = EventLoop::Make().value();
  std::map<std::string, std::string> what_;
  std::optional<Agent> agent_;
  std::function<void(const NoteExit&)> on_exit_;
  std::function<void(const ProcessKey&)> on_report_;
  std::map<std::string, int> starts_;
  std::map<std::string, int64_t> steps_;
  std::vector<NoteExit> exits_;
  std::vector<ProcessExited> told_;
  std::vector<std::string> faults_;
};

TEST_F(AgentTest, HearsEveryStepBeforeTheExit) {
  Make({{"worker-0", "steps 500"}});
  on_exit_ = [&](const NoteExit&) {
    EXPECT_EQ(steps_["worker-0"], 500);
    loop_->Quit();
  };
  Want({"worker-0"});
  RunUntilQuit(*loop_);
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_EQ(told_[0].exit_code, 0);
  EXPECT_FALSE(told_[0].gave_up);
}

TEST_F(AgentTest, TellsWhatTheTrainedModelWritesWithTheExit) {
  Make({{"worker-0", "write int main"}});
  on_exit_ = [&](const NoteExit&) { loop_->Quit(); };
  Want({"worker-0"});
  RunUntilQuit(*loop_);
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_EQ(told_[0].sample, "int main");
}

TEST_F(AgentTest, ACrashLoopEndsWithTheLastLinesOfTheLog) {
  Make({{"worker-0", "say the data is on fire"}});
  on_exit_ = [&](const NoteExit& note) {
    if (note.after == AfterExit::kGivenUp) loop_->Quit();
  };
  Want({"worker-0"});
  RunUntilQuit(*loop_);
  EXPECT_EQ(starts_["worker-0"], 5);
  ASSERT_EQ(told_.size(), 5u);
  EXPECT_TRUE(told_.back().gave_up);
  EXPECT_EQ(told_.back().last_lines, "the data is on fire");
}

// A plug-in that calls _exit gets past what its worker does at its end.
TEST_F(AgentTest, AMemberThatEndsAsIfItWasToldToHasFailedUnlessItSaysSo) {
  for (const int code : {0, 66, 67, 69, 75}) {
    SCOPED_TRACE(code);
    agent_.reset();
    loop_ = EventLoop::Make().value();
    exits_.clear();
    told_.clear();
    Make({{"worker-0", absl::StrCat("member ", code)}});
    on_exit_ = [&](const NoteExit& note) {
      if (note.after != AfterExit::kStartsAgain) loop_->Quit();
    };
    Want({"worker-0"});
    RunUntilQuit(*loop_);
    ASSERT_EQ(told_.size(), 5u) << "it counts as any other failure";
    EXPECT_EQ(told_.back().exit_code, 1) << "its coordinator does not believe it, either";
    EXPECT_TRUE(told_.back().gave_up);
    EXPECT_THAT(exits_.back().text, testing::HasSubstr("which nobody told it to end with"));
  }
}

TEST_F(AgentTest, AMemberThatSaysThatItWasToldIsBelieved) {
  Make({{"worker-0", "member 67 67"}});
  on_exit_ = [&](const NoteExit&) { loop_->Quit(); };
  Want({"worker-0"});
  RunUntilQuit(*loop_);
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_EQ(told_[0].exit_code, 67);
  EXPECT_EQ(exits_[0].after, AfterExit::kFinished);
}

TEST_F(AgentTest, AnotherJobGoesOnWhenOneIsWantedNoMore) {
  Make({{"worker-0", "hang"}});
  const JobProcesses one{"one", StartNumber(1), {{"worker-0", Role::kWorker}}};
  const JobProcesses two{"two", StartNumber(2), {{"worker-0", Role::kWorker}}};
  int ready = 0;
  on_report_ = [&](const ProcessKey&) {
    if (++ready == 2) agent_->Do(WantMembers{Wanted{{two}}});
  };
  on_exit_ = [&](const NoteExit&) { loop_->Quit(); };
  agent_->Do(WantMembers{Wanted{{one, two}}});
  RunUntilQuit(*loop_);
  ASSERT_EQ(exits_.size(), 1u);
  EXPECT_EQ(exits_[0].key, (ProcessKey{"one", "worker-0"}));
  EXPECT_THAT(agent_->Running(), ElementsAre(ProcessKey{"two", "worker-0"}));
  EXPECT_FALSE(agent_->Has("one"));
}

TEST_F(AgentTest, AProgramThatIsMissingIsGivenUpToo) {
  Make({{"worker-0", "exit 0"}});
  agent_.emplace(
      *loop_,
      AgentOptions{.log_file =
                       [folder = MakeTestFolder()](const Spawn& spawn) {
                         return folder + "/" + spawn.key.job + spawn.key.name + ".log";
                       },
                   .command = [](const Spawn&) { return std::vector<std::string>{"/nowhere/x"}; },
                   .supervisor = {.first_backoff = milliseconds(1)}},
      AgentEvents{.on_exit = [&](const NoteExit& note) {
        exits_.push_back(note);
        if (note.after == AfterExit::kGivenUp) loop_->Quit();
      }});
  Want({"worker-0"});
  RunUntilQuit(*loop_);
  EXPECT_EQ(exits_.size(), 5u);
  EXPECT_THAT(exits_.back().exit.not_started, HasSubstr("/nowhere/x"));
}

TEST_F(AgentTest, ALogThatCannotBeWrittenIsNoCrashLoopOfTheProgram) {
  const std::string folder = MakeTestFolder();
  agent_.emplace(
      *loop_,
      AgentOptions{
          .log_file = [&](const Spawn& spawn) { return folder + "/absent/" + spawn.key.name; },
          .command = [](const Spawn&) { return std::vector<std::string>{"/bin/true"}; },
          .supervisor = {.first_backoff = milliseconds(1), .longest_backoff = milliseconds(1)}},
      AgentEvents{.on_exit = [&](const NoteExit& note) {
        exits_.push_back(note);
        if (exits_.size() == 7) std::filesystem::create_directory(folder + "/absent");
        if (note.after != AfterExit::kStartsAgain) loop_->Quit();
      }});
  Want({"worker-0"});
  RunUntilQuit(*loop_);
  ASSERT_EQ(exits_.size(), 8u);
  EXPECT_THAT(exits_.front().exit.not_started, HasSubstr(folder + "/absent/worker-0"));
  EXPECT_EQ(exits_.back().after, AfterExit::kFinished);
  EXPECT_EQ(exits_.back().exit.code, 0);
}

TEST_F(AgentTest, StopsEverythingAndKillsWhatDoesNotListen) {
  Make({{"coordinator", "hang"}, {"worker-0", "hang"}, {"worker-1", "ignore SIGTERM"}});
  int ready = 0;
  on_report_ = [&](const ProcessKey&) {
    if (++ready == 3) agent_->Do(StopAll{});
  };
  agent_->Do(WantCoordinator{});
  Want({"worker-0", "worker-1"});
  RunUntilQuit(*loop_);
  std::map<std::string, int> signals;
  for (const NoteExit& note : exits_) signals[note.key.name] = note.exit.signal;
  EXPECT_EQ(signals, (std::map<std::string, int>{
                         {"coordinator", SIGTERM}, {"worker-0", SIGTERM}, {"worker-1", SIGKILL}}));
  EXPECT_TRUE(agent_->Running().empty());
}

TEST_F(AgentTest, AKilledCoordinatorStaysDownUntilItsTime) {
  Make({{"coordinator", "hang"}, {"worker-0", "hang"}},
       {.faults = {{.target = "coordinator", .at_step = 1, .for_time = milliseconds(30)}}});
  on_report_ = [&](const ProcessKey& key) {
    if (key == kCoordinatorKey && starts_["coordinator"] == 2) loop_->Quit();
  };
  agent_->Do(WantCoordinator{});
  Want({"worker-0"});
  RunUntilQuit(*loop_);
  ASSERT_EQ(exits_.size(), 1u);
  EXPECT_EQ(exits_[0].exit.signal, SIGKILL);
  EXPECT_EQ(exits_[0].after, AfterExit::kKeptDown);
  EXPECT_THAT(
      faults_,
      ElementsAre("", "fault plan: kills coordinator (SIGKILL) and keeps it down for 0.03 s",
                  "fault plan: coordinator may come back"));
}

}  // namespace
}  // namespace muster::agent
