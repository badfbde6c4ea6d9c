// Jobs that begin with a checkpoint of another one: with another batch, other lanes, servers, or a
// measure of their own, the same bits on any number of workers and through a kill.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"
#include "tests/integration/up_cluster.h"

namespace muster::integration {
namespace {

using ::testing::HasSubstr;

constexpr auto kPatience = std::chrono::seconds(60);

class ForkTest : public ::testing::Test {
 protected:
  UpCluster::Said Submit(const std::string& spec, const std::string& id,
                         const std::vector<std::string>& settings = {}) {
    WriteFile(folder_ / "job.yaml", spec);
    return Say({"submit", folder_ / "job.yaml", "--id", id}, settings);
  }
  UpCluster::Said Fork(const std::string& parent, const std::string& id,
                       const std::vector<std::string>& settings = {}) {
    return Say({"fork", parent, "--id", id}, settings);
  }
  UpCluster::Said Say(std::vector<std::string> words, const std::vector<std::string>& settings) {
    for (const std::string& setting : settings) {
      words.emplace_back("--set");
      words.push_back(setting);
    }
    return cluster_.Say(words);
  }
  void ExpectDone(const std::string& id) {
    const UpCluster::Said watched = cluster_.Say({"watch", id});
    EXPECT_EQ(watched.exit_code, 0) << watched.text;
    const nlohmann::json audit = cluster_.Ask({"audit", id, "--json"});
    EXPECT_TRUE(audit.is_object() && audit.value("ok", false)) << id << ": " << audit;
  }
  std::string Digest(const std::string& id) {
    const nlohmann::json digest = cluster_.Ask({"digest", id, "--json"});
    EXPECT_TRUE(digest.is_object()) << digest;
    return digest.is_object() ? digest.value("digest", "") : "";
  }
  // A fork that has come to its end.
  std::string DigestOfFork(const std::string& parent, const std::string& id,
                           const std::vector<std::string>& settings) {
    const UpCluster::Said forked = Fork(parent, id, settings);
    EXPECT_EQ(forked.exit_code, 0) << forked.text;
    ExpectDone(id);
    return Digest(id);
  }
  int64_t StepOf(const std::string& id) {
    const nlohmann::json status = cluster_.Ask({"status", id, "--json"});
    return status.is_object() ? status.value("step", int64_t{-1}) : -1;
  }
  void WaitForStep(const std::string& id, int64_t step) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (StepOf(id) < step && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    ASSERT_GE(StepOf(id), step);
  }

