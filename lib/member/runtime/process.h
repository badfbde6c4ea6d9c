// What the programs of workers, followers, servers and readers share: names, the listener, metrics,
// signals and the exchange thread. The mains add the transport and, for workers and followers, the
// train thread.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/credentials.h"
#include "lib/base/descriptors.h"
#include "lib/base/exit_codes.h"
#include "lib/base/failpoint.h"
#include "lib/base/lease.h"
#include "lib/base/time.h"
#include "lib/http/server.h"
#include "lib/member/runtime/exchange.h"
#include "lib/member/runtime/lone_exchange.h"
#include "lib/metrics/metrics.h"
#include "lib/transport/counters.h"
#include "lib/transport/transport.h"

namespace muster {

struct ProcessOptions {
  std::string coordinator;  // host:port, or several with commas
  std::string cluster;      // that this process obeys; empty: the first that answers
  std::string job;
  std::string name;  // letters, digits, '.', '_', '-'
  Role role = Role::kWorker;
  std::string node;                     // empty: the host's name
  std::string listen = "127.0.0.1:0";   // the data port
  std::string metrics = "127.0.0.1:0";  // Prometheus text
  int metrics_connections = kMostHttpConnections;
  int report_fd = -1;
  int64_t lease_ms = kDefaultLease.count();
  int64_t thread_patience_s = kDefaultThreadPatience.count();
  int64_t coordinator_timeout_s = 600;
  int64_t start = 0;      // of the job, that the process was started for; 0: whichever is under way
  int64_t placement = 0;  // as the host agent was told; 0: no agent started the process
  std::vector<std::string> fail_at;
  Credentials credentials;
};

// First in main: SIGTERM and SIGINT wait for MemberProcess, in this thread and all it starts.
void HoldSignals();

class MemberProcess {
 public:
  // Listens, serves metrics and starts the exchange thread, which leaves cleanly with 143 at
  // SIGTERM or SIGINT. When a thread hangs, the process ends itself with 1. `transport` and `moved`
  // outlive it. kInvalidArgument: an option; kAlreadyExists: a port is in use.
  static absl::StatusOr<std::unique_ptr<MemberProcess>> Start(ProcessOptions options,
                                                              Transport& transport,
                                                              const TransportCounters* moved);
  ~MemberProcess();

  const MemberId& id() const { return id_; }
  TrainPort& port() { return port_; }
  const std::shared_ptr<EventBox>& events() const { return events_; }
  CopyCounter& copied() { return copied_; }
  Metrics& metrics() { return *metrics_; }
  Failpoints& failpoints() { return failpoints_; }
  const Reporter& reporter() const { return reporter_; }
  // How long one of its threads may stand still, where its job does not ask for more.
  Duration ThreadPatience() const { return std::chrono::seconds(options_.thread_patience_s); }

  // Waits for the exchange thread; the process's exit code.
  int Join();

 private:
  explicit MemberProcess(ProcessOptions options);
  absl::Status Begin(Transport& transport, const TransportCounters* moved);
  void WatchSignals();
  std::unique_ptr<LoneExchange> MakeLoneExchange(ExchangeOptions options,
                                                 const ExchangeParts& parts);

  const ProcessOptions options_;
  const MemberId id_;
  Failpoints failpoints_;
  Reporter reporter_;
  CopyCounter copied_{0};
  std::unique_ptr<Metrics> metrics_;
  std::shared_ptr<EventBox> events_ = std::make_shared<EventBox>();
  std::shared_ptr<std::atomic<LinkId>> next_link_ = std::make_shared<std::atomic<LinkId>>(1);
  TrainPort port_;
  std::unique_ptr<http::Server> http_;
  std::unique_ptr<Listener> listener_;  // null: of a member of no view, whom no other calls
  ThreadProgress reads_{"stream"};      // of a reader
  std::unique_ptr<Exchange> exchange_;  // one of these two
  std::unique_ptr<LoneExchange> lone_;
  std::thread exchange_thread_;
  std::thread signal_thread_;
  int exit_code_ = kExitFailed;
};

}  // namespace muster
