// muster-coordinator: decides who takes part in a job and who does what, and remembers it.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "coordinator/kubernetes/launcher.h"
#include "coordinator/mlflow/mlflow.h"
#include "coordinator/mlflow/settings.h"
#include "coordinator/runtime/background.h"
#include "coordinator/runtime/checkpoint_root.h"
#include "coordinator/runtime/checkpoints.h"
#include "coordinator/runtime/driver.h"
#include "coordinator/runtime/history.h"
#include "coordinator/runtime/history_files.h"
#include "coordinator/runtime/journal.h"
#include "coordinator/runtime/launcher_note.h"
#include "coordinator/runtime/log_store.h"
#include "coordinator/runtime/self_probe.h"
#include "coordinator/runtime/signer.h"
#include "coordinator/service/authority_api.h"
#include "coordinator/service/cluster_authority.h"
#include "coordinator/service/grpc/jobs_service.h"
#include "coordinator/service/host_api.h"
#include "coordinator/service/job_api.h"
#include "coordinator/service/joining.h"
#include "coordinator/service/log_followers.h"
#include "coordinator/service/namespace_api.h"
#include "coordinator/service/openapi.h"
#include "coordinator/service/rest.h"
#include "coordinator/service/rest_identity.h"
#include "coordinator/service/token_api.h"
#include "coordinator/webhooks/webhooks.h"
#include "lib/base/awake_clock.h"
#include "lib/base/clock.h"
#include "lib/base/descriptors.h"
#include "lib/base/exit_codes.h"
#include "lib/base/failpoint.h"
#include "lib/base/lease.h"
#include "lib/base/loopback.h"
#include "lib/base/own_folder.h"
#include "lib/base/plural.h"
#include "lib/base/printable.h"
#include "lib/base/signal_sender.h"
#include "lib/base/status.h"
#include "lib/base/this_process.h"
#include "lib/base/version.h"
#include "lib/base/whole_file.h"
#include "lib/domain/labels.h"
#include "lib/domain/member_name.h"
#include "lib/http/server.h"
#include "lib/identity/certificates.h"
#include "lib/identity/identity_folder.h"
#include "lib/identity/identity_source.h"
#include "lib/identity/openssl_at_exit.h"
#include "lib/identity/tls_greeting.h"
#include "lib/join/join_listener.h"
#include "lib/join/join_token.h"
#include "lib/launch/command_line.h"
#include "lib/launch/host_limits.h"
#include "lib/launch/log_flags.h"
#include "lib/launch/plaintext.h"
#include "lib/launch/standard_output.h"
#include "lib/log/log.h"
#include "lib/metrics/metrics.h"
#include "lib/storage/kv.h"
#include "lib/transport/grpc/grpc_transport.h"

