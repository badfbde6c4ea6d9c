#include "cli/job_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "cli/spec_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/whole_file.h"
#include "lib/domain/notes.h"
#include "lib/wire/job_codec.h"

namespace muster::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

std::string MakeFolder() {
  std::string folder = ::testing::TempDir() + "/muster-job-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) std::abort();
  return folder;
}

JobSpec Spec(const std::string& lanes = "4") {
  return ParseJobYaml(
             "name: count-it\ntask: counting\nreduction: sum\nepochs: 2\nbatch: 8\nworkers: "
             "2\nlanes: " +
                 lanes,
             "spec.yaml")
      .value();
}

TEST(JobFileTest, AFolderKeepsItsJob) {
  const std::string folder = MakeFolder();
  const auto id = JobIdOf(folder, Spec());
  ASSERT_TRUE(id.ok()) << id.status();
  EXPECT_THAT(*id, MatchesRegex("count-it-[0-9a-f]{6}"));
  EXPECT_EQ(JobIdOf(folder, Spec()).value(), *id);
}

TEST(JobFileTest, AnotherRuntimeSpecIsTheSameJobButAnotherTrainingSpecIsNot) {
  const std::string folder = MakeFolder();
  const std::string id = JobIdOf(folder, Spec()).value();
  JobSpec other_run = Spec();
  other_run.runtime.workers_max = 3;
  EXPECT_EQ(JobIdOf(folder, other_run).value(), id);
  const auto refused = JobIdOf(folder, Spec("6"));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(HasSubstr(id), HasSubstr("lanes: 4"), HasSubstr("6")));
}

TEST(JobFileTest, MoreEpochsAreTheSameJobMadeLonger) {
  const std::string folder = MakeFolder();
  const std::string id = JobIdOf(folder, Spec()).value();
  JobSpec longer = Spec();
  longer.training.epochs = 3;
  EXPECT_EQ(JobIdOf(folder, longer).value(), id);
  const auto refused = JobIdOf(folder, Spec());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(HasSubstr("epochs: "), HasSubstr("2 is less than the 3 that the job has")));
}

// Whoever has the old file open, or comes when this process has died half-way, reads all of it.
TEST(JobFileTest, AResultTakesThePlaceOfTheOldOneWhole) {
  const std::string folder = MakeFolder();
  ASSERT_TRUE(KeepResult(folder, "old").ok());
  std::filesystem::create_hard_link(folder + "/result.json", folder + "/still-open");
  ASSERT_TRUE(KeepResult(folder, "new").ok());
  EXPECT_EQ(ReadWholeFile(folder + "/result.json").value(), "new\n");
  EXPECT_EQ(ReadWholeFile(folder + "/still-open").value(), "old\n");
}

TEST(JobFileTest, AResultOfAnEarlierEndIsNotTheOneThatIsLookedFor) {
  const std::string folder = MakeFolder();
  EXPECT_FALSE(HasResultOf(folder, "done", 7));
  ASSERT_TRUE(KeepResult(folder, R"({"state":"stopped","steps":7})").ok());
  EXPECT_TRUE(HasResultOf(folder, "stopped", 7));
  EXPECT_FALSE(HasResultOf(folder, "done", 7));
  EXPECT_FALSE(HasResultOf(folder, "stopped", 9));
  for (const char* odd : {"", "[1]", "{}", R"({"state":7,"steps":"x"})"}) {
    ASSERT_TRUE(KeepResult(folder, odd).ok());
    EXPECT_FALSE(HasResultOf(folder, "stopped", 7)) << odd;
  }
}

