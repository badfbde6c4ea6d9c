#include "lib/wire/job_codec.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/config/document.h"
#include "lib/task/registry.h"
#include "lib/wire/job_document.h"
#include "nlohmann/json.hpp"
#include "tests/lib/wire/random_job.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr char kSmall[] = "task: counting\nsteps: 10\n";

std::string ReadSourceFile(const std::string& name) {
  std::ifstream file(absl::StrCat(MUSTER_SOURCE_DIR, "/", name));
  EXPECT_TRUE(file) << name;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

JobSpec Parsed(const std::string& yaml, const std::vector<std::string>& settings = {}) {
  const auto spec = ParseJobYaml(yaml, "a.yaml", settings);
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.value_or(JobSpec{});
}

TEST(JobYaml, FillsInDefaults) {
  JobSpec expected;
  expected.training.task = "counting";
  expected.training.steps = 10;
  EXPECT_EQ(Parsed(kSmall), expected);
}

TEST(JobYaml, ReadsEveryField) {
  const JobSpec spec = Parsed(R"(
name: my-job
task: code-lm
parameters: {layers: 2, width: 64, heads: 4, dropout: 0.25}
data: {paths: [/a, /b c], suffixes: [.h, ""], max_bytes: 1000, unreadable: skip}
lanes: 6
batch: 24
steps: 300
optimizer: {kind: adamw, learning_rate: 0.001, beta1: 0.8, beta2: 0.99, epsilon: 1.0e-6, weight_decay: 0.01}
schedule: {kind: cosine, warmup_steps: 20, final_ratio: 0.1}
clip_norm: 1
on_nan: skip
reduction: sum
seed: 18446744073709551615
order: free
sync: server
precision: fp32
threads: 2
chunk_bytes: 4096
workers: {min: 2, max: 5}
servers: 2
devices: 4
checkpoint: {every_steps: 50, every_seconds: 1.5, keep: 7, at_end: false}
resume: 120
bucket_bytes: 65536
first_bucket_bytes: 1024
fingerprint_every: 5
lease: 12.5
restarts: 7
thread_patience: 600
namespace: vision
priority: -7
deadline: 3600
time_to_live: 86400.5
retries: 2
labels: {team: see-1, example.com/stage: "", "null": "9"}
)");
  JobSpec expected;
  expected.training = {
      .task = "code-lm",
      .parameters = {{"layers", 2},
                     {"width", 64},
                     {"heads", 4},
                     {"context", 128},
                     {"dropout", 0.25},
                     {"stride", 0}},
      .data = {.paths = {"/a", "/b c"},
               .suffixes = {".h", ""},
               .max_bytes = 1000,
               .unreadable = Unreadable::kSkip},
      .lanes = 6,
      .batch = 24,
      .steps = 300,
      .optimizer = {.kind = OptimizerKind::kAdamW,
                    .learning_rate = 0.001,
                    .beta1 = 0.8,
                    .beta2 = 0.99,
                    .epsilon = 1e-6,
                    .weight_decay = 0.01},
      .schedule = {.kind = ScheduleKind::kCosine, .warmup_steps = 20, .final_ratio = 0.1},
      .clip_norm = 1,
      .on_nan = OnNan::kSkip,
      .reduction = Reduction::kSum,
      .seed = std::numeric_limits<uint64_t>::max(),
      .order = SumOrder::kFree,
      .sync = Sync::kServer,
      .threads = 2,
      .chunk_bytes = 4096};
  expected.runtime = {
      .name = "my-job",
      .workers_min = 2,
      .workers_max = 5,
      .servers = 2,
      .devices = 4,
      .restarts = 7,
      .checkpoint = {.every_steps = 50, .every_seconds = 1.5, .keep = 7, .at_end = false},
      .resume = {ResumeKind::kStep, 120},
      .bucket_bytes = 65536,
      .first_bucket_bytes = 1024,
      .fingerprint_every = 5,
      .lease = 12.5,
      .thread_patience = 600};
  expected.queue = {.name_space = "vision",
                    .priority = -7,
                    .deadline = 3600,
                    .time_to_live = 86400.5,
                    .retries = 2,
                    .labels = {{"team", "see-1"}, {"example.com/stage", ""}, {"null", "9"}}};
  EXPECT_EQ(spec, expected);
}

TEST(JobYaml, LanesAreTwelveOrAsManyAsThereAreSamplesInAStep) {
  const auto lanes = [](const std::string& text) {
    return Parsed(absl::StrCat(kSmall, text)).training.lanes;
  };
  EXPECT_EQ(lanes("batch: 64"), 12);
  EXPECT_EQ(lanes("batch: 5"), 5);
  EXPECT_EQ(lanes(""), 1);
  EXPECT_EQ(lanes("batch: 64\nlanes:"), 12) << "nothing is written";
  EXPECT_EQ(lanes("batch: 64\nlanes: 1"), 1);
}

// What is resolved when a job is submitted gives the job that is written out.
TEST(JobYaml, AccumulateMakesLargerStepsOfMoreLanes) {
  const auto same = [](const std::string& text, const std::string& written_out) {
    EXPECT_EQ(ToJson(Parsed(absl::StrCat(kSmall, text))),
              ToJson(Parsed(absl::StrCat(kSmall, written_out))));
  };
  same("accumulate: 3\nbatch: 8\nlanes: 4", "batch: 24\nlanes: 12");
  same("accumulate: 3\nbatch: 64", "batch: 192\nlanes: 36");
  same("accumulate: 1\nbatch: 64", "batch: 64");
  same("accumulate: 2\nbatch: 128\noptimizer: {learning_rate: {value: 0.1, per_samples: 512}}",
       "batch: 256\nlanes: 24\noptimizer: {learning_rate: 0.05}");
}

TEST(JobYaml, KeepIsANumberOrARule) {
  const auto keep = [](const std::string& text) {
    const CheckpointPolicy policy =
        Parsed(absl::StrCat(kSmall, "checkpoint: {keep: ", text, "}")).runtime.checkpoint;
    return std::pair(policy.keep, policy.keep_every);
  };
  EXPECT_EQ(keep("5"), std::pair(5, int64_t{0}));
  EXPECT_EQ(keep("{last: 5}"), std::pair(5, int64_t{0}));
  EXPECT_EQ(keep("{every: 1000}"), std::pair(3, int64_t{1000}));
  EXPECT_EQ(keep("{last: 5, every: 1000}"), std::pair(5, int64_t{1000}));
  EXPECT_EQ(keep("{every_epochs: 2}"), std::pair(3, int64_t{0}));
  const JobSpec of_epochs =
      Parsed(absl::StrCat(kSmall, "checkpoint: {every_epochs: 1, keep: {every_epochs: 2}}"));
  EXPECT_EQ(of_epochs.runtime.checkpoint.every_epochs, 1);
  EXPECT_EQ(of_epochs.runtime.checkpoint.keep_epochs, 2);
  EXPECT_THAT(ToJson(of_epochs), HasSubstr("\"keep\":{\"every_epochs\":2,\"last\":3}"));
  EXPECT_THAT(ToJson(Parsed(absl::StrCat(kSmall, "checkpoint: {keep: {last: 5}}"))),
              HasSubstr("\"keep\":5"));
}

TEST(JobYaml, TheBestIsKeptBesides) {
  const JobSpec spec = Parsed(
      "task: mine\nsteps: 10\ndata: {paths: [/d], validation_share: 0.1}\n"
      "validation: {every_steps: 5, metric: accuracy, mode: max}\n"
      "checkpoint: {keep: {last: 2, best: validation.accuracy}}");
  EXPECT_EQ(spec.runtime.checkpoint.keep, 2);
  EXPECT_EQ(spec.runtime.checkpoint.keep_every, 0);
  EXPECT_EQ(spec.runtime.checkpoint.keep_best, "validation.accuracy");
  EXPECT_THAT(ToJson(spec), HasSubstr("\"keep\":{\"best\":\"validation.accuracy\",\"last\":2}"));
}

TEST(JobYaml, LarsHasATrust) {
  const JobSpec spec = Parsed(absl::StrCat(kSmall, "optimizer: {kind: lars, trust: 0.02}"));
  EXPECT_EQ(spec.training.optimizer.kind, OptimizerKind::kLars);
  EXPECT_EQ(spec.training.optimizer.trust, 0.02);
  EXPECT_EQ(spec.training.optimizer.momentum, 0.9);
}

TEST(JobYaml, ChangesOfNamesDropWhatTheyDoNotSay) {
  const JobSpec spec = Parsed(absl::StrCat(
      kSmall, "initial: {file: /w, map: [{from: module.}, {from: a, to: b}, {to: x.}]}"));
  EXPECT_THAT(
      spec.training.initial.map,
      ElementsAre(PrefixChange{"module.", ""}, PrefixChange{"a", "b"}, PrefixChange{"", "x."}));
  EXPECT_TRUE(spec.training.initial.strict);
}

TEST(JobYaml, ARatePerSamplesFollowsTheBatch) {
  const auto rate = [](int64_t batch) {
    return Parsed(absl::StrCat(kSmall, "batch: ", batch,
                               "\noptimizer:\n  learning_rate: {value: 0.1, per_samples: 256}"))
        .training.optimizer.learning_rate;
  };
  EXPECT_EQ(rate(256), 0.1);
  EXPECT_EQ(rate(512), 0.2);
  EXPECT_EQ(rate(64), 0.025);
}

TEST(JobYaml, ReadsGroups) {
  const JobSpec spec = Parsed(absl::StrCat(kSmall, R"(
groups:
  - {match: "*.bias", weight_decay: 0}
  - {match: "stem.*", frozen: true}
  - {match: "head.*", learning_rate_factor: 10}
)"));
  const std::vector<ParameterGroup> expected = {{.match = "*.bias", .weight_decay = 0},
                                                {.match = "stem.*", .frozen = true},
                                                {.match = "head.*", .learning_rate_factor = 10}};
  EXPECT_EQ(spec.training.groups, expected);
}

TEST(JobYaml, TakesWorkersAsANumberOrARange) {
  const auto workers = [](const std::string& text) {
    const muster::RuntimeSpec runtime = Parsed(absl::StrCat(kSmall, "workers: ", text)).runtime;
    return std::pair(runtime.workers_min, runtime.workers_max);
  };
  EXPECT_EQ(workers("3"), std::pair(1, 3));
  EXPECT_EQ(workers("{min: 2, max: 3}"), std::pair(2, 3));
  EXPECT_EQ(workers("{max: 3}"), std::pair(1, 3));
  EXPECT_EQ(workers("{min: 3}"), std::pair(3, 3));
}

TEST(JobYaml, ResumesAsTold) {
  const auto resume = [](const std::string& text) {
    return Parsed(absl::StrCat(kSmall, "resume: ", text)).runtime.resume;
  };
  EXPECT_EQ(resume("latest"), (Resume{ResumeKind::kLatest, 0}));
  EXPECT_EQ(resume("never"), (Resume{ResumeKind::kNever, 0}));
  EXPECT_EQ(resume("120"), (Resume{ResumeKind::kStep, 120}));
  EXPECT_EQ(resume("'120'"), (Resume{ResumeKind::kStep, 120}));
  EXPECT_EQ(resume("before-cut"), (Resume{ResumeKind::kNamed, 0, "before-cut"}));
  EXPECT_EQ(resume("best"), (Resume{ResumeKind::kNamed, 0, "best"}));
}

TEST(JobYaml, AForkBeginsAtAStepOrAtWhatHasAName) {
  const auto parent = [](const std::string& step) {
    return *Parsed(absl::StrCat(kSmall, "initial: {parent: {job: p, step: ", step, "}}"))
                .training.initial.parent;
  };
  EXPECT_EQ(parent("0"), (ParentState{.job = "p", .step = 0}));
  EXPECT_EQ(parent("latest"), (ParentState{.job = "p"}));
  EXPECT_EQ(parent("best"), (ParentState{.job = "p", .name = "best"}));
  EXPECT_EQ(parent("before-cut"), (ParentState{.job = "p", .name = "before-cut"}));
}

TEST(JobYaml, GivesServersOnlyToServerJobs) {
  EXPECT_EQ(Parsed(absl::StrCat(kSmall, "sync: server")).runtime.servers, 1);
  EXPECT_EQ(Parsed(absl::StrCat(kSmall, "sync: server\nservers: 3")).runtime.servers, 3);
  EXPECT_EQ(Parsed(absl::StrCat(kSmall, "servers: 0")).runtime.servers, 0);
}

TEST(JobYaml, AppliesSettingsBeforeReading) {
  const JobSpec spec =
      Parsed(kSmall, {"optimizer.learning_rate=0.5", "steps=", "epochs=2",
                      "workers={min: 2, max: 4}", "name=other", "optimizer.kind=momentum"});
  EXPECT_EQ(spec.training.optimizer.learning_rate, 0.5);
  EXPECT_EQ(spec.training.optimizer.kind, OptimizerKind::kMomentum);
  EXPECT_EQ(spec.training.steps, 0);
  EXPECT_EQ(spec.training.epochs, 2);
  EXPECT_EQ(spec.runtime.workers_min, 2);
  EXPECT_EQ(spec.runtime.name, "other");
  const auto bad = ParseJobYaml(kSmall, "a.yaml", {"lanes=0"});
  EXPECT_EQ(bad.status().message(), "--set: lanes: 0 is out of range; allowed: 1 to 4096");
}

// What follows "task: counting\nsteps: 10\n", the field that the error is about and the error's
// whole text.
struct BadInput {
  std::string yaml;
  std::string field;
  std::string message;
};

class BadYaml : public testing::TestWithParam<BadInput> {};

TEST_P(BadYaml, IsRefusedWithPlaceFieldAndWayOut) {
  const auto spec = ParseJobYaml(absl::StrCat(kSmall, GetParam().yaml), "a.yaml");
  ASSERT_FALSE(spec.ok());
  EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(spec.status().message(), GetParam().message);
  EXPECT_EQ(FieldOf(spec.status()), GetParam().field);
}

INSTANTIATE_TEST_SUITE_P(
    Fields, BadYaml,
    testing::Values(
        BadInput{
            "optimizer:\n  kind: adamm", "optimizer.kind",
            "a.yaml:4: optimizer.kind: 'adamm' is not known; allowed: sgd, momentum, adam, adamw, "
            "rmsprop, adagrad, lamb, lars"},
        BadInput{"optimiser: {kind: adam}", "optimiser",
                 "a.yaml:3: optimiser: no such field; did you mean 'optimizer'?"},
        BadInput{"optimizer:\n  kind: adam\n  lerning_rate: 1", "optimizer.lerning_rate",
                 "a.yaml:5: optimizer.lerning_rate: no such field; did you mean 'learning_rate'?"},
        BadInput{"checkpoint: {whatever: 1}", "checkpoint.whatever",
                 "a.yaml:3: checkpoint.whatever: no such field; allowed: every_steps, "
                 "every_epochs, every_seconds, keep, at_end"},
        BadInput{"optimizer: adam", "optimizer",
                 "a.yaml:3: optimizer: 'adam' is not a mapping of fields to values; allowed: kind, "
                 "learning_rate, momentum, nesterov, beta1, beta2, alpha, epsilon, trust, "
                 "weight_decay, weight_decay_on"},
        BadInput{"lanes: 0", "lanes", "a.yaml:3: lanes: 0 is out of range; allowed: 1 to 4096"},
        BadInput{"lanes: 4097", "lanes",
                 "a.yaml:3: lanes: 4097 is out of range; allowed: 1 to 4096"},
        BadInput{"lanes: 1.5", "lanes",
                 "a.yaml:3: lanes: 1.5 is not a whole number; allowed: 1 to 4096"},
        BadInput{"lanes: six", "lanes",
                 "a.yaml:3: lanes: 'six' is not a whole number; allowed: 1 to 4096"},
        BadInput{"lanes: [6]", "lanes",
                 "a.yaml:3: lanes: a list is not a whole number; allowed: 1 to 4096"},
        BadInput{"batch: 2147483649", "batch",
                 "a.yaml:3: batch: 2147483649 is out of range; allowed: 1 to 2147483648"},
        BadInput{"seed: -1", "seed",
                 "a.yaml:3: seed: -1 is out of range; allowed: 0 to 18446744073709551615"},
        BadInput{"seed: 18446744073709551616", "seed",
                 "a.yaml:3: seed: 18446744073709551616 is out of range; allowed: 0 to "
                 "18446744073709551615"},
        BadInput{"name: My_Job", "name",
                 "a.yaml:3: name: 'My_Job' is not a name; allowed: 1 to 63 lower-case letters, "
                 "digits and inner hyphens"},
        BadInput{"name: job-", "name",
                 "a.yaml:3: name: 'job-' is not a name; allowed: 1 to 63 lower-case letters, "
                 "digits and inner hyphens"},
        BadInput{"name: 12", "name", "a.yaml:3: name: 12 is not text; put it in quotes"},
        BadInput{"epochs: 2", "epochs",
                 "a.yaml:3: epochs: steps and epochs are both given; remove one of them"},
        BadInput{"epochs: .nan", "epochs", "a.yaml:3: epochs: .nan is not a finite number"},
        BadInput{"optimizer: {learning_rate: -0.1}", "optimizer.learning_rate",
                 "a.yaml:3: optimizer.learning_rate: -0.1 is out of range; allowed: 0 to 1000"},
        BadInput{"optimizer: {kind: adam, beta2: 1}", "optimizer.beta2",
                 "a.yaml:3: optimizer.beta2: 1 is out of range; allowed: at least 0, below 1"},
        BadInput{"optimizer: {kind: adam, epsilon: 0}", "optimizer.epsilon",
                 "a.yaml:3: optimizer.epsilon: 0 is out of range; allowed: above 0, at most 1"},
        BadInput{"optimizer: {kind: sgd, momentum: 0.8}", "optimizer.momentum",
                 "a.yaml:3: optimizer.momentum: is for optimizer.kind: momentum, lars; remove it"},
        BadInput{"optimizer: {beta1: 0.8}", "optimizer.beta1",
                 "a.yaml:3: optimizer.beta1: is for optimizer.kind: adam, adamw, lamb; remove it"},
        BadInput{"schedule: {final_ratio: 0.1}", "schedule.final_ratio",
                 "a.yaml:3: schedule.final_ratio: is for schedule.kind: linear, cosine, "
                 "polynomial, plateau; remove it"},
        BadInput{"schedule: {kind: step}", "schedule.step_size",
                 "a.yaml: schedule.step_size: is missing; write how many steps there are from "
                 "one fall of the rate to the next"},
        BadInput{"schedule: {kind: milestones, milestones: []}", "schedule.milestones",
                 "a.yaml:3: schedule.milestones: is missing; write the steps at which the rate "
                 "falls, such as [1000, 2000]"},
        BadInput{"schedule: {kind: milestones, milestones: [5, 5]}", "schedule.milestones[1]",
                 "a.yaml:3: schedule.milestones[1]: 5 is out of range; allowed: 6 to "
                 "1099511627776"},
        BadInput{"schedule: {kind: milestones, milestones: 5}", "schedule.milestones",
                 "a.yaml:3: schedule.milestones: 5 is not a list; write [1000, 2000]"},
        BadInput{"schedule: {kind: one_cycle, warmup_steps: 5}", "schedule.warmup_steps",
                 "a.yaml:3: schedule.warmup_steps: is for every schedule.kind but one_cycle, "
                 "which has schedule.pct_start; remove it"},
        BadInput{
            "schedule: {gamma: 0.5}", "schedule.gamma",
            "a.yaml:3: schedule.gamma: is for schedule.kind: step, milestones, plateau; remove it"},
        BadInput{"optimizer: {nesterov: true}", "optimizer.nesterov",
                 "a.yaml:3: optimizer.nesterov: is for optimizer.kind: momentum; remove it"},
        BadInput{"optimizer: {weight_decay_on: matrices}", "optimizer.weight_decay_on",
                 "a.yaml:3: optimizer.weight_decay_on: is for a weight_decay above 0; remove it"},
        BadInput{"initial: {parent: {}}", "initial.parent.job",
                 "a.yaml: initial.parent.job: is missing; write the id of the parent"},
        BadInput{"initial: {parent: p}", "initial.parent",
                 "a.yaml:3: initial.parent: 'p' is not a mapping of fields to values; allowed: "
                 "job, step, "
                 "digest, updates, average"},
        BadInput{"initial: {parent: {job: p, stop: 3}}", "initial.parent.stop",
                 "a.yaml:3: initial.parent.stop: no such field; did you mean 'step'?"},
        BadInput{"initial: {parent: {job: p, step: Best}}", "initial.parent.step",
                 "a.yaml:3: initial.parent.step: 'Best' is not known; allowed: latest, best, a "
                 "step, 0 to 1099511627776, or the name of a checkpoint that is kept, 1 to 63 "
                 "lower-case letters, digits and inner hyphens, with a letter among them"},
        BadInput{"initial: {parent: {job: p, digest: aa}}", "initial.parent.digest",
                 "a.yaml:3: initial.parent.digest: 'aa' is no digest; allowed: 64 digits 0 to 9, a "
                 "to f"},
        BadInput{"initial: {parent: {job: p}, file: /a}", "initial.parent",
                 "a.yaml:3: initial.parent: is for jobs without initial.file; remove it"},
        BadInput{"initial: {strict: false}", "initial.strict",
                 "a.yaml:3: initial.strict: is for jobs with initial.file; remove it"},
        BadInput{"initial: {map: [{from: a}]}", "initial.map",
                 "a.yaml:3: initial.map: is for jobs with initial.file; remove it"},
        BadInput{"initial: {file: /a, map: {from: a}}", "initial.map",
                 "a.yaml:3: initial.map: a mapping is not a list; write [{from: \"module.\"}]"},
        BadInput{"initial:\n  file: /a\n  map:\n  - from: a\n  - too: b", "initial.map[1].too",
                 "a.yaml:7: initial.map[1].too: no such field; did you mean 'to'?"},
        BadInput{"initial: {file: /a, map: [{to: \"\"}]}", "initial.map[0]",
                 "a.yaml:3: initial.map[0]: changes nothing; write how names of the file begin, "
                 "such as {from: \"module.\"}"},
        BadInput{"checkpoint: {keep: {last: 0}}", "checkpoint.keep.last",
                 "a.yaml:3: checkpoint.keep.last: 0 is out of range; allowed: 1 to 1000000"},
        BadInput{"checkpoint: {keep: {best: loss}}", "checkpoint.keep.best",
                 "a.yaml:3: checkpoint.keep.best: 'loss' is no measure; write validation.METRIC, "
                 "such as validation.loss"},
        BadInput{"checkpoint: {keep: {best: validation.Loss}}", "checkpoint.keep.best",
                 "a.yaml:3: checkpoint.keep.best: 'validation.Loss' is no measure; write "
                 "validation.METRIC, such as validation.loss"},
        BadInput{"checkpoint: {keep: {best: validation.loss}}", "checkpoint.keep.best",
                 "a.yaml:3: checkpoint.keep.best: nothing is measured: give "
                 "validation.every_steps or every_epochs"},
        BadInput{"optimizer: {kind: adam, trust: 1}", "optimizer.trust",
                 "a.yaml:3: optimizer.trust: is for optimizer.kind: lars; remove it"},
        BadInput{"optimizer: {kind: lars, trust: 0}", "optimizer.trust",
                 "a.yaml:3: optimizer.trust: 0 is out of range; allowed: above 0, at most 1000"},
        BadInput{"sync: server\noptimizer: {kind: lamb}", "optimizer.kind",
                 "a.yaml:4: optimizer.kind: lamb and lars are for sync: allreduce; servers have "
                 "pieces of tensors, and these optimizers need the norms of whole ones"},
        BadInput{"checkpoint: {keep: {every: 1.5}}", "checkpoint.keep.every",
                 "a.yaml:3: checkpoint.keep.every: 1.5 is not a whole number; allowed: 0 to "
                 "1099511627776"},
        BadInput{"groups: {match: a}", "groups",
                 "a.yaml:3: groups: a mapping is not a list; write [{match: \"*.bias\", ...}]"},
        BadInput{"groups:\n  - match: a\n  - froze: true", "groups[1].froze",
                 "a.yaml:5: groups[1].froze: no such field; did you mean 'frozen'?"},
        BadInput{"groups: [{frozen: true}]", "groups[0].match",
                 "a.yaml: groups[0].match: is missing; write a pattern of the names of "
                 "parameters, such as \"*.bias\""},
        BadInput{"groups: [{match: ''}]", "groups[0].match",
                 "a.yaml:3: groups[0].match: is empty; write a name of parameters, such as "
                 "\"*.bias\""},
        BadInput{"groups: [{match: a, frozen: true, weight_decay: 0}]", "groups[0].weight_decay",
                 "a.yaml:3: groups[0].weight_decay: means nothing where frozen is true; remove "
                 "it"},
        BadInput{"groups: [{match: a, learning_rate_factor: -1}]", "groups[0].learning_rate_factor",
                 "a.yaml:3: groups[0].learning_rate_factor: -1 is out of range; allowed: 0 to "
                 "1000"},
        BadInput{"ema: {decay: 1}", "ema.decay",
                 "a.yaml:3: ema.decay: 1 is out of range; allowed: at least 0, below 1"},
        BadInput{"optimizer: {learning_rate: {value: 0.1}}", "optimizer.learning_rate.per_samples",
                 "a.yaml: optimizer.learning_rate.per_samples: is missing; write {value: 0.1, "
                 "per_samples: 256}, or the rate alone"},
        BadInput{"optimizer: {learning_rate: {value: 1000, per_samples: 1}}\nbatch: 2",
                 "optimizer.learning_rate",
                 "a.yaml:3: optimizer.learning_rate: is 2000 for the 2 samples of a step; allowed: "
                 "0 to 1000"},
        BadInput{"accumulate: 0", "accumulate",
                 "a.yaml:3: accumulate: 0 is out of range; allowed: 1 to 4096"},
        BadInput{"accumulate: 64\nlanes: 65\nbatch: 65", "accumulate",
                 "a.yaml:3: accumulate: makes steps of 4160 lanes and 4160 samples; at most 4096 "
                 "and 2147483648 are allowed"},
        BadInput{
            "data: {paths: [/a]}", "data.paths",
            "a.yaml:3: data.paths: is for tasks that read files; counting does not; remove it"},
        BadInput{"data: {paths: /a}", "data.paths",
                 "a.yaml:3: data.paths: '/a' is not a list; write [/a]"},
        BadInput{"data:\n  paths:\n    - /a\n    - 3", "data.paths[1]",
                 "a.yaml:6: data.paths[1]: 3 is not text; put it in quotes"},
        BadInput{"data: {paths: ['']}", "data.paths[0]", "a.yaml:3: data.paths[0]: is empty"},
        BadInput{"parameters: {layers: 4}", "parameters.layers",
                 "a.yaml:3: parameters.layers: task counting has no parameters; remove it"},
        BadInput{"servers: 1", "servers", "a.yaml:3: servers: is for sync: server; remove it"},
        BadInput{"sync: server\nservers: 0", "servers",
                 "a.yaml:4: servers: 0 is out of range; allowed with sync: server: 1 to 4096"},
        BadInput{"lease: 0.1", "lease",
                 "a.yaml:3: lease: 0.1 is out of range; allowed: 0, or 0.5 to 600"},
        BadInput{"lease: 601", "lease", "a.yaml:3: lease: 601 is out of range; allowed: 0 to 600"},
        BadInput{"sync: ring", "sync",
                 "a.yaml:3: sync: 'ring' is not known; allowed: allreduce, server"},
        BadInput{"sync: Server", "sync",
                 "a.yaml:3: sync: 'Server' is not known; allowed: allreduce, server"},
        BadInput{"precision: bf16", "precision",
                 "a.yaml:3: precision: 'bf16' is not known; allowed: fp32"},
        BadInput{"order: 1", "order", "a.yaml:3: order: 1 is not known; allowed: canonical, free"},
        BadInput{"reduction: max", "reduction",
                 "a.yaml:3: reduction: 'max' is not known; allowed: mean, sum"},
        BadInput{"chunk_bytes: 100", "chunk_bytes",
                 "a.yaml:3: chunk_bytes: 100 is not a multiple of 64"},
        BadInput{"chunk_bytes: 524288", "chunk_bytes",
                 "a.yaml:3: chunk_bytes: 524288 is out of range; allowed: 64 to 262144"},
        BadInput{"workers: 0", "workers",
                 "a.yaml:3: workers: 0 is out of range; allowed: 1 to 4096"},
        BadInput{"workers:\n  min: 4\n  max: 2", "workers.min",
                 "a.yaml:4: workers.min: 4 is more than workers.max (2)"},
        BadInput{"workers: {mim: 4}", "workers.mim",
                 "a.yaml:3: workers.mim: no such field; did you mean 'min'?"},
        BadInput{"checkpoint: {keep: 0}", "checkpoint.keep",
                 "a.yaml:3: checkpoint.keep: 0 is out of range; allowed: 1 to 1000000"},
        BadInput{"checkpoint: {at_end: 0}", "checkpoint.at_end",
                 "a.yaml:3: checkpoint.at_end: 0 is not known; allowed: true, false"},
        BadInput{"resume: Sometimes", "resume",
                 "a.yaml:3: resume: 'Sometimes' is not known; allowed: latest, never, best, a "
                 "step, 1 to 1099511627776, or the name of a checkpoint that is kept, 1 to 63 "
                 "lower-case letters, digits and inner hyphens, with a letter among them"},
        BadInput{"resume: 0", "resume",
                 "a.yaml:3: resume: 0 is not known; allowed: latest, never, best, a step, 1 to "
                 "1099511627776, or the name of a checkpoint that is kept, 1 to 63 lower-case "
                 "letters, digits and inner hyphens, with a letter among them"},
        BadInput{"lanes: 1\nlanes: 2", "lanes",
                 "a.yaml:4: lanes: occurs twice; keep one of them"}));

struct BadWhole {
  std::string yaml;
  std::string field;
  std::string message;
};

class BadDocument : public testing::TestWithParam<BadWhole> {};

TEST_P(BadDocument, IsRefused) {
  const auto spec = ParseJobYaml(GetParam().yaml, "a.yaml");
  ASSERT_FALSE(spec.ok());
  EXPECT_EQ(spec.status().message(), GetParam().message);
  EXPECT_EQ(FieldOf(spec.status()), GetParam().field);
}

INSTANTIATE_TEST_SUITE_P(
    Wholes, BadDocument,
    testing::Values(
        BadWhole{"steps: 3", "task",
                 "a.yaml: task: is missing; allowed: code-lm, counting, layers, torchscript, "
                 "transformer, or the name "
                 "of a plug-in's task"},
        BadWhole{"task: code_lm\nsteps: 3", "task",
                 "a.yaml:1: task: 'code_lm' is no task; allowed: code-lm, counting, layers, "
                 "torchscript, transformer, or the "
                 "name of a plug-in's task (1 to 63 lower-case letters, digits and inner hyphens)"},
        BadWhole{"task: counting", "steps",
                 "a.yaml: steps: neither steps nor epochs is given; give one of them"},
        BadWhole{"task: counting\nsteps: 0", "steps",
                 "a.yaml:2: steps: neither steps nor epochs is given; give one of them"},
        BadWhole{
            "task: code-lm\nsteps: 3", "data.paths",
            "a.yaml: data.paths: is missing; task code-lm needs a list of files and directories"},
        BadWhole{"task: code-lm\nsteps: 3\ndata: {paths: [/a], samples: 7}", "data.samples",
                 "a.yaml:3: data.samples: is for tasks that make their data; code-lm reads "
                 "data.paths; remove it"},
        BadWhole{"task: counting\nsteps: 3\noptimizer: {kind: sgd, beta1: 0.9}", "optimizer.beta1",
                 "a.yaml:3: optimizer.beta1: is for optimizer.kind: adam, adamw, lamb; remove it"},
        BadWhole{"task: counting\nsteps: 3\ndata: {suffixes: []}", "data.suffixes",
                 "a.yaml:3: data.suffixes: is for tasks that read files; counting does not; "
                 "remove it"},
        BadWhole{"task: code-lm\nsteps: 3\ndata: {paths: [/a]}\nparameters:\n  with: 64",
                 "parameters.with",
                 "a.yaml:5: parameters.with: no such field; did you mean 'width'?"},
        BadWhole{
            "task: code-lm\nsteps: 3\ndata: {paths: [/a]}\nparameters: {heads: 5}",
            "parameters.heads",
            "a.yaml:4: parameters.heads: 5 does not divide width (192); choose a divisor of it"},
        BadWhole{"task: code-lm\nparameters: {layers: 2.5}", "parameters.layers",
                 "a.yaml:2: parameters.layers: 2.5 is not a whole number; allowed: 1 to 256"},
        BadWhole{"task: code-lm\nparameters: {dropout: 1}", "parameters.dropout",
                 "a.yaml:2: parameters.dropout: 1 is out of range; allowed: 0 to 0.9"},
        BadWhole{"just text", "",
                 "a.yaml:1: 'just text' is not a mapping of fields to values; allowed: "
                 "accumulate, batch, bucket_bytes, "
                 "checkpoint, chunk_bytes, clip_norm, data, deadline, devices, ema, epochs, "
                 "fingerprint_every, "
                 "first_bucket_bytes, groups, initial, labels, lanes, lease, "
                 "name, namespace, on_nan, optimizer, order, parameters, precision, priority, "
                 "reduction, restarts, resume, retries, "
                 "schedule, seed, servers, steps, "
                 "sync, sync_batch_norm, task, thread_patience, threads, time_to_live, validation, "
                 "workers"},
        BadWhole{"", "", "a.yaml: the document is empty; write fields and their values into it"}));

TEST(JobJson, IsReadByTheSameRules) {
  const auto error = [](const std::string& text) {
    return std::string(ParseJobJson(text).status().message());
  };
  EXPECT_EQ(error(R"({"task": "counting", "steps": 1, "lanes": 0})"),
            "lanes: 0 is out of range; allowed: 1 to 4096");
  EXPECT_EQ(error(R"({"task": "counting", "steps": 1, "steps": 2})"),
            "steps: occurs twice; keep one of them");
  EXPECT_THAT(error(R"({"task": "counting", "steps": 1}{})"),
              HasSubstr("parse error at line 1, column 33"));
  EXPECT_THAT(error(R"({"task": "counting", "steps": 1e999})"), HasSubstr("number overflow"));
  EXPECT_THAT(error("[]"),
              HasSubstr("a list is not a mapping of fields to values; allowed: accumulate, "));
  EXPECT_EQ(*ParseJobJson(R"({"task": "counting", "steps": "10", "data": null})"), Parsed(kSmall));
}

// Bytes of a good document, changed at random: an answer or an error, never a crash.
TEST(JobYaml, SurvivesDamage) {
  const std::string good = ReadSourceFile("examples/code-lm.yaml");
  std::mt19937_64 random(5);
  int refused = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string text = good;
    for (int change = 0; change < 3; ++change)
      text[random() % text.size()] = static_cast<char>(random() % 256);
    text.resize(text.size() - random() % 100);
    if (!ParseJobYaml(text, "a.yaml").ok()) ++refused;
    (void)ParseJobJson(text);
  }
  EXPECT_GT(refused, 500);
}

TEST(RoundTrip, RandomSpecsThroughYamlAndJson) {
  RandomJob jobs(1);
  for (int i = 0; i < 500; ++i) {
    const JobSpec spec = jobs.Make();
    ASSERT_TRUE(Validate(spec).ok()) << Validate(spec);
    const auto from_json = ParseJobJson(ToJson(spec));
    ASSERT_TRUE(from_json.ok()) << from_json.status() << "\n" << ToJson(spec);
    ASSERT_EQ(*from_json, spec) << ToJson(spec);
    const auto from_yaml = ParseJobYaml(ToYaml(spec), "a.yaml");
    ASSERT_TRUE(from_yaml.ok()) << from_yaml.status() << "\n" << ToYaml(spec);
    ASSERT_EQ(*from_yaml, spec) << ToYaml(spec);
    ASSERT_EQ(ToJson(*from_yaml), ToJson(spec));
  }
}

TEST(ToYaml, IsWhatAPersonWouldWrite) {
  EXPECT_EQ(ToYaml(Parsed(kSmall)),
            "name: job\n"
            "task: counting\n"
            "parameters: {}\n"
            "data:\n"
            "  samples: 0\n"
            "lanes: 1\n"
            "batch: 1\n"
            "steps: 10\n"
            "epochs: 0\n"
            "optimizer:\n"
            "  kind: sgd\n"
            "  learning_rate: 0.01\n"
            "  weight_decay: 0\n"
            "schedule:\n"
            "  kind: constant\n"
            "  warmup_steps: 0\n"
            "clip_norm: 0\n"
            "reduction: mean\n"
            "seed: 0\n"
            "order: canonical\n"
            "sync: allreduce\n"
            "precision: fp32\n"
            "threads: 1\n"
            "chunk_bytes: 262144\n"
            "workers:\n"
            "  max: 1\n"
            "  min: 1\n"
            "devices: 0\n"
            "restarts: 4\n"
            "checkpoint:\n"
            "  every_steps: 0\n"
            "  every_epochs: 0\n"
            "  every_seconds: 60\n"
            "  keep: 3\n"
            "  at_end: true\n"
            "resume: latest\n"
            "bucket_bytes: 26214400\n"
            "first_bucket_bytes: 1048576\n"
            "fingerprint_every: 10\n"
            "lease: 0\n"
            "thread_patience: 0\n"
            "namespace: default\n"
            "priority: 0\n"
            "deadline: 0\n"
            "time_to_live: 0\n"
            "retries: 0\n"
            "labels: {}\n");
}

TEST(Validate, TellsAnIncompleteSpecFromABadOne) {
  JobSpec spec;
  EXPECT_EQ(Validate(spec).message(),
            "task: is missing; allowed: code-lm, counting, layers, torchscript, transformer, or "
            "the name of a plug-in's task");
  spec.training.task = "transformer";
  spec.training.steps = 1;
  EXPECT_EQ(Validate(spec).message(), "parameters.decoder_layers: is missing");
  spec.training.sync = Sync::kServer;
  const auto complete = Complete(spec);
  ASSERT_TRUE(complete.ok()) << complete.status();
  EXPECT_EQ(complete->training.parameters.at("width"), ParameterValue(512));
  EXPECT_EQ(complete->runtime.servers, 1);
  EXPECT_TRUE(Validate(*complete).ok());

  JobSpec bad = *complete;
  bad.runtime.servers = 0;
  EXPECT_EQ(FieldOf(Validate(bad)), "servers");
  bad = *complete;
  bad.training.clip_norm = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(FieldOf(Validate(bad)), "clip_norm");
  bad = *complete;
  bad.training.optimizer.momentum = 0.5;
  EXPECT_EQ(Validate(bad).message(),
            "optimizer.momentum: is for optimizer.kind: momentum, lars; remove it");
  bad = *complete;
  bad.runtime.name = "\xff";
  EXPECT_EQ(FieldOf(Validate(bad)), "name");
}

constexpr char kPlugin[] = R"(
task: mlp
steps: 3
parameters: {hidden: 12, rate: 0.5, deep: true, kind: relu, sizes: [3, 0.5], names: [a, "1"], none: []}
)";

