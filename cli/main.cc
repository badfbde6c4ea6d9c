// muster: chooses the parts and joins them. It alone knows both the commands and the host agent.
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "agent/runtime/devices.h"
#include "agent/runtime/event_loop.h"
#include "agent/runtime/fault_plan.h"
#include "agent/runtime/first_process.h"
#include "agent/runtime/host_agent.h"
#include "agent/runtime/host_identity.h"
#include "agent/runtime/local_cluster.h"
#include "agent/runtime/signals.h"
#include "agent/state/log_words.h"
#include "cli/agent.h"
#include "cli/arguments.h"
#include "cli/certs.h"
#include "cli/checkpoint_report.h"
#include "cli/checkpoints.h"
#include "cli/cluster.h"
#include "cli/complete.h"
#include "cli/doctor/doctor.h"
#include "cli/export.h"
#include "cli/in_worker.h"
#include "cli/remote.h"
#include "cli/run.h"
#include "cli/saved_model.h"
#include "cli/ssh_input.h"
#include "cli/ssh_run.h"
#include "cli/tokens.h"
#include "cli/train.h"
#include "coordinator/runtime/checkpoint_root.h"
#include "coordinator/runtime/journal.h"
#include "coordinator/service/cluster_authority.h"
#include "coordinator/service/folder_answers.h"
#include "lib/base/address_list.h"
#include "lib/base/exit_codes.h"
#include "lib/base/loopback.h"
#include "lib/base/printable.h"
#include "lib/base/socket_address.h"
#include "lib/base/status.h"
#include "lib/base/this_process.h"
#include "lib/base/whole_file.h"
#include "lib/checkpoint/catalogue.h"
#include "lib/checkpoint/files.h"
#include "lib/identity/identity_source.h"
#include "lib/identity/key_folder.h"
#include "lib/identity/openssl_at_exit.h"
#include "lib/launch/host_limits.h"
#include "lib/launch/own_address.h"
#include "lib/launch/own_disk.h"
#include "lib/launch/plaintext.h"
#include "lib/launch/standard_output.h"
#include "lib/log/log.h"
#include "lib/storage/kv.h"
#include "lib/transport/grpc/grpc_transport.h"

namespace muster {
namespace {

// A host that nobody takes for so long may have a certificate that is not trusted any more.
constexpr Duration kJoinsAgainAfter = std::chrono::seconds(30);

// The programs lie beside this one.
std::string ProgramFolder() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "." : path.parent_path().string();
}

// That this process may run on, which its launcher may have bound.
std::vector<int> OwnCores() {
  cpu_set_t set;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(static_cast<size_t>(core), &set)) cores.push_back(core);
  return cores;
}

cli::ProcessStart StartFrom(const agent::NoteStart& note) {
  const bool is_known = note.incarnation != Incarnation{};
  return {.job = note.key.job,
          .process = note.key.name,
          .pid = note.pid,
          .placement = note.placement.value(),
          .incarnation = is_known ? ToHex(note.incarnation) : ""};
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

// What an installation brings comes first; members run in folders of their own.
absl::StatusOr<std::vector<std::string>> PluginFolders(const std::vector<std::string>& given) {
  std::vector<std::string> folders = {ProgramFolder() + "/../lib/muster/plugins"};
  std::error_code error;
  if (!std::filesystem::is_directory(folders.front(), error)) folders.clear();
  for (const std::string& folder : given) {
    if (!std::filesystem::is_directory(folder, error))
      return absl::InvalidArgumentError(absl::StrCat(
          "--plugins: ", folder, " is no folder",
          error ? absl::StrCat(" (", error.message(), ")") : "", "; name one that holds plug-ins"));
    folders.push_back(std::filesystem::absolute(folder).lexically_normal().string());
  }
  return folders;
}

// Ctrl-C and its kin, before a cluster watches for them: they are blocked.
bool WaitForSignal(Duration time) {
  sigset_t set;
  sigemptyset(&set);
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) sigaddset(&set, s);
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
  constexpr int64_t kPerSecond = 1000000000;
  const timespec wait{.tv_sec = nanoseconds / kPerSecond, .tv_nsec = nanoseconds % kPerSecond};
  return sigtimedwait(&set, nullptr, &wait) > 0;
}

