#include "agent/state/supervisor.h"

#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/exit_codes.h"
#include "lib/base/signal_name.h"

namespace muster::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string AfterName(AfterExit after) {
  switch (after) {
    case AfterExit::kStartsAgain: return "again";
    case AfterExit::kKeptDown: return "kept down";
    case AfterExit::kFinished: return "finished";
    case AfterExit::kGivenUp: return "given up";
  }
  return "?";
}

std::string Describe(const SupervisorAction& action) {
  if (const auto* spawn = std::get_if<Spawn>(&action))
    return absl::StrCat("spawn ", spawn->key.name,
                        spawn->role == Role::kServer ? " as server" : "");
  if (const auto* signal = std::get_if<SendSignal>(&action))
    return absl::StrCat(SignalName(signal->signal), " ", signal->key.name);
  if (const auto* ask = std::get_if<AskToSign>(&action))
    return absl::StrCat("sign ", ask->key.name, " at ", ask->placement.value());
  if (const auto* tell = std::get_if<ReportExit>(&action))
    return absl::StrCat("tell ", tell->exited.name, " ", tell->exited.cause,
                        tell->exited.gave_up ? " gave up" : "");
  const auto& note = std::get<NoteExit>(action);
  return absl::StrCat(
      "note ", note.key.name, " ", AfterName(note.after),
      note.delay.count() > 0
          ? absl::StrFormat(" in %d ms",
                            std::chrono::duration_cast<milliseconds>(note.delay).count())
          : "");
}

class SupervisorTest : public ::testing::Test {
 protected:
  std::vector<std::string> Do(const SupervisorEvent& event) {
    std::vector<std::string> texts;
    for (const SupervisorAction& action : supervisor_->Step(event, now_))
      texts.push_back(Describe(action));
    return texts;
  }
  std::vector<std::string> Want(const std::vector<std::string>& names) {
    JobProcesses job{.job = "j", .start = StartNumber(1), .processes = {}};
    for (const std::string& name : names)
      job.processes.push_back({name, name.starts_with("server") ? Role::kServer : Role::kWorker});
    return Do(WantMembers{Wanted{{job}}});
  }
  std::vector<std::string> Exits(const std::string& name, int code, int signal = 0) {
    return Do(Exited{Key(name), Exit{.code = code, .signal = signal}});
  }
  // The next one of its job.
  void CompletesAStep(const std::string& name) { Do(Progressed{Key(name), ++step_}); }
  // From this one on up to that one.
  void CompletesSteps(const std::string& name, int64_t from, int64_t to) {
    for (int64_t step = from; step <= to; ++step) Do(Progressed{Key(name), Step(step)});
  }
  // Lets time pass until the next tick is due, and ticks.
  std::vector<std::string> TickWhenDue() {
    now_ = supervisor_->NextTick().value();
    return Do(Tick{});
  }
  static ProcessKey Key(const std::string& name) {
    return name == "coordinator" ? kCoordinatorKey : ProcessKey{"j", name};
  }

  Time now_ = Time{} + seconds(100);
  Step step_{};
  std::optional<Supervisor> supervisor_{std::in_place};
};

TEST_F(SupervisorTest, StartsWhatIsWantedOnce) {
  EXPECT_THAT(Do(WantCoordinator{}), ElementsAre("spawn coordinator"));
  EXPECT_THAT(Want({"server-0", "worker-0"}),
              ElementsAre("spawn server-0 as server", "spawn worker-0"));
  EXPECT_THAT(Want({"server-0", "worker-0"}), IsEmpty());
  EXPECT_THAT(supervisor_->Running(),
              ElementsAre(kCoordinatorKey, Key("server-0"), Key("worker-0")));
  EXPECT_EQ(supervisor_->NextTick(), std::nullopt);
}

struct ExitCase {
  int code;
  int signal;
  std::vector<std::string> of_worker;
  std::string of_coordinator;
};

TEST_F(SupervisorTest, ExitCodesDecideWhatFollows) {
  const std::vector<ExitCase> cases = {
      {0, 0, {"tell worker-0 exit code 0 (done)", "note worker-0 finished"}, "again in 200 ms"},
      {75,
       0,
       {"tell worker-0 exit code 75 (left as asked)", "note worker-0 finished"},
       "again in 200 ms"},
      {67,
       0,
       {"tell worker-0 exit code 67 (stopped or cancelled by a person)", "note worker-0 finished"},
       "again in 200 ms"},
      {64,
       0,
       {"tell worker-0 exit code 64 (bad configuration)", "note worker-0 given up"},
       "given up"},
      {65, 0, {"tell worker-0 exit code 65 (bad data)", "note worker-0 given up"}, "given up"},
      {69,
       0,
       {"tell worker-0 exit code 69 (another process has taken its place)",
        "note worker-0 given up"},
       "given up"},
      {72,
       0,
       {"tell worker-0 exit code 72 (its host lacks the plug-in) gave up",
        "note worker-0 given up"},
       "given up"},
      {143,
       0,
       {"tell worker-0 exit code 143 (told to go by a signal)", "note worker-0 again in 200 ms"},
       "again in 200 ms"},
      {78,
       0,
       {"tell worker-0 exit code 78 (its numeric environment or version does not fit)",
        "note worker-0 given up"},
       "given up"},
      {1, 0, {"tell worker-0 exit code 1", "note worker-0 again in 200 ms"}, "again in 200 ms"},
      {0,
       SIGKILL,
       {"tell worker-0 killed by SIGKILL", "note worker-0 again in 200 ms"},
       "again in 200 ms"},
      {0,
       SIGSEGV,
       {"tell worker-0 killed by SIGSEGV", "note worker-0 again in 200 ms"},
       "again in 200 ms"},
      {0,
       SIGTERM,
       {"tell worker-0 killed by SIGTERM", "note worker-0 again in 200 ms"},
       "again in 200 ms"},
  };
  for (const ExitCase& c : cases) {
    SCOPED_TRACE(absl::StrCat("code ", c.code, " signal ", c.signal));
    supervisor_.emplace();
    Do(WantCoordinator{});
    Want({"worker-0"});
    EXPECT_EQ(Exits("worker-0", c.code, c.signal), c.of_worker);
    EXPECT_THAT(Exits("coordinator", c.code, c.signal),
                ElementsAre("note coordinator " + c.of_coordinator));
  }
}

