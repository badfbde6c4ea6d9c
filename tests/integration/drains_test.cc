// Hosts of `muster run` that are told to end by SIGTERM, any of them at any step: whoever is left
// does the work, and the first one, which has the coordinator, stays without members; where all are
// told, the job stops after a checkpoint and the same command goes on with it. No lane is run
// twice, nobody goes back, and the bits are those of an undisturbed run. The seed of a round draws
// who sums, with one worker on each host or two. How long it took from the signal until a host's
// members had ended, or the host itself, is printed; nothing is asked of it.
//
// MUSTER_DRAIN_ROUNDS says how many rounds there are, MUSTER_DRAIN_SEED the seed of the first.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"
#include "tests/integration/run_folder.h"
#include "tests/integration/up_cluster.h"
#include "tests/support/program.h"

namespace muster::integration {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr int kHosts = 3;
constexpr int kSamples = 1009;
constexpr int kLanes = 7;
constexpr int kEpochs = 10;
constexpr double kBar = 200;    // milliseconds beyond a step, which people are promised
constexpr int kLastStep = 400;  // at which anybody is told to end; the job has some more

int FromEnvironment(const char* name, int otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::atoi(value);
}

// Which hosts are told to end, at which step of the job, and of what kind the job is.
struct Round {
  std::vector<int> hosts;
  int step = 0;
  bool has_server = false;
  int workers_per_host = 1;
  bool StopsTheJob() const { return static_cast<int>(hosts.size()) == kHosts; }
  bool Tells(int host) const { return std::count(hosts.begin(), hosts.end(), host) > 0; }
};

Round RoundOf(int seed) {
  std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
  Round round{.step = static_cast<int>(random() % kLastStep)};
  const unsigned subset = 1 + static_cast<unsigned>(random()) % ((1u << kHosts) - 1);
  for (int host = 0; host < kHosts; ++host)
    if ((subset >> host & 1u) != 0) round.hosts.push_back(host);
  std::shuffle(round.hosts.begin(), round.hosts.end(), random);
  round.has_server = random() % 2 == 1;
  round.workers_per_host = 1 + static_cast<int>(random() % 2);
  return round;
}

class Hosts {
 public:
  Hosts(const Round& round, const std::string& spec, const std::string& dir) {
    const int workers = kHosts * round.workers_per_host;
    std::vector<std::string> words = {"run",
                                      spec,
                                      "--dir",
                                      dir,
                                      "--json",
                                      "--workers",
                                      absl::StrCat(workers),
                                      "--set",
                                      absl::StrCat("workers={min: 1, max: ", workers, "}"),
                                      "--nnodes",
                                      absl::StrCat(kHosts),
                                      "--coordinator",
                                      "127.0.0.1:0"};
    if (round.has_server) words.insert(words.end(), {"--set", "sync=server", "--servers", "1"});
    for (int i = 0; i < kHosts; ++i) {
      std::vector<std::string> of_host = words;
      of_host.insert(of_host.end(), {"--node-rank", absl::StrCat(i)});
      programs_.push_back(std::make_unique<Program>(MusterCommand(of_host)));
    }
  }
  Program& operator[](int host) { return *programs_[static_cast<size_t>(host)]; }

  // With which codes they ended, and when, and when members of the first one had.
  struct End {
    int code = -1;
    Clock::time_point at;
    Clock::time_point members_at;
  };
  std::vector<End> EndAll() {
    std::vector<End> ends(kHosts);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < ends.size(); ++i)
      threads.emplace_back([&end = ends[i], &program = *programs_[i], is_first = i == 0] {
        if (is_first) AwaitMembersEnd(program);
        end.members_at = Clock::now();
        end.code = program.End();
        end.at = Clock::now();
      });
    for (std::thread& thread : threads) thread.join();
    return ends;
  }

 private:
  static int CountMembers(const std::string& output, const std::string& what_tells) {
    int count = 0;
    for (const absl::string_view line : absl::StrSplit(output, '\n'))
      count += absl::StrContains(line, what_tells) &&
               !absl::StrContains(line, R"("process":"coordinator")");
    return count;
  }
  // Those that have begun. They begin together.
  static void AwaitMembersEnd(Program& program) {
    const std::string& output = program.output();
    while (CountMembers(output, R"("signal":)") <
           CountMembers(output, R"("event":"process_start")"))
      if (!program.WaitFor("\n", output.size())) return;
  }

  std::vector<std::unique_ptr<Program>> programs_;
};

// For people, in milliseconds.
struct Times {
  std::vector<double> step;                            // of each round
  std::map<std::string, std::vector<double>> to_exit;  // of each host, by what it waited for
  std::map<std::string, int> late;  // of those, beyond a step of its round and kBar
};

