#include "coordinator/service/job_api.h"

#include <future>
#include <memory>
#include <optional>

#include "coordinator/service/job_questions.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/mailbox.h"
#include "lib/config/field_error.h"
#include "tests/coordinator/runtime/driver_rig.h"

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
    std::promise<absl::Status> answer;
    api_->Submit(id, spec,
                 [&](const absl::StatusOr<SubmittedJob>& job) { answer.set_value(job.status()); });
    return answer.get_future().get();
  }
  absl::StatusOr<JobInfo> Cancelled(const std::string& id) {
    std::promise<absl::StatusOr<JobInfo>> answer;
    api_->Cancel(id, [&](absl::StatusOr<JobInfo> job) { answer.set_value(std::move(job)); });
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

// So nothing that is decided waits for whoever reads, however many they are.
TEST_F(JobApiTest, ReadersAreAnsweredWithoutTheThreadThatDecides) {
  SubmitJob();
  std::promise<void> enough;
  HoldUp(enough);
  int answers = 0;
  api_->Get("a", [&](const absl::StatusOr<JobInfo>& job) { answers += job.ok() ? 1 : 0; });
  api_->List({}, [&](const absl::StatusOr<JobPage>& page) {
    answers += page.ok() && page->jobs.size() == 1 ? 1 : 0;
  });
  api_->Get("b", [&](const absl::StatusOr<JobInfo>& job) {
    answers += absl::IsNotFound(job.status()) ? 1 : 0;
  });
  EXPECT_EQ(answers, 3);
  enough.set_value();
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

TEST(DescribeTest, StepsOfAJobThatWaitsAreKnown) {
  KnownJob known;
  TrainingSpec& training = known.status.job.spec.training;
  training.task = "counting";
  training.batch = 100;
  training.epochs = 3;
  EXPECT_EQ(Describe(known, 0).steps, 33) << "1009 samples";
  training.data.samples = 150;
  EXPECT_EQ(Describe(known, 0).steps, 6);
  training.task = "code-lm";
  EXPECT_EQ(Describe(known, 0).steps, 0) << "nobody has read the files";
  training.epochs = 0;
  training.steps = 7;
  EXPECT_EQ(Describe(known, 0).steps, 7);
  known.status.steps = 12;
  EXPECT_EQ(Describe(known, 0).steps, 12) << "the state machine knows better";
}

TEST(DescribeTest, TheTimeThatIsLeftFollowsFromThePaceOfLate) {
  KnownJob known;
  known.status.job.phase = JobPhase::kRunning;
  known.status.steps = 100;
  known.status.step = Step(40);
  EXPECT_FALSE(Describe(known, 0).seconds_left);
  for (int64_t step = 30; step < 40; ++step)
    known.tail.pace.Add(1'000'000 + step * 500, Step(step));
  EXPECT_DOUBLE_EQ(Describe(known, 0).seconds_left.value_or(-1), 30);
  known.tail.pace.Add(1'020'500, Step(35));
  EXPECT_FALSE(Describe(known, 0).seconds_left) << "back to a checkpoint";
  known.tail.pace.Add(1'022'500, Step(36));
  known.tail.pace.Add(1'022'500, Step(37));
  EXPECT_DOUBLE_EQ(Describe(known, 0).seconds_left.value_or(-1), 60) << "two at once";
  known.status.job.phase = JobPhase::kStopped;
  EXPECT_FALSE(Describe(known, 0).seconds_left);
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

}  // namespace
}  // namespace muster::coordinator
