// muster: chooses the parts and joins them. It alone knows both the commands and the host agent.
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/runtime/event_loop.h"
#include "agent/runtime/fault_plan.h"
#include "agent/runtime/host_agent.h"
#include "agent/runtime/local_cluster.h"
#include "agent/runtime/signals.h"
#include "agent/state/log_words.h"
#include "cli/agent.h"
#include "cli/arguments.h"
#include "cli/cluster.h"
#include "cli/remote.h"
#include "cli/train.h"
#include "coordinator/service/folder_answers.h"
#include "lib/base/address_list.h"
#include "lib/base/loopback.h"
#include "lib/base/printable.h"
#include "lib/base/socket_address.h"
#include "lib/base/status.h"
#include "lib/launch/host_limits.h"
#include "lib/launch/standard_output.h"
#include "lib/log/log.h"
#include "lib/transport/grpc/grpc_transport.h"

namespace muster {
namespace {

// The programs lie beside this one.
std::string ProgramFolder() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "." : path.parent_path().string();
}

cli::ProcessExit ExitFrom(const agent::NoteExit& note) {
  return {.job = note.key.job,
          .process = note.key.name,
          .is_coordinator = note.key == agent::kCoordinatorKey,
          .code = note.exit.code,
          .signal = note.exit.signal,
          .given_up = note.after == agent::AfterExit::kGivenUp,
          .host_is_short = note.exit.host_is_short,
          .text = note.text,
          .last_lines = note.exit.last_lines,
          .why = agent::WhyOf(note.exit.last_lines)};
}

cli::ProcessReport ReportFrom(const agent::ProcessKey& key, const agent::Report& report) {
  cli::ProcessReport out{.job = key.job,
                         .process = key.name,
                         .event = report.event,
                         .text = report.text,
                         .json = report.json};
  if (report.step)
    out.step = cli::StepSeen{.member = key.name,
                             .step = report.step->step,
                             .epoch = report.step->epoch,
                             .loss = report.step->loss,
                             .samples = report.step->samples,
                             .gradient_norm = report.step->gradient_norm};
  return out;
}

// An address that is not loopback needs a network that was named.
absl::Status CheckAddress(const char* flag, const std::string& address,
                          const Credentials& credentials) {
  if (address.empty()) return absl::OkStatus();
  const absl::Status allowed = CheckPlaintextAddress(address, credentials, ReadNetworkNamespaces());
  if (absl::StartsWith(allowed.message(), "--allow-plaintext")) return allowed;
  return Prefix(flag, allowed);
}

class AgentCluster final : public cli::Cluster {
 public:
  // `arguments`: further ones of every process.
  static absl::StatusOr<std::unique_ptr<cli::Cluster>> Make(std::vector<std::string> arguments,
                                                            const cli::ClusterOptions& options,
                                                            cli::ClusterEvents events) {
    agent::HostOptions host{.programs = ProgramFolder(),
                            .name = options.host,
                            .coordinator = options.coordinator,
                            .arguments = std::move(arguments),
                            .slots = options.slots};
    if (!options.faults.empty()) {
      MUSTER_ASSIGN_OR_RETURN(
          host.faults,
          agent::ParseFaultPlan(options.faults, options.faults_source,
                                {.workers = options.workers, .servers = options.servers}));
    }
    const Credentials credentials{.allow_plaintext = options.allow_plaintext};
    MUSTER_RETURN_IF_ERROR(CheckAddress("--listen", options.http, credentials));
    if (!options.joins)
      MUSTER_RETURN_IF_ERROR(CheckAddress("--coordinator", options.coordinator, credentials));
    MUSTER_ASSIGN_OR_RETURN(auto loop, agent::EventLoop::Make());
    std::unique_ptr<AgentCluster> cluster(
        new AgentCluster(std::move(loop), std::move(events), credentials));
    MUSTER_RETURN_IF_ERROR(options.joins ? cluster->MakeHost(options, std::move(host))
                                         : cluster->MakeLocal(options, std::move(host)));
    return cluster;
  }

  void Start() override {
    if (local_ != nullptr) return local_->Start();
    joined_->Start();
  }
  void Stop() override { host_->Stop(); }
  void Leave() override { host_->Leave(); }
  void Run() override { loop_->Run(); }
  void Quit() override { loop_->Quit(); }
  void Post(std::function<void()> call) override { loop_->Post(std::move(call)); }
  void After(Duration delay, std::function<void()> call) override {
    loop_->At(std::chrono::steady_clock::now() + delay, std::move(call));
  }
  std::string url() const override { return local_ ? local_->url() : ""; }
  std::string coordinator() const override { return host_->coordinator(); }
  std::string host() const override { return host_->name(); }
  std::string folder() const override { return local_ ? local_->folder().path() : folder_->path(); }
  std::vector<std::string> JobsUnderWay() const override { return host_->WantedJobs(); }
  std::vector<std::string> MissedFaults() const override { return host_->MissedFaults(); }
  void JobEndsAfter(const std::string& job, int64_t last_step) override {
    host_->JobEndsAfter(job, last_step);
  }

