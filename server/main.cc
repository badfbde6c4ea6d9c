// muster-server: one server process of one job. Exit codes: 0 done, 64 bad configuration, 65 bad
// data, 75 the job can go on later, 143 told to go, 1 otherwise.
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "lib/log/log.h"
#include "lib/member/runtime/process.h"
#include "lib/transport/grpc/grpc_transport.h"

namespace muster::server {
namespace {

int Fail(const absl::Status& status) {
  LogError("%s", status.message());
  return ExitCodeOf(status);
}

int Run(const ProcessOptions& options) {
  HoldSignals();
  if (absl::Status s = StartLog({.program = "muster-server", .member = options.name}); !s.ok())
    return Fail(s);
  GrpcOptions grpc;
  grpc.credentials = options.credentials;
  grpc.warn = [](const std::string& line) { LogWarning("%s", line); };
  const std::unique_ptr<GrpcTransport> transport = MakeGrpcTransport(std::move(grpc));
  auto process =
      MemberProcess::Start(options, *transport, [&t = *transport] { return &t.counters(); });
  if (!process.ok()) return Fail(process.status());
  return (*process)->Join();
}

}  // namespace
}  // namespace muster::server

int main(int argc, char** argv) {
  muster::ProcessOptions p;
  p.role = muster::Role::kServer;
  p.version = MUSTER_VERSION;
  CLI::App app("A server of a Muster job: owns chunks, adds and applies");
  app.set_version_flag("--version", MUSTER_VERSION);
  app.add_option("--coordinator", p.coordinator, "host:port of the coordinator")->required();
  app.add_option("--job", p.job, "id of the job")->required();
  app.add_option("--name", p.name, "name of this process, unique in the job")->required();
  app.add_option("--node", p.node, "name of this host; members of one node are neighbours");
  app.add_option("--listen", p.listen, "address of the data port")->capture_default_str();
  app.add_option("--metrics", p.metrics, "address that serves metrics")->capture_default_str();
  app.add_option("--report-fd", p.report_fd, "descriptor to write progress to, JSON lines");
  app.add_option("--lease-ms", p.lease_ms, "silence after which one counts as lost")
      ->capture_default_str();
  app.add_option("--coordinator-timeout", p.coordinator_timeout_s,
                 "seconds without a coordinator and a view, after which the process ends")
      ->capture_default_str();
  app.add_option("--allow-plaintext", p.credentials.allow_plaintext,
                 "network (CIDR) that may be spoken to without certificates");
  app.add_option("--fail-at", p.fail_at, "POINT:N, kill this process at the N-th pass (tests)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 64;
  }
  return muster::server::Run(p);
}
