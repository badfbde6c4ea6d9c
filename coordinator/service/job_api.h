// The one implementation behind REST and gRPC: requests become inputs of the driver, what is known
// becomes answers.
#pragma once

#include <memory>
#include <string>

#include "coordinator/runtime/driver.h"
#include "coordinator/runtime/journal.h"
#include "coordinator/service/control_api.h"
#include "coordinator/service/log_followers.h"
#include "coordinator/state/kept_jobs.h"

namespace muster::coordinator {

// `driver` and `journal` outlive it; `checkpoint_root` as in DriverOptions; `most_kept` bounds what
// is submitted; `logs` as LogStore's folder; `followers` outlives every call (null: nobody may
// follow logs). One user may watch an eighth of `watchers` at a time, at least one.
std::unique_ptr<JobApi> MakeJobApi(Driver& driver, const Journal& journal,
                                   std::string checkpoint_root, JobBudget most_kept = {},
                                   std::string logs = "", LogFollowers* followers = nullptr,
                                   size_t watchers = 1000);

}  // namespace muster::coordinator