class AgentCluster final : public cli::Cluster {
 public:
  // `arguments`: further ones of every process.
  static absl::StatusOr<std::unique_ptr<cli::Cluster>> Make(std::vector<std::string> arguments,
                                                            const cli::ClusterOptions& options,
                                                            cli::ClusterEvents events) {
    agent::HostOptions host{.programs = ProgramFolder(),
                            .name = options.host,
                            .node = options.node,
                            .coordinator = options.coordinator,
                            .arguments = std::move(arguments),
                            .slots = options.slots};
    MUSTER_ASSIGN_OR_RETURN(host.plugins, PluginFolders(options.plugins));
    MUSTER_RETURN_IF_ERROR(CheckAddress(options.address));
    host.metrics_port = options.metrics_port;
    if (!options.metrics_address.empty()) {
      MUSTER_ASSIGN_OR_RETURN(
          const std::string ip,
          NamedAddress(OwnAddresses(), "--metrics-address", options.metrics_address));
      host.metrics_address = BeforePort(ip);
    }
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    MUSTER_ASSIGN_OR_RETURN(
        host.devices,
        agent::DevicesOfHost(options.devices,
                             visible ? std::optional<std::string>(visible) : std::nullopt));
    if (options.bind_cores) host.cores = OwnCores();
    if (!options.faults.empty()) {
      MUSTER_ASSIGN_OR_RETURN(host.faults,
                              agent::ParseFaultPlan(options.faults, options.faults_source,
                                                    {.workers = options.workers,
                                                     .servers = options.servers,
                                                     .has_follower = options.has_follower,
                                                     .has_reader = options.has_reader}));
    }
    // Before anything watches for signals.
    Proof proof;
    if (options.joins) {
      MUSTER_ASSIGN_OR_RETURN(proof, ProofOf(options));
    }
    MUSTER_ASSIGN_OR_RETURN(auto loop, agent::EventLoop::Make());
    std::unique_ptr<AgentCluster> cluster(new AgentCluster(std::move(loop), std::move(events)));
    if (!options.joins) {
      MUSTER_RETURN_IF_ERROR(cluster->MakeLocal(options, std::move(host)));
      return cluster;
    }
    host.identity_folder = proof.folder;
    MUSTER_ASSIGN_OR_RETURN(host.identity, IdentitySource::OpenFlag(proof.folder));
    cluster->proof_ = std::move(proof);
    MUSTER_RETURN_IF_ERROR(cluster->MakeHost(options, std::move(host)));
    return cluster;
  }

  void Start() override {
    if (local_ != nullptr) return local_->Start();
    joined_->Start();
  }
  void Stop() override { host_->Stop(); }
  void Leave() override { host_->Leave(); }
  void GoTo(const std::string& coordinator) override { host_->GoTo(coordinator); }
  void Run() override { loop_->Run(); }
  void Quit() override { loop_->Quit(); }
  void Post(std::function<void()> call) override { loop_->Post(std::move(call)); }
  void After(Duration delay, std::function<void()> call) override {
    loop_->At(std::chrono::steady_clock::now() + delay, std::move(call));
  }
  std::string url() const override { return local_ ? local_->url() : ""; }
  Trust trust() const override { return local_ ? local_->trust() : Trust{}; }
  std::string coordinator() const override { return host_->coordinator(); }
  std::string join() const override { return local_ ? local_->join() : ""; }
  std::string host() const override { return host_->name(); }
  std::string folder() const override { return local_ ? local_->folder().path() : folder_->path(); }
  std::vector<std::string> devices() const override { return host_->devices(); }
  bool LiesOnOwnDisk() const override { return muster::LiesOnOwnDisk(folder()); }
  std::vector<std::string> JobsUnderWay() const override { return host_->WantedJobs(); }
  std::vector<std::string> MissedFaults() const override { return host_->MissedFaults(); }
  void JobEndsAfter(const std::string& job, int64_t last_step) override {
    host_->JobEndsAfter(job, last_step);
  }

