// The processes of one start of a job by themselves. What several starts and jobs have to do with
// each other is in supervisor_test.cc.
#include "agent/state/processes_of_job.h"

#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/signal_name.h"

namespace muster::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

const Time kNow = Time{} + seconds(100);
const Time kLater = kNow + seconds(20);  // every grace and the first back-off are over
const std::vector<ProcessWanted> kOne = {{"w", Role::kWorker}};

bool Anybody(const std::string&) { return true; }

std::string AfterName(const NoteExit& note) {
  switch (note.after) {
    case AfterExit::kStartsAgain:
      return absl::StrFormat("again in %d ms", note.delay / milliseconds(1));
    case AfterExit::kKeptDown: return "kept down";
    case AfterExit::kFinished: return "finished";
    case AfterExit::kGivenUp: return "given up";
  }
  return "?";
}

std::string Describe(const SupervisorAction& action) {
  if (const auto* spawn = std::get_if<Spawn>(&action)) return "spawn " + spawn->key.name;
  if (const auto* signal = std::get_if<SendSignal>(&action)) return SignalName(signal->signal);
  if (const auto* tell = std::get_if<ReportExit>(&action))
    return absl::StrCat("tell ", tell->exited.cause, tell->exited.gave_up ? ", gave up" : "");
  return AfterName(std::get<NoteExit>(action));
}

std::string Describe(const SupervisorActions& actions) {
  return absl::StrJoin(actions, "; ", [](std::string* out, const SupervisorAction& action) {
    *out += Describe(action);
  });
}

enum class At {
  kWaiting,
  kRunning,
  kLeaving,
  kWantedAgain,
  kStopping,
  kBackOff,
  kFinished,
  kGivenUp,
  kKeptDown,
};
const char* const kStates[] = {"waiting",  "running",  "leaving",  "wanted again while leaving",
                               "stopping", "back-off", "finished", "given up",
                               "kept down"};

ProcessesOfJob GroupAt(At at) {
  ProcessesOfJob group("j", StartNumber(1), SupervisorOptions());
  SupervisorActions out;
  group.Want(kOne, kNow, out);
  if (at != At::kWaiting) group.StartWhatIsDue(kNow, Anybody, out);
  if (at == At::kLeaving || at == At::kWantedAgain || at == At::kStopping)
    group.Want({}, kNow, out);
  if (at == At::kWantedAgain) group.Want(kOne, kNow, out);
  if (at == At::kStopping) group.OnTick(kNow + seconds(2), out);
  if (at == At::kBackOff) group.OnExit("w", {.code = 1}, kNow, out);
  if (at == At::kFinished) group.OnExit("w", {.code = 0}, kNow, out);
  if (at == At::kGivenUp) group.OnExit("w", {.code = 64}, kNow, out);
  if (at == At::kKeptDown) {
    group.KeepDown("w");
    group.OnExit("w", {.signal = SIGKILL}, kNow, out);
  }
  return group;
}

enum class Input {
  kWanted,
  kNotWanted,
  kStart,
  kStartLater,
  kReleasedAndStarted,
  kTickLater,
  kEnds,
  kFails,
  kIsHopeless,
  kSessionUp,
  kStop,
  kStopTwice,
};
const char* const kInputs[] = {"wanted",      "not wanted", "start", "start later",
                               "released",    "tick later", "ends",  "fails",
                               "is hopeless", "session up", "stop",  "stop twice"};

std::string Give(ProcessesOfJob& group, Input input) {
  SupervisorActions out;
  switch (input) {
    case Input::kWanted: group.Want(kOne, kNow, out); break;
    case Input::kNotWanted: group.Want({}, kNow, out); break;
    case Input::kStart: group.StartWhatIsDue(kNow, Anybody, out); break;
    case Input::kStartLater: group.StartWhatIsDue(kLater, Anybody, out); break;
    case Input::kReleasedAndStarted:
      group.Release("w", kNow);
      group.StartWhatIsDue(kNow, Anybody, out);
      break;
    case Input::kTickLater: group.OnTick(kLater, out); break;
    case Input::kEnds: group.OnExit("w", {.code = 0}, kNow, out); break;
    case Input::kFails: group.OnExit("w", {.code = 1}, kNow, out); break;
    case Input::kIsHopeless: group.OnExit("w", {.code = 64}, kNow, out); break;
    case Input::kSessionUp: group.OnSessionUp(out); break;
    case Input::kStop: group.Stop(kNow, out); break;
    case Input::kStopTwice:
      group.Stop(kNow, out);
      group.Stop(kNow, out);
      break;
  }
  return Describe(out);
}

std::string StateOf(const ProcessesOfJob& group) {
  if (group.over()) return "gone";
  if (group.LettingGo() > 0) return "let go";
  if (group.Runs("w")) return "runs";
  return group.HasPlace("w") ? "has a place" : "has none";
}

struct InputCase {
  At at;
  Input input;
  std::string said;
  std::string then;
};

