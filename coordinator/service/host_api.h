// What people ask of hosts, answered from what is known of them and of the jobs that are placed
// there: nothing that is decided waits for whoever looks.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "coordinator/runtime/driver.h"
#include "coordinator/runtime/launcher_note.h"
#include "coordinator/service/control_api.h"
#include "lib/base/clock.h"

namespace muster::coordinator {

// `driver`, `clock`, which is the driver's, and `launcher` outlive it. `launcher` null: there is
// none.
std::unique_ptr<HostApi> MakeHostApi(Driver& driver, const Clock& clock,
                                     const LauncherNote* launcher);

// `launcher` null: there is none.
absl::StatusOr<HostPage> HostPageOf(const KnownCluster& known, const HostQuery& query, Time now,
                                    const LauncherNote* launcher = nullptr);
// kNotFound names some that are there.
absl::StatusOr<HostInfo> HostOf(const KnownCluster& known, const std::string& name, Time now,
                                const std::string& scope = std::string(kAllNamespaces));

}  // namespace muster::coordinator
