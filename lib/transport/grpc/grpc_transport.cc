#include "lib/transport/grpc/grpc_transport.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>

#include <atomic>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"
#include "lib/base/check.h"
#include "lib/base/kept_memory.h"
#include "lib/base/loopback.h"
#include "lib/base/status.h"
#include "lib/log/limited_log.h"
#include "lib/log/log.h"
#include "lib/transport/grpc/completion_thread.h"
#include "lib/transport/grpc/grpc_listener.h"
#include "lib/transport/grpc/session_core.h"
#include "lib/transport/grpc/settings.h"
#include "lib/transport/grpc/streams.h"

namespace muster {
namespace {

class GrpcTransportImpl final : public GrpcTransport {
 public:
  explicit GrpcTransportImpl(GrpcOptions options)
      : options_(std::move(options)),
        counters_(std::make_shared<TransportCounters>()),
        registry_(std::make_shared<SessionRegistry>(counters_, options_.refused)) {
    if (options_.assembling_bytes > 0) quota_.emplace().Resize(options_.assembling_bytes);
    MUSTER_CHECK(options_.threads >= 1 && options_.connections >= 2);
    for (int i = 0; i < options_.threads; ++i) {
      threads_.push_back(
          std::make_unique<CompletionThread>(std::make_unique<grpc::CompletionQueue>()));
    }
  }

  ~GrpcTransportImpl() override {
    registry_->CloseAll(absl::CancelledError("transport destroyed"));
    registry_->AwaitEmpty();
  }

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   Acceptor acceptor) override {
    return Listen(address, std::move(acceptor), {});
  }

  absl::StatusOr<std::unique_ptr<Listener>> Listen(
      const std::string& address, Acceptor acceptor,
      const std::vector<grpc::Service*>& services) override {
    MUSTER_ASSIGN_OR_RETURN(const HostPort checked, CheckAddress(address));
    return GrpcListener::Make(
        checked, {options_.threads, options_.connections, quota(), options_.credentials.identity},
        std::move(acceptor), services,
        std::make_shared<SessionRegistry>(counters_, options_.refused));
  }

  std::shared_ptr<Session> Connect(const std::string& address, Duration timeout,
                                   SessionHandler handler) override {
    const size_t turn = next_thread_++ % threads_.size();
    auto core = std::make_shared<ClientStream>(registry_, address, threads_[turn]->queue(),
                                               std::move(handler));
    MUSTER_CHECK(registry_->Add(core), "Connect on a transport that is being destroyed");
    const absl::StatusOr<HostPort> checked = CheckAddress(address);
    if (checked.ok()) {
      core->Connect({ChannelTarget(*checked), options_.credentials.identity, quota()}, timeout);
    } else {
      core->Fail(checked.status());
    }
    return std::make_shared<GrpcSession>(std::move(core));
  }

  const TransportCounters& counters() const override { return *counters_; }

 private:
  const grpc::ResourceQuota* quota() const { return quota_ ? &*quota_ : nullptr; }

  absl::StatusOr<HostPort> CheckAddress(const std::string& address) const {
    if (options_.credentials.identity) return ParseHostPort(address);
    MUSTER_RETURN_IF_ERROR(CheckPlaintextAddress(address));
    return ParseHostPort(address);
  }

  const GrpcOptions options_;
  std::optional<grpc::ResourceQuota> quota_;
  const std::shared_ptr<TransportCounters> counters_;
  const std::shared_ptr<SessionRegistry> registry_;  // of the connected sessions
  std::vector<std::unique_ptr<CompletionThread>> threads_;
  std::atomic<size_t> next_thread_{0};
};

// gRPC's own complaints become lines of our log, which programs may read.
void LogForGrpc(gpr_log_func_args* said) {
  // Strangers cause some of them. Never destroyed: threads may log while the process exits.
  static LimitedLog& complaints = *new LimitedLog;
  // A certificate need not name an address: whom it names is what counts here. And whoever gives up
  // a try to connect, as of a peer that stands still, says so in words of ours.
  const bool is_no_complaint =
      absl::StartsWith(said->message, "No match found for server name") ||
      absl::StrContains(said->message, "SecurityConnector::cancel_check_peer error");
  if (said->severity == GPR_LOG_SEVERITY_ERROR && !is_no_complaint)
    complaints.Warn("grpc: %s", said->message);
  else
    LogDebug("grpc: %s", said->message);
}

// The same for Protocol Buffers, which complains of bytes that strangers send.
void LogForProtobuf(google::protobuf::LogLevel /*level*/, const char* /*file*/, int /*line*/,
                    const std::string& message) {
  static LimitedLog& complaints = *new LimitedLog;
  complaints.Warn("protobuf: %s", message);
}

// Switches of the whole process.
void PrepareProcess() {
  grpc_init();  // for good (docs/decisions/0036)
  gpr_set_log_function(LogForGrpc);
  google::protobuf::SetLogHandler(LogForProtobuf);
  // Debian's Abseil looks for deadlocks at every lock that gRPC takes: a fifth of the cost of many
  // sessions, behind one global lock.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  grpc::EnableDefaultHealthCheckService(true);  // read by each server as it is built
  // gRPC reads into fresh buffers of up to some MiB, for each frame: their page faults cost as much
  // as all the rest of a stream (bench/stream_bench).
  KeepFreedMemory(size_t{128} << 20);
}

}  // namespace

std::unique_ptr<GrpcTransport> MakeGrpcTransport(GrpcOptions options) {
  [[maybe_unused]] static const bool once = (PrepareProcess(), true);
  return std::make_unique<GrpcTransportImpl>(std::move(options));
}

}  // namespace muster