TEST(ProcessesOfJob, WhatEachInputDoesInEachState) {
  const std::string done = "tell exit code 0 (done)", failed = "tell exit code 1",
                    hopeless = "tell exit code 64 (bad configuration)";
  const std::vector<InputCase> cases = {
      {At::kWaiting, Input::kWanted, "", "has none"},
      {At::kWaiting, Input::kNotWanted, "", "gone"},
      {At::kWaiting, Input::kStart, "spawn w", "runs"},
      {At::kWaiting, Input::kSessionUp, "", "has none"},
      {At::kWaiting, Input::kStop, "", "has none"},

      {At::kRunning, Input::kWanted, "", "runs"},
      {At::kRunning, Input::kNotWanted, "SIGCONT", "let go"},
      {At::kRunning, Input::kStartLater, "", "runs"},
      {At::kRunning, Input::kTickLater, "", "runs"},
      {At::kRunning, Input::kEnds, done + "; finished", "has a place"},
      {At::kRunning, Input::kFails, failed + "; again in 200 ms", "has a place"},
      {At::kRunning, Input::kIsHopeless, hopeless + "; given up", "has none"},
      {At::kRunning, Input::kSessionUp, "", "runs"},
      {At::kRunning, Input::kStop, "SIGTERM; SIGCONT", "runs"},
      {At::kRunning, Input::kStopTwice, "SIGTERM; SIGCONT; SIGKILL", "runs"},

      {At::kLeaving, Input::kWanted, "", "runs"},
      {At::kLeaving, Input::kNotWanted, "", "let go"},
      {At::kLeaving, Input::kStartLater, "", "let go"},
      {At::kLeaving, Input::kTickLater, "SIGTERM; SIGCONT", "let go"},
      {At::kLeaving, Input::kEnds, done + "; finished", "gone"},
      {At::kLeaving, Input::kFails, failed + "; finished", "gone"},
      {At::kLeaving, Input::kIsHopeless, hopeless + "; finished", "gone"},
      {At::kLeaving, Input::kStop, "SIGTERM; SIGCONT", "let go"},

      {At::kWantedAgain, Input::kNotWanted, "", "let go"},
      {At::kWantedAgain, Input::kStartLater, "", "runs"},
      // We were ending it, so its exit says nothing about it.
      {At::kWantedAgain, Input::kEnds, done + "; again in 200 ms", "has a place"},
      {At::kWantedAgain, Input::kIsHopeless, hopeless + "; again in 200 ms", "has a place"},

      {At::kStopping, Input::kWanted, "", "runs"},
      {At::kStopping, Input::kTickLater, "SIGKILL", "let go"},
      {At::kStopping, Input::kEnds, done + "; finished", "gone"},
      {At::kStopping, Input::kStop, "", "let go"},
      {At::kStopping, Input::kStopTwice, "SIGKILL", "let go"},

      {At::kBackOff, Input::kWanted, "", "has a place"},
      {At::kBackOff, Input::kNotWanted, "", "gone"},
      {At::kBackOff, Input::kStart, "", "has a place"},
      {At::kBackOff, Input::kStartLater, "spawn w", "runs"},
      {At::kBackOff, Input::kSessionUp, failed, "has a place"},
      {At::kBackOff, Input::kStop, "", "has a place"},

      {At::kFinished, Input::kWanted, "", "has a place"},
      {At::kFinished, Input::kNotWanted, "", "gone"},
      {At::kFinished, Input::kStartLater, "", "has a place"},
      {At::kFinished, Input::kSessionUp, done, "has a place"},

      {At::kGivenUp, Input::kWanted, "", "has none"},
      {At::kGivenUp, Input::kNotWanted, "", "gone"},
      {At::kGivenUp, Input::kStartLater, "", "has none"},
      {At::kGivenUp, Input::kReleasedAndStarted, "", "has none"},
      {At::kGivenUp, Input::kSessionUp, hopeless, "has none"},

      {At::kKeptDown, Input::kWanted, "", "has a place"},
      {At::kKeptDown, Input::kStartLater, "", "has a place"},
      {At::kKeptDown, Input::kReleasedAndStarted, "spawn w", "runs"},
      {At::kKeptDown, Input::kSessionUp, "tell killed by SIGKILL", "has a place"},
  };
  for (const InputCase& c : cases) {
    ProcessesOfJob group = GroupAt(c.at);
    const std::string what =
        absl::StrCat(kStates[static_cast<int>(c.at)], ", ", kInputs[static_cast<int>(c.input)]);
    EXPECT_EQ(Give(group, c.input), c.said) << what;
    EXPECT_EQ(StateOf(group), c.then) << what;
  }
}

TEST(ProcessesOfJob, StartsNothingOnceItStops) {
  for (const At at : {At::kWaiting, At::kBackOff, At::kKeptDown}) {
    ProcessesOfJob group = GroupAt(at);
    Give(group, Input::kStop);
    EXPECT_EQ(Give(group, Input::kReleasedAndStarted), "") << kStates[static_cast<int>(at)];
    EXPECT_EQ(Give(group, Input::kStartLater), "") << kStates[static_cast<int>(at)];
    EXPECT_EQ(group.NextTick(Anybody), std::nullopt) << kStates[static_cast<int>(at)];
  }
}