TEST_F(SupervisorTest, BackOffDoublesAndACrashLoopEnds) {
  Want({"worker-0"});
  for (const char* delay : {"200", "400", "800", "1600"}) {
    EXPECT_THAT(Exits("worker-0", 1),
                ElementsAre("tell worker-0 exit code 1",
                            absl::StrCat("note worker-0 again in ", delay, " ms")));
    EXPECT_THAT(TickWhenDue(), ElementsAre("spawn worker-0"));
  }
  EXPECT_THAT(Exits("worker-0", 1),
              ElementsAre("tell worker-0 exit code 1 gave up", "note worker-0 given up"));
  EXPECT_EQ(supervisor_->NextTick(), std::nullopt);
  EXPECT_THAT(Want({"worker-0"}), IsEmpty());
}

TEST_F(SupervisorTest, ItIsNotStartedBeforeItsTime) {
  Want({"worker-0"});
  Exits("worker-0", 1);
  now_ += milliseconds(199);
  EXPECT_THAT(Do(Tick{}), IsEmpty());
  now_ += milliseconds(1);
  EXPECT_THAT(Do(Tick{}), ElementsAre("spawn worker-0"));
}

TEST_F(SupervisorTest, BackOffHasALongestValue) {
  Do(WantMembers{Wanted{{{.job = "j",
                          .start = StartNumber(1),
                          .processes = {{"worker-0", Role::kWorker}},
                          .restarts = 100}}}});
  std::vector<std::string> last;
  for (int i = 0; i < 10; ++i) {
    last = Exits("worker-0", 1);
    TickWhenDue();
  }
  EXPECT_THAT(last, ElementsAre("tell worker-0 exit code 1", "note worker-0 again in 5000 ms"));
}

TEST_F(SupervisorTest, AStepStartsAfresh) {
  Want({"worker-0"});
  for (int i = 0; i < 50; ++i) {
    EXPECT_THAT(Exits("worker-0", 1),
                ElementsAre("tell worker-0 exit code 1", "note worker-0 again in 200 ms"));
    TickWhenDue();
    CompletesAStep("worker-0");
  }
}

// A lane that fails in step 7 each time: the job goes back to its checkpoint of step 2, and does
// the steps up to there again. They once began the count anew each time, and the job never ended.
TEST_F(SupervisorTest, StepsThatAreDoneAgainAreNoProgress) {
  Want({"server-0", "worker-0"});
  Do(WantCoordinator{});
  Do(SessionUp{});
  CompletesSteps("worker-0", 0, 6);
  for (const char* delay : {"200", "400", "800", "1600"}) {
    const std::string again = absl::StrCat(" again in ", delay, " ms");
    EXPECT_EQ(Exits("worker-0", 1).back(), "note worker-0" + again);
    EXPECT_EQ(Exits("server-0", 1).back(), "note server-0" + again);
    EXPECT_EQ(Exits("coordinator", 1).back(), "note coordinator" + again);
    TickWhenDue();
    Do(SessionUp{});
    CompletesSteps("worker-0", 2, 6);
  }
  EXPECT_EQ(Exits("worker-0", 1).back(), "note worker-0 given up");
  EXPECT_EQ(Exits("server-0", 1).back(), "note server-0 given up");
  EXPECT_EQ(Exits("coordinator", 1).back(), "note coordinator given up");
}

TEST_F(SupervisorTest, OneNewStepAfterThoseThatAreDoneAgainStartsAfresh) {
  Want({"worker-0"});
  for (int64_t reached = 6; reached < 30; ++reached) {
    CompletesSteps("worker-0", 2, reached);
    EXPECT_EQ(Exits("worker-0", 1).back(), "note worker-0 again in 200 ms");
    TickWhenDue();
  }
}

// Others on this host may have gone on meanwhile, and tell of each step first.
TEST_F(SupervisorTest, EachIsHeldToWhereTheJobWasWhenItFailedItself) {
  Want({"worker-0", "worker-1"});
  CompletesSteps("worker-0", 0, 6);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Exits("worker-1", 1).back(), "note worker-1 again in 200 ms");
    TickWhenDue();
    CompletesSteps("worker-0", 7 + i, 7 + i);
    CompletesSteps("worker-1", 7 + i, 7 + i);
  }
  for (const char* delay : {"200", "400", "800", "1600"}) {
    EXPECT_EQ(Exits("worker-1", 1).back(), absl::StrCat("note worker-1 again in ", delay, " ms"));
    TickWhenDue();
    CompletesSteps("worker-1", 20, 26);
  }
  EXPECT_EQ(Exits("worker-1", 1).back(), "note worker-1 given up");
}

TEST_F(SupervisorTest, AJobsNextStartCountsItsStepsFromTheFirst) {
  Want({"worker-0"});
  CompletesSteps("worker-0", 0, 6);
  Exits("worker-0", 75);
  const JobProcesses next{"j", StartNumber(2), {{"worker-0", Role::kWorker}}};
  Do(WantMembers{Wanted{{next}}});
  for (int64_t step = 2; step < 6; ++step) {
    CompletesSteps("worker-0", step, step);
    EXPECT_EQ(Exits("worker-0", 1).back(), "note worker-0 again in 200 ms");
    TickWhenDue();
  }
}

TEST_F(SupervisorTest, AJobsRestartsAreSpentBeforeItIsGivenUp) {
  struct Case {
    int32_t restarts;
    Exit exit;
    int starts_again;  // at most 20 are looked at
  };
  const Exit fails{.code = 1};
  const Exit out_of_memory{.signal = SIGKILL, .out_of_memory = true};
  const Exit no_room{
      .code = kExitFailed, .not_started = "Too many open files", .host_is_short = true};
  const std::vector<Case> cases = {
      {kDefaultRestarts, fails, 4}, {0, fails, 0},    {1, fails, 1}, {9, fails, 9},
      {2, out_of_memory, 2},        {0, no_room, 20},  // what the host did is not counted
  };
  for (const Case& c : cases) {
    supervisor_.emplace(SupervisorOptions{.crash_limit = 7});  // the coordinator's
    Do(WantMembers{Wanted{{{.job = "j",
                            .start = StartNumber(1),
                            .processes = {{"worker-0", Role::kWorker}},
                            .restarts = c.restarts}}}});
    int starts_again = 0;
    while (starts_again < 20 &&
           Do(Exited{Key("worker-0"), c.exit}).back() != "note worker-0 given up") {
      ++starts_again;
      TickWhenDue();
    }
    EXPECT_EQ(starts_again, c.starts_again) << c.restarts << " " << CauseOf(c.exit);
  }
}

// What dies after minutes each time, out of memory perhaps, is a crash loop as well.
TEST_F(SupervisorTest, ASlowCrashLoopEnds) {
  Want({"worker-0"});
  for (int i = 0; i < 4; ++i) {
    now_ += std::chrono::minutes(9);
    EXPECT_THAT(Exits("worker-0", 1).back(), HasSubstr("again"));
    TickWhenDue();
  }
  now_ += std::chrono::minutes(9);
  EXPECT_EQ(Exits("worker-0", 1).back(), "note worker-0 given up");
}

