#include "coordinator/state/record_check.h"

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "coordinator/state/recent_steps.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/domain/validation.h"
#include "tests/coordinator/state/desk.h"

namespace muster::coordinator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
const Step kRecorded(6);

// Ten samples and a batch of four: the third step of each epoch has only two. Of view 3, in which
// worker-0 has lane 0 of step 6 and lanes 0 and 1 from then on, and worker-1 the others.
JobJournal JobInViewThree() {
  JobJournal job;
  job.spec = SpecOf(1, 2);
  job.spec.training.steps = 0;
  job.spec.training.epochs = 1000;
  job.environment = Environment();
  job.environment->samples = 10;
  View view;
  view.number = ViewNumber(3);
  view.members = {ViewMember{kA}, ViewMember{kB}};
  view.first_step = kRecorded;
  view.first_lanes = {{0, 1, 1, 1}};
  view.lanes = {{0, 0, 1, 1}};
  job.view = view;
  return job;
}

// As a sound member tells it.
StepRecord RecordIn(const JobJournal& job, int64_t step) {
  StepRecord record;
  record.step = Step(step);
  record.view = ViewNumber(3);
  record.samples = StepSamples(job.spec.training, job.environment->samples, record.step);
  record.weight = static_cast<int64_t>(record.samples.count);
  record.loss = 2;
  record.norm = 0.5;
  return record;
}

// Step 6 measures, by one metric.
void Validate(JobJournal& job) {
  job.spec.training.validation = {.every_steps = 3, .patience = 2};
  const auto tensors = SumTensors(job.spec.training.validation, {{"loss"}});
  job.environment->tensors.insert(job.environment->tensors.end(), tensors->begin(), tensors->end());
}

struct Case {
  std::string what;
  std::function<void(StepRecord&, JobJournal&)> vary;  // the record of step 6, and its job
  std::string why;                                     // a part of it
};

void ExpectFault(const Case& c) {
  JobJournal job = JobInViewThree();
  StepRecord record = RecordIn(job, 6);
  ASSERT_FALSE(FaultOf(record, job, {}, kRecorded)) << "it is sound before";
  c.vary(record, job);
  const std::optional<RecordFault> fault = FaultOf(record, job, {}, kRecorded);
  ASSERT_TRUE(fault) << "not seen: " << c.what;
  EXPECT_THAT(fault->why, HasSubstr(c.why)) << c.what;
  EXPECT_FALSE(fault->kind.empty()) << c.what;
}

