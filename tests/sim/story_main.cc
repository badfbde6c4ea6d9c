// sim_story SEED: what happens under one seed, as a story.
#include <cstdlib>
#include <iostream>

#include "tests/sim/seeds.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: sim_story SEED\n";
    return 64;
  }
  const muster::sim::WorldOptions options = muster::sim::OptionsOf(std::strtoull(argv[1], nullptr, 10));
  muster::sim::World world(options);
  const bool held = world.Run();
  std::cout << "seed " << options.seed << ": " << (options.sync == muster::Sync::kServer ? "server" : "allreduce") << ", "
            << options.workers << " workers, " << options.lanes << " lanes, " << options.chunks << " chunks, "
            << options.steps << " steps, checkpoint every " << options.checkpoint_every << ", "
            << (options.clip_norm > 0 ? "clipped" : "not clipped") << "\n";
  for (const std::string& line : world.story()) std::cout << line << "\n";
  std::cout << (held ? "every invariant held" : "broken: " + world.violation()) << "\n";
  return held ? 0 : 1;
}
