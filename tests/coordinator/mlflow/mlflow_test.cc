#include "coordinator/mlflow/mlflow.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "lib/base/stop_signal.h"
#include "tests/coordinator/mlflow/fake_mlflow.h"
#include "tests/coordinator/webhooks/rude_receiver.h"

namespace muster::coordinator {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class MlflowTest : public testing::Test {
 protected:
  // What the server answers, but for where `odd_` says something else.
  std::string Answer(const Received& request) {
    const MutexLock lock(mutex_);
    if (const std::string odd = odd_ ? odd_() : ""; !odd.empty()) return odd;
    const std::vector<std::string> words = absl::StrSplit(request.line, ' ');
    const FakeMlflow::Answer answer = fake_.Ask(words[1], request.body);
    return absl::StrCat("HTTP/1.1 ", answer.status,
                        " x\r\nConnection: close\r\nContent-Length: ", answer.body.size(),
                        "\r\n\r\n", answer.body);
  }
  void BeOdd(std::function<std::string()> odd) {
    const MutexLock lock(mutex_);
    odd_ = std::move(odd);
  }
  void Know(const std::string& id, int64_t recorded, JobPhase phase = JobPhase::kRunning) {
    auto known = std::make_shared<KnownJob>();
    JobJournal& job = known->status.job;
    job.id = id;
    job.first_start = StartNumber(1);
    job.spec.training.task = "counting";
    job.spec.training.steps = 1'000;
    job.phase = phase;
    job.lineages = {{LineageNumber(1), LineageNumber(0), Step(0), ""}};
    known->status.step = Step(recorded);
    const MutexLock lock(mutex_);
    jobs_[id] = std::move(known);
  }
  MlflowOptions Options() {
    return {
        .settings = {.url = server_.url().substr(0, server_.url().rfind('/'))},
        .cluster = "c",
        .known = [this]() -> absl::StatusOr<KnownJobsPtr> {
          const MutexLock lock(mutex_);
          auto jobs = std::make_shared<KnownJobs>();
          for (const auto& [id, known] : jobs_) jobs->push_back(known);
          return jobs;
        },
        .read = [](const JobJournal&, Step recorded, int64_t from) -> absl::StatusOr<HistoryPage> {
          HistoryPage page;
          for (int64_t step = from; Step(step) < recorded; ++step)
            page.steps.push_back({.step = step, .unix_ms = 1 + step, .loss = 0.5});
          return page;
        },
        .check_claim = [this] { return replaced_ ? absl::AbortedError("") : absl::OkStatus(); },
        .tell =
            [this](const std::string& text) {
              const MutexLock lock(mutex_);
              told_.push_back(text);
            },
        .patience = {.connect = milliseconds(300), .whole = milliseconds(300)},
        .period = milliseconds(5),
        .longest_pause = milliseconds(20),
        .last_patience = milliseconds(600)};
  }
  std::vector<std::string> Told() {
    const MutexLock lock(mutex_);
    return told_;
  }
  std::vector<int64_t> LossSteps(const std::string& id) {
    const MutexLock lock(mutex_);
    std::vector<int64_t> steps;
    if (FakeMlflow::Run* run = fake_.RunOf(id); run != nullptr)
      for (const auto& [step, value] : run->points["loss"]) steps.push_back(step);
    return steps;
  }
  static std::vector<int64_t> UpTo(int64_t steps) {
    std::vector<int64_t> all;
    for (int64_t step = 0; step < steps; ++step) all.push_back(step);
    return all;
  }
  static bool Eventually(const std::function<bool()>& is_so) {
    const Time end = RealClock().Now() + seconds(20);
    StopSignal none;
    while (!is_so()) {
      if (RealClock().Now() > end) return false;
      none.WaitFor(milliseconds(2));
    }
    return true;
  }

