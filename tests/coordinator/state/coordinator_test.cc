// The life of jobs and checkpoint rounds, one input at a time. Whole runs of a job are in
// tests/scenarios.
#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/allowance.h"
#include "lib/base/exit_codes.h"
#include "lib/base/printable.h"
#include "lib/domain/validation.h"
#include "tests/coordinator/state/desk.h"

namespace muster::coordinator {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Of the job's present start.
ProcessExited ExitOf(const Desk& desk, const std::string& name, const std::string& cause) {
  ProcessExited exited;
  exited.job = "job";
  exited.start = desk.StartOf();
  exited.name = name;
  exited.cause = cause;
  return exited;
}

// ---- the queue

TEST(Jobs, RunOneAtATimeInTheOrderOfSubmissionWhereThereIsOneSlot) {
  Desk desk({}, /*slots=*/1);
  desk.Give(Submit{"second", SpecOf(1, 1)});
  desk.Give(Submit{"a-later-one", SpecOf(1, 1)});
  EXPECT_EQ(desk.Job("second").phase, JobPhase::kChecking);
  EXPECT_EQ(desk.Job("a-later-one").phase, JobPhase::kQueued);
  EXPECT_EQ(desk.Job("a-later-one").reason, "needs 1 slot; 0 of 1 are free");
  desk.Drain<Announce>();
  desk.Give(Cancel{"second"});
  EXPECT_EQ(desk.Job("second").phase, JobPhase::kCancelled);
  EXPECT_EQ(desk.Job("a-later-one").phase, JobPhase::kChecking);
  const std::vector<ToHost> wanted = desk.Drain<ToHost>();
  ASSERT_EQ(wanted.size(), 1u);
  ASSERT_EQ(wanted[0].wanted.jobs.size(), 1u) << "what is not listed is stopped";
  EXPECT_EQ(wanted[0].wanted.jobs[0].job, "a-later-one");
  ASSERT_EQ(wanted[0].wanted.jobs[0].processes.size(), 1u);
  EXPECT_EQ(wanted[0].wanted.jobs[0].processes[0].name, "worker-0");
}

TEST(Jobs, TheSameIdAgainIsOneJob) {
  Desk desk;
  RunTwo(desk);
  desk.Give(Submit{"job", SpecOf(1, 2)});
  EXPECT_THAT(desk.Told(), IsEmpty());
  EXPECT_EQ(desk.Job().phase, JobPhase::kRunning);
  EXPECT_EQ(desk.coordinator().jobs().Status().size(), 1u);
}

Adopt AdoptionAt(int64_t step) {
  Adopt adopt{.id = "job", .spec = SpecOf(1, 1), .environment = Environment()};
  adopt.manifest.job = "job";
  adopt.manifest.lineage = LineageNumber(1);
  adopt.manifest.step = Step(step);
  adopt.manifest.skipped = 2;
  adopt.cause = "adopted from cluster aa, job old, lineage 3, step 8";
  return adopt;
}

TEST(Jobs, AnAdoptedOneGoesOnFromItsCheckpointInAnEmptyLedger) {
  Desk desk;
  desk.Give(AdoptionAt(8));
  const JobStatus adopted = desk.Status();
  EXPECT_EQ(adopted.step, Step(8));
  EXPECT_EQ(adopted.steps, 20);
  EXPECT_EQ(adopted.job.phase, JobPhase::kStarting);
  ASSERT_EQ(adopted.job.lineages.size(), 1u);
  EXPECT_EQ(adopted.job.lineages[0].fork, Step(8));
  EXPECT_EQ(adopted.job.lineages[0].cause, AdoptionAt(8).cause);
  desk.Join(kA);
  desk.Say(kA, Sealed{desk.Job().number, {}});
  const auto heals = desk.Sent<Heal>();
  ASSERT_FALSE(heals.empty());
  EXPECT_EQ(heals.back().second.plan.base, Step(8));
  ASSERT_TRUE(heals.back().second.plan.manifest);
  desk.Say(kA, HoldsBase{desk.Job().number, 0});
  EXPECT_EQ(desk.Job().phase, JobPhase::kRunning);
  EXPECT_EQ(desk.Job().lineages.back().fork, Step(8));
  EXPECT_EQ(desk.Job().lineages.back().parent, LineageNumber(1));
  desk.Record(kA, 8);
  EXPECT_EQ(desk.Status().step, Step(9));
}

// Its steps so far were done there: others would not give the same bits.
TEST(Jobs, TheEnvironmentOfAnAdoptedOneBindsItsFirstWorker) {
  Desk desk;
  desk.Give(AdoptionAt(8));
  NumericEnvironment other = Environment();
  other.numeric["isa"] = "avx512";
  desk.Join(kA, "job", other);
  EXPECT_EQ(desk.Job().environment, Environment());
  const auto leave = desk.Sent<Leave>();
  ASSERT_EQ(leave.size(), 1u);
  EXPECT_EQ(leave[0].second.exit_code, kExitOtherEnvironment);
}

Fork ForkWith(const std::vector<TensorSpec>& tensors) {
  Fork fork{.id = "job", .spec = SpecOf(1, 1), .owner = "ada"};
  fork.spec.training.initial.parent = ParentState{"p", 40, std::string(64, 'a'), 0, false};
  fork.manifest.job = "job";
  fork.manifest.lineage = LineageNumber(1);
  fork.manifest.tensors = tensors;
  return fork;
}

// Nobody can make its state(0): whoever comes first loads it.
TEST(Jobs, AForkBeginsAtStepZeroFromItsCheckpoint) {
  Desk desk;
  desk.Give(ForkWith(Environment().tensors));
  EXPECT_EQ(desk.Status().step, Step(0));
  EXPECT_EQ(desk.Job().owner, "ada");
  EXPECT_EQ(desk.Job().environment, std::nullopt);
  desk.Join(kA);
  desk.Say(kA, Sealed{desk.Job().number, {}});
  const auto heals = desk.Sent<Heal>();
  ASSERT_FALSE(heals.empty());
  EXPECT_EQ(heals.back().second.plan.base, Step(0));
  EXPECT_EQ(heals.back().second.plan.how[0], HealBy::kLoad);
  desk.Say(kA, HoldsBase{desk.Job().number, 0});
  EXPECT_EQ(desk.Job().phase, JobPhase::kRunning);
  desk.Record(kA, 0);
  EXPECT_EQ(desk.Status().step, Step(1));
}

TEST(Jobs, AForkOfAnotherModelEndsBeforeItsFirstStep) {
  Desk desk;
  std::vector<TensorSpec> tensors = Environment().tensors;
  tensors[0].name = "other";
  desk.Give(ForkWith(tensors));
  desk.Join(kA);
  desk.Say(kA, Sealed{desk.Job().number, {}});
  EXPECT_EQ(desk.Job().phase, JobPhase::kFailed);
  EXPECT_EQ(desk.Job().ending.exit_code, kExitBadConfiguration);
  EXPECT_THAT(desk.Job().reason, HasSubstr("parameters: the model is not the one of job p"));
}

TEST(Jobs, AForkWithoutItsBeginningIsNotMadeUp) {
  Desk desk;
  desk.Give(ForkWith(Environment().tensors));
  desk.Join(kA);
  desk.Say(kA, Sealed{desk.Job().number, {}});
  desk.Say(kA, BaseFailed{.view = desk.Job().number, .reason = "it is damaged", .damaged = true});
  if (!Ended(desk.Job().phase)) desk.Say(kA, Sealed{desk.Job().number, {}});
  EXPECT_EQ(desk.Job().phase, JobPhase::kFailed) << desk.Job().reason;
  EXPECT_EQ(desk.Job().ending.exit_code, kExitBadData);
}

TEST(Jobs, AForkThatBeginsAnewBeginsWithItsParentsState) {
  Desk desk;
  Fork fork = ForkWith(Environment().tensors);
  fork.spec.runtime.resume.kind = ResumeKind::kNever;
  desk.Give(fork);
  desk.Join(kA);
  desk.Say(kA, Sealed{desk.Job().number, {}});
  const auto heals = desk.Sent<Heal>();
  ASSERT_FALSE(heals.empty());
  EXPECT_EQ(heals.back().second.plan.how[0], HealBy::kLoad);
}

TEST(Jobs, AnIdThatIsTakenIsNotAdopted) {
  Desk desk;
  RunTwo(desk);
  desk.Give(AdoptionAt(8));
  EXPECT_EQ(desk.Job().phase, JobPhase::kRunning);
  EXPECT_TRUE(desk.Drain<PersistJob>().empty() || desk.Job().lineages[0].fork == Step(0));
}

TEST(Jobs, AMemberOfAnotherJobIsTurnedAway) {
  Desk desk;
  desk.Give(Submit{"job", SpecOf(1, 2)});
  desk.Drain<Announce>();
  desk.Join(kA, "other");
  const auto leave = desk.Sent<Leave>();
  ASSERT_EQ(leave.size(), 1u);
  EXPECT_EQ(leave[0].second.reason, "worker-0 cannot take part: job other is not running");
}

// Its processes ask late, too: they end as their job has ended.
TEST(Jobs, WhoComesWhenTheJobIsOverEndsAsTheJobHas) {
  Desk desk;
  const auto code_for = [&](const std::string& id) {
    desk.Drain<Announce>();
    desk.Join(kA, id);
    const auto leave = desk.Sent<Leave>();
    EXPECT_EQ(leave.size(), 1u);
    EXPECT_EQ(leave.at(0).second.exit_code, desk.coordinator().jobs().LeaveOf(id).exit_code);
    return leave.at(0).second.exit_code;
  };
  desk.Give(Submit{"job", SpecOf(1, 2)});
  desk.Give(Submit{"waiting", SpecOf(15, 15)});
  ASSERT_EQ(desk.Job("waiting").phase, JobPhase::kQueued);
  EXPECT_EQ(code_for("waiting"), kExitLater) << "it may start yet";
  EXPECT_EQ(code_for("nobody"), kExitLater);
  desk.Give(Cancel{"job"});
  EXPECT_EQ(code_for("job"), kExitStopped);
  EXPECT_EQ(desk.coordinator().jobs().LeaveOf("job").reason, "job job is cancelled");
}

TEST(Jobs, AnEnvironmentThatDiffersIsTheJobsExitCodeToo) {
  Desk desk;
  RunTwo(desk);
  ProcessExited exited = ExitOf(desk, "worker-1", "exit code 78");
  exited.exit_code = kExitOtherEnvironment;
  desk.Give(AgentSays{exited});
  EXPECT_EQ(desk.Job().phase, JobPhase::kFailed);
  EXPECT_EQ(desk.Job().ending.exit_code, kExitOtherEnvironment);
  EXPECT_EQ(desk.Job().reason, "worker-1 ended with exit code 78");
}

// ---- start

TEST(Start, AtTheMostWorkersAtOnce) {
  Desk desk;
  desk.Give(Submit{"job", SpecOf(1, 2)});
  desk.Join(kA);
  EXPECT_EQ(desk.Job().number, ViewNumber(0));
  EXPECT_EQ(desk.Status().waits_for, "1 of 2 workers have joined");
  desk.Join(kB);
  EXPECT_EQ(desk.Job().number, ViewNumber(1));
}

TEST(Start, AtTheLeastAfterTenSecondsAndNotBefore) {
  Desk desk;
  desk.Give(Submit{"job", SpecOf(2, 3)});
  desk.Join(kA);
  desk.Join(kB);
  for (int i = 0; i < 99; ++i) {
    desk.Wait(milliseconds(100));
    desk.Say(kA, Alive{});
    desk.Say(kB, Alive{});
    desk.Give(Tick{});
  }
  EXPECT_EQ(desk.Job().number, ViewNumber(0)) << "9.9 s";
  desk.Wait(milliseconds(100));
  desk.Give(Tick{});
  EXPECT_EQ(desk.Job().number, ViewNumber(1)) << "10 s";
}

TEST(Start, BelowTheLeastItWaitsAndSaysSo) {
  Desk desk;
  desk.Give(Submit{"job", SpecOf(2, 3)});
  desk.Join(kA);
  for (int i = 0; i < 200; ++i) {
    desk.Wait(milliseconds(100));
    desk.Say(kA, Alive{});
    desk.Give(Tick{});
  }
  EXPECT_EQ(desk.Job().number, ViewNumber(0));
  EXPECT_EQ(desk.Status().waits_for, "1 of 3 workers have joined; at least 2 are needed");
}

TEST(Start, ADifferentNumericEnvironmentIsNamedFieldByField) {
  Desk desk;
  desk.Give(Submit{"job", SpecOf(1, 2)});
  desk.Join(kA);
  desk.Drain<Announce>();
  NumericEnvironment other = Environment();
  other.data_hash = "d2";
  other.numeric["isa"] = "sse2";
  desk.Join(kB, "job", other);
  const auto leave = desk.Sent<Leave>();
  ASSERT_EQ(leave.size(), 1u);
  EXPECT_EQ(leave[0].first, "worker-1");
  EXPECT_EQ(leave[0].second.exit_code, 78);
  EXPECT_EQ(leave[0].second.reason,
            "worker-1 cannot take part: its numeric environment differs from the job's: data (100 "
            "samples, hash "
            "d2; the job has 100, d1) "
            "isa (sse2; the job has avx2)");
}

// Until there is a view, nothing that a stranger tells outlives its place among the members.
TEST(Start, OneThatCameAndLeftBindsNobody) {
  NumericEnvironment strange = Environment();
  strange.samples = 7;
  strange.data_hash = "d2";
  strange.tensors = {{"weight", {640}, TensorKind::kParameter}};
  const MemberId stranger = Id("stranger");
  struct Row {
    std::string what;
    std::function<void(Desk& desk)> leave;
    int exit_code;  // of the worker that comes then; 0: it takes part
  };
  const auto breaks_off = [&](Desk& desk) { desk.Give(MemberDown{stranger}); };
  const auto pass = [](Desk& desk, milliseconds time) {
    for (milliseconds waited{0}; waited < time; waited += milliseconds(500)) {
      desk.Wait(milliseconds(500));
      desk.Give(Tick{});
    }
  };
  const std::vector<Row> rows = {
      {"it is there", [](Desk&) {}, kExitOtherEnvironment},
      {"its session is broken, and its lease is not over", breaks_off, kExitLater},
      {"its lease is over",
       [&](Desk& desk) {
         breaks_off(desk);
         pass(desk, milliseconds(5000));
       },
       0},
      {"it is silent for longer than its lease",
       [&](Desk& desk) { pass(desk, milliseconds(5000)); }, 0},
      {"its process ended",
       [&](Desk& desk) {
         breaks_off(desk);
         ProcessExited exited = ExitOf(desk, stranger.name, "exit code 1");
         exited.lanes.incarnation = stranger.incarnation;
         desk.Give(AgentSays{exited});
       },
       0},
  };
  for (const Row& row : rows) {
    Desk desk;
    desk.Give(Submit{"job", SpecOf(2, 2)});
    desk.Join(stranger, "job", strange);
    ASSERT_EQ(desk.Job().environment, strange) << row.what;
    row.leave(desk);
    desk.Drain<Announce>();
    desk.Join(kA);
    const auto leave = desk.Sent<Leave>();
    const int code = leave.empty() ? 0 : leave[0].second.exit_code;
    EXPECT_EQ(code, row.exit_code) << row.what << ": the first Join binds the job";
    if (row.exit_code != 0) continue;
    EXPECT_EQ(desk.Job().environment, Environment()) << row.what;
    desk.Join(kB);
    desk.Activate({kA, kB});
    EXPECT_EQ(desk.Job().phase, JobPhase::kRunning) << row.what;
    EXPECT_EQ(desk.Status().steps, 20) << row.what;
  }
}

TEST(Start, FromTheFirstViewOnTheEnvironmentIsTheJobs) {
  Desk desk;
  RunTwo(desk);
  for (const MemberId& id : {kA, kB}) desk.Give(MemberDown{id});
  for (int i = 0; i < 40; ++i) {
    desk.Wait(milliseconds(500));
    desk.Give(Tick{});
  }
  ASSERT_THAT(desk.Status().members, IsEmpty());
  desk.Drain<Announce>();
  NumericEnvironment other = Environment();
  other.data_hash = "d2";
  desk.Join(Id("worker-0", 2), "job", other);
  const auto leave = desk.Sent<Leave>();
  ASSERT_EQ(leave.size(), 1u) << "a later worker changes what the job was trained with";
  EXPECT_EQ(leave[0].second.exit_code, kExitOtherEnvironment);
}

// The view forms, and the only one that told its tensors leaves before it is active.
TEST(Start, AViewThatWasNeverActiveBindsNobody) {
  Desk desk;
  desk.Give(Submit{"job", SpecOf(1, 1)});
  NumericEnvironment strange = Environment();
  strange.tensors = {{"weight", {640}, TensorKind::kParameter}};
  desk.Join(Id("stranger"), "job", strange);
  desk.Say(Id("stranger"), Sealed{desk.Job().number, {}});
  ASSERT_EQ(desk.Sent<Heal>().size(), 1u);
  desk.Give(MemberDown{Id("stranger")});
  for (int i = 0; i < 10; ++i) {
    desk.Wait(milliseconds(500));
    desk.Give(Tick{});
  }
  desk.Join(kA);
  desk.Say(kA, Sealed{desk.Job().number, {}});
  const auto heals = desk.Sent<Heal>();
  ASSERT_EQ(heals.size(), 1u);
  EXPECT_EQ(heals[0].second.plan.owner_of.size(), 2u) << "chunks of the stranger's tensors";
}

TEST(Start, AfterARestartTheEnvironmentIsTheJobsOnlyWithAView) {
  for (const bool has_view : {false, true}) {
    Desk before;
    RunTwo(before);
    RecoveredState found;
    found.jobs = {before.Job()};
    if (!has_view) {
      found.jobs[0].phase = JobPhase::kStarting;
      found.jobs[0].view.reset();
    }
    Desk desk(std::move(found));
    NumericEnvironment other = Environment();
    other.numeric["isa"] = "sse2";
    desk.Drain<Announce>();
    desk.Join(Id("worker-0", 2), "job", other);
    EXPECT_EQ(desk.Sent<Leave>().size(), has_view ? 1u : 0u) << "what was journalled binds the job";
  }
}

TEST(Start, WhoTakesThePlaceOfTheOnlyWorkerMayTellAnotherEnvironment) {
  NumericEnvironment other = Environment();
  other.data_hash = "d2";
  for (const bool has_other : {false, true}) {
    Desk desk;
    desk.Give(Submit{"job", SpecOf(3, 3)});
    desk.Join(kA);
    if (has_other) desk.Join(kB);
    desk.Drain<Announce>();
    desk.Join(Id("worker-0", 2), "job", other);
    EXPECT_EQ(desk.Job().environment, has_other ? Environment() : other);
  }
}

// What a server holds is laid out as it was told.
TEST(Start, AServerGoesWithTheEnvironmentThatItWasTold) {
  const MemberId server = Id("server-0"), again = Id("server-0", 2);
  Desk desk;
  JobSpec spec = SpecOf(1, 2);
  spec.training.sync = Sync::kServer;
  spec.runtime.servers = 1;
  desk.Give(Submit{"job", spec});
  const auto code_of = [&](const MemberId& id, const NumericEnvironment& told) {
    desk.Drain<Announce>();
    desk.Join(id, "job", told, Role::kServer);
    const auto leave = desk.Sent<Leave>();
    return leave.empty() ? 0 : leave[0].second.exit_code;
  };
  NumericEnvironment other = Environment();
  other.tensors = {{"weight", {640}, TensorKind::kParameter}};
  EXPECT_EQ(code_of(server, other), kExitLater) << "nobody has told it";
  desk.Join(kC, "job", other);
  ASSERT_EQ(code_of(server, other), 0);
  desk.Give(MemberDown{kC});
  for (int i = 0; i < 10; ++i) {
    desk.Wait(milliseconds(500));
    desk.Say(server, Alive{});
    desk.Give(Tick{});
  }
  desk.Drain<Announce>();
  desk.Join(kA);
  const auto evicted = desk.Sent<Leave>();
  ASSERT_EQ(evicted.size(), 1u) << "it stays with the layout of those who are gone";
  EXPECT_EQ(evicted[0].first, "server-0");
  EXPECT_EQ(evicted[0].second.exit_code, kExitLater);
  EXPECT_EQ(code_of(again, other), kExitLater) << "it is laid out otherwise";
  EXPECT_EQ(code_of(again, Environment()), 0);
}

// It could not be told when it was let go. That is no failure of its.
TEST(Start, AServerThatIsLetGoWhileItsSessionIsBrokenComesAgainLater) {
  const MemberId server = Id("server-0");
  Desk desk;
  JobSpec spec = SpecOf(1, 2);
  spec.training.sync = Sync::kServer;
  spec.runtime.servers = 1;
  desk.Give(Submit{"job", spec});
  NumericEnvironment other = Environment();
  other.tensors = {{"weight", {640}, TensorKind::kParameter}};
  desk.Join(kC, "job", other);
  desk.Join(server, "job", other, Role::kServer);
  ASSERT_EQ(desk.Status().members.size(), 2u);
  desk.Give(MemberDown{kC});
  for (int i = 0; i < 10; ++i) {
    desk.Wait(milliseconds(500));
    desk.Say(server, Alive{});
    desk.Give(Tick{});
  }
  desk.Give(MemberDown{server});
  desk.Drain<Announce>();
  desk.Join(kA);
  ASSERT_THAT(desk.Sent<Leave>(), IsEmpty()) << "it has no session";
  desk.Join(server, "job", other, Role::kServer);
  const auto leave = desk.Sent<Leave>();
  ASSERT_EQ(leave.size(), 1u);
  EXPECT_EQ(leave[0].second.exit_code, kExitLater) << "it counts as a failure";
}

TEST(Start, WhatTheSpecificationFixesIsComparedWithItFirst) {
  struct Row {
    std::string said;  // empty: it takes part
    uint64_t samples;
    std::string threads;
    bool phases = false;
  };
  for (const Row& row :
       {Row{"", 100, "1"},
        Row{"data (101 samples; its specification says data.samples: 100)", 101, "1"},
        Row{"threads (2; its specification says threads: 1)", 100, "2"},
        Row{"batch norm (over all lanes; its specification says sync_batch_norm: false)", 100, "1",
            true}}) {
    Desk desk;
    JobSpec spec = SpecOf(1, 2);
    spec.training.data.samples = 100;
    desk.Give(Submit{"job", spec});
    desk.Drain<Announce>();
    NumericEnvironment told = Environment();
    told.samples = row.samples;
    told.numeric["threads"] = row.threads;
    if (row.phases) told.tensors.push_back({"sync/norm/forward", {9}, TensorKind::kPhase});
    desk.Join(kA, "job", told);
    const auto leave = desk.Sent<Leave>();
    ASSERT_EQ(leave.size(), row.said.empty() ? 0u : 1u) << row.said;
    if (leave.empty()) continue;
    EXPECT_THAT(leave[0].second.reason, HasSubstr(row.said));
    EXPECT_EQ(leave[0].second.exit_code, kExitOtherEnvironment) << row.said;
    EXPECT_FALSE(desk.Job().environment) << row.said;
  }
}

TEST(Start, OfWhatIsOneItIsSaidSo) {
  Desk desk;
  JobSpec spec = SpecOf(1, 2);
  spec.training.sync = Sync::kServer;
  spec.runtime.servers = 1;
  desk.Give(Submit{"job", spec});
  desk.Join(kA);
  EXPECT_EQ(desk.Status().waits_for, "0 of 1 server has joined");
  desk.Drain<Announce>();
  NumericEnvironment other = Environment();
  other.samples = 1;
  desk.Join(kB, "job", other);
  const auto leave = desk.Sent<Leave>();
  ASSERT_EQ(leave.size(), 1u);
  EXPECT_THAT(leave[0].second.reason, HasSubstr("data (1 sample, hash d1; the job has 100, d1)"));
}

TEST(Start, AMembersFactsCannotSteerATerminalNorFillALog) {
  Desk desk;
  desk.Give(Submit{"job", SpecOf(1, 2)});
  desk.Join(kA);
  desk.Drain<Announce>();
  NumericEnvironment other = Environment();
  other.data_hash = "\x1b[2J\xff";
  for (int i = 0; i < 20; ++i) other.numeric[absl::StrCat(i)] = std::string(5000, 'x');
  desk.Join(kB, "job", other);
  const auto leave = desk.Sent<Leave>();
  ASSERT_EQ(leave.size(), 1u);
  const std::string& reason = leave[0].second.reason;
  EXPECT_THAT(reason, HasSubstr("hash \\x1b[2J?;"));
  EXPECT_EQ(PrintableLines(reason), reason);
  EXPECT_LE(reason.size(), 3 * kMostShownBytes);
}

TEST(Start, AFactThatTheJobDoesNotKnowIsNamedToo) {
  Desk desk;
  desk.Give(Submit{"job", SpecOf(1, 2)});
  desk.Join(kA);
  desk.Drain<Announce>();
  NumericEnvironment other = Environment();
  other.numeric["library"] = "9";
  desk.Join(kB, "job", other);
  const auto leave = desk.Sent<Leave>();
  ASSERT_EQ(leave.size(), 1u);
  EXPECT_THAT(leave[0].second.reason, HasSubstr(" library (9; the job has none)"));
}

// The coordinator divides by it.
TEST(Start, AWorkerWithoutSamplesIsTurnedAway) {
  for (const uint64_t samples : {uint64_t{0}, kMostSamples + 1, ~uint64_t{0}}) {
    Desk desk;
    desk.Give(Submit{"job", SpecOf(1, 2)});
    desk.Drain<Announce>();
    NumericEnvironment strange = Environment();
    strange.samples = samples;
    desk.Join(kA, "job", strange);
    const auto leave = desk.Sent<Leave>();
    ASSERT_EQ(leave.size(), 1u) << samples << " samples are taken for a data set";
    EXPECT_EQ(leave[0].second.exit_code, 65);
    EXPECT_THAT(leave[0].second.reason, HasSubstr(absl::StrCat("it found ", samples, " samples")));
    EXPECT_FALSE(desk.Job().environment);
    desk.Join(kB);
    EXPECT_EQ(desk.Job().environment->samples, 100u) << "nobody else is kept out";
  }
}

TEST(Start, AMemberOfAnotherClusterIsTurnedAway) {
  Desk desk;
  desk.Give(Submit{"job", SpecOf(1, 2)});
  muster::Join join;
  join.job = "job";
  join.start = desk.StartOf();
  join.id = kA;
  join.cluster = "elsewhere";
  join.environment = Environment();
  desk.Say(kA, join);
  const auto leave = desk.Sent<Leave>();
  ASSERT_EQ(leave.size(), 1u);
  EXPECT_THAT(leave[0].second.reason,
              HasSubstr("it belongs to cluster elsewhere, this is cluster cluster"));
}

// ---- cancel and stop, in every phase

TEST(Cancel, OfAQueuedJobLeavesTheRunningOneAlone) {
  Desk desk;
  RunTwo(desk, SpecOf(2, 2));
  desk.Give(Submit{"next", SpecOf(15, 15)});
  desk.Give(Cancel{"next"});
  EXPECT_EQ(desk.Job("next").phase, JobPhase::kCancelled);
  EXPECT_EQ(desk.Job("next").reason, "cancelled before it started");
  EXPECT_EQ(desk.Job("next").ending.exit_code, 67);
  EXPECT_EQ(desk.Job().phase, JobPhase::kRunning);
}

TEST(Cancel, OfARunningJobSendsItsMembersHome) {
  Desk desk;
  RunTwo(desk);
  desk.Give(Cancel{"job"});
  EXPECT_EQ(desk.Job().phase, JobPhase::kCancelled);
  EXPECT_EQ(desk.Sent<Leave>().size(), 2u);
  desk.Give(Cancel{"job"});
  EXPECT_THAT(desk.Drain<PersistJob>(), IsEmpty()) << "once is enough";
}

TEST(Cancel, WhileAViewForms) {
  Desk desk;
  desk.Give(Submit{"job", SpecOf(1, 1)});
  desk.Join(kA);
  ASSERT_EQ(desk.Job().number, ViewNumber(1));
  desk.Give(Cancel{"job"});
  EXPECT_EQ(desk.Job().phase, JobPhase::kCancelled);
  desk.Say(kA, Sealed{ViewNumber(1), {}});  // too late
  EXPECT_EQ(desk.Job().phase, JobPhase::kCancelled);
}

TEST(Cancel, OfAStoppedJobEndsItForGood) {
  Desk desk;
  desk.Give(Submit{"job", SpecOf(1, 2)});
  desk.Give(Stop{"job"});
  ASSERT_EQ(desk.Job().phase, JobPhase::kStopped);
  desk.Give(Cancel{"job"});
  EXPECT_EQ(desk.Job().phase, JobPhase::kCancelled);
  desk.Give(Submit{"job", SpecOf(1, 2)});
  EXPECT_EQ(desk.Job().phase, JobPhase::kCancelled) << "it does not go on";
  desk.Drain<PersistJob>();
  desk.Give(Cancel{"job"});
  EXPECT_THAT(desk.Drain<PersistJob>(), IsEmpty()) << "once is enough";
}

TEST(Cancel, LeavesAJobThatIsBeingDeletedAlone) {
  Desk desk;
  desk.Give(Submit{"job", SpecOf(1, 2)});
  desk.Give(Stop{"job"});
  desk.Give(Delete{"job"});
  desk.Give(Cancel{"job"});
  EXPECT_EQ(desk.Job().phase, JobPhase::kStopped);
  EXPECT_TRUE(desk.Job().deleting);
}

TEST(Cancel, OfAnUnknownJobIsNothing) {
  Desk desk;
  desk.Give(Cancel{"job"});
  desk.Give(Stop{"job"});
  EXPECT_THAT(desk.Drain<PersistJob>(), IsEmpty());
}

TEST(Stop, BeforeTheFirstStepIsAtOnce) {
  Desk desk;
  desk.Give(Submit{"job", SpecOf(1, 2)});
  desk.Give(Stop{"job"});
  EXPECT_EQ(desk.Job().phase, JobPhase::kStopped);
  EXPECT_EQ(desk.Job().reason, "stopped before its first step");
}

// It has a view of its earlier start, in which nobody is any more.
TEST(Stop, BeforeTheFirstStepOfALaterStartIsAtOnce) {
  Desk desk;
  RunTwo(desk);
  desk.Give(Stop{"job"});
  desk.Record(kA, 0, {JobCommand{1, JobCommandKind::kStop}});
  desk.Segment(kA, 1, {0, 1}, 1);
  desk.Segment(kB, 1, {2, 3}, 2);
  const auto commits = desk.Drain<CommitManifest>();
  ASSERT_EQ(commits.size(), 1u);
  desk.Give(ManifestCommitted{commits[0].manifest});
  desk.Give(DigestDone{"job", desk.StartOf(), "abc", ""});
  ASSERT_EQ(desk.Job().phase, JobPhase::kStopped);
  desk.Give(Submit{"job", SpecOf(1, 2)});
  ASSERT_EQ(desk.Job().phase, JobPhase::kStarting);
  desk.Give(Stop{"job"});
  EXPECT_EQ(desk.Job().phase, JobPhase::kStopped);
}

// A job that waits again says why again.
TEST(Jobs, ThatAreTooLargeSayItEachTimeTheyAreQueued) {
  Desk desk;
  for (int i = 0; i < 2; ++i) {
    desk.Give(Submit{"large", SpecOf(900, 900)});
    EXPECT_THAT(desk.Told(), testing::Contains(HasSubstr("waits: ")));
    desk.Give(Stop{"large"});
    desk.Told();
  }
}

TEST(Stop, OfAQueuedJob) {
  Desk desk;
  RunTwo(desk);
  desk.Give(Submit{"next", SpecOf(15, 15)});
  desk.Give(Stop{"next"});
  EXPECT_EQ(desk.Job("next").phase, JobPhase::kStopped);
}

TEST(Stop, OfARunningJobIsACommandThenACheckpointThenTheEnd) {
  Desk desk;
  RunTwo(desk);
  desk.Give(Stop{"job"});
  EXPECT_EQ(desk.Job().phase, JobPhase::kStopping);
  const auto given = desk.Sent<GiveCommand>();
  ASSERT_EQ(given.size(), 1u);
  EXPECT_EQ(given[0].first, "worker-0") << "the owner of chunk 0";
  EXPECT_EQ(given[0].second.command.kind, JobCommandKind::kStop);
  desk.Record(kA, 0, {given[0].second.command});
  EXPECT_EQ(desk.Job().ending.stop_at, Step(1));
  desk.Segment(kA, 1, {0}, 1);
  EXPECT_THAT(desk.Drain<CommitManifest>(), IsEmpty()) << "half of it";
  desk.Segment(kB, 1, {1}, 1);
  const auto commit = desk.Drain<CommitManifest>();
  ASSERT_EQ(commit.size(), 1u);
  desk.Give(ManifestCommitted{commit[0].manifest});
  desk.Give(DigestDone{"job", desk.StartOf(), "abc", ""});
  EXPECT_EQ(desk.Job().phase, JobPhase::kStopped);
  EXPECT_EQ(desk.Job().ending.digest, "abc");
  desk.Give(Submit{"job", SpecOf(1, 2)});
  EXPECT_EQ(desk.Job().phase, JobPhase::kStarting) << "a stopped job goes on";
}

// ---- checkpoint rounds

TEST(Checkpoint, CommitsWhenItIsWholeAndItsRecordsAreIn) {
  Desk desk;
  RunTwo(desk);
  desk.Segment(kA, 2, {0}, 1);
  desk.Segment(kB, 2, {1}, 1);
  EXPECT_THAT(desk.Drain<CommitManifest>(), IsEmpty())
      << "the records of steps 0 and 1 are not in yet";
  desk.Record(kA, 0);
  EXPECT_THAT(desk.Drain<CommitManifest>(), IsEmpty());
  desk.Record(kA, 1);
  const auto commit = desk.Drain<CommitManifest>();
  ASSERT_EQ(commit.size(), 1u);
  EXPECT_EQ(commit[0].manifest.step, Step(2));
  EXPECT_EQ(commit[0].manifest.segments.size(), 2u);
}

TEST(Checkpoint, ASegmentThatComesTwiceCountsOnce) {
  Desk desk;
  RunTwo(desk);
  desk.Record(kA, 0);
  desk.Segment(kA, 1, {0}, 1);
  desk.Segment(kA, 1, {0}, 1);
  EXPECT_THAT(desk.Drain<CommitManifest>(), IsEmpty());
  desk.Segment(kB, 1, {0, 1}, 1);
  const auto commit = desk.Drain<CommitManifest>();
  ASSERT_EQ(commit.size(), 1u);
  ASSERT_EQ(commit[0].manifest.segments.size(), 2u);
  EXPECT_EQ(commit[0].manifest.segments[1].entries.size(), 1u) << "each chunk once";
}

TEST(Checkpoint, CommitsOneAtATimeAndTheNewestFirst) {
  Desk desk;
  RunTwo(desk);
  for (int64_t step : {1, 2, 3}) {
    desk.Segment(kA, step, {0}, step);
    desk.Segment(kB, step, {1}, step);
  }
  desk.Record(kA, 0);
  auto commit = desk.Drain<CommitManifest>();
  ASSERT_EQ(commit.size(), 1u);
  EXPECT_EQ(commit[0].manifest.step, Step(1));
  desk.Record(kA, 1);
  desk.Record(kA, 2);
  EXPECT_THAT(desk.Drain<CommitManifest>(), IsEmpty()) << "one is on its way";
  desk.Give(ManifestCommitted{commit[0].manifest});
  commit = desk.Drain<CommitManifest>();
  ASSERT_EQ(commit.size(), 1u);
  EXPECT_EQ(commit[0].manifest.step, Step(3)) << "that of step 2 is not worth it";
  desk.Give(ManifestCommitted{commit[0].manifest});
  EXPECT_EQ(desk.Sent<AckSegments>().size(), 4u) << "of steps 2 and 3, from both";
}

TEST(Checkpoint, OneThatFailsDoesNotBlockTheNext) {
  Desk desk;
  RunTwo(desk);
  desk.Record(kA, 0);
  desk.Segment(kA, 1, {0, 1}, 1);
  ASSERT_EQ(desk.Drain<CommitManifest>().size(), 1u);
  desk.Give(ManifestFailed{"job", LineageNumber(1), Step(1), "disk full"});
  const std::vector<Announce> told = desk.Drain<Announce>();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].text, "checkpoint of step 1 could not be committed: disk full");
  EXPECT_EQ(told[0].fields.at("saves"), "false");
  desk.Record(kA, 1);
  desk.Segment(kA, 2, {0, 1}, 2);
  EXPECT_EQ(desk.Drain<CommitManifest>().size(), 1u);
}

