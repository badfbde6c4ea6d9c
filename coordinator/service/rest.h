// The REST interface: jobs as JSON, events as server-sent events (docs/rest.md lists the
// paths).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/runtime/background.h"
#include "coordinator/service/control_api.h"
#include "coordinator/service/gate.h"
#include "lib/http/server.h"

namespace muster::coordinator {

// `api` outlives the server that gets the routes. `metrics`, `healthy` and `ready` as in
// MetricsRoute, HealthRoute and ReadyRoute. Large answers of the api are made on the thread
// `large_answers`, which outlives the server too; null: at once, as all others are.
// `gate` lets in whoever may, and outlives the server; null: nobody is asked who he is.
std::vector<http::Route> RestRoutes(JobApi& api, std::function<std::string()> metrics,
                                    std::function<absl::Status()> healthy,
                                    std::function<absl::Status()> ready,
                                    Background* large_answers = nullptr, Gate* gate = nullptr);
// The paths of namespaces, to be served beside these; and of hosts.
std::vector<http::Route> NamespaceRoutes(NamespaceApi& api, Background* large_answers = nullptr,
                                         Gate* gate = nullptr);
std::vector<http::Route> HostRoutes(HostApi& api, Background* large_answers = nullptr,
                                    Gate* gate = nullptr);

}  // namespace muster::coordinator
