// Programs of different versions in one cluster (docs/protocol.md section 10). `next` speaks our
// form of the protocol and a newer one, `later` only one that we do not know.
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/version.h"
#include "nlohmann/json.hpp"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"
#include "tests/integration/up_cluster.h"
#include "tests/support/program.h"
#include "tests/support/text_of.h"

namespace muster::integration {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;
using ::testing::ContainsRegex;

constexpr int kSamples = 1009;
constexpr int kLanes = 7;
constexpr int kEndless = 1'000'000;             // epochs; it is stopped
constexpr std::chrono::seconds kDeadline{100};  // of whatever is waited for

std::string Ours(const std::string& program) { return absl::StrCat(MUSTER_PROGRAMS, "/", program); }
std::string Next(const std::string& program) {
  return absl::StrCat(MUSTER_VERSIONS, "/next/", program);
}
std::string Later(const std::string& program) {
  return absl::StrCat(MUSTER_VERSIONS, "/later/", program);
}

// The programs of a host in a folder of their own, where others can be put in their place, as an
// installation does while they run.
class Programs {
 public:
  Programs() {
    std::string name = absl::StrCat(MUSTER_VERSIONS, "/test-XXXXXX");  // for the sake of the links
    EXPECT_NE(mkdtemp(name.data()), nullptr) << name;
    path_ = name;
    for (const char* program : {"muster", "muster-coordinator", "muster-server", "muster-worker"})
      Put(program, Ours(program));
  }
  ~Programs() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Programs(const Programs&) = delete;
  Programs& operator=(const Programs&) = delete;