TEST(JobFileTest, TheSampleIsThatOfTheSameEndOfTheSameJob) {
  const std::string folder = MakeFolder();
  EXPECT_EQ(KeptSample(folder, "a", "done", 7), "");
  ASSERT_TRUE(KeepResult(folder, R"({"job":"a","state":"done","steps":7,"sample":"int x;"})").ok());
  EXPECT_EQ(KeptSample(folder, "a", "done", 7), "int x;");
  EXPECT_EQ(KeptSample(folder, "b", "done", 7), "");
  EXPECT_EQ(KeptSample(folder, "a", "stopped", 7), "");
  EXPECT_EQ(KeptSample(folder, "a", "done", 9), "");
  for (const char* odd : {R"({"state":"done","steps":7,"sample":"int x;"})",
                          R"({"job":"a","state":"done","steps":7})",
                          R"({"job":"a","state":"done","steps":7,"sample":5})"}) {
    ASSERT_TRUE(KeepResult(folder, odd).ok());
    EXPECT_EQ(KeptSample(folder, "a", "done", 7), "") << odd;
  }
}

TEST(JobFileTest, APipeInItsPlaceIsNamed) {
  const std::string folder = MakeFolder();
  ASSERT_EQ(mkfifo((folder + "/job.json").c_str(), 0600), 0);
  const auto id = JobIdOf(folder, Spec());
  EXPECT_EQ(id.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(id.status().message()), HasSubstr(folder + "/job.json' is a pipe"));
}

TEST(JobFileTest, ADamagedFileIsNamed) {
  const std::string folder = MakeFolder();
  std::ofstream(folder + "/job.json") << "{\"id\": ";
  const auto id = JobIdOf(folder, Spec());
  EXPECT_EQ(id.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(id.status().message()), HasSubstr(folder + "/job.json"));
}

TEST(SpecFileTest, CommandLineNumbersReplaceThoseOfTheFile) {
  const std::string path = MakeFolder() + "/spec.yaml";
  std::ofstream(path)
      << "task: counting\nreduction: sum\nepochs: 1\nbatch: 8\nworkers: {min: 2, max: 4}\n";
  const auto spec = ReadSpec(path, {"batch=16"}, 1);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->training.batch, 16);
  EXPECT_EQ(spec->runtime.workers_max, 1);
  EXPECT_EQ(spec->runtime.workers_min, 1);
}

TEST(SpecFileTest, RelativeDataIsTakenFromWhereTheCommandRuns) {
  const std::string path = MakeFolder() + "/spec.yaml";
  std::ofstream(path) << "task: code-lm\nsteps: 1\ndata: {paths: [., src/, ./a b, ../x, /whole/]}\n"
                         "validation: {every_steps: 1, paths: [held-out, /whole]}\n";
  const auto spec = ReadSpec(path, {});
  ASSERT_TRUE(spec.ok()) << spec.status();
  const std::filesystem::path here = std::filesystem::current_path();
  EXPECT_THAT(spec->training.data.paths,
              ElementsAre(here.string(), (here / "src").string(), (here / "a b").string(),
                          (here.parent_path() / "x").string(), "/whole/"));
  EXPECT_THAT(spec->training.validation.paths, ElementsAre((here / "held-out").string(), "/whole"));
}

TEST(SpecFileTest, SoIsTheFolderOfAStream) {
  JobSpec spec;
  MakePathsWhole(spec);
  EXPECT_EQ(spec.runtime.stream.path, "") << "it has none";
  spec.runtime.stream.path = "feed/";
  MakePathsWhole(spec);
  EXPECT_EQ(spec.runtime.stream.path, (std::filesystem::current_path() / "feed").string());
}

TEST(SpecFileTest, AModelThatNoJobMayHaveIsRefused) {
  const std::string path = MakeFolder() + "/spec.yaml";
  std::ofstream(path) << "task: counting\nsteps: 1\ndata: {samples: 1099511627776}\n";
  const absl::Status refused = ReadSpec(path, {}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr(path + ": data.samples: samples 1099511"));
  EXPECT_TRUE(ReadSpec(path, {"data.samples=5"}).ok());
}

