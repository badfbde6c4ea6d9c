// The accepting side: one gRPC server, the gate that lets connections in, its completion threads,
// and the sessions it accepted.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/loopback.h"
#include "lib/base/mutex.h"
#include "lib/identity/identity_source.h"
#include "lib/transport/grpc/completion_thread.h"
#include "lib/transport/grpc/connection_gate.h"
#include "lib/transport/grpc/session_core.h"

namespace muster {

struct ListenerLimits {
  int threads = 1;
  // At a time, of all kinds. More are turned away before gRPC sees them; a little below that,
  // sessions are refused with RESOURCE_EXHAUSTED, so that most hear it that way.
  int connections = 2;
  const grpc::ResourceQuota* quota = nullptr;     // of the transport; may be null
  std::shared_ptr<IdentitySource> own = nullptr;  // without it plain text is spoken
};

class GrpcListener final : public Listener {
 public:
  static absl::StatusOr<std::unique_ptr<Listener>> Make(const HostPort& address,
                                                        ListenerLimits limits, Acceptor acceptor,
                                                        const std::vector<grpc::Service*>& services,
                                                        std::shared_ptr<SessionRegistry> registry);
  ~GrpcListener() override;
  std::string Address() const override { return gate_->address(); }

 private:
  // Waits, again and again, for the next call on one queue.
  class Slot final : public Completion {
   public:
    Slot(GrpcListener* listener, grpc::ServerCompletionQueue* queue)
        : listener_(listener), queue_(queue) {}
    void Request();
    void Done(bool ok) override;

   private:
    GrpcListener* const listener_;
    grpc::ServerCompletionQueue* const queue_;
    std::unique_ptr<grpc::GenericServerContext> context_;
    std::unique_ptr<grpc::GenericServerAsyncReaderWriter> stream_;
  };

  GrpcListener(ListenerLimits limits, Acceptor acceptor, std::shared_ptr<SessionRegistry> registry);
  absl::Status Start(const HostPort& address, const std::vector<grpc::Service*>& services);
  void OpenGate();
  void OnCall(std::unique_ptr<grpc::GenericServerContext> context,
              std::unique_ptr<grpc::GenericServerAsyncReaderWriter> stream);
  bool closing() const;
  void SlotEnded();

  const ListenerLimits limits_;
  const size_t most_sessions_;
  const Acceptor acceptor_;
  const std::shared_ptr<SessionRegistry> registry_;
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> into_server_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<ConnectionGate> gate_;
  std::shared_ptr<GivenSockets> given_;  // of the gate, and longer there than it
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<std::unique_ptr<CompletionThread>> threads_;

  mutable Mutex mutex_;
  CondVar slot_ended_;
  size_t open_slots_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace muster