TEST_F(SupervisorTest, AnyMembersStepIsProgressOfTheCoordinatorToo) {
  Do(WantCoordinator{});
  Want({"worker-0", "worker-1"});
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(Exits("coordinator", 0, SIGKILL), ElementsAre("note coordinator again in 200 ms"));
    TickWhenDue();
    Do(SessionUp{});
    CompletesAStep("worker-0");
  }
}

// Members go on without it for a while. Their steps once had it tried at the first delay for ever.
TEST_F(SupervisorTest, AStepIsNoProgressOfACoordinatorThatDoesNotComeUp) {
  Do(WantCoordinator{});
  Want({"worker-0"});
  Do(SessionUp{});
  CompletesAStep("worker-0");
  std::vector<std::string> notes;
  for (int i = 0; i < 7; ++i) {
    notes.push_back(Exits("coordinator", kExitLater).back());
    CompletesAStep("worker-0");  // while it is away
    TickWhenDue();
    CompletesAStep("worker-0");  // while it tries to come up
  }
  EXPECT_THAT(notes,
              ElementsAre("note coordinator again in 200 ms", "note coordinator again in 400 ms",
                          "note coordinator again in 800 ms", "note coordinator again in 1600 ms",
                          "note coordinator again in 3200 ms", "note coordinator again in 5000 ms",
                          "note coordinator again in 5000 ms"));
  Do(SessionUp{});
  CompletesAStep("worker-0");
  EXPECT_THAT(Exits("coordinator", kExitLater), ElementsAre("note coordinator again in 200 ms"));
}

TEST_F(SupervisorTest, ACrashLoopOfTheCoordinatorEndsAlsoWhileMembersTrain) {
  Do(WantCoordinator{});
  Want({"worker-0"});
  for (int i = 0; i < 4; ++i) {
    EXPECT_THAT(Exits("coordinator", 1).back(), HasSubstr("again"));
    TickWhenDue();
    CompletesAStep("worker-0");
  }
  EXPECT_EQ(Exits("coordinator", 1).back(), "note coordinator given up");
}

TEST_F(SupervisorTest, TheOthersStepsAreNoProgressOfOneThatFails) {
  Want({"worker-0", "worker-1"});
  for (int i = 0; i < 4; ++i) {
    EXPECT_THAT(Exits("worker-1", 1).back(), HasSubstr("again"));
    TickWhenDue();
    CompletesAStep("worker-0");
  }
  EXPECT_EQ(Exits("worker-1", 1).back(), "note worker-1 given up");
}

// It reports none itself, and none is done without it.
TEST_F(SupervisorTest, AWorkersStepIsProgressOfTheServers) {
  Want({"server-0", "worker-0"});
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Exits("server-0", 0, SIGKILL).back(), "note server-0 again in 200 ms");
    TickWhenDue();
    CompletesAStep("worker-0");
  }
}

// It has no lanes and so no steps of its own; the loop of crashes it may be in would be shorter.
TEST_F(SupervisorTest, ASpareThatRanThroughManyStepsOfTheOthersStartsAfresh) {
  Want({"worker-0", "worker-1"});
  for (int i = 0; i < 20; ++i) {
    now_ += std::chrono::minutes(10);
    CompletesAStep("worker-0");
    EXPECT_EQ(Exits("worker-1", 0, SIGKILL).back(), "note worker-1 again in 200 ms");
    TickWhenDue();
  }
}

// A cluster without a job has no steps.
TEST_F(SupervisorTest, OfTheCoordinatorOldFailuresAreForgotten) {
  Do(WantCoordinator{});
  for (int i = 0; i < 20; ++i) {
    now_ += std::chrono::minutes(16);
    EXPECT_THAT(Exits("coordinator", 1).back(), HasSubstr("again"));
    TickWhenDue();
  }
}

TEST_F(SupervisorTest, ACoordinatorThatCannotWorkForNowIsTriedWithoutEnd) {
  Do(WantCoordinator{});
  const Exit full{.code = 75,
                  .last_lines =
                      "2026-11-21T10:09:51.267Z info muster-coordinator cluster 7f\n"
                      "2026-11-21T10:09:51.268Z error muster-coordinator --dir: no space left"};
  std::vector<std::string> texts;
  for (int i = 0; i < 20; ++i) {
    const auto actions = supervisor_->Step(Exited{kCoordinatorKey, full}, now_);
    texts.push_back(std::get<NoteExit>(actions.at(0)).text);
    EXPECT_THAT(TickWhenDue(), ElementsAre("spawn coordinator"));
  }
  EXPECT_EQ(texts[0],
            "coordinator cannot work for now (--dir: no space left); it starts again in 0.2 s");
  EXPECT_THAT(texts[1], HasSubstr("again in 0.4 s"));
  EXPECT_THAT(texts.back(), HasSubstr("again in 5.0 s"));
  Do(SessionUp{});  // it works again
  EXPECT_THAT(Exits("coordinator", 1), ElementsAre("note coordinator again in 200 ms"));
}

// The reason is what is logged, in either format: the time before it would make each one new.
TEST_F(SupervisorTest, WhyACoordinatorCannotWorkIsItsLastMessage) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"2026-11-21T10:09:51.268Z error muster-coordinator --dir: no space left\n",
       "--dir: no space left"},
      {"2026-11-21T10:09:51.268Z info muster-coordinator leaves", "its log does not say why"},
      {R"({"time":"2026-11-21T10:09:51.268Z","level":"error","program":"muster-coordinator",)"
       R"("text":"--dir: \"x\" is full"})"
       "\n",
       R"(--dir: "x" is full)"},
      {R"({"time":"2026-11-21T10:09:51.268Z","text":7})",
       R"({"time":"2026-11-21T10:09:51.268Z","text":7})"},
      {"[1]", "[1]"},
      {"terminate called", "terminate called"},
      {"\n", "its log does not say why"},
  };
  for (const auto& [lines, reason] : cases) {
    supervisor_.emplace();
    Do(WantCoordinator{});
    const auto actions =
        supervisor_->Step(Exited{kCoordinatorKey, {.code = 75, .last_lines = lines}}, now_);
    EXPECT_EQ(
        std::get<NoteExit>(actions.at(0)).text,
        absl::StrCat("coordinator cannot work for now (", reason, "); it starts again in 0.2 s"));
  }
}

TEST_F(SupervisorTest, SpawnFailureIsAFailure) {
  Want({"worker-0"});
  const auto actions = supervisor_->Step(SpawnFailed{Key("worker-0"), "no such file"}, now_);
  ASSERT_EQ(actions.size(), 2u);
  EXPECT_EQ(std::get<ReportExit>(actions[0]).exited.cause, "no such file");
  EXPECT_EQ(std::get<NoteExit>(actions[1]).after, AfterExit::kStartsAgain);
  EXPECT_EQ(std::get<NoteExit>(actions[1]).text,
            "worker-0 could not be started: no such file; it starts again in 0.2 s");
}

