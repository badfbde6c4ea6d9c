// A job goes on in its folder: from the checkpoint that was asked for, from the beginning, and past
// a checkpoint that was damaged meanwhile.
#include <csignal>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"

namespace muster::integration {
namespace {

constexpr int kLanes = 6;
constexpr int kWorkers = 3;
constexpr int kSteps = 120;
constexpr int kStoppedSome = 75;

class ResumeTest : public testing::Test {
 protected:
  TrainOptions Options(int servers) const {
    return {.spec = spec_,
            .dir = folder_ / "disturbed",
            .workers = kWorkers,
            .servers = servers,
            .settings = {"checkpoint.keep=30"}};
  }
  // A run that was interrupted behind step 10 and has left a checkpoint where it stopped.
  TrainRun Stopped() {
    TrainOptions options = Options(/*servers=*/0);
    options.interrupt_at = [](const nlohmann::json& event) {
      return event.value("event", "") == "step" && event.value("step", 0) >= 10;
    };
    TrainRun run = Train(options);
    EXPECT_EQ(run.exit_code, kStoppedSome) << run.Trace();
    return run;
  }
  // Goes on as `resume` says: from `base`, to the undisturbed bits.
  void ExpectGoesOn(const std::string& resume, int64_t base) {
    TrainOptions options = Options(/*servers=*/0);
    options.settings.push_back(absl::StrCat("resume=", resume));
    const TrainRun run = Train(options);
    EXPECT_EQ(FirstStepOf(run), base) << run.Trace();
    ExpectSameBits(run, options.dir, UndisturbedDigest(spec_, folder_ / "undisturbed"));
    ExpectLanesAddUp(run, options.dir, kLanes);
  }

  const Folder folder_;
  const std::string spec_ = LanguageSpec(folder_ / "data", kLanes, kSteps);
};

TEST_F(ResumeTest, WithoutAWordFromWhereItStopped) {
  const TrainRun stopped = Stopped();
  const int64_t at = stopped.result.value("steps", int64_t{-1});
  EXPECT_GT(at, 10);
  EXPECT_LT(at, kSteps);
  ExpectGoesOn("latest", at);
}

TEST_F(ResumeTest, FromTheCheckpointOfAStep) {
  Stopped();
  ExpectGoesOn("8", 8);
}

TEST_F(ResumeTest, NeverBeginsAnew) {
  Stopped();
  ExpectGoesOn("never", 0);
}

TEST_F(ResumeTest, AStepWithoutACheckpointIsNamedAndTheJobCanStillGoOn) {
  Stopped();
  TrainOptions options = Options(/*servers=*/0);
  options.settings.push_back("resume=7");
  const TrainRun run = Train(options);
  EXPECT_EQ(run.exit_code, 64) << run.Trace();
  EXPECT_TRUE(absl::StrContains(run.Trace(), "no checkpoint of step 7")) << run.Trace();
  options.settings.pop_back();
  EXPECT_EQ(Train(options).exit_code, 0);
}

TEST_F(ResumeTest, AStepIsRefusedWhereThereIsNoJobYet) {
  TrainOptions options = Options(/*servers=*/0);
  options.settings.push_back("resume=5");
  const TrainRun run = Train(options);
  EXPECT_EQ(run.exit_code, 64) << run.Trace();
  EXPECT_TRUE(absl::StrContains(run.Trace(), "no checkpoint of step 5")) << run.Trace();
}

TEST_F(ResumeTest, WithNoWholeCheckpointItFailsAndGoesOnOnceTheyAreBack) {
  const TrainRun stopped = Stopped();
  const TrainOptions options = Options(/*servers=*/0);
  const std::string job = stopped.result.value("job", "");
  const auto damage_all = [&] {  // a second time, everything is as it was
    for (const Manifest& manifest : Checkpoints(options.dir, job))
      DamageFile(
          absl::StrCat(options.dir, "/checkpoints/", job, "/", manifest.segments.back().file));
  };
  damage_all();
  const TrainRun failed = Train(options);
  EXPECT_EQ(failed.exit_code, 65) << failed.Trace();
  EXPECT_EQ(failed.result.value("state", ""), "failed");
  EXPECT_EQ(failed.result.value("exit_code", 0), 65);
  EXPECT_TRUE(failed.result["digest"].is_null()) << "that of where it stopped";
  damage_all();
  ExpectGoesOn("latest", stopped.result.value("steps", int64_t{-1}));
}

class DamagedTest : public ResumeTest, public testing::WithParamInterface<int> {};

// Everything is killed, then one bit of the newest checkpoint turns over.
TEST_P(DamagedTest, TheCheckpointBeforeIsUsedAndTheFileIsNamed) {
  TrainOptions options = Options(GetParam());
  int complete = 0;  // a slow disk gives some up
  options.kill_all_at = [&complete](const nlohmann::json& event) {
    const bool is_complete = event.value("event", "") == "checkpoint" &&
                             absl::StrContains(event.value("text", ""), "is complete");
    return is_complete && ++complete >= 2 && event.value("step", 0) >= 8;
  };
  const TrainRun killed = Train(options);
  ASSERT_EQ(killed.exit_code, 128 + SIGKILL) << killed.Trace();
  const std::string job = killed.Events("start").at(0).value("job", "");
  const std::vector<Manifest> checkpoints = Checkpoints(options.dir, job);
  ASSERT_GE(checkpoints.size(), 2u);
  const std::string file = checkpoints.back().segments.back().file;
  const int64_t before = checkpoints[checkpoints.size() - 2].step.value();
  DamageFile(absl::StrCat(options.dir, "/checkpoints/", job, "/", file));

  options.kill_all_at = nullptr;
  const TrainRun resumed = Train(options);
  EXPECT_EQ(FirstStepOf(resumed), before) << resumed.Trace();
  bool named = false;
  for (const nlohmann::json& event : resumed.Events("checkpoint")) {
    const std::string text = event.value("text", "");
    named = named || (absl::StrContains(text, "passed over") && absl::StrContains(text, file));
  }
  EXPECT_TRUE(named) << file << "\n" << resumed.Trace();
  ExpectSameBits(resumed, options.dir, UndisturbedDigest(spec_, folder_ / "undisturbed"));
  ExpectLanesAddUp(resumed, options.dir, kLanes);
}

INSTANTIATE_TEST_SUITE_P(Servers, DamagedTest, testing::Values(0, 2));

}  // namespace
}  // namespace muster::integration
