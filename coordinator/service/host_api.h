// What people ask of hosts, answered from what is known of them and of the jobs that are placed
// there: nothing that is decided waits for whoever looks.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "coordinator/runtime/driver.h"
#include "coordinator/service/control_api.h"
#include "lib/base/clock.h"

namespace muster::coordinator {

// `driver` and `clock`, which is the driver's, outlive it.
std::unique_ptr<HostApi> MakeHostApi(Driver& driver, const Clock& clock);

absl::StatusOr<HostPage> HostPageOf(const KnownCluster& known, const HostQuery& query, Time now);
// kNotFound names some that are there.
absl::StatusOr<HostInfo> HostOf(const KnownCluster& known, const std::string& name, Time now,
                                const std::string& scope = std::string(kAllNamespaces));

}  // namespace muster::coordinator