// What the host does to a process says nothing about its program.
TEST_F(SupervisorTest, AHostWithoutRoomForAProcessIsNoCrashLoop) {
  Want({"worker-0"});
  const SpawnFailed no_room{Key("worker-0"), "Too many open files", true};
  const Time begin = now_;
  while (now_ - begin < std::chrono::minutes(59)) {
    ASSERT_THAT(Do(no_room).back(), HasSubstr("again"));
    TickWhenDue();
  }
  // It runs at last; its own failures are counted from the first one.
  for (int i = 0; i < 4; ++i) {
    ASSERT_THAT(Exits("worker-0", 1).back(), HasSubstr("again"));
    TickWhenDue();
  }
  EXPECT_EQ(Exits("worker-0", 1).back(), "note worker-0 given up");
}

TEST_F(SupervisorTest, AHostThatStaysWithoutRoomIsGivenUp) {
  Want({"worker-0"});
  const SpawnFailed no_room{Key("worker-0"), "No space left on device", true};
  Do(no_room);
  now_ += std::chrono::hours(1);
  EXPECT_THAT(Do(Tick{}), ElementsAre("spawn worker-0"));
  const auto actions = supervisor_->Step(no_room, now_);
  EXPECT_TRUE(std::get<ReportExit>(actions.at(0)).exited.gave_up);
  EXPECT_THAT(std::get<NoteExit>(actions.at(1)).text, HasSubstr("no room for it for too long"));
}

TEST_F(SupervisorTest, SigkillFromOutsideIsNoFailureOfAMemberThatHasTrained) {
  Want({"worker-0"});
  CompletesAStep("worker-0");
  for (int i = 0; i < 20; ++i) {
    ASSERT_THAT(Exits("worker-0", 0, SIGKILL).back(), HasSubstr("again"));
    TickWhenDue();
  }
  EXPECT_THAT(Exits("worker-0", 1).back(), HasSubstr("again"));
}

// A rewind has it do again what another one did: it works, and is killed for nothing of its own.
TEST_F(SupervisorTest, SigkillFromOutsideIsNoFailureOfAMemberThatHasDoneAStepAgain) {
  Want({"worker-0", "worker-1"});
  CompletesSteps("worker-0", 0, 6);
  CompletesSteps("worker-1", 2, 3);
  for (int i = 0; i < 20; ++i) {
    ASSERT_THAT(Exits("worker-1", 0, SIGKILL).back(), HasSubstr("again"));
    TickWhenDue();
    CompletesSteps("worker-1", 2, 3);
  }
}

// Before the first step of its first job, too: it has listened and read its journal.
TEST_F(SupervisorTest, SigkillFromOutsideIsNoFailureOfACoordinatorThatHasComeUp) {
  Do(WantCoordinator{});
  std::vector<std::string> notes;
  for (int i = 0; i < 8; ++i) {
    Do(SessionUp{});
    notes.push_back(Exits("coordinator", 0, SIGKILL).back());
    ASSERT_THAT(notes.back(), HasSubstr("again"));
    TickWhenDue();
  }
  EXPECT_THAT(
      notes, ElementsAre("note coordinator again in 200 ms", "note coordinator again in 400 ms",
                         "note coordinator again in 800 ms", "note coordinator again in 1600 ms",
                         "note coordinator again in 3200 ms", "note coordinator again in 5000 ms",
                         "note coordinator again in 5000 ms", "note coordinator again in 5000 ms"));
  // Its own failures are counted from the first one.
  for (int i = 0; i < 4; ++i) {
    ASSERT_THAT(Exits("coordinator", 1).back(), HasSubstr("again"));
    TickWhenDue();
  }
  EXPECT_EQ(Exits("coordinator", 1).back(), "note coordinator given up");
}

TEST_F(SupervisorTest, ACoordinatorThatIsKilledForAnHourIsGivenUp) {
  Do(WantCoordinator{});
  const Time begin = now_;
  while (now_ - begin < std::chrono::minutes(59)) {
    Do(SessionUp{});
    ASSERT_THAT(Exits("coordinator", 0, SIGKILL).back(), HasSubstr("again"));
    TickWhenDue();
    now_ += std::chrono::minutes(1);
  }
  now_ += std::chrono::minutes(2);
  EXPECT_EQ(Exits("coordinator", 0, SIGKILL).back(), "note coordinator given up");
}

TEST_F(SupervisorTest, SigkillOfACoordinatorThatNeverCameUpIsAFailure) {
  Do(WantCoordinator{});
  for (int i = 0; i < 4; ++i) {
    EXPECT_THAT(Exits("coordinator", 0, SIGKILL).back(), HasSubstr("again"));
    TickWhenDue();
  }
  EXPECT_EQ(Exits("coordinator", 0, SIGKILL).back(), "note coordinator given up");
}

// Killed once a day, on a cluster that has no job now.
TEST_F(SupervisorTest, SigkillOfACoordinatorThatRanForLongIsForgotten) {
  Do(WantCoordinator{});
  Do(SessionUp{});
  CompletesAStep("worker-0");
  for (int day = 0; day < 20; ++day) {
    now_ += std::chrono::hours(24);
    ASSERT_THAT(Exits("coordinator", 0, SIGKILL).back(), HasSubstr("again in 200 ms"));
    TickWhenDue();
  }
}

TEST_F(SupervisorTest, SigkillOfWhatNeverTrainedAndForMemoryAreFailures) {
  Want({"worker-0", "worker-1"});
  CompletesAStep("worker-1");
  const Exit out_of_memory{.signal = SIGKILL, .out_of_memory = true};
  for (int i = 0; i < 4; ++i) {
    EXPECT_THAT(Exits("worker-0", 0, SIGKILL).back(), HasSubstr("again"));
    EXPECT_THAT(Do(Exited{Key("worker-1"), out_of_memory}).back(), HasSubstr("again"));
    TickWhenDue();
  }
  EXPECT_EQ(Exits("worker-0", 0, SIGKILL).back(), "note worker-0 given up");
  EXPECT_EQ(Do(Exited{Key("worker-1"), out_of_memory}).back(), "note worker-1 given up");
}

