#include "coordinator/service/job_api.h"

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/service/job_questions.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/mailbox.h"
#include "lib/config/field_error.h"
#include "lib/wire/job_codec.h"
#include "tests/coordinator/runtime/driver_rig.h"
#include "tests/coordinator/runtime/kept_events.h"

namespace muster::coordinator {
namespace {

using ::testing::HasSubstr;

class JobApiTest : public DriverRig {
 protected:
  ~JobApiTest() override { Stop(); }

  // Keeps whatever is asked from being answered until `go_on_` is set.
  void HoldUpAnswers() {
    EXPECT_TRUE(Ask([this](const std::stop_token&) {
                  held_up_.set_value();
                  go_on_.get_future().wait();
                }).ok());
    held_up_.get_future().wait();
  }
  void AskDigest(std::optional<int64_t> step = std::nullopt) {
    api_->Digest("a", step, [this](absl::StatusOr<JobDigest> d) { digests_.Post(std::move(d)); });
  }
  absl::Status Submitted(const std::string& id, const JobSpec& spec) {
    return SubmittedTo(*api_, id, spec);
  }
  static absl::Status SubmittedTo(JobApi& api, const std::string& id, const JobSpec& spec) {
    std::promise<absl::Status> answer;
    api.Submit(id, spec,
               [&](const absl::StatusOr<SubmittedJob>& job) { answer.set_value(job.status()); });
    return answer.get_future().get();
  }
  absl::StatusOr<JobInfo> Cancelled(const std::string& id) {
    std::promise<absl::StatusOr<JobInfo>> answer;
    api_->Cancel(id, [&](absl::StatusOr<JobInfo> job) { answer.set_value(std::move(job)); });
    return answer.get_future().get();
  }
  absl::Status Scaled(const std::string& id, int32_t workers_min, int32_t workers_max) {
    std::promise<absl::Status> answer;
    api_->Scale(id, workers_min, workers_max,
                [&](const absl::StatusOr<JobInfo>& job) { answer.set_value(job.status()); });
    return answer.get_future().get();
  }
  absl::StatusOr<JobDigest> NextDigest() {
    return digests_.TakeUntil(RealClock().Now() + kPatience)
        .value_or(absl::DeadlineExceededError("no answer"));
  }

  Mailbox<absl::StatusOr<JobDigest>> digests_;
  std::promise<void> held_up_;
  std::promise<void> go_on_;
  const std::unique_ptr<JobApi> api_ = MakeJobApi(*driver_, *journal_, root_);
};

TEST_F(JobApiTest, AnIdThatLooksLikeAnOptionIsRefused) {
  for (const char* id : {"-a", "--yes", ".a", "a b"}) {
    const absl::Status refused = Submitted(id, CountingSpec(1));
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << id;
    EXPECT_EQ(FieldOf(refused), "id");
  }
  EXPECT_TRUE(Submitted("a-b", CountingSpec(1)).ok());
}

TEST_F(JobApiTest, AModelThatNoJobMayHaveIsRefusedBeforeItIsKept) {
  JobSpec spec = CountingSpec(1);
  spec.training.data.samples = uint64_t{1} << 40;
  const absl::Status refused = Submitted("a", spec);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(refused), "data.samples");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("1099511627776 parameters"));
}

TEST_F(JobApiTest, AStepThatNobodyCanResumeFromIsAnErrorOfThatField) {
  JobSpec spec = CountingSpec(1);
  spec.runtime.resume = {ResumeKind::kStep, 5};
  const absl::Status refused = Submitted("a", spec);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(refused), "resume");
  EXPECT_EQ(refused.message(), "resume: there is no checkpoint of step 5; allowed: never, latest");
}

TEST_F(JobApiTest, AJobThatIsStoppingIsNotLostWhenItIsSubmittedAgain) {
  SubmitJob();
  ScriptedMember member = Member("worker-0");
  member.JoinJob("a");
  member.FollowIntoView();
  ASSERT_TRUE(Change(coordinator::Stop{"a"}).ok());
  const absl::Status refused = Submitted("a", CountingSpec(1));
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_EQ(refused.message(), "job a is stopping; submit it again when it is stopped");
  JobSpec other = CountingSpec(1);
  other.runtime.checkpoint.keep += 1;
  EXPECT_THAT(Submitted("a", other).message(), HasSubstr("job a is stopping"));
}

TEST_F(JobApiTest, AStoppedJobIsCancelledForGood) {
  SubmitJob();
  ASSERT_TRUE(Change(coordinator::Stop{"a"}).ok());
  ASSERT_EQ(Job().phase, JobPhase::kStopped);
  const absl::StatusOr<JobInfo> job = Cancelled("a");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->state, "cancelled");
  EXPECT_EQ(job->reason, "cancelled after it was stopped");
  EXPECT_TRUE(Submitted("a", CountingSpec(1)).ok());
  EXPECT_EQ(Job().phase, JobPhase::kCancelled);
}

