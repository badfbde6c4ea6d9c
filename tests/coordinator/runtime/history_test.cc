// The history of a job as it is read from the ledger, and as the file that follows it.
#include "coordinator/runtime/history.h"

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/runtime/history_files.h"
#include "coordinator/runtime/tensorboard_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/domain/history_series.h"
#include "lib/domain/validation.h"
#include "lib/storage/kv.h"
#include "lib/tensorboard/run.h"
#include "lib/wire/job_codec.h"
#include "tests/coordinator/runtime/scripted_member.h"

namespace muster::coordinator {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr uint64_t kManySamples = 1009;  // no epoch ends within these steps

std::string MakeFolder() {
  std::string folder = ::testing::TempDir() + "/history-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) std::abort();
  return folder;
}

class HistoryTest : public ::testing::Test {
 protected:
  HistoryTest() {
    JobSpec spec = CountingSpec(1);
    spec.training.data.samples = kManySamples;
    spec.training.batch = 4;
    spec.training.lanes = 1;
    spec.training.epochs = 0;
    spec.training.steps = 100;
    spec.training.optimizer.learning_rate = 0.5;
    spec.training.schedule.warmup_steps = 10;
    job_.id = "a";
    job_.submission = 1;
    job_.spec = *Complete(spec);
    job_.phase = JobPhase::kRunning;
    job_.environment = CountingEnvironment();
    job_.environment->samples = kManySamples;
    job_.lineages = {{LineageNumber(1), LineageNumber(0), Step(0), "start"}};
  }
  ~HistoryTest() override { std::filesystem::remove_all(folder_); }

  // Steps [first, end) are recorded, one every `milliseconds`.
  void Record(int64_t first, int64_t end, int64_t view = 1, int64_t milliseconds = 100) {
    for (int64_t step = first; step < end; ++step) {
      StepRecord record;
      record.lineage = job_.lineages.back().number;
      record.step = Step(step);
      record.view = ViewNumber(view);
      record.lane_holders = {{"worker-0", {1, 1}}};
      record.samples = StepSamples(job_.spec.training, job_.environment->samples, record.step);
      record.weight = 4;
      record.loss = loss_;
      if (step % 2 == 1) record.norm = norm_;
      now_ += milliseconds;
      ASSERT_TRUE(
          journal_->Write({PersistJob{job_}, PersistRecords{job_.id, {record}}}, now_).ok());
    }
    recorded_ = Step(end);
  }
  void Rewind(int64_t fork) {
    const LineageNumber before = job_.lineages.back().number;
    job_.lineages.push_back({before + 1, before, Step(fork), "a rewind"});
    recorded_ = Step(fork);
  }
  void Validate(MeasuredOn on, int64_t delay) {
    job_.spec.training.validation = {.every_steps = 50, .on = on, .delay = delay};
    const auto sums = SumTensors(job_.spec.training.validation, {{"loss"}});
    job_.environment->tensors.insert(job_.environment->tensors.end(), sums->begin(), sums->end());
  }
  // State(10) has the loss 1.
  void RecordMeasure() {
    MeasureSums fact;
    fact.floats.assign(kFloatsOfMetric, 0.0f);
    fact.floats[4] = 1;   // 2^48 of 2^-48
    fact.floats[11] = 1;  // 2^12 of 2^-12
    ASSERT_TRUE(
        journal_->Write({PersistMeasure{job_.id, {LineageNumber(1), Step(10), fact}}}, now_).ok());
  }
  HistoryPage Read(const HistoryQuery& query = {}) const {
    const auto page = ReadHistory(*journal_, job_, recorded_, query, {});
    EXPECT_TRUE(page.ok()) << page.status();
    return page.value_or(HistoryPage{});
  }
  absl::Status Follow() { return file_.Follow(*journal_, job_, recorded_, {}); }
  // Step and lineage of each line.
  using Places = std::vector<std::pair<int64_t, int64_t>>;
  Places Lines() const { return LinesOf(path_); }
  static Places LinesOf(const std::string& path) {
    Places places;
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) {
      const auto place = PlaceInHistory(line);
      EXPECT_TRUE(place) << line;
      if (place) places.emplace_back(place->step, place->lineage);
    }
    return places;
  }
  Places OfTheLedger() const {
    Places places;
    for (const HistoryStep& step : Read().steps) places.emplace_back(step.step, step.lineage);
    return places;
  }

