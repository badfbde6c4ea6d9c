#include "lib/member/runtime/process.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "lib/base/address_list.h"
#include "lib/base/loopback.h"
#include "lib/base/signal_sender.h"
#include "lib/base/status.h"
#include "lib/base/this_process.h"
#include "lib/base/version.h"
#include "lib/domain/member_name.h"
#include "lib/domain/role_name.h"
#include "lib/identity/identity_source.h"
#include "lib/log/log.h"
#include "lib/member/runtime/follower_exchange.h"
#include "lib/member/runtime/reader_exchange.h"

namespace muster {
namespace {

constexpr int kEndWatch = SIGUSR1;  // wakes the signal thread at the end

sigset_t WatchedSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGTERM, SIGINT, kEndWatch}) sigaddset(&set, signal);
  return set;
}

// Its certificate names one process, which this must be.
absl::Status CheckIdentity(const ProcessOptions& options) {
  const PeerName name = options.credentials.identity->Get()->name;
  const auto* member = std::get_if<MemberPeer>(&name.who);
  if (member != nullptr && member->job == options.job && member->name == options.name &&
      member->placement == PlacementNumber(options.placement))
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--identity: it is that of ", ToUri(name), ", and this is ", options.name,
                   " of job ", options.job, " with placement ", options.placement));
}

// Whoever signed its certificate drew it.
Incarnation IncarnationOf(const ProcessOptions& options) {
  if (!options.credentials.identity) return DrawIncarnation();
  return std::get<MemberPeer>(options.credentials.identity->Get()->name.who).incarnation;
}

absl::Status Check(const ProcessOptions& options) {
  if (!IsMemberName(options.name))
    return absl::InvalidArgumentError(
        absl::StrCat("--name '", options.name, "': must be ", MemberNameRule()));
  if (options.job.empty()) return absl::InvalidArgumentError("--job: say which job to work for");
  if (options.lease_ms < kShortestLease.count() || options.lease_ms > kLongestLease.count())
    return absl::InvalidArgumentError(absl::StrCat("--lease-ms: ", kShortestLease.count(), " to ",
                                                   kLongestLease.count(), " is allowed"));
  if (options.thread_patience_s < kShortestThreadPatience.count() ||
      options.thread_patience_s > kLongestThreadPatience.count())
    return absl::InvalidArgumentError(
        absl::StrCat("--thread-patience: ", kShortestThreadPatience.count(), " to ",
                     kLongestThreadPatience.count(), " is allowed"));
  if (options.coordinator_timeout_s < 1)
    return absl::InvalidArgumentError("--coordinator-timeout: must be at least 1 second");
  const auto addresses = ParseAddressList(options.coordinator);
  MUSTER_RETURN_IF_ERROR(Prefix("--coordinator", addresses.status()));
  if (options.credentials.identity) return CheckIdentity(options);
  for (const std::string& address : *addresses)
    if (!NameIn(address))  // what it turns out to be is looked at by the transport
      MUSTER_RETURN_IF_ERROR(Prefix("--coordinator", CheckPlaintextAddress(address)));
  return absl::OkStatus();
}

// A thread that hangs cannot be told to leave. Our agent waits for our exit to start another.
[[noreturn]] void EndHung(const ThreadAge& hung, const std::string& runs) {
  LogError("ends itself: %s", WhyItHangs(hung, runs));
  std::_Exit(kExitFailed);
}

}  // namespace