namespace muster::coordinator {
namespace {

// Room for some hundred of the largest messages at once, of thousands of members that say little.
constexpr size_t kAssemblingBytes = size_t{512} << 20;

constexpr Duration kGrowIntervalOfLaunches = std::chrono::seconds(5);

// Whoever collects metrics is one, and asks every few seconds.
constexpr int kMetricsConnections = 4;

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
  std::string metrics;  // empty: as of --http, or with an identity on loopback
  std::string checkpoint_dir;
  std::string history_dir;
  std::string tensorboard_dir;
  int64_t lease_ms = kDefaultLease.count();
  int64_t thread_patience_s = kDefaultThreadPatience.count();
  int64_t probe_every_ms =
      std::chrono::ceil<std::chrono::milliseconds>(ProbeOptions().every).count();
  bool await_listen = false;
  bool await_http = false;
  bool tokens = false;
  int32_t slots = 0;
  std::string node;
  std::string identity;
  bool authority = false;
  std::string cluster_id;
  std::vector<std::string> reached_by;
  std::string join_listen;
  std::string join_secret_file;
  std::string launcher;
  std::string launch_namespace;
  std::string launch_pod;
  std::string webhooks;
  MlflowAsked mlflow;
  int64_t certificate_seconds = absl::ToInt64Seconds(kLeafLasts);
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
  app.add_option("--metrics", arguments.metrics,
                 "address of a port for metrics alone, in plain text and for everybody who reaches "
                 "it (default: any port on loopback)");
  app.add_flag("--await-listen", arguments.await_listen,
               "where another process holds the address of --listen, end with 75 (later), as for "
               "one that was chosen because it was free");
  app.add_flag("--await-http", arguments.await_http, "the same for the address of --http");
  app.add_option("--checkpoint-dir", arguments.checkpoint_dir,
                 "where members write checkpoints (default: checkpoints in --dir)");
  app.add_option("--history-dir", arguments.history_dir,
                 "a directory in which each job gets one with its metrics.jsonl, until it is "
                 "deleted (default: nowhere)");
  app.add_option("--tensorboard-dir", arguments.tensorboard_dir,
                 "with --history-dir: a directory in which each job gets a run for TensorBoard, "
                 "likewise (default: nowhere)");
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
  app.add_option("--node", arguments.node,
                 "name of this machine, as agents that run on it say it (default: made of the "
                 "kernel's boot and the network namespace)");
  app.add_flag(
      "--tokens", arguments.tokens,
      "whoever asks for something over REST or gRPC shows a token; that of the first admin "
      "is put into identity/admin.token of --dir");
  app.add_option("--identity", arguments.identity,
                 "folder with the coordinator's certificate: members, agents and gRPC clients need "
                 "one too, REST is HTTPS, and --listen may be any address; with --tokens --http, "
                 "too");
  app.add_flag("--authority", arguments.authority,
               "the cluster has an authority of its own, in identity/ of --dir, which is made with "
               "it and signs the coordinator's certificate: as --identity with that folder")
      ->excludes("--identity");
  app.add_option("--cluster-id", arguments.cluster_id,
                 "the id of a cluster that is begun now, as it stands in the certificates of an "
                 "authority from outside (default: that in --identity, else a random one)");
  app.add_option("--reached-by", arguments.reached_by,
                 "with --authority: another DNS name or address by which people reach --http; may "
                 "be given again");
  app.add_option("--join-listen", arguments.join_listen,
                 "address at which hosts join with their tokens (muster token host); port 0: any");
  app.add_option("--join-secret-file", arguments.join_secret_file,
                 "a file with the secret of a run, with which any host may join while the cluster "
                 "has one namespace");
  CLI::Option* const launcher =
      app.add_option("--launcher", arguments.launcher,
                     "kubernetes: each job gets pods that are made for it and ended with it, with "
                     "the service account of this pod")
          ->check(CLI::IsMember({"kubernetes"}));
  app.add_option("--launch-pod", arguments.launch_pod,
                 "with --launcher: a file with the template of these pods, in YAML; in its "
                 "container called muster an agent runs")
      ->needs(launcher);
  app.add_option("--launch-namespace", arguments.launch_namespace,
                 "with --launcher: the namespace of Kubernetes in which they are made (default: "
                 "that of this pod)")
      ->needs(launcher);
  app.add_option("--webhooks", arguments.webhooks,
                 "a file that says who is told of what happens to jobs, by signed HTTPS requests, "
                 "in YAML (docs/webhooks.md); it is read again when it changes");
  CLI::Option* const mlflow =
      app.add_option("--mlflow", arguments.mlflow.url,
                     "an MLflow tracking server, https://..., at which each job is a run; a token, "
                     "or a user and a password, come from the environment, as for MLflow's own "
                     "clients");
  app.add_option("--mlflow-experiment", arguments.mlflow.experiment,
                 "with --mlflow: the experiment of these runs (default: muster-NAMESPACE, of the "
                 "job)")
      ->needs(mlflow);
  app.add_option("--mlflow-token-file", arguments.mlflow.token_file,
                 "with --mlflow: a file with the token, which only this user may read")
      ->needs(mlflow);
  app.add_option("--certificate-seconds", arguments.certificate_seconds,
                 "how long certificates of members last, which this coordinator signs with "
                 "--authority, or where the folder of --identity holds authority.key (tests)")
      ->check(CLI::Range(int64_t{2}, absl::ToInt64Seconds(kLeafLasts)))
      ->capture_default_str();
  app.add_option("--report-fd", arguments.report_fd,
                 "where to report the addresses in effect, as a line of JSON")
      ->capture_default_str();
  app.add_option("--log", arguments.log, "file for the log (default: standard error)");
  AddLogFlags(app, "the log", arguments.log_flags);
  app.add_option("--fail-at", arguments.fail_at,
                 "POINT:N, kill this process at the N-th pass (tests)");
  app.add_flag(
      "--openapi",
      // As --version, it counts before whatever else is missing.
      [](int64_t) {
        throw CLI::CallForVersion(std::string(absl::StripSuffix(OpenApiText(), "\n")),
                                  CLI::ExitCodes::Success);
      },
      "print what REST offers, as an OpenAPI document, and end");
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

absl::Status CheckIsCoordinator(const Credentials& credentials) {
  if (!credentials.identity) return absl::OkStatus();
  const PeerName name = credentials.identity->Get()->name;
  if (std::holds_alternative<CoordinatorPeer>(name.who)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--identity: it is that of ", ToUri(name), ", and not the coordinator's"));
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

// An authority from outside has named the cluster before there was a store.
absl::StatusOr<std::string> NewClusterOf(const Arguments& arguments) {
  if (!arguments.cluster_id.empty() && !IsMemberName(arguments.cluster_id))
    return absl::InvalidArgumentError(absl::StrCat("--cluster-id: it must be ", MemberNameRule()));
  if (arguments.identity.empty()) {
    if (!arguments.authority || !arguments.cluster_id.empty()) return arguments.cluster_id;
    return ClusterMadeFor(AuthorityFolderOf(arguments.dir));
  }
  const absl::StatusOr<Identity> own = ReadIdentity(arguments.identity);
  if (!own.ok()) return Prefix("--identity", own.status());
  if (!arguments.cluster_id.empty() && own->name.cluster != arguments.cluster_id)
    return absl::InvalidArgumentError(absl::StrCat("--cluster-id: --identity is of cluster ",
                                                   own->name.cluster, ", and not of ",
                                                   arguments.cluster_id));
  return own->name.cluster;
}

absl::Status CheckCluster(const Arguments& arguments, const std::string& wanted,
                          const Journal& journal) {
  MUSTER_ASSIGN_OR_RETURN(const bool has_authority, journal.HasAuthority());
  if (has_authority && !arguments.authority && arguments.identity.empty())
    return absl::FailedPreconditionError(
        "this cluster has an authority of its own, so that nobody speaks without a certificate: "
        "start it with --authority");
  if (wanted.empty() || wanted == journal.cluster()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the store is of cluster ", journal.cluster(), ", and ",
                   arguments.identity.empty() ? "--cluster-id" : "--identity", " names ", wanted,
                   ": name the folder of that cluster, or certificates of this one"));
}

absl::StatusOr<std::string> JoinSecretIn(const std::string& file) {
  if (file.empty()) return "";
  MUSTER_ASSIGN_OR_RETURN(const std::string text, ReadSecret(file));
  const absl::StatusOr<JoinToken> token =
      ParseJoinToken(std::string(absl::StripAsciiWhitespace(text)));
  if (token.ok() && token->host.empty()) return token->secret;
  return absl::InvalidArgumentError(absl::StrCat(
      file, " holds ", token.ok() ? absl::StrCat("a token of host ", token->host, ", and ") : "",
      "no secret of a run, which is one word, muster-join- and 32 random hexadecimal digits, as "
      "`echo muster-join-$(openssl rand -hex 16)` makes it"));
}

absl::StatusOr<std::unique_ptr<Journal>> OpenJournal(const std::string& dir,
                                                     const std::string& new_cluster) {
  auto kv = OpenRocks(JournalOf(dir), JournalFamilies());
  if (absl::IsAlreadyExists(kv.status()))
    return absl::AlreadyExistsError(
        absl::StrCat("--dir: ", dir,
                     " is in use by another coordinator; stop that one, or name "
                     "another directory"));
  MUSTER_RETURN_IF_ERROR(Prefix(absl::StrCat("--dir ", dir), kv.status()));
  auto journal = Journal::Open(*std::move(kv), TermFileOf(dir), new_cluster);
  if (!journal.ok()) return Prefix(absl::StrCat("--dir ", dir), journal.status());
  return journal;
}

// A certificate says who answers, and asks nobody who he is.
absl::Status CheckWhoMayAsk(const Arguments& arguments) {
  if (arguments.identity.empty() || arguments.tokens || IsLoopbackAddress(arguments.http))
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--http: without --tokens everybody who reaches ", arguments.http,
      " could run programs, let hosts join and see all: give --tokens, or an address on loopback"));
}

absl::StatusOr<SignedCertificate> SignedBy(const SigningAuthority& authority, const Leaf& leaf) {
  const absl::Time now = absl::Now();
  MUSTER_ASSIGN_OR_RETURN(SigningAuthority::Signed made, authority.Sign(leaf, now));
  return SignedCertificate{leaf.name.cluster, std::move(made.certificate_pem),
                           std::move(made.authority_pem), absl::ToUnixMillis(now)};
}

void ReportListening(int fd, const std::string& grpc, const std::string& http,
                     const std::string& metrics, const std::string& join) {
  const std::string line = absl::StrCat(
      R"({"event":"listening","grpc":")", grpc, R"(","http":")", http, R"(","metrics":")", metrics,
      join.empty() ? std::string() : absl::StrCat(R"(","join":")", join), "\"}\n");
  if (write(fd, line.data(), line.size()) < 0) LogWarning("nobody reads the report pipe");
}

