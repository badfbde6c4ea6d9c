// What people ask of namespaces: who holds how much, and how much they may hold.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "coordinator/runtime/driver.h"
#include "coordinator/service/control_api.h"

namespace muster::coordinator {

// `driver` outlives it.
std::unique_ptr<NamespaceApi> MakeNamespaceApi(Driver& driver);

// By name: those that have a quota, and those that have jobs.
NamespaceList NamespacesOf(const KnownCluster& known);

// kResourceExhausted: so many jobs of that namespace wait that this one may not, too. It is not
// counted if it waits already.
absl::Status CheckQueued(const KnownCluster& known, const std::string& id,
                         const std::string& name_space);

}  // namespace muster::coordinator