TEST_F(SupervisorTest, StopsWhatIsWantedNoMore) {
  Want({"worker-0", "worker-1"});
  EXPECT_THAT(Want({"worker-0"}), ElementsAre("SIGCONT worker-1"));
  EXPECT_EQ(supervisor_->NextTick(), now_ + seconds(2))
      << "it leaves by itself, with time to do so";
  EXPECT_THAT(TickWhenDue(), ElementsAre("SIGTERM worker-1", "SIGCONT worker-1"));
  EXPECT_EQ(supervisor_->NextTick(), now_ + seconds(10));
  EXPECT_THAT(Exits("worker-1", 0, SIGTERM),
              ElementsAre("tell worker-1 killed by SIGTERM", "note worker-1 finished"));
  EXPECT_THAT(supervisor_->Running(), ElementsAre(Key("worker-0")));
}

TEST_F(SupervisorTest, HoldsProcessesOfSeveralJobsAndStopsAJobThatIsNotListed) {
  const JobProcesses one{"one", StartNumber(1), {{"worker-0", Role::kWorker}}};
  const JobProcesses two{"two", StartNumber(2), {{"worker-0", Role::kWorker}}};
  EXPECT_THAT(Do(WantMembers{Wanted{{one, two}}}), ElementsAre("spawn worker-0", "spawn worker-0"));
  EXPECT_THAT(Do(WantMembers{Wanted{{two}}}), ElementsAre("SIGCONT worker-0"));
  EXPECT_THAT(supervisor_->Running(),
              ElementsAre(ProcessKey{"one", "worker-0"}, ProcessKey{"two", "worker-0"}));
  supervisor_->Step(Exited{{"one", "worker-0"}, Exit{.code = 0}}, now_);
  EXPECT_THAT(supervisor_->Running(), ElementsAre(ProcessKey{"two", "worker-0"}));
}

// Two jobs with a worker of the same name.
class TwoJobsTest : public SupervisorTest {
 protected:
  static JobProcesses Job(const std::string& job) {
    return {job, StartNumber(1), {{"worker-0", Role::kWorker}}};
  }
  std::vector<std::string> WantBoth() { return Do(WantMembers{Wanted{{Job("one"), Job("two")}}}); }
  std::vector<std::string> ExitsOf(const std::string& job, int code) {
    return Do(Exited{{job, "worker-0"}, Exit{.code = code}});
  }
};

TEST_F(TwoJobsTest, ACrashLoopOfOneJobDoesNotCountForTheOther) {
  WantBoth();
  for (int i = 0; i < 4; ++i) {
    ExitsOf("one", 1);
    TickWhenDue();
  }
  EXPECT_THAT(ExitsOf("one", 1),
              ElementsAre("tell worker-0 exit code 1 gave up", "note worker-0 given up"));
  EXPECT_THAT(ExitsOf("two", 1),
              ElementsAre("tell worker-0 exit code 1", "note worker-0 again in 200 ms"));
}

TEST_F(TwoJobsTest, AStepOfOneJobIsNoProgressOfTheOther) {
  WantBoth();
  ExitsOf("one", 1);
  TickWhenDue();
  ExitsOf("two", 1);
  TickWhenDue();
  Do(Progressed{{"two", "worker-0"}, Step(1)});
  EXPECT_THAT(ExitsOf("one", 1).back(), "note worker-0 again in 400 ms");
  EXPECT_THAT(ExitsOf("two", 1).back(), "note worker-0 again in 200 ms");
}

TEST_F(TwoJobsTest, AJobThatIsWantedAgainBeginsAfresh) {
  WantBoth();
  for (int i = 0; i < 5; ++i) {
    ExitsOf("one", 1);
    if (i < 4) TickWhenDue();
  }
  EXPECT_THAT(WantBoth(), IsEmpty()) << "it is given up as long as it is wanted";
  Do(WantMembers{Wanted{{Job("two")}}});
  EXPECT_FALSE(supervisor_->Has("one"));
  EXPECT_THAT(WantBoth(), ElementsAre("spawn worker-0"));
  EXPECT_THAT(ExitsOf("one", 1).back(), "note worker-0 again in 200 ms");
}

TEST_F(TwoJobsTest, AFaultKeepsDownTheProcessOfItsJobOnly) {
  WantBoth();
  Do(KeepDown{{"one", "worker-0"}});
  EXPECT_THAT(ExitsOf("one", 1).back(), "note worker-0 kept down");
  EXPECT_THAT(ExitsOf("two", 1).back(), "note worker-0 again in 200 ms");
}

TEST_F(TwoJobsTest, AnIdOfNoJobCannotBeTheCoordinator) {
  EXPECT_THAT(
      Do(WantMembers{Wanted{{JobProcesses{"", StartNumber(1), {{"coordinator", Role::kWorker}}}}}}),
      IsEmpty());
  Do(WantCoordinator{});
  Do(WantMembers{Wanted{}});
  EXPECT_THAT(supervisor_->Running(), ElementsAre(kCoordinatorKey));
}

TEST_F(SupervisorTest, WhoLeavesByItselfGetsNoSignal) {
  Want({"worker-0"});
  Want({});
  EXPECT_THAT(supervisor_->Running(), ElementsAre(Key("worker-0")));
  EXPECT_THAT(Exits("worker-0", 0).back(), "note worker-0 finished");
  EXPECT_EQ(supervisor_->NextTick(), std::nullopt);
}

TEST_F(SupervisorTest, KillsWhatDoesNotStopInTime) {
  Want({"worker-0"});
  Want({});
  TickWhenDue();
  EXPECT_THAT(TickWhenDue(), ElementsAre("SIGKILL worker-0"));
  EXPECT_GT(supervisor_->NextTick(), now_);  // no busy loop until the exit is seen
}

TEST_F(SupervisorTest, WantedAgainWhileStopping) {
  Want({"worker-0"});
  Want({});
  EXPECT_THAT(Want({"worker-0"}), IsEmpty());
  EXPECT_THAT(Exits("worker-0", 75).back(), "note worker-0 again in 200 ms");
  EXPECT_THAT(TickWhenDue(), ElementsAre("spawn worker-0"));
}

// The agent did not hear that the job had ended, only that it is wanted again.
TEST_F(SupervisorTest, WantedAgainAfterItLeft) {
  Want({"worker-0"});
  Exits("worker-0", kExitLater);
  EXPECT_THAT(Want({"worker-0"}), ElementsAre("spawn worker-0"));
  Exits("worker-0", kExitBadConfiguration);
  EXPECT_THAT(Want({"worker-0"}), IsEmpty()) << "what is hopeless stays so";
}

// ---- starts of a job