 private:
  // Who a host that joins is: a folder with its certificate, and what fills that.
  struct Proof {
    std::string folder;  // empty: it has none
    std::unique_ptr<KeyFolder> own;
    std::unique_ptr<agent::HostIdentity> joins;
  };

  // Else each member that is placed here would fail.
  static absl::Status CheckAddress(const std::string& address) {
    if (address.empty()) return absl::OkStatus();
    const absl::StatusOr<HostPort> parsed = ParseHostPort(absl::StrCat(address, ":0"));
    if (!parsed.ok() || !ToSocketAddress(*parsed).ok())
      return absl::InvalidArgumentError(
          absl::StrCat("--address: '", address,
                       "' is no numeric address without a port, as in 10.0.0.7 or [fd00::7]"));
    return NamedAddress(OwnAddresses(), "--address", parsed->host).status();
  }

  static std::string HostOf(const cli::ClusterOptions& options) {
    return options.host.empty() ? agent::HostAgent::OwnHostName() : options.host;
  }

  static absl::StatusOr<Proof> ProofOf(const cli::ClusterOptions& options) {
    Proof proof{.folder = options.identity};
    if (options.join.empty()) {
      MUSTER_RETURN_IF_ERROR(CheckHasIdentity(
          proof.folder,
          "a host gets one where it joins: with --dir, the folder of muster up, where this host "
          "sees that, or with --join HOST:PORT and the token that muster token host makes"));
      return proof;
    }
    if (proof.folder.empty()) {
      MUSTER_ASSIGN_OR_RETURN(
          proof.own, KeyFolder::Make(absl::StrCat(options.folder, "\n", options.join_token_file,
                                                  "\n", HostOf(options))));
      proof.folder = proof.own->path() + "/host";
    }
    MUSTER_ASSIGN_OR_RETURN(proof.joins, Join(options, proof.folder));
    return proof;
  }

  static absl::StatusOr<std::unique_ptr<agent::HostIdentity>> Join(
      const cli::ClusterOptions& options, const std::string& folder) {
    return agent::HostIdentity::Make(
        {.folder = folder,
         .join = options.join,
         .token_file = options.join_token_file,
         .host = HostOf(options),
         .node = options.node.empty() ? OwnNode() : options.node,
         .patience = options.join_patience},
        {.say =
             [](const std::string& text) {
               std::cerr << "muster agent: " << PrintableLines(text) << std::endl;
             },
         .wait =
             [&options](Duration time) {
               if (WaitForSignal(time)) return false;
               return !options.may_still_join || options.may_still_join();
             }});
  }

  static std::unique_ptr<Transport> SpeakAs(const std::shared_ptr<IdentitySource>& identity) {
    return MakeGrpcTransport({.credentials = {.identity = identity}});
  }

  AgentCluster(std::unique_ptr<agent::EventLoop> loop, cli::ClusterEvents events)
      : events_(std::move(events)), loop_(std::move(loop)), signals_(*loop_, [this](int signal) {
          if (events_.on_interrupt) events_.on_interrupt(signal);
        }) {}