// All steps but the last are recorded and the job waits for its last checkpoint.
void RunToTheLastCheckpoint(Desk& desk) {
  RunTwo(desk);
  const int64_t end = desk.Status().steps;
  for (int64_t step = 0; step < end; ++step) desk.Record(kA, step);
  desk.Drain<Announce>();
}

LocalState StateAt(const Desk& desk) {
  LocalState local_state;
  local_state.has_state = true;
  local_state.lineage = LineageNumber(1);
  local_state.step = Step(desk.Status().steps);
  local_state.results = local_state.sums = ChunkSet(2);
  return local_state;
}

// ---- steps that are not finite

JobSpec SpecWith(OnNan on_nan) {
  JobSpec spec = SpecOf(2, 2);
  spec.training.on_nan = on_nan;
  spec.runtime.checkpoint.keep = 1;
  return spec;
}

void RunTwoWith(Desk& desk, OnNan on_nan) {
  desk.Give(Submit{"job", SpecWith(on_nan)});
  desk.Join(kA);
  desk.Join(kB);
  desk.Activate({kA, kB});
  desk.Drain<Announce>();
}

void Commit(Desk& desk, int64_t step, bool finite) {
  desk.Segment(kA, step, {0, 1}, step, "job", finite);
  const auto commits = desk.Drain<CommitManifest>();
  ASSERT_EQ(commits.size(), 1u);
  desk.Give(ManifestCommitted{commits[0].manifest});
}