 private:
  AgentCluster(std::unique_ptr<agent::EventLoop> loop, cli::ClusterEvents events,
               const Credentials& credentials)
      : events_(std::move(events)),
        loop_(std::move(loop)),
        signals_(*loop_,
                 [this](int signal) {
                   if (events_.on_interrupt) events_.on_interrupt(signal);
                 }),
        transport_(MakeGrpcTransport({.credentials = credentials})) {}

  void OnStart(const agent::ProcessKey& key, pid_t pid) const {
    if (events_.on_start) events_.on_start({.job = key.job, .process = key.name, .pid = pid});
  }
  void OnExit(const agent::NoteExit& note) const {
    if (events_.on_exit) events_.on_exit(ExitFrom(note));
  }
  void OnReport(const agent::ProcessKey& key, const agent::Report& report) const {
    if (events_.on_report) events_.on_report(ReportFrom(key, report));
  }
  void OnFault(const agent::FaultAction& action) const {
    if (events_.on_fault && !action.text.empty()) events_.on_fault(action.text);
  }

  absl::Status MakeLocal(const cli::ClusterOptions& options, agent::HostOptions host) {
    MUSTER_ASSIGN_OR_RETURN(
        local_,
        agent::LocalCluster::Make(
            *loop_, *transport_,
            {.folder = options.folder, .http = options.http, .host = std::move(host)},
            {.on_start = [this](const agent::ProcessKey& key, pid_t pid) { OnStart(key, pid); },
             .on_exit = [this](const agent::NoteExit& note) { OnExit(note); },
             .on_report = [this](const agent::ProcessKey& key,
                                 const agent::Report& report) { OnReport(key, report); },
             .on_fault = [this](const agent::FaultAction& action) { OnFault(action); },
             .on_coordinator = events_.on_coordinator,
             .on_stopped = events_.on_stopped}));
    host_ = &local_->host();
    return absl::OkStatus();
  }

  absl::Status MakeHost(const cli::ClusterOptions& options, agent::HostOptions host) {
    if (host.name.empty()) host.name = agent::HostAgent::OwnHostName();
    const auto coordinators = ParseAddressList(options.coordinator);
    MUSTER_RETURN_IF_ERROR(Prefix("--coordinator", coordinators.status()));
    for (const std::string& address : *coordinators) {
      MUSTER_RETURN_IF_ERROR(
          CheckAddress("--coordinator", address, {.allow_plaintext = options.allow_plaintext}));
      MUSTER_ASSIGN_OR_RETURN(const HostPort parsed, ParseHostPort(address));
      if (parsed.port == 0)
        return absl::InvalidArgumentError(absl::StrCat(
            "--coordinator: ", address, " names no port; `muster up` says which it is"));
    }
    host.coordinator = absl::StrJoin(*coordinators, ",");
    host.address = options.address;
    if (host.address.empty()) {
      MUSTER_ASSIGN_OR_RETURN(host.address,
                              AddressTowards(ParseHostPort(coordinators->front()).value()));
    }
    const std::string listen = absl::StrCat(host.address, ":0");
    const absl::StatusOr<HostPort> parsed = ParseHostPort(listen);
    if (!parsed.ok() || !ToSocketAddress(*parsed).ok())
      return absl::InvalidArgumentError(
          absl::StrCat("--address: '", host.address,
                       "' is no numeric address without a port, as in 10.0.0.7 or [fd00::7]"));
    MUSTER_RETURN_IF_ERROR(
        CheckAddress("--address", listen, {.allow_plaintext = options.allow_plaintext}));
    MUSTER_RETURN_IF_ERROR(agent::HostAgent::Check(host, /*with_coordinator=*/false));
    MUSTER_ASSIGN_OR_RETURN(agent::RunFolder folder,
                            agent::RunFolder::OpenHost(options.folder, host.name));
    folder_.emplace(std::move(folder));
    MUSTER_ASSIGN_OR_RETURN(
        joined_,
        agent::HostAgent::Make(
            *loop_, *transport_, *folder_, std::move(host),
            {.on_start = [this](const agent::ProcessKey& key, pid_t pid) { OnStart(key, pid); },
             .on_exit = [this](const agent::NoteExit& note) { OnExit(note); },
             .on_report = [this](const agent::ProcessKey& key,
                                 const agent::Report& report) { OnReport(key, report); },
             .on_stopped = events_.on_stopped,
             .on_session =
                 [this] {
                   if (events_.on_coordinator) events_.on_coordinator(true);
                 },
             .on_no_session =
                 [this](const absl::Status& why) {
                   if (events_.on_no_coordinator)
                     events_.on_no_coordinator(std::string(why.message()));
                 }}));
    host_ = joined_.get();
    return absl::OkStatus();
  }