// Workers know it, and nobody else.
TEST(PluginTasks, TakeParametersOfAnyType) {
  const JobSpec spec = Parsed(kPlugin);
  const ParameterValues expected = {{"hidden", 12},
                                    {"rate", 0.5},
                                    {"deep", true},
                                    {"kind", "relu"},
                                    {"sizes", std::vector<double>{3, 0.5}},
                                    {"names", std::vector<std::string>{"a", "1"}},
                                    {"none", std::vector<double>{}}};
  EXPECT_EQ(spec.training.parameters, expected);
  EXPECT_EQ(ParseJobYaml(ToYaml(spec), "").value(), spec);
  EXPECT_EQ(ParseJobJson(ToJson(spec), "").value(), spec);
  EXPECT_TRUE(Validate(spec).ok());
}

// Lists and mappings within one another are carried as their text.
TEST(PluginTasks, TakeListsAndMappingsWithinOneAnother) {
  const JobSpec spec = Parsed(
      "task: net\nsteps: 3\nparameters: {a: [relu, {linear: 3}], b: {z: [1, 0.5], c: null}}\n");
  const ParameterValues expected = {{"a", "[\"relu\",{\"linear\":3}]"},
                                    {"b", "{\"c\":null,\"z\":[1,0.5]}"}};
  EXPECT_EQ(spec.training.parameters, expected);
  EXPECT_EQ(ParseJobYaml(ToYaml(spec), "").value(), spec);
  EXPECT_EQ(ParseJobJson(ToJson(spec), "").value(), spec);
}

