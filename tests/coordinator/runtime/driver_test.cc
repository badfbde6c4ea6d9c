#include "coordinator/runtime/driver.h"

#include <atomic>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "coordinator/runtime/checkpoints.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/clock.h"
#include "lib/storage/kv.h"
#include "lib/transport/loop/loop_network.h"
#include "tests/coordinator/runtime/scripted_member.h"

// Debian's Abseil is not built with the thread sanitizer, which so does not see how copies of a
// status count each other.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() { return "race:absl::*Status::Unref\n"; }

namespace muster::coordinator {
namespace {

using ::testing::HasSubstr;

constexpr char kAddress[] = "coordinator:1";

// A store that others keep when the journal is gone, on a disk that may be full.
class SharedKv final : public Kv {
 public:
  SharedKv(std::shared_ptr<Kv> kv, std::shared_ptr<std::atomic<bool>> full)
      : kv_(std::move(kv)), full_(std::move(full)) {}
  absl::StatusOr<std::string> Get(absl::string_view family, absl::string_view key) const override {
    return kv_->Get(family, key);
  }
  absl::Status Write(const Batch& batch, Durability durability) override {
    if (*full_) return absl::ResourceExhaustedError("No space left on device");
    return kv_->Write(batch, durability);
  }
  absl::Status Scan(absl::string_view family, absl::string_view first, absl::string_view last,
                    const Visit& visit) const override {
    return kv_->Scan(family, first, last, visit);
  }

 private:
  const std::shared_ptr<Kv> kv_;
  const std::shared_ptr<std::atomic<bool>> full_;
};

class DriverTest : public ::testing::Test {
 protected:
  DriverTest()
      : root_(::testing::TempDir() + "driver-" + std::to_string(getpid()) + "-" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(root_);
    Start();
  }
  ~DriverTest() override {
    Stop();
    std::filesystem::remove_all(root_);
  }

  void Start() {
    auto journal = Journal::Open(std::make_unique<SharedKv>(kv_, full_));
    ASSERT_TRUE(journal.ok()) << journal.status();
    journal_ = *std::move(journal);
    std::vector<std::string> damaged;
    auto found = journal_->Load(damaged);
    ASSERT_TRUE(found.ok()) << found.status();
    DriverOptions options{.checkpoint_root = root_, .tick = std::chrono::milliseconds(5)};
    options.pass = [this](absl::string_view point) {
      if (point == "persisted_unpublished") ++writes_;
      if (point == "forming") ++formings_;
      if (point == "before_commit") ++commits_;
    };
    driver_ = std::make_unique<Driver>(*journal_, *std::move(found), clock_, metrics_,
                                       std::move(options));
    auto listener = here_->Listen(kAddress, driver_->MakeAcceptor());
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }
  void Stop() {
    listener_.reset();
    driver_.reset();
    journal_.reset();
  }

  absl::StatusOr<KnownJobs> Change(Input input) {
    std::promise<absl::StatusOr<KnownJobs>> answer;
    driver_->Change([&](const KnownJobs&) { return input; },
                    [&](absl::StatusOr<KnownJobs> jobs) { answer.set_value(std::move(jobs)); });
    return answer.get_future().get();
  }
  KnownJobs Look() {
    std::promise<absl::StatusOr<KnownJobs>> answer;
    driver_->Read([&](absl::StatusOr<KnownJobs> jobs) { answer.set_value(std::move(jobs)); });
    absl::StatusOr<KnownJobs> jobs = answer.get_future().get();
    EXPECT_TRUE(jobs.ok()) << jobs.status();
    return jobs.value_or(KnownJobs{});
  }
  JobJournal Job() { return Look().at(0).status.job; }
  void SubmitJob(int32_t workers = 1) {
    ASSERT_TRUE(Change(Submit{"a", CountingSpec(workers)}).ok());
  }
  ScriptedMember Member(const std::string& name, uint64_t incarnation = 1,
                        Role role = Role::kWorker) {
    return ScriptedMember(*there_, kAddress, {name, {incarnation, incarnation}}, role);
  }