TEST(NotFinite, StopsTheJobAfterACheckpointAndNamesLaneAndSamples) {
  Desk desk;
  RunTwoWith(desk, OnNan::kStop);
  for (int64_t step = 0; step < 3; ++step) desk.Record(kA, step);
  Commit(desk, 2, true);
  Commit(desk, 3, false);
  desk.Drain<Announce>();
  desk.Say(kB, LanesNotFinite{LineageNumber(1), Step(3), {LaneId(2)}});
  const std::vector<std::string> told = desk.Told();
  ASSERT_EQ(told.size(), 1u);
  const std::vector<uint64_t> samples =
      SampleIds(desk.Job().spec.training, 100,
                LaneSamples(desk.Job().spec.training, 100, Step(3), LaneId(2)));
  const std::string lane = absl::StrCat("lane 2 (sample ", samples.at(0), ")");
  EXPECT_EQ(told[0], absl::StrCat("step 3: ", lane, " is not finite, as worker-1 finds"));
  desk.Say(kB, LanesNotFinite{LineageNumber(1), Step(3), {LaneId(2)}});
  desk.Say(kB, LanesNotFinite{LineageNumber(9), Step(3), {LaneId(1)}});
  desk.Say(kB, LanesNotFinite{LineageNumber(1), Step(3), {LaneId(4)}});
  EXPECT_THAT(desk.Told(), IsEmpty()) << "known, of another lineage, no lane of the job";
  desk.Record(kA, 3, {}, "job", /*skipped=*/true);
  EXPECT_EQ(desk.Job().ending.stop_at, Step(4));
  EXPECT_EQ(desk.Job().tally.skipped, 1);
  Commit(desk, 4, false);
  EXPECT_EQ(desk.Drain<ComputeDigest>().size(), 1u);
  desk.Give(DigestDone{"job", desk.StartOf(), "abc", ""});
  EXPECT_EQ(desk.Job().phase, JobPhase::kFailed);
  EXPECT_EQ(desk.Job().ending.exit_code, kExitNotFinite);
  EXPECT_EQ(desk.Job().reason,
            absl::StrCat("step 3 is not finite: ", lane,
                         "; nothing of it was applied; the newest finite checkpoint is that of "
                         "step 2"));
}

TEST(NotFinite, WaitsAMomentForTheNamesOfTheLanes) {
  for (const bool told : {true, false}) {
    Desk desk;
    RunTwoWith(desk, OnNan::kStop);
    desk.Record(kA, 0, {}, "job", /*skipped=*/true);
    Commit(desk, 1, true);
    desk.Give(DigestDone{"job", desk.StartOf(), "abc", ""});
    EXPECT_EQ(desk.Job().phase, JobPhase::kRunning);
    if (told) {
      desk.Say(kB, LanesNotFinite{LineageNumber(1), Step(0), {LaneId(1)}});
    } else {
      for (int i = 0; i < 60; ++i) {
        desk.Wait(milliseconds(100));
        for (const MemberId& id : {kA, kB}) desk.Say(id, Alive{});
        desk.Give(Tick{});
      }
    }
    EXPECT_EQ(desk.Job().phase, JobPhase::kFailed);
    EXPECT_EQ(desk.Job().ending.exit_code, kExitNotFinite);
    EXPECT_THAT(desk.Job().reason, HasSubstr(told ? "step 0 is not finite: lane 1 (sample"
                                                  : "is not finite: no lane of it was named, so "
                                                    "each may be finite by itself, and their sum "
                                                    "too large for a 32-bit float; nothing"));
  }
}

// As a tick comes to members that are well, for so long.
void LetPass(Desk& desk, milliseconds time, const std::vector<MemberId>& members = {kA, kB}) {
  for (milliseconds passed(0); passed < time; passed += milliseconds(100)) {
    desk.Wait(milliseconds(100));
    for (const MemberId& id : members) desk.Say(id, Alive{});
    desk.Give(Tick{});
  }
}

// All steps are recorded, the last one as skipped; nothing but the name of its lane is missing.
void RunToASkippedLastStep(Desk& desk, OnNan on_nan, bool saves_its_end) {
  JobSpec spec = SpecWith(on_nan);
  spec.runtime.checkpoint.at_end = saves_its_end;
  RunTwo(desk, spec);
  for (int64_t step = 0; step < 20; ++step) desk.Record(kA, step, {}, "job", step == 19);
  if (!saves_its_end) return;
  Commit(desk, 20, true);
  desk.Give(DigestDone{"job", desk.StartOf(), "abc", ""});
}

TEST(NotFinite, NobodyLeavesBeforeALaneOfTheLastStepIsNamed) {
  const LanesNotFinite found{LineageNumber(1), Step(19), {LaneId(1)}};
  for (const OnNan on_nan : {OnNan::kStop, OnNan::kSkip}) {
    for (const bool saves_its_end : {true, false}) {
      for (const bool is_named : {true, false}) {
        Desk desk;
        RunToASkippedLastStep(desk, on_nan, saves_its_end);
        LetPass(desk, milliseconds(4900));
        EXPECT_FALSE(Ended(desk.Job().phase));
        EXPECT_THAT(desk.Sent<Leave>(), IsEmpty());
        if (is_named) {
          desk.Say(kB, found);
          EXPECT_THAT(desk.Told(), Contains(HasSubstr("step 19: lane 1 (sample")));
        } else {
          LetPass(desk, milliseconds(300));
        }
        const bool stops = on_nan == OnNan::kStop;
        EXPECT_EQ(desk.Job().phase, stops ? JobPhase::kFailed : JobPhase::kDone);
        EXPECT_EQ(desk.Job().ending.exit_code, stops ? kExitNotFinite : kExitDone);
        EXPECT_EQ(desk.Job().ending.digest, saves_its_end ? "abc" : "");
      }
    }
  }
}

TEST(NotFinite, ALaneThatWasNamedBeforeIsNotWaitedFor) {
  Desk desk;
  JobSpec spec = SpecWith(OnNan::kSkip);
  spec.runtime.checkpoint.at_end = false;
  RunTwo(desk, spec);
  for (int64_t step = 0; step < 19; ++step) desk.Record(kA, step);
  desk.Say(kA, LanesNotFinite{LineageNumber(1), Step(19), {LaneId(0)}});
  desk.Record(kA, 19, {}, "job", /*skipped=*/true);
  EXPECT_EQ(desk.Job().phase, JobPhase::kDone);
}

// What the job needs is there: it is not made again because those who made it are gone.
TEST(NotFinite, WhileALaneIsWaitedForTheLossOfMembersChangesNothing) {
  for (const bool view_forms : {false, true}) {
    Desk desk;
    JobSpec spec = SpecWith(OnNan::kSkip);
    spec.runtime.checkpoint.at_end = false;
    RunTwo(desk, spec);
    const auto kill = [&](const MemberId& id) {
      ProcessExited exited = ExitOf(desk, id.name, "killed by SIGKILL");
      exited.lanes.incarnation = id.incarnation;
      desk.Give(AgentSays{exited});
    };
    for (int64_t step = 0; step < 19; ++step) desk.Record(kA, step);
    if (view_forms) kill(kB);
    desk.Record(kA, 19, {}, "job", /*skipped=*/true);
    const ViewNumber number = desk.Job().number;
    EXPECT_EQ(number, ViewNumber(view_forms ? 2 : 1));
    if (view_forms) desk.Say(kA, Sealed{number, {}});
    for (const MemberId& id : {kA, kB}) kill(id);
    ProcessExited given_up = ExitOf(desk, "worker-1", "killed by SIGKILL");
    given_up.gave_up = true;
    desk.Give(AgentSays{given_up});
    const MemberId again = Id("worker-0", 2);  // which would have to begin at the beginning
    desk.Join(again);
    desk.Say(again, Sealed{desk.Job().number, {}});
    LetPass(desk, milliseconds(4900), {again});
    EXPECT_FALSE(Ended(desk.Job().phase));
    EXPECT_EQ(desk.Job().number, number);
    EXPECT_EQ(desk.Status().step, Step(20));
    LetPass(desk, milliseconds(300), {again});
    EXPECT_EQ(desk.Job().phase, JobPhase::kDone);
    EXPECT_EQ(desk.Job().rewinds, 0);
  }
}

// Ends both members of RunTwo.
void KillBoth(Desk& desk) {
  for (const MemberId& id : {kA, kB}) {
    ProcessExited exited = ExitOf(desk, id.name, "killed by SIGKILL");
    exited.lanes.incarnation = id.incarnation;
    desk.Give(AgentSays{exited});
  }
}

TEST(Checkpoint, ADigestThatWasAskedForBeforeARewindEndsNothing) {
  Desk desk;
  RunTwo(desk);
  for (int64_t step = 0; step < 20; ++step) desk.Record(kA, step);
  Commit(desk, 10, true);
  Commit(desk, 20, true);
  KillBoth(desk);
  const MemberId again = Id("worker-0", 2);
  desk.Join(again);
  desk.Say(again, Sealed{desk.Job().number, {}});
  BaseFailed failed;
  failed.view = desk.Job().number;
  failed.damaged = true;
  desk.Say(again, failed);
  desk.Say(again, Sealed{desk.Job().number, {}});
  ASSERT_EQ(desk.Job().lineages.back().fork, Step(10));
  desk.Give(DigestDone{"job", desk.StartOf(), "abc", ""});
  EXPECT_FALSE(Ended(desk.Job().phase));
}

