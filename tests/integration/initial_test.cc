// A job that begins with the weights of another (`initial`) in real programs: what `muster export`
// writes is state(0) bit for bit, for every number of workers and with servers, and files that do
// not fit end the job with one sentence.
#include <filesystem>
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

using testing::AllOf;
using testing::HasSubstr;

constexpr char kMuster[] = MUSTER_PROGRAMS "/muster";
constexpr int kLanes = 6, kSteps = 8;
// Without slots, so that the digest is that of the parameters alone.
const std::vector<std::string> kPlain = {"optimizer={kind: sgd, learning_rate: 0.1}"};

std::vector<std::string> And(std::vector<std::string> settings,
                             const std::vector<std::string>& more) {
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

class InitialTest : public testing::Test {
 protected:
  // Trains the first job and writes its weights.
  void SetUp() override {
    spec_ = LanguageSpec(folder_ / "data", kLanes, kSteps);
    const TrainRun run = Train({.spec = spec_, .dir = folder_ / "first", .settings = kPlain});
    ASSERT_EQ(run.exit_code, 0) << run.Trace();
    digest_ = run.result.value("digest", "");
    ASSERT_EQ(Exported("safetensors"), file_);
  }

  std::string Exported(const std::string& format) const {
    const std::string file = folder_ / ("weights." + format);
    Program exported(
        {kMuster, "export", "--dir", folder_ / "first", "--format", format, "-o", file});
    EXPECT_EQ(exported.End(), 0) << exported.output();
    return file;
  }

  const Folder folder_;
  const std::string file_ = folder_ / "weights.safetensors";
  std::string spec_, digest_;
};

// A step at rate 0 leaves the bits of state(0) as they are.
TEST_F(InitialTest, WhatWasExportedIsTheFirstStateBitForBit) {
  int job = 0;
  for (const auto& [workers, servers] : {std::pair(1, 0), std::pair(2, 0), std::pair(2, 2)}) {
    SCOPED_TRACE(absl::StrCat(workers, " workers, ", servers, " servers"));
    const TrainRun run = Train({.spec = spec_,
                                .dir = folder_ / absl::StrCat("still-", ++job),
                                .workers = workers,
                                .servers = servers,
                                .settings = {"optimizer={kind: sgd, learning_rate: 0}", "steps=1",
                                             "seed=77", absl::StrCat("initial.file=", file_)}});
    ASSERT_EQ(run.exit_code, 0) << run.Trace();
    EXPECT_EQ(run.result.value("digest", ""), digest_);
  }
  const TrainRun pt = Train({.spec = spec_,
                             .dir = folder_ / "pt",
                             .settings = {"optimizer={kind: sgd, learning_rate: 0}", "steps=1",
                                          absl::StrCat("initial.file=", Exported("pt"))}});
  ASSERT_EQ(pt.exit_code, 0) << pt.Trace();
  EXPECT_EQ(pt.result.value("digest", ""), digest_) << "and so does a file of torch.save";
}

TEST_F(InitialTest, TrainingFromItHasTheSameBitsAlsoWithAKill) {
  const std::vector<std::string> settings = {absl::StrCat("initial.file=", file_)};
  const TrainRun alone = Train({.spec = spec_, .dir = folder_ / "alone", .settings = settings});
  ASSERT_EQ(alone.exit_code, 0) << alone.Trace();
  const std::string digest = alone.result.value("digest", "");
  EXPECT_NE(UndisturbedDigest(spec_, folder_ / "own"), digest);
  for (const int servers : {0, 2}) {
    SCOPED_TRACE(absl::StrCat(servers, " servers"));
    const std::string dir = folder_ / absl::StrCat("job-", servers);
    const TrainRun run = Train({.spec = spec_,
                                .dir = dir,
                                .workers = 3,
                                .servers = servers,
                                .faults = {"{at_point: \"forward:5\", kill: worker-2}"},
                                .settings = settings});
    EXPECT_TRUE(run.Fired("worker-2", "forward")) << run.Trace();
    ExpectSameBits(run, dir, digest);
  }
}

TEST_F(InitialTest, AnotherHeadIsRefusedUnlessItMayBeLeftOut) {
  // A wider model: nothing but what has one size in both fits.
  const std::vector<std::string> other = {absl::StrCat("initial.file=", file_),
                                          "parameters.context=24"};
  const TrainRun refused =
      Train({.spec = spec_, .dir = folder_ / "refused", .workers = 2, .settings = other});
  EXPECT_EQ(refused.exit_code, kExitBadConfiguration) << refused.Trace();
  EXPECT_THAT(refused.result.value("reason", ""),
              AllOf(HasSubstr("initial.file: tensor '"), HasSubstr(" of 24×32 in the model and "),
                    HasSubstr(" of 16×32 in the file"), HasSubstr("initial.strict: false")));
  const std::string dir = folder_ / "left-out";
  const TrainRun run = Train(
      {.spec = spec_, .dir = dir, .workers = 2, .settings = And(other, {"initial.strict=false"})});
  ExpectDone(run, dir);
  EXPECT_THAT(run.Trace(), HasSubstr("of initial.file, 1 of "));
}

TEST_F(InitialTest, BadFilesAreBadData) {
  std::filesystem::resize_file(file_, std::filesystem::file_size(file_) - 1);
  const TrainRun cut = Train(
      {.spec = spec_, .dir = folder_ / "cut", .settings = {absl::StrCat("initial.file=", file_)}});
  EXPECT_EQ(cut.exit_code, kExitBadData) << cut.Trace();
  EXPECT_THAT(cut.result.value("reason", ""),
              AllOf(HasSubstr(absl::StrCat("initial.file: ", file_)), HasSubstr("ends at byte")));
  const TrainRun none = Train({.spec = spec_,
                               .dir = folder_ / "none",
                               .settings = {absl::StrCat("initial.file=", file_, "x")}});
  EXPECT_EQ(none.exit_code, kExitBadData) << none.Trace();
  EXPECT_THAT(none.result.value("reason", ""), HasSubstr("does not exist"));
}

// The file is part of what the job is: with another one in its place nobody goes on.
TEST_F(InitialTest, GoingOnWithAnotherFileIsAnotherNumericEnvironment) {
  TrainOptions options{.spec = spec_,
                       .dir = folder_ / "job",
                       .settings = {"steps=5000", absl::StrCat("initial.file=", file_)}};
  options.interrupt_at = [](const nlohmann::json& event) {
    return event.value("event", "") == "step" && event.value("step", 0) >= 5;
  };
  const TrainRun first = Train(options);
  ASSERT_EQ(first.result.value("state", ""), "stopped") << first.Trace();
  Program exported({kMuster, "export", "--dir", folder_ / "first", "--step", "4", "-o", file_});
  ASSERT_EQ(exported.End(), 0) << exported.output();
  options.interrupt_at = nullptr;
  const TrainRun second = Train(options);
  EXPECT_EQ(second.exit_code, kExitOtherEnvironment) << second.Trace();
  EXPECT_THAT(second.Trace(), HasSubstr("environment differs from the job's: initial ("));
}

TEST_F(InitialTest, CheckTellsWhatIsLoaded) {
  WriteFile(folder_ / "job.yaml", spec_);
  Program check({kMuster, "check", folder_ / "job.yaml", "--set",
                 absl::StrCat("initial.file=", file_), "--set", "initial.strict=false", "--set",
                 "parameters.context=24", "--json"});
  ASSERT_EQ(check.End(), 0) << check.output();
  const auto json = nlohmann::json::parse(check.output());
  EXPECT_EQ(json["initial"]["file"], file_);
  EXPECT_EQ(json["initial"]["hash"].get<std::string>().size(), 64u);
  int loaded = 0, left = 0;
  for (const auto& tensor : json["tensors"]) ++(tensor["loaded"] == true ? loaded : left);
  EXPECT_EQ(left, 1);
  EXPECT_GT(loaded, 10);
  EXPECT_EQ(json["initial"]["unused"].size(), 1u);
}

}  // namespace
}  // namespace muster::integration
