// What a member knows of its job once it may join: fixed for its life, shared by all its threads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/domain/job.h"
#include "lib/domain/layout.h"
#include "lib/domain/message.h"
#include "lib/domain/update_rules.h"
#include "lib/domain/validation.h"
#include "lib/member/runtime/flat_pool.h"
#include "lib/member/runtime/part_memory.h"
#include "lib/member/state/member.h"

namespace muster {

struct Setup {
  std::string job;
  StartNumber start;
  std::string cluster;
  JobSpec spec;
  NumericEnvironment environment;
  Layout layout;
  UpdateRules rules;
  SumPlaces sums;  // of a job with validation, or one that leaves out bad samples
  int64_t total_steps = 0;
  std::string checkpoint_dir;      // absolute
  int slots = 0;                   // SlotCount(spec.training)
  std::shared_ptr<FlatPool> pool;  // of the whole member
  std::shared_ptr<PartMemory> part_memory;
};
using SetupPtr = std::shared_ptr<const Setup>;

// kFailedPrecondition: the tensors of the numeric environment make no layout, this machine has not
// the memory for it, or a group of the job has no parameter. kInvalidArgument: there is no sample.
absl::StatusOr<SetupPtr> MakeSetup(const JobIs& job, NumericEnvironment environment);

// kFailedPrecondition, with both amounts: a member of a job with this flat space and so many
// optimizer slots needs more memory than this process may have.
absl::Status CheckMemoryOfMember(const Layout& layout, int slots);

struct MemberPlace {
  MemberId id;
  PlacementNumber placement;  // 0: no host agent started us
  Role role = Role::kWorker;
  std::string node;
  std::string address;  // of its data port
};
MemberConfig ConfigOf(const Setup& setup, const MemberPlace& place);

}  // namespace muster
