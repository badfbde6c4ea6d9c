// What people see and change of the authority (docs/identity.md section 7).
#pragma once

#include <memory>

#include "coordinator/runtime/driver.h"
#include "coordinator/service/cluster_authority.h"
#include "coordinator/service/control_api.h"

namespace muster::coordinator {

// Both outlive it; `driver` knows which hosts there are.
std::unique_ptr<AuthorityApi> MakeAuthorityApi(Driver& driver, ClusterAuthority& authority);

}  // namespace muster::coordinator