struct TickCase {
  At at;
  std::optional<Duration> next;  // after kNow, where everybody may start
  std::optional<Duration> next_if_nobody_may;
};

TEST(ProcessesOfJob, WhenItWantsTheNextTick) {
  const std::vector<TickCase> cases = {
      {At::kWaiting, seconds(0), std::nullopt},        {At::kRunning, std::nullopt, std::nullopt},
      {At::kLeaving, seconds(2), seconds(2)},          {At::kStopping, seconds(12), seconds(12)},
      {At::kBackOff, milliseconds(200), std::nullopt}, {At::kFinished, std::nullopt, std::nullopt},
      {At::kGivenUp, std::nullopt, std::nullopt},      {At::kKeptDown, std::nullopt, std::nullopt},
  };
  const auto after_now = [](std::optional<Time> tick) {
    return tick ? std::optional<Duration>(*tick - kNow) : std::nullopt;
  };
  for (const TickCase& c : cases) {
    const ProcessesOfJob group = GroupAt(c.at);
    EXPECT_EQ(after_now(group.NextTick(Anybody)), c.next) << kStates[static_cast<int>(c.at)];
    EXPECT_EQ(after_now(group.NextTick([](const std::string&) { return false; })),
              c.next_if_nobody_may)
        << kStates[static_cast<int>(c.at)];
  }
}

struct CoordinatorCase {
  Exit exit;
  std::string said;
};

// It is needed as long as the agent lives, and its exits concern no coordinator.
TEST(ProcessesOfJob, TheCoordinatorStartsAgainUnlessItIsHopeless) {
  const std::vector<CoordinatorCase> cases = {
      {{.code = 0}, "again in 200 ms"},  {{.code = 1}, "again in 200 ms"},
      {{.code = 75}, "again in 200 ms"}, {{.signal = SIGKILL}, "again in 200 ms"},
      {{.code = 64}, "given up"},        {{.code = 65}, "given up"},
  };
  for (const CoordinatorCase& c : cases) {
    ProcessesOfJob group("", StartNumber(0), SupervisorOptions());
    SupervisorActions out;
    group.Want({{"coordinator", Role::kWorker}}, kNow, out);
    group.StartWhatIsDue(kNow, Anybody, out);
    out.clear();
    group.OnExit("coordinator", c.exit, kNow, out);
    EXPECT_EQ(Describe(out), c.said) << CauseOf(c.exit);
  }
}

TEST(ProcessesOfJob, AsksOnlyForThoseWhoAreDue) {
  ProcessesOfJob group = GroupAt(At::kBackOff);
  SupervisorActions out;
  group.Want({{"w", Role::kWorker}, {"x", Role::kServer}}, kNow, out);
  std::vector<std::string> asked;
  const auto nobody = [&](const std::string& name) {
    asked.push_back(name);
    return false;
  };
  group.StartWhatIsDue(kNow, nobody, out);
  EXPECT_THAT(asked, ElementsAre("x"));
  EXPECT_THAT(out, IsEmpty());
  EXPECT_EQ(group.Places(), 1u) << "x has not run yet";
}

Exit AfterLanes(uint64_t life) {
  Exit exit{.code = 1};
  exit.lanes.incarnation = {life, 1};
  return exit;
}

// The oldest are forgotten first, those of earlier starts before those of this one.
TEST(ProcessesOfJob, TellsABoundedNumberOfEnds) {
  constexpr size_t kMost = 1024;
  std::deque<ProcessExited> before(kMost);
  for (size_t i = 0; i < kMost; ++i) before[i].lanes.incarnation = {i + 1, 2};
  ProcessesOfJob group("j", StartNumber(2), SupervisorOptions(), before);
  SupervisorActions out;
  group.Want(kOne, kNow, out);
  for (uint64_t life = 1; life <= 20; ++life) {
    group.StartWhatIsDue(kNow + seconds(static_cast<int64_t>(life) * 100), Anybody, out);
    group.OnProgress("w", Step(static_cast<int64_t>(life)), kNow);
    group.OnExit("w", AfterLanes(life), kNow + seconds(static_cast<int64_t>(life) * 100), out);
  }
  const std::deque<ProcessExited> ends = group.EndsToTell();
  ASSERT_EQ(ends.size(), kMost);
  EXPECT_EQ(ends.front().lanes.incarnation, (Incarnation{17, 2})) << "16 of this start are kept";
  EXPECT_EQ(ends[kMost - 16].lanes.incarnation, (Incarnation{5, 1}));
  EXPECT_EQ(ends.back().lanes.incarnation, (Incarnation{20, 1}));
  EXPECT_EQ(ends.back().start, StartNumber(2));
  EXPECT_EQ(ends.back().name, "w");
}

}  // namespace
}  // namespace muster::agent