  const Folder folder_;
  UpCluster cluster_{folder_ / "cluster", {"--slots", "4"}};
};

// Each step of this job has all samples, and their gradients add up without rounding: what a step
// does depends on the state alone. So a fork in which nothing changes does what its parent did.
TEST_F(ForkTest, WithNothingChangedItTakesTheStepsOfItsParent) {
  constexpr int kSamples = 61;
  const std::string spec = CountingSpec(kSamples, 6, 1);
  const auto run = [&](const std::string& id, int epochs) {
    const std::vector<std::string> adam = {"optimizer.kind=adam", "optimizer.learning_rate=0.01",
                                           "batch=61", "ema.decay=0.9",
                                           absl::StrCat("epochs=", epochs)};
    ASSERT_EQ(Submit(spec, id, adam).exit_code, 0);
    ExpectDone(id);
  };
  run("whole", 30);
  run("parent", 10);
  run("longer", 20);
  const std::string digest = Digest("whole");
  EXPECT_EQ(DigestOfFork("parent@10", "same", {"epochs=20"}), digest);
  EXPECT_NE(DigestOfFork("parent", "half", {"epochs=10"}), "");
  EXPECT_EQ(DigestOfFork("half@10", "again", {"epochs=10"}), digest) << "a fork of a fork";
  EXPECT_EQ(DigestOfFork("longer", "grid", {"epochs=10", "chunk_bytes=128", "lanes=48"}), digest)
      << "another grid of chunks holds the same state";
  EXPECT_EQ(DigestOfFork("parent", "served", {"epochs=20", "sync=server", "servers=2"}), digest);
  EXPECT_NE(DigestOfFork("parent", "anew", {"epochs=20", "initial.parent.updates=0"}), digest)
      << "the optimizer's slots begin as zeros";
  const nlohmann::json status = cluster_.Ask({"status", "same", "--json"});
  const nlohmann::json& parent = status["parent"];
  EXPECT_EQ(parent["job"], "parent");
  EXPECT_EQ(parent["step"], 10);
  EXPECT_EQ(parent["digest"].get<std::string>().size(), 64u);
  EXPECT_EQ(status["spec"]["initial"]["parent"]["updates"], 10);
  const nlohmann::json audit = cluster_.Ask({"audit", "same", "--json"});
  EXPECT_EQ(audit["parent"], parent);
  EXPECT_EQ(audit.value("steps", 0), 20) << "the account is the fork's own";
  EXPECT_EQ(audit.value("samples", 0), 20 * kSamples);
  EXPECT_THAT(audit.value("conclusion", ""),
              HasSubstr("begins at step 0 with the state of job parent, step 10"));
  EXPECT_THAT(cluster_.Say({"ledger", "same"}).text,
              HasSubstr("begins with the state of job parent, step 10, digest "));
  EXPECT_THAT(cluster_.Say({"status", "same"}).text, HasSubstr("forked from job parent, step 10"));
}

// All that is left of it is its state(0), which no task can make.
TEST_F(ForkTest, IsAdoptedByAnotherClusterBeforeItsFirstStep) {
  ASSERT_EQ(Submit(CountingSpec(61, 6, 4), "parent").exit_code, 0);
  ExpectDone("parent");
  // The fork waits for its turn, with one checkpoint.
  ASSERT_EQ(Submit(CountingSpec(61, 6, 1'000'000), "blocker", {"workers=4"}).exit_code, 0);
  WaitForStep("blocker", 1);
  ASSERT_EQ(Fork("parent", "fork", {"epochs=3", "seed=5"}).exit_code, 0);
  ASSERT_EQ(StepOf("fork"), 0);
  const std::string left = folder_ / "left";
  std::filesystem::copy(cluster_.dir() + "/checkpoints/fork", left,
                        std::filesystem::copy_options::recursive);
  EXPECT_EQ(cluster_.Say({"cancel", "blocker"}).exit_code, 0);
  ExpectDone("fork");

  UpCluster other(folder_ / "other", {"--slots", "2"});
  const UpCluster::Said adopted = other.Say({"adopt", left, "--as", "adopted"});
  ASSERT_EQ(adopted.exit_code, 0) << adopted.text;
  const UpCluster::Said watched = other.Say({"watch", "adopted"});
  EXPECT_EQ(watched.exit_code, 0) << watched.text;
  const nlohmann::json digest = other.Ask({"digest", "adopted", "--json"});
  ASSERT_TRUE(digest.is_object()) << digest;
  EXPECT_EQ(digest.value("digest", ""), Digest("fork"));
  const nlohmann::json audit = other.Ask({"audit", "adopted", "--json"});
  EXPECT_TRUE(audit.value("ok", false)) << audit;
  EXPECT_THAT(audit.value("conclusion", ""),
              HasSubstr("begins at step 0 with the state of job parent"));
}

TEST_F(ForkTest, WhatCannotBeIsRefusedByItsField) {
  ASSERT_EQ(Submit(CountingSpec(61, 6, 2), "parent").exit_code, 0);
  ExpectDone("parent");
  const auto expect_refused = [&](const std::string& parent, const std::string& setting,
                                  const std::string& why) {
    const UpCluster::Said said = Fork(parent, "fork", {setting});
    EXPECT_EQ(said.exit_code, 64) << said.text;
    EXPECT_THAT(said.text, HasSubstr(why));
  };
  expect_refused("parent", "task=mlp", "task: a fork has its parent's task, which is counting");
  expect_refused("parent@7", "seed=1", "initial.parent.step: job parent has no checkpoint of step");
  expect_refused("parent@x", "seed=1",
                 "initial.parent.step: job parent has no checkpoint that is kept as 'x'");
  expect_refused("parent@X_", "seed=1", "neither JOB nor JOB@STEP");
  expect_refused("parent", "initial.file=/w", "initial.parent: is for jobs without initial.file");
  expect_refused("parent", "data.samples=62", "parameters");
  EXPECT_NE(Fork("nobody", "fork").exit_code, 0);
  EXPECT_NE(cluster_.Say({"status", "fork"}).exit_code, 0) << "none of them was made";
  EXPECT_FALSE(std::filesystem::exists(cluster_.dir() + "/checkpoints/fork"));
}

// The parent is deleted while the fork trains.
TEST_F(ForkTest, GivesTheSameBitsOnAnyNumberOfWorkersThroughAKill) {
  const std::string spec = LanguageSpec(folder_ / "data", 4, 24);
  ASSERT_EQ(Submit(spec, "parent", {"checkpoint.keep=100"}).exit_code, 0);
  ExpectDone("parent");
  const std::vector<std::string> changed = {"batch=12", "lanes=6", "steps=60", "seed=9",
                                            "optimizer.learning_rate=0.001"};
  const std::string one = DigestOfFork("parent@24", "one", changed);
  EXPECT_EQ(one.size(), 64u);
  std::vector<std::string> three = changed;
  three.emplace_back("workers=3");
  ASSERT_EQ(Fork("parent@24", "three", three).exit_code, 0);
  const UpCluster::Said deleted = cluster_.Say({"delete", "parent", "--yes"});
  EXPECT_EQ(deleted.exit_code, 0) << deleted.text;
  WaitForStep("three", 3);
  const std::vector<pid_t> workers = cluster_.WorkerPids();
  ASSERT_FALSE(workers.empty());
  kill(workers.back(), SIGKILL);
  ExpectDone("three");
  EXPECT_EQ(Digest("three"), one);
  EXPECT_FALSE(std::filesystem::exists(cluster_.dir() + "/checkpoints/parent"));
  // The sums of what is measured are the fork's own, whether the parent has some or not.
  WriteFile(folder_ / "held-out/text.txt", std::string(4000, 'a') + "and servers sum lanes. ");
  const std::vector<std::string> measured = {
      "steps=12", "validation.paths=[" + folder_ / "held-out" + "]", "validation.every_steps=3"};
  const std::string of_one = DigestOfFork("one", "measured", measured);
  std::vector<std::string> on_two = measured;
  on_two.emplace_back("workers=2");
  EXPECT_EQ(DigestOfFork("one", "measured-by-two", on_two), of_one);
  const std::string plain = DigestOfFork("measured", "plain", {"steps=6", "validation={}"});
  EXPECT_EQ(plain.size(), 64u);
}

// Killed when all its members have lost their state, before there is a newer checkpoint.
TEST_F(ForkTest, GoesBackToItsBeginningWhereNothingElseIsLeft) {
  const std::string spec = LanguageSpec(folder_ / "data", 4, 8);
  ASSERT_EQ(Submit(spec, "parent").exit_code, 0);
  ExpectDone("parent");
  const std::vector<std::string> rare = {"steps=40", "checkpoint.every_steps=0",
                                         "checkpoint.every_seconds=0"};
  const std::string undisturbed = DigestOfFork("parent", "undisturbed", rare);
  ASSERT_EQ(Fork("parent", "fork", rare).exit_code, 0);
  WaitForStep("fork", 3);
  for (const pid_t worker : cluster_.WorkerPids()) kill(worker, SIGKILL);
  ExpectDone("fork");
  EXPECT_EQ(Digest("fork"), undisturbed);
}

}  // namespace
}  // namespace muster::integration