  void OnStart(const agent::NoteStart& note) const {
    if (events_.on_start) events_.on_start(StartFrom(note));
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
    for (const auto& [option, address] :
         {std::pair("--listen", options.http), std::pair("--coordinator", options.coordinator),
          std::pair("--join-listen", options.join)})
      if (!address.empty())
        MUSTER_RETURN_IF_ERROR(CheckListensHere(OwnAddresses(), option, address));
    MUSTER_ASSIGN_OR_RETURN(
        local_, agent::LocalCluster::Make(
                    *loop_, SpeakAs,
                    {.folder = options.folder,
                     .http = options.http,
                     .join = options.join,
                     .webhooks = options.webhooks,
                     .mlflow = cli::WordsOf(options.mlflow),
                     .cluster_in = coordinator::ClusterWithoutAuthority,
                     .host = std::move(host)},
                    {.on_start = [this](const agent::NoteStart& note) { OnStart(note); },
                     .on_exit = [this](const agent::NoteExit& note) { OnExit(note); },
                     .on_report = [this](const agent::ProcessKey& key,
                                         const agent::Report& report) { OnReport(key, report); },
                     .on_fault = [this](const agent::FaultAction& action) { OnFault(action); },
                     .on_coordinator = events_.on_coordinator,
                     .on_no_session = events_.on_no_coordinator,
                     .on_stopped = events_.on_stopped}));
    host_ = &local_->host();
    return absl::OkStatus();
  }

  absl::Status MakeHost(const cli::ClusterOptions& options, agent::HostOptions host) {
    MUSTER_ASSIGN_OR_RETURN(host.name, agent::HostAgent::NameOf(host));
    const bool is_plain = host.identity == nullptr;
    const auto coordinators = ParseAddressList(options.coordinator);
    MUSTER_RETURN_IF_ERROR(Prefix("--coordinator", coordinators.status()));
    for (const std::string& address : *coordinators) {
      // What a name turns out to be is looked at by the transport.
      if (is_plain && !NameIn(address))
        MUSTER_RETURN_IF_ERROR(Prefix("--coordinator", CheckPlaintextAddress(address)));
      const absl::StatusOr<HostPort> found = ParseHostPort(address);
      MUSTER_RETURN_IF_ERROR(Prefix("--coordinator", found.status()));
      const HostPort& parsed = *found;
      if (parsed.port == 0)
        return absl::InvalidArgumentError(absl::StrCat(
            "--coordinator: ", address, " names no port; `muster up` says which it is"));
    }
    host.coordinator = absl::StrJoin(*coordinators, ",");
    host.address = options.address;
    host.check_address = [is_plain](const std::string& address) {
      if (!is_plain) return absl::OkStatus();
      return Prefix("--address", CheckPlaintextAddress(absl::StrCat(address, ":0")));
    };
    if (!host.address.empty()) MUSTER_RETURN_IF_ERROR(host.check_address(host.address));
    MUSTER_RETURN_IF_ERROR(agent::HostAgent::Check(host, /*with_coordinator=*/false));
    MUSTER_ASSIGN_OR_RETURN(agent::RunFolder folder,
                            agent::RunFolder::OpenHost(options.folder, host.name));
    folder_.emplace(std::move(folder));
    transport_ = SpeakAs(host.identity);
    MUSTER_ASSIGN_OR_RETURN(
        joined_, agent::HostAgent::Make(
                     *loop_, *transport_, *folder_, std::move(host),
                     {.on_start = [this](const agent::NoteStart& note) { OnStart(note); },
                      .on_exit = [this](const agent::NoteExit& note) { OnExit(note); },
                      .on_report = [this](const agent::ProcessKey& key,
                                          const agent::Report& report) { OnReport(key, report); },
                      .on_stopped = events_.on_stopped,
                      .on_session =
                          [this] {
                            no_session_since_.reset();
                            if (events_.on_coordinator) events_.on_coordinator(true);
                          },
                      .on_no_session =
                          [this](const absl::Status& why) {
                            // A certificate that is not taken any more is refused without a word.
                            const Time now = std::chrono::steady_clock::now();
                            if (!no_session_since_) no_session_since_ = now;
                            const bool is_refused = absl::IsPermissionDenied(why) ||
                                                    absl::IsUnauthenticated(why) ||
                                                    now - *no_session_since_ >= kJoinsAgainAfter;
                            if (is_refused && proof_.joins != nullptr) proof_.joins->JoinSoon();
                            if (events_.on_no_coordinator)
                              events_.on_no_coordinator(std::string(why.message()));
                          },
                      .on_trust =
                          [this](const std::string& hash) {
                            if (proof_.joins != nullptr) proof_.joins->Trust(hash);
                          }}));
    host_ = joined_.get();
    return absl::OkStatus();
  }