TEST(Layers, AreReadAsAListOrAsItsText) {
  constexpr char kJob[] = "task: layers\nsteps: 3\ndata: {paths: [/a]}\nparameters: {layers: ";
  const auto read = [&](const std::string& layers) {
    return ParseJobYaml(absl::StrCat(kJob, layers, "}"), "a.yaml");
  };
  const auto job = read("[linear: 3, relu]");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->training.parameters.at("layers"), ParameterValue("[{\"linear\":3},\"relu\"]"));
  EXPECT_EQ(read("'[ {\"linear\": 3}, \"relu\" ]'").value(), *job);
  EXPECT_EQ(ParseJobYaml(ToYaml(*job), "").value(), *job);
  EXPECT_EQ(read("[relu, tanh]")->training.parameters.at("layers"),
            ParameterValue("[\"relu\",\"tanh\"]"));
  for (const char* wrong : {"3", "relu", "'[1'", "'3'"})
    EXPECT_THAT(std::string(read(wrong).status().message()), HasSubstr("parameters.layers: "))
        << wrong;
}

TEST(Layers, AreShownAsAListAndReadBackAlike) {
  const JobSpec job = ParseJobYaml(
                          "task: layers\nsteps: 3\ndata: {paths: [/a]}\n"
                          "parameters: {layers: [linear: 3, relu]}",
                          "a.yaml")
                          .value();
  const nlohmann::json shown = ShownDocument(job);
  EXPECT_EQ(shown["parameters"]["layers"], nlohmann::json::parse(R"([{"linear":3},"relu"])"));
  EXPECT_EQ(ParseJobJson(shown.dump(), "").value(), job);
  EXPECT_TRUE(ToDocument(job)["parameters"]["layers"].is_string()) << "what is kept stays as it is";
  JobSpec of_plugin = job;
  of_plugin.training.task = "net";
  EXPECT_EQ(ShownDocument(of_plugin), ToDocument(of_plugin)) << "nobody knows what it declares";
}

