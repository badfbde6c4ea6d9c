// The one implementation behind REST and gRPC: requests become inputs of the driver, what is known
// becomes answers.
#pragma once

#include <memory>
#include <string>

#include "coordinator/runtime/driver.h"
#include "coordinator/runtime/journal.h"
#include "coordinator/service/control_api.h"

namespace muster::coordinator {

// `driver` and `journal` outlive it; `checkpoint_root` as in DriverOptions.
std::unique_ptr<JobApi> MakeJobApi(Driver& driver, const Journal& journal,
                                   std::string checkpoint_root);

}  // namespace muster::coordinator
