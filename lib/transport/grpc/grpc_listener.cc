#include "lib/transport/grpc/grpc_listener.h"

#include <arpa/inet.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/status.h"
#include "lib/transport/grpc/hand_over.h"
#include "lib/transport/grpc/settings.h"
#include "lib/transport/grpc/streams.h"

namespace muster {
namespace {

// Sessions of one listener at a time; more are answered with RESOURCE_EXHAUSTED.
constexpr size_t kMaxSessions = 8192;

int BindOnce(const HostPort& address) {
  const bool v6 = address.host.find(':') != std::string::npos;
  sockaddr_storage storage{};
  socklen_t size = 0;
  if (v6) {
    auto* to = reinterpret_cast<sockaddr_in6*>(&storage);
    *to = {.sin6_family = AF_INET6, .sin6_port = htons(address.port)};
    if (inet_pton(AF_INET6, address.host.c_str(), &to->sin6_addr) != 1) return EINVAL;
    size = sizeof(*to);
  } else {
    auto* to = reinterpret_cast<sockaddr_in*>(&storage);
    *to = {.sin_family = AF_INET, .sin_port = htons(address.port)};
    const std::string host = address.host == "localhost" ? "127.0.0.1" : address.host;
    if (inet_pton(AF_INET, host.c_str(), &to->sin_addr) != 1) return EINVAL;
    size = sizeof(*to);
  }
  const int fd = socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const int error = bind(fd, reinterpret_cast<sockaddr*>(&storage), size) == 0 ? 0 : errno;
  close(fd);
  return error;
}

// gRPC does not say why it could not listen; the system, asked apart, does.
absl::Status CheckCanListen(const HostPort& address) {
  const std::string text = NumericAddress(address);
  const int error = BindOnce(address);
  switch (error) {
    case 0: return absl::OkStatus();
    case EADDRINUSE:
      return absl::AlreadyExistsError(absl::StrCat(
          "address ", text, " is in use by another process; choose another port, or port 0"));
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
    case EINVAL:
      return absl::InvalidArgumentError(
          absl::StrCat("address ", text, " is not one of this machine: ", std::strerror(error)));
    case EACCES:
      return absl::PermissionDeniedError(
          absl::StrCat("address ", text, " may not be listened on; choose a port above 1023"));
    default:
      return absl::UnavailableError(
          absl::StrCat("cannot listen on ", text, " (", std::strerror(error), "); try again"));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> GrpcListener::Make(
    const HostPort& address, int threads, Acceptor acceptor,
    const std::vector<grpc::Service*>& services, std::shared_ptr<SessionRegistry> registry) {
  std::unique_ptr<GrpcListener> listener(
      new GrpcListener(std::move(acceptor), std::move(registry)));
  MUSTER_RETURN_IF_ERROR(listener->Start(address, threads, services));
  return listener;
}

absl::Status GrpcListener::Start(HostPort address, int threads,
                                 const std::vector<grpc::Service*>& services) {
  MUSTER_RETURN_IF_ERROR(CheckCanListen(address));
  grpc::ServerBuilder builder;
  ApplyServerSettings(builder);
  int port = 0;
  builder.AddListeningPort(NumericAddress(address), grpc::InsecureServerCredentials(), &port);
  builder.RegisterAsyncGenericService(&service_);
  for (grpc::Service* service : services) builder.RegisterService(service);
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues;
  for (int i = 0; i < threads; ++i) queues.push_back(builder.AddCompletionQueue());
  server_ = builder.BuildAndStart();
  if (!server_) {
    return absl::UnavailableError(absl::StrCat("gRPC could not listen on ", NumericAddress(address),
                                               " though it is free; try again"));
  }
  address.port = static_cast<uint16_t>(port);
  address_ = NumericAddress(address);
  open_slots_ = queues.size();
  for (auto& queue : queues) slots_.push_back(std::make_unique<Slot>(this, queue.get()));
  for (auto& slot : slots_) slot->Request();
  for (auto& queue : queues)
    threads_.push_back(std::make_unique<CompletionThread>(std::move(queue)));
  return absl::OkStatus();
}

GrpcListener::~GrpcListener() {
  if (!server_) return;
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  registry_->CloseAll(absl::CancelledError(absl::StrCat("listener on ", address_, " closed")));
  server_->Shutdown(std::chrono::system_clock::now());
  registry_->AwaitEmpty();
  {
    std::unique_lock lock(mutex_);
    slot_ended_.wait(lock, [&] { return open_slots_ == 0; });
  }
  threads_.clear();
}

bool GrpcListener::closing() const {
  std::lock_guard lock(mutex_);
  return closing_;
}

void GrpcListener::SlotEnded() {
  std::lock_guard lock(mutex_);
  --open_slots_;
  slot_ended_.notify_all();
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
  if (before >= kMaxSessions) {
    return core->Reject({grpc::StatusCode::RESOURCE_EXHAUSTED,
                         absl::StrCat("there are already ", before, " sessions")});
  }
  core->Accept(acceptor_(std::make_shared<GrpcSession>(core)));
}

}  // namespace muster