  Mutex mutex_;
  FakeMlflow fake_ ABSL_GUARDED_BY(mutex_);
  std::function<std::string()> odd_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, KnownJobPtr> jobs_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> told_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> replaced_{false};
  RudeReceiver server_{[this](int, const Received& request) { return Answer(request); }};
};

TEST_F(MlflowTest, JobsAreRunsThatGrow) {
  Know("a", 3);
  Know("b", 0, JobPhase::kQueued);
  Mlflow mlflow(Options());
  EXPECT_TRUE(Eventually([&] { return LossSteps("a") == UpTo(3); }));
  Know("a", 7);
  Know("b", 2);
  EXPECT_TRUE(Eventually([&] { return LossSteps("a") == UpTo(7); }));
  EXPECT_TRUE(Eventually([&] { return LossSteps("b") == UpTo(2); }));
  EXPECT_THAT(Told(), SizeIs(0));
}

TEST_F(MlflowTest, WhatIsDecidedLastIsSentBeforeItEnds) {
  Know("a", 3);
  {
    Mlflow mlflow(Options());
    EXPECT_TRUE(Eventually([&] { return LossSteps("a") == UpTo(3); }));
    Know("a", 9, JobPhase::kDone);
  }
  EXPECT_EQ(LossSteps("a"), UpTo(9));
  const MutexLock lock(mutex_);
  EXPECT_EQ(fake_.RunOf("a")->status, "FINISHED");
}

TEST_F(MlflowTest, OddAnswersAreToldOnceAndNothingIsLost) {
  const std::string cases[] = {
      "HTTP/1.1 500 x\r\nContent-Length: 6\r\nConnection: close\r\n\r\n<html>",
      "",
      "HTTP/1.1 200 x\r\nContent-Length: 100\r\n\r\n{",
      "HTTP/1.1 200 x\r\nContent-Length: 2\r\n\r\n[]",
      absl::StrCat("HTTP/1.1 200 x\r\n\r\n", std::string(kMostMlflowAnswer + 10, ' ')),
      RudeReceiver::kHangs};
  int64_t steps = 0;
  Know("a", 1);
  Mlflow mlflow(Options());
  for (const std::string& odd : cases) {
    ASSERT_TRUE(Eventually([&] { return LossSteps("a").size() >= static_cast<size_t>(steps); }));
    {
      const MutexLock lock(mutex_);
      told_.clear();
    }
    // An empty answer cannot be told from none.
    BeOdd([odd] { return odd.empty() ? std::string(" ") : odd; });
    Know("a", steps += 5);
    ASSERT_TRUE(Eventually([&] { return !Told().empty(); })) << odd.substr(0, 40);
    EXPECT_THAT(Told()[0], HasSubstr("does not take what it is sent of job a: ")) << Told()[0];
    EXPECT_THAT(Told()[0], HasSubstr("training goes on"));
    BeOdd(nullptr);
    EXPECT_TRUE(Eventually([&] { return LossSteps("a") == UpTo(steps); })) << odd.substr(0, 40);
    EXPECT_TRUE(Eventually([&] { return Told().size() == 2; })) << odd.substr(0, 40);
    EXPECT_THAT(Told()[1], HasSubstr("answers again"));
  }
}

TEST_F(MlflowTest, ARunThatIsNotTakenHoldsNoOtherUp) {
  Know("a", 3);
  Mlflow mlflow(Options());
  ASSERT_TRUE(Eventually([&] { return LossSteps("a") == UpTo(3); }));
  {
    const MutexLock lock(mutex_);
    fake_.RunOf("a")->stage = "deleted";
  }
  Know("a", 5);
  Know("b", 4);
  EXPECT_TRUE(Eventually([&] { return LossSteps("b") == UpTo(4); }));
  EXPECT_TRUE(Eventually([&] {
    const auto told = Told();
    return !told.empty() &&
           told.back().find("the run of job a was deleted there") != std::string::npos;
  }));
  Know("b", 6);
  EXPECT_TRUE(Eventually([&] { return LossSteps("b") == UpTo(6); }));
  EXPECT_EQ(LossSteps("a"), UpTo(3));
}

TEST_F(MlflowTest, AServerThatHangsDoesNotHoldUpTheEnd) {
  BeOdd([] { return std::string(RudeReceiver::kHangs); });
  Know("a", 3);
  Know("b", 3);
  MlflowOptions options = Options();
  options.patience.whole = std::chrono::minutes(5);
  const Time begun = RealClock().Now();
  { const Mlflow mlflow(std::move(options)); }
  EXPECT_LT(RealClock().Now() - begun, seconds(5));
  EXPECT_THAT(Told(), ElementsAre(HasSubstr("lacks the end of what there is of a, b; the next "
                                            "start with --mlflow sends it")));
}

TEST_F(MlflowTest, OneWhosePlaceAnotherHasTakenSendsNothing) {
  replaced_ = true;
  Know("a", 3);
  { const Mlflow mlflow(Options()); }
  EXPECT_EQ(LossSteps("a"), UpTo(0));
  EXPECT_THAT(Told(), SizeIs(0));
}

}  // namespace
}  // namespace muster::coordinator
