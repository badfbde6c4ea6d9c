#include "agent/runtime/local_cluster.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/status.h"

namespace muster::agent {
namespace {

constexpr char kStopThatProgram[] = ": stop that program, or end this muster and start it again";

std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

}  // namespace

absl::StatusOr<std::unique_ptr<LocalCluster>> LocalCluster::Make(EventLoop& loop,
                                                                 Transport& transport,
                                                                 LocalClusterOptions options,
                                                                 LocalClusterEvents events) {
  MUSTER_RETURN_IF_ERROR(HostAgent::Check(options.host, /*with_coordinator=*/true));
  MUSTER_ASSIGN_OR_RETURN(RunFolder folder, RunFolder::Open(options.folder));
  MUSTER_ASSIGN_OR_RETURN(ClusterAddresses addresses,
                          folder.PickAddresses(options.http, options.host.coordinator));
  std::unique_ptr<LocalCluster> cluster(new LocalCluster(std::move(options), std::move(events),
                                                         std::move(folder), std::move(addresses)));
  MUSTER_RETURN_IF_ERROR(cluster->MakeHost(loop, transport));
  return cluster;
}

LocalCluster::LocalCluster(LocalClusterOptions options, LocalClusterEvents events, RunFolder folder,
                           ClusterAddresses addresses)
    : options_(std::move(options)),
      events_(std::move(events)),
      folder_(std::move(folder)),
      addresses_(std::move(addresses)) {}

absl::Status LocalCluster::MakeHost(EventLoop& loop, Transport& transport) {
  HostOptions host = options_.host;
  host.coordinator = addresses_.grpc;
  host.address = HostOf(addresses_.grpc);
  MUSTER_ASSIGN_OR_RETURN(
      host_, HostAgent::Make(loop, transport, folder_, std::move(host),
                             {.on_start = events_.on_start,
                              .on_exit = [this](NoteExit note) { OnExit(std::move(note)); },
                              .on_report = [this](const ProcessKey& key,
                                                  const Report& report) { OnReport(key, report); },
                              .on_fault = events_.on_fault,
                              .on_stopped = events_.on_stopped,
                              .coordinator_command = [this] { return CoordinatorCommand(); }}));
  return absl::OkStatus();
}

void LocalCluster::Start() {
  host_->CoordinatorServesAt(addresses_.http);
  host_->WriteTargets();
  host_->StartCoordinator();
  host_->Start();
}

std::vector<std::string> LocalCluster::CoordinatorCommand() const {
  std::vector<std::string> command = {options_.host.programs + "/muster-coordinator",
                                      "--dir",
                                      folder_.store(),
                                      "--checkpoint-dir",
                                      folder_.checkpoints(),
                                      "--history-dir",
                                      folder_.jobs(),
                                      "--listen",
                                      addresses_.grpc,
                                      "--http",
                                      addresses_.http,
                                      "--await-listen"};
  // Otherwise a person has named it, who is told that it is taken.
  if (options_.http != addresses_.http) command.emplace_back("--await-http");
  return command;
}

void LocalCluster::OnReport(const ProcessKey& key, const Report& report) {
  if (key == kCoordinatorKey && report.event == "listening" && events_.on_coordinator)
    events_.on_coordinator(true);
  if (events_.on_report) events_.on_report(key, report);
}

absl::StatusOr<ClusterAddresses> LocalCluster::OtherAddresses() {
  if (host_->MembersRun()) return absl::FailedPreconditionError("members that run know it");
  if (!options_.host.coordinator.empty())
    return absl::FailedPreconditionError("agents of other hosts know it");
  return folder_.PickAddresses(addresses_.http);
}

// After an end of the coordinator, which could not listen. A wait for an address that another
// program keeps has no end, so it goes elsewhere where that is possible. What follows, for people.
std::string LocalCluster::LeaveTakenAddresses() {
  std::string text;
  if (const std::string taken = addresses_.grpc; RunFolder::IsTaken(taken)) {
    absl::StrAppend(&text, "; another program has ", taken, " (gRPC), ");
    const absl::StatusOr<ClusterAddresses> picked = OtherAddresses();
    if (picked.ok()) {
      addresses_ = *picked;
      host_->GoTo(addresses_.grpc);
      absl::StrAppend(&text, "so ", addresses_.grpc, " takes its place");
    } else {
      absl::StrAppend(&text, "and it cannot go elsewhere (", picked.status().message(), ")",
                      kStopThatProgram);
    }
  }
  if (RunFolder::IsTaken(addresses_.http))
    absl::StrAppend(&text, "; another program has ", addresses_.http,
                    " (REST), which has been told to people", kStopThatProgram);
  return text;
}

void LocalCluster::OnExit(NoteExit note) {
  const bool left = note.exit.signal == 0 && note.exit.code == kExitLater;
  if (note.key == kCoordinatorKey && left && note.after == AfterExit::kStartsAgain)
    absl::StrAppend(&note.text, LeaveTakenAddresses());
  if (note.key == kCoordinatorKey && events_.on_coordinator) events_.on_coordinator(false);
  if (events_.on_exit) events_.on_exit(note);
}

}  // namespace muster::agent