// What its members answered waits to be heard.
TEST(Forming, ATimeInWhichNothingIsDecidedIsNotThatOfItsMembers) {
  Desk desk;
  RunTwo(desk);
  ProcessExited exited = ExitOf(desk, kB.name, "killed by SIGKILL");
  exited.lanes.incarnation = kB.incarnation;
  desk.Give(AgentSays{exited});
  ASSERT_EQ(desk.Sent<Seal>().size(), 1u);
  desk.Wait(milliseconds(130'000));
  desk.Say(kA, Alive{});
  desk.Give(Tick{});
  EXPECT_THAT(desk.Sent<Leave>(), IsEmpty());
  LetPass(desk, milliseconds(121'000), {kA});
  EXPECT_EQ(desk.Sent<Leave>().size(), 1u) << "one that never answers goes all the same";
}

TEST(Members, OneThatMayBeBackWhileNothingIsDecidedIsNotSilent) {
  Desk desk;
  RunTwo(desk);
  desk.Give(MemberDown{kB});
  const auto held_up = [&] {
    desk.Wait(milliseconds(2000));
    desk.Say(kA, Alive{});
    desk.Give(Tick{});
  };
  held_up();
  EXPECT_THAT(desk.Sent<Seal>(), IsEmpty()) << "its Join may wait";
  for (int i = 0; i < 3; ++i) held_up();
  EXPECT_EQ(desk.Sent<Seal>().size(), 1u) << "but not for ever";
}

TEST(NotFinite, IsOneStepOfAJobThatSkips) {
  Desk desk;
  RunTwoWith(desk, OnNan::kSkip);
  const int64_t end = desk.Status().steps;
  for (int64_t step = 0; step < end; ++step) desk.Record(kA, step, {}, "job", step == 3);
  EXPECT_FALSE(desk.Job().ending.stop_at.has_value());
  Commit(desk, end, true);
  desk.Give(DigestDone{"job", desk.StartOf(), "abc", ""});
  EXPECT_EQ(desk.Job().phase, JobPhase::kDone);
  EXPECT_EQ(desk.Job().ending.exit_code, kExitDone);
  EXPECT_EQ(desk.Job().reason, absl::StrCat("all ", end,
                                            " steps are done; 1 of them left the state as it was, "
                                            "because it was not finite"));
}

// ---- samples that cannot be read

// Each step is told by two members, and its samples are named once; the end counts all.
TEST(LeftOut, IsToldByStepAndAtTheEnd) {
  Desk desk;
  JobSpec spec = SpecOf(2, 2);
  spec.training.data.on_bad_sample = OnBadSample::kSkip;
  desk.Give(Submit{"job", spec});
  desk.Join(kA);
  desk.Join(kB);
  desk.Activate({kA, kB});
  desk.Drain<Announce>();
  const TrainingSpec& training = desk.Job().spec.training;
  const int64_t end = desk.Status().steps;
  const auto record = [&](const MemberId& member, int64_t step, std::vector<uint64_t> left_out) {
    StepRecord r;
    r.lineage = desk.Job().lineages.back().number;
    r.step = Step(step);
    r.view = desk.Job().view->number;
    r.samples = StepSamples(training, 100, r.step);
    r.weight = 4 - static_cast<int64_t>(left_out.size());
    r.left_out = std::move(left_out);
    desk.Say(member, Records{{r}});
  };
  for (int64_t step = 0; step < end; ++step) {
    const std::vector<uint64_t> left_out = step == 3   ? std::vector<uint64_t>{0, 2}
                                           : step == 5 ? std::vector<uint64_t>{3}
                                                       : std::vector<uint64_t>{};
    for (const MemberId& member : {kA, kB}) record(member, step, left_out);
    const std::vector<std::string> told = desk.Told();
    ASSERT_EQ(told.size(), left_out.empty() ? 0u : 1u) << step;
    if (left_out.empty()) continue;
    const auto ids = SampleIds(training, 100, StepSamples(training, 100, Step(step)));
    EXPECT_EQ(told[0], step == 3 ? absl::StrCat("step 3: samples ", ids[0], ", ", ids[2],
                                                " cannot be read and are left out")
                                 : absl::StrCat("step 5: sample ", ids[3],
                                                " cannot be read and is left out"));
  }
  EXPECT_EQ(desk.Job().tally, (StepTally{0, 3}));
  Commit(desk, end, true);
  desk.Give(DigestDone{"job", desk.StartOf(), "abc", ""});
  EXPECT_EQ(desk.Job().reason,
            absl::StrCat("all ", end, " steps are done; 3 times a sample that cannot be read was ",
                         "left out, as the ledger tells"));
}

// Nobody but the checkpoints shows that training has spoiled its parameters.
TEST(NotFinite, AStateThatIsNotIsSaidAtEveryEndOfAJobThatGoesOn) {
  for (const bool saves_its_end : {true, false}) {
    for (const bool is_stopped : {false, true}) {
      if (is_stopped && !saves_its_end) continue;  // a stop saves the state in any case
      Desk desk;
      JobSpec spec = SpecWith(OnNan::kContinue);
      spec.runtime.checkpoint.at_end = saves_its_end;
      RunTwo(desk, spec);
      const int64_t all = desk.Status().steps;
      for (int64_t step = 0; step < 6; ++step) desk.Record(kA, step);
      Commit(desk, 2, true);
      Commit(desk, 5, false);
      int64_t end = 5;
      if (is_stopped) {
        end = 7;
        desk.Give(Stop{"job"});
        const auto commands = desk.Sent<GiveCommand>();
        ASSERT_EQ(commands.size(), 1u);
        desk.Record(kA, 6, {commands[0].second.command});
      } else {
        for (int64_t step = 6; step < all; ++step) desk.Record(kA, step);
        if (saves_its_end) end = all;
      }
      if (end != 5) {
        Commit(desk, end, false);
        desk.Give(DigestDone{"job", desk.StartOf(), "abc", ""});
      }
      EXPECT_EQ(desk.Job().phase, is_stopped ? JobPhase::kStopped : JobPhase::kDone);
      const std::string first = is_stopped ? "stopped after the checkpoint of step 7; it can go on"
                                           : absl::StrCat("all ", all, " steps are done");
      const std::string reason =
          absl::StrCat(first, "; the state after ", end,
                       " steps is not finite; the newest finite checkpoint is that of step 2");
      EXPECT_EQ(desk.Job().reason, reason);
      EXPECT_THAT(desk.Told(), Contains(reason)) << "the last event says it";
    }
  }
}

TEST(NotFinite, AStateThatIsFiniteIsNoNewsAtTheEnd) {
  Desk desk;
  RunTwoWith(desk, OnNan::kContinue);
  const int64_t end = desk.Status().steps;
  for (int64_t step = 0; step < 4; ++step) desk.Record(kA, step);
  Commit(desk, 3, false);
  for (int64_t step = 4; step < end; ++step) desk.Record(kA, step);
  Commit(desk, end, true);
  desk.Give(DigestDone{"job", desk.StartOf(), "abc", ""});
  EXPECT_EQ(desk.Job().reason, absl::StrCat("all ", end, " steps are done"));
}

TEST(Jobs, OneThatIsDoneGoesOnWithMoreSteps) {
  Desk desk;
  RunTwo(desk);
  for (int64_t step = 0; step < 20; ++step) desk.Record(kA, step);
  Commit(desk, 20, true);
  desk.Give(DigestDone{"job", desk.StartOf(), "abc", ""});
  ASSERT_EQ(desk.Job().phase, JobPhase::kDone);
  JobSpec other = SpecOf(1, 2);
  desk.Give(Submit{"job", other});
  EXPECT_EQ(desk.Job().phase, JobPhase::kDone) << "as it was";
  other.training.seed = 9;
  other.training.steps = 30;
  desk.Give(Submit{"job", other});
  EXPECT_EQ(desk.Job().phase, JobPhase::kDone) << "another training";
  other.training.seed = SpecOf(1, 2).training.seed;
  desk.Give(Submit{"job", other});
  EXPECT_FALSE(Ended(desk.Job().phase));
  EXPECT_TRUE(desk.Job().resumes);
  EXPECT_EQ(desk.Job().ending.digest, "") << "that of the end to come";
  EXPECT_EQ(desk.Job().spec.training.steps, 30);
  EXPECT_EQ(desk.Status().steps, 30);
  EXPECT_EQ(desk.Status().step, Step(20));
}

// It may wait longer for its turn than somebody wants it.
TEST(Jobs, OneThatWasDoneKeepsItsResultWhenItIsCancelledInTheQueue) {
  Desk desk;
  RunTwo(desk);
  for (int64_t step = 0; step < 20; ++step) desk.Record(kA, step);
  Commit(desk, 20, true);
  desk.Give(DigestDone{"job", desk.StartOf(), "abc", ""});
  desk.Give(AgentDown{HelloOf("host", 0).agent});
  JobSpec longer = SpecOf(1, 2);
  longer.training.steps = 30;
  desk.Give(Submit{"job", longer});
  ASSERT_EQ(desk.Job().phase, JobPhase::kQueued);
  desk.Give(Cancel{"job"});
  EXPECT_EQ(desk.Job().phase, JobPhase::kCancelled);
  EXPECT_EQ(desk.Job().reason, "cancelled before it went on; its result after 20 steps stays");
  EXPECT_EQ(desk.Job().ending.digest, "abc");
}

TEST(Jobs, OneStepIsToldAsOne) {
  Desk desk;
  JobSpec spec = SpecOf(1, 2);
  spec.training.steps = 1;
  RunTwo(desk, spec);
  desk.Record(kA, 0);
  Commit(desk, 1, true);
  desk.Give(DigestDone{"job", desk.StartOf(), "abc", ""});
  EXPECT_EQ(desk.Job().reason, "its only step is done");
}

JobSpec WithoutACheckpointAtTheEnd() {
  JobSpec spec = SpecOf(1, 2);
  spec.runtime.checkpoint.at_end = false;
  return spec;
}

TEST(Checkpoint, WithoutOneAtTheEndAJobIsDoneWithTheLastRecord) {
  Desk desk;
  RunTwo(desk, WithoutACheckpointAtTheEnd());
  for (int64_t step = 0; step < 15; ++step) desk.Record(kA, step);
  Commit(desk, 10, true);
  for (int64_t step = 15; step < 19; ++step) desk.Record(kA, step);
  ASSERT_EQ(desk.Job().phase, JobPhase::kRunning);
  desk.Record(kA, 19);
  EXPECT_EQ(desk.Job().phase, JobPhase::kDone);
  EXPECT_EQ(desk.Job().ending.exit_code, kExitDone);
  EXPECT_EQ(desk.Job().ending.digest, "");
  EXPECT_THAT(desk.Drain<ComputeDigest>(), IsEmpty());
  JobSpec longer = WithoutACheckpointAtTheEnd();
  longer.training.steps = 30;
  desk.Give(Submit{"job", longer});
  desk.Give(Tick{});
  ASSERT_EQ(desk.Job().phase, JobPhase::kStarting) << "it goes on";
  desk.Join(kC);
  desk.Wait(seconds(11));
  desk.Say(kC, Alive{});
  desk.Give(Tick{});
  desk.Say(kC, Sealed{desk.Job().number, {}});
  const auto heals = desk.Sent<Heal>();
  ASSERT_FALSE(heals.empty());
  EXPECT_EQ(heals.back().second.plan.base, Step(10)) << "the last checkpoint that there is";
  EXPECT_EQ(desk.Status().step, Step(10));
}

TEST(Checkpoint, WithoutOneAtTheEndAJobThatIsStoppedBeforeIsSaved) {
  Desk desk;
  RunTwo(desk, WithoutACheckpointAtTheEnd());
  desk.Give(Stop{"job"});
  desk.Record(kA, 0, {desk.Sent<GiveCommand>().at(0).second.command});
  ASSERT_EQ(desk.Job().phase, JobPhase::kStopping) << "its checkpoint is missing";
  Commit(desk, 1, true);
  desk.Give(DigestDone{"job", desk.StartOf(), "abc", ""});
  EXPECT_EQ(desk.Job().phase, JobPhase::kStopped);
  EXPECT_EQ(desk.Job().ending.digest, "abc");
}

TEST(Checkpoint, WithoutOneAtTheEndACommitThatIsUnderWayIsWaitedFor) {
  for (const bool succeeds : {true, false}) {
    Desk desk;
    RunTwo(desk, WithoutACheckpointAtTheEnd());
    for (int64_t step = 0; step < 15; ++step) desk.Record(kA, step);
    desk.Segment(kA, 15, {0, 1}, 1);
    const auto commits = desk.Drain<CommitManifest>();
    ASSERT_EQ(commits.size(), 1u);
    for (int64_t step = 15; step < 20; ++step) desk.Record(kA, step);
    ASSERT_EQ(desk.Job().phase, JobPhase::kRunning);
    if (succeeds)
      desk.Give(ManifestCommitted{commits[0].manifest});
    else
      desk.Give(ManifestFailed{"job", LineageNumber(1), Step(15), "disk full"});
    desk.Give(Tick{});
    EXPECT_EQ(desk.Job().phase, JobPhase::kDone);
    EXPECT_EQ(desk.Status().checkpoints.size(), succeeds ? 1u : 0u);
  }
}

// Its last step is not finite: that can be said without the state.
TEST(Checkpoint, WithoutOneAtTheEndAJobMayStillEndNotFinite) {
  Desk desk;
  RunTwo(desk, WithoutACheckpointAtTheEnd());
  for (int64_t step = 0; step < 20; ++step) desk.Record(kA, step, {}, "job", step == 19);
  for (int i = 0; i < 6; ++i) {
    desk.Wait(seconds(1));
    for (const MemberId& id : {kA, kB}) desk.Say(id, Alive{});
    desk.Give(Tick{});
  }
  EXPECT_EQ(desk.Job().phase, JobPhase::kFailed);
  EXPECT_EQ(desk.Job().ending.exit_code, kExitNotFinite);
  EXPECT_EQ(desk.Job().ending.digest, "");
}

// The last update may have been too large: no step after it finds that.
TEST(NotFinite, AFinalStateIsNoEndOfAJobThatStops) {
  for (const OnNan on_nan : {OnNan::kStop, OnNan::kSkip}) {
    Desk desk;
    RunTwoWith(desk, on_nan);
    const int64_t end = desk.Status().steps;
    for (int64_t step = 0; step < end; ++step) desk.Record(kA, step);
    Commit(desk, end, false);
    desk.Give(DigestDone{"job", desk.StartOf(), "abc", ""});
    const bool stops = on_nan == OnNan::kStop;
    EXPECT_EQ(desk.Job().phase, stops ? JobPhase::kFailed : JobPhase::kDone);
    EXPECT_EQ(desk.Job().ending.exit_code, stops ? kExitNotFinite : kExitDone);
  }
}

// The disk is full for a moment, just then.
TEST(Checkpoint, TheLastOneIsCommittedAgainUntilItIsThere) {
  Desk desk;
  RunToTheLastCheckpoint(desk);
  const Step end(desk.Status().steps);
  desk.Segment(kA, end.value(), {0, 1}, 1);
  ASSERT_EQ(desk.Drain<CommitManifest>().size(), 1u);
  desk.Give(ManifestFailed{"job", LineageNumber(1), end, "disk full"});
  EXPECT_THAT(desk.Drain<CommitManifest>(), IsEmpty()) << "not at once";
  desk.Wait(seconds(1));
  desk.Give(Tick{});
  const auto commit = desk.Drain<CommitManifest>();
  ASSERT_EQ(commit.size(), 1u);
  desk.Give(ManifestCommitted{commit[0].manifest});
  EXPECT_EQ(desk.Drain<ComputeDigest>().size(), 1u);
}

TEST(Checkpoint, TheLastOneIsWrittenAgainInANewView) {
  Desk desk;
  RunToTheLastCheckpoint(desk);
  const Step end(desk.Status().steps);
  desk.Say(kB, SegmentFailed{LineageNumber(1), end, "disk full"});
  desk.Say(kA, SegmentFailed{LineageNumber(1), end, "disk full"});
  EXPECT_EQ(desk.Job().number, ViewNumber(1));
  for (int i = 0; i < 10; ++i) {
    desk.Wait(milliseconds(100));
    for (const MemberId& id : {kA, kB}) desk.Say(id, Alive{});
    desk.Give(Tick{});
  }
  EXPECT_EQ(desk.Job().number, ViewNumber(2));
  EXPECT_EQ(desk.Status().waits_for, "view 2 forms: the last checkpoint is written again");
}

// Each view writes the last one again. A part that fails in a later view is not missing in that of
// an earlier one, which is being committed: two of one step would be under way.
TEST(Checkpoint, ThatAPartCannotBeWrittenAgainLeavesTheOneThatIsBeingCommitted) {
  for (const bool is_committed : {false, true}) {
    Desk desk;
    RunToTheLastCheckpoint(desk);
    const Step end(desk.Status().steps);
    desk.Segment(kA, end.value(), {0, 1}, 1);
    const auto commit = desk.Drain<CommitManifest>();
    ASSERT_EQ(commit.size(), 1u);
    if (is_committed) desk.Give(ManifestCommitted{commit[0].manifest});
    desk.Drain<Announce>();
    desk.Say(kB, SegmentFailed{LineageNumber(1), end, "no space"});
    EXPECT_THAT(desk.Told(), IsEmpty()) << "nothing was given up";
    desk.Segment(kB, end.value(), {0, 1}, 2);
    EXPECT_THAT(desk.Drain<CommitManifest>(), IsEmpty()) << "one of that step is there";
    if (!is_committed) desk.Give(ManifestCommitted{commit[0].manifest});
    EXPECT_EQ(desk.Status().checkpoints.size(), 1u);
  }
}

// The digest is made from the files. That they cannot be read is no end as long as members hold the
// state, or an older checkpoint is there.
TEST(Checkpoint, TheLastOneThatCannotBeReadBackIsWrittenAgain) {
  struct Case {
    std::string what;
    bool members_hold;
    Step goes_on_at;
    size_t lineages;
  };
  const std::vector<Case> cases = {
      {"the members hold the state", true, Step(20), 1},
      {"they are lost, and the checkpoint before is there", false, Step(8), 2},
  };
  for (const Case& c : cases) {
    Desk desk;
    RunToTheLastCheckpoint(desk);
    const Step end(desk.Status().steps);
    for (const int64_t step : {int64_t{8}, end.value()}) {
      desk.Segment(kA, step, {0, 1}, step);
      const auto commit = desk.Drain<CommitManifest>();
      ASSERT_EQ(commit.size(), 1u);
      EXPECT_FALSE(commit[0].replaces);
      desk.Give(ManifestCommitted{commit[0].manifest});
    }
    ASSERT_EQ(desk.Drain<ComputeDigest>().size(), 1u);
    desk.Give(DigestDone{"job", desk.StartOf(), "", "s20/worker-0: wrong checksum"});
    ASSERT_EQ(desk.Job().phase, JobPhase::kRunning) << c.what;
    EXPECT_THAT(desk.Told(), ElementsAre("the checkpoint of step 20 cannot be read back: "
                                         "s20/worker-0: wrong checksum"));
    for (int i = 0; i < 10; ++i) {
      desk.Wait(milliseconds(100));
      for (const MemberId& id : {kA, kB}) desk.Say(id, Alive{});
      desk.Give(Tick{});
    }
    ASSERT_EQ(desk.Job().number, ViewNumber(2)) << c.what;
    const LocalState held = c.members_hold ? StateAt(desk) : LocalState();
    for (const MemberId& id : {kA, kB}) desk.Say(id, Sealed{ViewNumber(2), held});
    const auto heals = desk.Sent<Heal>();
    ASSERT_EQ(heals.size(), 2u) << c.what;
    EXPECT_EQ(heals[0].second.plan.base, c.goes_on_at) << c.what;
    EXPECT_EQ(desk.Job().lineages.size(), c.lineages) << c.what;
    for (const MemberId& id : {kA, kB}) desk.Say(id, HoldsBase{ViewNumber(2), 0});
    for (int64_t step = c.goes_on_at.value(); step < end.value(); ++step) desk.Record(kA, step);
    desk.Segment(kA, end.value(), {0, 1}, 99);
    const auto commit = desk.Drain<CommitManifest>();
    ASSERT_EQ(commit.size(), 1u) << c.what;
    EXPECT_EQ(commit[0].replaces, c.members_hold) << c.what;
    desk.Give(ManifestCommitted{commit[0].manifest});
    ASSERT_EQ(desk.Drain<ComputeDigest>().size(), 1u) << c.what;
    desk.Give(DigestDone{"job", desk.StartOf(), "abc", ""});
    EXPECT_EQ(desk.Job().phase, JobPhase::kDone) << c.what;
    EXPECT_EQ(desk.Job().ending.digest, "abc") << c.what;
  }
}

TEST(Checkpoint, TheLastOneIsNotTriedForEver) {
  Desk desk;
  RunToTheLastCheckpoint(desk);
  const Step end(desk.Status().steps);
  desk.Segment(kA, end.value(), {0, 1}, 1);
  for (int i = 0; i < 200 && desk.Job().phase == JobPhase::kRunning; ++i) {
    for (const CommitManifest& c : desk.Drain<CommitManifest>())
      desk.Give(ManifestFailed{"job", c.manifest.lineage, c.manifest.step, "disk full"});
    for (int s = 0; s < 120; ++s) {
      desk.Wait(milliseconds(500));
      for (const MemberId& id : {kA, kB}) desk.Say(id, Alive{});
      desk.Give(Tick{});
    }
  }
  EXPECT_EQ(desk.Job().phase, JobPhase::kFailed);
  EXPECT_THAT(desk.Job().reason,
              testing::HasSubstr("the last checkpoint failed 101 times: disk full"));
}

// Each commit fails until the job has ended, or so many have; returns how many did.
int FailCommits(Desk& desk, int most) {
  int failed = 0;
  for (int half_seconds = 0; half_seconds < 24'000 && failed < most; ++half_seconds) {
    for (const CommitManifest& c : desk.Drain<CommitManifest>()) {
      ++failed;
      desk.Give(ManifestFailed{"job", c.manifest.lineage, c.manifest.step, "disk full"});
    }
    if (desk.Job().phase == JobPhase::kStopped || desk.Job().phase == JobPhase::kFailed) break;
    desk.Wait(milliseconds(500));
    for (const MemberId& id : {kA, kB}) desk.Say(id, Alive{});
    desk.Give(Tick{});
  }
  return failed;
}

// Whoever has stopped the job waits for it, and the disk stays full.
TEST(Checkpoint, TheOneOfAStopIsTriedAFewTimes) {
  Desk desk;
  RunTwo(desk);
  for (int64_t step = 0; step < 3; ++step) desk.Record(kA, step);
  Commit(desk, 2, true);
  desk.Give(Stop{"job"});
  desk.Record(kA, 3, {desk.Sent<GiveCommand>().at(0).second.command});
  ASSERT_EQ(desk.Job().ending.stop_at, Step(4));
  const Time stopped = desk.now();
  desk.Segment(kA, 4, {0, 1}, 9);
  EXPECT_EQ(FailCommits(desk, 100), 7);
  EXPECT_EQ(desk.Job().phase, JobPhase::kStopped);
  EXPECT_EQ(desk.Job().reason,
            "stopped without the checkpoint of step 4, which failed 7 times: disk full; it goes on "
            "from that of step 2");
  EXPECT_EQ(desk.Job().ending.exit_code, kExitStopped);
  EXPECT_LT(desk.now() - stopped, seconds(70)) << "a minute of pauses";
  EXPECT_EQ(desk.Sent<Leave>().size(), 2u);
}

TEST(Checkpoint, TheOneOfAStopMayBeTheFirst) {
  Desk desk;
  RunTwo(desk);
  desk.Give(Stop{"job"});
  desk.Record(kA, 0, {desk.Sent<GiveCommand>().at(0).second.command});
  desk.Segment(kA, 1, {0, 1}, 9);
  EXPECT_EQ(FailCommits(desk, 100), 7);
  EXPECT_EQ(desk.Job().phase, JobPhase::kStopped);
  EXPECT_THAT(desk.Job().reason, testing::EndsWith("disk full; it goes on from its beginning"));
}

// All steps are done, and somebody could still make room, until the job is stopped.
TEST(Checkpoint, AStopEndsAJobWhoseLastOneHasFailedAlready) {
  struct Case {
    int before;
    int after;
  };
  for (const Case& c : {Case{3, 4}, Case{20, 0}}) {
    Desk desk;
    RunToTheLastCheckpoint(desk);
    desk.Segment(kA, desk.Status().steps, {0, 1}, 9);
    ASSERT_EQ(FailCommits(desk, c.before), c.before);
    ASSERT_EQ(desk.Job().phase, JobPhase::kRunning) << c.before;
    desk.Give(Stop{"job"});
    EXPECT_EQ(FailCommits(desk, 100), c.after) << c.before;
    EXPECT_EQ(desk.Job().phase, JobPhase::kStopped) << c.before;
    EXPECT_THAT(desk.Job().reason, testing::HasSubstr("stopped without the checkpoint of step 20"));
  }
}

// Whoever could not write it said so to a coordinator that is gone.
TEST(Checkpoint, TheLastOneIsNotWaitedForForEver) {
  Desk desk;
  RunToTheLastCheckpoint(desk);
  for (int i = 0; i < 200 * 130 && desk.Job().phase != JobPhase::kFailed; ++i) {
    desk.Wait(seconds(1));
    for (const MemberId& id : {kA, kB}) desk.Say(id, Alive{});
    desk.Give(Tick{});
    for (const auto& [to, seal] : desk.Sent<Seal>())
      desk.Say(to == kA.name ? kA : kB, Sealed{desk.Job().number, StateAt(desk)});
    if (desk.Job().phase == JobPhase::kRecovering)
      for (const MemberId& id : {kA, kB}) desk.Say(id, HoldsBase{desk.Job().number, 0});
  }
  EXPECT_EQ(desk.Job().phase, JobPhase::kFailed);
  EXPECT_THAT(desk.Job().reason, testing::HasSubstr("its parts did not come"));
}

TEST(Checkpoint, PruningIsDecidedWhenItIsCommitted) {
  Desk desk;
  RunTwo(desk);
  desk.Record(kA, 0);
  desk.Segment(kA, 1, {0, 1}, 1);
  const CommitManifest commit = desk.Drain<CommitManifest>().at(0);
  desk.Give(ManifestCommitted{commit.manifest});
  const auto prunes = desk.Drain<PruneManifests>();
  ASSERT_EQ(prunes.size(), 1u);
  EXPECT_EQ(prunes[0].newest.step, Step(1));
  // Another, of a lineage that is not the job's any more.
  Manifest late = commit.manifest;
  late.lineage = LineageNumber(7);
  late.step = Step(2);
  desk.Give(ManifestCommitted{late});
  EXPECT_THAT(desk.Drain<PruneManifests>(), IsEmpty());
  EXPECT_EQ(desk.Status().checkpoints.size(), 1u);
}

// ---- the best one

struct Measuring : Desk {
  explicit Measuring(const std::string& best) {
    JobSpec spec = SpecOf(1, 2);
    spec.training.validation.every_steps = 2;
    spec.runtime.checkpoint.keep = 1;
    spec.runtime.checkpoint.keep_best = best;
    NumericEnvironment environment = Environment();
    const auto sums = SumTensors(spec.training.validation, {{"loss"}, {"accuracy"}});
    environment.tensors.insert(environment.tensors.end(), sums->begin(), sums->end());
    Give(Submit{"job", spec});
    Join(kA, "job", environment);
    Join(kB, "job", environment);
    Activate({kA, kB});
    EXPECT_EQ(Job().phase, JobPhase::kRunning);
  }
  void Commit(int64_t step) {
    Segment(kA, step, {0, 1, 2}, step);
    for (const CommitManifest& commit : Drain<CommitManifest>())
      Give(ManifestCommitted{commit.manifest});
  }
  // "step: measure value" of each that is to be saved.
  std::vector<std::string> Saved() {
    std::vector<std::string> saved;
    for (const SaveMeasure& save : Drain<SaveMeasure>())
      saved.push_back(
          absl::StrCat(save.step.value(), ": ", save.measure.measure, " ", save.measure.value));
    return saved;
  }
};

TEST(Checkpoint, IsMeasuredInTheStepAfterIt) {
  Measuring desk("validation.accuracy");
  desk.Record(kA, 0);
  desk.Record(kA, 1);
  desk.Commit(2);
  std::vector<BestRule> rules;
  for (const Action& action : desk.DrainAll()) {
    EXPECT_FALSE(std::holds_alternative<SaveMeasure>(action)) << "nobody knows yet";
    if (const auto* prune = std::get_if<PruneManifests>(&action)) rules.push_back(prune->best);
  }
  EXPECT_THAT(rules, ElementsAre(BestRule{"validation.accuracy", /*less=*/false}));
  desk.Measure(kA, 2, {{8, 4}, {3, 4}});
  EXPECT_THAT(desk.Saved(), ElementsAre("2: validation.accuracy 0.75"));
  desk.Measure(kB, 2, {{8, 4}, {3, 4}});
  EXPECT_THAT(desk.Saved(), IsEmpty()) << "another member tells the same";
  desk.Record(kA, 3);
  desk.Measure(kA, 4, {{8, 4}, {2, 4}});
  EXPECT_THAT(desk.Saved(), ElementsAre("2: validation.accuracy 0.75")) << "once more; 4 is none";
  desk.Commit(4);
  EXPECT_THAT(desk.Saved(), ElementsAre("4: validation.accuracy 0.5")) << "the record came first";
}

TEST(Checkpoint, IsNotMeasuredWhereNobodyKeepsTheBest) {
  Measuring desk("");
  desk.Record(kA, 0);
  desk.Record(kA, 1);
  desk.Commit(2);
  desk.Measure(kA, 2, {{8, 4}, {3, 4}});
  EXPECT_THAT(desk.Saved(), IsEmpty());
}

TEST(Checkpoint, AnOlderOneThanTheNewestIsAcknowledgedAndForgotten) {
  Desk desk;
  RunTwo(desk);
  desk.Record(kA, 0);
  desk.Record(kA, 1);
  desk.Segment(kA, 2, {0, 1}, 1);
  desk.Give(ManifestCommitted{desk.Drain<CommitManifest>().at(0).manifest});
  desk.Drain<Announce>();
  desk.Segment(kB, 1, {0, 1}, 9);
  const auto acks = desk.Sent<AckSegments>();
  ASSERT_EQ(acks.size(), 1u);
  EXPECT_THAT(acks[0].second.ids, ElementsAre(9));
}

TEST(Checkpoint, ALostSegmentGivesTheRoundUp) {
  Desk desk;
  RunTwo(desk);
  desk.Record(kA, 0);
  desk.Segment(kA, 1, {0}, 1);
  desk.Say(kB, SegmentFailed{LineageNumber(1), Step(1), "disk full"});
  EXPECT_THAT(
      desk.Drain<Announce>(),
      testing::Contains(testing::AllOf(
          testing::Field(&Announce::text, "checkpoint of step 1 was given up: worker-1: disk full"),
          testing::Field(&Announce::fields, testing::Contains(testing::Pair("saves", "false"))))));
  desk.Segment(kB, 1, {0, 1}, 2);
  EXPECT_THAT(desk.Drain<CommitManifest>(), IsEmpty()) << "not without the part that is lost";
  desk.Segment(kB, 1, {0, 1}, 3);
  const auto acks = desk.Sent<AckSegments>();
  ASSERT_EQ(acks.size(), 1u) << "parts of it are kept by nobody";
  EXPECT_THAT(acks[0].second.ids, ElementsAre(3));
}

// Ticks of a tenth of a second, in which nobody is silent.
size_t CommandsIn(Desk& desk, int tenths) {
  size_t commands = 0;
  for (int i = 0; i < tenths; ++i) {
    desk.Wait(milliseconds(100));
    for (const MemberId& id : {kA, kB}) desk.Say(id, Alive{});
    desk.Give(Tick{});
    commands += desk.Sent<GiveCommand>().size();
  }
  return commands;
}

// A job with a checkpoint each second, of which the first fails.
void FailTheFirstByTime(Desk& desk, const SegmentFailed& failed) {
  JobSpec spec = SpecOf(1, 2);
  spec.runtime.checkpoint.every_seconds = 1;
  RunTwo(desk, spec);
  ASSERT_EQ(CommandsIn(desk, 10), 1u);
  const JobCommand first{desk.Job().next_command - 1, JobCommandKind::kCheckpoint};
  desk.Record(kA, 0, {first});
  desk.Say(kB, failed);
}

// Two members with slow disks that skip different rounds would complete none.
TEST(Checkpoint, ByTimeTheyAreRarerAfterOneThatWasGivenUp) {
  Desk desk;
  ASSERT_NO_FATAL_FAILURE(
      FailTheFirstByTime(desk, SegmentFailed{LineageNumber(1), Step(1), "its disk is slow", true}));
  EXPECT_EQ(CommandsIn(desk, 9), 0u);
  EXPECT_EQ(CommandsIn(desk, 9), 0u) << "not after one second";
  EXPECT_EQ(CommandsIn(desk, 2), 1u);
}

TEST(Checkpoint, ByTimeTheNextOneComesInTimeAfterOneThatCouldNotBeWritten) {
  Desk desk;
  ASSERT_NO_FATAL_FAILURE(
      FailTheFirstByTime(desk, SegmentFailed{LineageNumber(1), Step(1), "disk full"}));
  EXPECT_EQ(CommandsIn(desk, 9), 0u);
  EXPECT_EQ(CommandsIn(desk, 2), 1u);
}

TEST(Checkpoint, AFailureBeforeThereIsALineageIsNothing) {
  Desk desk;
  desk.Give(Submit{"job", SpecOf(2, 2)});
  desk.Join(kA);
  desk.Say(kA, SegmentFailed{LineageNumber(1), Step(1), "disk full"});
  EXPECT_THAT(desk.Told(), testing::Not(testing::Contains(testing::HasSubstr("given up"))));
}

// ---- resume

RecoveredState StoppedAt(std::vector<int64_t> checkpoints) {
  JobJournal job;
  job.id = "job";
  job.submission = 1;
  job.spec = SpecOf(1, 1);
  job.phase = JobPhase::kStopped;
  job.environment = Environment();
  job.lineages = {{LineageNumber(1), LineageNumber(0), Step(0), "start"}};
  job.number = ViewNumber(3);
  RecoveredState found;
  found.jobs = {job};
  found.recorded["job"] = Step(8);
  for (int64_t step : checkpoints) {
    Manifest m;
    m.job = "job";
    m.lineage = LineageNumber(1);
    m.step = Step(step);
    found.manifests["job"].push_back(m);
  }
  return found;
}

// The plan that the only worker gets.
std::optional<HealPlan> PlanAfter(Desk& desk, const Resume& resume,
                                  const std::shared_ptr<const Manifest>& from = nullptr) {
  Submit submit{"job", SpecOf(1, 1)};
  submit.spec.runtime.resume = resume;
  submit.from = from;
  desk.Give(submit);
  desk.Join(kA);
  desk.Say(kA, Sealed{desk.Job().number, {}});
  const auto heals = desk.Sent<Heal>();
  if (heals.empty()) return std::nullopt;
  return heals.back().second.plan;
}

TEST(Resume, LatestIsTheNewestCheckpoint) {
  Desk desk(StoppedAt({4, 8}));
  const auto plan = PlanAfter(desk, {ResumeKind::kLatest, 0});
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->base, Step(8));
  EXPECT_THAT(plan->how, ElementsAre(HealBy::kLoad));
  EXPECT_EQ(desk.Job().lineages.back(),
            (Lineage{LineageNumber(2), LineageNumber(1), Step(8), "resumed"}));
  EXPECT_EQ(desk.Job().rewinds, 0) << "what one asks for is no rewind";
}

TEST(Resume, TheDigestOfWhereItStoppedIsNotTheOneOfWhatFollows) {
  RecoveredState found = StoppedAt({4, 8});
  found.jobs[0].ending.digest = "of step 8";
  found.jobs[0].ending.exit_code = 75;
  Desk desk(std::move(found));
  PlanAfter(desk, {ResumeKind::kLatest, 0});
  EXPECT_EQ(desk.Job().ending.digest, "");
  EXPECT_EQ(desk.Job().ending.exit_code, 0);
}

TEST(Resume, FromAnEarlierCheckpointAlsoAtTheEnd) {
  for (const ResumeKind kind : {ResumeKind::kStep, ResumeKind::kNever}) {
    RecoveredState found = StoppedAt({10, 20});
    found.jobs[0].phase = JobPhase::kFailed;
    found.recorded["job"] = Step(20);
    found.jobs[0].view.emplace();
    found.jobs[0].view->number = ViewNumber(3);
    found.jobs[0].view->lineage = LineageNumber(1);
    found.jobs[0].number = ViewNumber(3);
    Desk desk(std::move(found));
    JobSpec spec = SpecOf(1, 1);
    spec.runtime.resume = {kind, kind == ResumeKind::kStep ? 10 : 0};
    desk.Give(Submit{"job", spec});
    desk.Give(Tick{});
    EXPECT_THAT(desk.Drain<ComputeDigest>(), IsEmpty()) << "of where it does not go on";
  }
}

TEST(Resume, AFailedJobGoesOnOnceItsReasonIsMended) {
  RecoveredState found = StoppedAt({4, 8});
  found.jobs[0].phase = JobPhase::kFailed;
  Desk desk(std::move(found));
  const auto plan = PlanAfter(desk, {ResumeKind::kLatest, 0});
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->base, Step(8));
}

TEST(Resume, ThatNoCheckpointCouldBeLoadedHidesNoneOfThem) {
  RecoveredState found = StoppedAt({4, 8});
  found.jobs[0].view.emplace();
  found.jobs[0].view->number = ViewNumber(3);
  found.jobs[0].view->lineage = LineageNumber(1);
  Desk desk(std::move(found));
  PlanAfter(desk, {ResumeKind::kLatest, 0});
  for (int checkpoint : {8, 4}) {
    desk.Say(kA, BaseFailed{desk.Job().number, "a flipped bit", /*damaged=*/true});
    desk.Say(kA, Sealed{desk.Job().number, {}});
    EXPECT_EQ(desk.Job().phase == JobPhase::kFailed, checkpoint == 4);
  }
  EXPECT_EQ(desk.Job().ending.exit_code, 65);
  EXPECT_EQ(desk.Job().lineages.back(),
            (Lineage{LineageNumber(4), LineageNumber(1), Step(8), "job ended"}));
  const auto plan = PlanAfter(desk, {ResumeKind::kLatest, 0});  // the files are back
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->base, Step(8));
  EXPECT_EQ(plan->lineage, LineageNumber(5));
}

// As the ledger tells of steps 6 and 7, of which the second is done again.
RecoveredState StoppedAtWithRecords() {
  RecoveredState found = StoppedAt({7});
  for (int64_t step : {6, 7}) {
    StepRecord record;
    record.lineage = LineageNumber(1);
    record.step = Step(step);
    record.samples = StepSamples(SpecOf(1, 1).training, 100, record.step);
    record.weight = 4;
    record.loss = 2;
    found.recent["job"].records[record.step] = record;
    found.recent["job"].fingerprints[record.step + 1] = {1, static_cast<uint64_t>(step), true};
  }
  return found;
}

StepRecord AgainAfterResuming(const Desk& desk, double loss, uint64_t fingerprint) {
  StepRecord record = StoppedAtWithRecords().recent["job"].records[Step(7)];
  record.lineage = desk.Job().lineages.back().number;
  if (desk.Job().view) record.view = desk.Job().view->number;
  record.loss = loss;
  record.fingerprint = FingerprintPart{1, fingerprint, true};
  return record;
}

void ResumeAtSeven(Desk& desk) {
  PlanAfter(desk, {ResumeKind::kLatest, 0});
  desk.Say(kA, HoldsBase{desk.Job().number, 0});
  desk.Told();
}

TEST(Resume, AStepThatIsDoneAgainIsComparedWithTheLedger) {
  Desk desk(StoppedAtWithRecords());
  ResumeAtSeven(desk);
  desk.Say(kA, Records{{AgainAfterResuming(desk, 3, 8)}});
  EXPECT_THAT(desk.Told(), ElementsAre("state 8 was made again and differs: fingerprint "
                                       "00000000000000010000000000000008 instead of "
                                       "00000000000000010000000000000007",
                                       "step 7 was done again and differs: loss 3 instead of 2"));
}

TEST(Resume, AStepThatIsDoneAgainAndIsTheSameIsNoNews) {
  Desk desk(StoppedAtWithRecords());
  ResumeAtSeven(desk);
  desk.Say(kA, Records{{AgainAfterResuming(desk, 2, 7)}});
  EXPECT_THAT(desk.Told(), IsEmpty());
}

TEST(Resume, AWordThatDiffersFromTheLedgersIsTold) {
  Desk desk(StoppedAtWithRecords());
  ResumeAtSeven(desk);
  desk.Say(kA, Records{{AgainAfterResuming(desk, 2, 7)}});
  desk.Say(kA, Records{{AgainAfterResuming(desk, 4, 9)}});
  EXPECT_THAT(desk.Told(),
              ElementsAre("fingerprints of step 8 differ: worker-0 has "
                          "00000000000000010000000000000009, the first report was "
                          "00000000000000010000000000000007",
                          "records of step 7 disagree: worker-0 reports loss 4, the first report "
                          "was 2"));
}

TEST(Resume, NeverIsTheBeginning) {
  Desk desk(StoppedAt({4, 8}));
  const auto plan = PlanAfter(desk, {ResumeKind::kNever, 0});
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->base, Step(0));
  EXPECT_THAT(plan->how, ElementsAre(HealBy::kMake));
}

