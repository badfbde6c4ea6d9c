#include "coordinator/runtime/driver.h"

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "coordinator/runtime/checkpoints.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/identity/certificates.h"
#include "lib/identity/identity_folder.h"
#include "lib/identity/keys.h"
#include "lib/spool/segment.h"
#include "tests/coordinator/runtime/driver_rig.h"
#include "tests/coordinator/runtime/kept_events.h"
#include "tests/support/recorded_steps.h"

// Debian's Abseil is not built with the thread sanitizer, which so does not see how copies of a
// status count each other.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() { return "race:absl::*Status::Unref\n"; }

namespace muster::coordinator {
namespace {

AgentHello HelloOf(const std::string& host, int32_t slots) {
  return {{host, {1, 1}}, {}, host, slots};
}

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

using DriverTest = DriverRig;

TEST_F(DriverTest, WhoAsksForAnUnknownJobIsSentAway) {
  ScriptedMember member = Member("worker-0");
  member.Say(AskJob{"nothing", "worker-0"});
  EXPECT_THAT(member.Next<Leave>().reason, HasSubstr("job nothing is not running"));
}

TEST_F(DriverTest, WhoAsksIsToldTheJobAndWhereItsCheckpointsLie) {
  SubmitJob();
  ScriptedMember member = Member("worker-0");
  member.Say(AskJob{"a", "worker-0"});
  const JobIs job = member.Next<JobIs>();
  EXPECT_EQ(job.spec, CountingSpec());
  EXPECT_EQ(job.cluster, journal_->cluster());
  EXPECT_EQ(job.term, TermNumber(1));
  EXPECT_EQ(job.checkpoint_dir, CheckpointDir(root_, "a"));
}

// Large data is read for minutes.
TEST_F(DriverTest, WhoeverAsksSeesWhichWorkersReadTheirData) {
  SubmitJob(4);
  const auto waits = [&](const std::string& expected) {
    while (Published().at(0)->status.waits_for != expected) std::this_thread::yield();
  };
  waits("no worker has joined");
  std::vector<ScriptedMember> members;
  for (uint64_t i = 0; i < 5; ++i) {
    const std::string name = i == 4 ? "server-0" : "worker-" + std::to_string(i);
    members.push_back(Member(name, i + 1));
    members.back().Say(AskJob{"a", name});
    members.back().Next<JobIs>();
    if (i == 0) waits("no worker has joined; worker-0 reads its data and makes its model");
    if (i == 1)
      waits("no worker has joined; worker-0 and worker-1 read their data and make their models");
  }
  waits(
      "no worker has joined; worker-0, worker-1, worker-2 and 1 more read their data and make "
      "their models");
  members[0].JoinJob("a");
  waits(
      "1 of 4 workers have joined; worker-1, worker-2 and worker-3 read their data and make "
      "their models");
}

TEST_F(DriverTest, WhoeverAsksSeesHowFarWorkersAreThatPrepare) {
  SubmitJob(2);
  ScriptedMember maker = Member("worker-0", 1);
  const auto says = [&](std::optional<HowFar> how_far, const std::string& expected) {
    maker.Say(AskJob{"a", "worker-0", {}, std::move(how_far)});
    maker.Next<JobIs>();
    while (Published().at(0)->status.waits_for != expected) std::this_thread::yield();
  };
  says({}, "no worker has joined; worker-0 reads its data and makes its model");
  says(HowFar{.percent = 40, .what = "merge 84 of 200"},
       "no worker has joined; worker-0 prepares what its task asks for: 40 %, merge 84 of 200");
  says({}, "no worker has joined; worker-0 reads its data and makes its model");
}

TEST(PreparingTextTest, NamesThreeAndFirstThoseThatPrepare) {
  const HowFar prepares{.percent = 40, .what = "merge 84 of 200"},
      waits{.waits = true, .percent = 39}, hashes{.hashes = true, .percent = 7},
      waits_for_hash{.waits = true, .hashes = true};
  struct Row {
    PreparingProcesses processes;
    std::string text;
  };
  for (const Row& row : {
           Row{{}, "room"},
           Row{{{"server-0", prepares}}, "room"},
           Row{{{"follower-0", hashes}}, "room; follower-0 is hashing data: 7 %"},
           Row{{{"worker-0", waits_for_hash}, {"follower-0", hashes}},
               "room; worker-0 waits for a process that is hashing the same data: 0 %"},
           Row{{{"worker-0", waits}, {"worker-1", prepares}, {"worker-2", {}}},
               "room; worker-1 prepares what its task asks for: 40 %, merge 84 of 200; worker-0 "
               "waits for a process that prepares the same: 39 %; worker-2 reads its data and "
               "makes its model"},
           Row{{{"worker-0", waits},
                {"worker-1", waits},
                {"worker-2", waits},
                {"worker-3", hashes},
                {"worker-4", waits}},
               "room; worker-3 is hashing data: 7 %; worker-0 waits for a process that prepares "
               "the same: 39 %; worker-1 waits for a process that prepares the same: 39 %; 2 more "
               "prepare or wait for that"},
       })
    EXPECT_EQ(WithPreparing("room", row.processes), row.text);
  EXPECT_EQ(WithPreparing("", {{"worker-0", prepares}}), "") << "the job waits for nothing";
}

TEST_F(DriverTest, AServerThatAskedTooEarlyIsToldTheEnvironmentOnceItIsKnown) {
  SubmitJob();
  ScriptedMember server = Member("server-0", 9, Role::kServer);
  server.Say(AskJob{"a", "server-0"});
  EXPECT_FALSE(server.Next<JobIs>().environment);
  ScriptedMember worker = Member("worker-0");
  worker.JoinJob("a");
  EXPECT_EQ(server.Next<JobIs>().environment, CountingEnvironment());
}

TEST_F(DriverTest, MembersFormAViewTrainAndTheJobEndsWithItsDigest) {
  SubmitJob(2);
  ScriptedMember first = Member("worker-0", 1);
  ScriptedMember second = Member("worker-1", 2);
  first.JoinJob("a");
  second.JoinJob("a");
  std::thread follows([&] { second.FollowIntoView(); });
  const View view = first.FollowIntoView();
  follows.join();
  ASSERT_EQ(view.members.size(), 2u);
  EXPECT_EQ(view.end, Step(2));
  EXPECT_EQ(Job().phase, JobPhase::kRunning);

  first.Say(Records{{first.RecordOf(view, Step(0)), first.RecordOf(view, Step(1))}});
  EXPECT_EQ(first.Next<AckRecords>().below, Step(2));
  first.SaveState(CheckpointDir(root_, "a"), view, Step(2), 1.0f);
  EXPECT_EQ(first.Next<AckSegments>().ids, std::vector<int64_t>{1});
  EXPECT_EQ(first.Next<Leave>().exit_code, 0);
  EXPECT_EQ(second.Next<Leave>().exit_code, 0);

  const KnownJob done = *Look().at(0);
  EXPECT_EQ(done.status.job.phase, JobPhase::kDone);
  EXPECT_EQ(done.status.job.ending.digest.size(), 64u);
  EXPECT_EQ(done.status.checkpoints.size(), 1u);
  EXPECT_EQ(formings_, 1);
  EXPECT_EQ(commits_, 1);
  EXPECT_EQ(done.tail.loss, 0.5);
  ASSERT_TRUE(done.tail.fingerprint);
  EXPECT_EQ(done.tail.fingerprint->value, (FingerprintPart{7, 2, true}));
}

absl::Status WatchJob(Driver& driver, const std::string& job, std::shared_ptr<JobWatcher> watcher,
                      std::optional<EventPlace> after = std::nullopt) {
  std::promise<absl::Status> found;
  driver.Watch(
      job, after, [&](absl::Status s) { found.set_value(std::move(s)); }, std::move(watcher));
  return found.get_future().get();
}

TEST_F(DriverTest, WhileTheDiskIsFullNothingIsKeptAndAfterwardsAllIsSaidAgain) {
  SubmitJob();
  KeptEvents kept;
  ASSERT_TRUE(WatchJob(*driver_, "a", kept.NewWatcher()).ok());
  ScriptedMember member = Member("worker-0");
  member.JoinJob("a");
  const View view = member.FollowIntoView();
  ScriptedAgent agent(*there_, kAddress, DecodeToAgent);
  agent.Say(HelloOf("here", 8));
  EXPECT_TRUE(agent.Next<Wanted>().jobs.empty()) << "it is in the coordinator's own slots";

  *full_ = true;
  member.Say(Records{{member.RecordOf(view, Step(0))}});
  // Until the driver has run into it.
  while (driver_->Ready().ok()) std::this_thread::yield();
  EXPECT_THAT(Change(Cancel{"a"}).status().message(), HasSubstr("No space left"));
  EXPECT_THAT(Published().at(0)->status.waits_for, HasSubstr("No space left"));
  EXPECT_EQ(Published().at(0)->status.step, Step(0));
  EXPECT_FALSE(member.Heard());
  member.Say(Records{{member.RecordOf(view, Step(1))}});

  *full_ = false;
  EXPECT_FALSE(member.Broken().ok());
  EXPECT_FALSE(agent.Broken().ok());
  EXPECT_EQ(Look().at(0)->status.step, Step(1)) << "what was said meanwhile was not kept";
  std::vector<std::string> saves;
  while (saves.size() < 2) {
    const JobEvent event = kept.Next();
    ASSERT_NE(event.event, "") << "none came";
    if (event.fields.contains("saves")) saves.push_back(event.fields.at("saves"));
  }
  EXPECT_EQ(saves, (std::vector<std::string>{"false", "true"}));
  ScriptedMember again = Member("worker-0");
  Join join = again.JoinOf("a");
  join.term = view.term;
  join.sealed = view.number;
  again.Say(join);
  EXPECT_EQ(again.Next<Activate>().view, view) << "the view goes on";
  again.Say(Records{{again.RecordOf(view, Step(0)), again.RecordOf(view, Step(1))}});
  EXPECT_EQ(again.Next<AckRecords>().below, Step(2));
  EXPECT_EQ(RecordedSteps(*journal_, "a")->size(), 2u);
  EXPECT_TRUE(driver_->Ready().ok());
}

TEST_F(DriverTest, WhatPeopleAskHoldsUpNoCheckpoint) {
  std::promise<void> enough;
  EXPECT_TRUE(Ask([&](const std::stop_token&) { enough.get_future().wait(); }).ok());
  SubmitJob();
  TrainToTheEnd();
  enough.set_value();
  Stop();
}

TEST_F(DriverTest, MoreQueriesThanMayWaitAreRefused) {
  std::promise<void> began;
  std::promise<void> enough;
  EXPECT_TRUE(Ask([&](const std::stop_token&) {
                began.set_value();
                enough.get_future().wait();
              }).ok());
  began.get_future().wait();
  Mailbox<int> answers;
  const auto answer = [&](const std::stop_token&) { answers.Post(1); };
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(Ask(answer).ok()) << i;
  const absl::Status refused = Ask(answer);
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("query queue full (16); retry later"));
  enough.set_value();
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(answers.TakeUntil(RealClock().Now() + kPatience)) << i;
  EXPECT_TRUE(Ask(answer).ok());
  EXPECT_TRUE(answers.TakeUntil(RealClock().Now() + kPatience));
  Stop();
}

TEST_F(DriverTest, AQueryThatRunsIsToldWhenTheDriverStops) {
  std::promise<void> began;
  EXPECT_TRUE(Ask([&](const std::stop_token& stop) {
                Mailbox<bool> never;
                const std::stop_callback told(stop, [&] { never.Close(); });
                began.set_value();
                never.TakeUntil(RealClock().Now() + kPatience);
                EXPECT_TRUE(stop.stop_requested());
              }).ok());
  began.get_future().wait();
  Stop();
}

TEST_F(DriverTest, ASessionThatNeverSpeaksIsClosed) {
  ScriptedMember silent = Member("worker-0");
  ScriptedMember later = Member("worker-1");
  later.Say(AskJob{"nothing", "worker-1"});
  later.Next<Leave>();
  clock_.Advance(std::chrono::seconds(5));
  EXPECT_THAT(silent.Broken().message(), HasSubstr("first frame did not come in time"));
  ScriptedMember fresh = Member("worker-2");
  fresh.Say(AskJob{"nothing", "worker-2"});
  EXPECT_THAT(fresh.Next<Leave>().reason, HasSubstr("job nothing")) << "it has not waited so long";
}

// Who only asks has nothing to lose. A member that was there before may hold what nobody else has.
TEST_F(DriverTest, WhoIsOfAnotherVersionIsSentAwayWithBothVersions) {
  const Speaks later{kProtocol + 1, kProtocol + 1, "9.9.9"};
  const auto names_both = AllOf(HasSubstr("is Muster 9.9.9"), HasSubstr(kVersion));
  SubmitJob();
  ScriptedMember asks = Member("worker-0");
  asks.Say(AskJob{"a", "no name at all!", later});
  const Leave leave = asks.Next<Leave>();
  EXPECT_EQ(leave.exit_code, kExitOtherEnvironment);
  EXPECT_EQ(leave.cluster, journal_->cluster());
  EXPECT_THAT(leave.reason, names_both);
  clock_.Advance(kLeavePatience);
  EXPECT_FALSE(asks.Broken().ok()) << "it does not keep a place";

  ScriptedMember joins = Member("worker-0");
  Join join = joins.JoinOf("a");
  join.speaks = later;
  joins.Say(join);
  ScriptedAgent agent(*there_, kAddress, DecodeToAgent);
  AgentHello hello = HelloOf("here", 8);
  hello.speaks = later;
  agent.Say(hello);
  for (const absl::Status& broken : {joins.Broken(), agent.Broken()}) {
    EXPECT_THAT(std::string(broken.message()),
                AllOf(HasSubstr("FAILED_PRECONDITION: "), names_both));
  }
  EXPECT_FALSE(joins.Heard());
  EXPECT_FALSE(agent.Heard());

  ScriptedMember next = Member("worker-0");
  next.Say(AskJob{"a", "worker-0", {kOldestProtocol, kProtocol + 1, "9.9.8"}});
  EXPECT_EQ(next.Next<JobIs>().job, "a") << "one form is common";
}

TEST_F(DriverTest, AfterARestartMembersReattachToTheirViewUnderANewTerm) {
  SubmitJob();
  View view;
  {
    ScriptedMember member = Member("worker-0");
    member.JoinJob("a");
    view = member.FollowIntoView();
    member.Say(Records{{member.RecordOf(view, Step(0))}});
    EXPECT_EQ(member.Next<AckRecords>().below, Step(1));
  }
  Stop();
  Start();
  EXPECT_EQ(journal_->term(), TermNumber(2));
  EXPECT_FALSE(driver_->Ready().ok());
  ScriptedMember member = Member("worker-0");
  Join join = member.JoinOf("a");
  join.cluster = journal_->cluster();
  join.term = TermNumber(1);
  join.sealed = view.number;
  member.Say(join);
  EXPECT_EQ(member.Next<Activate>().view.number, view.number);
  member.Say(Records{{member.RecordOf(view, Step(0)), member.RecordOf(view, Step(1))}});
  EXPECT_EQ(member.Next<AckRecords>().below, Step(2));
  clock_.Advance(Settings().PatienceAfterRestart());
  while (!driver_->Ready().ok()) std::this_thread::yield();
}

TEST_F(DriverTest, ACheckpointTakesFromItsFirstPartToItsCommit) {
  SubmitJob();
  ScriptedMember member = Member("worker-0");
  member.JoinJob("a");
  const View view = member.FollowIntoView();
  member.SaveState(CheckpointDir(root_, "a"), view, Step(2), 1.0f);  // in 0.1 seconds
  member.Say(Records{{member.RecordOf(view, Step(0))}});
  EXPECT_EQ(member.Next<AckRecords>().below, Step(1));
  clock_.Advance(std::chrono::seconds(3));
  member.Say(Records{{member.RecordOf(view, Step(1))}});
  EXPECT_EQ(member.Next<AckSegments>().ids, std::vector<int64_t>{1});
  const std::string metrics = metrics_.Text();
  EXPECT_THAT(metrics, HasSubstr("muster_checkpoint_seconds_count{role=\"coordinator\"} 1\n"));
  EXPECT_THAT(metrics, HasSubstr("muster_checkpoint_seconds_sum{role=\"coordinator\"} 3.1\n"));
  EXPECT_THAT(metrics, Not(HasSubstr("muster_checkpoint_bytes_total"))) << "members count them";
}

TEST_F(DriverTest, AMemberDoesNotFillTheOutbox) {
  journal_->KeepOutbox();
  SubmitJob();
  ScriptedMember member = Member("worker-0");
  member.JoinJob("a");
  const View view = member.FollowIntoView();
  for (int64_t step = 10; step < 200; ++step)
    member.Say(SegmentFailed{view.lineage, Step(step), "disk full"});
  const Counter& said = metrics_.GetCounter("muster_checkpoint_failures_total", "not_written");
  while (said.Value() < 190) Look();
  Look();
  int told = 0;
  const auto count = [&](const PlacedEvent& placed) {
    told += placed.event.type == kCheckpointFailed ? 1 : 0;
    return true;
  };
  ASSERT_TRUE(ScanOutbox(journal_->kv(), {}, count, [](const DamagedEvent&) {}).ok());
  EXPECT_EQ(told, kToldInAMinute);
}

TEST_F(DriverTest, MetricsTellWhatAFullDiskStops) {
  const Gauge& writable = metrics_.GetGauge("muster_journal_writable");
  const Gauge& size = metrics_.GetGauge("muster_disk_size_bytes", "checkpoints");
  const Gauge& free = metrics_.GetGauge("muster_disk_free_bytes", "checkpoints");
  SubmitJob();
  ScriptedMember member = Member("worker-0");
  member.JoinJob("a");
  const View view = member.FollowIntoView();
  member.Say(SegmentFailed{view.lineage, Step(1), "disk full"});
  member.Say(SegmentFailed{view.lineage, Step(1), "its disk is slow", /*disk_is_slow=*/true});
  const auto failures = [this](const char* reason) {
    return metrics_.GetCounter("muster_checkpoint_failures_total", reason).Value();
  };
  while (failures("disk_slow") == 0) Look();
  EXPECT_EQ(failures("not_written"), 1);
  while (writable.Value() != 1 || size.Value() == 0) std::this_thread::yield();
  EXPECT_LE(free.Value(), size.Value());
  *full_ = true;
  member.Say(Records{{member.RecordOf(view, Step(0))}});
  while (writable.Value() != 0) std::this_thread::yield();
  *full_ = false;
  while (writable.Value() != 1) std::this_thread::yield();
}

TEST_F(DriverTest, GaugesTellOfTheJobThatRunsAndOfNoneAfterIt) {
  const Gauge& members = metrics_.GetGauge("muster_members");
  const Gauge& view_number = metrics_.GetGauge("muster_view");
  const Gauge& lineage = metrics_.GetGauge("muster_lineage");
  const Gauge& loss = metrics_.GetGauge("muster_loss");
  SubmitJob();
  ScriptedMember member = Member("worker-0");
  member.JoinJob("a");
  const View view = member.FollowIntoView();
  member.Say(Records{{member.RecordOf(view, Step(0)), member.RecordOf(view, Step(1))}});
  while (loss.Value() != 0.5) Look();
  EXPECT_EQ(members.Value(), 1);
  EXPECT_EQ(metrics_.GetGauge("muster_job_step", "a").Value(), 2);
  EXPECT_EQ(metrics_.GetGauge("muster_job_loss", "a").Value(), 0.5);
  EXPECT_EQ(view_number.Value(), 1);
  EXPECT_EQ(lineage.Value(), 1);
  member.SaveState(CheckpointDir(root_, "a"), view, Step(2), 1.0f);
  EXPECT_EQ(member.Next<Leave>().exit_code, 0);
  while (!std::isnan(loss.Value())) Look();
  EXPECT_THAT(metrics_.Text(), Not(HasSubstr("job=\"a\"")));
  EXPECT_EQ(members.Value(), 0);
  EXPECT_EQ(view_number.Value(), 0);
  EXPECT_EQ(lineage.Value(), 0);
}

TEST_F(DriverTest, AJobThatIsOverIsLookedAtOnceUntilItGoesOn) {
  SubmitJob();
  ASSERT_TRUE(Change(coordinator::Stop{"a"}).ok());
  const KnownJobPtr over = Look().at(0);
  EXPECT_EQ(over->status.job.phase, JobPhase::kStopped);
  EXPECT_GT(over->times.ended, 0);
  ASSERT_TRUE(Change(Submit{"b", CountingSpec()}).ok());
  EXPECT_EQ(Look().at(0), over) << "the same value, not a copy";
  EXPECT_EQ(Look().at(1)->status.job.phase, JobPhase::kChecking);
  ASSERT_TRUE(Change(Submit{"a", CountingSpec()}).ok());
  EXPECT_EQ(Look().at(0)->status.job.phase, JobPhase::kChecking);
  EXPECT_EQ(Look().at(0)->times.ended, 0);
}

TEST_F(DriverTest, ANewerSessionOfAMemberReplacesTheOlder) {
  SubmitJob();
  ScriptedMember older = Member("worker-0");
  older.JoinJob("a");
  const View view = older.FollowIntoView();
  ScriptedMember newer = Member("worker-0");
  Join join = newer.JoinOf("a");
  join.term = view.term;
  join.sealed = view.number;
  newer.Say(join);
  EXPECT_EQ(newer.Next<Activate>().view, view);
  EXPECT_FALSE(older.Broken().ok());
  EXPECT_TRUE(Look().at(0)->status.members.at(0).up);
  newer.Say(Records{{newer.RecordOf(view, Step(0))}});
  EXPECT_EQ(newer.Next<AckRecords>().below, Step(1));
}

TEST_F(DriverTest, ALostMemberLeadsToANewView) {
  SubmitJob(2);
  ScriptedMember first = Member("worker-0", 1);
  ScriptedMember second = Member("worker-1", 2);
  first.JoinJob("a");
  second.JoinJob("a");
  std::thread follows([&] { second.FollowIntoView(); });
  const View view = first.FollowIntoView();
  follows.join();
  ScriptedAgent agent(*there_, kAddress, DecodeToAgent);
  agent.Say(HelloOf("here", 8));
  EXPECT_TRUE(agent.Next<Wanted>().jobs.empty()) << "they are in the coordinator's own slots";
  second.Hang();
  agent.Say(ProcessExited{.job = "a",
                          .start = kFirstStart,
                          .name = "worker-1",
                          .signal = 9,
                          .cause = "killed by SIGKILL",
                          .lanes = {.incarnation = {2, 2}}});
  EXPECT_GT(first.Next<Seal>().view, view.number);
}

// Words wait for the driver's thread, so long that a tick judges before they are handled. When they
// came counts: who spoke in time stays, and who was silent goes.
TEST_F(DriverTest, WhoseWordsWaitForTheDriverIsNotSilent) {
  using std::chrono::milliseconds;
  SubmitJob(4);
  KeptEvents kept;
  ASSERT_TRUE(WatchJob(*driver_, "a", kept.NewWatcher()).ok());
  ScriptedMember speaks = Member("worker-0", 1);
  ScriptedMember silent = Member("worker-1", 2);
  ScriptedMember loud = Member("worker-2", 3);
  ScriptedMember louder = Member("worker-3", 4);
  for (ScriptedMember* member : {&speaks, &silent, &loud, &louder}) member->JoinJob("a");
  std::thread second([&] { silent.FollowIntoView(); }), third([&] { loud.FollowIntoView(); }),
      fourth([&] { louder.FollowIntoView(); });
  const View view = speaks.FollowIntoView();
  second.join();
  third.join();
  fourth.join();
  ASSERT_EQ(view.members.size(), 4u);
  clock_.Advance(milliseconds(1400));
  const int64_t enough_reads = clock_.reads() + 60;  // of more than one whole tick
  while (clock_.reads() < enough_reads) std::this_thread::yield();
  EXPECT_EQ(Look().at(0)->status.members.size(), 4u) << "a lease is longer";

  std::promise<void> enough;
  HoldUp(enough);
  // More than the driver takes between two ticks, and than one session may have waiting, stands
  // before the word that counts.
  for (int i = 0; i < 200; ++i)
    for (ScriptedMember* member : {&loud, &louder}) member->Say(Alive{Step(0), ""});
  speaks.Say(Alive{Step(0), ""});
  ScriptedMember other = Member("worker-4");  // heard after what was said has come
  other.SayBytes("garbage");
  EXPECT_FALSE(other.Broken().ok());
  clock_.Advance(milliseconds(600));
  const Time due = RealClock().Now() + milliseconds(10);  // the next tick
  while (RealClock().Now() < due) std::this_thread::yield();
  enough.set_value();
  EXPECT_GT(speaks.Next<Seal>().view, view.number);
  EXPECT_EQ(silent.Next<Leave>().reason, "evicted: silent for longer than its lease");
  std::vector<std::string> stay;
  for (const MemberStatus& member : Look().at(0)->status.members)
    stay.push_back(member.member.id.name);
  EXPECT_THAT(stay, ::testing::ElementsAre("worker-0", "worker-2", "worker-3"));
  ASSERT_TRUE(Change(Cancel{"a"}).ok());
  for (JobEvent told = kept.Next(); told.event != "done" && !told.event.empty(); told = kept.Next())
    EXPECT_THAT(told.text, Not(HasSubstr("worker-0 is silent")));
}

// Its member may be back already.
TEST_F(DriverTest, WhoseBrokenSessionWaitsForTheDriverIsNotSilent) {
  SubmitJob(2);
  ScriptedMember breaks = Member("worker-0", 1);
  ScriptedMember loud = Member("worker-1", 2);
  for (ScriptedMember* member : {&breaks, &loud}) member->JoinJob("a");
  std::thread follows([&] { loud.FollowIntoView(); });
  breaks.FollowIntoView();
  follows.join();
  std::promise<void> enough;
  HoldUp(enough);
  clock_.Advance(2 * Settings().lease);
  // More than the driver takes between two ticks stands before the end of the session.
  for (int i = 0; i < 300; ++i) loud.Say(Alive{Step(0), ""});
  breaks.Hang();
  ScriptedMember other = Member("worker-2");  // heard after what was said has come
  other.SayBytes("garbage");
  EXPECT_FALSE(other.Broken().ok());
  const Time due = RealClock().Now() + std::chrono::milliseconds(10);  // the next tick
  while (RealClock().Now() < due) std::this_thread::yield();
  enough.set_value();
  std::vector<MemberStatus> members;
  const auto are_up = [&] {
    members = Look().at(0)->status.members;
    return members.size() == 2 && members[0].up && members[1].up;
  };
  const Time end = RealClock().Now() + std::chrono::seconds(30);
  while (are_up() && RealClock().Now() < end) std::this_thread::yield();
  ASSERT_EQ(members.size(), 2u);
  EXPECT_FALSE(members[0].up);
}

// It is back, though the driver's thread does not know it yet.
TEST_F(DriverTest, WhoseJoinWaitsForTheDriverIsNotSilent) {
  const Duration some = Settings().lease * 2 / 5;  // a gap between ticks that counts whole
  SubmitJob(2);
  ScriptedMember breaks = Member("worker-0", 1);
  ScriptedMember loud = Member("worker-1", 2);
  for (ScriptedMember* member : {&breaks, &loud}) member->JoinJob("a");
  std::thread follows([&] { loud.FollowIntoView(); });
  const View view = breaks.FollowIntoView();
  follows.join();
  std::vector<MemberStatus> members;
  const auto is_up = [&] {
    members = Look().at(0)->status.members;
    return members.size() == 2 && members[0].up;
  };
  breaks.Hang();
  const Time end = RealClock().Now() + std::chrono::seconds(30);
  while (is_up() && RealClock().Now() < end) std::this_thread::yield();
  ASSERT_EQ(members.size(), 2u);
  for (int i = 0; i < 2; ++i) {
    clock_.Advance(some);
    loud.Say(Alive{Step(0), ""});
    const int64_t enough_reads = clock_.reads() + 60;  // of more than one whole tick
    while (clock_.reads() < enough_reads) std::this_thread::yield();
  }
  ASSERT_EQ(Look().at(0)->status.members.size(), 2u) << "a lease is longer";

  std::promise<void> enough;
  HoldUp(enough);
  // More than the driver takes between two ticks stands before the Join.
  for (int i = 0; i < 300; ++i) loud.Say(Alive{Step(0), ""});
  ScriptedMember again = Member("worker-0", 1);
  again.JoinJob("a");
  ScriptedMember other = Member("worker-2");  // heard after what was said has come
  other.SayBytes("garbage");
  EXPECT_FALSE(other.Broken().ok());
  clock_.Advance(some);
  const Time due = RealClock().Now() + std::chrono::milliseconds(10);  // the next tick
  while (RealClock().Now() < due) std::this_thread::yield();
  enough.set_value();
  const Time limit = RealClock().Now() + std::chrono::seconds(30);
  while (!is_up() && members.size() == 2 && RealClock().Now() < limit) std::this_thread::yield();
  ASSERT_EQ(members.size(), 2u) << "its Join had come within its lease";
  EXPECT_TRUE(members[0].up);
  EXPECT_EQ(Job().number, view.number);
}

// So that a clock that knows when somebody asks can tell a slow disk from a machine that slept.
TEST_F(DriverTest, WhileDecisionsWaitTheTimeIsAskedFor) {
  std::promise<void> enough;
  HoldUp(enough);
  const int64_t some = clock_.reads() + 5;
  const Time end = RealClock().Now() + std::chrono::seconds(30);
  while (clock_.reads() < some && RealClock().Now() < end) std::this_thread::yield();
  EXPECT_GE(clock_.reads(), some);
  enough.set_value();
}

TEST_F(DriverTest, AgentsAreToldWhatIsWantedWhenTheyComeAndWhenItChanges) {
  ScriptedAgent agent(*there_, kAddress, DecodeToAgent);
  agent.Say(HelloOf("here", 16));  // more than the coordinator itself has
  EXPECT_TRUE(ProcessesIn(agent.Next<Wanted>()).empty());
  SubmitJob(3);
  EXPECT_EQ(agent.Next<Wanted>().jobs.at(0).processes.size(), 3u);
  ASSERT_TRUE(Change(Cancel{"a"}).ok());
  EXPECT_TRUE(ProcessesIn(agent.Next<Wanted>()).empty());
}

TEST_F(DriverTest, OnlyWhatTheAgentOfAMemberSaysThatItPrintedIsKept) {
  Stop();
  const std::string folder = root_ + "/logs";
  LogStore store(folder, {});
  logs_ = &store;
  Start();
  ScriptedAgent agent(*there_, kAddress, DecodeToAgent);
  agent.Say(HelloOf("here", 16));
  EXPECT_TRUE(agent.Next<Wanted>().jobs.empty());
  ScriptedAgent other(*there_, kAddress, DecodeToAgent);
  other.Say(HelloOf("there", 1));
  EXPECT_TRUE(other.Next<Wanted>().jobs.empty());
  SubmitJob(3);
  const ProcessWanted placed = agent.Next<Wanted>().jobs.at(0).processes.at(0);
  LogLines lines{.job = "a", .placement = placed.placement, .name = placed.name};
  const auto say = [&](ScriptedAgent& speaker, const std::string& text) {
    lines.text = text;
    speaker.Say(lines);
    Look();
  };
  say(agent, "its words\n");
  say(other, "of a stranger\n");
  lines.before = {10, 1};
  say(agent, "its last words\n");
  lines.before = {65, 5};  // the rest was in a session that broke
  say(agent, "after that\n");
  const std::string expected =
      "its words\nits last words\n... 3 lines (40 bytes) are left out here\nafter that\n";
  std::string kept;
  for (int look = 0; look < 1000 && kept.size() < expected.size(); ++look) {
    Look();
    ASSERT_TRUE(store.Await());
    kept = ReadKeptLog(folder, "a", placed.name, 1000).text;
  }
  EXPECT_EQ(kept, expected);
  Stop();
}

SignMember QuestionFor(const ProcessWanted& process, uint64_t life) {
  return {{"a", process.name, process.placement, {life, 1}},
          PublicKeyOf(MakeKey().value()).value()};
}

TEST_F(DriverTest, MembersAreSignedForTheirAgentOnceThatIsOnDisk) {
  Stop();
  const Authority authority = MakeAuthority("c1", absl::Now()).value();
  ASSERT_TRUE(
      WriteAuthority(root_ + "/identity", authority,
                     IssueIdentity(authority, {"c1", CoordinatorPeer{}}, absl::Now()).value())
          .ok());
  sign_ = SignerOfMembers(SigningAuthority::Open(root_ + "/identity").value(), absl::Hours(1));
  ASSERT_TRUE(sign_);
  Start();
  ScriptedAgent agent(*there_, kAddress, DecodeToAgent);
  agent.Say(HelloOf("here", 16));
  EXPECT_TRUE(agent.Next<Wanted>().jobs.empty());
  SubmitJob(3);
  const ProcessWanted process = agent.Next<Wanted>().jobs.at(0).processes.at(0);
  const SignMember ask = QuestionFor(process, 5);
  agent.Say(ask);
  const MemberSigned answer = agent.Next<MemberSigned>();
  EXPECT_EQ(answer.process, ask.process);
  const auto proved = Verify(answer.authority_pem, answer.certificate_pem, absl::Now());
  ASSERT_TRUE(proved.ok()) << proved.status();
  EXPECT_EQ(*proved, (PeerName{"c1", MemberPeer{"a", process.name, process.placement, {5, 1}}}));
  EXPECT_EQ(ReadCertificate(answer.certificate_pem)->public_key, ask.public_key);
  SignMember garbage = ask;
  garbage.process.incarnation.hi = 6;
  garbage.public_key = "no key";
  agent.Say(garbage);
  EXPECT_THAT(agent.Next<SignRefused>().why, HasSubstr("key"));

  Stop();
  Start();  // the next coordinator
  EXPECT_EQ(Job().signatures.size(), 1u);
  ScriptedAgent again(*there_, kAddress, DecodeToAgent);
  again.Say(HelloOf("here", 16));
  again.Next<Wanted>();
  again.Say(QuestionFor(process, 5));
  EXPECT_THAT(again.Next<SignRefused>().why, HasSubstr("another key"));
  again.Say(ask);
  EXPECT_EQ(again.Next<MemberSigned>().process, ask.process);
}

TEST_F(DriverTest, AgentsAreToldWhomToTrustAndWhenThatChanges) {
  Stop();
  std::atomic<int> trust = 1;
  trust_ = [&trust] { return absl::StrCat("trust ", trust.load()); };
  Start();
  ScriptedAgent agent(*there_, kAddress, DecodeToAgent);
  agent.Say(HelloOf("here", 16));
  agent.Next<Wanted>();
  EXPECT_EQ(agent.Next<AuthorityIs>().hash, "trust 1");
  agent.Say(AgentTrusts{"trust 1"});
  const auto trusts = [&]() -> std::string {
    const absl::StatusOr<KnownCluster> known = driver_->KnownWithHosts();
    return known->hosts->empty() ? "" : known->hosts->at(0).trusts;
  };
  while (trusts() != "trust 1") std::this_thread::yield();
  trust = 2;
  driver_->TrustChanged(/*fewer=*/false);
  EXPECT_EQ(agent.Next<AuthorityIs>().hash, "trust 2");
  EXPECT_EQ(trusts(), "trust 1") << "as it said";
  ScriptedAgent again(*there_, kAddress, DecodeToAgent);
  again.Say(HelloOf("here", 16));
  again.Next<Wanted>();
  EXPECT_EQ(again.Next<AuthorityIs>().hash, "trust 2");
  while (!trusts().empty()) std::this_thread::yield();  // what it trusts it says in each session
  Stop();
  trust_ = nullptr;
  Start();
}

TEST_F(DriverTest, WithoutAnAuthorityNothingIsSigned) {
  ScriptedAgent agent(*there_, kAddress, DecodeToAgent);
  agent.Say(HelloOf("here", 16));
  EXPECT_TRUE(agent.Next<Wanted>().jobs.empty());
  SubmitJob(3);
  agent.Say(QuestionFor(agent.Next<Wanted>().jobs.at(0).processes.at(0), 5));
  EXPECT_THAT(agent.Next<SignRefused>().why, HasSubstr("no authority"));
  EXPECT_TRUE(Job().signatures.empty());
}

TEST_F(DriverTest, TheSlotsOfAnAgentAreThereWhileItsSessionIs) {
  ASSERT_TRUE(Change(Submit{"a", CountingSpec(8)}).ok());  // all that are there without an agent
  JobSpec wide = CountingSpec(4);
  wide.runtime.workers_min = 4;
  ASSERT_TRUE(Change(Submit{"b", wide}).ok());
  EXPECT_EQ(Look().at(1)->status.job.reason, "needs 4 slots; 0 of 8 are free");
  ScriptedAgent agent(*there_, kAddress, DecodeToAgent);
  agent.Say(HelloOf("here", 4));
  const Wanted wanted = agent.Next<Wanted>();
  ASSERT_EQ(wanted.jobs.size(), 1u);
  EXPECT_EQ(wanted.jobs[0].job, "b");
  EXPECT_EQ(wanted.jobs[0].processes.size(), 4u);
  // A newer session of the same host replaces the older: the slots do not add up.
  ScriptedAgent again(*there_, kAddress, DecodeToAgent);
  again.Say(HelloOf("here", 4));
  EXPECT_EQ(again.Next<Wanted>().jobs.size(), 1u);
  EXPECT_FALSE(agent.Broken().ok());
  ASSERT_TRUE(Change(Submit{"c", wide}).ok());
  EXPECT_EQ(Look().at(2)->status.job.phase, JobPhase::kQueued);
}

// Two jobs, a member of the same name in each: records alternate in one ledger and one term.
TEST_F(DriverTest, TwoJobsTrainAtOnce) {
  SubmitJob();
  ASSERT_TRUE(Change(Submit{"b", CountingSpec()}).ok());
  ScriptedMember first = Member("worker-0", 1);
  ScriptedMember second = Member("worker-0", 2);
  first.JoinJob("a");
  second.JoinJob("b", kFirstStart + 1);
  const View view_a = first.FollowIntoView();
  const View view_b = second.FollowIntoView();
  EXPECT_EQ(view_a.job, "a");
  EXPECT_EQ(view_b.job, "b");
  for (const int64_t step : {0, 1}) {
    first.Say(Records{{first.RecordOf(view_a, Step(step))}});
    EXPECT_EQ(first.Next<AckRecords>().below, Step(step + 1));
    second.Say(Records{{second.RecordOf(view_b, Step(step))}});
    EXPECT_EQ(second.Next<AckRecords>().below, Step(step + 1));
  }
  second.SaveState(CheckpointDir(root_, "b"), view_b, Step(2), 1.0f);
  EXPECT_EQ(second.Next<Leave>().exit_code, 0);
  EXPECT_EQ(Look().at(1)->status.job.phase, JobPhase::kDone);
  EXPECT_EQ(Look().at(0)->status.job.phase, JobPhase::kRunning);
}

class StreamDriverTest : public DriverTest {
 protected:
  static JobSpec StreamSpec() {
    JobSpec spec = CountingSpec();
    spec.training.data.samples = 0;
    spec.training.data.format = DataFormat::kStream;
    spec.training.data.fields = {{"x", TensorType::kFloat32, {}}};
    spec.training.stream = StreamFrom::kFolder;
    spec.runtime.stream.path = "/in";
    return spec;
  }
  std::string spool() const { return SpoolFolder(CheckpointDir(root_, "a")); }
  // A file of the spool that nobody reads.
  std::string Leave(const std::string& name) const {
    std::filesystem::create_directories(spool());
    const std::string path = spool() + "/" + name;
    std::ofstream(path) << "bytes";
    return path;
  }
};

TEST_F(StreamDriverTest, SweepsTheSpoolBeforeAReaderBeginsAndTellsWorkersWhatIsWritten) {
  ASSERT_TRUE(Change(Submit{"a", StreamSpec()}).ok());
  ScriptedMember worker = Member("worker-0");
  worker.JoinJob("a");
  EXPECT_EQ(worker.Next<StreamIs>().positions, 0u);
  const std::string left = Leave(NameOf(SpoolFileName{0, {7, 7}}));
  const std::string other = Leave("notes.txt");
  ScriptedMember reader = Member(kReaderName, 1, Role::kReader);
  reader.JoinJob("a");
  EXPECT_EQ(reader.Next<SpoolFrom>().positions, 0u);
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(std::filesystem::exists(other));
  reader.Say(Spooled{0, 0, 6, {.file = "f", .sample = 6}, false});
  EXPECT_EQ(reader.Next<AckSpooled>().positions, 6u);
  EXPECT_EQ(journal_->StreamOf("a")->segments.at(0).count, 6u) << "it is on disk by then";
  EXPECT_EQ(worker.Next<StreamIs>().segments.at(0).count, 6u);
  const Gauge& samples = metrics_.GetGauge("muster_job_stream_samples", "a");
  while (samples.Value() != 6) Look();
  EXPECT_EQ(Look().at(0)->status.stream->file, "f");
}

TEST_F(StreamDriverTest, DeletesTheSpoolWithTheJob) {
  ASSERT_TRUE(Change(Submit{"a", StreamSpec()}).ok());
  ScriptedMember worker = Member("worker-0");
  worker.JoinJob("a");
  ScriptedMember reader = Member(kReaderName, 1, Role::kReader);
  reader.JoinJob("a");
  reader.Next<SpoolFrom>();
  Leave(NameOf(SpoolFileName{0, {1, 1}}));
  reader.Say(Spooled{0, 0, 6, {}, false});
  reader.Next<AckSpooled>();
  ASSERT_TRUE(Change(coordinator::Cancel{"a"}).ok());
  ASSERT_TRUE(Change(coordinator::Delete{"a"}).ok());
  while (!Look().empty()) std::this_thread::yield();
  EXPECT_FALSE(std::filesystem::exists(spool()));
  EXPECT_TRUE(journal_->StreamOf("a")->segments.empty());
}

TEST_F(DriverTest, OfADeletedJobNothingIsLeft) {
  SubmitJob();
  TrainToTheEnd();
  ASSERT_TRUE(std::filesystem::exists(CheckpointDir(root_, "a")));
  ASSERT_TRUE(Change(Delete{"a"}).ok());
  const Time deadline = std::chrono::steady_clock::now() + kPatience;
  while (!Look().empty() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  ASSERT_TRUE(Look().empty());
  EXPECT_FALSE(std::filesystem::exists(CheckpointDir(root_, "a")));
  EXPECT_TRUE(RecordedSteps(*journal_, "a")->empty());
  Stop();
  Start();
  EXPECT_TRUE(Look().empty());
  SubmitJob();
  EXPECT_EQ(Job().phase, JobPhase::kChecking) << "another job of the same id";
  EXPECT_EQ(Job().ending.digest, "");
}

TEST_F(DriverTest, SessionsThatSpeakOutOfTurnAreBroken) {
  SubmitJob();
  const std::vector<std::string> first_frames = {"", "garbage", std::string(3000, '\xff'),
                                                 Encode(ToCoordinator(Alive{})),
                                                 Encode(FromAgent(ProcessExited{}))};
  for (const std::string& frame : first_frames) {
    ScriptedMember member = Member("worker-0");
    member.SayBytes(frame);
    EXPECT_FALSE(member.Broken().ok()) << frame.size();
  }
  EXPECT_GE(metrics_.GetCounter("muster_frames_refused_total", "header").Value(), 3);
  ScriptedMember member = Member("worker-0");
  member.JoinJob("a");
  EXPECT_EQ(member.FollowIntoView().members.size(), 1u);
}

// What waits for the driver is a fixed number of bytes, the sender keeps the rest, and all of it
// comes in the end.
TEST_F(DriverTest, ASessionOfWhichMuchWaitsStandsStillUntilTheDriverHasTime) {
  SubmitJob();
  ScriptedMember member = Member("worker-0");
  member.JoinJob("a");
  const View view = member.FollowIntoView();
  std::promise<void> enough;
  HoldUp(enough);
  const uint64_t before = network_.counters().bytes_received;
  const std::string phase(60'000, 'x');
  for (int i = 0; i < 300; ++i) member.Say(Alive{Step(0), phase});  // 18 MB in few frames
  member.Say(Records{{member.RecordOf(view, Step(0))}});
  ScriptedMember other = Member("worker-1");  // heard after what could come has come
  other.SayBytes("garbage");
  EXPECT_FALSE(other.Broken().ok());
  EXPECT_LT(network_.counters().bytes_received - before, 2u << 20);
  EXPECT_GT(member.QueuedBytes(), 14u << 20);
  enough.set_value();
  EXPECT_EQ(member.Next<AckRecords>().below, Step(1));
  EXPECT_EQ(member.QueuedBytes(), 0u);
}

// Submit, stop and the like wait for the driver's thread; who comes when many do is told at once.
TEST_F(DriverTest, OfRequestsThatWaitForADecisionThereIsABoundedNumber) {
  std::promise<void> enough;
  HoldUp(enough);
  constexpr int kMost = 256;
  std::vector<std::future<absl::Status>> answers;
  for (int i = 0; i < kMost; ++i) {
    const auto answer = std::make_shared<std::promise<absl::Status>>();
    answers.push_back(answer->get_future());
    driver_->Change([](const KnownJobs&) { return std::nullopt; },
                    [answer](const auto& jobs) { answer->set_value(jobs.status()); });
  }
  std::vector<absl::Status> refused;
  driver_->Change([](const KnownJobs&) { return std::nullopt; },
                  [&](const auto& jobs) { refused.push_back(jobs.status()); });
  ASSERT_EQ(refused.size(), 1u) << "it is answered before anything is decided";
  EXPECT_TRUE(absl::IsUnavailable(refused[0]));
  EXPECT_THAT(std::string(refused[0].message()), HasSubstr("256 requests wait"));
  enough.set_value();
  for (auto& answer : answers) EXPECT_TRUE(answer.get().ok());
  EXPECT_TRUE(Change(Submit{"a", CountingSpec()}).ok());
}

// However much one job's members say, another's are heard, and they themselves are cut off.
TEST_F(DriverTest, AJobThatFloodsIsCutOffAndAnotherGoesOn) {
  SubmitJob();
  ASSERT_TRUE(Change(Submit{"b", CountingSpec()}).ok());
  ScriptedMember loud = Member("worker-0", 1), quiet = Member("worker-0", 2);
  loud.JoinJob("a");
  quiet.JoinJob("b", kFirstStart + 1);
  const View view = quiet.FollowIntoView();
  std::promise<void> enough;
  HoldUp(enough);
  for (int i = 0; i < 600; ++i) loud.Say(Alive{Step(0), ""});
  quiet.Say(Records{{quiet.RecordOf(view, Step(0))}});
  EXPECT_THAT(loud.Broken().message(),
              HasSubstr("too many frames or bytes of its job are waiting"));
  enough.set_value();
  EXPECT_EQ(quiet.Next<AckRecords>().below, Step(1));
}

TEST_F(DriverTest, ADiskThatHangsUnderOneJobHoldsUpNoOther) {
  std::promise<void> disk;
  hold_first_commit_ = disk.get_future().share();
  SubmitJob();
  ASSERT_TRUE(Change(Submit{"b", CountingSpec()}).ok());
  ScriptedMember first = Member("worker-0", 1), second = Member("worker-0", 2);
  first.JoinJob("a");
  second.JoinJob("b", kFirstStart + 1);
  const View view_a = first.FollowIntoView(), view_b = second.FollowIntoView();
  first.Say(Records{{first.RecordOf(view_a, Step(0)), first.RecordOf(view_a, Step(1))}});
  first.SaveState(CheckpointDir(root_, "a"), view_a, Step(2), 1.0f);
  first.Next<AckRecords>();
  while (commits_ == 0) std::this_thread::yield();
  second.Say(Records{{second.RecordOf(view_b, Step(0)), second.RecordOf(view_b, Step(1))}});
  second.SaveState(CheckpointDir(root_, "b"), view_b, Step(2), 1.0f);
  EXPECT_EQ(second.Next<Leave>().exit_code, 0) << "it is done, commit and digest and all";
  EXPECT_EQ(Look().at(0)->status.job.phase, JobPhase::kRunning);
  disk.set_value();
  EXPECT_EQ(first.Next<Leave>().exit_code, 0);
}

TEST_F(DriverTest, WhatIsDecidedIsWrittenBeforeItIsTold) {
  SubmitJob();
  const int before = writes_;
  ScriptedMember member = Member("worker-0");
  member.JoinJob("a");
  const Seal seal = member.Next<Seal>();
  EXPECT_GT(writes_, before);
  auto again = Journal::Open(std::make_unique<SharedKv>(kv_, full_));
  ASSERT_TRUE(again.ok());
  std::vector<std::string> damaged;
  const auto found = (*again)->Load(damaged);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->jobs.at(0).number, seal.view);
}

TEST_F(DriverTest, EventsAreKeptAndFollowedUntilTheJobIsOver) {
  SubmitJob();
  KeptEvents kept;
  EXPECT_TRUE(WatchJob(*driver_, "a", kept.NewWatcher()).ok());
  EXPECT_EQ(kept.Next().fields.at("state"), "queued");
  EXPECT_EQ(kept.Next().fields.at("state"), "checking");
  EXPECT_FALSE(kept.ended());
  ASSERT_TRUE(Change(Cancel{"a"}).ok());
  JobEvent last = kept.Next();
  while (last.event == "state") last = kept.Next();
  EXPECT_EQ(last.event, "done");
  EXPECT_EQ(last.fields.at("state"), "cancelled");
  EXPECT_TRUE(kept.AwaitEnd());

  KeptEvents again;
  EXPECT_TRUE(WatchJob(*driver_, "a", again.NewWatcher()).ok());
  EXPECT_TRUE(again.AwaitEnd());
  EXPECT_THAT(again.TakeAll(), SizeIs(::testing::Gt(2u)));
  KeptEvents unknown;
  EXPECT_TRUE(absl::IsNotFound(WatchJob(*driver_, "b", unknown.NewWatcher())));
  EXPECT_TRUE(unknown.AwaitEnd());
}

// Whoever followed the job, and whatever the coordinator before told of it before it died.
TEST_F(DriverTest, AfterARestartTheEndOfAJobIsTold) {
  SubmitJob();
  ASSERT_TRUE(Change(Cancel{"a"}).ok());
  const std::string reason = Job().reason;
  ASSERT_TRUE(Change(Submit{"b", CountingSpec()}).ok());
  Stop();
  Start();
  const auto told = [&](std::optional<EventPlace> after) {
    KeptEvents kept;
    EXPECT_TRUE(WatchJob(*driver_, "a", kept.NewWatcher(), after).ok());
    EXPECT_TRUE(kept.AwaitEnd());
    return kept.TakeAll();
  };
  EXPECT_THAT(told(EventPlace{TermNumber(1), 1}), ElementsAre("restart:2-0", "done:2-1"));
  EXPECT_THAT(told(EventPlace{TermNumber(2), 1}), IsEmpty()) << "it has had it";
  KeptEvents kept;
  ASSERT_TRUE(WatchJob(*driver_, "a", kept.NewWatcher()).ok());
  const JobEvent end = kept.Next();
  EXPECT_EQ(end.event, "done");
  EXPECT_EQ(end.text, reason);
  EXPECT_EQ(end.fields.at("state"), "cancelled");
  EXPECT_EQ(end.unix_ms, FindJob(*driver_->Known().value(), "a").value()->times.ended);
  KeptEvents of_other;
  ASSERT_TRUE(WatchJob(*driver_, "b", of_other.NewWatcher()).ok());
  EXPECT_NE(of_other.Next().event, "done");
}

// A thousand readers do not delay a heartbeat.
TEST_F(DriverTest, WatchingWaitsForNothingThatIsDecided) {
  SubmitJob();
  std::promise<void> enough;
  HoldUp(enough);
  KeptEvents kept, unknown;
  EXPECT_TRUE(WatchJob(*driver_, "a", kept.NewWatcher()).ok());
  EXPECT_EQ(kept.Next().event, "state");
  EXPECT_TRUE(absl::IsNotFound(WatchJob(*driver_, "b", unknown.NewWatcher())));
  enough.set_value();
}

TEST_F(DriverTest, AWatcherThatIsClosedIsLetGoThoughNothingHappens) {
  SubmitJob();
  KeptEvents kept;
  EXPECT_TRUE(WatchJob(*driver_, "a", kept.NewWatcher()).ok());
  EXPECT_NE(kept.Next().event, "");
  kept.Close();
  EXPECT_TRUE(kept.AwaitEnd());
}

// Nothing else may be to be written for a long time.
TEST_F(DriverTest, ACommitThatTheStoreRefusesForGoodEndsIt) {
  std::promise<void> disk;
  hold_first_commit_ = disk.get_future().share();
  SubmitJob();
  ScriptedMember member = Member("worker-0");
  member.JoinJob("a");
  const View view = member.FollowIntoView();
  member.Say(Records{{member.RecordOf(view, Step(0)), member.RecordOf(view, Step(1))}});
  EXPECT_EQ(member.Next<AckRecords>().below, Step(2));
  member.SaveState(CheckpointDir(root_, "a"), view, Step(2), 1.0f);
  while (commits_ == 0) std::this_thread::yield();
  *broken_ = true;
  disk.set_value();
  const auto why = told_broken_.TakeUntil(RealClock().Now() + std::chrono::seconds(30));
  ASSERT_TRUE(why.has_value());
  EXPECT_THAT(std::string(why->message()), HasSubstr("Input/output error"));
  *broken_ = false;
}

TEST_F(DriverTest, AManifestLiesBesideItsSegmentsOnceItIsCommitted) {
  SubmitJob();
  TrainToTheEnd();
  const auto file = ReadManifestFile(*CheckpointFilesIn(CheckpointDir(root_, "a")),
                                     ManifestFileOf(LineageNumber(1), Step(2)));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->cluster, journal_->cluster());
  EXPECT_EQ(file->environment, CountingEnvironment());
  EXPECT_EQ(file->lineages, Job().lineages);
  const auto listing = Catalogue(*kv_).List("a");
  ASSERT_TRUE(listing.ok()) << listing.status();
  EXPECT_THAT(listing->manifests, ::testing::ElementsAre(file->manifest));
}

TEST_F(DriverTest, OneWhosePlaceIsTakenCommitsNothingMoreAndEnds) {
  std::promise<void> disk;
  hold_first_commit_ = disk.get_future().share();
  SubmitJob();
  ScriptedMember member = Member("worker-0");
  member.JoinJob("a");
  const View view = member.FollowIntoView();
  member.Say(Records{{member.RecordOf(view, Step(0)), member.RecordOf(view, Step(1))}});
  EXPECT_EQ(member.Next<AckRecords>().below, Step(2));
  member.SaveState(CheckpointDir(root_, "a"), view, Step(2), 1.0f);
  while (commits_ == 0) std::this_thread::yield();
  *replaced_ = true;
  disk.set_value();
  const auto why = told_broken_.TakeUntil(RealClock().Now() + std::chrono::seconds(30));
  ASSERT_TRUE(why.has_value());
  EXPECT_TRUE(absl::IsAborted(*why)) << *why;
  EXPECT_TRUE(absl::IsUnavailable(Change(Submit{"b", CountingSpec()}).status()));
  Stop();  // the commit has ended, too
  EXPECT_TRUE(Catalogue(*kv_).List("a")->manifests.empty());
  EXPECT_FALSE(std::filesystem::exists(CheckpointDir(root_, "a") + "/" +
                                       ManifestFileOf(LineageNumber(1), Step(2))));
  EXPECT_FALSE(told_broken_.TryTake().has_value()) << "once is enough";
}

TEST_F(DriverTest, OneWhosePlaceIsTakenFindsItOutAndDecidesNothingMore) {
  SubmitJob();
  *replaced_ = true;
  const auto why = told_broken_.TakeUntil(RealClock().Now() + std::chrono::seconds(30));
  ASSERT_TRUE(why.has_value());
  EXPECT_TRUE(absl::IsAborted(*why)) << *why;
  EXPECT_FALSE(driver_->Healthy().ok());
  EXPECT_TRUE(absl::IsUnavailable(Change(Submit{"b", CountingSpec()}).status()));
  EXPECT_EQ(Published().size(), 1U);
}

// On another machine that does not answer, as a shared folder may be.
TEST_F(DriverTest, AClaimThatCannotBeLookedAtHoldsUpNoDecision) {
  Stop();
  std::promise<void> disk;
  hold_claims_ = disk.get_future().share();
  Start();
  std::promise<absl::Status> answer;
  std::future<absl::Status> decided = answer.get_future();
  driver_->Change(
      [](const KnownJobs&) {
        return Input(Submit{"a", CountingSpec()});
      },
      [&](const absl::StatusOr<KnownJobs>& jobs) { answer.set_value(jobs.status()); });
  const bool is_decided = decided.wait_for(kPatience) == std::future_status::ready;
  EXPECT_TRUE(is_decided) << "a decision waits for the folder of checkpoints";
  disk.set_value();
  EXPECT_TRUE(decided.get().ok());
}

// After such an error RocksDB refuses every write, also when the disk is well again.
TEST_F(DriverTest, AfterAnyOtherErrorOfTheDiskOnlyAnotherStartHelps) {
  SubmitJob();
  EXPECT_TRUE(driver_->Healthy().ok());
  *broken_ = true;
  const auto answers = std::make_shared<Mailbox<absl::Status>>();
  driver_->Change(
      [](const KnownJobs&) {
        return Input(Submit{"b", CountingSpec()});
      },
      [=](const absl::StatusOr<KnownJobs>& jobs) { answers->Post(jobs.status()); });
  const auto why = told_broken_.TakeUntil(RealClock().Now() + std::chrono::seconds(30));
  ASSERT_TRUE(why.has_value());
  EXPECT_THAT(std::string(why->message()), HasSubstr("Input/output error"));
  EXPECT_THAT(std::string(why->message()), HasSubstr("started again"));
  EXPECT_TRUE(absl::IsUnavailable(driver_->Healthy()));
  EXPECT_TRUE(absl::IsUnavailable(driver_->Ready()));
  *broken_ = false;
  // A request behind it, when all ticks before it have passed: nothing was written.
  EXPECT_TRUE(absl::IsUnavailable(Change(Submit{"c", CountingSpec()}).status()));
  EXPECT_EQ(Published().size(), 1U);
  Stop();
  EXPECT_TRUE(absl::IsUnavailable(answers->TryTake().value_or(absl::OkStatus())));
  EXPECT_FALSE(told_broken_.TryTake().has_value()) << "once is enough";
  Start();
  EXPECT_TRUE(driver_->Healthy().ok());
  EXPECT_TRUE(Change(Submit{"b", CountingSpec()}).ok());
  EXPECT_EQ(Look().size(), 2U);
}

TEST_F(DriverTest, AFullDiskIsNoReasonToStartAgain) {
  *full_ = true;
  const auto answers = std::make_shared<Mailbox<absl::Status>>();
  driver_->Change(
      [](const KnownJobs&) {
        return Input(Submit{"a", CountingSpec()});
      },
      [=](const absl::StatusOr<KnownJobs>& jobs) { answers->Post(jobs.status()); });
  const auto refused = answers->TakeUntil(RealClock().Now() + std::chrono::seconds(30));
  ASSERT_TRUE(refused.has_value()) << "whoever asks is told before there is room";
  EXPECT_TRUE(absl::IsUnavailable(*refused));
  EXPECT_THAT(std::string(refused->message()),
              AllOf(HasSubstr("make room on its disk"), HasSubstr("asking again is safe")));
  ASSERT_TRUE(driver_->Healthy().ok());
  *full_ = false;
  while (!driver_->Ready().ok()) std::this_thread::yield();
  EXPECT_EQ(Look().size(), 1U) << "what was decided is done";
  EXPECT_FALSE(told_broken_.TryTake().has_value());
}

TEST_F(DriverTest, RequestsThatItCannotAnswerAnyMoreAreToldSo) {
  *full_ = true;
  Mailbox<absl::Status> answers;
  driver_->Change(
      [](const KnownJobs&) {
        return Input(Submit{"a", CountingSpec()});
      },
      [&](const absl::StatusOr<KnownJobs>& jobs) { answers.Post(jobs.status()); });
  while (driver_->Ready().ok()) std::this_thread::yield();
  Stop();
  EXPECT_TRUE(absl::IsUnavailable(answers.TryTake().value_or(absl::OkStatus())));
  *full_ = false;
  Start();
  EXPECT_TRUE(Look().empty());
}

}  // namespace
}  // namespace muster::coordinator