TEST(PluginTasks, TakeDataOfEitherKind) {
  EXPECT_EQ(Parsed(kPlugin, {"data.paths=[/a]"}).training.data.paths.size(), 1u);
  EXPECT_EQ(Parsed(kPlugin, {"data.samples=7"}).training.data.samples, 7u);
}

TEST(PluginTasks, ParametersAreBounded) {
  const auto error = [](const std::string& parameters) {
    return std::string(
        ParseJobYaml(absl::StrCat("task: mlp\nsteps: 3\nparameters: ", parameters), "a.yaml")
            .status()
            .message());
  };
  EXPECT_THAT(error("[1]"), HasSubstr("parameters: a list is not a mapping"));
  EXPECT_THAT(error(absl::StrCat("{a: {b: ", std::string(65536, 'c'), "}}")),
              HasSubstr("parameters.a: has 65544 bytes as JSON; at most 65536 are allowed"));
  EXPECT_THAT(error("{a: [x, 1]}"), HasSubstr("parameters.a[1]: 1 is not text"));
  EXPECT_THAT(error("{Width: 1}"), HasSubstr("is no name of a parameter; allowed: 1 to 64"));
  std::string many = "{";
  for (int i = 0; i < 257; ++i) absl::StrAppend(&many, "a", i, ": 1, ");
  EXPECT_THAT(error(many + "}"), HasSubstr("257 parameters; at most 256 are allowed"));
  std::string list = "{a: [";
  for (int i = 0; i < 4097; ++i) absl::StrAppend(&list, "1,");
  EXPECT_THAT(error(list + "]}"), HasSubstr("parameters.a: 4097 items; at most 4096"));
}

