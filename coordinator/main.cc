// muster-coordinator: decides who takes part in a job and who does what, and remembers it.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "coordinator/runtime/background.h"
#include "coordinator/runtime/checkpoint_root.h"
#include "coordinator/runtime/driver.h"
#include "coordinator/runtime/history_files.h"
#include "coordinator/runtime/journal.h"
#include "coordinator/runtime/log_store.h"
#include "coordinator/runtime/self_probe.h"
#include "coordinator/service/grpc/jobs_service.h"
#include "coordinator/service/host_api.h"
#include "coordinator/service/job_api.h"
#include "coordinator/service/rest.h"
#include "lib/base/awake_clock.h"
#include "lib/base/clock.h"
#include "lib/base/descriptors.h"
#include "lib/base/exit_codes.h"
#include "lib/base/failpoint.h"
#include "lib/base/lease.h"
#include "lib/base/own_folder.h"
#include "lib/base/plural.h"
#include "lib/base/status.h"
#include "lib/base/this_process.h"
#include "lib/base/version.h"
#include "lib/base/whole_file.h"
#include "lib/http/server.h"
#include "lib/launch/command_line.h"
#include "lib/launch/host_limits.h"
#include "lib/launch/log_flags.h"
#include "lib/launch/standard_output.h"
#include "lib/log/log.h"
#include "lib/metrics/metrics.h"
#include "lib/storage/kv.h"
#include "lib/transport/grpc/grpc_transport.h"