  const cli::ClusterEvents events_;
  const std::unique_ptr<agent::EventLoop> loop_;
  agent::SignalWatch signals_;
  const std::unique_ptr<GrpcTransport> transport_;
  // It starts a cluster, or joins one with a folder of its own.
  std::unique_ptr<agent::LocalCluster> local_;
  std::optional<agent::RunFolder> folder_;
  std::unique_ptr<agent::HostAgent> joined_;
  agent::HostAgent* host_ = nullptr;
};

size_t WidthOfTerminal() {
  winsize size{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : size_t{80};
}

cli::Terminal TerminalOfOurs() {
  const char* term = std::getenv("TERM");
  const bool is_dumb = term != nullptr && std::string(term) == "dumb";
  return {.out = std::cout,
          .err = std::cerr,
          .is_terminal = isatty(STDOUT_FILENO) == 1 && !is_dumb,
          .width = WidthOfTerminal};
}

std::optional<bool> AskAtTerminal(const std::string& question) {
  if (isatty(STDIN_FILENO) != 1) return std::nullopt;
  std::cerr << PrintableLines(question) << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

// Of a folder in which nothing runs: what its coordinator would say.
absl::StatusOr<cli::Exchange> AnswersOfFolder(const std::string& folder) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(folder, error).lexically_normal();
  // What RocksDB finds is in the error that comes back.
  MUSTER_RETURN_IF_ERROR(StartLog({.program = "muster", .level = LogLevel::kError}));
  absl::StatusOr<std::unique_ptr<coordinator::FolderAnswers>> answers =
      coordinator::FolderAnswers::Open(path / "store", path / "checkpoints");
  if (absl::IsNotFound(answers.status()))
    return absl::NotFoundError(
        absl::StrCat(folder, " is not the folder of a run: ", answers.status().message(),
                     "; --dir is the folder of muster train or muster up"));
  MUSTER_RETURN_IF_ERROR(answers.status());
  return [kept = std::shared_ptr(*std::move(answers))](
             const std::string& method, const std::string& target,
             const std::string& body) -> absl::StatusOr<http::Response> {
    return kept->Ask(method, target, body);
  };
}

int Main(int argc, char** argv) {
  EndInWordsAtLimits("muster", kExitLater);
  StandardOutput output;
  const cli::Parsed parsed = cli::ParseArguments(argc, argv);
  if (parsed.exit_code) {
    (*parsed.exit_code == 0 ? std::cout : std::cerr) << PrintableLines(parsed.text) << std::flush;
    return output.CodeOnceWritten(*parsed.exit_code, "muster");
  }
  if (const auto* remote = std::get_if<cli::RemoteArguments>(&parsed.arguments))
    return output.CodeOnceWritten(
        cli::Remote(*remote, TerminalOfOurs(), AskAtTerminal, AnswersOfFolder), "muster");
  // What follows goes on without its output: what it starts is what counts.
  agent::BlockSignals();  // before the transport starts its threads
  const cli::Terminal terminal = TerminalOfOurs();
  const cli::ClusterMaker make_cluster = [&](const cli::ClusterOptions& options,
                                             cli::ClusterEvents events) {
    std::vector<std::string> arguments = ArgumentsOf(parsed.log);
    if (options.lease > 0)  // the same for all
      arguments.insert(arguments.end(),
                       {"--lease-ms", absl::StrCat(std::llround(options.lease * 1e3))});
    if (options.thread_patience > 0)
      arguments.insert(arguments.end(),
                       {"--thread-patience", absl::StrCat(options.thread_patience)});
    for (const std::string& network : options.allow_plaintext)
      arguments.insert(arguments.end(), {"--allow-plaintext", network});
    return AgentCluster::Make(std::move(arguments), options, std::move(events));
  };
  if (const auto* train = std::get_if<cli::TrainArguments>(&parsed.arguments))
    return cli::Train(*train, make_cluster, terminal);
  if (const auto* demo = std::get_if<cli::DemoArguments>(&parsed.arguments))
    return cli::Demo(*demo, make_cluster, terminal);
  if (const auto* agent = std::get_if<cli::AgentArguments>(&parsed.arguments))
    return cli::RunAgent(*agent, make_cluster, terminal);
  return cli::Up(std::get<cli::UpArguments>(parsed.arguments), make_cluster, terminal);
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) { return muster::Main(argc, argv); }
