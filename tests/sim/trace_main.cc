// sim_trace SEED: what happens under one seed, line by line. sim_trace FIRST LAST: runs all of
// these seeds, names those that break an invariant, and counts what they reached. --launches: in
// worlds where each job has hosts that are made for it. --followers: where each has a follower.
// --streams: where the data of each comes while it trains.
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "tests/sim/seeds.h"

namespace {

using muster::sim::Coverage;
using muster::sim::FollowerOptionsOf;
using muster::sim::JobOptions;
using muster::sim::LaunchOptionsOf;
using muster::sim::OptionsOf;
using muster::sim::StreamOptions;
using muster::sim::StreamOptionsOf;
using muster::sim::World;
using muster::sim::WorldOptions;

using MakeOptions = WorldOptions (*)(uint64_t seed);

void Describe(const JobOptions& job) {
  std::cout << "job " << job.id << ": "
            << (job.sync == muster::Sync::kServer ? "server" : "allreduce") << ", " << job.workers
            << " workers, " << job.lanes << " lanes, " << job.chunks << " chunks, " << job.buffers
            << " of buffers and " << job.phases << " of phases, " << job.steps
            << " steps, checkpoint every " << job.checkpoint_every
            << (job.checkpoint_at_end ? "" : ", none at the end") << ", "
            << (job.clip_norm > 0 ? "clipped" : "not clipped")
            << (job.order == muster::SumOrder::kFree ? ", free order" : "");
  if (job.delay > 0)
    std::cout << ", measured every " << job.validation_every << " by a follower, delay "
              << job.delay;
  if (job.stream) {
    const StreamOptions& stream = *job.stream;
    std::cout << ", a stream of " << stream.samples << " samples from a "
              << (stream.from == muster::StreamFrom::kFolder ? "folder" : "socket");
    if (stream.steps > 0) std::cout << ", at most " << stream.steps << " steps";
    if (stream.stands_still_at)
      std::cout << ", which stands still before sample " << *stream.stands_still_at;
  }
  std::cout << "\n";
}

bool TellTrace(uint64_t seed, MakeOptions make) {
  const WorldOptions options = make(seed);
  World world(options);
  const bool held = world.Run();
  std::cout << "seed " << options.seed << ", " << options.faults << " faults\n";
  for (const JobOptions& job : options.jobs) Describe(job);
  for (const std::string& line : world.trace()) std::cout << line << "\n";
  std::cout << (held ? "every invariant held" : "broken: " + world.violation()) << "\n";
  return held;
}

bool RunAll(uint64_t first, uint64_t last, MakeOptions make) {
  uint64_t broken = 0;
  Coverage reached;
  for (uint64_t seed = first; seed <= last; ++seed) {
    World world(make(seed));
    const bool held = world.Run();
    reached.Add(world.coverage());
    if (held) continue;
    std::cout << "seed " << seed << ": " << world.violation() << std::endl;
    ++broken;
  }
  std::cout << reached.ToString();
  std::cout << broken << " of " << last - first + 1 << " seeds broke an invariant\n";
  return broken == 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto is_option = [&](const char* name) {
    return argc > 1 && std::strcmp(argv[1], name) == 0;
  };
  const bool launches = is_option("--launches"), followers = is_option("--followers"),
             streams = is_option("--streams");
  if (launches || followers || streams) {
    --argc;
    ++argv;
  }
  if (argc != 2 && argc != 3) {
    std::cerr << "usage: sim_trace [--launches | --followers | --streams] SEED | "
                 "sim_trace [--launches | --followers | --streams] FIRST LAST\n";
    return 64;
  }
  const MakeOptions make = launches    ? LaunchOptionsOf
                           : followers ? FollowerOptionsOf
                           : streams   ? StreamOptionsOf
                                       : OptionsOf;
  const uint64_t first = std::strtoull(argv[1], nullptr, 10);
  const bool held =
      argc == 2 ? TellTrace(first, make) : RunAll(first, std::strtoull(argv[2], nullptr, 10), make);
  return held ? 0 : 1;
}
