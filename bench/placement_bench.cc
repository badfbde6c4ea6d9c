// What the coordinator's decision on places costs as a cluster grows: the pure function of
// coordinator/state/placement.h, which is asked once for all that is written together, for clusters
// of several sizes in situations of every day, and the worst that people can ask for. Nothing but
// the function is timed; coordinator_bench --hosts has the whole program.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/statistics.h"
#include "coordinator/state/placement.h"
#include "lib/base/check.h"
#include "lib/base/time.h"

namespace muster::bench {
namespace {

using coordinator::DecidePlacement;
using coordinator::PlacedJob;
using coordinator::PlacementDecision;
using coordinator::PlacementInput;
using coordinator::QueuedJob;

struct Settings {
  std::vector<int32_t> hosts = {50, 100, 500, 1000};
  int32_t slots = 8;  // of each host
  int rounds = 20;
  std::string json;
};

struct Cluster {
  int32_t hosts = 0;
  int32_t slots = 0;

  int32_t all() const { return hosts * slots; }
  static std::string Name(int32_t host) { return absl::StrCat("host-", host); }
};

PlacementInput Empty(const Cluster& cluster) {
  PlacementInput input;
  for (int32_t i = 0; i < cluster.hosts; ++i)
    input.hosts.push_back({Cluster::Name(i), Cluster::Name(i), cluster.slots});
  return input;
}

QueuedJob Queued(int64_t number, int32_t workers, int32_t priority = 0) {
  return {.id = absl::StrCat("job-", number),
          .submission = number,
          .workers_min = workers,
          .workers_max = workers,
          .left_out = {},
          .priority = priority};
}

// A job on each of the hosts, which has all its slots and can do with half of them.
PlacementInput Full(const Cluster& cluster) {
  PlacementInput input = Empty(cluster);
  for (int32_t i = 0; i < cluster.hosts; ++i) {
    PlacedJob job{.id = absl::StrCat("job-", i), .submission = i};
    for (int32_t j = 0; j < cluster.slots; ++j) {
      const std::string name = absl::StrCat("worker-", j);
      job.placed[name] = Cluster::Name(i);
      job.workers.insert(job.workers.begin(), name);
    }
    job.workers_min = std::max(1, cluster.slots / 2);
    job.workers_max = cluster.slots;
    job.may_shrink = true;
    input.running.push_back(std::move(job));
  }
  return input;
}

// What must come of it, so that no situation is measured that is another one than its name says.
using Expected = std::function<bool(const PlacementDecision&, const Cluster&)>;

struct Situation {
  const char* name;
  std::function<PlacementInput(const Cluster&)> input;
  Expected expected;
};

bool Nothing(const PlacementDecision& decision, const Cluster&) {
  return decision.places.empty() && decision.leaves.empty() && decision.give_way.empty();
}

bool AllPlaced(const PlacementDecision& decision, const Cluster& cluster) {
  return static_cast<int32_t>(decision.places.size()) == cluster.all();
}

const std::vector<Situation> kSituations = {
    {"all is full, and nobody waits", Full, Nothing},
    {"all is full, and as many jobs wait as there are hosts",
     [](const Cluster& cluster) {
       PlacementInput input = Full(cluster);
       for (PlacedJob& job : input.running) job.may_shrink = false;
       for (int32_t i = 0; i < cluster.hosts; ++i)
         input.queued.push_back(Queued(cluster.hosts + i, cluster.slots));
       return input;
     },
     Nothing},
    {"a host was lost, and one in ten is free",
     [](const Cluster& cluster) {
       PlacementInput input = Full(cluster);
       input.running.resize(static_cast<size_t>(cluster.hosts - std::max(1, cluster.hosts / 10)));
       PlacedJob& job = input.running.front();
       job.placed.clear();
       for (const std::string& name : job.workers) job.unplaced.push_back({name});
       input.hosts.erase(input.hosts.begin());
       return input;
     },
     [](const PlacementDecision& decision, const Cluster& cluster) {
       return static_cast<int32_t>(decision.places.size()) == cluster.slots;
     }},
    {"all jobs start at once, one for each host",
     [](const Cluster& cluster) {
       PlacementInput input = Empty(cluster);
       for (int32_t i = 0; i < cluster.hosts; ++i) input.queued.push_back(Queued(i, cluster.slots));
       return input;
     },
     AllPlaced},
    {"one job of all slots starts",
     [](const Cluster& cluster) {
       PlacementInput input = Empty(cluster);
       input.queued.push_back(Queued(1, cluster.all()));
       return input;
     },
     AllPlaced},
    {"a job shrinks all others, by half of the slots",
     [](const Cluster& cluster) {
       PlacementInput input = Full(cluster);
       input.queued.push_back(Queued(cluster.hosts, cluster.all() / 2));
       return input;
     },
     [](const PlacementDecision& decision, const Cluster& cluster) {
       size_t leaving = 0;
       for (const auto& [job, members] : decision.leaves) leaving += members.size();
       return static_cast<int32_t>(leaving) == cluster.all() / 2 && decision.give_way.empty();
     }},
    {"a job of a higher priority preempts all others",
     [](const Cluster& cluster) {
       PlacementInput input = Full(cluster);
       input.queued.push_back(Queued(cluster.hosts, cluster.all(), 1));
       return input;
     },
     [](const PlacementDecision& decision, const Cluster& cluster) {
       return static_cast<int32_t>(decision.preempted.size()) == cluster.hosts;
     }},
};

// Milliseconds of each round.
std::vector<double> Measure(const Situation& situation, const Cluster& cluster, int rounds) {
  const PlacementInput input = situation.input(cluster);
  std::vector<double> times;
  for (int round = -1; round < rounds; ++round) {
    PlacementInput own = input;
    const auto begin = std::chrono::steady_clock::now();
    const PlacementDecision decision = DecidePlacement(std::move(own));
    const double seconds = Seconds(std::chrono::steady_clock::now() - begin);
    if (!situation.expected(decision, cluster)) std::fprintf(stderr, "%s\n", situation.name);
    MUSTER_CHECK(situation.expected(decision, cluster));
    if (round >= 0) times.push_back(1e3 * seconds);
  }
  return times;
}

int Main(int argc, char** argv) {
  Settings settings;
  CLI::App app("What a decision on places costs as a cluster grows");
  app.add_option("--hosts", settings.hosts, "how many; several: one after the other")
      ->check(CLI::Range(2, 4096))
      ->capture_default_str();
  app.add_option("--slots", settings.slots, "of each host")
      ->check(CLI::Range(2, 64))
      ->capture_default_str();
  app.add_option("--rounds", settings.rounds)->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--json", settings.json, "file for a machine-readable record");
  CLI11_PARSE(app, argc, argv);
  nlohmann::ordered_json record = {
      {"bench", "placement"}, {"slots", settings.slots}, {"rounds", settings.rounds}};
  std::printf("milliseconds of a decision, median of %d rounds [5 … 95 %%]; %d slots a host\n",
              settings.rounds, settings.slots);
  for (const Situation& situation : kSituations) {
    std::printf("\n%s\n", situation.name);
    for (const int32_t hosts : settings.hosts) {
      const Figure figure{absl::StrCat(hosts, " hosts"), "ms",
                          Measure(situation, {hosts, settings.slots}, settings.rounds)};
      figure.Print();
      record["situations"][situation.name][absl::StrCat(hosts)] = figure.Record();
      std::fflush(stdout);
    }
  }
  if (!settings.json.empty()) std::ofstream(settings.json) << record.dump(2) << "\n";
  return 0;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) { return muster::bench::Main(argc, argv); }