  const std::string folder_ = MakeFolder();
  JobJournal job_;
  Step recorded_;
  int64_t now_ = 1'000'000;
  double loss_ = 2, norm_ = 1.5;  // of the steps that are recorded next
  std::unique_ptr<Journal> journal_ = *Journal::Open(OpenMemory(JournalFamilies()));
  const std::string path_ = folder_ + "/metrics.jsonl";
  HistoryFile file_{path_};
};

TEST_F(HistoryTest, AStepTellsLossRateNormAndSpeed) {
  EXPECT_TRUE(Read().steps.empty());
  Record(0, 4);
  const std::vector<HistoryStep> steps = Read().steps;
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_EQ(steps[1].step, 1);
  EXPECT_EQ(steps[1].unix_ms, 1'000'200);
  EXPECT_DOUBLE_EQ(*steps[1].loss, 0.5);
  EXPECT_DOUBLE_EQ(*steps[0].learning_rate, 0.05) << "the first of ten steps of warm-up";
  EXPECT_FALSE(steps[0].gradient_norm);
  EXPECT_DOUBLE_EQ(*steps[1].gradient_norm, 1.5);
  EXPECT_FALSE(steps[0].samples_per_second) << "nobody knows when it began";
  EXPECT_DOUBLE_EQ(*steps[3].samples_per_second, 40);
  EXPECT_EQ(HistoryLine(steps[1]),
            "{\"step\":1,\"lineage\":1,\"epoch\":0,\"time\":\"1970-01-01T00:16:40.200Z\","
            "\"loss\":0.5,\"learning_rate\":0.1,\"gradient_norm\":1.5,"
            "\"samples_per_second\":40,\"samples\":8,\"seconds\":0.1}\n");
}

// MLflow refuses a batch with such a number, and would be sent it again for ever.
TEST_F(HistoryTest, WhatIsNotFiniteIsNoValueOfAStep) {
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
        -std::numeric_limits<double>::infinity()}) {
    loss_ = norm_ = bad;
    Record(recorded_.value(), recorded_.value() + 2);
  }
  const std::vector<HistoryStep> steps = Read().steps;
  ASSERT_EQ(steps.size(), 6u);
  for (const HistoryStep& step : steps) {
    EXPECT_FALSE(step.loss) << step.step;
    EXPECT_FALSE(step.gradient_norm) << step.step;
    EXPECT_TRUE(step.learning_rate) << step.step;
    for (const auto& [name, value] : ValuesOf(step)) EXPECT_TRUE(std::isfinite(value)) << name;
  }
}

TEST_F(HistoryTest, AStopIsNoTimeOfAStep) {
  Record(0, 3);
  now_ += 3'600'000;
  Record(3, 6, /*view=*/2);
  const std::vector<HistoryStep> steps = Read().steps;
  EXPECT_FALSE(steps[3].samples_per_second);
  EXPECT_FALSE(steps[3].seconds);
  EXPECT_DOUBLE_EQ(*steps[4].seconds, 0.1);
  EXPECT_DOUBLE_EQ(*steps[5].samples_per_second, 40);
}

TEST_F(HistoryTest, SamplesAreCountedThroughAllEpochs) {
  job_.environment->samples = 10;  // three steps of an epoch, of 4, 4 and 2
  job_.spec.training.data.samples = 10;
  Record(0, 7);
  std::vector<int64_t> used;
  for (const HistoryStep& step : Read().steps) used.push_back(step.samples.value_or(-1));
  EXPECT_EQ(used, (std::vector<int64_t>{4, 8, 10, 14, 18, 20, 24}));
  for (const HistoryStep& step : Read({.from = 5}).steps)
    EXPECT_EQ(step.samples, used[static_cast<size_t>(step.step)]) << "of a later page, too";
}