TEST_F(JobApiTest, OnlyAJobThatHasNotEndedIsScaled) {
  EXPECT_EQ(Scaled("a", 1, 2).code(), absl::StatusCode::kNotFound);
  SubmitJob();
  EXPECT_TRUE(Scaled("a", 1, 2).ok());
  ASSERT_TRUE(Change(coordinator::Stop{"a"}).ok());
  const absl::Status refused = Scaled("a", 1, 2);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("job a is stopped"));
}

TEST_F(JobApiTest, AJobHasAsManyWorkersAsItsSpecificationMaySay) {
  SubmitJob();
  EXPECT_EQ(FieldOf(Scaled("a", 0, 2)), "workers.min");
  EXPECT_EQ(FieldOf(Scaled("a", 1, kMaxProcesses + 1)), "workers.max");
  EXPECT_EQ(FieldOf(Scaled("a", 3, 2)), "workers.min");
  EXPECT_THAT(Scaled("a", 1, 0).message(), HasSubstr("allowed: 1 to 4096"));
}

TEST_F(JobApiTest, ManyWhoAskForTheSameDigestAreOneQuery) {
  constexpr int kMany = 40;
  SubmitJob();
  TrainToTheEnd();
  HoldUpAnswers();
  for (int i = 0; i < kMany; ++i) AskDigest(i % 2 == 0 ? std::nullopt : std::optional<int64_t>(2));
  EXPECT_EQ(digests_.size(), 0u);
  go_on_.set_value();
  for (int i = 0; i < kMany; ++i) {
    const absl::StatusOr<JobDigest> digest = NextDigest();
    ASSERT_TRUE(digest.ok()) << digest.status();
    EXPECT_EQ(digest->digest, Job().ending.digest);
  }
}

TEST_F(JobApiTest, OtherDigestsAreOtherQueriesOfWhichSomeMayWait) {
  SubmitJob();
  HoldUpAnswers();
  for (int64_t step = 0; step < 17; ++step) AskDigest(step);
  const absl::Status refused = NextDigest().status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("query queue full (16); retry later"));
  go_on_.set_value();
  for (int step = 0; step < 16; ++step) EXPECT_TRUE(absl::IsNotFound(NextDigest().status()));
  AskDigest(17);
  EXPECT_TRUE(absl::IsNotFound(NextDigest().status())) << "there is room again";
}

