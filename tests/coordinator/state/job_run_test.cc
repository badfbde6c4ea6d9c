// One started job by itself: what it holds, what it gives back. Jobs from their start to their end
// are in coordinator_test.cc and tests/scenarios.
#include "coordinator/state/job_run.h"

#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/domain/samples.h"
#include "lib/domain/validation.h"
#include "tests/coordinator/state/actions_of.h"
#include "tests/coordinator/state/desk.h"

namespace muster::coordinator {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

const Time kNow{seconds(1000)};
const StartNumber kFirst(1);

StoredJob Queued(int32_t min, int32_t max, int32_t servers = 0) {
  StoredJob job;
  job.journal.id = "job";
  job.journal.spec = SpecOf(min, max);
  job.journal.spec.runtime.servers = servers;
  job.journal.resumes = true;
  return job;
}

JobRun RunOf(StoredJob job) {
  return JobRun({"cluster", TermNumber(3), Settings()}, std::move(job), kNow);
}

Join JoinOf(const MemberId& id) {
  Join join;
  join.job = "job";
  join.start = kFirst;
  join.id = id;
  join.environment = Environment();
  return join;
}

TEST(JobRun, HoldsTheSlotsThatItWasGranted) {
  JobRun run = RunOf(Queued(1, 8, 2));
  run.Handle(StartRun{kFirst, PlacesOf(3, 2)}, kNow);
  EXPECT_EQ(run.Places().placed.size(), 5u);
  std::vector<std::string> names;
  const std::map<std::string, JobProcesses> by_host = run.ProcessesByHost();
  if (const auto ours = by_host.find(""); ours != by_host.end())
    for (const ProcessWanted& process : ours->second.processes) names.push_back(process.name);
  EXPECT_THAT(names, ElementsAre("server-0", "server-1", "worker-0", "worker-1", "worker-2"));
  EXPECT_EQ(run.journal().phase, JobPhase::kChecking);
}

TEST(JobRun, GivesBackWhatTheNextOneIsMadeOf) {
  JobRun run = RunOf(Queued(1, 1));
  run.Handle(StartRun{kFirst, PlacesOf(1)}, kNow);
  run.Handle(MemberSays{kA, JoinOf(kA)}, kNow);
  EXPECT_TRUE(run.HasMembers());
  run.Handle(Cancel{"job"}, kNow);
  ASSERT_TRUE(run.ended());
  const StoredJob stored = std::move(run).PutToRest();
  EXPECT_EQ(stored.journal.phase, JobPhase::kCancelled);
  EXPECT_TRUE(stored.journal.environment.has_value());
  JobRun next = RunOf(stored);
  EXPECT_THAT(next.Status().members, IsEmpty()) << "nothing of the life before is left";
}

// A heartbeat changes nothing that is decided, so nothing comes out of it.
TEST(JobRun, AHeartbeatAsksForNothing) {
  JobRun run = RunOf(Queued(1, 1));
  run.Handle(StartRun{kFirst, PlacesOf(1)}, kNow);
  run.Handle(MemberSays{kA, JoinOf(kA)}, kNow);
  const ViewNumber number = run.journal().number;
  run.Handle(MemberSays{kA, Sealed{number, {}}}, kNow);
  run.Handle(MemberSays{kA, HoldsBase{number, 0}}, kNow);
  ASSERT_EQ(run.journal().phase, JobPhase::kRunning);
  EXPECT_THAT(run.Handle(MemberSays{kA, Alive{Step(1), "lane 1"}}, kNow), IsEmpty());
  EXPECT_THAT(run.Handle(Tick{}, kNow), IsEmpty());
  EXPECT_EQ(run.Status().members.at(0).phase, "lane 1");
}

// Seal, plan and view are the same for all: one message for any number of members.
TEST(JobRun, SaysTheSameToAllMembersOnce) {
  JobRun run = RunOf(Queued(2, 2));
  run.Handle(StartRun{kFirst, PlacesOf(2)}, kNow);
  run.Handle(MemberSays{kA, JoinOf(kA)}, kNow);
  auto actions = run.Handle(MemberSays{kB, JoinOf(kB)}, kNow);
  ASSERT_EQ(Of<ToMembers>(actions).size(), 1u);
  EXPECT_THAT(Of<ToMembers>(actions)[0].members, ElementsAre(kA, kB));
  const ViewNumber number = run.journal().number;
  run.Handle(MemberSays{kA, Sealed{number, {}}}, kNow);
  actions = run.Handle(MemberSays{kB, Sealed{number, {}}}, kNow);
  ASSERT_EQ(Of<ToMembers>(actions).size(), 1u);
  EXPECT_TRUE(std::holds_alternative<Heal>(Of<ToMembers>(actions)[0].message));
  EXPECT_THAT(Of<ToMember>(actions), IsEmpty());
}

// ---- what each input does in each state

enum class At { kChecking, kSealing, kHealing, kRunning, kStopping };
const char* const kStates[] = {"checking", "sealing", "healing", "running", "stopping"};

// Two workers, 0 and 1.
JobRun RunAt(At at) {
  JobRun run = RunOf(Queued(2, 2));
  run.Handle(StartRun{kFirst, PlacesOf(2)}, kNow);
  if (at >= At::kSealing)
    for (const MemberId& id : {kA, kB}) run.Handle(MemberSays{id, JoinOf(id)}, kNow);
  const ViewNumber number = run.journal().number;
  if (at >= At::kHealing)
    for (const MemberId& id : {kA, kB}) run.Handle(MemberSays{id, Sealed{number, {}}}, kNow);
  if (at >= At::kRunning)
    for (const MemberId& id : {kA, kB}) run.Handle(MemberSays{id, HoldsBase{number, 0}}, kNow);
  if (at == At::kStopping) run.Handle(Stop{"job"}, kNow);
  return run;
}

std::string NameOf(const FromCoordinator& message) {
  struct Name {
    std::string operator()(const JobIs&) { return "job is"; }
    std::string operator()(const Seal&) { return "seal"; }
    std::string operator()(const Heal&) { return "heal"; }
    std::string operator()(const Activate&) { return "activate"; }
    std::string operator()(const ViewStands&) { return "stands"; }
    std::string operator()(const GiveCommand&) { return "command"; }
    std::string operator()(const MeasureState&) { return "measure"; }
    std::string operator()(const AckMeasured&) { return "have the measure"; }
    std::string operator()(const GiveMeasure&) { return "give the measure"; }
    std::string operator()(const SpoolFrom&) { return "spool"; }
    std::string operator()(const AckSpooled&) { return "it is spooled"; }
    std::string operator()(const StreamIs&) { return "the stream"; }
    std::string operator()(const AckRecords&) { return "have records"; }
    std::string operator()(const AckSegments&) { return "have segments"; }
    std::string operator()(const Leave& leave) { return absl::StrCat("leave ", leave.exit_code); }
  };
  return std::visit(Name(), message);
}

std::string Number(const MemberId& member) { return member.name.substr(member.name.size() - 1); }

std::string Describe(const Action& action) {
  if (std::holds_alternative<PersistJob>(action)) return "persist";
  if (const auto* announce = std::get_if<Announce>(&action)) return "say " + announce->event;
  if (std::holds_alternative<EndSession>(action)) return "end the session";
  if (const auto* to = std::get_if<ToMember>(&action))
    return absl::StrCat(NameOf(to->message), " to ", Number(to->member));
  if (const auto* to = std::get_if<ToMembers>(&action))
    return absl::StrCat(NameOf(to->message), " to ",
                        absl::StrJoin(to->members, " and ",
                                      [](std::string* out, const auto& m) { *out += Number(m); }));
  return absl::StrCat("action ", action.index());
}

std::string Describe(const std::vector<Action>& actions) {
  return absl::StrJoin(actions, ", ",
                       [](std::string* out, const Action& action) { *out += Describe(action); });
}

MemberSays Says(const MemberId& member, ToCoordinator message) {
  return {member, std::move(message)};
}

Join Back(const MemberId& id, ViewNumber active) {
  Join join = JoinOf(id);
  join.term = TermNumber(3);
  join.sealed = ViewNumber(1);
  join.active = active;
  return join;
}

ExitTold ExitOf(const MemberId& member, int code, StartNumber start = kFirst) {
  ProcessExited exited;
  exited.job = "job";
  exited.start = start;
  exited.name = member.name;
  exited.exit_code = code;
  exited.cause = absl::StrCat("exit code ", code);
  exited.lanes.incarnation = member.incarnation;
  return {exited};
}

// In a crash loop; the agent does not know which life was the last.
ExitTold GaveUp(const MemberId& member, StartNumber start = kFirst) {
  ExitTold told = ExitOf(member, 1, start);
  told.exited.lanes = {};
  told.exited.gave_up = true;
  return told;
}

SegmentWritten SegmentOf(LineageNumber lineage) {
  SegmentWritten written;
  written.id = 7;
  written.lineage = lineage;
  return written;
}

struct InputCase {
  At at;
  std::string what;
  JobInput input;
  JobPhase then;
  std::string said;
};

void Check(const std::vector<InputCase>& cases) {
  for (const InputCase& c : cases) {
    JobRun run = RunAt(c.at);
    const std::string what = absl::StrCat(kStates[static_cast<int>(c.at)], ": ", c.what);
    EXPECT_EQ(Describe(run.Handle(c.input, kNow)), c.said) << what;
    EXPECT_EQ(PhaseName(run.journal().phase), PhaseName(c.then)) << what;
  }
}

constexpr ViewNumber kFirstView(1), kOtherView(2);
constexpr LineageNumber kOtherLineage(9);

TEST(JobRun, WhatEndsItInEachState) {
  constexpr char kAtOnce[] = "persist, say done";
  constexpr char kAllLeave[] = "persist, say done, leave 67 to 0 and 1";
  Check({
      {At::kChecking, "cancelled", Cancel{"job"}, JobPhase::kCancelled, kAtOnce},
      {At::kChecking, "stopped", Stop{"job"}, JobPhase::kStopped, kAtOnce},
      {At::kChecking, "a crash loop", GaveUp(kA), JobPhase::kFailed, kAtOnce},
      {At::kChecking, "bad data", ExitOf(kA, 65), JobPhase::kFailed, "persist, persist, say done"},
      {At::kSealing, "cancelled", Cancel{"job"}, JobPhase::kCancelled, kAllLeave},
      {At::kSealing, "stopped", Stop{"job"}, JobPhase::kStopped, kAllLeave},
      {At::kHealing, "cancelled", Cancel{"job"}, JobPhase::kCancelled, kAllLeave},
      {At::kHealing, "stopped", Stop{"job"}, JobPhase::kStopped, kAllLeave},
      {At::kRunning, "cancelled", Cancel{"job"}, JobPhase::kCancelled, kAllLeave},
      {At::kRunning, "a crash loop", GaveUp(kA), JobPhase::kFailed,
       "persist, say done, leave 1 to 0 and 1"},
      {At::kRunning, "bad data", ExitOf(kA, 65), JobPhase::kFailed,
       "persist, persist, say done, leave 65 to 0 and 1"},
      {At::kStopping, "cancelled", Cancel{"job"}, JobPhase::kCancelled, kAllLeave},
  });
}

TEST(JobRun, WhatMovesItOnInEachState) {
  Check({
      {At::kChecking, "the first joins", Says(kA, JoinOf(kA)), JobPhase::kStarting,
       "persist, say state, say process, say state"},
      {At::kRunning, "a member is lost", ExitOf(kA, 1), JobPhase::kRecovering,
       "persist, persist, say state, say view, seal to 1"},
      {At::kHealing, "a base failed that is no checkpoint",
       Says(kA, BaseFailed{kFirstView, "no memory", false}), JobPhase::kStarting,
       "leave 1 to 0, say state"},
      {At::kRunning, "one more than it may have", Says(kC, JoinOf(kC)), JobPhase::kRunning,
       "say process"},
      {At::kRunning, "it is to stop", Stop{"job"}, JobPhase::kStopping,
       "persist, say state, persist, command to 0"},
  });
}

// A member whose session is new is told where things stand.
TEST(JobRun, WhoComesBackIsToldWhereThingsStand) {
  Check({
      {At::kSealing, "it comes back", Says(kA, JoinOf(kA)), JobPhase::kStarting, "seal to 0"},
      {At::kHealing, "it comes back", Says(kA, JoinOf(kA)), JobPhase::kStarting, "heal to 0"},
      {At::kRunning, "the view was not told to it", Says(kB, Back(kB, {})), JobPhase::kRunning,
       "activate to 1"},
      {At::kRunning, "it is active", Says(kB, Back(kB, kFirstView)), JobPhase::kRunning,
       "stands to 1"},
      {At::kStopping, "it is active", Says(kB, Back(kB, kFirstView)), JobPhase::kStopping,
       "stands to 1, command to 0"},
      {At::kRunning, "it knows a later view",
       Says(kB,
            [] {
              Join join = JoinOf(kB);
              join.sealed = kOtherView;
              return join;
            }()),
       JobPhase::kRunning, "end the session, say process"},
  });
}

TEST(JobRun, WhatIsOfNoConcernChangesNothing) {
  const Manifest other{.job = "job", .lineage = kOtherLineage, .step = Step(3)};
  Check({
      {At::kChecking, "a stranger speaks", Says(kA, Sealed{kFirstView, {}}), JobPhase::kChecking,
       ""},
      {At::kChecking, "a stranger's session breaks", MemberDown{kA}, JobPhase::kChecking, ""},
      {At::kChecking, "a crash loop of another start", GaveUp(kA, StartNumber(9)),
       JobPhase::kChecking, ""},
      {At::kChecking, "time passes", Tick{}, JobPhase::kChecking, ""},
      {At::kSealing, "an answer for another view", Says(kA, Sealed{kOtherView, {}}),
       JobPhase::kStarting, ""},
      {At::kSealing, "the base is held too early", Says(kA, HoldsBase{kFirstView, 0}),
       JobPhase::kStarting, ""},
      {At::kSealing, "a session breaks", MemberDown{kA}, JobPhase::kStarting, ""},
      {At::kSealing, "a base failed before the plan", Says(kA, BaseFailed{kFirstView, "", true}),
       JobPhase::kStarting, ""},
      {At::kHealing, "an answer after the plan", Says(kA, Sealed{kFirstView, {}}),
       JobPhase::kStarting, ""},
      {At::kRunning, "the base is held again", Says(kA, HoldsBase{kFirstView, 0}),
       JobPhase::kRunning, ""},
      {At::kRunning, "a session breaks", MemberDown{kA}, JobPhase::kRunning, ""},
      {At::kRunning, "a part of another lineage was lost",
       Says(kA, SegmentFailed{kOtherLineage, Step(3), "disk"}), JobPhase::kRunning, ""},
      {At::kRunning, "a checkpoint of another lineage is committed", ManifestCommitted{other},
       JobPhase::kRunning, ""},
      {At::kRunning, "a digest that nobody asked for", DigestDone{"job", kFirst, "d", ""},
       JobPhase::kRunning, ""},
      {At::kStopping, "it is to stop again", Stop{"job"}, JobPhase::kStopping, ""},
      {At::kStopping, "a crash loop of another start", GaveUp(kA, StartNumber(9)),
       JobPhase::kStopping, ""},
  });
}

// Else its writer would tell of it for ever.
TEST(JobRun, WhatIsOfNoUseIsAcknowledgedAllTheSame) {
  Check({
      {At::kRunning, "a part of another lineage", Says(kA, SegmentOf(kOtherLineage)),
       JobPhase::kRunning, "have segments to 0"},
      {At::kRunning, "records that are none", Says(kA, Records{}), JobPhase::kRunning,
       "have records to 0"},
      {At::kChecking, "a part of a stranger", Says(kA, SegmentOf(kOtherLineage)),
       JobPhase::kChecking, ""},
  });
}

// ---- what it leaves

struct RestCase {
  std::string what;
  JobInput end;
  JobPhase phase;
  bool keeps_steps;
};

// A job that can go on keeps the last steps, since steps that are done again are compared.
TEST(JobRun, WhoCanGoOnKeepsItsLastSteps) {
  const std::vector<RestCase> cases = {
      {"cancelled", Cancel{"job"}, JobPhase::kCancelled, false},
      {"failed", GaveUp(kA), JobPhase::kFailed, true},
  };
  for (const RestCase& c : cases) {
    JobRun run = RunAt(At::kRunning);
    StepRecord record;
    record.lineage = run.journal().lineages.back().number;
    record.view = run.journal().number;
    record.samples = StepSamples(run.journal().spec.training, Environment().samples, record.step);
    record.weight = static_cast<int64_t>(record.samples.count);
    run.Handle(Says(kA, Records{{record}}), kNow);
    ASSERT_EQ(run.Status().step, Step(1));
    run.Handle(c.end, kNow);
    const StoredJob stored = std::move(run).PutToRest();
    EXPECT_EQ(stored.journal.phase, c.phase) << c.what;
    EXPECT_EQ(stored.recorded, Step(1)) << c.what;
    EXPECT_EQ(stored.recent.records.count(Step(0)), c.keeps_steps ? 1u : 0u) << c.what;
  }
}

// After a restart of the coordinator nothing is decided until its members are back.
TEST(JobRun, WaitsForItsMembersAfterARestart) {
  const JobRun before = RunAt(At::kRunning);
  StoredJob stored;
  stored.journal = before.journal();
  JobRun run = RunOf(std::move(stored));
  EXPECT_TRUE(run.HasMembers()) << "they may come back";
  EXPECT_FALSE(run.Has(kA));
  EXPECT_EQ(run.Places().placed.size(), 2u);
  EXPECT_THAT(run.Handle(Tick{}, kNow), IsEmpty());
  EXPECT_EQ(Describe(run.Handle(Says(kA, Back(kA, kFirstView)), kNow)), "say process, stands to 0");
  EXPECT_EQ(Describe(run.Handle(Says(kB, Back(kB, kFirstView)), kNow)), "say process, stands to 1");
  EXPECT_EQ(run.journal().phase, JobPhase::kRunning);
  EXPECT_EQ(run.journal().number, kFirstView);
}

// Members tell again what the coordinator before has not acknowledged any more.
TEST(JobRun, AMeasureThatWasToldBeforeARestartIsNotToldAgain) {
  StoredJob stored;
  stored.journal = RunAt(At::kRunning).journal();
  TrainingSpec& training = stored.journal.spec.training;
  training.validation = {.every_steps = 3};
  const auto sums = SumTensors(training.validation, {{"loss"}});
  auto& tensors = stored.journal.environment->tensors;
  tensors.insert(tensors.end(), sums->begin(), sums->end());
  const auto record_of = [&](int64_t step) {
    StepRecord record;
    record.lineage = stored.journal.lineages.back().number;
    record.view = kFirstView;
    record.step = Step(step);
    record.samples = StepSamples(training, 100, record.step);
    record.weight = static_cast<int64_t>(record.samples.count);
    if (step > 0 && step % 3 == 0) record.measures = {{6, 3}};
    return record;
  };
  stored.recorded = Step(5);
  for (int64_t step = 0; step < 5; ++step) stored.recent.Add(record_of(step));
  JobRun run = RunOf(stored);
  for (const MemberId& id : {kA, kB}) {
    Join join = Back(id, kFirstView);
    join.environment = *stored.journal.environment;
    run.Handle(Says(id, join), kNow);
  }
  ASSERT_TRUE(run.Has(kB));
  const auto measures_told = [&](std::vector<StepRecord> records) {
    std::vector<std::string> steps;
    for (const Announce& announce :
         Of<Announce>(run.Handle(Says(kB, Records{std::move(records)}), kNow)))
      if (announce.event == "validation") steps.push_back(announce.fields.at("step"));
    return steps;
  };
  EXPECT_THAT(measures_told({record_of(3), record_of(4)}), IsEmpty());
  EXPECT_THAT(measures_told({record_of(5), record_of(6)}), ElementsAre("6"));
}

}  // namespace
}  // namespace muster::coordinator
