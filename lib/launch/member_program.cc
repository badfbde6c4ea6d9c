#include "lib/launch/member_program.h"

#include <memory>
#include <optional>

#include "CLI/CLI.hpp"
#include "lib/base/descriptors.h"
#include "lib/base/exit_codes.h"
#include "lib/base/memory_cgroup.h"
#include "lib/base/status.h"
#include "lib/base/version.h"
#include "lib/identity/identity_source.h"
#include "lib/identity/openssl_at_exit.h"
#include "lib/launch/command_line.h"
#include "lib/launch/host_limits.h"
#include "lib/launch/log_flags.h"
#include "lib/launch/plaintext.h"
#include "lib/launch/standard_output.h"
#include "lib/log/log.h"
#include "lib/transport/grpc/grpc_transport.h"

namespace muster {
namespace {

void AddOptions(CLI::App& app, ProcessOptions& p, std::string& identity) {
  app.add_option("--coordinator", p.coordinator,
                 "host:port of the coordinator, numeric or a name; several, with commas between "
                 "them, are tried in turn")
      ->required();
  app.add_option("--cluster", p.cluster,
                 "id of the coordinator's cluster; without it, that of the first which answers");
  app.add_option("--job", p.job, "id of the job")->required();
  app.add_option("--start", p.start,
                 "number of the job's start that this process is for; without it, any");
  app.add_option("--placement", p.placement, "number of its place on this host, from its agent");
  app.add_option("--name", p.name, "name of this process, unique in the job")->required();
  app.add_option("--node", p.node,
                 "name of this machine; members of one node are neighbours (default: made of the "
                 "kernel's boot and the network namespace)");
  app.add_option("--listen", p.listen, "address of the data port")->capture_default_str();
  app.add_option("--metrics", p.metrics, "address that serves metrics")->capture_default_str();
  app.add_option("--report-fd", p.report_fd, "descriptor for progress, written as lines of JSON");
  app.add_option("--lease-ms", p.lease_ms,
                 "milliseconds of silence after which a member counts as lost")
      ->capture_default_str();
  app.add_option("--thread-patience", p.thread_patience_s,
                 "seconds for which a thread may stand still in its work, before the member counts "
                 "as lost")
      ->capture_default_str();
  app.add_option("--coordinator-timeout", p.coordinator_timeout_s,
                 "seconds without a coordinator and a view, after which the process ends")
      ->capture_default_str();
  app.add_option("--identity", identity,
                 "folder with the certificate of this process, which its agent made");
  app.add_option("--fail-at", p.fail_at, "POINT:N, kill this process at the N-th pass (tests)");
}

// What waits for its sum counts too, as it came: that grows with the model and, at a server, with
// the workers. Who comes to so much has no room left for the state.
size_t MostOfTheMemory() { return static_cast<size_t>(MemoryForUs() / 4 * 3); }

absl::StatusOr<int> RunProcess(const MemberProgram& program, ProcessOptions options,
                               const std::string& identity, const LogFlags& log_flags) {
  HoldSignals();
  LogOptions log = LogOptionsOf(log_flags, program.name);
  log.member = options.name;
  MUSTER_RETURN_IF_ERROR(StartLog(log));
  MUSTER_ASSIGN_OR_RETURN(const DescriptorBudget budget,
                          SplitDescriptorsOfMember(RaiseDescriptorLimit()));
  options.metrics_connections = budget.http;
  MUSTER_RETURN_IF_ERROR(
      CheckHasIdentity(identity,
                       "the agent of a host makes one for each process that it starts, "
                       "under muster train, muster up and muster agent"));
  MUSTER_ASSIGN_OR_RETURN(options.credentials.identity, IdentitySource::OpenFlag(identity));
  GrpcOptions grpc;
  grpc.connections = budget.sessions;
  grpc.assembling_bytes = MostOfTheMemory();
  grpc.credentials = options.credentials;
  const std::unique_ptr<GrpcTransport> transport = MakeGrpcTransport(std::move(grpc));
  MUSTER_ASSIGN_OR_RETURN(const auto process,
                          MemberProcess::Start(options, *transport, &transport->counters()));
  if (program.work) MUSTER_RETURN_IF_ERROR(program.work(*process, options));
  return process->Join();
}

}  // namespace

int RunMember(int argc, char** argv, const MemberProgram& program) {
  KeepOpenSslAtExit();
  EndInWordsAtLimits(program.name.c_str(), kExitFailed);
  StandardOutput output;
  ProcessOptions options;
  CLI::App app(program.description, program.name);
  app.set_version_flag("--version", kVersion);
  std::string identity;
  AddOptions(app, options, identity);
  LogFlags log;
  AddLogFlags(app, "the log", log);
  if (program.add_options) program.add_options(app);
  if (const std::optional<int> code = ParseOrExit(app, program.name, argc, argv))
    return output.CodeOnceWritten(*code, program.name);
  options.role = program.role();
  const absl::StatusOr<int> code = RunProcess(program, options, identity, log);
  if (code.ok()) return *code;
  LogError("%s", code.status().message());
  // Worth another start: the process before it may still hold the port.
  return absl::IsAlreadyExists(code.status()) ? kExitFailed : ExitCodeOf(code.status());
}

}  // namespace muster