// So nothing that is decided waits for whoever reads, however many they are, and a heartbeat counts
// as it came.
TEST_F(JobApiTest, AThousandReadersAreAnsweredWithoutTheThreadThatDecides) {
  using std::chrono::milliseconds;
  constexpr size_t kThreads = 8, kReaders = 1000;
  constexpr int kMostRequests = 256;  // that may wait for a decision
  SubmitJob(2);
  ScriptedMember speaks = Member("worker-0", 1);
  ScriptedMember silent = Member("worker-1", 2);
  for (ScriptedMember* member : {&speaks, &silent}) member->JoinJob("a");
  std::thread second([&] { silent.FollowIntoView(); });
  const View view = speaks.FollowIntoView();
  second.join();
  ASSERT_EQ(view.members.size(), 2u);
  clock_.Advance(milliseconds(1400));  // a lease is a little longer

  std::promise<void> enough;
  HoldUp(enough);
  const auto answers = std::make_shared<std::atomic<size_t>>(0);
  const auto count = [answers](bool as_it_should_be) { *answers += as_it_should_be ? 1 : 0; };
  const auto ask = [&](KeptEvents& events) {
    api_->Get("a", [count](const absl::StatusOr<JobInfo>& job) { count(job.ok()); });
    api_->Get("b", [count](const absl::StatusOr<JobInfo>& job) {
      count(absl::IsNotFound(job.status()));
    });
    api_->List({}, [count](const absl::StatusOr<JobPage>& page) {
      count(page.ok() && page->jobs.size() == 1);
    });
    api_->Watch(
        "a", std::nullopt, [count](const absl::StatusOr<bool>& found) { count(found.ok()); },
        events.NewWatcher());
  };
  std::vector<KeptEvents> events(kReaders);
  std::vector<std::thread> threads;
  for (size_t first = 0; first < kThreads; ++first)
    threads.emplace_back([&, first] {
      for (size_t reader = first; reader < kReaders; reader += kThreads) ask(events[reader]);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answers->load(), 4 * kReaders) << "before anything is decided";
  size_t told = 0;
  while (told < kReaders && !events[told].Next().event.empty()) ++told;
  EXPECT_EQ(told, kReaders) << "of the job's events";
  const auto refused = std::make_shared<std::atomic<int>>(0);
  for (int i = 0; i < kMostRequests; ++i)
    driver_->Change([](const KnownJobs&) { return std::nullopt; },
                    [refused](const auto& jobs) { *refused += jobs.ok() ? 0 : 1; });
  EXPECT_EQ(refused->load(), 0) << "no reader has taken the place of who wants a decision";

  speaks.Say(Alive{Step(0), ""});
  ScriptedMember other = Member("worker-2");  // heard after what was said has come
  other.SayBytes("garbage");
  EXPECT_FALSE(other.Broken().ok());
  clock_.Advance(milliseconds(600));
  enough.set_value();
  EXPECT_GT(speaks.Next<Seal>().view, view.number) << "it spoke within its lease";
  EXPECT_EQ(silent.Next<Leave>().reason, "evicted: silent for longer than its lease");
  for (KeptEvents& kept : events) kept.Close();
}

TEST_F(JobApiTest, QueriesThatWaitAreToldThatTheCoordinatorEnds) {
  SubmitJob();
  HoldUpAnswers();
  AskDigest();
  AskDigest();
  std::promise<absl::Status> audit;
  api_->Audit("a", [&](const absl::StatusOr<JobAudit>& a) { audit.set_value(a.status()); });
  Look();
  go_on_.set_value();
  driver_->Stop();
  // Those that were not begun; the others were answered.
  for (int i = 0; i < 2; ++i) {
    const absl::Status told = NextDigest().status();
    EXPECT_TRUE(absl::IsUnavailable(told) || absl::IsNotFound(told)) << told;
  }
  const absl::Status told = audit.get_future().get();
  EXPECT_TRUE(told.ok() || absl::IsUnavailable(told)) << told;
}

JobInfo Described(const KnownJob& known) {
  return Describe(std::make_shared<const KnownJob>(known), 0);
}

TEST(DescribeTest, ASpecificationIsNotCopied) {
  const auto known = std::make_shared<const KnownJob>();
  EXPECT_EQ(Describe(known, 0).spec.get(), &known->status.job.spec);
}

TEST(DescribeTest, StepsOfAJobThatWaitsAreKnown) {
  KnownJob known;
  TrainingSpec& training = known.status.job.spec.training;
  training.task = "counting";
  training.batch = 100;
  training.epochs = 3;
  EXPECT_EQ(Described(known).steps, 33) << "1009 samples";
  training.data.samples = 150;
  EXPECT_EQ(Described(known).steps, 6);
  training.task = "code-lm";
  EXPECT_EQ(Described(known).steps, 0) << "nobody has read the files";
  training.epochs = 0;
  training.steps = 7;
  EXPECT_EQ(Described(known).steps, 7);
  known.status.steps = 12;
  EXPECT_EQ(Described(known).steps, 12) << "the state machine knows better";
}

TEST(DescribeTest, TheTimeThatIsLeftFollowsFromThePaceOfLate) {
  KnownJob known;
  known.status.job.phase = JobPhase::kRunning;
  known.status.steps = 100;
  known.status.step = Step(40);
  EXPECT_FALSE(Described(known).seconds_left);
  for (int64_t step = 30; step < 40; ++step)
    known.tail.pace.Add(1'000'000 + step * 500, Step(step));
  EXPECT_DOUBLE_EQ(Described(known).seconds_left.value_or(-1), 30);
  known.tail.pace.Add(1'020'500, Step(35));
  EXPECT_FALSE(Described(known).seconds_left) << "back to a checkpoint";
  known.tail.pace.Add(1'022'500, Step(36));
  known.tail.pace.Add(1'022'500, Step(37));
  EXPECT_DOUBLE_EQ(Described(known).seconds_left.value_or(-1), 60) << "two at once";
  known.status.job.phase = JobPhase::kStopped;
  EXPECT_FALSE(Described(known).seconds_left);
}

TEST_F(JobApiTest, MoreEpochsReopenAJobThatIsDone) {
  SubmitJob();
  TrainToTheEnd();
  ASSERT_EQ(Job().phase, JobPhase::kDone);
  JobSpec longer = CountingSpec(1);
  longer.training.epochs = 0;
  const absl::Status none = Submitted("a", longer);
  EXPECT_EQ(FieldOf(none), "epochs");
  longer.training.epochs = 3;
  longer.training.lanes = 1;
  EXPECT_TRUE(absl::IsAlreadyExists(Submitted("a", longer))) << "that is another training";
  EXPECT_EQ(Job().phase, JobPhase::kDone);
  longer.training.lanes = CountingSpec(1).training.lanes;
  EXPECT_TRUE(Submitted("a", longer).ok());
  EXPECT_FALSE(Ended(Job().phase));
  EXPECT_EQ(Job().spec.training.epochs, 3);
}

TEST_F(JobApiTest, MoreFingerprintsThanOneAnswerHoldsComeInParts) {
  SubmitJob();
  TrainToTheEnd();
  Stop();
  const int64_t most = static_cast<int64_t>(kMostFingerprints);
  {
    const auto journal = Journal::Open(std::make_unique<SharedKv>(kv_, full_));
    ASSERT_TRUE(journal.ok()) << journal.status();
    std::vector<Persisted> changes;
    for (int64_t step = 1; step <= most + 5; ++step)
      changes.push_back(PersistFingerprint{"a", LineageNumber(1), Step(step), {1, 2, true}});
    ASSERT_TRUE((*journal)->Write(changes, 1).ok());
  }
  Start();
  const auto api = MakeJobApi(*driver_, *journal_, root_);
  const auto ask = [&](int64_t from) {
    std::promise<absl::StatusOr<JobFingerprints>> answer;
    api->Fingerprints("a", from,
                      [&](absl::StatusOr<JobFingerprints> f) { answer.set_value(std::move(f)); });
    return answer.get_future().get().value_or(JobFingerprints{});
  };
  const JobFingerprints first = ask(0);
  ASSERT_EQ(first.fingerprints.size(), kMostFingerprints);
  EXPECT_EQ(first.fingerprints.front().step, 1);
  ASSERT_EQ(first.next, most + 1);
  const JobFingerprints last = ask(*first.next);
  ASSERT_EQ(last.fingerprints.size(), 5u);
  EXPECT_EQ(last.fingerprints.back().step, most + 5);
  EXPECT_FALSE(last.next);
  EXPECT_TRUE(ask(most + 6).fingerprints.empty());
  Stop();
}

TEST_F(JobApiTest, JobsAreKeptUpToABoundAndADeletedOneMakesRoom) {
  const auto api = MakeJobApi(*driver_, *journal_, root_, {.jobs = 2});
  const auto submitted = [&](const std::string& id) {
    return SubmittedTo(*api, id, CountingSpec(1));
  };
  EXPECT_TRUE(submitted("a").ok());
  EXPECT_TRUE(submitted("b").ok());
  const absl::Status refused = submitted("c");
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("may keep 2; delete jobs that are over"));
  ASSERT_TRUE(Change(coordinator::Stop{"a"}).ok());
  EXPECT_EQ(submitted("c").code(), absl::StatusCode::kResourceExhausted) << "what ended counts";
  EXPECT_TRUE(submitted("a").ok()) << "it is kept already";
  ASSERT_TRUE(Change(coordinator::Cancel{"a"}).ok());
  ASSERT_TRUE(Change(coordinator::Delete{"a"}).ok());
  const Time limit = RealClock().Now() + kPatience;
  while (Look().size() > 1 && RealClock().Now() < limit) std::this_thread::yield();
  EXPECT_TRUE(submitted("c").ok());
}