TEST(Resume, AStepIsThatCheckpoint) {
  Desk desk(StoppedAt({4, 8}));
  const auto plan = PlanAfter(desk, {ResumeKind::kStep, 4});
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->base, Step(4));
}

// One that is kept by its name alone: no start would go back to it by itself.
TEST(Resume, AStepMayBeThatOfACheckpointThatTheJobDidNotKnow) {
  Desk desk(StoppedAt({8}));
  const Manifest found = StoppedAt({4}).manifests["job"].at(0);
  const auto plan =
      PlanAfter(desk, {ResumeKind::kStep, 4}, std::make_shared<const Manifest>(found));
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->base, Step(4));
  ASSERT_TRUE(plan->manifest.has_value());
  EXPECT_EQ(*plan->manifest, found);
}

TEST(Resume, AStepWithoutACheckpointFailsAndSaysWhich) {
  Desk desk(StoppedAt({4, 8}));
  EXPECT_FALSE(PlanAfter(desk, {ResumeKind::kStep, 5}).has_value());
  EXPECT_EQ(desk.Job().phase, JobPhase::kFailed);
  EXPECT_EQ(desk.Job().reason, "resume: there is no checkpoint of step 5");
}

TEST(Resume, ADamagedCheckpointIsNamedAndTheOneBeforeIsTaken) {
  Desk desk(StoppedAt({4, 8}));
  ASSERT_TRUE(PlanAfter(desk, {ResumeKind::kLatest, 0}).has_value());
  desk.Drain<Announce>();
  desk.Say(
      kA, BaseFailed{desk.Job().number, "segment s8/worker-0: chunk 1 has a wrong checksum", true});
  EXPECT_THAT(desk.Told(), testing::Contains("the checkpoint of step 8 is damaged and is passed "
                                             "over: segment s8/worker-0: chunk 1 has a "
                                             "wrong checksum (found by worker-0)"));
  desk.Say(kA, Sealed{desk.Job().number, {}});
  const auto heals = desk.Sent<Heal>();
  ASSERT_EQ(heals.size(), 1u);
  EXPECT_EQ(heals[0].second.plan.base, Step(4));
}

