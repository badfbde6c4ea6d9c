// A cluster that waits for jobs, as a user has it: `muster up`, and every command that talks to it,
// while one job runs, another waits for its turn and a third is cancelled.
#include <signal.h>

#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"
#include "tests/support/program.h"

namespace muster::integration {
namespace {

using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr int kSamples = 1009;
constexpr int kManyEpochs = 20;  // long enough to be caught while it runs
constexpr int kStepsPerEpoch = 64;

std::vector<std::string> Muster(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), std::string(MUSTER_PROGRAMS) + "/muster");
  return arguments;
}

std::string NameOf(pid_t pid) {
  std::string name;
  std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/comm"), name);
  return name;
}

// `muster up` and the commands that are given its address.
class Cluster {
 public:
  explicit Cluster(const std::string& dir)
      : up_(Muster({"up", "--dir", dir, "--listen", "127.0.0.1:0"})) {
    const std::string ready = "ready at ";
    if (!up_.WaitFor(ready) || !up_.WaitFor("\n", up_.output().find(ready))) return;
    const size_t at = up_.output().find(ready) + ready.size();
    url_ = up_.output().substr(at, up_.output().find('\n', at) - at);
  }

  std::vector<std::string> Command(std::vector<std::string> words) const {
    words.insert(words.end(), {"--to", url_});
    return Muster(words);
  }
  struct Said {
    int exit_code = -1;
    std::string text;
  };
  Said Say(const std::vector<std::string>& words) const {
    Program program(Command(words));
    const int exit_code = program.End();
    return {exit_code, program.output()};
  }
  pid_t WorkerPid() const {
    for (const pid_t child : up_.Children())
      if (NameOf(child) == "muster-worker") return child;
    return -1;
  }
  Program& up() { return up_; }

 private:
  Program up_;
  std::string url_;
};

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
    const Cluster::Said said = cluster_.Say(words);
    EXPECT_EQ(said.exit_code, exit_code) << words[0] << ": " << said.text;
    EXPECT_THAT(said.text, HasSubstr(text)) << words[0];
  }
  // While the only worker stands still no step is done, however long this takes.
  void ListsOneThatRunsAndOthersThatWait() {
    const pid_t worker = cluster_.WorkerPid();
    ASSERT_GT(worker, 0) << cluster_.up().output();
    kill(worker, SIGSTOP);
    const Cluster::Said list = cluster_.Say({"list"});
    kill(worker, SIGCONT);
    EXPECT_EQ(list.exit_code, 0);
    EXPECT_THAT(list.text,
                AnyOf(ContainsRegex("first +running"), ContainsRegex("first +recovering")));
    EXPECT_THAT(list.text, ContainsRegex("second +queued"));
    EXPECT_THAT(list.text, ContainsRegex("third +queued"));
  }
  void ExpectCounted(const std::string& job, int epochs) {
    const Cluster::Said digest = cluster_.Say({"digest", job});
    EXPECT_EQ(digest.exit_code, 0) << digest.text;
    const nlohmann::json told = Parsed(digest.text);
    ASSERT_TRUE(told.is_object()) << digest.text;
    EXPECT_EQ(told.value("digest", ""), CountingDigest(kSamples, static_cast<float>(epochs)));
    EXPECT_EQ(told.value("step", -1), epochs * kStepsPerEpoch);
    Expect({"audit", job}, 0, "\"ok\":true");
    Expect({"status", job}, 0, "job " + job + " is done");
    Expect({"status", job}, 0, told.value("digest", "none"));
  }

  const Folder folder_;
  Cluster cluster_{folder_ / "cluster"};
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
  Expect({"watch", "second"}, 0, "job second is done");
  Expect({"watch", "third"}, 1, "job third is cancelled");
  ExpectCounted("first", kManyEpochs);
  ExpectCounted("second", 1);
  Expect({"cancel", "first"}, 1, "first is done");
  Expect({"status", "fourth"}, 1, "there is no job fourth");

  cluster_.up().Signal(SIGINT);
  EXPECT_EQ(cluster_.up().End(), 0) << cluster_.up().output();
  ExpectNoChildren();
}

}  // namespace
}  // namespace muster::integration