// For people; whoever started this process shows it.
void ReportNote(int fd, const std::string& text) {
  LogWarning("%s", text);
  const std::string line =
      absl::StrCat(R"({"event":"note","text":")",
                   absl::StrReplaceAll(Printable(text), {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"}\n");
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
    join_listener_.reset();
    launcher_.reset();
    mlflow_.reset();
    history_.reset();
    if (driver_ != nullptr) driver_->Stop();
    if (followers_ != nullptr) followers_->Stop();
    if (joining_ != nullptr) joining_->Stop();
    large_answers_.Stop();
  }

  absl::Status Healthy() const { return driver_->Healthy(); }
  // Of a program that is not healthy: started again, one whose place another has taken would take
  // it back.
  int ExitCode() const { return replaced_ ? kExitReplaced : kExitLater; }

  absl::Status Start() {
    for (const std::string& point : arguments_.fail_at)
      MUSTER_RETURN_IF_ERROR(failpoints_.Arm(point));
    MUSTER_ASSIGN_OR_RETURN(std::optional<MlflowSettings> mlflow, SettingsOfMlflow());
    if (!arguments_.authority)
      MUSTER_RETURN_IF_ERROR(CheckHasIdentity(
          arguments_.identity,
          "with --authority this coordinator makes its own, as that of muster up does"));
    MUSTER_ASSIGN_OR_RETURN(budget_, SplitDescriptors(RaiseDescriptorLimit()));
    arguments_.dir = std::filesystem::absolute(arguments_.dir).lexically_normal();
    if (arguments_.checkpoint_dir.empty())
      arguments_.checkpoint_dir = arguments_.dir + "/checkpoints";
    const std::string checkpoints =
        std::filesystem::absolute(arguments_.checkpoint_dir).lexically_normal();
    MUSTER_RETURN_IF_ERROR(MakeDirectory("--dir", arguments_.dir));
    MUSTER_RETURN_IF_ERROR(MakeDirectory("--checkpoint-dir", checkpoints));
    MUSTER_ASSIGN_OR_RETURN(const std::string new_cluster, NewClusterOf(arguments_));
    MUSTER_ASSIGN_OR_RETURN(journal_, OpenJournal(arguments_.dir, new_cluster));
    // The keys with which hosts join are in it.
    if (arguments_.authority || !arguments_.identity.empty())
      MUSTER_RETURN_IF_ERROR(
          Prefix("--dir", CloseToOthers(JournalOf(arguments_.dir), /*may_be_link=*/true)));
    MUSTER_RETURN_IF_ERROR(Prefix(absl::StrCat("--dir ", arguments_.dir),
                                  CheckCluster(arguments_, new_cluster, *journal_)));
    MUSTER_RETURN_IF_ERROR(Prefix("--authority", ProvideIdentity()));
    std::vector<std::string> damaged;
    auto recovered = journal_->Load(damaged, absl::ToUnixMillis(absl::Now()));
    MUSTER_RETURN_IF_ERROR(Prefix(absl::StrCat("--dir ", arguments_.dir), recovered.status()));
    for (const std::string& text : damaged) LogWarning("a checkpoint is passed over: %s", text);
    LogInfo("cluster %s, term %d, %s", journal_->cluster(), journal_->term().value(),
            Plural(static_cast<int64_t>(recovered->jobs.size()), "job"));
    jobs_wait_ = HasUnfinishedJobs(*recovered);
    if (arguments_.tokens)
      MUSTER_RETURN_IF_ERROR(
          Prefix("--tokens", ProvideAdmin(arguments_.dir, *journal_, *recovered)));
    const absl::StatusOr<std::string> claimed = journal_->Claim();
    MUSTER_RETURN_IF_ERROR(Prefix(absl::StrCat("--dir ", arguments_.dir), claimed.status()));
    auto root = CheckpointRoot::Take(
        checkpoints, journal_->cluster(), journal_->term(), *claimed,
        [this](const std::string& claim) { return journal_->NoteClaim(claim); });
    MUSTER_RETURN_IF_ERROR(Prefix("--checkpoint-dir", root.status()));
    checkpoint_root_.emplace(*std::move(root));
    std::set<std::string> ids;
    for (const JobJournal& job : recovered->jobs) ids.insert(job.id);
    const Catalogue catalogue(journal_->kv(), journal_->cluster(),
                              [this] { return checkpoint_root_->CheckClaim(); });
    MUSTER_RETURN_IF_ERROR(Prefix("--dir", DropUnknownJobs(catalogue, ids, checkpoints)));
    DropStaleMarks(catalogue, journal_->cluster(), checkpoints);
    LogInfo(
        "the journal lies in %s, checkpoints lie in %s: who loses the first loses the jobs, but "
        "for what muster adopt can take from the checkpoints",
        JournalOf(arguments_.dir), checkpoints);
    MUSTER_RETURN_IF_ERROR(Prefix("--webhooks", StartWebhooks()));
    logs_ = std::make_unique<LogStore>(LogsOf(arguments_.dir), std::move(ids));
    DriverOptions options{.checkpoint_root = checkpoints,
                          .disks = {{"store", arguments_.dir}, {"checkpoints", checkpoints}},
                          .connections = budget_.sessions,
                          .logs = logs_.get(),
                          .pass = [this](absl::string_view point) { failpoints_.Pass(point); },
                          .check_claim = [this] { return checkpoint_root_->CheckClaim(); },
                          // Main waits for it.
                          .on_broken =
                              [this](const absl::Status& why) {
                                replaced_ = absl::IsAborted(why);
                                kill(getpid(), SIGTERM);
                              }};
    if (!arguments_.identity.empty()) {
      MUSTER_ASSIGN_OR_RETURN(own_identity_, IdentitySource::OpenFlag(arguments_.identity));
      auto signing = SigningAuthority::Open(arguments_.identity);
      MUSTER_RETURN_IF_ERROR(Prefix("--identity", signing.status()));
      signing_ = *std::move(signing);
      options.sign = SignerOfMembers(signing_, absl::Seconds(arguments_.certificate_seconds));
      options.trust = [signing = signing_] { return signing->trust(); };
    }
    options.settings.lease = std::chrono::milliseconds(arguments_.lease_ms);
    options.settings.thread_patience = std::chrono::seconds(arguments_.thread_patience_s);
    options.settings.slots = arguments_.slots;
    options.settings.launches = !arguments_.launcher.empty();
    // Its hosts are its own: it need not leave them to others for a while.
    if (options.settings.launches) options.settings.grow_interval = kGrowIntervalOfLaunches;
    options.settings.node = arguments_.node.empty() ? OwnNode() : arguments_.node;
    clock_.emplace(real_clock_, options.settings.lease / 4);
    driver_ = std::make_unique<Driver>(*journal_, *std::move(recovered), *clock_, metrics_,
                                       std::move(options));
    if (!arguments_.launcher.empty()) {
      MUSTER_ASSIGN_OR_RETURN(launcher_options_, OptionsOfLauncher());
      launcher_note_ = std::make_unique<LauncherNote>(launcher_options_->place.name_space);
    }
    host_api_ = MakeHostApi(*driver_, *clock_, launcher_note_.get());
    namespace_api_ = MakeNamespaceApi(*driver_);
    followers_ = MakeLogFollowers(*driver_, *logs_, LogsOf(arguments_.dir));
    followers_->Start();
    api_ = MakeJobApi(*driver_, *journal_, checkpoints, {}, LogsOf(arguments_.dir),
                      followers_.get(), static_cast<size_t>(budget_.http));
    if (arguments_.tokens) {
      token_api_ = MakeTokenApi(*driver_);
      auto audit = AuditLog::Open(arguments_.dir + "/audit.jsonl");
      MUSTER_RETURN_IF_ERROR(Prefix("--tokens", audit.status()));
      audit_ = *std::move(audit);
      gate_ =
          std::make_unique<Gate>([this] { return driver_->KnownWithHosts(); }, *audit_, *clock_);
    }
    if (!arguments_.identity.empty()) MUSTER_RETURN_IF_ERROR(LetHostsIn());
    if (!arguments_.history_dir.empty())
      history_ = std::make_unique<HistoryFiles>(*journal_, arguments_.history_dir,
                                                arguments_.tensorboard_dir,
                                                [this] { return driver_->Known(); });
    if (mlflow) StartMlflow(*std::move(mlflow));
    MUSTER_RETURN_IF_ERROR(Listen());
    if (launcher_options_) launcher_ = std::make_unique<Launcher>(*std::move(launcher_options_));
    return absl::OkStatus();
  }

 private:
  // With an authority of its own the coordinator is one who has an identity from there on.
  absl::Status ProvideIdentity() {
    if (!arguments_.authority) return absl::OkStatus();
    const std::string folder = AuthorityFolderOf(arguments_.dir);
    MUSTER_ASSIGN_OR_RETURN(
        std::vector<std::string> reached_by,
        ReachedBy({arguments_.listen, arguments_.http}, arguments_.reached_by, HostName()));
    MUSTER_RETURN_IF_ERROR(ProvideAuthority(folder, *journal_, absl::Now()));
    MUSTER_RETURN_IF_ERROR(RenewOwn(folder, reached_by, absl::Now()).status());
    reached_by_ = std::move(reached_by);
    arguments_.identity = folder;
    return absl::OkStatus();
  }

  absl::StatusOr<std::optional<MlflowSettings>> SettingsOfMlflow() const {
    if (arguments_.mlflow.url.empty()) return std::nullopt;
    return MlflowSettingsOf(arguments_.mlflow, [](const char* name) {
      const char* value = std::getenv(name);
      return std::string(value == nullptr ? "" : value);
    });
  }

  void StartMlflow(MlflowSettings settings) {
    mlflow_ = std::make_unique<Mlflow>(MlflowOptions{
        .settings = std::move(settings),
        .cluster = journal_->cluster(),
        .known = [this] { return driver_->Known(); },
        .read =
            [this](const JobJournal& job, Step recorded, int64_t from) {
              return ReadHistory(*journal_, job, recorded, {.from = from}, {});
            },
        .check_claim = [this] { return checkpoint_root_->CheckClaim(); },
        .tell = [fd = arguments_.report_fd](const std::string& text) { ReportNote(fd, text); }});
  }

  absl::Status StartWebhooks() {
    if (arguments_.webhooks.empty()) return absl::OkStatus();
    auto webhooks =
        Webhooks::Start(*journal_, metrics_, {.file = arguments_.webhooks, .check_claim = [this] {
                                                return checkpoint_root_->CheckClaim();
                                              }});
    MUSTER_RETURN_IF_ERROR(webhooks.status());
    webhooks_ = *std::move(webhooks);
    return absl::OkStatus();
  }

  // Hosts may join, and the authority may be changed.
  absl::Status LetHostsIn() {
    const absl::StatusOr<std::string> secret = JoinSecretIn(arguments_.join_secret_file);
    MUSTER_RETURN_IF_ERROR(Prefix("--join-secret-file", secret.status()));
    joining_ = std::make_unique<Joining>(
        *driver_, journal_->cluster(),
        [signing = signing_](const Leaf& leaf) { return SignedBy(*signing, leaf); }, *secret);
    authority_ = std::make_unique<ClusterAuthority>(
        ClusterAuthority::Options{.folder = arguments_.identity,
                                  .reached_by = reached_by_,
                                  .signs = signing_,
                                  .note =
                                      [this](const std::vector<std::string>& hashes) {
                                        return journal_->NoteAuthority(hashes);
                                      },
                                  .on_change =
                                      [this](bool fewer) {
                                        own_identity_->LookSoon();
                                        driver_->TrustChanged(fewer);
                                      }});
    authority_api_ = MakeAuthorityApi(*driver_, *authority_);
    return absl::OkStatus();
  }

  absl::StatusOr<LauncherOptions> OptionsOfLauncher() {
    if (arguments_.launch_pod.empty())
      return absl::InvalidArgumentError("--launcher: --launch-pod is to name the template of pods");
    absl::StatusOr<KubeServer> server = ServerOfThisPod();
    MUSTER_RETURN_IF_ERROR(Prefix("--launcher", server.status()));
    absl::StatusOr<std::string> name_space = arguments_.launch_namespace;
    if (name_space->empty()) name_space = NamespaceOfThisPod();
    MUSTER_RETURN_IF_ERROR(Prefix("--launch-namespace", name_space.status()));
    if (!IsDnsLabel(*name_space))
      return absl::InvalidArgumentError(
          absl::StrCat("--launch-namespace: '", Cut(Printable(*name_space)),
                       "' is not a namespace; allowed: ", kDnsLabelRule));
    const absl::StatusOr<std::string> text = ReadMountedFile(arguments_.launch_pod);
    if (!text.ok())
      return absl::InvalidArgumentError(absl::StrCat("--launch-pod: ", text.status().message()));
    const absl::StatusOr<std::string> pod = ParsePodTemplate(*text, arguments_.launch_pod);
    MUSTER_RETURN_IF_ERROR(Prefix("--launch-pod", pod.status()));
    return LauncherOptions{
        .server = *std::move(server),
        .place = {.name_space = *std::move(name_space),
                  .cluster = journal_->cluster(),
                  .pod = *pod},
        .wanted = [this]() -> LaunchesPtr {
          const absl::StatusOr<KnownCluster> known = driver_->KnownWithHosts();
          return known.ok() ? known->launches : nullptr;
        },
        .check_claim = [this] { return checkpoint_root_->CheckClaim(); },
        .tell = [this](const LaunchTold& told) { return driver_->Tell(told); },
        .note_trouble =
            [this](const std::string& trouble) { launcher_note_->SetTrouble(trouble); }};
  }

  absl::Status ListenForHosts() {
    if (arguments_.join_listen.empty()) return absl::OkStatus();
    // A token would be bound to the first key, and nobody could sign that.
    if (joining_ == nullptr || absl::IsNotFound(ReadAuthority(arguments_.identity).status()))
      return absl::InvalidArgumentError(
          "--join-listen: hosts join where there is somebody to sign for them: give --authority, "
          "or --identity with a key of the authority");
    auto listener = JoinListener::Start(
        arguments_.join_listen,
        [this](const std::string& identity) { return joining_->KeyOf(identity); },
        [this](const std::string& identity, const JoinHost& ask,
               std::function<void(JoinAnswer)> answer) {
          joining_->Decide(identity, ask, std::move(answer));
        });
    if (!listener.ok())
      return CannotListen("--join-listen", listener.status(),
                          jobs_wait_ || arguments_.await_listen);
    join_listener_ = *std::move(listener);
    LogInfo("listens on %s for hosts that join", join_listener_->Address());
    return absl::OkStatus();
  }

  absl::Status Listen() {
    Credentials credentials;
    credentials.identity = own_identity_;
    MUSTER_RETURN_IF_ERROR(CheckIsCoordinator(credentials));
    MUSTER_RETURN_IF_ERROR(CheckWhoMayAsk(arguments_));
    std::string greeting = kGrpcGreeting, http_greeting = kHttpGreeting;
    if (credentials.identity) {
      MUSTER_ASSIGN_OR_RETURN(greeting, TlsGreeting());
      http_greeting = greeting;
    }
    transport_ = MakeGrpcTransport({.credentials = credentials,
                                    .connections = budget_.sessions,
                                    .assembling_bytes = kAssemblingBytes});
    const JobsWaiting waiting;
    jobs_service_ = MakeJobsService(*api_, *clock_, large_answers_, waiting, gate_.get());
    hosts_service_ = MakeHostsService(*host_api_, *clock_, large_answers_, waiting, gate_.get());
    auto listener = transport_->Listen(arguments_.listen, driver_->MakeAcceptor(),
                                       {jobs_service_.get(), hosts_service_.get()});
    if (!listener.ok())
      return CannotListen("--listen", listener.status(), jobs_wait_ || arguments_.await_listen);
    listener_ = *std::move(listener);
    std::vector<http::Route> routes = RestRoutes(
        *api_, [this] { return MetricsText(); }, [this] { return driver_->Healthy(); },
        [this] { return driver_->Ready(); }, &large_answers_, gate_.get());
    for (http::Route& route : HostRoutes(*host_api_, &large_answers_, gate_.get()))
      routes.push_back(std::move(route));
    for (http::Route& route : NamespaceRoutes(*namespace_api_, &large_answers_, gate_.get()))
      routes.push_back(std::move(route));
    if (gate_ != nullptr)
      for (http::Route& route : TokenRoutes(*token_api_, &large_answers_, *gate_))
        routes.push_back(std::move(route));
    if (joining_ != nullptr)
      for (http::Route& route : JoiningRoutes(*joining_, *joining_, gate_.get()))
        routes.push_back(std::move(route));
    if (authority_api_ != nullptr)
      for (http::Route& route : AuthorityRoutes(*authority_api_, gate_.get()))
        routes.push_back(std::move(route));
    auto server = http::Server::Start(arguments_.http, std::move(routes),
                                      {.limits = {.connections = budget_.http},
                                       .credentials = credentials,
                                       .metrics = &metrics_});
    if (!server.ok())
      return CannotListen("--http", server.status(), jobs_wait_ || arguments_.await_http);
    http_ = *std::move(server);
    if (arguments_.metrics.empty() && credentials.identity) arguments_.metrics = "127.0.0.1:0";
    if (!arguments_.metrics.empty()) {
      auto serves = http::Server::Start(
          arguments_.metrics,
          {http::MetricsRoute([this] { return MetricsText(); }),
           http::HealthRoute([this] { return driver_->Healthy(); })},
          {.limits = {.connections = kMetricsConnections}, .plaintext_anywhere = true});
      MUSTER_RETURN_IF_ERROR(Prefix("--metrics", serves.status()));
      metrics_http_ = *std::move(serves);
    }
    MUSTER_RETURN_IF_ERROR(ListenForHosts());
    LogInfo("listens on %s for members and gRPC (%d connections), on %s for HTTP (%d connections)",
            listener_->Address(), budget_.sessions, http_->Address(), budget_.http);
    probe_ = std::make_unique<SelfProbe>(
        std::vector<ProbedListener>{{listener_->Address(), greeting},
                                    {http_->Address(), http_greeting}},
        ProbeOptions{.every = std::chrono::milliseconds(arguments_.probe_every_ms)},
        [](const std::string& deaf) {
          LogError("%s; this process ends, so that it is started again", deaf);
          _exit(kExitLater);  // all that was decided is on disk
        });
    ReportListening(arguments_.report_fd, listener_->Address(), http_->Address(),
                    (metrics_http_ ? *metrics_http_ : *http_).Address(),
                    join_listener_ == nullptr ? "" : join_listener_->Address());
    return absl::OkStatus();
  }

  std::string MetricsText() {
    if (own_identity_ != nullptr)
      metrics_.GetGauge("muster_certificate_end_timestamp_seconds")
          .Set(absl::ToDoubleSeconds(own_identity_->Get()->ends - absl::UnixEpoch()));
    if (launcher_note_ != nullptr)
      metrics_.GetGauge("muster_launcher_trouble").Set(launcher_note_->trouble().empty() ? 0 : 1);
    return metrics_.Text();
  }

  Arguments arguments_;
  DescriptorBudget budget_;
  Failpoints failpoints_;
  const RealClock real_clock_;
  std::optional<AwakeClock> clock_;
  Metrics metrics_;
  std::unique_ptr<Journal> journal_;
  std::optional<CheckpointRoot> checkpoint_root_;
  std::unique_ptr<Webhooks> webhooks_;  // null: nobody is told
  std::unique_ptr<GrpcTransport> transport_;
  std::unique_ptr<JobApi> api_;
  std::unique_ptr<HostApi> host_api_;
  std::unique_ptr<NamespaceApi> namespace_api_;
  std::unique_ptr<TokenApi> token_api_;
  std::unique_ptr<AuditLog> audit_;
  std::unique_ptr<Gate> gate_;
  std::unique_ptr<LogStore> logs_;
  std::unique_ptr<Driver> driver_;
  std::unique_ptr<LogFollowers> followers_;
  std::unique_ptr<Joining> joining_;
  std::shared_ptr<IdentitySource> own_identity_;  // null: it speaks plain text
  std::shared_ptr<SigningAuthority> signing_;
  std::optional<std::vector<std::string>> reached_by_;  // of an authority of its own
  std::unique_ptr<ClusterAuthority> authority_;
  std::unique_ptr<AuthorityApi> authority_api_;
  std::unique_ptr<HistoryFiles> history_;
  std::unique_ptr<Mlflow> mlflow_;                   // null: there is no such server
  std::optional<LauncherOptions> launcher_options_;  // until it begins
  std::unique_ptr<LauncherNote> launcher_note_;      // likewise
  std::unique_ptr<Launcher> launcher_;               // null: hosts come by themselves
  Background large_answers_;
  std::shared_ptr<grpc::Service> jobs_service_;
  std::shared_ptr<grpc::Service> hosts_service_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<http::Server> http_;
  std::unique_ptr<http::Server> metrics_http_;  // null: http_ serves them alone
  std::unique_ptr<JoinListener> join_listener_;
  std::unique_ptr<SelfProbe> probe_;
  bool jobs_wait_ = false;  // that this start found
  std::atomic<bool> replaced_{false};
};

int Main(int argc, char** argv) {
  KeepOpenSslAtExit();
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
  const bool has_agent = arguments.report_fd != STDOUT_FILENO;
  Program program(std::move(arguments));
  if (status.ok()) status = program.Start();
  if (!status.ok()) {
    LogError("%s", status.message());
    return ExitCodeOfStart(status);
  }
  siginfo_t received{};
  while (sigwaitinfo(&signals, &received) < 0 || !Heeds(received, has_agent))
    if (received.si_signo != 0)
      LogInfo("signal %d of process %d is left to the agent", received.si_signo, received.si_pid);
  if (!program.Healthy().ok()) return program.ExitCode();  // the driver has said why
  LogInfo("stops on signal %d", received.si_signo);
  return 0;
}

}  // namespace
}  // namespace muster::coordinator

int main(int argc, char** argv) { return muster::coordinator::Main(argc, argv); }