TEST(RecordCheck, NamesTheFieldThatNoSoundMemberTells) {
  const std::vector<Case> cases = {
      {"a step that the job does not have", [](StepRecord& r, JobJournal&) { r.step = Step(3000); },
       "its step is none of the job, which has 3000 steps"},
      {"a step without a job to count in",
       [](StepRecord&, JobJournal& job) { job.environment.reset(); },
       "its step is none of the job, which has 0 steps"},
      {"a step far ahead",
       [](StepRecord& r, JobJournal& job) {
         r = RecordIn(job, kRecorded.value() + int64_t{kRecentSteps} + 1);
       },
       "its step 519 is far ahead of step 6"},
      {"a view above ours", [](StepRecord& r, JobJournal&) { r.view = ViewNumber(4); },
       "it is of view 4, and the views so far are 1 to 3"},
      {"no view", [](StepRecord& r, JobJournal&) { r.view = ViewNumber(0); }, "it is of view 0"},
      {"a view before any was active", [](StepRecord&, JobJournal& job) { job.view.reset(); },
       "it is of view 3, and no view was active yet"},
      {"an earlier view without its holders",
       [](StepRecord& r, JobJournal&) { r.view = ViewNumber(2); }, "it names no lane holders"},
      {"too few lanes",
       [](StepRecord& r, JobJournal&) {
         r.lane_holders = {kA, kB};
       },
       "holders of 2 lanes, and the job has 4"},
      {"too many lanes",
       [](StepRecord& r, JobJournal&) {
         r.lane_holders = {kA, kB, kB, kB, kB};
       },
       "holders of 5 lanes, and the job has 4"},
      {"a holder that is no member",
       [](StepRecord& r, JobJournal&) {
         r.lane_holders = {kA, kB, kB, kC};
       },
       "its lane holders are not those of its view 3"},
      {"another life of a holder",
       [](StepRecord& r, JobJournal&) {
         r.lane_holders = {Id("worker-0", 2), kB, kB, kB};
       },
       "its lane holders are not those of its view 3"},
      {"the holders of another step",
       [](StepRecord& r, JobJournal&) {
         r.lane_holders = {kA, kA, kB, kB};
       },
       "its lane holders are not those of its view 3"},
      {"a holder without a name, of an earlier view",
       [](StepRecord& r, JobJournal&) {
         r.view = ViewNumber(2);
         r.lane_holders = {kA, kA, kA, MemberId{}};
       },
       "a lane holder of it has no name"},
      {"the samples of another step",
       [](StepRecord& r, JobJournal& job) { r.samples = RecordIn(job, 7).samples; },
       "its samples are 4+4 of epoch 2, and those of step 6 are 0+4 of epoch 2"},
      {"another epoch", [](StepRecord& r, JobJournal&) { r.samples.epoch = 1; },
       "its samples are 0+4 of epoch 1"},
      {"fewer samples", [](StepRecord& r, JobJournal&) { r.samples.count = 3; },
       "its samples are 0+3 of epoch 2"},
      {"a short step as if it was whole",
       [](StepRecord& r, JobJournal& job) {
         r = RecordIn(job, 8);
         r.samples.count = 4;
       },
       "those of step 8 are 8+2 of epoch 2"},
      {"a server that knows no weight, and other samples",
       [](StepRecord& r, JobJournal&) {
         r.without_weight = true;
         r.samples.first = 1;
       },
       "its samples are 1+4 of epoch 2"},
      {"a weight below 0", [](StepRecord& r, JobJournal&) { r.weight = -1; },
       "its weight is -1 for 4 samples"},
      {"a weight that these samples do not have", [](StepRecord& r, JobJournal&) { r.weight = 5; },
       "its weight is 5 for 4 samples"},
      {"more tokens than samples can have",
       [](StepRecord& r, JobJournal& job) {
         job.spec.training.task = "code-lm";
         r.weight = 4 * kMostSampleWeight + 1;
       },
       "its weight is 4194305 for 4 samples"},
      {"a norm below 0", [](StepRecord& r, JobJournal&) { r.norm = -0.5; },
       "its gradient norm is -0.5, which is below 0"},
      {"a norm below 0 of a skipped step",
       [](StepRecord& r, JobJournal&) {
         r.skipped = true;
         r.norm = -kInfinity;
       },
       "its gradient norm is -inf"},
      {"a norm that is no number, applied", [](StepRecord& r, JobJournal&) { r.norm = kNan; },
       "its gradient norm is nan in a step that was not skipped"},
      {"an infinite norm, applied", [](StepRecord& r, JobJournal&) { r.norm = kInfinity; },
       "its gradient norm is inf in a step that was not skipped"},
      {"a loss that is no number, applied", [](StepRecord& r, JobJournal&) { r.loss = kNan; },
       "its loss is nan in a step that was not skipped"},
      {"skipped, where nothing is",
       [](StepRecord& r, JobJournal& job) {
         job.spec.training.on_nan = OnNan::kContinue;
         r.skipped = true;
       },
       "it says that the step was skipped, and on_nan is continue"},
  };
  for (const Case& c : cases) ExpectFault(c);
}

void LeaveOut(JobJournal& job) { job.spec.training.data.on_bad_sample = OnBadSample::kSkip; }

TEST(RecordCheck, TakesSamplesThatAreLeftOutWhereTheJobLeavesOut) {
  const std::vector<Case> cases = {
      {"of a job that stops",
       [](StepRecord& r, JobJournal&) {
         r.left_out = {1};
         r.weight = 3;
       },
       "samples are left out, and data.on_bad_sample is stop"},
      {"one that the step has not",
       [](StepRecord& r, JobJournal& job) {
         LeaveOut(job);
         r.left_out = {4};
         r.weight = 3;
       },
       "sample 4 of 4 is left out"},
      {"the weight of all samples",
       [](StepRecord& r, JobJournal& job) {
         LeaveOut(job);
         r.left_out = {1, 2};
       },
       "its weight is 4 for 2 samples"},
      {"of a skipped step",
       [](StepRecord& r, JobJournal& job) {
         LeaveOut(job);
         r.left_out = {1};
         r.weight = 3;
         r.skipped = true;
       },
       "it tells which samples were left out, and cannot know"},
  };
  for (const Case& c : cases) ExpectFault(c);
  JobJournal job = JobInViewThree();
  LeaveOut(job);
  StepRecord right = RecordIn(job, 6);
  right.left_out = {1, 3};
  right.weight = 2;
  EXPECT_FALSE(FaultOf(right, job, {}, kRecorded)) << FaultOf(right, job, {}, kRecorded)->why;
}