TEST_F(HistoryTest, ComesInPartsThatSayTheSame) {
  Record(0, 50);
  const std::vector<HistoryStep> all = Read().steps;
  std::vector<std::string> parts;
  for (std::optional<int64_t> from = 0; from;) {
    const HistoryPage page = Read({.from = *from, .limit = 7});
    for (const HistoryStep& step : page.steps) parts.push_back(HistoryLine(step));
    from = page.next;
  }
  ASSERT_EQ(parts.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(parts[i], HistoryLine(all[i]));
  EXPECT_TRUE(Read({.from = 50}).steps.empty());
  EXPECT_TRUE(Read({.from = 5'000}).steps.empty());
}

TEST_F(HistoryTest, ThereIsNothingBehindTheEnd) {
  Record(0, 5);
  for (const int64_t from : {int64_t{5}, std::numeric_limits<int64_t>::max()}) {
    const HistoryPage page = Read({.from = from, .limit = 3});
    EXPECT_TRUE(page.steps.empty()) << from;
    EXPECT_FALSE(page.next) << from;
  }
}

// A coordinator that took such a record must be able to start again.
TEST_F(HistoryTest, AStepThatTheJobDoesNotHaveHasNoLearningRate) {
  Record(98, 102);
  job_.lineages[0].fork = Step(98);
  const std::vector<HistoryStep> steps = Read({.from = 98}).steps;
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_TRUE(steps[1].learning_rate);
  EXPECT_FALSE(steps[2].learning_rate) << "the job has 100 steps";
  EXPECT_THAT(HistoryLine(steps[2]), HasSubstr("\"learning_rate\":null"));
  job_.environment->samples = 0;
  EXPECT_EQ(Read({.from = 98}).steps.size(), 4u);
}

// The last state of a job that has ended has no step, and a line of its own; where the job goes on,
// steps come in its place.
TEST_F(HistoryTest, TheLastStateEndsTheHistoryUntilTheJobGoesOn) {
  struct Row {
    MeasuredOn on;
    int64_t delay;
    int64_t brought_by;
  };
  for (const Row& row : {Row{MeasuredOn::kWorkers, 1, 10}, Row{MeasuredOn::kFollower, 3, 12}}) {
    SCOPED_TRACE(row.brought_by);
    job_.id = row.delay == 1 ? "a" : "b";
    const std::string path = path_ + job_.id;
    HistoryFile file(path);
    Validate(row.on, row.delay);
    job_.phase = JobPhase::kRunning;
    Record(0, 10);
    now_ += 100;
    RecordMeasure();
    EXPECT_EQ(Read().steps.size(), 10u) << "it may still do step 10";
    job_.phase = JobPhase::kDone;
    const HistoryPage page = Read();
    ASSERT_EQ(page.steps.size(), 11u);
    EXPECT_EQ(page.steps.back().step, row.brought_by);
    EXPECT_EQ(page.steps.back().last_state, 10);
    EXPECT_EQ(page.steps.back().unix_ms, page.steps[9].unix_ms);
    EXPECT_EQ(page.steps.back().loss, std::nullopt);
    EXPECT_EQ(page.steps.back().validation, (std::vector<MetricValue>{{"loss", 1.0}}));
    EXPECT_EQ(Read({.from = 0, .limit = 10}).next, 10);
    EXPECT_EQ(Read({.from = 10}).steps.size(), 1u);
    const auto follow = [&](HistoryFile& of) { return of.Follow(*journal_, job_, recorded_, {}); };
    ASSERT_TRUE(follow(file).ok());
    ASSERT_TRUE(follow(file).ok());
    HistoryFile again(path);  // another coordinator's
    ASSERT_TRUE(follow(again).ok());
    Places lines = LinesOf(path);
    ASSERT_EQ(lines.size(), 11u) << "once";
    job_.phase = JobPhase::kRunning;
    Record(10, 14);
    ASSERT_TRUE(follow(again).ok());
    lines = LinesOf(path);
    ASSERT_EQ(lines.size(), 14u);
    for (size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines[i].first, static_cast<int64_t>(i));
    job_.environment = CountingEnvironment();
    job_.environment->samples = kManySamples;
  }
}

// It has no step whose time that could be.
TEST_F(HistoryTest, TheLastStateOfAJobThatWasAdoptedThereHasTheTimeOfItsMeasure) {
  job_.lineages.back().fork = recorded_ = Step(10);
  Validate(MeasuredOn::kWorkers, 1);
  RecordMeasure();
  job_.phase = JobPhase::kDone;
  const std::vector<HistoryStep> steps = Read().steps;
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].last_state, 10);
  EXPECT_EQ(steps[0].unix_ms, now_);
}

TEST_F(HistoryTest, OnlyALineOfAJobTellsAPlace) {
  const auto place = [](const std::string& step, const std::string& lineage) {
    return PlaceInHistory("{\"step\":" + step + ",\"lineage\":" + lineage + ",\"epoch\":0}");
  };
  ASSERT_TRUE(place("7", "2"));
  EXPECT_EQ(place("7", "2")->step, 7);
  EXPECT_EQ(place("7", "2")->lineage, 2);
  for (const std::string none :
       {"-1", "+1", " 1", "", "9223372036854775807", "9223372036854775808"}) {
    EXPECT_FALSE(place(none, "1")) << none;
    EXPECT_FALSE(place("1", none)) << none;
  }
}

TEST_F(HistoryTest, TheFileFollowsTheLedger) {
  Record(0, 3);
  ASSERT_TRUE(Follow().ok());
  ASSERT_TRUE(Follow().ok());
  EXPECT_EQ(Lines(), (Places{{0, 1}, {1, 1}, {2, 1}}));
  Record(3, 5);
  ASSERT_TRUE(Follow().ok());
  EXPECT_EQ(Lines(), OfTheLedger());
}

TEST_F(HistoryTest, WhatARewindLeavesOutIsCutOffBeforeItIsDoneAgain) {
  Record(0, 5);
  ASSERT_TRUE(Follow().ok());
  Rewind(3);
  Record(3, 4, /*view=*/2);
  ASSERT_TRUE(Follow().ok());
  EXPECT_EQ(Lines(), (Places{{0, 1}, {1, 1}, {2, 1}, {3, 2}}));
  // Twice while nobody wrote the file, the second time to before the first.
  Record(4, 9, 2);
  Rewind(6);
  Record(6, 8, 3);
  Rewind(2);
  Record(2, 7, 4);
  ASSERT_TRUE(Follow().ok());
  EXPECT_EQ(Lines(), OfTheLedger());
  // Another coordinator finds the place in the file, after a rewind that it has not seen, too.
  Record(7, 8, 4);
  ASSERT_TRUE(HistoryFile(path_).Follow(*journal_, job_, recorded_, {}).ok());
  EXPECT_EQ(Lines(), OfTheLedger());
  Rewind(0);
  Record(0, 2, 5);
  ASSERT_TRUE(HistoryFile(path_).Follow(*journal_, job_, recorded_, {}).ok());
  EXPECT_EQ(Lines(), OfTheLedger());
}

// It is longer than what is read at once, and has a line of somebody else that is, too.
TEST_F(HistoryTest, ALongFileIsCutAtTheRightLine) {
  Record(0, 300);
  ASSERT_TRUE(Follow().ok());
  std::stringstream text;
  text << std::ifstream(path_).rdbuf();
  const std::string theirs(50'000, '#');
  std::ofstream(path_) << theirs << "\n" << text.str();
  Rewind(250);
  Record(250, 260, /*view=*/2);
  ASSERT_TRUE(HistoryFile(path_).Follow(*journal_, job_, recorded_, {}).ok());
  std::ifstream in(path_);
  std::string line;
  std::getline(in, line);
  EXPECT_EQ(line, theirs);
  for (const auto& [step, lineage] : OfTheLedger()) {
    std::getline(in, line);
    const auto place = PlaceInHistory(line);
    ASSERT_TRUE(place) << line;
    EXPECT_EQ(std::pair(place->step, place->lineage), std::pair(step, lineage));
  }
  EXPECT_FALSE(std::getline(in, line));
}

TEST_F(HistoryTest, WhatWasCutShortIsWrittenAgain) {
  Record(0, 5);
  ASSERT_TRUE(Follow().ok());
  const auto size = std::filesystem::file_size(path_);
  for (const auto cut : {size - 1, size - 20, size / 2, uintmax_t{1}, uintmax_t{0}}) {
    std::filesystem::resize_file(path_, cut);
    ASSERT_TRUE(HistoryFile(path_).Follow(*journal_, job_, recorded_, {}).ok());
    EXPECT_EQ(Lines(), OfTheLedger()) << "cut to " << cut;
  }
}

// It would be written into a file of somebody else.
TEST_F(HistoryTest, ALinkInThePlaceOfTheFileIsNotFollowed) {
  Record(0, 5);
  const std::string elsewhere = folder_ + "/elsewhere";
  std::ofstream(elsewhere) << "theirs";
  std::filesystem::create_symlink(elsewhere, path_);
  EXPECT_TRUE(absl::IsDataLoss(Follow()));
  EXPECT_EQ(std::filesystem::file_size(elsewhere), 6U);
  std::filesystem::remove(path_);
  ASSERT_TRUE(Follow().ok());
  EXPECT_EQ(Lines(), OfTheLedger());
}

// Not with zeros where the lines were.
TEST_F(HistoryTest, WhatSomebodyRemovedWhileTheJobRunsIsWrittenAgain) {
  Record(0, 5);
  ASSERT_TRUE(Follow().ok());
  const auto size = std::filesystem::file_size(path_);
  int64_t recorded = 5;
  for (const auto left : {size - 20, size / 2, uintmax_t{1}, uintmax_t{0}}) {
    std::filesystem::resize_file(path_, left);
    Record(recorded, recorded + 2);
    recorded += 2;
    ASSERT_TRUE(Follow().ok()) << "cut to " << left;
    EXPECT_EQ(Lines(), OfTheLedger()) << "cut to " << left;
  }
  std::filesystem::remove(path_);
  Record(recorded, recorded + 2);
  ASSERT_TRUE(Follow().ok());
  EXPECT_EQ(Lines(), OfTheLedger()) << "removed";
  std::ofstream(path_, std::ios::app) << "something else\n";
  Record(recorded + 2, recorded + 3);
  ASSERT_TRUE(Follow().ok());
  std::ifstream in(path_);
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("\nsomething else\n{\"step\":0,")) << "a line of others stays";
}

// The file of a long job, which somebody removed, keeps nobody waiting; the last steps of any other
// are in it.
TEST_F(HistoryTest, WhoeverIsToldToStopWritesOnePageMore) {
  constexpr int64_t kSteps = 2 * kHistoryStepsPerPage + 1;
  Record(0, kSteps);
  std::stop_source stop;
  stop.request_stop();
  const auto follow = [&] { return file_.Follow(*journal_, job_, recorded_, stop.get_token()); };
  EXPECT_TRUE(absl::IsCancelled(follow()));
  EXPECT_EQ(Lines().size(), static_cast<size_t>(kHistoryStepsPerPage));
  ASSERT_TRUE(Follow().ok());
  EXPECT_EQ(Lines().size(), static_cast<size_t>(kSteps));
  Record(kSteps, kSteps + 3);
  EXPECT_TRUE(follow().ok()) << "that is not much";
  EXPECT_EQ(Lines().size(), static_cast<size_t>(kSteps + 3));
}

// The files of all jobs, at one look: that before they are left.
class HistoryFilesTest : public HistoryTest {
 protected:
  void LookAt(const KnownJobsPtr& jobs, Duration last_look = std::chrono::minutes(1)) {
    std::atomic<bool> is_last = false;
    const auto known = [&]() -> absl::StatusOr<KnownJobsPtr> {
      if (!is_last) return absl::UnavailableError("not yet");
      return jobs;
    };
    const HistoryFiles files(*journal_, files_, board_, known, last_look);
    is_last = true;
  }
  KnownJobsPtr Ours() const {
    KnownJob known;
    known.status.job = job_;
    known.status.step = recorded_;
    return std::make_shared<const KnownJobs>(KnownJobs{std::make_shared<const KnownJob>(known)});
  }
  void LookAtOurs() { LookAt(Ours()); }
  void LookAtNone() { LookAt(std::make_shared<const KnownJobs>()); }
  Places Lines() const { return LinesOf(files_ + "/a/metrics.jsonl"); }
  static bool Exists(const std::string& path) { return std::filesystem::exists(path); }

  const std::string files_ = folder_ + "/files";
  const std::string board_ = folder_ + "/board";
};

// Whoever wants the coordinator to end would wait for a file of millions of steps.
TEST_F(HistoryFilesTest, TheLastLookEndsWithItsTime) {
  Record(0, 2 * kHistoryStepsPerPage + 1);
  LookAt(Ours(), Duration());
  EXPECT_EQ(Lines().size(), static_cast<size_t>(kHistoryStepsPerPage));
}

// A coordinator that starts with a job that is over ends at once: there is no other look.
TEST_F(HistoryFilesTest, TheLastLookWritesAFileAnew) {
  Record(0, 2 * kHistoryStepsPerPage + 1);
  LookAtOurs();
  EXPECT_EQ(Lines().size(), static_cast<size_t>(2 * kHistoryStepsPerPage + 1));
  EXPECT_TRUE(Exists(board_ + "/a"));
}

// The agent of its members makes one where it is on the machine of the coordinator, and not in a
// pod.
TEST_F(HistoryFilesTest, AJobGetsAFolderWithItsFirstStep) {
  LookAtOurs();
  EXPECT_FALSE(Exists(files_ + "/a")) << "it has not begun";
  Record(0, 5);
  LookAtOurs();
  EXPECT_EQ(Lines(), OfTheLedger());
  EXPECT_TRUE(Exists(board_ + "/a"));
  std::filesystem::remove_all(files_);
  Record(5, 7);
  LookAtOurs();
  EXPECT_EQ(Lines(), OfTheLedger()) << "somebody has removed it";
}

TEST_F(HistoryFilesTest, TheStepsOfADeletedJobOfThatIdAreNotThoseOfTheNext) {
  job_.first_start = StartNumber(1);
  Record(0, 9);
  LookAtOurs();
  ASSERT_EQ(Lines().size(), 9u);
  job_.first_start = StartNumber(2);
  recorded_ = Step(3);
  LookAtOurs();
  EXPECT_EQ(Lines(), OfTheLedger());
  std::ofstream(files_ + "/a/metrics.jsonl") << "something else\n";
  std::filesystem::remove(files_ + "/a/history_of");
  LookAtOurs();
  EXPECT_EQ(Lines(), OfTheLedger()) << "nobody knows whose it was";
}

// In the folder of a cluster whose store was lost.
TEST_F(HistoryFilesTest, WhatIsThereOfAnAdoptedJobStays) {
  job_.lineages = {{LineageNumber(1), LineageNumber(0), Step(2), "adopted"}};
  Record(2, 5);
  std::filesystem::create_directories(files_ + "/a");
  std::ofstream(files_ + "/a/metrics.jsonl") << "of before\n";
  std::ofstream(files_ + "/a/history_of") << "0123456789abcdef 1\n";
  for (int i = 0; i < 2; ++i) {
    LookAtOurs();
    std::stringstream text;
    text << std::ifstream(files_ + "/a/metrics.jsonl").rdbuf();
    EXPECT_THAT(text.str(), StartsWith("of before\n{\"step\":2,"));
  }
  job_.first_start = job_.first_start + 1;
  LookAtOurs();
  EXPECT_EQ(Lines(), OfTheLedger()) << "it was deleted, and another one is adopted";
}

TEST_F(HistoryFilesTest, FilesOfADeletedJobGoAndThoseOfOthersStay) {
  Record(0, 5);
  LookAtOurs();
  ASSERT_TRUE(Exists(files_ + "/a/metrics.jsonl"));
  LookAtNone();
  EXPECT_FALSE(Exists(files_ + "/a"));
  EXPECT_FALSE(Exists(board_ + "/a"));
  EXPECT_TRUE(Exists(files_));

  LookAtOurs();
  const std::string log = files_ + "/a/worker-0.log", theirs = board_ + "/a/theirs";
  for (const std::string& path : {log, theirs}) std::ofstream(path) << "of somebody else\n";
  for (const char* job : {"/of-another-cluster", "/of-nobody"}) {
    std::filesystem::create_directory(files_ + job);
    std::ofstream(files_ + job + "/metrics.jsonl") << "{}\n";
  }
  std::ofstream(files_ + "/of-another-cluster/history_of") << "0123456789abcdef 1\n";
  LookAtNone();
  EXPECT_FALSE(Exists(files_ + "/a/metrics.jsonl"));
  EXPECT_FALSE(Exists(files_ + "/a/history_of"));
  EXPECT_TRUE(Exists(log));
  EXPECT_TRUE(Exists(theirs));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(board_ + "/a"), {}), 1);
  EXPECT_TRUE(Exists(files_ + "/of-another-cluster/metrics.jsonl"));
  EXPECT_TRUE(Exists(files_ + "/of-nobody/metrics.jsonl"));
}

