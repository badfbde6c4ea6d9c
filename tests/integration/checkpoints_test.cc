// muster checkpoints on what a real job has left: what `checkpoint.keep` keeps, names that outlive
// it, damage that is found, and checkpoints that go while the job goes on from what is left.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/exit_codes.h"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"
#include "tests/support/program.h"

namespace muster::integration {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kMuster[] = MUSTER_PROGRAMS "/muster";

struct Answer {
  int code = 0;
  std::string text;
  nlohmann::json json;  // where that was asked for
};

Answer Ask(std::vector<std::string> words) {
  words.insert(words.begin(), kMuster);
  const bool as_json = words.back() == "--json";
  Program program(std::move(words));
  Answer answer{.code = program.End()};
  answer.text = program.output();
  if (as_json && answer.code == 0) answer.json = nlohmann::json::parse(answer.text);
  return answer;
}

std::vector<std::string> JobsIn(const std::string& checkpoints) {
  std::vector<std::string> jobs;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoints))
    if (entry.is_directory()) jobs.push_back(entry.path().filename().string());
  return jobs;
}

class CheckpointsTest : public testing::Test {
 protected:
  CheckpointsTest() : spec_(LanguageSpec(folder_ / "data", 4, 10)) {}

  // Until that many steps are done, with a checkpoint at the end alone.
  TrainRun Run(int steps, const std::string& keep) {
    return Train({.spec = spec_,
                  .dir = dir_,
                  .settings = {absl::StrCat("steps=", steps),
                               absl::StrCat("checkpoint={every_seconds: 0, keep: ", keep, "}")}});
  }
  void RunEach(const std::vector<int>& steps, const std::string& keep) {
    for (const int step : steps) ASSERT_EQ(Run(step, keep).exit_code, 0);
  }
  std::vector<int64_t> Steps() {
    const Answer list = Ask({"checkpoints", "list", "--dir", dir_, "--json"});
    EXPECT_EQ(list.code, 0) << list.text;
    std::vector<int64_t> steps;
    for (const auto& one : list.json["checkpoints"]) {
      EXPECT_TRUE(one["complete"]) << one;
      steps.push_back(one["step"]);
    }
    return steps;
  }
  Answer Do(const std::string& verb, const std::string& step, std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"checkpoints", verb, "--dir", dir_, "--step", step};
    words.insert(words.end(), more.begin(), more.end());
    return Ask(words);
  }

  const Folder folder_;
  const std::string dir_ = folder_ / "job";
  const std::string spec_;
};

TEST_F(CheckpointsTest, WhatIsKeptAndWhatIsNamedOutlivesTheRest) {
  RunEach({2, 4, 6, 8, 10}, "{last: 1, every: 4}");
  EXPECT_THAT(Steps(), ElementsAre(4, 8, 10));
  const Answer kept = Do("keep", "8", {"--name", "before-more"});
  EXPECT_EQ(kept.code, 0) << kept.text;
  const Answer taken = Do("keep", "4", {"--name", "before-more"});
  EXPECT_EQ(taken.code, kExitBadConfiguration) << taken.text;
  EXPECT_THAT(taken.text, HasSubstr("step 8 is kept as 'before-more'"));
  // The job goes on, and now keeps the newest alone.
  const TrainRun more = Run(14, "1");
  ASSERT_EQ(more.exit_code, 0) << more.Trace();
  EXPECT_THAT(Steps(), ElementsAre(8, 14));
  const std::string job = more.result.value("job", "");
  const Answer exported = Ask(
      {"export", job + "@before-more", "--dir", dir_, "-o", folder_ / "w.safetensors", "--json"});
  ASSERT_EQ(exported.code, 0) << exported.text;
  EXPECT_EQ(exported.json["step"], 8);
  const Answer nothing = Ask({"export", job + "@other", "--dir", dir_, "-o", folder_ / "x"});
  EXPECT_EQ(nothing.code, kExitBadConfiguration);
  EXPECT_THAT(nothing.text, HasSubstr("kept as 'other'; there are before-more"));
  EXPECT_EQ(Do("keep", "before-more", {"--release"}).code, 0);
  ASSERT_EQ(Run(18, "1").exit_code, 0);
  EXPECT_THAT(Steps(), ElementsAre(18));
}