TEST(SpecFileTest, WhatIsHardlyMeantIsNoted) {
  const auto notes = [](const std::string& more) {
    return NotesOn(ParseJobYaml("task: counting\nsteps: 10\n" + more, "a.yaml").value());
  };
  EXPECT_THAT(notes("batch: 12\nworkers: 12\nschedule: {warmup_steps: 10}"), IsEmpty());
  EXPECT_THAT(notes("batch: 8\nlanes: 2\nworkers: 3"),
              ElementsAre("2 lanes for 3 workers: 1 has nothing to compute and only stands by; "
                          "take fewer workers, or more lanes"));
  EXPECT_THAT(notes("batch: 4\nlanes: 6"),
              ElementsAre("4 samples of a step (batch) for 6 lanes: 2 of them stay empty; take a "
                          "larger batch, or fewer lanes"));
  EXPECT_THAT(notes("schedule: {warmup_steps: 11}"),
              ElementsAre(HasSubstr("schedule.warmup_steps (11) is more than steps (10)")));
  // 100 samples are 25 steps of 4: two epochs are 50.
  const auto in_epochs = [](const std::string& more) {
    return NotesOn(
        ParseJobYaml("task: counting\nepochs: 2\nbatch: 4\nlanes: 4\n" + more, "a.yaml").value());
  };
  EXPECT_THAT(in_epochs("data: {samples: 100}\nschedule: {warmup_steps: 50}"), IsEmpty());
  EXPECT_THAT(in_epochs("data: {samples: 100}\nschedule: {warmup_steps: 51}"),
              ElementsAre("schedule.warmup_steps (51) is more than the 50 steps of 2 epochs: the "
                          "learning rate never reaches its full size"));
  EXPECT_THAT(in_epochs("schedule: {warmup_steps: 51}"), IsEmpty()) << "nobody knows yet";
  EXPECT_THAT(notes("checkpoint: {every_seconds: 0, at_end: false}"),
              ElementsAre(HasSubstr("no checkpoint is ever made")));
  EXPECT_THAT(notes("checkpoint: {at_end: false}"), IsEmpty());
  EXPECT_THAT(
      notes("checkpoint: {keep: {every: 20}}"),
      ElementsAre("checkpoint.keep.every (20) keeps none but by chance, as no checkpoint is "
                  "made for it: say checkpoint.every_steps: 20, too"));
  EXPECT_THAT(notes("checkpoint: {keep: {every: 20}, every_steps: 10}"), IsEmpty());
  EXPECT_THAT(notes("checkpoint: {keep: {every: 20}, every_epochs: 1}"), IsEmpty());
  EXPECT_THAT(notes("checkpoint: {keep: {every_epochs: 5}}"),
              ElementsAre(HasSubstr("say checkpoint.every_epochs: 5, too")));
  EXPECT_THAT(notes("checkpoint: {keep: {every: 20, best: validation.loss}}\n"
                    "validation: {every_steps: 4, paths: [held-out]}"),
              IsEmpty())
      << "one of each measured state is made";
}

TEST(SpecFileTest, SaysWhatIsWrong) {
  const auto missing = ReadSpec("nowhere.yaml", {});
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(missing.status().message()),
              HasSubstr("cannot read nowhere.yaml: No such file"));
  EXPECT_EQ(ReadSpec(MakeFolder(), {}).status().code(), absl::StatusCode::kInvalidArgument)
      << "a folder";
}

TEST(SpecFileTest, AFileThatMayNotBeReadIsToBeMadeReadable) {
  const std::string path = MakeFolder() + "/job.yaml";
  std::ofstream(path) << "task: counting\n";
  ASSERT_EQ(chmod(path.c_str(), 0), 0);
  const bool reads_all = geteuid() == 0;
  ASSERT_TRUE(!reads_all || seteuid(65534) == 0);
  const absl::Status refused = ReadSpec(path, {}).status();
  ASSERT_TRUE(!reads_all || seteuid(0) == 0);
  EXPECT_EQ(std::string(refused.message()),
            absl::StrCat("cannot read ", path,
                         ": Permission denied; make it readable, or name another file"));
}

TEST(JobFileTest, AFileWithoutAnEndIsNotReadToItsEnd) {
  const auto read = ReadTextFile("/dev/zero");
  EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("/dev/zero has more than the 1 MiB"));
  EXPECT_EQ(ReadTextFile("/dev/null").value(), "");
}

}  // namespace
}  // namespace muster::cli