  const cli::ClusterEvents events_;
  const std::unique_ptr<agent::EventLoop> loop_;
  agent::SignalWatch signals_;
  // It starts a cluster, or joins one with a folder of its own.
  std::unique_ptr<agent::LocalCluster> local_;
  Proof proof_;
  std::unique_ptr<Transport> transport_;
  std::optional<agent::RunFolder> folder_;
  std::unique_ptr<agent::HostAgent> joined_;
  std::optional<Time> no_session_since_;
  agent::HostAgent* host_ = nullptr;
};

winsize SizeOfTerminal() {
  winsize size{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size : winsize{.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
}

// Not where somebody asks for plain text, nor where the letters that it is made of may be missing:
// on the console of Linux, or with a locale that names another set of characters than UTF-8.
bool WantsChart() {
  const auto value_of = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (!value_of("NO_COLOR").empty() || value_of("TERM") == "linux") return false;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string locale = absl::AsciiStrToLower(value_of(name));
    if (locale.empty()) continue;
    return !absl::StrContains(locale, ".") || absl::StrContains(locale, "utf");
  }
  return true;
}

cli::TokenPlaces TokenPlacesOfOurs() {
  const auto read = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  return {.file = read("MUSTER_TOKEN_FILE"),
          .home = read("HOME"),
          .authority = read("MUSTER_AUTHORITY")};
}

cli::Terminal TerminalOfOurs() {
  const char* term = std::getenv("TERM");
  const bool is_dumb = term != nullptr && std::string(term) == "dumb";
  return {.out = std::cout,
          .err = std::cerr,
          .is_terminal = isatty(STDOUT_FILENO) == 1 && !is_dumb,
          .width = [] { return size_t{SizeOfTerminal().ws_col}; },
          .height =
              [wants_chart = WantsChart()] {
                return wants_chart ? size_t{SizeOfTerminal().ws_row} : size_t{0};
              }};
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
    return absl::InvalidArgumentError(
        absl::StrCat(folder, " is not the folder of a run: ", answers.status().message(),
                     "; --dir is the folder of muster train or muster up"));
  MUSTER_RETURN_IF_ERROR(answers.status());
  return [kept = std::shared_ptr(*std::move(answers))](
             const std::string& method, const std::string& target,
             const std::string& body) -> absl::StatusOr<http::Response> {
    return kept->Ask(method, target, body);
  };
}

// A thread of a check, or of a question, that hangs ends with the process alone.
[[noreturn]] void EndAtOnce(int code) { std::_Exit(code); }

int Doctor(const cli::DoctorArguments& given, StandardOutput& output) {
  cli::DoctorArguments arguments = given;
  arguments.remote.may_ask_in_plain_text = MaySpeakPlaintext();
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const char* temporary = std::getenv("TMPDIR");
  cli::DoctorSurroundings surroundings{
      .programs = ProgramFolder(),
      .visible_devices = visible ? std::optional<std::string>(visible) : std::nullopt,
      .temporary = temporary != nullptr && *temporary != '\0' ? temporary : "/tmp",
      .find_what_it_shows = [places = TokenPlacesOfOurs()](cli::RemoteArguments& remote) {
        return cli::FindWhatItShows(places, remote);
      }};
  surroundings.devices = [visible = surroundings.visible_devices] {
    return agent::DevicesOfHost("auto", visible);
  };
  const cli::Examined examined = cli::Doctor(arguments, surroundings, TerminalOfOurs());
  const int code = output.CodeOnceWritten(examined.exit_code, "muster");
  if (!examined.all_ended) EndAtOnce(code);
  return code;
}

int Complete(const cli::CompletionArguments& arguments, StandardOutput& output) {
  constexpr Duration kPatience = std::chrono::seconds(1);
  if (!arguments.shell.empty()) {
    std::cout << cli::CompletionScript(arguments.shell) << std::flush;
    return output.CodeOnceWritten(kExitDone, "muster");
  }
  const cli::Completion completion = cli::Complete(arguments.words);
  cli::PrintCompletion(completion, cli::FromCluster(completion, TokenPlacesOfOurs(), kPatience),
                       std::cout);
  EndAtOnce(kExitDone);
}

cli::RunSurroundings SurroundingsOfOurs() {
  cli::RunSurroundings surroundings{.machine = HostName(), .wait = WaitForSignal};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (const size_t equals = text.find('='); equals != std::string::npos)
      surroundings.environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  surroundings.address = [](const std::string& interface,
                            const std::string& name) -> absl::StatusOr<std::string> {
    const std::vector<std::string> named =
        name.empty() || !interface.empty() ? std::vector<std::string>{} : AddressesOf(name);
    const std::vector<OwnAddress> own = OwnAddresses();
    MUSTER_ASSIGN_OR_RETURN(const std::string ip, ChooseAddress(own, interface, named));
    MUSTER_RETURN_IF_ERROR(NamedAddress(own, "the first host", ip).status());
    return BeforePort(ip);
  };
  surroundings.full_name = FullNameOf;
  surroundings.set_environment = [](const std::string& name, const std::string& value) {
    setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
  };
  surroundings.devices = [] {
    return agent::DevicesOfHost("auto", std::nullopt).value_or(std::vector<std::string>());
  };
  surroundings.unix_seconds = [] { return static_cast<int64_t>(std::time(nullptr)); };
  surroundings.draw_id = [] { return absl::StrFormat("%08x", std::random_device{}()); };
  std::error_code error;
  surroundings.program = ProgramFolder() + "/muster";
  surroundings.folder = std::filesystem::current_path(error);
  return surroundings;
}

// On a host that another muster run has started this one on: its environment comes first, then
// wishes, each as if it were SIGINT: at the first host it is a word about the run.
absl::StatusOr<std::unique_ptr<cli::SshInput>> BeginOverSsh(cli::RunSurroundings& surroundings) {
  std::cout << cli::kSshBegun << std::endl;
  MUSTER_ASSIGN_OR_RETURN(const Environment environment,
                          cli::ReadEnvironment(STDIN_FILENO, std::chrono::minutes(1)));
  for (const auto& [name, value] : environment) {
    surroundings.environment[name] = value;
    surroundings.set_environment(name, value);
  }
  return std::make_unique<cli::SshInput>(STDIN_FILENO, cli::SshInput::Patience{},
                                         [] { kill(getpid(), SIGINT); });
}

int Run(const cli::RunArguments& arguments, const cli::ClusterMaker& make_cluster,
        const cli::Terminal& terminal) {
  cli::RunSurroundings surroundings = SurroundingsOfOurs();
  surroundings.run_over_ssh = [&](const cli::SshRun& run) {
    return cli::RunOverSsh(run, terminal);
  };
  std::unique_ptr<cli::SshInput> input;
  if (arguments.over_ssh) {
    absl::StatusOr<std::unique_ptr<cli::SshInput>> begun = BeginOverSsh(surroundings);
    if (!begun.ok()) {
      std::cerr << "muster: " << PrintableLines(begun.status().message()) << std::endl;
      return ExitCodeOf(begun.status());
    }
    input = *std::move(begun);
  }
  return cli::Run(arguments, surroundings, make_cluster, terminal);
}

// Its answer takes the place of ours.
int InWorker(const absl::StatusOr<cli::WorkerCommand>& command) {
  const absl::StatusOr<int> code =
      command.ok() ? cli::RunInWorker(ProgramFolder() + "/muster-worker", *command)
                   : absl::StatusOr<int>(command.status());
  if (code.ok()) return *code;
  std::cerr << "muster: " << PrintableLines(code.status().message()) << std::endl;
  return absl::IsNotFound(code.status()) ? kExitBadConfiguration : ExitCodeOf(code.status());
}

absl::StatusOr<cli::RestClient> ClientTo(cli::RemoteArguments remote) {
  remote.may_ask_in_plain_text = MaySpeakPlaintext();
  MUSTER_RETURN_IF_ERROR(cli::FindWhatItShows(TokenPlacesOfOurs(), remote));
  MUSTER_RETURN_IF_ERROR(cli::CheckMayAsk(remote, remote.to));
  return cli::RestClient(remote.to, remote.token, remote.trust);
}

absl::StatusOr<cli::FoundCheckpoint> FindAnyCheckpoint(
    const cli::AnyCheckpointArguments& arguments) {
  absl::StatusOr<cli::FoundCheckpoint> found;
  if (arguments.remote.has_to) {
    MUSTER_ASSIGN_OR_RETURN(const cli::RestClient rest, ClientTo(arguments.remote));
    found = cli::FindInCluster(arguments, rest);
  } else {
    found = cli::FindCheckpoint(arguments);
  }
  if (found.ok()) cli::TellNote(found->note);
  return found;
}

// Of a command with plug-ins; nothing: another one was given.
template <class Given, class Make>
std::optional<int> InWorkerIf(const cli::Arguments& arguments, const Make& make) {
  const auto* given = std::get_if<Given>(&arguments);
  if (given == nullptr) return std::nullopt;
  const auto command = [&]() -> absl::StatusOr<cli::WorkerCommand> {
    MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> folders, PluginFolders(given->plugins));
    return make(*given, folders);
  };
  return InWorker(command());
}