TEST_F(CheckpointsTest, AJobGoesOnFromANameThatWasGivenToOne) {
  RunEach({4, 8}, "1");
  ASSERT_EQ(Do("keep", "8", {"--name", "before-more"}).code, 0);
  ASSERT_EQ(Run(10, "1").exit_code, 0);
  ASSERT_EQ(Run(12, "1").exit_code, 0);
  EXPECT_THAT(Steps(), ElementsAre(8, 12));
  const auto go_on = [&](const std::string& resume) {
    return Train({.spec = spec_, .dir = dir_, .settings = {"steps=14", "resume=" + resume}});
  };
  const TrainRun refused = go_on("before-les");
  EXPECT_EQ(refused.exit_code, kExitBadConfiguration) << refused.Trace();
  EXPECT_THAT(refused.Trace(), HasSubstr("kept as 'before-les'; there are before-more"));
  const TrainRun run = go_on("before-more");
  ExpectDone(run, dir_);
  EXPECT_EQ(FirstStepOf(run), 8);
}

TEST_F(CheckpointsTest, EpochsHaveTheirOwn) {
  // 53 samples by 16 are four steps of an epoch.
  for (int epochs = 1; epochs <= 5; ++epochs) {
    const TrainRun run = Train(
        {.spec = CountingSpec(53, 3, epochs),
         .dir = dir_,
         .workers = 2,
         .settings = {"checkpoint={every_epochs: 1, every_steps: 0, every_seconds: 0, keep: {last: "
                      "1, every_epochs: 2}}"}});
    ASSERT_EQ(run.exit_code, 0) << run.Trace();
  }
  EXPECT_THAT(Steps(), ElementsAre(8, 16, 20));
}