TEST(RecordCheck, TakesMeasuresExactlyWhereTheStepMeasures) {
  const std::vector<Case> cases = {
      {"a measure of a job without any",
       [](StepRecord& r, JobJournal&) {
         r.measures = {{1, 1}};
       },
       "it brings 1 measure, and those of step 6 are 0"},
      {"no measure in a step that measures", [](StepRecord&, JobJournal& job) { Validate(job); },
       "it brings 0 measures, and those of step 6 are 1"},
      {"measures in another step",
       [](StepRecord& r, JobJournal& job) {
         Validate(job);
         r = RecordIn(job, 7);
         r.measures = {{1, 1}};
       },
       "it brings 1 measure, and those of step 7 are 0"},
      {"measures of a skipped step",
       [](StepRecord& r, JobJournal& job) {
         Validate(job);
         r.skipped = true;
         r.measures = {{1, 1}};
       },
       "it brings 1 measure, and those of step 6 are 0"},
      {"measures of who does not know the weight",
       [](StepRecord& r, JobJournal& job) {
         Validate(job);
         r.without_weight = true;
         r.measures = {{1, 1}};
       },
       "it brings 1 measure"},
      {"a weight below 0 of a measure",
       [](StepRecord& r, JobJournal& job) {
         Validate(job);
         r.measures = {{1, -1}};
       },
       "a measure of it has weight -1"},
      {"a weight that is no number",
       [](StepRecord& r, JobJournal& job) {
         Validate(job);
         r.measures = {{1, kNan}};
       },
       "a measure of it has weight nan"},
      {"enough, where nothing is measured",
       [](StepRecord& r, JobJournal&) {
         r.commands = {{0, JobCommandKind::kEnough}};
       },
       "it says that what is measured is enough"},
      {"enough, where patience has no end",
       [](StepRecord& r, JobJournal& job) {
         Validate(job);
         job.spec.training.validation.patience = 0;
         r.measures = {{1, 1}};
         r.commands = {{0, JobCommandKind::kEnough}};
       },
       "it says that what is measured is enough"},
  };
  for (const Case& c : cases) ExpectFault(c);
}

TEST(RecordCheck, HasNothingAgainstASoundMember) {
  const std::vector<Case> cases = {
      {"with the holders of its view",
       [](StepRecord& r, JobJournal&) {
         r.lane_holders = {kA, kB, kB, kB};
       },
       ""},
      {"told late, of an earlier view that others were in",
       [](StepRecord& r, JobJournal&) {
         r.view = ViewNumber(1);
         r.lane_holders = {kC, kC, kC, Id("worker-0", 2)};
       },
       ""},
      {"told again, when it is in the ledger and the next view is active",
       [](StepRecord& r, JobJournal& job) {
         r = RecordIn(job, 5);
         r.view = ViewNumber(2);
       },
       ""},
      {"the first of all", [](StepRecord& r, JobJournal& job) { r = RecordIn(job, 0); }, ""},
      {"the short last step of an epoch",
       [](StepRecord& r, JobJournal& job) { r = RecordIn(job, 8); }, ""},
      {"the first of the next epoch", [](StepRecord& r, JobJournal& job) { r = RecordIn(job, 9); },
       ""},
      {"the last of all",
       [](StepRecord& r, JobJournal& job) {
         job.spec.training.epochs = 3;
         r = RecordIn(job, 8);
       },
       ""},
      {"of a job that was made longer",
       [](StepRecord& r, JobJournal& job) {
         job.spec.training.epochs = 1001;
         r = RecordIn(job, 6);
       },
       ""},
      {"a step ahead, because its fingerprint was made before that of the step before",
       [](StepRecord& r, JobJournal& job) { r = RecordIn(job, 7); }, ""},
      {"a server without a weight that is far ahead of whoever has one",
       [](StepRecord& r, JobJournal& job) {
         r = RecordIn(job, 2000);
         r.without_weight = true;
         r.weight = 0;
         r.loss = 0;
       },
       ""},
      {"any tokens",
       [](StepRecord& r, JobJournal& job) {
         job.spec.training.task = "code-lm";
         r.weight = 4 * kMostSampleWeight;
       },
       ""},
      {"no token",
       [](StepRecord& r, JobJournal& job) {
         job.spec.training.task = "code-lm";
         r.weight = 0;
       },
       ""},
      {"no norm", [](StepRecord& r, JobJournal&) { r.norm.reset(); }, ""},
      {"a gradient of zeros", [](StepRecord& r, JobJournal&) { r.norm = 0; }, ""},
      {"skipped",
       [](StepRecord& r, JobJournal&) {
         r.skipped = true;
         r.norm = kNan;
         r.loss = -kInfinity;
       },
       ""},
      {"skipped, with a loss and a norm that are finite",
       [](StepRecord& r, JobJournal&) { r.skipped = true; }, ""},
      {"what it measured, and that it is enough",
       [](StepRecord& r, JobJournal& job) {
         Validate(job);
         r.measures = {{kNan, 5}};
         r.commands = {{0, JobCommandKind::kEnough}};
       },
       ""},
      {"a server without a weight that heard that it is enough",
       [](StepRecord& r, JobJournal& job) {
         Validate(job);
         r.without_weight = true;
         r.commands = {{0, JobCommandKind::kEnough}};
       },
       ""},
      {"gone on with",
       [](StepRecord& r, JobJournal& job) {
         job.spec.training.on_nan = OnNan::kContinue;
         r.norm = kInfinity;
         r.loss = kNan;
       },
       ""},
  };
  for (const Case& c : cases) {
    JobJournal job = JobInViewThree();
    StepRecord record = RecordIn(job, 6);
    c.vary(record, job);
    const std::optional<RecordFault> fault = FaultOf(record, job, {}, kRecorded);
    EXPECT_FALSE(fault) << c.what << ": " << (fault ? fault->why : "");
  }
}