class StartsTest : public SupervisorTest {
 protected:
  static JobProcesses Job(const std::string& job, int64_t start,
                          const std::vector<std::string>& names = {"worker-0"}) {
    JobProcesses wanted{.job = job, .start = StartNumber(start), .processes = {}};
    for (const std::string& name : names) wanted.processes.push_back({name, Role::kWorker});
    return wanted;
  }
  std::vector<std::string> WantStart(int64_t start) {
    return Do(WantMembers{Wanted{{Job("j", start)}}});
  }
  std::vector<ProcessExited> Told(const SupervisorEvent& event) {
    std::vector<ProcessExited> told;
    for (const SupervisorAction& action : supervisor_->Step(event, now_))
      if (const auto* tell = std::get_if<ReportExit>(&action)) told.push_back(tell->exited);
    return told;
  }
};

// The job was stopped and submitted again while no session was there: that nothing was wanted in
// between, we have not heard.
TEST_F(StartsTest, WhoLeftOneStartBeginsTheNext) {
  for (const int code : {kExitDone, kExitStopped, kExitLater, kExitBadData}) {
    supervisor_.emplace();
    WantStart(1);
    Exits("worker-0", code);
    EXPECT_THAT(WantStart(2), ElementsAre("spawn worker-0")) << code;
  }
}

TEST_F(StartsTest, WhatWasGivenUpIsNotToldToTheNextStart) {
  WantStart(1);
  for (int i = 0; i < 5; ++i) {
    Exits("worker-0", 1);
    if (i < 4) TickWhenDue();
  }
  EXPECT_THAT(Told(SessionUp{}), testing::SizeIs(1));
  EXPECT_THAT(WantStart(2), ElementsAre("spawn worker-0"));
  EXPECT_THAT(Told(SessionUp{}), IsEmpty());
  EXPECT_EQ(Exits("worker-0", 1).back(), "note worker-0 again in 200 ms") << "no failures before";
}

TEST_F(StartsTest, TheNextBeginsWhenTheProcessOfTheOneBeforeIsGone) {
  WantStart(1);
  EXPECT_THAT(WantStart(2), ElementsAre("SIGCONT worker-0"));
  EXPECT_EQ(supervisor_->NextTick(), now_ + seconds(2)) << "nothing is due before";
  EXPECT_THAT(TickWhenDue(), ElementsAre("SIGTERM worker-0", "SIGCONT worker-0"));
  EXPECT_THAT(Exits("worker-0", kExitBadData),
              ElementsAre("tell worker-0 exit code 65 (bad data)", "note worker-0 finished",
                          "spawn worker-0"));
  EXPECT_THAT(supervisor_->Running(), ElementsAre(Key("worker-0")));
  EXPECT_EQ(supervisor_->NextTick(), std::nullopt);
}

TEST_F(StartsTest, AnExitIsToldOfTheStartThatItWasOf) {
  WantStart(1);
  WantStart(2);
  const auto first = Told(Exited{Key("worker-0"), Exit{.code = 1}});
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].start, StartNumber(1));
  const auto second = Told(Exited{Key("worker-0"), Exit{.code = 1}});
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].start, StartNumber(2));
}

TEST_F(StartsTest, WhatWorkersOfTheStartsBeforeHadRunIsToldAgain) {
  for (int64_t start = 1; start <= 3; ++start) {
    WantStart(start);
    const LaneCount lanes{.incarnation = {.hi = 1, .lo = static_cast<uint64_t>(start)}, .total = 7};
    supervisor_->Step(Exited{Key("worker-0"), Exit{.code = kExitStopped, .lanes = lanes}}, now_);
  }
  WantStart(4);
  std::vector<std::pair<int64_t, uint64_t>> told;
  for (const ProcessExited& exited : Told(SessionUp{}))
    told.emplace_back(exited.start.value(), exited.lanes.incarnation.lo);
  EXPECT_THAT(told, ElementsAre(testing::Pair(1, 1u), testing::Pair(2, 2u), testing::Pair(3, 3u)));
}

TEST_F(StartsTest, WhatIsKeptDownStaysSoInTheNextStartOnly) {
  WantStart(1);
  WantStart(2);
  Do(KeepDown{Key("worker-0")});
  EXPECT_THAT(Exits("worker-0", 0, SIGKILL).back(), "note worker-0 finished");
  EXPECT_THAT(Do(Release{Key("worker-0")}), ElementsAre("spawn worker-0"));
}

// ---- slots

TEST_F(StartsTest, AMemberIsStartedWhenASlotIsFreeOfWhatIsLetGo) {
  supervisor_.emplace(SupervisorOptions{.slots = 2});
  Do(WantCoordinator{});
  Do(WantMembers{Wanted{{Job("one", 1, {"worker-0", "worker-1"})}}});
  EXPECT_THAT(Do(WantMembers{Wanted{{Job("two", 2, {"worker-0", "worker-1"})}}}),
              ElementsAre("SIGCONT worker-0", "SIGCONT worker-1"));
  EXPECT_EQ(supervisor_->NextTick(), now_ + seconds(2));
  EXPECT_EQ(Do(Exited{{"one", "worker-1"}, Exit{.code = 0}}).back(), "spawn worker-0");
  EXPECT_THAT(TickWhenDue(), ElementsAre("SIGTERM worker-0", "SIGCONT worker-0"));
  EXPECT_THAT(TickWhenDue(), ElementsAre("SIGKILL worker-0")) << "so the wait has an end";
  EXPECT_EQ(Do(Exited{{"one", "worker-0"}, Exit{.signal = SIGKILL}}).back(), "spawn worker-1");
  EXPECT_EQ(supervisor_->NextTick(), std::nullopt);
}

// An agent that came back with fewer slots holds what it is told to hold.
TEST_F(StartsTest, MoreThanTheSlotsAreStartedWhereNothingIsLetGo) {
  supervisor_.emplace(SupervisorOptions{.slots = 1});
  EXPECT_THAT(Do(WantMembers{Wanted{{Job("one", 1, {"worker-0", "worker-1"})}}}),
              ElementsAre("spawn worker-0", "spawn worker-1"));
}

TEST_F(StartsTest, WhoFinishedAndIsWantedStillHasItsPlace) {
  supervisor_.emplace(SupervisorOptions{.slots = 2});
  Do(WantMembers{Wanted{{Job("a", 1), Job("c", 2)}}});
  Do(WantMembers{Wanted{{Job("a", 1), Job("d", 3)}}});
  Do(Exited{{"a", "worker-0"}, Exit{.code = kExitDone}});
  EXPECT_THAT(supervisor_->Running(), ElementsAre(ProcessKey{"c", "worker-0"}));
  Do(WantMembers{Wanted{{Job("a", 1), Job("d", 3)}}});
  EXPECT_THAT(supervisor_->Running(),
              ElementsAre(ProcessKey{"a", "worker-0"}, ProcessKey{"c", "worker-0"}));
}