TrainingSpec ExampleTraining() { return Parsed(ReadSourceFile("examples/counting.yaml")).training; }

// A journal written by one build is read by the next: whoever must change this value makes all
// directories of unfinished jobs unusable.
TEST(TrainingHash, DoesNotChangeByAccident) {
  TrainingSpec training;
  training.task = "code-lm";
  training.parameters = {{"layers", 4}, {"dropout", 0.1}};
  training.data.paths = {"/data/\u00e4"};
  training.steps = 300;
  training.optimizer = {
      .kind = OptimizerKind::kAdamW, .learning_rate = 1e-3, .weight_decay = 1.0 / 3};
  training.seed = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(TrainingHash(training),
            "77e2f845775672ca2bea026e44f68152d2602b889b0cfffd7113a2230646c86c");
}

TEST(TrainingHash, SeesTheTrainingSpecAndNothingElse) {
  RandomJob jobs(2);
  std::set<std::string> hashes;
  for (int i = 0; i < 100; ++i) {
    const JobSpec spec = jobs.Make();
    EXPECT_EQ(TrainingHash(spec.training).size(), 64u);
    hashes.insert(TrainingHash(spec.training));
  }
  EXPECT_EQ(hashes.size(), 100u);
  const std::string text = ReadSourceFile("examples/counting.yaml");
  EXPECT_EQ(
      TrainingHash(ExampleTraining()),
      TrainingHash(
          Parsed(text, {"name=x", "workers=9", "resume=never", "checkpoint.keep=9",
                        "bucket_bytes=64", "first_bucket_bytes=64", "fingerprint_every=0",
                        "lease=9", "restarts=0", "devices=9", "thread_patience=9", "namespace=x",
                        "priority=9", "deadline=9", "time_to_live=9", "retries=9", "labels={a: b}"})
              .training));
}

TEST(TrainingHash, ChangesWithEveryFieldOfTheTraining) {
  const std::string text = ReadSourceFile("examples/code-lm.yaml");
  const std::vector<std::string> settings = {"parameters.layers=3",
                                             "parameters.dropout=0.2",
                                             "data.paths=[/a]",
                                             "data.suffixes=[]",
                                             "data.max_bytes=1",
                                             "lanes=5",
                                             "batch=5",
                                             "steps=5",
                                             "optimizer.kind=adam",
                                             "optimizer.learning_rate=0.5",
                                             "optimizer.beta1=0.5",
                                             "optimizer.beta2=0.5",
                                             "optimizer.epsilon=0.5",
                                             "optimizer.weight_decay=0.5",
                                             "schedule.kind=linear",
                                             "schedule.warmup_steps=5",
                                             "schedule.final_ratio=0.5",
                                             "clip_norm=5",
                                             "on_nan=skip",
                                             "data.unreadable=skip",
                                             "reduction=sum",
                                             "seed=5",
                                             "order=free",
                                             "sync=server",
                                             "sync_batch_norm=true",
                                             "threads=5",
                                             "chunk_bytes=64",
                                             "optimizer.weight_decay_on=matrices",
                                             "initial.file=/a.safetensors",
                                             "initial.parent={job: p}",
                                             "initial.parent={job: p, step: 3}",
                                             "groups=[{match: a}]",
                                             "ema.decay=0.9"};
  std::set<std::string> hashes = {TrainingHash(Parsed(text).training)};
  for (const std::string& setting : settings) {
    const TrainingSpec training = Parsed(text, {setting}).training;
    EXPECT_TRUE(hashes.insert(TrainingHash(training)).second) << setting;
    const auto differences = TrainingDifferences(Parsed(text).training, training);
    ASSERT_EQ(differences.size(), 1u) << setting;
    EXPECT_EQ(differences[0].substr(0, differences[0].find(':')),
              setting.substr(0, setting.find('=')));
  }
}