// As the job says more of the loss is better, and it learns: the first state measured is the best.
// No newer checkpoint pushes it out, nor does a coordinator that dies in between forget it.
TEST_F(CheckpointsTest, TheBestIsKeptThroughTheDeathOfTheCoordinator) {
  for (const std::string fault : {"", "{at_point: \"before_commit:2\", kill: coordinator}",
                                  "{at_point: \"before_commit:4\", kill: coordinator}"}) {
    SCOPED_TRACE(fault);
    const std::string dir = absl::StrCat(dir_, "-", fault.empty() ? "calm" : fault.substr(26, 1));
    TrainOptions options = {
        .spec = spec_,
        .dir = dir,
        .settings = {"steps=19", "validation.mode=max", "validation.every_steps=4",
                     absl::StrCat("validation.paths=[", folder_ / "data", "]"),
                     "checkpoint={every_seconds: 0, keep: {last: 1, best: validation.loss}}"}};
    if (!fault.empty()) options.faults = {fault};
    const TrainRun run = Train(options);
    ASSERT_EQ(run.exit_code, 0) << run.Trace();
    const Answer list = Ask({"checkpoints", "list", "--dir", dir, "--json"});
    ASSERT_EQ(list.code, 0) << list.text;
    const auto& all = list.json["checkpoints"];
    ASSERT_EQ(all.size(), 2u) << list.text;
    EXPECT_EQ(all[1]["step"], 19);
    EXPECT_TRUE(all[1].contains("measures")) << "the last state is measured, too";
    EXPECT_TRUE(all[0]["best"]) << list.text;
    // None is more, and this is that of its step.
    std::map<int64_t, double> measured;
    std::ifstream lines(absl::StrCat(dir, "/jobs/", run.result.value("job", ""), "/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const auto step = nlohmann::json::parse(line);
      if (step.contains("validation.loss")) measured[step["step"]] = step["validation.loss"];
    }
    ASSERT_EQ(measured.size(), 5u);
    const double best = all[0]["measures"]["validation.loss"];
    EXPECT_NEAR(measured[all[0]["step"]], best, 1e-6);
    for (const auto& [step, loss] : measured) EXPECT_LE(loss, best + 1e-6) << step;
    EXPECT_EQ(all[0]["step"], 4);
    const Answer exported =
        Ask({"export", "--dir", dir, "--step", "best", "-o", folder_ / "w.safetensors", "--json"});
    ASSERT_EQ(exported.code, 0) << exported.text;
    EXPECT_EQ(exported.json["step"], all[0]["step"]);
  }
}

TEST_F(CheckpointsTest, WhatIsNotMeasuredIsNotKeptForBeingTheBest) {
  const TrainRun run =
      Train({.spec = spec_,
             .dir = dir_,
             .settings = {"validation.every_steps=4",
                          absl::StrCat("validation.paths=[", folder_ / "data", "]"),
                          "checkpoint={every_seconds: 0, keep: {best: validation.auc}}"}});
  EXPECT_EQ(run.exit_code, kExitBadConfiguration) << run.Trace();
  EXPECT_THAT(run.result.value("reason", ""),
              HasSubstr("checkpoint.keep.best: the task measures no auc; it measures: "));
}

TEST_F(CheckpointsTest, TheJobGoesOnFromWhatIsLeft) {
  RunEach({6, 8, 10}, "3");
  EXPECT_THAT(Steps(), ElementsAre(6, 8, 10));
  const Answer newest = Do("delete", "10");
  EXPECT_EQ(newest.code, kExitBadConfiguration) << newest.text;
  EXPECT_THAT(newest.text, HasSubstr("--force deletes it all the same"));
  const Answer older = Do("delete", "8");
  EXPECT_EQ(older.code, 0) << older.text;
  EXPECT_EQ(Do("delete", "8").code, kExitBadConfiguration) << "it is gone";
  EXPECT_EQ(Do("delete", "10", {"--force"}).code, 0);
  EXPECT_THAT(Steps(), ElementsAre(6));
  const TrainRun run = Run(12, "3");
  ExpectDone(run, dir_);
  EXPECT_EQ(FirstStepOf(run), 6);
  EXPECT_EQ(run.result.value("digest", ""), [&] {
    const TrainRun undisturbed =
        Train({.spec = spec_, .dir = folder_ / "undisturbed", .settings = {"steps=12"}});
    return undisturbed.result.value("digest", "none");
  }());
}

TEST_F(CheckpointsTest, ShowAndVerifyTellWhatIsThere) {
  RunEach({8, 10}, "2");
  const Answer shown = Do("show", "8", {"--json"});
  ASSERT_EQ(shown.code, 0) << shown.text;
  EXPECT_EQ(shown.json["slots"], 2);
  EXPECT_EQ(shown.json["members"].size(), 1u);
  EXPECT_GT(shown.json["tensors"].size(), 10u);
  EXPECT_EQ(shown.json["spec"]["task"], "code-lm");
  EXPECT_EQ(Ask({"checkpoints", "verify", "--dir", dir_}).code, 0);
  DamageFile(absl::StrCat(dir_, "/checkpoints/", shown.json["job"].get<std::string>(), "/",
                          shown.json["members"][0]["file"].get<std::string>()));
  const Answer damaged = Ask({"checkpoints", "verify", "--dir", dir_});
  EXPECT_EQ(damaged.code, kExitBadData);
  EXPECT_THAT(damaged.text,
              testing::AllOf(HasSubstr("step 10"), HasSubstr("sound"), HasSubstr(".segment'")));
  EXPECT_EQ(Do("verify", "10").code, 0);
}

TEST_F(CheckpointsTest, WhatStandsBesideAStateIsVerifiedToo) {
  const TrainRun run = Run(8, "2");
  ASSERT_EQ(run.exit_code, 0) << run.Trace();
  const std::string file = absl::StrCat(dir_, "/checkpoints/", run.result.value("job", ""),
                                        "/lineage-1-step-8/checkpoint.measure");
  std::ofstream(file) << "validation.loss much\n";
  const Answer damaged = Ask({"checkpoints", "verify", "--dir", dir_});
  EXPECT_EQ(damaged.code, kExitBadData) << damaged.text;
  EXPECT_THAT(damaged.text, HasSubstr(file));
  std::filesystem::remove(file);
  EXPECT_EQ(Ask({"checkpoints", "verify", "--dir", dir_}).code, 0);
  for (const char* reserved : {"latest", "never"}) {
    const Answer refused = Do("keep", "8", {"--name", reserved});
    EXPECT_EQ(refused.code, kExitBadConfiguration) << refused.text;
    EXPECT_THAT(refused.text, HasSubstr("neither latest nor never"));
  }
}

TEST_F(CheckpointsTest, AFileIsNoFolderOfCheckpoints) {
  const std::string file = folder_ / "a-file";
  std::ofstream(file) << "x";
  const std::vector<std::vector<std::string>> all = {
      {"checkpoints", "list"},
      {"checkpoints", "show"},
      {"checkpoints", "verify"},
      {"checkpoints", "delete", "--step", "8"},
      {"checkpoints", "keep", "--name", "mine"},
      {"export", "-o", folder_ / "w.safetensors"},
      {"export", "--format", "libtorch", "-o", folder_ / "w.pt"},
      {"evaluate"},
      {"generate"}};
  for (std::vector<std::string> words : all) {
    words.insert(words.end(), {"--checkpoints", file});
    const Answer refused = Ask(words);
    EXPECT_EQ(refused.code, kExitBadConfiguration) << words.front() << ": " << refused.text;
    EXPECT_THAT(refused.text, HasSubstr("--checkpoints: '" + file + "' is no folder")) << words[1];
  }
}

TEST_F(CheckpointsTest, NothingIsDeletedUnderAJobThatRuns) {
  Answer refused, kept, refused_by_folder;
  const auto delete_by_folder = [&] {
    const std::string job = JobsIn(dir_ + "/checkpoints").at(0);
    return Ask({"checkpoints", "delete", "--checkpoints", dir_ + "/checkpoints/" + job, "--step",
                "midway", "--force"});
  };
  const TrainRun run = Train(
      {.spec = spec_,
       .dir = dir_,
       .settings = {"steps=1000000", "checkpoint={every_steps: 2, every_seconds: 0, keep: 20}"},
       .on_event =
           [&](const nlohmann::json& event) {
             if (event.value("event", "") != "step" || event.value("step", 0) != 200) return;
             kept = Ask({"checkpoints", "keep", "--dir", dir_, "--name", "midway"});
             refused_by_folder = delete_by_folder();
             refused = Ask({"checkpoints", "delete", "--dir", dir_, "--step", "midway", "--force"});
           },
       .interrupt_at = [&](const nlohmann::json&) { return !refused.text.empty(); }});
  EXPECT_EQ(run.result.value("state", ""), "stopped") << run.Trace();
  EXPECT_EQ(kept.code, 0) << kept.text;
  EXPECT_EQ(refused.code, kExitBadConfiguration);
  EXPECT_THAT(refused.text, HasSubstr("something runs in"));
  EXPECT_EQ(refused_by_folder.code, kExitBadConfiguration);
  EXPECT_THAT(refused_by_folder.text, HasSubstr("whose coordinator works there now"));
  const Answer shown = Do("show", "midway");
  EXPECT_EQ(shown.code, 0) << shown.text;
  // The cluster has ended, which its claim says a minute later.
  const auto long_ago = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
  for (const auto& entry : std::filesystem::directory_iterator(dir_ + "/checkpoints"))
    if (entry.is_regular_file()) std::filesystem::last_write_time(entry.path(), long_ago);
  const Answer deleted = delete_by_folder();
  EXPECT_EQ(deleted.code, 0) << deleted.text;
}

}  // namespace
}  // namespace muster::integration
