// A cluster that waits for jobs, as a user has it: `muster up`, and every command that talks to it,
// while one job runs, another waits for its turn and a third is cancelled.
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"
#include "tests/integration/up_cluster.h"
#include "tests/support/program.h"

namespace muster::integration {
namespace {

using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int kSamples = 1009;
constexpr int kManyEpochs = 20;  // long enough to be caught while it runs
constexpr int kStepsPerEpoch = 64;

int LinesIn(const std::string& file) {
  std::ifstream in(file);
  int lines = 0;
  for (std::string line; std::getline(in, line);) ++lines;
  return lines;
}

nlohmann::json Parsed(const std::string& text) {
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
}

class UpTest : public ::testing::Test {
 protected:
  UpTest() {
    WriteFile(folder_ / "many.yaml", CountingSpec(kSamples, /*lanes=*/7, kManyEpochs));
    WriteFile(folder_ / "once.yaml", CountingSpec(kSamples, /*lanes=*/7, /*epochs=*/1));
  }

  void Expect(const std::vector<std::string>& words, int exit_code, const std::string& text) {
    const UpCluster::Said said = cluster_.Say(words);
    EXPECT_EQ(said.exit_code, exit_code) << words[0] << ": " << said.text;
    EXPECT_THAT(said.text, HasSubstr(text)) << words[0];
  }
  // Of the job `first`, without the cluster's address.
  void ExpectOfTheFolder(std::vector<std::string> words, int exit_code, const std::string& text) {
    words.insert(words.begin() + 1, "first");
    words.insert(words.end(), {"--dir", folder_ / "cluster"});
    Program program(MusterCommand(words));
    EXPECT_EQ(program.End(), exit_code) << words[0] << ": " << program.output();
    EXPECT_THAT(program.output(), HasSubstr(text)) << words[0];
  }
  // While the only worker stands still no step is done, however long this takes.
  void ListsOneThatRunsAndOthersThatWait() {
    const std::vector<pid_t> workers = cluster_.WorkerPids();
    ASSERT_EQ(workers.size(), 1u) << cluster_.up().output();
    const pid_t worker = workers.front();
    kill(worker, SIGSTOP);
    const UpCluster::Said list = cluster_.Say({"list"});
    kill(worker, SIGCONT);
    EXPECT_EQ(list.exit_code, 0);
    EXPECT_THAT(list.text,
                AnyOf(ContainsRegex("first +running"), ContainsRegex("first +recovering")));
    EXPECT_THAT(list.text, ContainsRegex("second +queued"));
    EXPECT_THAT(list.text, ContainsRegex("third +queued"));
  }
  // Deleted from elsewhere, so that its folder stays.
  void ANewJobOfThatIdHasLogsOfItsOwn(const std::string& job) {
    const std::string elsewhere = folder_ / "elsewhere";
    std::filesystem::create_directory(elsewhere);
    Expect({"delete", job, "--dir", elsewhere, "--yes"}, 0, "its logs stay");
    Expect({"submit", folder_ / "once.yaml", "--id", job}, 0, job + " is ");
    Expect({"watch", job}, 0, "job " + job + " is done");
    const std::string logs = cluster_.Say({"logs", job, "--dir", folder_ / "cluster"}).text;
    const std::string first_line = "takes part in job " + job;
    const size_t at = logs.find(first_line);
    ASSERT_NE(at, std::string::npos) << logs;
    EXPECT_EQ(logs.find(first_line, at + 1), std::string::npos) << logs;
  }
  void ExpectCounted(const std::string& job, int epochs) {
    const UpCluster::Said digest = cluster_.Say({"digest", job, "--json"});
    EXPECT_EQ(digest.exit_code, 0) << digest.text;
    const nlohmann::json told = Parsed(digest.text);
    ASSERT_TRUE(told.is_object()) << digest.text;
    EXPECT_EQ(told.value("digest", ""), CountingDigest(kSamples, static_cast<float>(epochs)));
    EXPECT_EQ(told.value("step", -1), epochs * kStepsPerEpoch);
    Expect({"audit", job, "--json"}, 0, "\"ok\":true");
    Expect({"audit", job}, 0, "proven: each of 1009 samples");
    Expect({"status", job}, 0, "job " + job + " is done");
    Expect({"status", job}, 0, told.value("digest", "none"));
  }