namespace muster::coordinator {
namespace {

// Room for some hundred of the largest messages at once, of thousands of members that say little.
constexpr size_t kAssemblingBytes = size_t{512} << 20;

// Jobs wait for a coordinator: when a full disk, or an address that another process holds for now,
// keeps it from starting, its host agent tries again without end.
int ExitCodeOfStart(const absl::Status& failure) {
  const bool later = absl::IsResourceExhausted(failure) || absl::IsUnavailable(failure);
  return later ? kExitLater : ExitCodeOf(failure);
}

struct Arguments {
  std::string dir;
  std::string listen = "127.0.0.1:7070";
  std::string http = "127.0.0.1:7080";
  std::string checkpoint_dir;
  std::string history_dir;
  int64_t lease_ms = kDefaultLease.count();
  int64_t thread_patience_s = kDefaultThreadPatience.count();
  int64_t probe_every_ms =
      std::chrono::ceil<std::chrono::milliseconds>(ProbeOptions().every).count();
  bool await_listen = false;
  bool await_http = false;
  int32_t slots = 0;
  std::vector<std::string> allow_plaintext;
  int report_fd = STDOUT_FILENO;
  std::string log;
  LogFlags log_flags;
  std::vector<std::string> fail_at;
};

void Define(CLI::App& app, Arguments& arguments) {
  app.add_option("--dir", arguments.dir,
                 "where the journal lies; belongs to one coordinator at a time")
      ->required();
  app.add_option("--listen", arguments.listen, "address for members and gRPC clients; port 0: any")
      ->capture_default_str();
  app.add_option("--http", arguments.http, "address of REST, events and metrics; port 0: any")
      ->capture_default_str();
  app.add_flag("--await-listen", arguments.await_listen,
               "where another process holds the address of --listen, end with 75 (later), as for "
               "one that was chosen because it was free");
  app.add_flag("--await-http", arguments.await_http, "the same for the address of --http");
  app.add_option("--checkpoint-dir", arguments.checkpoint_dir,
                 "where members write checkpoints (default: checkpoints in --dir)");
  app.add_option("--history-dir", arguments.history_dir,
                 "a directory with one for each job, in which metrics.jsonl is kept (default: "
                 "nowhere)");
  app.add_option("--lease-ms", arguments.lease_ms,
                 "a member that is silent for so many milliseconds counts as lost")
      ->check(CLI::Range(kShortestLease.count(), kLongestLease.count()))
      ->capture_default_str();
  app.add_option("--thread-patience", arguments.thread_patience_s,
                 "a member of which a thread stands still in its work for so many seconds counts "
                 "as lost")
      ->check(CLI::Range(kShortestThreadPatience.count(), kLongestThreadPatience.count()))
      ->capture_default_str();
  app.add_option("--probe-every-ms", arguments.probe_every_ms,
                 "how often it asks whether its own listeners answer, in milliseconds (tests)")
      ->check(CLI::Range(1, 60'000))
      ->capture_default_str();
  app.add_option("--slots", arguments.slots,
                 "how many members may run besides those of host agents, for members that are "
                 "started by other means")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  app.add_option("--allow-plaintext", arguments.allow_plaintext,
                 "a network (CIDR) where unprotected ports may be opened; on loopback they always "
                 "may");
  app.add_option("--report-fd", arguments.report_fd,
                 "where to report the addresses in effect, as a line of JSON")
      ->capture_default_str();
  app.add_option("--log", arguments.log, "file for the log (default: standard error)");
  AddLogFlags(app, "the log", arguments.log_flags);
  app.add_option("--fail-at", arguments.fail_at,
                 "POINT:N, kill this process at the N-th pass (tests)");
}

// It changes while jobs run, so it is marked as no training data.
absl::Status MakeDirectory(const char* flag, const std::string& path) {
  absl::Status made = MakeDirectories(path);
  if (made.ok() && access(path.c_str(), W_OK | X_OK) != 0) made = FileError(errno, "write", path);
  if (made.ok()) made = MarkOwnFolder(path);
  if (made.ok()) return made;
  const std::string text =
      absl::StrCat(flag, ": ", path, " cannot be written (", made.message(), ")");
  if (absl::IsResourceExhausted(made))
    return absl::ResourceExhaustedError(absl::StrCat(text, "; free some space"));
  return absl::PermissionDeniedError(
      absl::StrCat(text, "; name a directory that this user may write"));
}

bool HasUnfinishedJobs(const RecoveredState& recovered) {
  return std::any_of(recovered.jobs.begin(), recovered.jobs.end(),
                     [](const JobJournal& job) { return !Ended(job.phase); });
}

// A person who names an address that is taken is told at once. But where jobs wait for this
// coordinator, their members know this address: it is worth waiting for. An agent that chose one
// which was free has nobody to tell.
absl::Status CannotListen(const char* flag, const absl::Status& why, bool may_wait) {
  const absl::Status told = Prefix(flag, why);
  if (!may_wait || !absl::IsAlreadyExists(told)) return told;
  return absl::UnavailableError(told.message());
}

absl::StatusOr<std::unique_ptr<Journal>> OpenJournal(const std::string& dir) {
  auto kv = OpenRocks(JournalOf(dir), JournalFamilies());
  if (absl::IsAlreadyExists(kv.status()))
    return absl::AlreadyExistsError(
        absl::StrCat("--dir: ", dir,
                     " is in use by another coordinator; stop that one, or name "
                     "another directory"));
  MUSTER_RETURN_IF_ERROR(Prefix(absl::StrCat("--dir ", dir), kv.status()));
  auto journal = Journal::Open(*std::move(kv), TermFileOf(dir));
  if (!journal.ok()) return Prefix(absl::StrCat("--dir ", dir), journal.status());
  return journal;
}

void ReportListening(int fd, const std::string& grpc, const std::string& http) {
  const std::string line = absl::StrCat(R"({"event":"listening","grpc":")", grpc, R"(","http":")",
                                        http, R"(","metrics":")", http, "\"}\n");
  if (write(fd, line.data(), line.size()) < 0) LogWarning("nobody reads the report pipe");
}

// Everything of the process, made and unmade in order.
class Program {
 public:
  explicit Program(Arguments arguments)
      : arguments_(std::move(arguments)),
        failpoints_([fd = arguments_.report_fd](absl::string_view point) { DieAt(point, fd); }),
        metrics_({.job = "", .role = "coordinator", .member = ""}, kVersion) {}

  // The listeners wait for their open requests, which wait for the driver, or to be answered.
  ~Program() {
    history_.reset();
    if (driver_ != nullptr) driver_->Stop();
    large_answers_.Stop();
  }

  absl::Status Healthy() const { return driver_->Healthy(); }

  absl::Status Start() {
    for (const std::string& point : arguments_.fail_at)
      MUSTER_RETURN_IF_ERROR(failpoints_.Arm(point));
    MUSTER_ASSIGN_OR_RETURN(budget_, SplitDescriptors(RaiseDescriptorLimit()));
    arguments_.dir = std::filesystem::absolute(arguments_.dir).lexically_normal();
    if (arguments_.checkpoint_dir.empty())
      arguments_.checkpoint_dir = arguments_.dir + "/checkpoints";
    const std::string checkpoints =
        std::filesystem::absolute(arguments_.checkpoint_dir).lexically_normal();
    MUSTER_RETURN_IF_ERROR(MakeDirectory("--dir", arguments_.dir));
    MUSTER_RETURN_IF_ERROR(MakeDirectory("--checkpoint-dir", checkpoints));
    MUSTER_ASSIGN_OR_RETURN(journal_, OpenJournal(arguments_.dir));
    std::vector<std::string> damaged;
    auto recovered = journal_->Load(damaged);
    MUSTER_RETURN_IF_ERROR(Prefix(absl::StrCat("--dir ", arguments_.dir), recovered.status()));
    for (const std::string& text : damaged) LogWarning("a checkpoint is passed over: %s", text);
    LogInfo("cluster %s, term %d, %s", journal_->cluster(), journal_->term().value(),
            Plural(static_cast<int64_t>(recovered->jobs.size()), "job"));
    jobs_wait_ = HasUnfinishedJobs(*recovered);
    auto root = CheckpointRoot::Take(checkpoints, journal_->cluster());
    MUSTER_RETURN_IF_ERROR(Prefix("--checkpoint-dir", root.status()));
    checkpoint_root_.emplace(*std::move(root));
    std::set<std::string> ids;
    for (const JobJournal& job : recovered->jobs) ids.insert(job.id);
    logs_ = std::make_unique<LogStore>(LogsOf(arguments_.dir), std::move(ids));
    DriverOptions options{.checkpoint_root = checkpoints,
                          .connections = budget_.sessions,
                          .logs = logs_.get(),
                          .pass = [this](absl::string_view point) { failpoints_.Pass(point); },
                          // Main waits for it.
                          .on_broken = [](const absl::Status&) { kill(getpid(), SIGTERM); }};
    options.settings.lease = std::chrono::milliseconds(arguments_.lease_ms);
    options.settings.thread_patience = std::chrono::seconds(arguments_.thread_patience_s);
    options.settings.slots = arguments_.slots;
    options.settings.node = HostName();
    clock_.emplace(real_clock_, options.settings.lease / 4);
    driver_ = std::make_unique<Driver>(*journal_, *std::move(recovered), *clock_, metrics_,
                                       std::move(options));
    host_api_ = MakeHostApi(*driver_, *clock_);
    api_ = MakeJobApi(*driver_, *journal_, checkpoints, {}, LogsOf(arguments_.dir));
    if (!arguments_.history_dir.empty())
      history_ = std::make_unique<HistoryFiles>(*journal_, arguments_.history_dir,
                                                [this] { return driver_->Known(); });
    return Listen();
  }

 private:
  absl::Status Listen() {
    const Credentials credentials{.allow_plaintext = arguments_.allow_plaintext};
    transport_ = MakeGrpcTransport({.credentials = credentials,
                                    .connections = budget_.sessions,
                                    .assembling_bytes = kAssemblingBytes,
                                    .warn = [](const std::string& line) { LogError("%s", line); }});
    const JobsWaiting waiting;
    jobs_service_ = MakeJobsService(*api_, *clock_, large_answers_, waiting);
    hosts_service_ = MakeHostsService(*host_api_, *clock_, large_answers_, waiting);
    auto listener = transport_->Listen(arguments_.listen, driver_->MakeAcceptor(),
                                       {jobs_service_.get(), hosts_service_.get()});
    if (!listener.ok())
      return CannotListen("--listen", listener.status(), jobs_wait_ || arguments_.await_listen);
    listener_ = *std::move(listener);
    std::vector<http::Route> routes = RestRoutes(
        *api_, [this] { return metrics_.Text(); }, [this] { return driver_->Healthy(); },
        [this] { return driver_->Ready(); }, &large_answers_);
    for (http::Route& route : HostRoutes(*host_api_, &large_answers_))
      routes.push_back(std::move(route));
    auto server = http::Server::Start(arguments_.http, std::move(routes),
                                      {.limits = {.connections = budget_.http},
                                       .credentials = credentials,
                                       .metrics = &metrics_});
    if (!server.ok())
      return CannotListen("--http", server.status(), jobs_wait_ || arguments_.await_http);
    http_ = *std::move(server);
    LogInfo("listens on %s for members and gRPC (%d connections), on %s for HTTP (%d connections)",
            listener_->Address(), budget_.sessions, http_->Address(), budget_.http);
    probe_ = std::make_unique<SelfProbe>(
        std::vector<ProbedListener>{{listener_->Address(), kGrpcGreeting},
                                    {http_->Address(), kHttpGreeting}},
        ProbeOptions{.every = std::chrono::milliseconds(arguments_.probe_every_ms)},
        [](const std::string& deaf) {
          LogError("%s; this process ends, so that it is started again", deaf);
          _exit(kExitLater);  // all that was decided is on disk
        });
    ReportListening(arguments_.report_fd, listener_->Address(), http_->Address());
    return absl::OkStatus();
  }

  Arguments arguments_;
  DescriptorBudget budget_;
  Failpoints failpoints_;
  const RealClock real_clock_;
  std::optional<AwakeClock> clock_;
  Metrics metrics_;
  std::unique_ptr<Journal> journal_;
  std::optional<CheckpointRoot> checkpoint_root_;
  std::unique_ptr<GrpcTransport> transport_;
  std::unique_ptr<JobApi> api_;
  std::unique_ptr<HostApi> host_api_;
  std::unique_ptr<LogStore> logs_;
  std::unique_ptr<Driver> driver_;
  std::unique_ptr<HistoryFiles> history_;
  Background large_answers_;
  std::shared_ptr<grpc::Service> jobs_service_;
  std::shared_ptr<grpc::Service> hosts_service_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<http::Server> http_;
  std::unique_ptr<SelfProbe> probe_;
  bool jobs_wait_ = false;  // that this start found
};

int Main(int argc, char** argv) {
  EndInWordsAtLimits("muster-coordinator", kExitLater);
  StandardOutput output;
  CLI::App app("The coordinator of a Muster cluster", "muster-coordinator");
  Arguments arguments;
  app.set_version_flag("--version", kVersion);
  Define(app, arguments);
  if (const std::optional<int> code = ParseOrExit(app, "muster-coordinator", argc, argv))
    return output.CodeOnceWritten(*code, "muster-coordinator");
  // Before any thread is made, so that all inherit it and only sigwait sees the signals.
  signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  LogOptions log = LogOptionsOf(arguments.log_flags, "muster-coordinator");
  log.file = arguments.log;
  absl::Status status = StartLog(log);
  Program program(std::move(arguments));
  if (status.ok()) status = program.Start();
  if (!status.ok()) {
    LogError("%s", status.message());
    return ExitCodeOfStart(status);
  }
  int received = 0;
  sigwait(&signals, &received);
  if (!program.Healthy().ok()) return kExitLater;  // the driver has said why
  LogInfo("stops on signal %d", received);
  return 0;
}

}  // namespace
}  // namespace muster::coordinator

int main(int argc, char** argv) { return muster::coordinator::Main(argc, argv); }