int Export(const cli::ExportArguments& arguments, StandardOutput& output) {
  if (arguments.format == "libtorch")
    return InWorker(cli::ExportCommand(arguments, FindAnyCheckpoint));
  const absl::Status done = cli::ExportCheckpoint(arguments, FindAnyCheckpoint, std::cout);
  if (!done.ok()) std::cerr << "muster export: " << PrintableLines(done.message()) << std::endl;
  return output.CodeOnceWritten(absl::IsNotFound(done) ? kExitBadConfiguration : ExitCodeOf(done),
                                "muster");
}

// In the store of a cluster that does not run.
absl::Status ForgetCheckpoint(const std::string& dir, const std::string& job, LineageNumber lineage,
                              Step step) {
  const std::string store = coordinator::JournalOf(dir + "/store");
  std::error_code error;
  if (!std::filesystem::exists(store, error)) return absl::OkStatus();
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<Kv> kv,
                          OpenRocks(store, coordinator::JournalFamilies()));
  return Catalogue(*kv).Remove(job, lineage, step,
                               *CheckpointFilesIn(absl::StrCat(dir, "/checkpoints/", job)));
}

absl::Status LookAfterCheckpoints(const cli::CheckpointsArguments& arguments) {
  if (!arguments.remote.has_to)
    return cli::Checkpoints(arguments, ForgetCheckpoint, coordinator::HoldAtRest, std::cout);
  MUSTER_ASSIGN_OR_RETURN(const cli::RestClient rest, ClientTo(arguments.remote));
  return cli::CheckpointsOfCluster(arguments, rest, std::cout);
}

