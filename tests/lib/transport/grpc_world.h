// A listener with a lobby and a connected session, over gRPC: the well-behaved pair that others try
// to disturb.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/base/mutex.h"
#include "lib/transport/grpc/grpc_transport.h"
#include "tests/lib/transport/transport_suite.h"

namespace muster {

class GrpcPair : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  // A frame still gets from one end of the good session to the other.
  void ExpectUndisturbed();
  virtual std::vector<grpc::Service*> Services() { return {}; }
  std::vector<std::string> refusals();

  Mutex mutex_;
  std::vector<std::string> refusals_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<GrpcTransport> server_;
  std::unique_ptr<GrpcTransport> client_ = MakeGrpcTransport({});
  Lobby lobby_;
  std::unique_ptr<Listener> listener_;
  std::shared_ptr<Recorder> recorder_ = std::make_shared<Recorder>();
  std::shared_ptr<Session> session_;
  Accepted accepted_;
  size_t sent_ = 0;
};

}  // namespace muster