// A disk that cannot be read here says nothing about the checkpoint.
TEST(Resume, AMemberThatCannotReadLeavesAndTheCheckpointStays) {
  Desk desk(StoppedAt({8}));
  ASSERT_TRUE(PlanAfter(desk, {ResumeKind::kLatest, 0}).has_value());
  desk.Drain<Announce>();
  desk.Say(kA, BaseFailed{desk.Job().number, "'s8': permission denied", false});
  const auto leave = desk.Sent<Leave>();
  ASSERT_EQ(leave.size(), 1u);
  EXPECT_THAT(leave[0].second.reason, testing::HasSubstr("could not load the checkpoint"));
  const MemberId again = Id("worker-0", 2);
  desk.Join(again);
  desk.Say(again, Sealed{desk.Job().number, {}});
  const auto heals = desk.Sent<Heal>();
  ASSERT_EQ(heals.size(), 1u);
  EXPECT_EQ(heals[0].second.plan.base, Step(8));
}

// Rather than to begin anew, and to prune what an expert could still save.
TEST(Resume, WithoutAWholeCheckpointTheJobFailsAndNothingIsRemoved) {
  Desk desk(StoppedAt({8}));
  ASSERT_TRUE(PlanAfter(desk, {ResumeKind::kLatest, 0}).has_value());
  desk.Say(kA, BaseFailed{desk.Job().number, "chunk 1 has a wrong checksum", true});
  desk.Say(kA, Sealed{desk.Job().number, {}});
  EXPECT_EQ(desk.Job().phase, JobPhase::kFailed);
  EXPECT_THAT(desk.Job().reason, testing::HasSubstr("resume: never"));
}

// What a user types after all was killed: fewer workers. The file says `resume: never` from when
// the job began, and nobody decides to begin anew.
TEST(Resume, OtherRuntimeFieldsAreAcceptedWhileNobodyHasJoined) {
  Desk before;
  RunTwo(before);
  RecoveredState found = StoppedAt({4});
  found.jobs = {before.Job()};
  Desk desk(std::move(found));
  for (int i = 0; i < 31; ++i) {  // nobody comes back
    desk.Wait(milliseconds(100));
    desk.Give(Tick{});
  }
  JobSpec spec = SpecOf(1, 1);
  spec.runtime.resume.kind = ResumeKind::kNever;
  desk.Give(Submit{"job", spec});
  spec.runtime.resume = {};
  EXPECT_EQ(desk.Job().spec.runtime, spec.runtime);
  const MemberId again = Id("worker-0", 2);
  desk.Join(again);
  desk.Say(again, Sealed{desk.Job().number, {}});
  const auto heals = desk.Sent<Heal>();
  ASSERT_EQ(heals.size(), 1u);
  EXPECT_EQ(heals[0].second.plan.base, Step(4));
  EXPECT_THAT(heals[0].second.plan.how, ElementsAre(HealBy::kLoad));
  desk.Give(Submit{"job", SpecOf(1, 2)});
  EXPECT_EQ(desk.Job().spec.runtime, spec.runtime) << "now somebody has joined";
}

// ---- members

TEST(Members, AServerWithOtherKernelsIsTurnedAway) {
  Desk desk;
  JobSpec spec = SpecOf(1, 2);
  spec.training.sync = Sync::kServer;
  spec.runtime.servers = 1;
  desk.Give(Submit{"job", spec});
  desk.Join(kA);
  desk.Drain<Announce>();
  muster::Join join;
  join.job = "job";
  join.start = desk.StartOf();
  join.id = Id("server-0");
  join.role = Role::kServer;
  join.environment = Environment();
  join.environment.numeric = {{"isa", "avx512"}};
  desk.Say(join.id, join);
  EXPECT_THAT(
      desk.Told(),
      ElementsAre("server-0 was turned away: its numeric environment differs from the job's: "
                  "isa (avx512; the job has avx2)"));
  join.environment.numeric = {{"isa", "avx2"}};
  desk.Say(join.id, join);
  EXPECT_THAT(desk.Told(), Contains("server-0 joined"));
}

// What a server holds follows from the number of servers, and a later process of a name takes the
// place of the one before: who is not wanted would cause a rewind.
TEST(Members, OneThatTheJobDoesNotWantTakesNobodysPlace) {
  struct Case {
    std::string what;
    MemberId id;
    Role role;
    std::string said;
  };
  const std::vector<Case> cases = {
      {"left over from a start with more servers", Id("server-1", 2), Role::kServer,
       "server-1 was turned away: the job has 1 server, and none of this name"},
      {"a server under the name of a worker", Id("worker-0", 2), Role::kServer,
       "worker-0 was turned away: the job has 1 server, and none of this name"},
      {"a worker under the name of a server", Id("server-0", 2), Role::kWorker,
       "server-0 was turned away: it is a worker under the name of one of the job's servers"},
  };
  for (const Case& c : cases) {
    Desk desk;
    JobSpec spec = SpecOf(1, 1);
    spec.training.sync = Sync::kServer;
    spec.runtime.servers = 1;
    desk.Give(Submit{"job", spec});
    desk.Join(kA);
    desk.Join(Id("server-0"), Role::kServer);
    desk.Activate({kA, Id("server-0")});
    ASSERT_EQ(desk.Job().phase, JobPhase::kRunning);
    desk.Drain<Announce>();
    desk.Join(c.id, c.role);
    EXPECT_THAT(desk.Told(), ElementsAre(c.said)) << c.what;
    EXPECT_EQ(desk.Job().number, ViewNumber(1)) << c.what;
  }
}