TEST(OnBadSample, SkipNeedsAPlaceForEachSampleOfAStep) {
  const auto error = [](const std::string& task, const std::string& more) {
    const auto spec = ParseJobYaml(
        absl::StrCat("task: ", task, "\nsteps: 3\n",
                     "data: {paths: [/a], format: images, on_bad_sample: skip}\n", more),
        "a.yaml");
    return std::string(spec.status().message());
  };
  EXPECT_EQ(error("mlp", "batch: 65536\nlanes: 16"), "");
  EXPECT_THAT(error("mlp", "batch: 65537\nlanes: 16"),
              HasSubstr("a.yaml:3: data.on_bad_sample: skip keeps account of 65536 samples of a "
                        "step with 16 lanes, and the batch has 65537; take a smaller batch"));
  EXPECT_THAT(error("mlp", "batch: 32768\naccumulate: 4"), HasSubstr("the batch has 131072"));
  EXPECT_EQ(error("mlp", "batch: 12288\nlanes: 4096"), "");
  EXPECT_THAT(error("mlp", "batch: 12289\nlanes: 4096"), HasSubstr("of 12288 samples"));
  EXPECT_THAT(error("mlp", "batch: 4096\nlanes: 4096\nvalidation: {every_steps: 2, paths: [/b]}"),
              HasSubstr("of 0 samples of a step with 4096 lanes and with validation"));
  EXPECT_THAT(error("code-lm", ""), HasSubstr("code-lm does not"));
  // It is part of what is hashed, and nothing else is.
  const auto hash = [](const std::string& data) {
    return TrainingHash(
        Parsed(absl::StrCat("task: mlp\nsteps: 3\ndata: {paths: [/a], ", data, "}\n")).training);
  };
  EXPECT_EQ(hash("format: images"), hash("format: images, on_bad_sample: stop"));
  EXPECT_NE(hash("format: images"), hash("format: images, on_bad_sample: skip"));
}

TEST(SyncBatchNorm, IsRefusedWhereATotalCannotBeWaitedFor) {
  const auto error = [](const std::string& task, const std::string& more) {
    const auto spec = ParseJobYaml(
        absl::StrCat("task: ", task, "\nsteps: 3\nsync_batch_norm: true\n", more), "a.yaml");
    return std::string(spec.status().message());
  };
  EXPECT_EQ(error("mine", "batch: 256\nlanes: 256"), "");
  EXPECT_EQ(error("mine", "batch: 16\nlanes: 8\naccumulate: 2\nclip_norm: 1\non_nan: skip"), "");
  EXPECT_THAT(error("mine", "batch: 257\nlanes: 257"),
              HasSubstr("a.yaml:3: sync_batch_norm: needs at most 256 lanes, and there are 257"));
  EXPECT_THAT(error("mine", "batch: 16\nlanes: 16\naccumulate: 17"),
              HasSubstr("and there are 272"));
  EXPECT_THAT(error("mine", "sync: server"),
              HasSubstr("a.yaml:3: sync_batch_norm: is for sync: allreduce"));
  EXPECT_THAT(error("mine", "order: free"),
              HasSubstr("a.yaml:3: sync_batch_norm: is for order: canonical"));
  EXPECT_THAT(error("torchscript", "parameters: {file: /a.pt}\ndata: {paths: [/a], format: csv}"),
              HasSubstr("a.yaml:3: sync_batch_norm: is not for task torchscript"));
  // It is part of what is hashed where it is true, and nothing else is.
  const auto hash = [](const std::string& more) {
    return TrainingHash(Parsed(absl::StrCat(kSmall, more)).training);
  };
  EXPECT_EQ(hash(""), hash("sync_batch_norm: false"));
  EXPECT_NE(hash(""), hash("sync_batch_norm: true"));
}

TEST(Differences, OfTwoParentsAreTold) {
  const TrainingSpec p = Parsed(kSmall, {"initial.parent={job: p}"}).training;
  const TrainingSpec q = Parsed(kSmall, {"initial.parent={job: q}"}).training;
  EXPECT_THAT(TrainingDifferences(p, q),
              ElementsAre("initial.parent: {\"job\":\"p\"} against {\"job\":\"q\"}"));
}

JobSpec Forked(const JobSpec& parent, const std::vector<std::string>& settings = {}) {
  const auto fork = ForkOf(parent, {.job = "p", .step = 40}, settings);
  EXPECT_TRUE(fork.ok()) << fork.status();
  return fork.value_or(JobSpec{});
}

TEST(ForkOf, IsTheParentsSpecificationButForWhereItBegins) {
  const JobSpec parent = Parsed(absl::StrCat(
      kSmall, "initial: {file: /w, strict: false}\nresume: never\noptimizer: {kind: adam}"));
  JobSpec expected = parent;
  expected.training.initial = {.parent = ParentState{"p", 40}};
  expected.runtime.resume = {};
  EXPECT_EQ(Forked(parent), expected);
}

TEST(ForkOf, WhatHasNoMeaningAnyMoreIsLeftOut) {
  const JobSpec parent =
      Parsed(absl::StrCat(kSmall, "optimizer: {kind: adam, beta1: 0.5}\nsync: server\nservers: 3\n",
                          "schedule: {kind: linear, final_ratio: 0.5}"));
  const JobSpec fork = Forked(parent, {"optimizer.kind=sgd", "sync=allreduce", "epochs=2",
                                       "schedule.kind=constant", "batch=7"});
  EXPECT_EQ(fork.training.optimizer.kind, OptimizerKind::kSgd);
  EXPECT_EQ(fork.runtime.servers, 0);
  EXPECT_EQ(fork.training.steps, 0);
  EXPECT_EQ(fork.training.epochs, 2);
  EXPECT_EQ(fork.training.batch, 7);
  EXPECT_EQ(Forked(Parsed(kSmall), {"sync=server"}).runtime.servers, 1);
}

// The checkpoint's "data.max_bytes" was in the way, which nobody had written and nobody can remove.
TEST(ParseStoredJob, WhatHasNoMeaningWithTheSettingsIsLeftOut) {
  const std::string stored =
      ToJson(Parsed("task: mlp\nsteps: 3\nbatch: 9\nlanes: 3\ndata: {paths: [/a], max_bytes: 9}\n"
                    "optimizer: {kind: adam, beta1: 0.5}"));
  const auto with = [&](const std::vector<std::string>& settings) {
    return ParseStoredJob(stored, "the checkpoint's specification", settings);
  };
  const auto other = with({"data.format=csv", "data.label=y", "optimizer.kind=sgd", "epochs=2"});
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->training.data.format, DataFormat::kCsv);
  EXPECT_EQ(other->training.data.label, "y");
  EXPECT_EQ(other->training.data.max_bytes, DataSpec().max_bytes);
  EXPECT_EQ(other->training.steps, 0);
  EXPECT_EQ(other->training.batch, 9);
  EXPECT_EQ(with({"batch=7"})->training.data.max_bytes, 9);
  EXPECT_EQ(with({"data.format=csv", "data.max_bytes=7"}).status().message(),
            "--set: data.max_bytes: is for data.format: text; remove it")
      << "it is the user's own";
}

TEST(ForkOf, WhatItMayNotBeIsNamed) {
  const auto refused = [](const std::string& setting) {
    return FieldOf(ForkOf(Parsed(kSmall), {.job = "p", .step = 40}, {setting}).status());
  };
  EXPECT_EQ(refused("task=mlp"), "task");
  EXPECT_EQ(refused("initial.file=/a"), "initial.parent");
  EXPECT_EQ(refused("initial={}"), "initial.parent");
  EXPECT_EQ(refused("optimizer.beta1=0.5"), "optimizer.beta1") << "it is the user's own";
  EXPECT_EQ(refused("batch=0"), "batch");
}

TEST(DataSet, FieldsAreForTasksThatReadOneAndForTheirFormat) {
  const auto error = [](const std::string& task, const std::string& data) {
    return std::string(
        ParseJobYaml(absl::StrCat("task: ", task, "\nsteps: 3\ndata: {", data, "}"), "a.yaml")
            .status()
            .message());
  };
  EXPECT_EQ(error("mlp", "paths: [/a], format: csv, columns: [x], label: y, classes: [y]"), "");
  EXPECT_EQ(error("mlp", "paths: [/a], format: images, image_size: [32, 48], channels: 1, crop: 2"),
            "");
  EXPECT_THAT(error("code-lm", "paths: [/a], format: csv"),
              HasSubstr("data.format: is for tasks that read data sets; code-lm does not"));
  EXPECT_THAT(error("mlp", "paths: [/a], format: numpy, columns: [x]"),
              HasSubstr("data.columns: is for data.format: csv; remove it"));
  EXPECT_THAT(error("mlp", "paths: [/a], format: csv, max_bytes: 9"),
              HasSubstr("data.max_bytes: is for data.format: text"));
  EXPECT_THAT(error("mlp", "paths: [/a], format: images, channels: 2"),
              HasSubstr("data.channels: 2 is not known; allowed: 1, 3"));
  EXPECT_THAT(error("mlp", "paths: [/a], format: images, image_size: [0, 1]"),
              HasSubstr("data.image_size[0]: "));
  EXPECT_THAT(error("mlp", "paths: [/a], format: csv, delimiter: ab"),
              HasSubstr("data.delimiter: has 2 bytes; allowed: one character of ASCII"));
}