TEST_F(JobApiTest, SpecificationsAreKeptUpToABoundInSum) {
  JobSpec large = CountingSpec(1);
  large.training.data.paths = {absl::StrCat("/", std::string(10'000, 'x'))};
  const auto api = MakeJobApi(*driver_, *journal_, root_, {.spec_bytes = 2 * BytesOf(large)});
  EXPECT_TRUE(SubmittedTo(*api, "a", large).ok());
  EXPECT_TRUE(SubmittedTo(*api, "b", large).ok());
  const absl::Status refused = SubmittedTo(*api, "c", large);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("`muster delete JOB`"));
}

// The store of an earlier coordinator may hold more.
TEST_F(JobApiTest, MoreJobsThanMayBeKeptAreServedAfterARestart) {
  EXPECT_TRUE(Submitted("a", CountingSpec(1)).ok());
  EXPECT_TRUE(Submitted("b", CountingSpec(1)).ok());
  Stop();
  Start();
  const auto api = MakeJobApi(*driver_, *journal_, root_, {.jobs = 1});
  EXPECT_EQ(Look().size(), 2u);
  EXPECT_TRUE(SubmittedTo(*api, "b", CountingSpec(1)).ok());
  EXPECT_EQ(SubmittedTo(*api, "c", CountingSpec(1)).code(), absl::StatusCode::kResourceExhausted);
  Stop();
}

}  // namespace
}  // namespace muster::coordinator