  const std::string root_;
  const std::shared_ptr<Kv> kv_{OpenMemory(JournalFamilies())};
  const std::shared_ptr<std::atomic<bool>> full_ = std::make_shared<std::atomic<bool>>(false);
  std::atomic<int> writes_{0};
  std::atomic<int> formings_{0};
  std::atomic<int> commits_{0};
  HandClock clock_;
  Metrics metrics_{{.role = "coordinator"}, "test"};
  LoopNetwork network_;
  std::unique_ptr<Transport> here_ = network_.MakeTransport("coordinator");
  std::unique_ptr<Transport> there_ = network_.MakeTransport("members");
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<Driver> driver_;
  std::unique_ptr<Listener> listener_;
};

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

TEST_F(DriverTest, AServerThatAskedTooEarlyIsToldTheFactsOnceTheyAreKnown) {
  SubmitJob();
  ScriptedMember server = Member("server-0", 9, Role::kServer);
  server.Say(AskJob{"a", "server-0"});
  EXPECT_FALSE(server.Next<JobIs>().facts);
  ScriptedMember worker = Member("worker-0");
  worker.JoinJob("a");
  EXPECT_EQ(server.Next<JobIs>().facts, CountingFacts());
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

  const KnownJob done = Look().at(0);
  EXPECT_EQ(done.status.job.phase, JobPhase::kDone);
  EXPECT_EQ(done.status.job.digest.size(), 64u);
  EXPECT_EQ(done.status.checkpoints.size(), 1u);
  EXPECT_EQ(formings_, 1);
  EXPECT_EQ(commits_, 1);
  EXPECT_EQ(done.tail.loss, 0.5);
  ASSERT_TRUE(done.tail.fingerprint);
  EXPECT_EQ(done.tail.fingerprint->value, (FingerprintPart{7, 2, true}));
}

TEST_F(DriverTest, WhileTheDiskIsFullNothingIsAcknowledgedAndAfterwardsAllIs) {
  SubmitJob();
  ScriptedMember member = Member("worker-0");
  member.JoinJob("a");
  const View view = member.FollowIntoView();

  *full_ = true;
  member.Say(Records{{member.RecordOf(view, Step(0))}});
  // Until the driver has run into it.
  while (driver_->Ready().ok()) std::this_thread::yield();
  EXPECT_THAT(Change(Cancel{"a"}).status().message(), HasSubstr("No space left"));
  EXPECT_THAT(Look().at(0).status.waits_for, HasSubstr("No space left"));
  EXPECT_EQ(Look().at(0).status.step, Step(0));
  EXPECT_FALSE(member.Heard());
  member.Say(Records{{member.RecordOf(view, Step(1))}});

  *full_ = false;
  EXPECT_EQ(member.Next<AckRecords>().below, Step(1));
  EXPECT_EQ(member.Next<AckRecords>().below, Step(2));
  EXPECT_TRUE(driver_->Ready().ok());
  EXPECT_EQ(Look().at(0).status.step, Step(2));
  EXPECT_EQ(journal_->Records("a")->size(), 2u);
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
  join.active = true;
  member.Say(join);
  EXPECT_EQ(member.Next<Activate>().view.number, view.number);
  member.Say(Records{{member.RecordOf(view, Step(0)), member.RecordOf(view, Step(1))}});
  EXPECT_EQ(member.Next<AckRecords>().below, Step(2));
  clock_.Advance(std::chrono::milliseconds(1500));
  while (!driver_->Ready().ok()) std::this_thread::yield();
}

TEST_F(DriverTest, ANewerSessionOfAMemberReplacesTheOlder) {
  SubmitJob();
  ScriptedMember older = Member("worker-0");
  older.JoinJob("a");
  const View view = older.FollowIntoView();
  ScriptedMember newer = Member("worker-0");
  Join join = newer.JoinOf("a");
  join.sealed = view.number;
  join.active = true;
  newer.Say(join);
  EXPECT_EQ(newer.Next<Activate>().view, view);
  EXPECT_FALSE(older.Broken().ok());
  EXPECT_TRUE(Look().at(0).status.members.at(0).up);
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
  agent.Say(AgentHello{"here"});
  EXPECT_EQ(agent.Next<Wanted>().processes.size(), 2u);
  second.Hang();
  agent.Say(ProcessExited{.job = "a",
                          .name = "worker-1",
                          .signal = 9,
                          .cause = "killed by SIGKILL",
                          .lanes = {.incarnation = {2, 2}}});
  EXPECT_GT(first.Next<Seal>().view, view.number);
}

TEST_F(DriverTest, AgentsAreToldWhatIsWantedWhenTheyComeAndWhenItChanges) {
  ScriptedAgent agent(*there_, kAddress, DecodeToAgent);
  agent.Say(AgentHello{"here"});
  EXPECT_TRUE(agent.Next<Wanted>().processes.empty());
  SubmitJob(3);
  EXPECT_EQ(agent.Next<Wanted>().processes.size(), 3u);
  ASSERT_TRUE(Change(Cancel{"a"}).ok());
  EXPECT_TRUE(agent.Next<Wanted>().processes.empty());
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

TEST_F(DriverTest, EventsAreKeptAndFollowed) {
  SubmitJob();
  std::promise<absl::Status> found;
  Mailbox<JobEvent> events;
  driver_->Watch(
      "a", "", [&](absl::Status s) { found.set_value(std::move(s)); },
      [&](const JobEvent& event) { return events.Post(event); });
  EXPECT_TRUE(found.get_future().get().ok());
  const auto next = [&] {
    return events.TakeUntil(std::chrono::steady_clock::now() + kPatience).value_or(JobEvent{});
  };
  EXPECT_EQ(next().fields.at("state"), "queued");
  EXPECT_EQ(next().fields.at("state"), "starting");
  ASSERT_TRUE(Change(Cancel{"a"}).ok());
  JobEvent last;
  while (last.event != "done" && !HasFailure()) last = next();
  EXPECT_EQ(last.fields.at("state"), "cancelled");

  std::promise<absl::Status> unknown;
  driver_->Watch(
      "b", "", [&](absl::Status s) { unknown.set_value(std::move(s)); },
      [](const JobEvent&) { return false; });
  EXPECT_TRUE(absl::IsNotFound(unknown.get_future().get()));
  events.Close();
  Stop();
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