// Each attempt has a reason of its own, and each reason is long.
TEST(Members, RefusedAttemptsFillNoEventsAndAGenuineOneIsStillTold) {
  Desk desk;
  desk.Give(Submit{"job", SpecOf(1, 2)});
  desk.Join(kA);
  desk.Drain<Announce>();
  NumericEnvironment other = Environment();
  const auto try_as = [&](const std::string& name, int attempt) {
    other.numeric["isa"] = absl::StrCat(attempt, std::string(60'000, 'x'));
    desk.Join(Id(name, 2 + static_cast<uint64_t>(attempt)), "job", other);
  };
  for (int i = 0; i < 300; ++i) try_as(absl::StrCat("stranger-", i), i);
  try_as("worker-1", 300);
  size_t bytes = 0;
  for (const std::string& text : desk.Told()) bytes += text.size();
  EXPECT_LE(bytes, kToldInAMinute * kMostShownBytes);
  desk.Wait(std::chrono::minutes(1));
  desk.Give(Tick{});
  EXPECT_THAT(desk.Told(), Contains("297 more attempts to join were turned away: its numeric "
                                    "environment differs from the job's (worker-1)"));
}

// Whatever a stranger puts into its Join, it makes no kind of refusal of its own of it.
TEST(Members, NothingThatAStrangerSaysIsAKindOfRefusal) {
  struct Row {
    std::string of;
    std::function<void(Join& join, int attempt)> vary;
  };
  const std::vector<Row> rows = {
      {"samples",
       [](Join& join, int attempt) {
         join.environment.samples = kMostSamples + 1 + static_cast<uint64_t>(attempt);
       }},
      {"data", [](Join& join, int i) { join.environment.samples += 1 + static_cast<uint64_t>(i); }},
      {"cluster", [](Join& join, int i) { join.cluster = absl::StrCat("cluster-", i); }},
      {"start", [](Join& join, int i) { join.start = StartNumber(1'000'000 + i); }},
      {"term", [](Join& join, int i) { join.term = TermNumber(1'000'000 + i); }},
      {"sealed view", [](Join& join, int i) { join.sealed = ViewNumber(1'000'000 + i); }},
      {"name of a server",
       [](Join& join, int i) {
         join.role = Role::kServer;
         join.id.name = absl::StrCat("server-", i);
       }},
  };
  for (const Row& row : rows) {
    Desk desk;
    desk.Give(Submit{"job", SpecOf(1, 2)});
    desk.Join(kA);
    desk.Drain<Announce>();
    for (int i = 0; i < 1'000; ++i) {
      Join join;
      join.job = "job";
      join.start = desk.StartOf();
      join.id = Id(absl::StrCat("stranger-", i), 2 + static_cast<uint64_t>(i));
      join.environment = Environment();
      row.vary(join, i);
      desk.Say(join.id, join);
    }
    EXPECT_EQ(desk.Told().size(), static_cast<size_t>(kToldInAMinute)) << row.of;
    desk.Wait(std::chrono::minutes(1));
    desk.Give(Tick{});
    const std::vector<std::string> told = desk.Told();
    EXPECT_EQ(std::count_if(told.begin(), told.end(),
                            [](const std::string& text) {
                              return absl::StrContains(text, "996 more attempts to join");
                            }),
              1)
        << row.of << ": the rest, in one sentence";
  }
}

TEST(Members, OneThatHoldsALaneThatIsNoneIsGivenUp) {
  Desk desk;
  RunTwo(desk);
  desk.Join(kC);
  desk.Give(MemberDown{kB});
  for (int i = 0; i < 17; ++i) {
    desk.Wait(milliseconds(100));
    desk.Say(kA, Alive{});
    desk.Give(Tick{});
  }
  ASSERT_EQ(desk.Job().number, ViewNumber(2));
  LocalState local_state;
  local_state.has_state = true;
  local_state.lineage = LineageNumber(1);
  local_state.lanes = {LaneId(4095)};
  desk.Drain<Announce>();
  desk.Say(kA, Sealed{ViewNumber(2), local_state});
  const auto leave = desk.Sent<Leave>();
  ASSERT_EQ(leave.size(), 1u);
  EXPECT_THAT(leave[0].second.reason, testing::HasSubstr("lane 4095"));
}

TEST(Members, ALossThatIsNoNumberIsToldOnceAndIsNoDisagreement) {
  Desk desk;
  RunTwoWith(desk, OnNan::kContinue);
  StepRecord r;
  r.lineage = LineageNumber(1);
  r.view = desk.Job().view->number;
  r.samples = StepSamples(desk.Job().spec.training, 100, r.step);
  r.weight = 4;
  r.loss = std::numeric_limits<double>::quiet_NaN();
  for (const MemberId& id : {kA, kB}) desk.Say(id, Records{{r}});
  r.step = Step(1);
  r.samples = StepSamples(desk.Job().spec.training, 100, r.step);
  for (const MemberId& id : {kA, kB}) desk.Say(id, Records{{r}});
  const auto told = desk.Told();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_THAT(told[0], testing::HasSubstr("training has diverged"));
}

TEST(Members, WhyARecordIsNotTakenIsSaidOfOneAsOfMany) {
  Desk desk;
  JobSpec spec = SpecOf(1, 1);
  spec.training.steps = 1;
  desk.Give(Submit{"job", spec});
  desk.Join(kA);
  desk.Activate({kA});
  desk.Drain<Announce>();
  StepRecord r;
  r.lineage = LineageNumber(1);
  r.view = desk.Job().view->number;
  r.weight = 4;
  r.step = Step(1);
  desk.Say(kA, Records{{r}});
  r.step = Step(0);
  r.lane_holders = {kA};
  desk.Say(kA, Records{{r}});
  EXPECT_THAT(
      desk.Told(),
      ElementsAre(
          "a record by worker-0 is not taken: its step is none of the job, which has 1 step",
          "a record by worker-0 is not taken: it names holders of 1 lane, and the job has "
          "4"));
}

TEST(Members, ARecordOfAStepThatTheJobDoesNotHaveIsNotTaken) {
  Desk desk;
  RunTwo(desk);
  desk.Record(kA, 0);
  desk.Drain<Announce>();
  StepRecord r;
  r.lineage = LineageNumber(1);
  r.view = desk.Job().view->number;
  r.weight = 4;
  r.commands = {JobCommand{1, JobCommandKind::kStop}};
  for (const int64_t step : {int64_t{20}, int64_t{1} << 62}) {
    r.step = Step(step);
    desk.Say(kB, Records{{r}});
  }
  EXPECT_THAT(desk.Told(),
              ElementsAre("a record by worker-1 is not taken: its step is none of the job, "
                          "which has 20 steps"))
      << "once";
  r.step = Step(1);
  r.lane_holders = {kA, kB};
  desk.Say(kB, Records{{r}});
  const auto actions = desk.Drain<Announce>();
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_THAT(actions[0].text, HasSubstr("it names holders of 2 lanes, and the job has 4"));
  EXPECT_EQ(desk.Status().step, Step(1));
  EXPECT_FALSE(desk.Job().ending.stop_at);
}

// As the agent tells it: killed, with two lanes of step 0 run.
ProcessExited EndOf(const Desk& desk, const MemberId& id) {
  ProcessExited exited = ExitOf(desk, id.name, "killed by SIGKILL");
  exited.signal = 9;
  exited.lanes.incarnation = id.incarnation;
  exited.lanes.total = 2;
  exited.lanes.lineage = LineageNumber(1);
  exited.lanes.in_step = 2;
  return exited;
}

TEST(Members, ASilentOneIsGivenUpAfterItsLease) {
  Desk desk;
  RunTwo(desk);
  for (int i = 0; i < 15; ++i) {
    desk.Wait(milliseconds(100));
    desk.Say(kA, Alive{});
    desk.Give(Tick{});
  }
  EXPECT_EQ(desk.Job().number, ViewNumber(1)) << "1.5 s";
  desk.Wait(milliseconds(100));
  desk.Say(kA, Alive{});
  desk.Give(Tick{});
  EXPECT_EQ(desk.Job().number, ViewNumber(2));
  EXPECT_THAT(desk.Told(),
              testing::Contains("view 2 forms: worker-1: silent for longer than its lease"));
}

// To give up the only copy of the state costs the steps since the last checkpoint, so silence alone
// does not do it for a while. With servers each is the only one that has its chunks whole.
TEST(Members, TheOnlyCopyOfTheStateIsNotGivenUpForAShortSilence) {
  struct Case {
    std::string what;
    Sync sync;
    int32_t lanes;
    std::set<std::string> speak;
    std::string ended;
    int seconds;
    std::vector<std::string> left;
  };
  constexpr Sync kWorkers = Sync::kAllreduce, kServers = Sync::kServer;
  const std::vector<Case> cases = {
      {"another has it too", kWorkers, 4, {"worker-0"}, "", 2, {"worker-0"}},
      {"all are silent", kWorkers, 4, {}, "", 14, {"worker-0", "worker-1"}},
      {"all are silent for long", kWorkers, 4, {}, "", 16, {}},
      {"the other has ended", kWorkers, 4, {}, "worker-1", 14, {"worker-0"}},
      {"both have ended or are silent for long", kWorkers, 4, {}, "worker-1", 16, {}},
      {"the spare speaks", kWorkers, 1, {"worker-1"}, "", 14, {"worker-0", "worker-1"}},
      {"the spare is silent", kWorkers, 1, {"worker-0"}, "", 2, {"worker-0"}},
      {"a server",
       kServers,
       4,
       {"worker-0", "server-1"},
       "",
       14,
       {"server-0", "server-1", "worker-0"}},
      {"a server, for long",
       kServers,
       4,
       {"worker-0", "server-1"},
       "",
       16,
       {"server-1", "worker-0"}},
      {"a server, where another has ended", kServers, 4, {"worker-0"}, "server-1", 2, {"worker-0"}},
      {"a worker beside servers",
       kServers,
       4,
       {"server-0", "server-1"},
       "",
       2,
       {"server-0", "server-1"}},
  };
  for (const Case& c : cases) {
    Desk desk;
    const bool of_servers = c.sync == kServers;
    JobSpec spec = SpecOf(1, of_servers ? 1 : 2);
    spec.training.sync = c.sync;
    spec.training.lanes = c.lanes;
    spec.runtime.servers = of_servers ? 2 : 0;
    desk.Give(Submit{"job", spec});
    std::vector<MemberId> members = {kA};
    if (!of_servers) members.push_back(kB);
    for (int i = 0; i < spec.runtime.servers; ++i)
      members.push_back(Id(absl::StrCat("server-", i)));
    for (const MemberId& id : members)
      desk.Join(id, id.name[0] == 's' ? Role::kServer : Role::kWorker);
    desk.Activate(members);
    ASSERT_EQ(desk.Job().phase, JobPhase::kRunning) << c.what;
    for (const MemberId& id : members) {
      if (id.name != c.ended) continue;
      ProcessExited exited = ExitOf(desk, id.name, "killed by SIGKILL");
      exited.lanes.incarnation = id.incarnation;
      desk.Give(AgentSays{exited});
    }
    for (int tick = 0; tick < c.seconds * 10; ++tick) {
      desk.Wait(milliseconds(100));
      for (const MemberId& id : members)
        if (c.speak.count(id.name) > 0) desk.Say(id, Alive{});
      desk.Give(Tick{});
    }
    std::vector<std::string> left;
    for (const MemberStatus& member : desk.Status().members) left.push_back(member.member.id.name);
    EXPECT_EQ(left, c.left) << c.what;
  }
}

// Nobody tells its end, and its session breaks when the network gives it up.
TEST(Members, AMachineThatIsGoneIsWaitedForOnce) {
  for (const int lasts : {14, 16}) {
    Desk desk;
    RunTwo(desk);
    for (int tick = 1; tick <= lasts * 10; ++tick) {
      desk.Wait(milliseconds(100));
      desk.Give(Tick{});
      if (tick != 138) continue;
      for (const MemberId& id : {kA, kB}) desk.Give(MemberDown{id});
    }
    EXPECT_EQ(desk.Status().members.size(), lasts == 14 ? 2u : 0u);
  }
}

// It was healed for a view that did not become active, because its donor was lost. More workers are
// there than may take part.
TEST(Forming, WhoGotTheStateForAViewThatWasNotIsInTheNext) {
  const MemberId healed = Id("worker-9"), next_b = Id("worker-1", 2), other = Id("worker-3");
  Desk desk;
  RunTwo(desk);
  const auto ends = [&](const MemberId& id) {
    ProcessExited exited = ExitOf(desk, id.name, "killed by SIGKILL");
    exited.lanes.incarnation = id.incarnation;
    desk.Give(AgentSays{exited});
  };
  desk.Join(healed);
  ends(kB);
  ASSERT_EQ(desk.Job().number, ViewNumber(2));
  LocalState held;
  held.has_state = true;
  held.lineage = LineageNumber(1);
  held.step = Step(3);
  held.results = held.sums = ChunkSet(2);
  desk.Say(kA, Sealed{ViewNumber(2), held});
  desk.Say(healed, Sealed{ViewNumber(2), {}});
  desk.Say(healed, HoldsBase{ViewNumber(2), 0});
  desk.Join(next_b);
  desk.Join(other);
  desk.Sent<Seal>();
  ends(kA);
  std::vector<std::string> sealed;
  for (const auto& [name, seal] : desk.Sent<Seal>()) sealed.push_back(name);
  EXPECT_THAT(sealed, Contains("worker-9"));
  EXPECT_EQ(sealed.size(), 2u);
  for (const MemberId& id : {healed, next_b, other}) {
    held.step = Step(3);
    desk.Say(id, Sealed{ViewNumber(3), id == healed ? held : LocalState()});
  }
  EXPECT_EQ(desk.Job().lineages.size(), 1u) << "it went back to a checkpoint";
}

TEST(Members, AJobMayBeMorePatientThanItsClusterButNotLess) {
  for (const double lease : {0.5, 3.0}) {
    Desk desk;
    JobSpec spec = SpecOf(1, 2);
    spec.runtime.lease = lease;
    RunTwo(desk, spec);
    const auto silent_for = [&](milliseconds time) {
      for (milliseconds passed(0); passed < time; passed += milliseconds(100)) {
        desk.Wait(milliseconds(100));
        desk.Say(kA, Alive{});
        desk.Give(Tick{});
      }
      return desk.Job().number;
    };
    EXPECT_EQ(silent_for(milliseconds(1500)), ViewNumber(1)) << "the cluster's";
    EXPECT_EQ(silent_for(milliseconds(1500)), ViewNumber(lease < 1 ? 2 : 1)) << lease;
    EXPECT_EQ(silent_for(milliseconds(100)), ViewNumber(2)) << "3.1 s";
  }
}

TEST(Members, AJobMayBeMorePatientWithThreads) {
  for (const double patience : {0.0, 1.0, 600.0}) {
    Desk desk;
    JobSpec spec = SpecOf(1, 2);
    spec.runtime.thread_patience = patience;
    RunTwo(desk, spec);
    desk.Say(kB, Alive{Step(0), "", {{"train", 500}}});
    desk.Give(Tick{});
    EXPECT_EQ(desk.Job().number, ViewNumber(patience > 500 ? 1 : 2)) << patience;
  }
}

Tick TickOf(std::map<MemberId, Time> heard) {
  return Tick{std::make_shared<const std::map<MemberId, Time>>(std::move(heard))};
}

// A slow disk holds up decisions, once for long or again and again. Words are stamped meanwhile:
// worker-0 lives, and worker-1 has died.
TEST(Members, GapsBetweenTicksCostNobodyAndKeepNobody) {
  const milliseconds lease = std::chrono::duration_cast<milliseconds>(Settings().lease);
  for (const milliseconds gap :
       {lease / 2, lease / 2 + milliseconds(1), lease, 2 * lease, milliseconds(seconds(30))}) {
    Desk desk;
    RunTwo(desk);
    const Time died = desk.now();
    for (milliseconds passed(0); passed <= lease; passed += gap) {
      EXPECT_EQ(desk.Job().number, ViewNumber(1)) << gap.count() << " ms";
      desk.Wait(gap);
      desk.Give(TickOf({{kA, desk.now() - lease / 3}, {kB, died}}));
    }
    EXPECT_EQ(desk.Job().number, ViewNumber(2)) << gap.count() << " ms";
    const std::vector<MemberStatus> left = desk.Status().members;
    ASSERT_EQ(left.size(), 1u) << gap.count() << " ms";
    EXPECT_EQ(left[0].member.id, kA);
  }
}

TEST(Members, AGapBetweenTicksHidesNoThreadThatHangs) {
  Desk desk;
  RunTwo(desk);
  desk.Say(kB, Alive{Step(0), "", {{"train", 500}}});
  desk.Wait(seconds(30));
  desk.Give(TickOf({{kA, desk.now()}, {kB, desk.now()}}));
  EXPECT_EQ(desk.Job().number, ViewNumber(2));
}

// They waited while decisions were held up, longer than their sender lived.
TEST(Members, WordsThatAreHandledLateKeepNobodyAlive) {
  Desk desk;
  RunTwo(desk);
  const Time came = desk.now() + milliseconds(100);
  for (int i = 0; i < 16; ++i) {
    desk.Wait(milliseconds(100));
    desk.Say(kA, Alive{});
    desk.Give(MemberSays{kB, Alive{}, came});
    desk.Give(Tick{});
  }
  EXPECT_EQ(desk.Job().number, ViewNumber(1)) << "a lease after it came";
  desk.Wait(milliseconds(100));
  desk.Say(kA, Alive{});
  desk.Give(MemberSays{kB, Alive{}, came});
  desk.Give(Tick{});
  EXPECT_EQ(desk.Job().number, ViewNumber(2));
}

// Also by a coordinator that has much to do, so that its ticks come late.
TEST(Members, TheShortestLeaseFindsWhoIsSilent) {
  Settings settings;
  settings.lease = kShortestLease;
  Desk desk({}, 16, settings);
  RunTwo(desk);
  for (int i = 0; i < 10; ++i) {
    desk.Wait(milliseconds(60));
    desk.Say(kA, Alive{});
    desk.Give(Tick{});
  }
  EXPECT_EQ(desk.Job().number, ViewNumber(2));
}

// An agent whose session is new tells what ended processes had run.
TEST(Members, TheEndOfAnEarlierLifeToldAgainEndsNothing) {
  Desk desk;
  RunTwo(desk);
  const MemberId later = Id("worker-1", 2);
  desk.Join(later);
  desk.Activate({kA, later});
  ASSERT_EQ(desk.Job().number, ViewNumber(2));
  for (int times = 0; times < 2; ++times) desk.Give(AgentSays{EndOf(desk, kB)});
  EXPECT_EQ(desk.Job().number, ViewNumber(2)) << "the later life goes on";
  EXPECT_EQ(desk.Status().members.size(), 2u);
  desk.Give(AgentSays{EndOf(desk, later)});
  EXPECT_EQ(desk.Job().number, ViewNumber(3)) << "its own end is the end";
}

TEST(Members, ANewerIncarnationOfANameReplacesTheOlder) {
  Desk desk;
  RunTwo(desk);
  desk.Join(Id("worker-1", 2));
  const auto leave = desk.Sent<Leave>();
  ASSERT_EQ(leave.size(), 1u);
  EXPECT_EQ(leave[0].second.reason, "evicted: a newer incarnation came");
  EXPECT_EQ(leave[0].second.exit_code, kExitReplaced) << "it is not started again";
  EXPECT_EQ(desk.Job().number, ViewNumber(2));
  desk.Activate({kA, Id("worker-1", 2)});
  // It comes back by itself, not knowing.
  muster::Join late;
  late.job = "job";
  late.start = desk.StartOf();
  late.id = kB;
  late.sealed = ViewNumber(1);
  late.environment = Environment();
  desk.Drain<Announce>();
  desk.Say(kB, late);
  const auto again = desk.Sent<Leave>();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].second.exit_code, kExitReplaced);
}