// "a" hangs as it leaves; the place of "b", whose worker crashes meanwhile, is not given to "c".
TEST_F(StartsTest, WhatAnotherJobLetsGoOfHoldsUpNobodyWhoHasAPlace) {
  supervisor_.emplace(SupervisorOptions{.slots = 2});
  Do(WantMembers{Wanted{{Job("a", 1), Job("b", 2)}}});
  Do(WantMembers{Wanted{{Job("b", 2), Job("c", 3)}}});
  Do(Exited{{"b", "worker-0"}, Exit{.signal = SIGKILL}});
  EXPECT_THAT(supervisor_->Running(), ElementsAre(ProcessKey{"a", "worker-0"}));
  now_ += milliseconds(200);
  Do(Tick{});
  EXPECT_THAT(supervisor_->Running(),
              ElementsAre(ProcessKey{"a", "worker-0"}, ProcessKey{"b", "worker-0"}));
  Do(Exited{{"a", "worker-0"}, Exit{.code = kExitStopped}});
  EXPECT_THAT(supervisor_->Running(),
              ElementsAre(ProcessKey{"b", "worker-0"}, ProcessKey{"c", "worker-0"}));
}

TEST_F(SupervisorTest, StopsAlsoWhoIsAboutToLeave) {
  Want({"worker-0"});
  Want({});
  EXPECT_THAT(Do(StopAll{}), ElementsAre("SIGTERM worker-0", "SIGCONT worker-0"));
}

TEST_F(SupervisorTest, StopsEverythingThenAtOnce) {
  Do(WantCoordinator{});
  Want({"worker-0"});
  EXPECT_THAT(Do(StopAll{}), ElementsAre("SIGTERM coordinator", "SIGCONT coordinator",
                                         "SIGTERM worker-0", "SIGCONT worker-0"));
  EXPECT_THAT(Do(StopAll{}), ElementsAre("SIGKILL coordinator", "SIGKILL worker-0"));
  EXPECT_THAT(Exits("coordinator", 0, SIGKILL), ElementsAre("note coordinator finished"));
  EXPECT_THAT(Exits("worker-0", 1),
              ElementsAre("tell worker-0 exit code 1", "note worker-0 finished"));
  EXPECT_THAT(supervisor_->Running(), IsEmpty());
  EXPECT_THAT(Want({"worker-0", "worker-1"}), IsEmpty());
  EXPECT_EQ(supervisor_->NextTick(), std::nullopt);
}

TEST_F(SupervisorTest, NothingComesBackOnceStopping) {
  Want({"worker-0"});
  Exits("worker-0", 1);
  Do(StopAll{});
  now_ += seconds(60);
  EXPECT_THAT(Do(Tick{}), IsEmpty());
  EXPECT_EQ(supervisor_->NextTick(), std::nullopt);
}

TEST_F(SupervisorTest, KeptDownUntilReleased) {
  Do(WantCoordinator{});
  Do(KeepDown{kCoordinatorKey});
  EXPECT_THAT(Exits("coordinator", 0, SIGKILL), ElementsAre("note coordinator kept down"));
  EXPECT_EQ(supervisor_->NextTick(), std::nullopt);
  now_ += seconds(60);
  EXPECT_THAT(Do(Tick{}), IsEmpty());
  EXPECT_THAT(Do(Release{kCoordinatorKey}), ElementsAre("spawn coordinator"));
}

TEST_F(SupervisorTest, ASessionLearnsWhatIsDownOnly) {
  Do(WantCoordinator{});
  Want({"worker-0", "worker-1", "worker-2"});
  Exits("worker-1", 0, SIGKILL);
  Exits("worker-2", 0, SIGKILL);
  TickWhenDue();  // both run again
  Exits("worker-2", 64);
  EXPECT_THAT(Do(SessionUp{}), ElementsAre("tell worker-2 exit code 64 (bad configuration)"));
}

TEST_F(SupervisorTest, ASessionLearnsWhatEndedWorkersHadRunAlsoWhenTheyRunAgain) {
  Want({"worker-0"});
  const auto ends = [&](uint64_t incarnation) {
    const LaneCount lanes{.incarnation = {.hi = 1, .lo = incarnation}, .total = 7};
    supervisor_->Step(Exited{Key("worker-0"), Exit{.signal = SIGKILL, .lanes = lanes}}, now_);
  };
  ends(2);
  TickWhenDue();
  supervisor_->Step(Exited{Key("worker-0"), Exit{.signal = SIGKILL}},
                    now_);  // before it could begin
  TickWhenDue();
  ends(3);
  TickWhenDue();
  std::vector<uint64_t> told;
  for (const SupervisorAction& action : supervisor_->Step(SessionUp{}, now_))
    told.push_back(std::get<ReportExit>(action).exited.lanes.incarnation.lo);
  EXPECT_THAT(told, ElementsAre(2u, 3u));
}

TEST_F(SupervisorTest, TellsWhatAWorkerHadRun) {
  Want({"worker-0"});
  const LaneCount lanes{.incarnation = {.hi = 1, .lo = 2}, .total = 7};
  const auto actions =
      supervisor_->Step(Exited{Key("worker-0"), Exit{.signal = SIGKILL, .lanes = lanes}}, now_);
  const LaneCount& told = std::get<ReportExit>(actions[0]).exited.lanes;
  EXPECT_EQ(told.incarnation, lanes.incarnation);
  EXPECT_EQ(told.total, 7);
}

TEST_F(SupervisorTest, NotesReadWell) {
  Do(WantCoordinator{});
  Want({"worker-0", "worker-1"});
  const auto text = [&](const ProcessKey& key, const Exit& exit) {
    return std::get<NoteExit>(supervisor_->Step(Exited{key, exit}, now_).back()).text;
  };
  EXPECT_EQ(text(Key("worker-0"), {.signal = SIGKILL}),
            "worker-0 was killed by SIGKILL; it starts again in 0.2 s");
  EXPECT_EQ(text(Key("worker-1"), {.code = 65}),
            "worker-1 ended with exit code 65 (bad data); it is not started again");
  EXPECT_EQ(text(kCoordinatorKey, {.signal = SIGKILL, .out_of_memory = true}),
            "coordinator ran out of memory; it starts again in 0.2 s");
}

