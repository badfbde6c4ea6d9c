// A Kubernetes API that a test plays over HTTPS, and what a pod has to reach it. Lives as long as
// whoever asks it.
#pragma once

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "coordinator/kubernetes/api.h"
#include "gtest/gtest.h"
#include "lib/http/server.h"
#include "lib/identity/certificates.h"
#include "lib/identity/identity.h"
#include "lib/identity/identity_source.h"

namespace muster::coordinator {

class PlayedServer {
 public:
  PlayedServer() {
    if (mkdtemp(folder_.data()) == nullptr) std::abort();
    WriteToken("first");
    std::ofstream(folder_ + "/ca.crt") << authority_.certificates_pem;
  }

  void WriteToken(const std::string& token) { std::ofstream(folder_ + "/token") << token; }

  void Serve(std::vector<http::Route> routes) {
    server_ = http::Server::Start(
                  "127.0.0.1:0", std::move(routes),
                  {.credentials = {.identity = IdentitySource::Of(
                                       IssueIdentity(authority_, {"c1", CoordinatorPeer{}},
                                                     absl::Now(), {"127.0.0.1"})
                                           .value())}})
                  .value();
  }

  KubeServer Place() const {
    return {.url = "https://" + server_->Address(),
            .token_file = folder_ + "/token",
            .authority_file = folder_ + "/ca.crt"};
  }

 private:
  std::string folder_ = testing::TempDir() + "/muster-kubernetes-XXXXXX";
  const Authority authority_ = MakeAuthority("c1", absl::Now() - absl::Hours(72)).value();
  std::unique_ptr<http::Server> server_;
};

// What a watch asks besides its path.
inline std::vector<std::string> QueryOfWatch() {
  return {"labelSelector",  "fieldSelector",      "limit", "watch", "resourceVersion",
          "timeoutSeconds", "allowWatchBookmarks"};
}

}  // namespace muster::coordinator
