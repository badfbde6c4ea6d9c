#include "lib/member/runtime/setup.h"

#include <utility>

#include "lib/base/status.h"
#include "lib/domain/grid.h"
#include "lib/optim/optim.h"

namespace muster {

absl::StatusOr<SetupPtr> MakeSetup(const JobIs& job, JobFacts facts) {
  auto setup = std::make_shared<Setup>();
  absl::StatusOr<Layout> layout = Layout::Make(facts.tensors, ChunkBytes(job.spec.law));
  MUSTER_RETURN_IF_ERROR(Prefix(absl::StrCat("job ", job.job), layout.status()));
  if (facts.samples == 0)
    return absl::InvalidArgumentError(absl::StrCat("job ", job.job, ": data: there is no sample"));
  setup->job = job.job;
  setup->spec = job.spec;
  setup->layout = *std::move(layout);
  setup->total_steps = TotalSteps(job.spec.law, facts.samples);
  setup->facts = std::move(facts);
  setup->checkpoint_dir = job.checkpoint_dir;
  setup->pool = std::make_shared<FlatPool>(static_cast<size_t>(setup->layout.elements()));
  setup->slots = SlotCount(job.spec.law.optimizer.kind);
  return setup;
}

MemberConfig ConfigOf(const Setup& setup, const MemberPlace& place) {
  const Law& law = setup.spec.law;
  MemberConfig config;
  config.job = setup.job;
  config.id = place.id;
  config.role = place.role;
  config.node = place.node;
  config.address = place.address;
  config.sync = law.sync;
  config.order = law.order;
  config.lanes = law.lanes;
  for (const Chunk& chunk : setup.layout.chunks()) config.chunks.push_back(chunk.kind);
  config.slots = setup.slots;
  config.clips = law.clip_norm > 0;
  config.fingerprint_every = setup.spec.run.fingerprint_every;
  config.checkpoint_every = setup.spec.run.checkpoint.every_steps;
  config.law = law;
  config.facts = setup.facts;
  return config;
}

}  // namespace muster