TEST_F(SupervisorTest, WhyAProcessFailedIsSaidEachTimeItStartsAgain) {
  const std::string lines =
      "2026-11-21T10:09:51.267Z info muster-worker worker-0 makes its model\n"
      "2026-11-21T10:09:51.268Z error muster-worker worker-0 task mine throws: no lane\n";
  const struct {
    Exit exit;
    const char* text;
  } cases[] = {
      {{.code = 1, .last_lines = lines},
       "worker-0 ended with exit code 1: task mine throws: no lane; it starts again in 0.2 s"},
      {{.signal = SIGABRT, .last_lines = "terminate called\n"},
       "worker-0 was killed by SIGABRT: terminate called; it starts again in 0.2 s"},
      {{.code = 1}, "worker-0 ended with exit code 1; it starts again in 0.2 s"},
      // Whoever was ended had no last word.
      {{.signal = SIGKILL, .last_lines = lines},
       "worker-0 was killed by SIGKILL; it starts again in 0.2 s"},
      {{.code = kExitTerminated, .last_lines = lines},
       "worker-0 ended with exit code 143 (told to go by a signal); it starts again in 0.2 s"},
  };
  for (const auto& c : cases) {
    supervisor_.emplace();
    Want({"worker-0"});
    const auto actions = supervisor_->Step(Exited{Key("worker-0"), c.exit}, now_);
    EXPECT_EQ(std::get<NoteExit>(actions.at(1)).text, c.text);
  }
}

// One failure is not several.
TEST_F(SupervisorTest, HowOftenAProcessFailedIsSaidAsItIs) {
  for (const int32_t restarts : {0, 1}) {
    supervisor_.emplace();
    Wanted wanted;
    wanted.jobs.push_back({"j", StartNumber(1), {{"worker-0", Role::kWorker}}});
    wanted.jobs.back().restarts = restarts;
    Do(WantMembers{wanted});
    for (int i = 0; i < restarts; ++i) {
      Exits("worker-0", 1);
      TickWhenDue();
    }
    const auto actions = supervisor_->Step(Exited{Key("worker-0"), Exit{.signal = SIGKILL}}, now_);
    EXPECT_TRUE(std::get<ReportExit>(actions.at(0)).exited.gave_up);
    EXPECT_EQ(std::get<ReportExit>(actions.at(0)).exited.cause, "killed by SIGKILL");
    EXPECT_EQ(std::get<NoteExit>(actions.at(1)).text,
              restarts == 0
                  ? "worker-0 was killed by SIGKILL; its job allows no restarts, and it is not "
                    "started again"
                  : "worker-0 was killed by SIGKILL; it fails over and over and is not started "
                    "again");
  }
}

// Members need certificates.
class SigningTest : public SupervisorTest {
 protected:
  SigningTest() { supervisor_.emplace(SupervisorOptions{.slots = 2, .signs = true}); }
  std::vector<std::string> WantAt(int64_t place, const std::vector<std::string>& names) {
    JobProcesses job{.job = "j", .start = StartNumber(1), .processes = {}};
    for (const std::string& name : names)
      job.processes.push_back({name, Role::kWorker, PlacementNumber(place)});
    return Do(WantMembers{Wanted{{job}}});
  }
  std::vector<std::string> Sign(const std::string& name, int64_t place) {
    return Do(Signed{Key(name), PlacementNumber(place)});
  }
};

TEST_F(SigningTest, AMemberStartsOnceItHasACertificate) {
  EXPECT_THAT(Do(WantCoordinator{}), ElementsAre("spawn coordinator"));
  EXPECT_THAT(WantAt(7, {"worker-0"}), ElementsAre("sign worker-0 at 7"));
  EXPECT_FALSE(supervisor_->Runs(Key("worker-0")));
  EXPECT_TRUE(supervisor_->IsSigning(Key("worker-0")));
  EXPECT_EQ(supervisor_->NextTick(), std::nullopt) << "it waits as long as it takes";
  EXPECT_THAT(WantAt(7, {"worker-0"}), IsEmpty());
  EXPECT_THAT(Sign("worker-0", 6), IsEmpty()) << "of another place";
  EXPECT_THAT(Sign("worker-0", 7), ElementsAre("spawn worker-0"));
  EXPECT_TRUE(supervisor_->Runs(Key("worker-0")));
  EXPECT_THAT(Sign("worker-0", 7), IsEmpty());
}

TEST_F(SigningTest, ARestartAsksAgainAndWaitingCountsForNothing) {
  WantAt(7, {"worker-0"});
  Sign("worker-0", 7);
  for (int time = 0; time < 3; ++time) {
    Exits("worker-0", 1);
    EXPECT_THAT(TickWhenDue(), ElementsAre("sign worker-0 at 7"));
    now_ += std::chrono::hours(2);  // there is no coordinator
    EXPECT_THAT(Do(Tick{}), IsEmpty());
    EXPECT_THAT(Sign("worker-0", 7), ElementsAre("spawn worker-0"));
  }
}

TEST_F(SigningTest, WhatIsRefusedIsTriedAgainAndNoFailureOfTheProgram) {
  WantAt(7, {"worker-0"});
  for (int time = 0; time < 10; ++time) {  // more than it may fail
    EXPECT_THAT(Do(SignFailed{Key("worker-0"), PlacementNumber(7), "why"}),
                ElementsAre("tell worker-0 why", testing::StartsWith("note worker-0 again")));
    EXPECT_THAT(TickWhenDue(), ElementsAre("sign worker-0 at 7"));
  }
  EXPECT_THAT(Do(SignFailed{Key("worker-0"), PlacementNumber(6), "why"}), IsEmpty());
}

TEST_F(SigningTest, WhoWaitsForACertificateHasItsSlot) {
  EXPECT_THAT(WantAt(7, {"worker-0", "worker-1"}),
              ElementsAre("sign worker-0 at 7", "sign worker-1 at 7"));
  Sign("worker-0", 7);
  // The first is let go and still runs; there is no slot for the third before it has ended.
  EXPECT_THAT(WantAt(7, {"worker-1", "worker-2"}), ElementsAre("SIGCONT worker-0"));
  EXPECT_THAT(Sign("worker-1", 7), ElementsAre("spawn worker-1"));
  EXPECT_THAT(Exits("worker-0", 75), testing::Contains("sign worker-2 at 7"));
}

TEST_F(SigningTest, NothingStartsThatIsNotWantedAnyMore) {
  WantAt(7, {"worker-0", "worker-1"});
  EXPECT_THAT(WantAt(7, {"worker-1"}), IsEmpty());
  EXPECT_THAT(Sign("worker-0", 7), IsEmpty());
  EXPECT_THAT(WantAt(8, {"worker-1"}), ElementsAre("sign worker-1 at 8")) << "it has another place";
  EXPECT_THAT(Sign("worker-1", 7), IsEmpty());
  Do(KeepDown{Key("worker-1")});
  EXPECT_THAT(Sign("worker-1", 8), IsEmpty());
  EXPECT_THAT(Do(Release{Key("worker-1")}), ElementsAre("sign worker-1 at 8"));
  Do(StopAll{});
  EXPECT_THAT(Sign("worker-1", 8), IsEmpty());
  EXPECT_THAT(supervisor_->Running(), IsEmpty());
}

}  // namespace
}  // namespace muster::agent