TEST(DataSet, TypesAndShapesAreDeclaredByName) {
  const std::string data =
      "data: {paths: [/a], format: numpy, types: {x: float32, y: null}, "
      "shapes: {x: [3, 4], y: []}}";
  const JobSpec spec = Parsed("task: mlp\nsteps: 3\n" + data);
  EXPECT_EQ(spec.training.data.types,
            (std::map<std::string, TensorType>{{"x", TensorType::kFloat32}}));
  EXPECT_EQ(spec.training.data.shapes,
            (std::map<std::string, std::vector<int64_t>>{{"x", {3, 4}}, {"y", {}}}));
  const auto error = [](const std::string& field, const std::string& format = "numpy") {
    return std::string(
        ParseJobYaml(absl::StrCat("task: mlp\nsteps: 3\ndata: {paths: [/a], format: ", format, ", ",
                                  field, "}"),
                     "a.yaml")
            .status()
            .message());
  };
  EXPECT_EQ(error("types: {x: int8}", "csv"), "");
  EXPECT_THAT(error("types: [x]"),
              HasSubstr("data.types: a list is not a mapping; write {x: float32}"));
  EXPECT_THAT(error("types: {x: float}"), HasSubstr("data.types.x: 'float' is not known"));
  EXPECT_THAT(error("types: {x: int8}", "images"),
              HasSubstr("data.types: is for data.format: csv"));
  EXPECT_THAT(error("shapes: {x: 3}"), HasSubstr("data.shapes.x: 3 is not a list; write [3, 4]"));
  EXPECT_THAT(error("shapes: {x: [1, 0]}"), HasSubstr("data.shapes.x[1]: "));
  EXPECT_THAT(error("shapes: {x: [1]}", "csv"),
              HasSubstr("data.shapes: is for data.format: numpy, safetensors, pt, hdf5"));
  const auto hash = [](const std::string& more) {
    return TrainingHash(
        Parsed("task: mlp\nsteps: 3\ndata: {paths: [/a], format: numpy" + more + "}").training);
  };
  EXPECT_EQ(hash(""), hash(", types: {}, shapes: {}"));
  EXPECT_NE(hash(""), hash(", types: {x: int8}"));
  EXPECT_NE(hash(""), hash(", shapes: {x: []}"));
}

TEST(DataSet, FieldsThatAreNotGivenAreNotWritten) {
  const JobSpec spec = Parsed("task: mlp\nsteps: 3\ndata: {paths: [/a], format: csv}");
  EXPECT_THAT(ToJson(spec), AllOf(HasSubstr("\"format\":\"csv\""), Not(HasSubstr("delimiter"))));
  EXPECT_THAT(ToJson(Parsed("task: mlp\nsteps: 3\ndata: {paths: [/a]}")), Not(HasSubstr("format")));
}

constexpr char kStreamed[] = R"(task: mlp
epochs: 1
batch: 10
data:
  format: stream
  label: y
  stream:
    source: folder
    fields: [{name: x, type: float32, shape: [2, 3]}, {name: y, type: int64}]
    path: /data
)";