  void Put(const std::string& program, const std::string& from) const {
    const std::string at = absl::StrCat(path_, "/", program);
    fs::create_hard_link(from, at + ".new");
    fs::rename(at + ".new", at);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class VersionsTest : public ::testing::Test {
 protected:
  // The running coordinator; 0: none.
  pid_t Coordinator() const {
    for (const pid_t child : cluster_.up().Children()) {
      std::string name;
      std::getline(std::ifstream(absl::StrCat("/proc/", child, "/comm")), name);
      if (absl::StartsWith(name, "muster-coordi")) return child;
    }
    return 0;
  }
  // Kills it, and that program comes in its place, with the same store.
  void Replace(const std::string& by) {
    programs_.Put("muster-coordinator", by);
    const pid_t before = Coordinator();
    ASSERT_GT(before, 0) << cluster_.up().output();
    kill(before, SIGKILL);
    const auto deadline = Clock::now() + kDeadline;
    std::error_code gone;
    for (pid_t now = before; now == before || now == 0 ||
                             !fs::equivalent(absl::StrCat("/proc/", now, "/exe"), by, gone);
         now = Coordinator())
      ASSERT_LT(Clock::now(), deadline) << by << " is not started\n" << cluster_.up().output();
  }
  void Submit(int epochs, int workers) {
    WriteFile(folder_ / "job.yaml", CountingSpec(kSamples, kLanes, epochs));
    const UpCluster::Said said = cluster_.Say({"submit", folder_ / "job.yaml", "--id", "job",
                                               "--set", absl::StrCat("workers=", workers)});
    ASSERT_EQ(said.exit_code, 0) << said.text;
  }
  Json Status() const { return cluster_.Ask({"status", "job", "--json"}); }
  // Until so many steps more than now are in the ledger.
  void AwaitSteps(int64_t more) const {
    int64_t until = -1;
    Json status;
    for (const auto deadline = Clock::now() + kDeadline; Clock::now() < deadline;) {
      status = Status();
      if (!status.is_object()) continue;  // no coordinator answers
      const auto step = status.value("step", int64_t{0});
      if (until < 0) until = step + more;
      if (step >= until) return;
    }
    FAIL() << "no steps are done: " << status << "\n" << cluster_.up().output();
  }
  void AwaitLog(const std::string& text) const {
    for (const auto deadline = Clock::now() + kDeadline; !AMemberSays(cluster_.dir(), text);)
      ASSERT_LT(Clock::now(), deadline) << "no member says: " << text;
  }
  // With the bits of an undisturbed run of as many steps, and nothing was lost on the way.
  void StopAndCheck() const {
    EXPECT_EQ(cluster_.Say({"stop", "job"}).exit_code, 0);
    cluster_.Say({"watch", "job"});
    const Json job = Status();
    EXPECT_EQ(job.value("state", ""), "stopped") << job;
    EXPECT_EQ(job.value("recoveries", -1), 0) << job;
    EXPECT_EQ(job.value("rewinds", -1), 0) << job;
    EXPECT_EQ(job.value("lanes_recomputed", -1), 0) << job;
    const std::string spec =
        absl::StrReplaceAll(CountingSpec(kSamples, kLanes, kEndless),
                            {{absl::StrCat("epochs: ", kEndless),
                              absl::StrCat("steps: ", job.value("step", int64_t{-1}))}});
    EXPECT_EQ(job.value("digest", ""), UndisturbedDigest(spec, folder_ / "undisturbed")) << job;
    const Json audit = cluster_.Ask({"audit", "job", "--json"});
    EXPECT_TRUE(audit.value("ok", false)) << audit;
  }

  const Folder folder_;
  const Programs programs_;
  UpCluster cluster_{folder_ / "cluster",
                     {"--slots", "2", "--host", "a", "--coordinator", "127.0.0.1:0"},
                     programs_.path()};
};

// Its worker has nothing in common with the coordinator, so that host is left out, and the job runs
// on the others.
TEST_F(VersionsTest, AWorkerOfALaterVersionIsRefusedAndItsHostLeftOut) {
  const Programs mixed;
  mixed.Put("muster-worker", Later("muster-worker"));
  const std::unique_ptr<Program> agent = cluster_.Join("b", {"--slots", "4"}, mixed.path());

  Submit(/*epochs=*/2, /*workers=*/2);  // where most room is: on host b
  ExpectCountedJob(cluster_, "job", kSamples, 2);
  // Its events are in the coordinator's log, with the last lines of the worker's.
  const std::string events = TextOf(cluster_.dir() + "/logs/coordinator.log");
  EXPECT_THAT(events, ContainsRegex("host b is left out for this job: worker-[01] ended with exit "
                                    "code 78"));
  EXPECT_THAT(events,
              ContainsRegex(absl::StrCat(
                  "worker-[01] ended with exit code 78 \\(.*\\): worker-[01] is Muster 9.2.0 and "
                  "speaks protocol 3, and the coordinator is Muster ",
                  kVersion, " and speaks protocol ")));
}

// A worker of the next version in place of ours, and of one before under a coordinator of the next.
TEST_F(VersionsTest, VersionsNextToEachOtherWorkTogether) {
  programs_.Put("muster-worker", Next("muster-worker"));
  Submit(/*epochs=*/2, /*workers=*/2);
  ExpectCountedJob(cluster_, "job", kSamples, 2);
}

// A rolling upgrade of the coordinator, and back, in the middle of a job.
TEST_F(VersionsTest, TheCoordinatorIsReplacedByTheNextVersionAndBack) {
  Submit(kEndless, /*workers=*/2);
  AwaitSteps(20);
  Replace(Next("muster-coordinator"));
  AwaitSteps(20);
  Replace(Ours("muster-coordinator"));
  AwaitSteps(20);
  StopAndCheck();
}

// One that understands nobody here was installed by mistake: nobody obeys it, and nothing is lost
// if it does not stay for long.
TEST_F(VersionsTest, ACoordinatorThatUnderstandsNobodyCostsNothing) {
  Submit(kEndless, /*workers=*/2);
  AwaitSteps(20);
  Replace(Later("muster-coordinator"));
  AwaitLog("and the coordinator is Muster 9.2.0 and speaks protocol 3");
  EXPECT_TRUE(cluster_.up().WaitFor("and the coordinator is Muster 9.2.0 and speaks protocol 3"))
      << cluster_.up().output();
  Replace(Ours("muster-coordinator"));
  AwaitSteps(20);
  StopAndCheck();
}

}  // namespace
}  // namespace muster::integration
