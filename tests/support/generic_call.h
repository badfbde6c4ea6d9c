// A unary call of any method with any bytes: what the typed stubs would not send.
#pragma once

#include <grpcpp/generic/generic_stub.h>

#include <memory>
#include <string>

namespace muster {

struct GenericAnswer {
  grpc::Status status;
  std::string bytes;  // of the response, where the status is OK
};

inline GenericAnswer CallGenerically(const std::shared_ptr<grpc::Channel>& channel,
                                     const std::string& method, const std::string& request) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const grpc::Slice slice(request);
  const auto call = stub.PrepareUnaryCall(&context, method, grpc::ByteBuffer(&slice, 1), &queue);
  GenericAnswer answer;
  grpc::ByteBuffer response;
  call->StartCall();
  call->Finish(&response, &answer.status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  queue.Shutdown();
  grpc::Slice bytes;
  if (answer.status.ok() && response.DumpToSingleSlice(&bytes).ok())
    answer.bytes.assign(bytes.begin(), bytes.end());
  return answer;
}

}  // namespace muster