TEST(Stream, IsReadWithItsDefaults) {
  const JobSpec spec = Parsed(kStreamed);
  EXPECT_EQ(spec.training.stream, StreamFrom::kFolder);
  EXPECT_EQ(spec.training.data.format, DataFormat::kStream);
  EXPECT_EQ(spec.training.data.fields, (std::vector<DataField>{{"x", TensorType::kFloat32, {2, 3}},
                                                               {"y", TensorType::kInt64, {}}}));
  EXPECT_EQ(spec.runtime.stream, (StreamRuntime{.path = "/data"}));
  EXPECT_EQ(spec.runtime.stream.max_bytes, uint64_t{16} << 30);
  const JobSpec other =
      Parsed(kStreamed, {"data.stream.source=socket", "data.stream.path=/s", "data.stream.host=a",
                         "data.stream.max_bytes=1e9", "steps=7", "epochs=", "data.label="});
  EXPECT_EQ(other.training.stream, StreamFrom::kSocket);
  EXPECT_EQ(other.runtime.stream, (StreamRuntime{"/s", "a", 1'000'000'000}));
  EXPECT_EQ(other.training.steps, 7);
}

TEST(Stream, IsWrittenAsAPersonWouldWriteIt) {
  EXPECT_THAT(ToYaml(Parsed(kStreamed)),
              HasSubstr("data:\n"
                        "  suffixes: []\n"
                        "  samples: 0\n"
                        "  format: stream\n"
                        "  label: \"y\"\n"
                        "  stream:\n"
                        "    source: folder\n"
                        "    fields: [{\"name\":\"x\",\"shape\":[2,3],\"type\":\"float32\"},"
                        "{\"name\":\"y\",\"shape\":[],\"type\":\"int64\"}]\n"
                        "    path: \"/data\"\n"
                        "    host: \"\"\n"
                        "    max_bytes: 17179869184\n"
                        "lanes: 10\n"));
  EXPECT_THAT(ToYaml(Parsed(kSmall)), Not(HasSubstr("stream")));
}

TEST(Stream, WhereItIsReadIsNoPartOfTheTraining) {
  const auto hash = [](const std::vector<std::string>& settings) {
    return TrainingHash(Parsed(kStreamed, settings).training);
  };
  EXPECT_EQ(hash({}),
            hash({"data.stream.path=/other", "data.stream.host=h", "data.stream.max_bytes=1e12"}));
  EXPECT_NE(hash({}), hash({"data.stream.source=socket"}));
  EXPECT_NE(hash({}), hash({"data.stream.fields=[{name: y, type: int64}]"}));
  EXPECT_THAT(TrainingDifferences(Parsed(kStreamed).training,
                                  Parsed(kStreamed, {"data.stream.source=socket"}).training),
              ElementsAre(AllOf(HasSubstr("data.stream"), HasSubstr("socket"))));
  EXPECT_THAT(RuntimeDifferences(Parsed(kStreamed), Parsed(kStreamed, {"data.stream.path=/a"})),
              ElementsAre("data.stream.path: \"/data\" against \"/a\""));
}

struct BadStream {
  std::vector<std::string> settings;
  std::string field;
  std::string message;  // a part of it
};

class BadStreamTest : public testing::TestWithParam<BadStream> {};

TEST_P(BadStreamTest, IsRefusedWithFieldAndWayOut) {
  const auto spec = ParseJobYaml(kStreamed, "a.yaml", GetParam().settings);
  ASSERT_FALSE(spec.ok());
  EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(spec.status()), GetParam().field) << spec.status();
  EXPECT_THAT(std::string(spec.status().message()), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Fields, BadStreamTest,
    testing::Values(
        BadStream{{"data.stream=x"}, "data.stream", "'x' is not a mapping of fields to values"},
        BadStream{
            {"data.stream.sauce=x"}, "data.stream.sauce", "no such field; did you mean 'source'?"},
        BadStream{{"data.stream="}, "data.stream.source", "is missing; write folder or socket"},
        BadStream{{"data.stream.source=pipe"}, "data.stream.source", "allowed: folder, socket"},
        BadStream{{"data.stream.path="}, "data.stream.path", "is missing; name the folder"},
        BadStream{{"data.stream.path=", "data.stream.source=socket"},
                  "data.stream.path",
                  "is missing; name the UNIX socket"},
        BadStream{{"data.stream.source=socket", "data.stream.path=/" + std::string(107, 's')},
                  "data.stream.path",
                  "has 108 bytes; that of a socket has at most 107"},
        BadStream{{"data.stream.fields="},
                  "data.stream.fields",
                  "say what a sample of the stream is made of"},
        BadStream{{"data.stream.fields=x"}, "data.stream.fields", "'x' is not a list; write [{"},
        BadStream{{"data.stream.fields=[x]"}, "data.stream.fields[0]", "is not a mapping"},
        BadStream{{"data.stream.fields=[{type: int8}]"},
                  "data.stream.fields[0].name",
                  "is missing; name each field"},
        BadStream{{"data.stream.fields=[{name: '', type: int8}]"},
                  "data.stream.fields[0].name",
                  "has 0 bytes; allowed: 1 to 256"},
        BadStream{{"data.stream.fields=[{name: y}]"},
                  "data.stream.fields[0].type",
                  "is missing; write float32"},
        BadStream{{"data.stream.fields=[{name: y, type: float}]"},
                  "data.stream.fields[0].type",
                  "'float' is not known; allowed: float32"},
        BadStream{{"data.stream.fields=[{name: y, type: int8, shape: [2, 0]}]"},
                  "data.stream.fields[0].shape[1]",
                  "0 is out of range"},
        BadStream{{"data.stream.fields=[{name: y, type: int8, size: 3}]"},
                  "data.stream.fields[0].size",
                  "allowed: name, type, shape"},
        BadStream{{"data.stream.fields=[{name: y, type: int8}, {name: y, type: int8}]"},
                  "data.stream.fields",
                  "two are called 'y'"},
        BadStream{{"data.stream.fields=[{name: y, type: int8, shape: [2147483647]}]"},
                  "data.stream.fields",
                  "a sample has at most 1073741824 bytes"},
        BadStream{{"data.label=x"}, "data.label", "it is the last of data.stream.fields"},
        // 4 times 11 samples of 32 bytes.
        BadStream{{"data.stream.max_bytes=1407"},
                  "data.stream.max_bytes",
                  "1407 is too little for a batch of 10 samples of 32 bytes; allowed: 1408 to "
                  "1152921504606846976"},
        BadStream{
            {"batch=2147483648", "data.stream.fields=[{name: y, type: int8, shape: [1073741824]}]"},
            "batch",
            "are more than a spool can hold"},
        BadStream{{"data.paths=[/a]"}, "data.paths", "is for data in files; a stream comes from"},
        BadStream{{"data.format=csv"}, "data.stream.source", "is for data.format: stream"},
        BadStream{{"task=code-lm"}, "data.format", "is for tasks that read data sets"},
        BadStream{{"task=counting"}, "data.format", "is for tasks that read data sets"},
        BadStream{{"epochs=2"}, "epochs", "2 cannot be had: a stream is used once"},
        BadStream{{"schedule.kind=cosine"}, "schedule.kind", "give steps, or take a schedule"},
        BadStream{{"validation.every_epochs=1", "validation.paths=[/v]"},
                  "validation.every_epochs",
                  "give validation.every_steps"},
        BadStream{{"data.validation_share=0.5"},
                  "data.validation_share",
                  "name files in validation.paths"},
        BadStream{{"data.on_bad_sample=skip"}, "data.on_bad_sample", "a stream has no bad samples"},
        BadStream{{"checkpoint.at_end=false"}, "checkpoint.at_end", "cannot be had with a stream"},
        BadStream{{"checkpoint.every_seconds=0"},
                  "checkpoint.every_steps",
                  "a job with a stream needs checkpoints"},
        BadStream{{"checkpoint.every_epochs=1"}, "checkpoint.every_epochs", "a stream has one"}));

TEST(Stream, WhatCanGoTogetherWithOneDoes) {
  const auto fits = [](const std::vector<std::string>& settings) {
    return ParseJobYaml(kStreamed, "a.yaml", settings).status();
  };
  EXPECT_TRUE(fits({"epochs=", "steps=100", "schedule.kind=cosine"}).ok());
  EXPECT_TRUE(fits({"checkpoint.every_seconds=0", "checkpoint.every_steps=9"}).ok());
  EXPECT_TRUE(fits({"validation.every_steps=5", "validation.paths=[/v]"}).ok());
  EXPECT_TRUE(fits({"data.mean=[0.5]", "data.deviation=[2]", "data.shape=[6]"}).ok());
  EXPECT_TRUE(fits({"sync=server", "servers=2"}).ok());
  EXPECT_TRUE(fits({"data.stream.max_bytes=1408"}).ok());
  EXPECT_TRUE(fits({"task=layers", "parameters.layers=[{linear: 1}]"}).ok());
}

TEST(TrainingDifferences, NamesFieldsWithBothValues) {
  const TrainingSpec ours = ExampleTraining();
  TrainingSpec theirs = ours;
  EXPECT_THAT(TrainingDifferences(ours, theirs), IsEmpty());
  theirs.lanes = 6;
  theirs.optimizer.kind = OptimizerKind::kMomentum;
  theirs.parameters["width"] = 64;
  theirs.data.samples = 10;
  EXPECT_THAT(
      TrainingDifferences(ours, theirs),
      ElementsAre("data.samples: 1009 against 10", "lanes: 7 against 6",
                  "optimizer.kind: 'sgd' against 'momentum'",
                  "optimizer.momentum: absent against 0.9", "parameters.width: absent against 64"));
}

TEST(Examples, AreValid) {
  const JobSpec code = Parsed(ReadSourceFile("examples/code-lm.yaml"));
  EXPECT_EQ(code.training.task, "code-lm");
  EXPECT_EQ(code.runtime.workers_max, 3);
  EXPECT_EQ(code.training.lanes, 6);
  const JobSpec counting = Parsed(ReadSourceFile("examples/counting.yaml"));
  EXPECT_EQ(counting.training.reduction, Reduction::kSum);
  EXPECT_EQ(counting.training.optimizer.learning_rate, 1);
  EXPECT_EQ(Parsed(ReadSourceFile("examples/plugin/mlp.yaml")).training.data.label, "3");
  const JobSpec transformer = Parsed(ReadSourceFile("examples/transformer.yaml"));
  EXPECT_EQ(transformer.training.parameters.at("target_length"), ParameterValue(20));
}

// Each field has its row: | `name` | training, runtime or queue | default | allowed | meaning |
TEST(Documentation, ListsEveryFieldAsTheTableHasIt) {
  const std::string text = ReadSourceFile("docs/job-spec.md");
  std::vector<std::string> missing;
  for (const JobField& field : JobFields()) {
    const std::string fallback =
        field.default_value.empty() ? "needed" : absl::StrCat("`", field.default_value, "`");
    const std::string row = absl::StrCat("\n| `", field.name, "` | ", PartName(field.part), " | ",
                                         fallback, " | ", field.allowed, " | ");
    if (text.find(row) == std::string::npos) missing.push_back(row.substr(1));
  }
  EXPECT_THAT(missing, IsEmpty()) << absl::StrJoin(missing, "\n");
}

TEST(Documentation, ListsEveryTaskWithItsParameters) {
  const std::string text = ReadSourceFile("docs/job-spec.md");
  std::vector<std::string> missing;
  for (const TaskInfo& task : Tasks()) {
    const std::string heading = absl::StrCat("\n### ", task.name, "\n");
    if (text.find(heading) == std::string::npos) missing.push_back(heading);
    for (const TaskParameter& parameter : task.parameters) {
      const double* number = std::get_if<double>(&parameter.default_value);
      const std::string fallback =
          number != nullptr
              ? ToText(*number)
              : absl::StrCat("`\"", std::get<std::string>(parameter.default_value), "\"`");
      const std::string allowed = number != nullptr ? ToText({parameter.min, parameter.max})
                                                    : absl::StrJoin(parameter.choices, ", ");
      const std::string row = absl::StrCat("\n| `", parameter.name, "` | ", fallback, " | ",
                                           allowed, " | ", parameter.help, " |");
      const size_t section = text.find(heading);
      if (section == std::string::npos || text.find(row, section) == std::string::npos)
        missing.push_back(row);
    }
  }
  EXPECT_THAT(missing, IsEmpty()) << absl::StrJoin(missing, "");
}

TEST(QueueSpec, IsNotLookedAtWhereStartsAreCompared) {
  const JobSpec ours = Parsed(kSmall);
  const JobSpec theirs = Parsed(kSmall, {"priority=3", "retries=1", "labels={a: b}"});
  EXPECT_THAT(RuntimeDifferences(ours, theirs), IsEmpty());
  EXPECT_THAT(TrainingDifferences(ours.training, theirs.training), IsEmpty());
}

// It was heeded when the job began: the same file is often submitted again.
TEST(Resume, IsNotLookedAtWhereStartsAreCompared) {
  EXPECT_THAT(RuntimeDifferences(Parsed(kSmall), Parsed(kSmall, {"resume=never"})), IsEmpty());
}

TEST(QueueSpec, LabelsAreBounded) {
  const auto error = [](const std::string& labels) {
    return std::string(
        ParseJobYaml(absl::StrCat(kSmall, "labels: ", labels), "a.yaml").status().message());
  };
  EXPECT_EQ(error("{team: vision, example.com/a.b_c-d: X9}"), "");
  EXPECT_EQ(error(absl::StrCat("{", std::string(63, 'k'), ": ", std::string(63, 'v'), "}")), "");
  EXPECT_THAT(error(absl::StrCat("{", std::string(64, 'k'), ": v}")),
              HasSubstr("is not the key of a label; allowed: 1 to 63 letters"));
  EXPECT_THAT(error("{-team: vision}"), HasSubstr("'-team' is not the key of a label"));
  EXPECT_THAT(error("{a/b/c: vision}"), HasSubstr("'a/b/c' is not the key of a label"));
  EXPECT_THAT(error("{team: two words}"), HasSubstr("'two words' is not the value of a label"));
  EXPECT_THAT(error("[team]"), HasSubstr("labels: a list is not a mapping"));
}

TEST(QueueSpec, ChangesByWhatIsSaid) {
  const QueueSpec held{.name_space = "n",
                       .priority = 1,
                       .deadline = 60,
                       .labels = {{"team", "see"}, {"stage", "one"}}};
  const auto changed = [&](const std::string& json) -> absl::StatusOr<QueueSpec> {
    const auto change = ParseQueueChange(json);
    if (!change.ok()) return change.status();
    return Changed(held, *change);
  };
  EXPECT_EQ(*changed("{}"), held);
  QueueSpec expected = held;
  expected.priority = -3;
  expected.deadline = 0;
  expected.labels = {{"team", "hear"}, {"new", ""}};
  EXPECT_EQ(*changed(R"({"priority": -3, "deadline": null,
                         "labels": {"team": "hear", "stage": null, "new": ""}})"),
            expected);
  EXPECT_EQ(changed(R"({"priority": 1001})").status().message(),
            "priority: 1001 is out of range; allowed: -1000 to 1000");
  EXPECT_THAT(std::string(changed(R"({"namespace": "other"})").status().message()),
              HasSubstr("namespace: cannot be changed"));
  EXPECT_THAT(std::string(changed(R"({"workers": 3})").status().message()),
              HasSubstr("workers: no such field"));
  EXPECT_EQ(FieldOf(Changed(held, {.retries = -1}).status()), "retries");
  EXPECT_EQ(FieldOf(Changed(held, {.labels = {{"-", "x"}}}).status()), "labels.-");
}

// An entry of the journal that was written before `restarts` had its name.
TEST(StoredJob, OfBeforeSaysRetriesForRestarts) {
  const auto before = ParseStoredJob(R"({"task": "counting", "steps": 10, "retries": 7})");
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_EQ(before->runtime.restarts, 7);
  EXPECT_EQ(before->queue.retries, 0);
  JobSpec now = Parsed(kSmall, {"retries=3"});
  EXPECT_EQ(*ParseStoredJob(ToJson(now)), now);
}

TEST(JobFields, HaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const JobField& field : JobFields()) {
    EXPECT_TRUE(names.insert(field.name).second) << field.name;
    EXPECT_FALSE(field.allowed.empty()) << field.name;
  }
}

}  // namespace
}  // namespace muster