void HoldSignals() {
  const sigset_t signals = WatchedSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

MemberProcess::MemberProcess(ProcessOptions options)
    : options_(std::move(options)),
      id_{options_.name, IncarnationOf(options_)},
      failpoints_([fd = options_.report_fd](absl::string_view point) { DieAt(point, fd); }),
      reporter_(options_.report_fd, options_.name) {}

absl::StatusOr<std::unique_ptr<MemberProcess>> MemberProcess::Start(
    ProcessOptions options, Transport& transport, const TransportCounters* moved) {
  MUSTER_RETURN_IF_ERROR(Check(options));
  std::unique_ptr<MemberProcess> process(new MemberProcess(std::move(options)));
  for (const std::string& point : process->options_.fail_at)
    MUSTER_RETURN_IF_ERROR(process->failpoints_.Arm(point));
  MUSTER_RETURN_IF_ERROR(process->Begin(transport, moved));
  return process;
}

absl::Status MemberProcess::Begin(Transport& transport, const TransportCounters* moved) {
  metrics_ = std::make_unique<Metrics>(
      ConstantLabels{options_.job, NameOfRole(options_.role), options_.name}, kVersion);
  http::ServerOptions serving;
  // Metrics are plain text also where all else is not: whoever binds them elsewhere opens them.
  serving.plaintext_anywhere = options_.credentials.identity != nullptr;
  serving.limits.connections = options_.metrics_connections;
  serving.metrics = metrics_.get();
  absl::StatusOr<std::unique_ptr<http::Server>> server = http::Server::Start(
      options_.metrics,
      {http::MetricsRoute([this] {
         if (const auto& identity = options_.credentials.identity)
           metrics_->GetGauge("muster_certificate_end_timestamp_seconds")
               .Set(absl::ToDoubleSeconds(identity->Get()->ends - absl::UnixEpoch()));
         return metrics_->Text();
       }),
       http::HealthRoute()},
      serving);
  MUSTER_RETURN_IF_ERROR(Prefix("--metrics", server.status()));
  http_ = *std::move(server);
  reporter_.MetricsAt(http_->Address());
  const bool is_in_views = IsInViews(options_.role);
  if (is_in_views) {
    absl::StatusOr<std::unique_ptr<Listener>> listener =
        transport.Listen(options_.listen, PeerSessions::AcceptInto(events_, next_link_));
    MUSTER_RETURN_IF_ERROR(Prefix("--listen", listener.status()));
    listener_ = *std::move(listener);
  }
  ExchangeOptions exchange;
  exchange.job = options_.job;
  exchange.start = StartNumber(options_.start);
  exchange.place = {id_, PlacementNumber(options_.placement), options_.role,
                    options_.node.empty() ? OwnNode() : options_.node,
                    is_in_views ? listener_->Address() : ""};
  exchange.coordinator = options_.coordinator;
  exchange.cluster = options_.cluster;
  exchange.lease = std::chrono::milliseconds(options_.lease_ms);
  exchange.thread_patience = std::chrono::seconds(options_.thread_patience_s);
  exchange.hangs = [this](const ThreadAge& hung) {
    EndHung(hung, hung.thread == port_.progress.name() ? port_.progress.runs() : "");
  };
  exchange.coordinator_timeout = std::chrono::seconds(options_.coordinator_timeout_s);
  ExchangeParts parts;
  parts.transport = &transport;
  parts.events = events_;
  parts.next_link = next_link_;
  parts.train = RunsTask(options_.role) ? &port_ : nullptr;
  parts.copied = &copied_;
  parts.metrics = metrics_.get();
  parts.failpoints = &failpoints_;
  parts.reporter = &reporter_;
  parts.moved = moved;
  if (!is_in_views) {
    lone_ = MakeLoneExchange(std::move(exchange), parts);
    exchange_thread_ = std::thread([this] { exit_code_ = lone_->Run(); });
  } else {
    LogInfo("takes part in job %s at %s, metrics at %s", options_.job, listener_->Address(),
            http_->Address());
    exchange_ = std::make_unique<Exchange>(std::move(exchange), std::move(parts));
    exchange_thread_ = std::thread([this] { exit_code_ = exchange_->Run(); });
  }
  signal_thread_ = std::thread([this] { WatchSignals(); });
  return absl::OkStatus();
}

std::unique_ptr<LoneExchange> MemberProcess::MakeLoneExchange(ExchangeOptions options,
                                                              const ExchangeParts& parts) {
  if (options_.role == Role::kReader) {
    LogInfo("reads the stream of job %s, metrics at %s", options_.job, http_->Address());
    return std::make_unique<ReaderExchange>(std::move(options), parts, reads_);
  }
  LogInfo("follows job %s, metrics at %s", options_.job, http_->Address());
  return std::make_unique<FollowerExchange>(std::move(options), parts);
}

void MemberProcess::WatchSignals() {
  const sigset_t signals = WatchedSignals();
  const bool has_agent = options_.report_fd >= 0;
  while (true) {
    siginfo_t info{};
    if (sigwaitinfo(&signals, &info) < 0) continue;  // a debugger interrupts it
    if (!Heeds(info, has_agent)) {
      LogInfo("signal %d of process %d is left to the agent", info.si_signo, info.si_pid);
      continue;
    }
    if (info.si_signo == kEndWatch) {
      if (info.si_pid == getpid()) return;  // from others it is none of ours
      continue;
    }
    events_->Post(StopAsked{kExitTerminated, absl::StrCat("signal ", info.si_signo)});
  }
}

int MemberProcess::Join() {
  if (!exchange_thread_.joinable()) return exit_code_;
  exchange_thread_.join();
  reporter_.Ends(exit_code_);
  return exit_code_;
}

MemberProcess::~MemberProcess() {
  events_->Post(StopAsked{kExitTerminated, "the process ends"});
  Join();
  exchange_.reset();
  lone_.reset();
  listener_.reset();
  if (!signal_thread_.joinable()) return;
  pthread_kill(signal_thread_.native_handle(), kEndWatch);
  signal_thread_.join();
}

}  // namespace muster