  const Folder folder_;
  UpCluster cluster_{folder_ / "cluster", {"--slots", "1"}};
};

TEST_F(UpTest, JobsRunOneAfterTheOtherAndEveryCommandTellsOfThem) {
  AdoptOrphans();
  Expect({"submit", folder_ / "many.yaml", "--id", "first"}, 0, "first is ");
  Expect({"submit", folder_ / "once.yaml", "--id", "second"}, 0, "second is queued");
  Expect({"submit", folder_ / "once.yaml", "--id", "third"}, 0, "third is queued");
  Program watcher(cluster_.Command({"watch", "first", "--json"}));
  ASSERT_TRUE(watcher.WaitFor("\"event\":\"step\"")) << watcher.output();
  ListsOneThatRunsAndOthersThatWait();
  Expect({"cancel", "third"}, 0, "third is cancelled");
  EXPECT_EQ(watcher.End(), 0) << watcher.output();
  EXPECT_THAT(watcher.output(), HasSubstr("\n{\"event\":\"job\",")) << "the last line";
  Expect({"watch", "second"}, 0, "job second is done");
  Expect({"watch", "third"}, 67, "job third is cancelled");
  ExpectCounted("first", kManyEpochs);
  ExpectCounted("second", 1);
  Expect({"cancel", "first"}, 1, "first is done");
  Expect({"status", "fourth"}, 1, "there is no job fourth");

  Expect({"logs", "second", "--dir", folder_ / "cluster"}, 0, "worker-0 | ");
  ANewJobOfThatIdHasLogsOfItsOwn("second");
  Expect({"delete", "second", "--dir", folder_ / "cluster"}, 64, "--yes");
  Expect({"delete", "second", "--dir", folder_ / "cluster", "--yes"}, 0, "job second is deleted");
  Expect({"status", "second"}, 1, "there is no job second");
  Expect({"logs", "second", "--dir", folder_ / "cluster"}, 1, "there are no logs");

  const std::string digest = cluster_.Say({"digest", "first"}).text;
  ExpectOfTheFolder({"digest"}, 0, digest);

  cluster_.up().Signal(SIGINT);
  EXPECT_EQ(cluster_.up().End(), 0) << cluster_.up().output();
  ExpectOfTheFolder({"digest"}, 0, digest);
  ExpectOfTheFolder({"audit"}, 0, "proven: each of 1009 samples");
  ExpectOfTheFolder({"status"}, 0, "job first is done");
  ExpectOfTheFolder({"ledger", "--step", "3"}, 0, "lane 6 by worker-0, 2 samples: ");
  ExpectOfTheFolder({"ledger", "--sample", "5000"}, 64, "sample: must be 0 to 1008");
  ExpectOfTheFolder({"history", "--csv"}, 0, "\n0,0,20");
  ExpectOfTheFolder({"logs"}, 0, "worker-0 | ");
  EXPECT_EQ(LinesIn(folder_ / "cluster/jobs/first/metrics.jsonl"), kManyEpochs * kStepsPerEpoch)
      << "each step once, also where a worker that stood still has cost a rewind";
  ExpectOfTheFolder({"stop"}, 0, "nothing runs in ");
  ExpectNoChildren();
}

// A cluster on loopback asks who calls, too, so that people get certificates for gRPC. Metrics are
// read elsewhere than on 127.0.0.1.
TEST(UpWithTokensTest, PeopleGetCertificatesAndMetricsAreWhereOneSays) {
  AdoptOrphans();
  const Folder folder;
  WriteFile(folder / "once.yaml", CountingSpec(kSamples, /*lanes=*/7, /*epochs=*/1));
  // An address that no other test has.
  const std::string at = absl::StrCat("127.77.", getpid() / 256 % 256, ".", getpid() % 256, ":");
  UpCluster cluster(folder / "cluster", {"--metrics-address", at.substr(0, at.size() - 1),
                                         "--metrics-port", "9000", "--slots", "2"});
  const auto say = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--dir", folder / "cluster"});
    Program program(MusterCommand(words));
    EXPECT_EQ(program.End(), 0) << words[0] << ": " << program.output();
    return program.output();
  };
  EXPECT_THAT(say({"certs", "user", "ada", "--role", "submitter", "--namespace", "default",
                   "--identity", folder / "ada"}),
              HasSubstr("/user/ada is in "));
  say({"submit", folder / "once.yaml", "--id", "one", "--set", "workers.max=2", "--set",
       "workers.min=2"});
  say({"watch", "one"});
  const std::string logs = say({"logs", "one"});
  EXPECT_THAT(logs, HasSubstr("metrics at " + at + "9001\n"));
  EXPECT_THAT(logs, HasSubstr("metrics at " + at + "9002\n"));
  const auto targets =
      nlohmann::json::parse(std::ifstream(folder / "cluster/prometheus-targets.json"));
  ASSERT_FALSE(targets.empty());
  for (const auto& target : targets)
    EXPECT_THAT(target["targets"][0].get<std::string>(), StartsWith(at + "900"));
  cluster.up().Signal(SIGINT);
  EXPECT_EQ(cluster.up().End(), 0) << cluster.up().output();
  ExpectNoChildren();
}

}  // namespace
}  // namespace muster::integration
