// How a job learns (docs/job-spec.md, Learning) with real processes: groups of parameters, a moving
// average and a schedule give the same bits whoever computes and applies; what is worked out when a
// job is submitted is the job that is written out.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/exit_codes.h"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"

namespace muster::integration {
namespace {

constexpr int kLanes = 6, kSteps = 12;

const std::vector<std::string> kLearning = {
    "schedule={kind: one_cycle}", "optimizer.weight_decay_on=matrices", "ema.decay=0.9",
    "groups=[{match: 'bytes.*', frozen: true}, {match: 'head.*', learning_rate_factor: 3}, "
    "{match: '*.bias', weight_decay: 0.1}]"};

std::string DigestOf(const TrainRun& run) {
  EXPECT_EQ(run.exit_code, 0) << run.Trace();
  return run.result.value("digest", "");
}

TEST(LearningTest, GroupsAndAveragesAreTheSameBitsAlsoWithAKill) {
  const Folder folder;
  const std::string spec = LanguageSpec(folder / "data", kLanes, kSteps);
  const std::string digest =
      DigestOf(Train({.spec = spec, .dir = folder / "one", .settings = kLearning}));
  EXPECT_NE(UndisturbedDigest(spec, folder / "plain"), digest);
  for (const int servers : {0, 2}) {
    SCOPED_TRACE(absl::StrCat(servers, " servers"));
    const std::string dir = folder / absl::StrCat("job-", servers);
    const TrainRun run = Train({.spec = spec,
                                .dir = dir,
                                .workers = 3,
                                .servers = servers,
                                .faults = {"{at_point: \"forward:5\", kill: worker-2}"},
                                .settings = kLearning});
    EXPECT_TRUE(run.Fired("worker-2", "forward")) << run.Trace();
    ExpectSameBits(run, dir, digest);
    ExpectNoWayBack(run, dir);
  }
}

// LAMB and LARS: with decay and clipping, tensors that are cut into many chunks, and others that do
// not adapt.
TEST(LearningTest, NormsOfWholeTensorsAreTheSameBitsAlsoWithAKill) {
  const Folder folder;
  for (const std::string kind : {"lamb", "lars"}) {
    SCOPED_TRACE(kind);
    ExpectSameBitsOnAnyNumber(
        {.spec = LanguageSpec(folder / "data", kLanes, kSteps),
         .dir = folder / kind,
         .settings = {absl::StrCat("optimizer.kind=", kind), "optimizer.weight_decay_on=matrices",
                      absl::StrCat("optimizer.learning_rate=", kind == "lamb" ? "0.01" : "1"),
                      "groups=[{match: 'head.*', learning_rate_factor: 3}]", "ema.decay=0.9"}},
        [](const TrainRun& run) {
          const std::vector<nlohmann::json> steps = run.Events("step");
          ASSERT_GE(steps.size(), 2u);
          EXPECT_LT(steps.back().value("loss", 99.0), steps.front().value("loss", 0.0))
              << "it learns";
        });
  }
}

TEST(LearningTest, NormsOfWholeTensorsAreNotForServers) {
  const Folder folder;
  const TrainRun run = Train({.spec = LanguageSpec(folder / "data", kLanes, kSteps),
                              .dir = folder / "job",
                              .servers = 1,
                              .settings = {"optimizer.kind=lamb"}});
  EXPECT_EQ(run.exit_code, kExitBadConfiguration) << run.Trace();
}

TEST(LearningTest, AccumulationIsTheJobThatIsWrittenOut) {
  const Folder folder;
  const std::string spec = LanguageSpec(folder / "data", 2, kSteps);
  const std::string written_out =
      DigestOf(Train({.spec = spec,
                      .dir = folder / "written-out",
                      .settings = {"batch=24", "lanes=6", "optimizer.learning_rate=0.005"}}));
  const TrainRun run = Train(
      {.spec = spec,
       .dir = folder / "accumulated",
       .workers = 2,
       .settings = {"accumulate=3", "optimizer.learning_rate={value: 0.5, per_samples: 2400}"}});
  ExpectSameBits(run, folder / "accumulated", written_out);
}

TEST(LearningTest, AGroupWithoutAParameterIsNamedWithItsPath) {
  const Folder folder;
  const TrainRun run = Train({.spec = LanguageSpec(folder / "data", kLanes, kSteps),
                              .dir = folder / "job",
                              .workers = 2,
                              .settings = {"groups=[{match: 'heads.*', frozen: true}]"}});
  EXPECT_EQ(run.exit_code, kExitBadConfiguration) << run.Trace();
  EXPECT_THAT(run.result.value("reason", ""),
              testing::HasSubstr("groups[0].match: 'heads.*' matches no parameter; there are "));
}

}  // namespace
}  // namespace muster::integration