TEST_F(HistoryFilesTest, OneThatIsDeletedMeanwhileIsMissed) {
  Record(0, 5);
  const KnownJobsPtr jobs = Ours();
  std::atomic<int> looks = 0;
  std::promise<void> looked;
  {
    const HistoryFiles files(*journal_, files_, board_, [&]() -> absl::StatusOr<KnownJobsPtr> {
      if (looks++ > 0) return std::make_shared<const KnownJobs>();
      looked.set_value();
      return jobs;
    });
    looked.get_future().wait();
  }
  EXPECT_GT(looks, 1);
  EXPECT_FALSE(Exists(files_ + "/a"));
  EXPECT_FALSE(Exists(board_ + "/a"));
}

TEST_F(HistoryFilesTest, AJobThatIsBeingDeletedGetsNoFiles) {
  Record(0, 5);
  job_.deleting = true;
  LookAtOurs();
  EXPECT_FALSE(Exists(files_ + "/a"));
}

// The event file of TensorBoard.
class BoardTest : public HistoryTest {
 protected:
  absl::Status FollowBoard() { return board_.Follow(*journal_, job_, recorded_, {}); }
  // Those that are not empty.
  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(run_, error))
      if (entry.file_size() > 0) files.push_back(entry.path());
    return files;
  }
  std::string Bytes() const {
    const std::vector<std::string> files = Files();
    EXPECT_EQ(files.size(), 1u);
    if (files.size() != 1) return "";
    std::stringstream text;
    text << std::ifstream(files[0]).rdbuf();
    return text.str();
  }
  // What somebody writes who has the whole history at once.
  std::string OfTheLedgerAtOnce() const {
    const std::vector<HistoryStep> steps = Read().steps;
    std::string bytes = tensorboard::BeginRun(job_.id, job_.spec, steps.front().unix_ms);
    for (const HistoryStep& step : steps) bytes += tensorboard::StepValues(step);
    return bytes;
  }

  const std::string run_ = folder_ + "/board/a";
  TensorBoardFile board_{run_};
};

