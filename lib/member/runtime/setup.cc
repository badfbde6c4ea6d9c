#include "lib/member/runtime/setup.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "lib/base/memory_cgroup.h"
#include "lib/base/status.h"
#include "lib/domain/grid.h"
#include "lib/optim/optim.h"

namespace muster {

absl::Status CheckMemoryOfMember(const Layout& layout, int slots) {
  const double need = LeastMemoryOfMember(layout.elements(), slots);
  const auto have = static_cast<double>(MemoryForUs());
  if (need <= have) return absl::OkStatus();
  int64_t parameters = 0;
  for (const Placed& tensor : layout.tensors()) parameters += tensor.count;
  return absl::FailedPreconditionError(absl::StrFormat(
      "the model has %d parameters: with gradients and optimizer slots a process needs %.1f GB of "
      "memory and more, and may have %.1f GB of this machine's; make the model smaller, take an "
      "optimizer with fewer slots, or raise the limit of its cgroup if it has one",
      parameters, need / 1e9, have / 1e9));
}

absl::StatusOr<SetupPtr> MakeSetup(const JobIs& job, NumericEnvironment environment) {
  auto setup = std::make_shared<Setup>();
  absl::StatusOr<Layout> layout = Layout::Make(environment.tensors, ChunkBytes(job.spec.training));
  if (!layout.ok())
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job.job, ": ", layout.status().message()));
  if (environment.samples == 0)
    return absl::InvalidArgumentError(absl::StrCat("job ", job.job, ": data: there is no sample"));
  setup->slots = SlotCount(job.spec.training);
  MUSTER_RETURN_IF_ERROR(CheckMemoryOfMember(*layout, setup->slots));
  MUSTER_ASSIGN_OR_RETURN(setup->rules, UpdateRules::Make(job.spec.training, *layout));
  setup->sums = SumPlaces(job.spec.training.validation, *layout);
  setup->job = job.job;
  setup->start = job.start;
  setup->cluster = job.cluster;
  setup->spec = job.spec;
  setup->layout = *std::move(layout);
  setup->total_steps = TotalSteps(job.spec.training, environment.samples);
  setup->environment = std::move(environment);
  setup->checkpoint_dir = job.checkpoint_dir;
  setup->pool = std::make_shared<FlatPool>(static_cast<size_t>(setup->layout.elements()));
  setup->part_memory = std::make_shared<PartMemory>();
  return setup;
}

MemberConfig ConfigOf(const Setup& setup, const MemberPlace& place) {
  const TrainingSpec& training = setup.spec.training;
  MemberConfig config;
  config.job = setup.job;
  config.start = setup.start;
  config.id = place.id;
  config.placement = place.placement;
  config.role = place.role;
  config.node = place.node;
  config.address = place.address;
  for (const Chunk& chunk : setup.layout.chunks()) config.chunks.push_back(chunk.kind);
  for (const PhasePlace& phase : setup.layout.phases())
    for (int32_t c = 0; c < phase.chunks; ++c)
      config.layers[ChunkId(phase.first_chunk.value() + c)] =
          LayerOfPhase(setup.layout.tensors()[phase.tensor].spec.name);
  config.slots = setup.slots;
  config.fingerprint_every = setup.spec.runtime.fingerprint_every;
  config.checkpoint_every = setup.spec.runtime.checkpoint.every_steps;
  config.checkpoint_epochs = StepsOfEpochs(training, setup.environment.samples,
                                           setup.spec.runtime.checkpoint.every_epochs);
  config.saves_measured = !setup.spec.runtime.checkpoint.keep_best.empty();
  if (!setup.spec.runtime.checkpoint.at_end) config.unsaved_end = Step(setup.total_steps);
  config.training = training;
  config.environment = setup.environment;
  return config;
}

}  // namespace muster