// ---- as the coordinator takes them

StepRecord RecordAt(const Desk& desk, int64_t step) {
  StepRecord record = RecordIn(desk.Job(), step);
  record.lineage = desk.Job().lineages.back().number;
  record.view = desk.Job().view->number;
  return record;
}

// It comes with a whole fingerprint and a stop, of which nothing may count either.
TEST(RecordCheck, NothingOfARecordThatIsNotTakenCounts) {
  Desk desk;
  RunTwo(desk);
  StepRecord wrong = RecordAt(desk, 0);
  wrong.samples = RecordAt(desk, 1).samples;
  wrong.fingerprint = FingerprintPart{1, 2, true};
  wrong.commands = {JobCommand{1, JobCommandKind::kStop}};
  desk.Say(kB, Records{{wrong, RecordAt(desk, 1)}});
  EXPECT_EQ(desk.Status().step, Step(0)) << "the next one is taken, and waits for this";
  EXPECT_FALSE(desk.Status().fingerprint);
  EXPECT_FALSE(desk.Job().ending.stop_at);
  const std::vector<std::pair<std::string, AckRecords>> acknowledged = desk.Sent<AckRecords>();
  ASSERT_THAT(acknowledged, SizeIs(1));
  EXPECT_EQ(acknowledged[0].second.below, Step(0));

  desk.Say(kB, Records{{wrong}});
  EXPECT_THAT(desk.Drain<PersistRecords>(), IsEmpty());
  desk.Say(kA, Records{{RecordAt(desk, 0)}});
  EXPECT_THAT(desk.Told(), IsEmpty()) << "another's record counts, and the wrong one is forgotten";
  EXPECT_EQ(desk.Status().step, Step(2));
}

TEST(RecordCheck, WhoTellsWrongOnesAgainAndAgainFillsNoEvents) {
  Desk desk;
  RunTwo(desk);
  for (int64_t i = 0; i < 1000; ++i) {
    StepRecord wrong = RecordAt(desk, 0);
    wrong.weight = 100 + i;
    desk.Say(kB, Records{{wrong}});
  }
  const std::vector<std::string> told = desk.Told();
  ASSERT_THAT(told, SizeIs(kToldInAMinute));
  EXPECT_EQ(told[0], "a record by worker-1 is not taken: its weight is 100 for 4 samples");
  desk.Wait(std::chrono::minutes(1));
  desk.Say(kA, Alive{});
  desk.Say(kB, Alive{});
  desk.Give(Tick{});
  EXPECT_THAT(desk.Told(),
              ElementsAre("996 more records were turned away: their weights, losses or norms are "
                          "none of a step (worker-1)"));
}

// While the coordinator is away members train on, and then tell all at once.
TEST(RecordCheck, AllThatWasDoneWhileTheCoordinatorWasAwayIsTaken) {
  constexpr int64_t kDone = 5000;
  Desk desk;
  JobSpec spec = SpecOf(1, 2);
  spec.training.steps = 2 * kDone;
  RunTwo(desk, spec);
  Records all;
  for (int64_t step = 0; step < kDone; ++step) all.records.push_back(RecordAt(desk, step));
  desk.Say(kA, all);
  EXPECT_EQ(desk.Status().step, Step(kDone));
  EXPECT_THAT(desk.Told(), IsEmpty());
}

}  // namespace
}  // namespace muster::coordinator