TEST_F(BoardTest, FollowsTheLedgerThroughRewindsAndOtherCoordinators) {
  ASSERT_TRUE(FollowBoard().ok());
  EXPECT_TRUE(Files().empty()) << "nothing has happened";
  Record(0, 3);
  ASSERT_TRUE(FollowBoard().ok());
  EXPECT_EQ(Bytes(), OfTheLedgerAtOnce());
  Record(3, 5);
  ASSERT_TRUE(FollowBoard().ok());
  ASSERT_TRUE(FollowBoard().ok());
  EXPECT_EQ(Bytes(), OfTheLedgerAtOnce());
  Record(5, 7);
  ASSERT_TRUE(TensorBoardFile(run_).Follow(*journal_, job_, recorded_, {}).ok());
  EXPECT_EQ(Bytes(), OfTheLedgerAtOnce());
  const std::string before = Files()[0];
  Rewind(4);
  Record(4, 6, /*view=*/2);
  ASSERT_TRUE(FollowBoard().ok());
  EXPECT_EQ(Bytes(), OfTheLedgerAtOnce());
  EXPECT_GT(Files()[0], before) << "whoever reads files in their order reads it after that";
  EXPECT_TRUE(std::filesystem::exists(before)) << "whoever reads it must find its end";
  Rewind(2);
  Record(2, 3, /*view=*/3);
  ASSERT_TRUE(TensorBoardFile(run_).Follow(*journal_, job_, recorded_, {}).ok());
  EXPECT_EQ(Bytes(), OfTheLedgerAtOnce());
  job_.start = job_.start + 1;
  Record(3, 4, /*view=*/4);
  ASSERT_TRUE(FollowBoard().ok());
  EXPECT_EQ(Bytes(), OfTheLedgerAtOnce());
}

