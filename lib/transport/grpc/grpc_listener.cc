#include "lib/transport/grpc/grpc_listener.h"

#include <grpcpp/security/server_credentials.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/status.h"
#include "lib/transport/grpc/hand_over.h"
#include "lib/transport/grpc/settings.h"
#include "lib/transport/grpc/streams.h"

namespace muster {
namespace {

// How many of the connections are kept for other calls than sessions, and for saying no.
int SpareConnections(int connections) { return std::clamp(connections / 16, 1, 64); }

}  // namespace

GrpcListener::GrpcListener(ListenerLimits limits, Acceptor acceptor,
                           std::shared_ptr<SessionRegistry> registry)
    : limits_(limits),
      most_sessions_(
          static_cast<size_t>(limits.connections - SpareConnections(limits.connections))),
      acceptor_(std::move(acceptor)),
      registry_(std::move(registry)) {}

absl::StatusOr<std::unique_ptr<Listener>> GrpcListener::Make(
    const HostPort& address, ListenerLimits limits, Acceptor acceptor,
    const std::vector<grpc::Service*>& services, std::shared_ptr<SessionRegistry> registry) {
  std::unique_ptr<GrpcListener> listener(
      new GrpcListener(limits, std::move(acceptor), std::move(registry)));
  MUSTER_RETURN_IF_ERROR(listener->Start(address, services));
  return listener;
}

absl::Status GrpcListener::Start(const HostPort& address,
                                 const std::vector<grpc::Service*>& services) {
  MUSTER_ASSIGN_OR_RETURN(gate_, ConnectionGate::Listen(address, limits_.connections));
  grpc::ServerBuilder builder;
  ApplyServerSettings(builder);
  if (limits_.quota != nullptr) builder.SetResourceQuota(*limits_.quota);
  into_server_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      grpc::InsecureServerCredentials());
  builder.RegisterAsyncGenericService(&service_);
  for (grpc::Service* service : services) builder.RegisterService(service);
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues;
  for (int i = 0; i < limits_.threads; ++i) queues.push_back(builder.AddCompletionQueue());
  server_ = builder.BuildAndStart();
  if (!server_) {
    return absl::UnavailableError(
        absl::StrCat("gRPC could not serve ", gate_->address(), "; try again"));
  }
  {
    MutexLock lock(mutex_);
    open_slots_ = queues.size();
  }
  for (auto& queue : queues) slots_.push_back(std::make_unique<Slot>(this, queue.get()));
  for (auto& slot : slots_) slot->Request();
  for (auto& queue : queues)
    threads_.push_back(std::make_unique<CompletionThread>(std::move(queue)));
  OpenGate();
  return absl::OkStatus();
}

void GrpcListener::OpenGate() {
  gate_->Open([this](int listener, int fd) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.listener_fd = listener;
    connection.fd = fd;
    into_server_->HandleNewConnection(&connection);
  });
}

GrpcListener::~GrpcListener() {
  if (!server_) return;
  {
    MutexLock lock(mutex_);
    closing_ = true;
  }
  registry_->CloseAll(absl::CancelledError(absl::StrCat("listener on ", Address(), " closed")));
  gate_.reset();
  server_->Shutdown(std::chrono::system_clock::now());
  registry_->AwaitEmpty();
  {
    MutexLock lock(mutex_);
    while (open_slots_ > 0) slot_ended_.Wait(mutex_);
  }
  threads_.clear();
}

bool GrpcListener::closing() const {
  MutexLock lock(mutex_);
  return closing_;
}

void GrpcListener::SlotEnded() {
  MutexLock lock(mutex_);
  --open_slots_;
  slot_ended_.NotifyAll();
}

void GrpcListener::Slot::Request() {
  context_ = std::make_unique<grpc::GenericServerContext>();
  stream_ = std::make_unique<grpc::GenericServerAsyncReaderWriter>(context_.get());
  GiveToGrpc(this);
  listener_->service_.RequestCall(context_.get(), stream_.get(), queue_, queue_, this);
}

void GrpcListener::Slot::Done(bool ok) {
  if (ok) listener_->OnCall(std::move(context_), std::move(stream_));
  if (!ok || listener_->closing()) return listener_->SlotEnded();
  Request();
}

void GrpcListener::OnCall(std::unique_ptr<grpc::GenericServerContext> context,
                          std::unique_ptr<grpc::GenericServerAsyncReaderWriter> stream) {
  const std::string method = context->method();
  auto core = std::make_shared<ServerStream>(registry_, std::move(context), std::move(stream));
  const size_t before = registry_->size();
  if (!registry_->Add(core)) return;
  if (method != kSessionMethod) {
    return core->Reject({grpc::StatusCode::UNIMPLEMENTED, absl::StrCat("no method ", method)});
  }
  if (before >= most_sessions_) {
    return core->Reject(
        {grpc::StatusCode::RESOURCE_EXHAUSTED,
         absl::StrCat("there are ", before, " sessions, all that this process may have; ",
                      "raise the limit of open files, or try again later")});
  }
  core->Accept(acceptor_(std::make_shared<GrpcSession>(core)));
}

}  // namespace muster
