#include "agent/runtime/local_cluster.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/status.h"

namespace muster::agent {
namespace {

// Of a session with a coordinator that listens: two or three seconds.
constexpr int kTriesBeforeItIsTold = 8;
constexpr char kStopThatProgram[] = ": stop that program, or end this muster and start it again";

std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

}  // namespace

absl::StatusOr<std::unique_ptr<LocalCluster>> LocalCluster::Make(
    EventLoop& loop, const TransportMaker& make_transport, LocalClusterOptions options,
    LocalClusterEvents events) {
  MUSTER_RETURN_IF_ERROR(HostAgent::Check(options.host, /*with_coordinator=*/true));
  MUSTER_ASSIGN_OR_RETURN(RunFolder folder, RunFolder::Open(options.folder));
  MUSTER_ASSIGN_OR_RETURN(
      ClusterAddresses addresses,
      folder.PickAddresses(options.http, options.host.coordinator, options.join));
  std::unique_ptr<LocalCluster> cluster(new LocalCluster(std::move(options), std::move(events),
                                                         std::move(folder), std::move(addresses)));
  MUSTER_RETURN_IF_ERROR(cluster->MakeIdentity());
  MUSTER_RETURN_IF_ERROR(cluster->MakeHost(loop, make_transport));
  return cluster;
}

LocalCluster::LocalCluster(LocalClusterOptions options, LocalClusterEvents events, RunFolder folder,
                           ClusterAddresses addresses)
    : options_(std::move(options)),
      events_(std::move(events)),
      folder_(std::move(folder)),
      addresses_(std::move(addresses)) {}

// Once the folder is ours.
absl::Status LocalCluster::MakeIdentity() {
  if (!options_.cluster_in) return absl::OkStatus();
  MUSTER_ASSIGN_OR_RETURN(const std::string host, HostAgent::NameOf(options_.host));
  MUSTER_ASSIGN_OR_RETURN(
      identity_,
      OwnIdentity::Make({.authority = folder_.authority(),
                         .folder = folder_.keys(),
                         .host = host,
                         .cluster = [this] { return options_.cluster_in(folder_.store()); }}));
  if (addresses_.join.empty()) return absl::OkStatus();
  MUSTER_ASSIGN_OR_RETURN(join_secret_file_, ProvideJoinSecret(folder_.authority()));
  return absl::OkStatus();
}

absl::Status LocalCluster::MakeHost(EventLoop& loop, const TransportMaker& make_transport) {
  HostOptions host = options_.host;
  if (identity_ != nullptr) {
    host.identity = identity_->source();
    host.identity_folder = OwnIdentity::FolderIn(folder_.keys());
  }
  transport_ = make_transport(host.identity);
  host.coordinator = addresses_.grpc;
  host.address = HostOf(addresses_.grpc);
  MUSTER_ASSIGN_OR_RETURN(
      host_,
      HostAgent::Make(loop, *transport_, folder_, std::move(host),
                      {.on_start = events_.on_start,
                       .on_exit = [this](NoteExit note) { OnExit(std::move(note)); },
                       .on_report = [this](const ProcessKey& key,
                                           const Report& report) { OnReport(key, report); },
                       .on_fault = events_.on_fault,
                       .on_stopped = events_.on_stopped,
                       .on_session =
                           [this] {
                             if (tries_in_vain_) tries_in_vain_ = 0;
                           },
                       .on_no_session = [this](const absl::Status& why) { OnNoSession(why); },
                       .on_trust =
                           [this](const std::string&) {
                             if (identity_ != nullptr) identity_->LookSoon();
                           },
                       .coordinator_command = [this] { return CoordinatorCommand(); }}));
  return absl::OkStatus();
}

std::string LocalCluster::url() const {
  return absl::StrCat(identity_ == nullptr ? "http://" : "https://", addresses_.http);
}

Trust LocalCluster::trust() const {
  if (identity_ == nullptr) return {};
  const std::shared_ptr<const Identity> own = identity_->source()->Get();
  return {own->authority_pem, own->name.cluster};
}

void LocalCluster::Start() {
  // With certificates its metrics have a port of their own, of which it tells.
  if (identity_ == nullptr) host_->CoordinatorServesAt(addresses_.http);
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
                                      "--tensorboard-dir",
                                      folder_.tensorboard(),
                                      "--listen",
                                      addresses_.grpc,
                                      "--http",
                                      addresses_.http,
                                      "--await-listen"};
  // Its first host is on its own machine.
  if (!options_.host.node.empty()) command.insert(command.end(), {"--node", options_.host.node});
  // Loopback belongs to every user of the machine: nobody is let in without a token.
  if (identity_ != nullptr) command.insert(command.end(), {"--authority", "--tokens"});
  const std::string& metrics = options_.host.metrics_address;
  const int metrics_port = options_.host.metrics_port;
  if (!metrics.empty() || metrics_port != 0)
    command.insert(
        command.end(),
        {"--metrics", absl::StrCat(metrics.empty() ? "127.0.0.1" : metrics, ":", metrics_port)});
  if (!join_secret_file_.empty())
    command.insert(command.end(),
                   {"--join-listen", addresses_.join, "--join-secret-file", join_secret_file_});
  if (!options_.webhooks.empty())
    command.insert(command.end(),
                   {"--webhooks", std::filesystem::absolute(options_.webhooks).string()});
  command.insert(command.end(), options_.mlflow.begin(), options_.mlflow.end());
  // Otherwise a person has named it, who is told that it is taken.
  if (options_.http != addresses_.http) command.emplace_back("--await-http");
  return command;
}

void LocalCluster::OnReport(const ProcessKey& key, const Report& report) {
  if (key == kCoordinatorKey && report.event == "listening") {
    tries_in_vain_ = 0;
    if (events_.on_coordinator) events_.on_coordinator(true);
  }
  if (events_.on_report) events_.on_report(key, report);
}

// That the coordinator has ended is told of its process. Why one that listens does not hear its own
// host would stand in its log alone, while jobs wait for slots.
void LocalCluster::OnNoSession(const absl::Status& why) {
  if (!tries_in_vain_ || ++*tries_in_vain_ < kTriesBeforeItIsTold) return;
  if (events_.on_no_session) events_.on_no_session(std::string(why.message()));
}

absl::StatusOr<ClusterAddresses> LocalCluster::OtherAddresses() {
  if (host_->MembersRun()) return absl::FailedPreconditionError("members that run know it");
  if (!options_.host.coordinator.empty())
    return absl::FailedPreconditionError("agents of other hosts know it");
  return folder_.PickAddresses(addresses_.http, "", options_.join);
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
  if (note.key == kCoordinatorKey) tries_in_vain_.reset();
  const bool left = note.exit.signal == 0 && note.exit.code == kExitLater;
  if (note.key == kCoordinatorKey && left && note.after == AfterExit::kStartsAgain)
    absl::StrAppend(&note.text, LeaveTakenAddresses());
  if (note.key == kCoordinatorKey && events_.on_coordinator) events_.on_coordinator(false);
  if (events_.on_exit) events_.on_exit(note);
}

}  // namespace muster::agent
