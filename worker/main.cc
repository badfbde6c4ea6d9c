// muster-worker: one worker process of one job. Exit codes: 0 done, 64 bad configuration, 65 bad
// data, 75 the job can go on later, 143 told to go, 1 otherwise.
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "lib/launch/lane_counter.h"
#include "lib/log/log.h"
#include "lib/member/runtime/process.h"
#include "lib/transport/grpc/grpc_transport.h"
#include "worker/runtime/trainer.h"
#include "worker/tasks/make_task.h"
#include "worker/torch/numerics.h"

namespace muster::worker {
namespace {

struct Flags {
  ProcessOptions process;
  std::string dir = ".";
  std::string lane_count;
};

int Fail(const absl::Status& status) {
  LogError("%s", status.message());
  return ExitCodeOf(status);
}

int Run(Flags flags) {
  HoldSignals();
  if (absl::Status s = StartLog({.program = "muster-worker", .member = flags.process.name});
      !s.ok())
    return Fail(s);
  GrpcOptions grpc;
  grpc.credentials = flags.process.credentials;
  grpc.warn = [](const std::string& line) { LogWarning("%s", line); };
  const std::unique_ptr<GrpcTransport> transport = MakeGrpcTransport(std::move(grpc));
  auto process =
      MemberProcess::Start(flags.process, *transport, [&t = *transport] { return &t.counters(); });
  if (!process.ok()) return Fail(process.status());
  const std::string file = flags.lane_count.empty()
                               ? flags.dir + "/run/" + flags.process.name + ".lanes"
                               : flags.lane_count;
  auto lanes = LaneCounter::Open(file, (*process)->id().incarnation);
  if (!lanes.ok()) return Fail(lanes.status());
  TrainerParts parts;
  parts.port = &(*process)->port();
  parts.events = (*process)->events();
  parts.copied = &(*process)->copied();
  parts.metrics = &(*process)->metrics();
  parts.failpoints = &(*process)->failpoints();
  parts.lanes = lanes->get();
  parts.make_task = [&copied = (*process)->copied()](const Law& law) {
    return MakeTask(law, copied);
  };
  parts.library_facts = TorchFacts;
  Trainer(std::move(parts)).Run();
  return (*process)->Join();
}

}  // namespace
}  // namespace muster::worker

int main(int argc, char** argv) {
  muster::worker::Flags flags;
  muster::ProcessOptions& p = flags.process;
  p.role = muster::Role::kWorker;
  p.version = MUSTER_VERSION;
  CLI::App app("A worker of a Muster job: computes lanes, owns chunks");
  app.set_version_flag("--version", MUSTER_VERSION);
  app.add_option("--coordinator", p.coordinator, "host:port of the coordinator")->required();
  app.add_option("--job", p.job, "id of the job")->required();
  app.add_option("--name", p.name, "name of this process, unique in the job")->required();
  app.add_option("--node", p.node, "name of this host; members of one node are neighbours");
  app.add_option("--dir", flags.dir, "directory of the job's local files")->capture_default_str();
  app.add_option("--lane-count", flags.lane_count, "file that counts lanes (DIR/run/NAME.lanes)");
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
  return muster::worker::Run(std::move(flags));
}
