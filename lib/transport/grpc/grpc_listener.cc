#include "lib/transport/grpc/grpc_listener.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/support/interceptor.h>
#include <grpcpp/support/server_interceptor.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/status.h"
#include "lib/identity/keys.h"
#include "lib/transport/grpc/hand_over.h"
#include "lib/transport/grpc/settings.h"
#include "lib/transport/grpc/streams.h"
#include "lib/transport/grpc/tls.h"

namespace muster {
namespace {

// How many of the connections are kept for other calls than sessions, and for saying no.
int SpareConnections(int connections) { return std::clamp(connections / 16, 1, 64); }

// A connection is read in steps where it may have so many streams, so that one that floods is
// closed between two of them (docs/decisions/0080).
constexpr int kReadOfPrograms = 8 << 10;

// Tells the connection of one call of a typed service that it came, and that it was answered. A
// caller may leave so early that the answer to a call without a message is the first that we see
// of it.
class CallWatch final : public grpc::experimental::Interceptor {
 public:
  using Point = grpc::experimental::InterceptionHookPoints;

  CallWatch(std::shared_ptr<GivenSockets> given, grpc::ServerContextBase* context)
      : given_(std::move(given)), context_(context) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override {
    if (batch->QueryInterceptionHookPoint(Point::POST_RECV_INITIAL_METADATA)) {
      connection_ = given_->Find(ReadablePeer(context_->peer()));
      if (connection_) connection_->CallComes();
    }
    if (batch->QueryInterceptionHookPoint(Point::POST_RECV_MESSAGE))
      asked_ = asked_ || batch->GetRecvMessage() != nullptr;
    const bool answers = batch->QueryInterceptionHookPoint(Point::PRE_SEND_INITIAL_METADATA) ||
                         batch->QueryInterceptionHookPoint(Point::PRE_SEND_MESSAGE) ||
                         batch->QueryInterceptionHookPoint(Point::PRE_SEND_STATUS);
    // Whoever has left is answered nothing.
    if (answers && asked_ && connection_ && !context_->IsCancelled()) connection_->CallIsAnswered();
    batch->Proceed();
  }

 private:
  const std::shared_ptr<GivenSockets> given_;
  grpc::ServerContextBase* const context_;
  std::shared_ptr<GivenSocket> connection_;  // null: it was closed by then
  bool asked_ = false;
};

class CallWatches final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit CallWatches(std::shared_ptr<GivenSockets> given) : given_(std::move(given)) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* call) override {
    // Streams in both directions are sessions, which OnCall counts.
    using Type = grpc::experimental::ServerRpcInfo::Type;
    if (call->type() == Type::BIDI_STREAMING) return nullptr;
    return new CallWatch(given_, call->server_context());
  }

 private:
  const std::shared_ptr<GivenSockets> given_;
};

}  // namespace

GrpcListener::GrpcListener(ListenerLimits limits, Acceptor acceptor,
                           std::shared_ptr<SessionRegistry> registry)
    : limits_(std::move(limits)),
      most_sessions_(
          static_cast<size_t>(limits_.connections - SpareConnections(limits_.connections))),
      acceptor_(std::move(acceptor)),
      registry_(std::move(registry)) {}

absl::StatusOr<std::unique_ptr<Listener>> GrpcListener::Make(
    const HostPort& address, ListenerLimits limits, Acceptor acceptor,
    const std::vector<grpc::Service*>& services, std::shared_ptr<SessionRegistry> registry) {
  std::unique_ptr<GrpcListener> listener(
      new GrpcListener(std::move(limits), std::move(acceptor), std::move(registry)));
  MUSTER_RETURN_IF_ERROR(listener->Start(address, services));
  return listener;
}

absl::Status GrpcListener::Start(const HostPort& address,
                                 const std::vector<grpc::Service*>& services) {
  const bool asked = !services.empty();
  MUSTER_ASSIGN_OR_RETURN(
      gate_, ConnectionGate::Listen(
                 address, {limits_.connections, kMostOfStranger + (asked ? kMostOfRequests : 0),
                           limits_.own != nullptr}));
  given_ = gate_->given();
  grpc::ServerBuilder builder;
  ApplyServerSettings(builder, asked ? kMostStreamsAtATime : kMostSessionsOfConnection,
                      asked ? kReadOfPrograms : 0);
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> watches;
  watches.push_back(std::make_unique<CallWatches>(given_));
  builder.experimental().SetInterceptorCreators(std::move(watches));
  if (limits_.quota != nullptr) builder.SetResourceQuota(*limits_.quota);
  into_server_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      limits_.own ? TlsOfServer(limits_.own) : grpc::InsecureServerCredentials());
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
  const std::shared_ptr<GivenSocket> connection = given_->Find(ReadablePeer(context->peer()));
  absl::StatusOr<PeerName> who = absl::UnauthenticatedError("no certificate");
  std::string key;
  if (limits_.own) {
    who = WhoCalls(*context->auth_context(), *limits_.own);
    const absl::StatusOr<CertificateContent> shown = CertificateOfCall(*context->auth_context());
    if (shown.ok()) key = HashOfKey(shown->public_key);
  }
  auto core = std::make_shared<ServerStream>(registry_, std::move(context), std::move(stream));
  const size_t before = registry_->size();
  if (!registry_->Add(core)) return;
  if (method != kSessionMethod) {
    // A program of another version, perhaps: a call like those of typed services.
    if (connection) connection->CallComes();
    core->ComesOn(connection, /*is_session=*/false);
    return core->Reject({grpc::StatusCode::UNIMPLEMENTED, absl::StrCat("no method ", method)});
  }
  if (connection && !connection->SessionComes()) {
    return core->Reject({grpc::StatusCode::RESOURCE_EXHAUSTED,
                         absl::StrCat("a connection may open ", kMostSessionsOfConnection,
                                      " sessions, and yours opened more")});
  }
  core->ComesOn(connection, /*is_session=*/true);
  if (before >= most_sessions_) {
    return core->Reject(
        {grpc::StatusCode::RESOURCE_EXHAUSTED,
         absl::StrCat("there are ", before, " sessions, all that this process may have; ",
                      "raise the limit of open files, or try again later")});
  }
  if (limits_.own && !who.ok())
    return core->Reject({grpc::StatusCode::UNAUTHENTICATED, std::string(who.status().message())});
  if (who.ok()) core->Proved(*std::move(who), std::move(key));
  core->Accept(acceptor_(std::make_shared<GrpcSession>(core)));
}

}  // namespace muster
