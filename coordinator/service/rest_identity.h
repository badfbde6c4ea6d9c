// The paths of REST about who is let in: tokens, hosts that join, certificates, the authority.
#pragma once

#include <vector>

#include "coordinator/runtime/background.h"
#include "coordinator/service/control_api.h"
#include "coordinator/service/gate.h"
#include "lib/http/server.h"

namespace muster::coordinator {

// Each api outlives the server that gets the routes. `large_answers` and `gate` as of RestRoutes.
// Tokens are of use only with a gate.
std::vector<http::Route> TokenRoutes(TokenApi& api, Background* large_answers, Gate& gate);
// Of hosts that may join, and of certificates for people: where there is an authority.
std::vector<http::Route> JoiningRoutes(HostTokenApi& hosts, CertificateApi& certificates,
                                       Gate* gate);
std::vector<http::Route> AuthorityRoutes(AuthorityApi& api, Gate* gate);

}  // namespace muster::coordinator