TEST(Members, ARefusalOfManyDifferencesIsShortAndToldOnce) {
  Desk desk;
  RunTwo(desk);
  muster::Join join;
  join.job = "job";
  join.start = desk.StartOf();
  join.id = kC;
  join.environment = Environment();
  for (int i = 0; i < 5000; ++i)
    join.environment.numeric[absl::StrCat("key", i)] = std::string(900, 'x');
  desk.Say(kC, join);
  const auto told = desk.Told();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_THAT(told[0], HasSubstr(" and 4996 more"));
  EXPECT_LT(told[0].size(), 10'000u);
  for (int i = 0; i < 100; ++i) desk.Say(kC, join);
  EXPECT_THAT(desk.Told(), IsEmpty());
}

// A burst, or a slow disk, may hold up what members say beyond the lease. What came in time counts,
// though it waits, and what came long ago does not.
TEST(Members, SilenceIsJudgedByWhenWordsCame) {
  for (const milliseconds ago : {milliseconds(0), milliseconds(1400), milliseconds(1600)}) {
    Desk desk;
    RunTwo(desk);
    for (int i = 0; i < 60; ++i) {
      desk.Wait(milliseconds(50));
      desk.Say(kA, Alive{});
      desk.Give(TickOf({{kB, desk.now() - ago}}));
    }
    EXPECT_EQ(desk.Status().members.size(), ago < Settings().lease ? 2u : 1u) << ago.count();
  }
}

// Nobody told its end yet, and what it sent was long under way.
TEST(Members, ALateJoinOfADeadProcessEvictsNobody) {
  Desk desk;
  desk.Give(Submit{"job", SpecOf(1, 2)});
  desk.Join(kA);
  const MemberId later = Id("worker-1", 2);
  desk.Join(later);
  desk.Activate({kA, later});
  desk.Drain<Announce>();
  desk.Join(kB);
  EXPECT_EQ(desk.Job().number, ViewNumber(1));
  const auto leave = desk.Sent<Leave>();
  ASSERT_EQ(leave.size(), 1u);
  EXPECT_EQ(leave[0].second.reason,
            "worker-1 cannot take part: a later process of that name takes part");
  EXPECT_EQ(leave[0].second.exit_code, kExitLater) << "should it live after all, it comes again";
}

TEST(Members, AProcessThatGaveUpEndsTheJobAndItsLastLinesAreTold) {
  Desk desk;
  RunTwo(desk);
  ProcessExited exited = ExitOf(desk, "worker-1", "exit code 1: no such file");
  exited.gave_up = true;
  exited.last_lines = "error: no such file";
  desk.Give(AgentSays{exited});
  EXPECT_EQ(desk.Job().phase, JobPhase::kFailed);
  EXPECT_EQ(desk.Job().reason, "worker-1 fails again and again: exit code 1: no such file");
  EXPECT_THAT(desk.Told(), Contains("the log of worker-1 ends with:\nerror: no such file"));
}

TEST(Members, AFailureOfAJobWithoutRetriesIsNotSaidToBeSeveral) {
  Desk desk;
  JobSpec spec = SpecOf(2, 2);
  spec.runtime.restarts = 0;
  desk.Give(Submit{"job", spec});
  ProcessExited exited = ExitOf(desk, "worker-1", "killed by SIGKILL");
  exited.gave_up = true;
  desk.Give(AgentSays{exited});
  EXPECT_EQ(desk.Job().reason, "worker-1 failed and is not started again: killed by SIGKILL");
}

// Whoever submits by REST or gRPC has no command that would say it.
TEST(Jobs, WhatIsHardlyMeantIsToldWhenTheJobIsSubmitted) {
  Desk desk;
  JobSpec spec = SpecOf(1, 2);
  spec.training.schedule.warmup_steps = 21;
  desk.Give(Submit{"job", spec});
  EXPECT_THAT(
      desk.Told(),
      Contains("note: schedule.warmup_steps (21) is more than steps (20): the learning rate "
               "never reaches its full size"));
}

// Where the data are files, only a worker knows how long an epoch is.
TEST(Jobs, AWarmupThatIsLongerThanTheEpochsIsToldOnceTheyAreKnown) {
  JobSpec spec = SpecOf(1, 2);
  spec.training.steps = 0;
  spec.training.epochs = 2;  // of 100 samples, 25 steps each
  for (const int64_t warmup : {50, 51}) {
    Desk desk;
    spec.training.schedule.warmup_steps = warmup;
    desk.Give(Submit{"job", spec});
    const auto note = HasSubstr("is more than the 50 steps of 2 epochs");
    EXPECT_THAT(desk.Told(), Not(Contains(note)));
    desk.Join(kA);
    if (warmup > 50)
      EXPECT_THAT(desk.Told(), Contains(note));
    else
      EXPECT_THAT(desk.Told(), Not(Contains(note)));
  }
}

// Only a worker knows what the model is made of.
TEST(Jobs, BatchNormOverFewSamplesIsToldOnceTheModelIsKnown) {
  for (const int32_t batch : {31, 32}) {  // of 4 lanes
    Desk desk;
    JobSpec spec = SpecOf(1, 2);
    spec.training.batch = batch;
    desk.Give(Submit{"job", spec});
    NumericEnvironment environment = Environment();
    environment.tensors.push_back({"1.running_mean", {8}, TensorKind::kBuffer});
    const auto note = HasSubstr("note: the model has batch norm (1.running_mean)");
    EXPECT_THAT(desk.Told(), Not(Contains(note)));
    desk.Join(kA, "job", environment);
    if (batch < 32)
      EXPECT_THAT(desk.Told(), Contains(note));
    else
      EXPECT_THAT(desk.Told(), Not(Contains(note)));
  }
}

// The view may be large, and is the same for all.
TEST(Restart, WhoIsActiveInTheLastViewIsNotToldItAgain) {
  Desk before;
  RunTwo(before);
  Desk desk(RecoveredState{.jobs = {before.Job()}});
  muster::Join stands, told;
  for (const MemberId& id : {kA, kB}) {
    muster::Join join;
    join.job = "job";
    join.start = desk.StartOf();
    join.id = id;
    join.environment = Environment();
    join.sealed = before.Job().number;
    if (id == kA) join.active = join.sealed;  // what kB was told was lost
    (id == kA ? stands : told) = join;
  }
  desk.Say(kA, stands);
  EXPECT_THAT(desk.Sent<ViewStands>(), testing::SizeIs(1));
  desk.Say(kB, told);
  EXPECT_THAT(desk.Sent<Activate>(), testing::SizeIs(1));
  EXPECT_EQ(desk.Job().phase, JobPhase::kRunning);
}

// The journal was put back from an older copy.
struct KnowsMore {
  std::string name;
  int64_t term, sealed, recorded;
};
class OlderJournal : public testing::TestWithParam<KnowsMore> {};

// What it holds may be the only copy of the state, so it is not told to leave.
TEST_P(OlderJournal, IsToldByAMemberThatKnowsMore) {
  Desk desk;
  RunTwo(desk);
  desk.Record(kA, 0);
  desk.Drain<Announce>();
  muster::Join join;
  join.job = "job";
  join.start = desk.StartOf();
  join.id = kA;
  join.environment = Environment();
  join.term = TermNumber(GetParam().term);
  join.sealed = ViewNumber(GetParam().sealed);
  join.recorded_lineage = desk.Job().lineages.back().number;
  join.recorded = Step(GetParam().recorded);
  const bool sound = GetParam().name == "Sound";
  Desk copy = desk;
  desk.Say(kA, join);
  EXPECT_THAT(desk.Sent<Leave>(), IsEmpty());
  copy.Say(kA, join);
  EXPECT_THAT(copy.Drain<EndSession>(), testing::SizeIs(sound ? 0 : 1));
}

INSTANTIATE_TEST_SUITE_P(All, OlderJournal,
                         testing::Values(KnowsMore{"Sound", 1, 1, 1}, KnowsMore{"Term", 2, 1, 1},
                                         KnowsMore{"View", 1, 2, 1}, KnowsMore{"Ledger", 1, 1, 2}),
                         [](const auto& row) { return row.param.name; });

// Two coordinators decide beside each other for a while, on copies of one journal, and both give
// the next view the next number.
TEST(Restart, AViewOfThatNumberThatAnEarlierTermToldIsAnotherOne) {
  Desk first;
  RunTwo(first);
  RecoveredState found;
  found.jobs = {first.Job()};
  Time now = first.now();
  Coordinator next("cluster", TermNumber(2), {}, std::move(found), now);
  const auto join = [&](const MemberId& id, int64_t term, int64_t sealed, int64_t active) {
    muster::Join says{.job = "job", .start = first.StartOf()};
    says.placement = first.Job().placements.at(id.name).number;
    says.id = id;
    says.environment = Environment();
    says.term = TermNumber(term);
    says.sealed = ViewNumber(sealed);
    says.active = ViewNumber(active);
    std::vector<std::string> sent_away;
    for (const Action& action : next.Handle(MemberSays{id, says}, now))
      if (const auto* end = std::get_if<EndSession>(&action)) sent_away.push_back(end->why);
    return sent_away;
  };
  EXPECT_THAT(join(kA, 1, 1, 1), IsEmpty()) << "both know that one";
  for (int i = 0; i < 40; ++i) {
    now += milliseconds(100);
    next.Handle(MemberSays{kA, Alive{}}, now);
    next.Handle(Tick{}, now);
  }
  ASSERT_EQ(next.jobs().Find("job")->number, ViewNumber(2)) << "without worker-1";
  EXPECT_THAT(join(kB, 1, 2, 2), ElementsAre(HasSubstr("another one of that number")));
  next.Handle(MemberSays{kA, Sealed{ViewNumber(2), {}}}, now);
  next.Handle(MemberSays{kA, HoldsBase{ViewNumber(2), 0}}, now);
  ASSERT_EQ(next.jobs().Find("job")->view->number, ViewNumber(2));
  EXPECT_THAT(join(kB, 1, 2, 2), ElementsAre(HasSubstr("another one of that number")));
  EXPECT_THAT(join(kA, 2, 2, 2), IsEmpty());
}

// The job is not known to run, which says nothing: the journal is not the newest.
TEST(Restart, WhoKnowsALaterTermIsNotSentHomeByAnEarlierOne) {
  struct Case {
    std::string what, cluster;
    int64_t term;
    bool leaves;
  };
  const std::vector<Case> cases = {
      {"the same term", "cluster", 1, true},
      {"a later term", "cluster", 2, false},
      {"a later term, and the cluster is not known yet", "", 2, false},
      {"another cluster, of which terms say nothing", "other", 2, true},
  };
  for (const Case& c : cases)
    for (const bool submitted : {false, true}) {
      Desk desk({}, /*slots=*/0);
      if (submitted) desk.Give(Submit{"job", SpecOf(1, 1)});
      desk.Drain<Announce>();
      muster::Join join;
      join.job = "job";
      join.id = kA;
      join.cluster = c.cluster;
      join.term = TermNumber(c.term);
      Desk copy = desk;
      desk.Say(kA, join);
      copy.Say(kA, join);
      const auto leave = desk.Sent<Leave>();
      ASSERT_EQ(leave.size(), c.leaves ? 1u : 0u) << c.what;
      if (c.leaves) {
        EXPECT_GE(leave[0].second.term, join.term) << c.what << ": else it hears nothing";
      }
      EXPECT_EQ(copy.Drain<EndSession>().size(), c.leaves ? 0u : 1u) << c.what;
    }
}

// Nothing was done yet, so nothing is lost and nobody goes back.
TEST(Restart, WhileTheFirstViewFormsIsNoLoss) {
  Desk before;
  before.Give(Submit{"job", SpecOf(1, 2)});
  for (const MemberId& id : {kA, kB}) before.Join(id);
  for (const MemberId& id : {kA, kB}) before.Say(id, Sealed{before.Job().number, {}});
  ASSERT_EQ(before.Job().lineages.size(), 1u);
  ASSERT_FALSE(before.Job().view.has_value());
  Desk desk(RecoveredState{.jobs = {before.Job()}});
  for (const MemberId& id : {kA, kB}) desk.Join(id);
  for (int i = 0; i < 31; ++i) {  // as long as members are waited for
    desk.Wait(milliseconds(100));
    for (const MemberId& id : {kA, kB}) desk.Say(id, Alive{});
    desk.Give(Tick{});
  }
  desk.Activate({kA, kB});
  EXPECT_EQ(desk.Job().phase, JobPhase::kRunning);
  EXPECT_EQ(desk.Job().rewinds, 0);
  EXPECT_EQ(desk.Job().recoveries, 0);
  EXPECT_THAT(desk.Told(), testing::Contains(
                               "view 2 forms: the coordinator restarted while a view was forming"));
}

// One that was active in view 1 and comes back to a coordinator that was restarted.
void ComeBack(Desk& desk, const MemberId& id, ViewNumber sealed = ViewNumber(1)) {
  muster::Join join;
  join.job = "job";
  join.start = desk.StartOf();
  join.id = id;
  join.node = "host";
  join.address = id.name;
  join.environment = Environment();
  join.sealed = sealed;
  desk.Say(id, join);
}

// What is named of the last step was told to the one before, or is told now, or by nobody.
TEST(Restart, TheNameOfALaneOfTheLastStepIsWaitedForAnew) {
  for (const bool is_named : {true, false}) {
    Desk before;
    RunToASkippedLastStep(before, OnNan::kSkip, /*saves_its_end=*/false);
    LetPass(before, milliseconds(3000));
    ASSERT_FALSE(Ended(before.Job().phase));
    RecoveredState found{.jobs = {before.Job()}};
    found.recorded["job"] = Step(20);
    StepRecord last;
    last.lineage = LineageNumber(1);
    last.step = Step(19);
    last.skipped = true;
    found.recent["job"].Add(last);
    Desk desk(std::move(found));
    desk.Give(Tick{});
    for (const MemberId& id : {kA, kB}) ComeBack(desk, id);
    LetPass(desk, milliseconds(4900));
    EXPECT_EQ(desk.Job().phase, JobPhase::kRunning);
    if (is_named)
      desk.Say(kB, LanesNotFinite{LineageNumber(1), Step(19), {LaneId(1)}});
    else
      LetPass(desk, milliseconds(300));
    EXPECT_EQ(desk.Job().phase, JobPhase::kDone);
    EXPECT_EQ(desk.Job().tally.skipped, 1);
  }
}

std::vector<std::string> WhoIsTurnedAway(Desk& desk) {
  std::vector<std::string> names;
  for (const auto& [name, leave] : desk.Sent<Leave>())
    if (leave.reason.find("cannot take part") != std::string::npos) names.push_back(name);
  return names;
}

TEST(Restart, WhoDidNotComeBackInTimeIsTurnedAway) {
  Desk before;
  RunTwo(before);
  Desk desk(RecoveredState{.jobs = {before.Job()}});
  ComeBack(desk, kA);
  for (int i = 0; i < 31; ++i) {  // as long as members are waited for
    desk.Wait(milliseconds(100));
    desk.Say(kA, Alive{});
    desk.Give(Tick{});
  }
  ASSERT_EQ(desk.Job().number, ViewNumber(2)) << "without worker-1";
  ComeBack(desk, kB);
  EXPECT_THAT(WhoIsTurnedAway(desk), ElementsAre("worker-1"));
  EXPECT_EQ(desk.Status().members.size(), 1u);
}

// The active view still names its predecessor.
TEST(Restart, WhoIsToTakeAPlaceInTheFormingViewIsNotReplaced) {
  const MemberId later = Id("worker-1", 2);
  Desk before;
  RunTwo(before);
  before.Join(later);
  ASSERT_EQ(before.Job().number, ViewNumber(2));
  ASSERT_EQ(before.Job().view->number, ViewNumber(1));
  ComeBack(before, later, ViewNumber(2));
  EXPECT_THAT(WhoIsTurnedAway(before), IsEmpty());
  Desk desk(RecoveredState{.jobs = {before.Job()}});
  ComeBack(desk, later, ViewNumber(2));
  EXPECT_THAT(WhoIsTurnedAway(desk), IsEmpty());
}

// A write that stalls, say: the silence is ours, whichever comes first then, a tick or a member.
TEST(Restart, AStallBeforeTheMembersAreBackGivesNobodyUp) {
  for (const bool tick_first : {true, false}) {
    Desk before;
    RunTwo(before);
    Desk desk(RecoveredState{.jobs = {before.Job()}});
    desk.Wait(milliseconds(5000));
    if (tick_first) desk.Give(Tick{});
    ComeBack(desk, kA);
    desk.Give(Tick{});
    ComeBack(desk, kB);
    EXPECT_THAT(WhoIsTurnedAway(desk), IsEmpty());
    EXPECT_EQ(desk.Job().number, ViewNumber(1));
    EXPECT_EQ(desk.Status().members.size(), 2u);
  }
}

// Each write takes a second, and one of them does not come back.
TEST(Restart, GapsThatComeAgainAndAgainEndTheWaitToo) {
  Desk before;
  RunTwo(before);
  Desk desk(RecoveredState{.jobs = {before.Job()}});
  ComeBack(desk, kA);
  int ticks = 0;
  for (; ticks < 100 && desk.Job().number == ViewNumber(1); ++ticks) {
    desk.Wait(seconds(1));
    desk.Say(kA, Alive{});
    desk.Give(Tick{});
  }
  EXPECT_EQ(ticks, 4) << "half a lease of each counts";
}

// What members said while it could not be written was not kept, so all are to come again.
TEST(Restart, WhenTheJournalCanBeWrittenAgainTheirTimeBegins) {
  Desk before;
  RunTwo(before);
  Desk desk(RecoveredState{.jobs = {before.Job()}});
  ComeBack(desk, kA);
  const auto wait = [&](int ticks) {
    for (int i = 0; i < ticks; ++i) {
      desk.Wait(milliseconds(100));
      desk.Say(kA, Alive{});
      desk.Give(Tick{});
    }
  };
  wait(29);
  desk.Give(Tick{.was_deaf = true});
  wait(29);
  EXPECT_EQ(desk.Job().number, ViewNumber(1));
  wait(1);
  EXPECT_EQ(desk.Job().number, ViewNumber(2)) << "without worker-1";
}

// An attempt to connect that began before the restart has to fail first.
TEST(Restart, WhoHasNotComeBackIsGivenTheTimeThatConnectingTakes) {
  for (const double lease : {0.5, 1.5, 10.0}) {
    Desk before;
    JobSpec spec = SpecOf(1, 2);
    spec.runtime.lease = lease;
    RunTwo(before, spec);
    Desk desk(RecoveredState{.jobs = {before.Job()}});
    auto until = [&, passed = milliseconds(0)](milliseconds time) mutable {
      for (; passed < time; passed += milliseconds(100)) {
        desk.Wait(milliseconds(100));
        desk.Say(kA, Alive{});
        desk.Give(Tick{});
      }
    };
    ComeBack(desk, kA);
    const milliseconds patience(lease > 3 ? 10'000 : 3000);
    until(patience - milliseconds(100));
    EXPECT_EQ(desk.Job().number, ViewNumber(1)) << lease;
    until(patience);
    EXPECT_EQ(desk.Job().number, ViewNumber(2)) << lease << ": without worker-1";
  }
}

// Thousands of members need longer to connect again.
TEST(Restart, AsLongAsSomebodyComesBackTheOthersAreWaitedFor) {
  Desk before;
  RunTwo(before);
  Desk desk(RecoveredState{.jobs = {before.Job()}});
  desk.Give(Tick{});
  const auto wait = [&](int ticks, const std::vector<MemberId>& up) {
    for (int i = 0; i < ticks; ++i) {
      desk.Wait(milliseconds(100));
      for (const MemberId& id : up) desk.Say(id, Alive{});
      desk.Give(Tick{});
    }
  };
  wait(29, {});
  ComeBack(desk, kA);
  wait(29, {kA});
  ComeBack(desk, kB);
  EXPECT_THAT(WhoIsTurnedAway(desk), IsEmpty());
  EXPECT_EQ(desk.Job().number, ViewNumber(1));
}

// Its end is settled, so that the account of lanes does not know it any more; the view does.
TEST(Restart, AnOldLifeIsTurnedAwayWhereTheViewNamesTheLater) {
  const MemberId later = Id("worker-1", 2);
  Desk before;
  RunTwo(before);
  before.Join(later);
  before.Give(AgentSays{EndOf(before, kB)});
  before.Activate({kA, later});
  ASSERT_EQ(before.Job().number, ViewNumber(2));
  ASSERT_THAT(before.Job().lanes.Gone(), IsEmpty());
  Desk desk(RecoveredState{.jobs = {before.Job()}});
  ComeBack(desk, kB);
  EXPECT_THAT(WhoIsTurnedAway(desk), ElementsAre("worker-1"));
  ComeBack(desk, later);
  ASSERT_EQ(desk.Status().members.size(), 1u);
  EXPECT_EQ(desk.Status().members[0].member.id, later);
}

// A session may be new when the plan is on its way: then the answer comes once more.
TEST(Forming, ALateAnswerPlansNothingAgain) {
  Desk desk;
  desk.Give(Submit{"job", SpecOf(1, 2)});
  for (const MemberId& id : {kA, kB}) desk.Join(id);
  const Sealed sealed{desk.Job().number, {}};
  for (const MemberId& id : {kA, kB}) desk.Say(id, sealed);
  EXPECT_EQ(desk.Sent<Heal>().size(), 2u);
  for (const MemberId& id : {kA, kB}) desk.Say(id, sealed);
  EXPECT_THAT(desk.Sent<Heal>(), IsEmpty());
  EXPECT_EQ(desk.Job().lineages.size(), 1u);
}

// What the agent tells a coordinator that was down while worker-1 ended: it had run 2 lanes of step
// 0.
TEST(Restart, AWorkerThatEndedMeanwhileIsNotWaitedForAndItsLanesCount) {
  Desk before;
  RunTwo(before);
  Desk desk(RecoveredState{.jobs = {before.Job()}});
  ComeBack(desk, kA);
  EXPECT_EQ(desk.Job().number, ViewNumber(1));
  desk.Give(AgentSays{EndOf(desk, kB)});
  ASSERT_EQ(desk.Job().number, ViewNumber(2)) << "within the lease";
  LocalState local_state;
  local_state.has_state = true;
  local_state.lineage = LineageNumber(1);
  local_state.results = ChunkSet(2);
  local_state.lanes = {LaneId(0), LaneId(1)};
  desk.Say(kA, Sealed{ViewNumber(2), local_state});
  desk.Say(kA, HoldsBase{ViewNumber(2), 0});
  EXPECT_EQ(desk.Job().phase, JobPhase::kRunning);
  EXPECT_EQ(desk.Job().recoveries, 1);
  EXPECT_EQ(desk.Job().lanes.recomputed(), 2);
}

}  // namespace
}  // namespace muster::coordinator