void Print(const std::string& what, std::vector<double> values) {
  if (values.empty()) return;
  std::sort(values.begin(), values.end());
  std::cout << absl::StrFormat("%-46s %4d  median %6.0f ms  worst %6.0f ms\n", what, values.size(),
                               values[values.size() / 2], values.back());
}

void RunRound(int seed, Times& times) {
  const Round round = RoundOf(seed);
  const bool stops = round.StopsTheJob();
  const Folder folder;
  const std::string dir = folder / "run";
  WriteFile(folder / "job.yaml", CountingSpec(kSamples, kLanes, kEpochs));
  {
    Hosts hosts(round, folder / "job.yaml", dir);
    // Steps come in order, but not each of them is shown.
    int first = -1;
    Clock::time_point began;
    for (int step = -1; step < round.step;) {
      const size_t from = hosts[0].output().size();
      ASSERT_TRUE(hosts[0].WaitFor("\"event\":\"step\",\"step\":", from)) << hosts[0].output();
      ASSERT_TRUE(hosts[0].WaitFor("\n", hosts[0].output().rfind("\"event\":\"step\"")));
      const std::string& output = hosts[0].output();
      step = std::atoi(output.c_str() + output.rfind("\"step\":") + 7);
      const Clock::time_point now = Clock::now();
      if (first < 0) {
        first = step;
        began = now;
      } else if (step >= round.step) {
        times.step.push_back(Milliseconds(now - began).count() / (step - first));
      }
    }
    std::map<int, Clock::time_point> told;
    for (const int host : round.hosts) {
      told[host] = Clock::now();
      hosts[host].Signal(SIGTERM);
    }
    const std::vector<Hosts::End> ends = hosts.EndAll();
    const bool gives_way = hosts[0].output().find("\"state\":\"stopping\"") != std::string::npos;
    for (int i = 0; i < kHosts; ++i) {
      const Hosts::End& end = ends[static_cast<size_t>(i)];
      // The first one goes last, and ends as the run does.
      EXPECT_EQ(end.code, stops || (round.Tells(i) && i != 0) ? 75 : 0) << hosts[i].output();
      if (!round.Tells(i)) continue;
      const bool has_checkpoint = stops || gives_way;
      const std::string what = absl::StrCat(i == 0 ? "members of the first host" : "another host",
                                            ", after ", has_checkpoint ? "a checkpoint" : "a step");
      const double took = Milliseconds((i == 0 ? end.members_at : end.at) - told[i]).count();
      const double step = times.step.empty() ? 0 : times.step.back();
      times.to_exit[what].push_back(took);
      times.late[what] += took > step + kBar;
    }
  }
  if (stops) {
    EXPECT_EQ(ReadJson(dir + "/result.json")["state"], "stopped");
    Hosts again(round, folder / "job.yaml", dir);
    for (const Hosts::End& end : again.EndAll()) EXPECT_EQ(end.code, 0) << again[0].output();
  }
  const nlohmann::json result = ReadJson(dir + "/result.json");
  ASSERT_TRUE(result.is_object());
  EXPECT_EQ(result["state"], "done") << result;
  EXPECT_EQ(result["digest"], CountingDigest(kSamples, static_cast<float>(kEpochs)));
  EXPECT_EQ(result["rewinds"], 0) << result;
  EXPECT_EQ(result["lanes_recomputed"], 0) << result;
  const nlohmann::json audit = Audit(dir, result["job"]);
  EXPECT_EQ(audit["ok"], true) << audit;
}

TEST(Drains, AnyHostsMayBeToldToEndAndNobodyGoesBack) {
  const int rounds = FromEnvironment("MUSTER_DRAIN_ROUNDS", MUSTER_ROUNDS);
  const int first = FromEnvironment("MUSTER_DRAIN_SEED", MUSTER_FIRST_SEED);
  Times times;
  for (int seed = first; seed < first + rounds; ++seed) {
    SCOPED_TRACE(absl::StrCat("MUSTER_DRAIN_ROUNDS=1 MUSTER_DRAIN_SEED=", seed));
    RunRound(seed, times);
    if (::testing::Test::HasFailure()) return;
  }
  Print("a step", times.step);
  for (const auto& [what, values] : times.to_exit) {
    Print("SIGTERM to the end: " + what, values);
    std::cout << absl::StrFormat("  later than a step of its round and %.0f ms: %d of %d\n", kBar,
                                 times.late[what], values.size());
  }
}

}  // namespace
}  // namespace muster::integration
