#include "tests/lib/transport/grpc_world.h"

#include <utility>

namespace muster {

void GrpcPair::SetUp() {
  GrpcOptions options;
  options.refused = [this](const std::string& reason) {
    MutexLock lock(mutex_);
    refusals_.push_back(reason);
  };
  server_ = MakeGrpcTransport(std::move(options));
  auto listener = server_->Listen("127.0.0.1:0", lobby_.acceptor(), Services());
  ASSERT_TRUE(listener.ok()) << listener.status();
  listener_ = *std::move(listener);
  session_ = client_->Connect(listener_->Address(), kConnectTimeout, recorder_->Handler());
  const std::optional<Accepted> accepted = lobby_.Await(0);
  ASSERT_TRUE(accepted.has_value());
  accepted_ = *accepted;
}

void GrpcPair::TearDown() {
  ExpectUndisturbed();
  listener_.reset();
}

void GrpcPair::ExpectUndisturbed() {
  session_->Send(HeaderFrame("steady"));
  EXPECT_TRUE(accepted_.recorder->AwaitFrames(++sent_)) << accepted_.recorder->broken();
}

std::vector<std::string> GrpcPair::refusals() {
  MutexLock lock(mutex_);
  return refusals_;
}

}  // namespace muster