int Checkpoints(const cli::CheckpointsArguments& arguments, StandardOutput& output) {
  const absl::Status done = LookAfterCheckpoints(arguments);
  if (!done.ok())
    std::cerr << "muster checkpoints: " << PrintableLines(done.message()) << std::endl;
  return output.CodeOnceWritten(absl::IsNotFound(done) ? kExitBadConfiguration : ExitCodeOf(done),
                                "muster");
}

int Main(int argc, char** argv) {
  KeepOpenSslAtExit();
  EndInWordsAtLimits("muster", kExitLater);
  StandardOutput output;
  const cli::Parsed parsed = cli::ParseArguments(argc, argv);
  if (parsed.exit_code) {
    (*parsed.exit_code == 0 ? std::cout : std::cerr) << PrintableLines(parsed.text) << std::flush;
    return output.CodeOnceWritten(*parsed.exit_code, "muster");
  }
  if (const auto* given = std::get_if<cli::RemoteArguments>(&parsed.arguments)) {
    cli::RemoteArguments remote = *given;
    remote.may_ask_in_plain_text = MaySpeakPlaintext();
    if (const absl::Status found = cli::FindWhatItShows(TokenPlacesOfOurs(), remote); !found.ok()) {
      std::cerr << "muster: " << PrintableLines(found.message()) << std::endl;
      return output.CodeOnceWritten(kExitBadConfiguration, "muster");
    }
    return output.CodeOnceWritten(
        cli::Remote(
            remote, TerminalOfOurs(), AskAtTerminal, AnswersOfFolder,
            [](cli::RemoteArguments& at) { return cli::FindWhatItShows(TokenPlacesOfOurs(), at); }),
        "muster");
  }
  if (const auto* certs = std::get_if<cli::CertsArguments>(&parsed.arguments)) {
    const absl::StatusOr<int> code = cli::Certs(*certs, absl::Now(), std::cout);
    if (!code.ok())
      std::cerr << "muster certs: " << PrintableLines(code.status().message()) << std::endl;
    return output.CodeOnceWritten(code.ok() ? *code : ExitCodeOf(code.status()), "muster");
  }
  if (const auto* doctor = std::get_if<cli::DoctorArguments>(&parsed.arguments))
    return Doctor(*doctor, output);
  for (const std::optional<int> code :
       {InWorkerIf<cli::TasksArguments>(parsed.arguments, cli::TasksCommand),
        InWorkerIf<cli::CheckArguments>(parsed.arguments, cli::CheckCommand),
        InWorkerIf<cli::DataArguments>(parsed.arguments, cli::DataCommand),
        InWorkerIf<cli::EvaluateArguments>(parsed.arguments,
                                           [](const auto&given, const auto&plugins) {
                                             return cli::EvaluateCommand(given, plugins,
                                                                         FindAnyCheckpoint);
                                           }),
        InWorkerIf<cli::GenerateArguments>(
            parsed.arguments, [](const auto&given, const auto&plugins) {
              return cli::GenerateCommand(given, plugins, FindAnyCheckpoint);
            })})
    if (code) return *code;
  if (const auto* exported = std::get_if<cli::ExportArguments>(&parsed.arguments))
    return Export(*exported, output);
  if (const auto* checkpoints = std::get_if<cli::CheckpointsArguments>(&parsed.arguments))
    return Checkpoints(*checkpoints, output);
  if (const auto* completion = std::get_if<cli::CompletionArguments>(&parsed.arguments))
    return Complete(*completion, output);
  // What follows goes on without its output: what it starts is what counts.
  if (const std::optional<int> code = agent::ReapForAChild()) return *code;
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
    return AgentCluster::Make(std::move(arguments), options, std::move(events));
  };
  if (const auto* train = std::get_if<cli::TrainArguments>(&parsed.arguments))
    return cli::Train(*train, make_cluster, terminal);
  if (const auto* run = std::get_if<cli::RunArguments>(&parsed.arguments))
    return Run(*run, make_cluster, terminal);
  if (const auto* demo = std::get_if<cli::DemoArguments>(&parsed.arguments))
    return cli::Demo(*demo, make_cluster, terminal);
  if (const auto* agent = std::get_if<cli::AgentArguments>(&parsed.arguments))
    return cli::RunAgent(*agent, make_cluster, terminal);
  return cli::Up(std::get<cli::UpArguments>(parsed.arguments), make_cluster, terminal);
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) { return muster::Main(argc, argv); }