TEST_F(BoardTest, WhatWasCutOrRemovedIsWrittenAgain) {
  Record(0, 5);
  ASSERT_TRUE(FollowBoard().ok());
  const std::string path = Files()[0];
  const auto size = std::filesystem::file_size(path);
  for (const auto left : {size - 1, size - 60, size / 2, uintmax_t{1}, uintmax_t{0}})
    for (const bool is_another : {false, true}) {
      std::filesystem::resize_file(path, left);
      TensorBoardFile another(run_);
      ASSERT_TRUE((is_another ? another : board_).Follow(*journal_, job_, recorded_, {}).ok());
      EXPECT_EQ(Bytes(), OfTheLedgerAtOnce()) << left;
    }
  std::filesystem::remove_all(run_);
  ASSERT_TRUE(FollowBoard().ok());
  EXPECT_EQ(Bytes(), OfTheLedgerAtOnce());
}

TEST_F(BoardTest, TheEndIsToldOnceAndTheSampleWhenItComes) {
  Record(0, 5);
  job_.phase = JobPhase::kDone;
  const int64_t last = Read().steps.back().unix_ms;
  std::string expected = OfTheLedgerAtOnce();
  expected += tensorboard::End(last, 4, tensorboard::Status::kSuccess);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(FollowBoard().ok());
    ASSERT_TRUE(TensorBoardFile(run_).Follow(*journal_, job_, recorded_, {}).ok());
    EXPECT_EQ(Bytes(), expected);
  }
  job_.ending.sample = "made by it";
  expected += tensorboard::Sample(last, 4, "made by it");
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(FollowBoard().ok());
    ASSERT_TRUE(TensorBoardFile(run_).Follow(*journal_, job_, recorded_, {}).ok());
    EXPECT_EQ(Bytes(), expected);
  }
}

TEST_F(BoardTest, FilesOfOthersStay) {
  Record(0, 2);
  std::filesystem::create_directories(run_);
  std::ofstream(run_ + "/events.out.tfevents.1.theirs") << "x";
  ASSERT_TRUE(FollowBoard().ok());
  EXPECT_EQ(Files().size(), 2u);
}

TEST_F(HistoryTest, AnErrorIsMadeGoodLater) {
  Record(0, 5);
  std::filesystem::create_directory(path_);
  EXPECT_FALSE(Follow().ok());
  std::filesystem::remove(path_);
  ASSERT_TRUE(Follow().ok());
  EXPECT_EQ(Lines(), OfTheLedger());
  std::ofstream(path_) << "something else\n";
  ASSERT_TRUE(HistoryFile(path_).Follow(*journal_, job_, recorded_, {}).ok());
  std::ifstream in(path_);
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_THAT(text.str(), StartsWith("something else\n{\"step\":0,"));
}

}  // namespace
}  // namespace muster::coordinator
