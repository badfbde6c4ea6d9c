#include "agent/runtime/host_agent.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "agent/runtime/member_command.h"
#include "lib/base/descriptors.h"
#include "lib/base/loopback.h"
#include "lib/base/plural.h"
#include "lib/base/printable.h"
#include "lib/base/socket_address.h"
#include "lib/base/status.h"
#include "lib/base/this_process.h"
#include "lib/domain/member_name.h"
#include "lib/identity/certificates.h"
#include "lib/lane_counter/lane_counter.h"
#include "lib/log/log.h"

namespace muster::agent {
namespace {

SupervisorOptions SupervisionOf(const HostOptions& host) {
  SupervisorOptions options = host.supervisor;
  options.slots = host.slots;
  options.devices = host.devices;
  options.signs = host.identity != nullptr;
  return options;
}

// For each process that it starts an agent holds a pidfd and a pipe.
absl::Status CheckDescriptors(int slots) {
  constexpr int kOfItself = 64, kOfAProcess = 2;
  const int limit = RaiseDescriptorLimit();
  const int most = (limit - kOfItself) / kOfAProcess;
  if (slots <= most) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("this process may open ", limit, " files, which is enough for ",
                   Plural(std::max(0, most), "slot"), "; ", slots, slots == 1 ? " is" : " are",
                   " asked for: raise the limit with ", "`ulimit -n`, or give fewer slots"));
}

// Otherwise each start of a process would find it out for itself.
absl::Status CheckPrograms(const std::string& folder, bool with_coordinator) {
  std::vector<std::string> names = {"muster-server", "muster-worker"};
  if (with_coordinator) names.insert(names.begin(), "muster-coordinator");
  for (const std::string& name : names)
    if (const std::string path = absl::StrCat(folder, "/", name); access(path.c_str(), X_OK) != 0)
      return absl::NotFoundError(absl::StrCat(
          path, " is no program that can be run (", std::strerror(errno),
          "): it belongs beside muster; build or install it, or start the muster that it lies by"));
  return absl::OkStatus();
}

// It is also the name of a folder.
absl::Status CheckName(const std::string& host) {
  if (IsMemberName(host)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the name of this host, '", Cut(Printable(host)),
                                                 "', must be ", MemberNameRule(),
                                                 ": give it another (--host)"));
}

// Each of its members says it, too.
absl::Status CheckNode(const std::string& node) {
  if (node.empty() || IsMemberName(node)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--node: '", Cut(Printable(node)), "' must be ", MemberNameRule()));
}

}  // namespace

// Nobody has told it yet.
std::map<std::string, HostAgent::LanesByName> HostAgent::LanesRunBefore(const RunFolder& folder) {
  std::map<std::string, LanesByName> before;
  std::error_code none;
  for (const auto& job : std::filesystem::directory_iterator(folder.jobs(), none)) {
    for (const auto& file : std::filesystem::directory_iterator(job.path() / "run", none)) {
      if (file.path().extension() != ".lanes") continue;
      const auto counts = ReadLaneCounts(file.path());
      if (!counts.ok()) continue;
      LanesByName& of_job = before[job.path().filename()];
      for (const LaneCount& count : *counts) of_job.emplace_back(file.path().stem(), count);
    }
  }
  return before;
}

absl::Status HostAgent::Check(const HostOptions& options, bool with_coordinator) {
  if (!options.name.empty()) MUSTER_RETURN_IF_ERROR(CheckName(options.name));
  MUSTER_RETURN_IF_ERROR(CheckNode(options.node));
  MUSTER_RETURN_IF_ERROR(CheckPrograms(options.programs, with_coordinator));
  return CheckDescriptors(options.slots);
}

std::string HostAgent::OwnHostName() {
  const std::string name = HostName();
  return IsMemberName(name) ? name : "host";
}

absl::StatusOr<std::string> HostAgent::NameOf(const HostOptions& options) {
  const std::string given = options.name.empty() ? OwnHostName() : options.name;
  if (!options.identity) return given;
  const PeerName proved = options.identity->Get()->name;
  const auto* host = std::get_if<HostPeer>(&proved.who);
  if (host != nullptr && (options.name.empty() || host->host == given)) return host->host;
  return absl::InvalidArgumentError(
      absl::StrCat("--identity: it is that of ", ToUri(proved),
                   host == nullptr ? ", and not of a host"
                                   : absl::StrCat(", and this is host ", given, " (--host)")));
}

absl::StatusOr<std::unique_ptr<HostAgent>> HostAgent::Make(EventLoop& loop, Transport& transport,
                                                           const RunFolder& folder,
                                                           HostOptions options, HostEvents events) {
  MUSTER_ASSIGN_OR_RETURN(options.name, NameOf(options));
  MUSTER_RETURN_IF_ERROR(CheckName(options.name));
  AgentHello hello{.agent = {options.name, DrawIncarnation()}};
  MUSTER_ASSIGN_OR_RETURN(hello.follows, folder.Follow(hello.agent.incarnation));
  MUSTER_RETURN_IF_ERROR(CheckNode(options.node));
  if (options.node.empty()) options.node = OwnNode();
  hello.node = options.node;
  hello.slots = options.slots;
  for (const std::string& id : options.devices) hello.devices.push_back({id});
  std::unique_ptr<MemberIdentities> identities;
  if (options.identity) {
    MUSTER_ASSIGN_OR_RETURN(identities,
                            MemberIdentities::Open(options.identity, options.identity_folder));
  }
  KnownTerms known;
  if (!events.coordinator_command) {
    MUSTER_ASSIGN_OR_RETURN(known, folder.ReadTerms());
  }
  return std::unique_ptr<HostAgent>(new HostAgent(loop, transport, folder, std::move(options),
                                                  std::move(events), std::move(hello),
                                                  std::move(known), std::move(identities)));
}

HostAgent::HostAgent(EventLoop& loop, Transport& transport, const RunFolder& folder,
                     HostOptions options, HostEvents events, AgentHello hello, KnownTerms known,
                     std::unique_ptr<MemberIdentities> identities)
    : loop_(loop),
      options_(std::move(options)),
      finds_address_(options_.address.empty()),
      events_(std::move(events)),
      folder_(folder),
      run_before_(LanesRunBefore(folder_)),
      cores_(options_.cores, options_.slots),
      logs_([this] { return link_.up() && link_.QueuedBytes() < kMostQueuedLogs; },
            [this](const LogLines& lines) { link_.SendLog(lines); }),
      identities_(std::move(identities)),
      agent_(loop,
             {.log_file = [this](const Spawn& spawn) { return LogFile(spawn); },
              .command = [this](const Spawn& spawn) { return CommandFor(spawn); },
              .environment = [this](const Spawn& spawn) { return EnvironmentOf(spawn); },
              .cores =
                  [this](const ProcessKey& key) {
                    return key == kCoordinatorKey ? std::vector<int>() : cores_.Take(key);
                  },
              .lanes = [this](const ProcessKey& key) { return LanesOf(key); },
              .supervisor = SupervisionOf(options_),
              .faults = options_.faults},
             {.on_start = [this](NoteStart note) { OnStart(std::move(note)); },
              .on_exit = [this](const NoteExit& note) { OnExit(note); },
              .on_report = [this](const ProcessKey& key,
                                  const Report& report) { OnReport(key, report); },
              .on_fault = events_.on_fault,
              .tell_coordinator = [this](const ProcessExited& exited) { link_.SendExit(exited); },
              .tell_devices =
                  [this](const std::vector<HostDevice>& devices) { link_.SendDevices(devices); },
              .ask_to_sign =
                  [this](const agent::AskToSign& ask) { AskToSign(ask.key, ask.placement); },
              .on_stopped = events_.on_stopped}),
      link_(loop, transport, options_.coordinator, std::move(hello),
            {.on_up =
                 [this] {
                   finds_address_ = false;
                   agent_.Do(SessionUp{});
                   if (leaves_) link_.SendEnds();
                   is_trust_said_ = false;
                   if (identities_)
                     for (const SignMember& question : identities_->Unanswered())
                       link_.SendQuestion(question);
                   for (auto& [id, job] : jobs_) job.told_before = false;
                   // Of jobs, too, whose members are placed elsewhere now.
                   for (const auto& [id, lanes] : run_before_) TellLanesRunBefore(id, lanes);
                   if (events_.on_session) events_.on_session();
                 },
             .on_wanted = [this](const Wanted& wanted) { OnWanted(wanted); },
             .on_signed =
                 [this](const MemberSigned& answer) {
                   if (identities_) Follow(identities_->On(answer));
                 },
             .on_sign_refused =
                 [this](const SignRefused& refused) {
                   if (identities_) Follow(identities_->On(refused));
                 },
             .on_authority = [this](const AuthorityIs& authority) { OnAuthority(authority); },
             .on_down = [this](const absl::Status& why) { OnNoSession(why); },
             .on_failed = [this](const absl::Status& why) { OnNoSession(why); },
             .on_new_term =
                 [this](const KnownTerms& terms) {
                   // Our own coordinator has no rival here: its store lies in the same folder.
                   if (events_.coordinator_command) return;
                   unkept_ = terms;
                   KeepTerms();
                 },
             .on_try = [this](const std::string& at) { return FindAddress(at); }},
            std::move(known)) {
  Look();
}

HostAgent::~HostAgent() {
  if (next_look_) loop_.Cancel(*next_look_);
}

void HostAgent::Look() {
  const Time now = std::chrono::steady_clock::now();
  logs_.Look(now);
  if (identities_)
    for (const SignMember& question : identities_->Renew(now, absl::Now()))
      link_.SendQuestion(question);
  TellTrust();
  KeepTerms();
  next_look_ = loop_.At(now + kLogLook, [this] { Look(); });
}

void HostAgent::OnAuthority(const AuthorityIs& authority) {
  if (!identities_) return;
  if (std::exchange(trust_, authority.hash) != authority.hash) is_trust_said_ = false;
  identities_->Trust(trust_, std::chrono::steady_clock::now());
  if (events_.on_trust) events_.on_trust(trust_);
}

void HostAgent::TellTrust() {
  if (trust_.empty() || is_trust_said_ || !link_.up()) return;
  const bool all_do = HashOfTrust(options_.identity->Get()->authority_pem) == trust_ &&
                      identities_->AllTrust(trust_);
  const Time now = std::chrono::steady_clock::now();
  if (!all_do) {
    trusted_since_.reset();
    return;
  }
  // What is written is not used yet: processes look at their folders every ten seconds.
  if (!trusted_since_) trusted_since_ = now;
  if (now - *trusted_since_ < kLookAtIdentityEvery + std::chrono::seconds(2)) return;
  is_trust_said_ = true;
  link_.SendTrusts({trust_});
}

// Where it cannot be written, the coordinator is obeyed all the same: a full disk would else take
// the host from its jobs. Only an agent that is started again before there was room could obey a
// coordinator that was replaced.
void HostAgent::KeepTerms() {
  constexpr Duration kPause = std::chrono::seconds(10);  // a disk that fails may take its time
  const Time now = std::chrono::steady_clock::now();
  if (!unkept_ || (is_unkept_said_ && now < keep_again_)) return;
  keep_again_ = now + kPause;
  const absl::Status kept = folder_.WriteTerms(*unkept_);
  if (kept.ok()) {
    if (std::exchange(is_unkept_said_, false)) LogInfo("%s is written again", folder_.terms());
    unkept_.reset();
  } else if (!std::exchange(is_unkept_said_, true)) {
    LogWarning("%s; it is tried again, and the coordinator obeyed meanwhile", kept.message());
  }
}

// Nobody hears it while there is no session: it is asked again in the next one.
void HostAgent::AskToSign(const ProcessKey& key, PlacementNumber placement) {
  const absl::StatusOr<SignMember> question = identities_->Begin(key, placement);
  if (question.ok()) return link_.SendQuestion(*question);
  agent_.Do(SignFailed{key, placement, std::string(question.status().message())});
}

void HostAgent::Follow(std::optional<SupervisorEvent> event) {
  if (event) agent_.Do(*std::move(event));
}

// Of what is not to start any more, or not there.
void HostAgent::DropIdentities() {
  if (!identities_) return;
  for (const ProcessKey& key : identities_->All())
    if (!agent_.Holds(key)) identities_->End(key);
}

// Before anything is promised to the coordinator there: a host whose members cannot listen would
// fail whatever is placed on it.
absl::Status HostAgent::FindAddress(const std::string& coordinator) {
  if (!finds_address_) return absl::OkStatus();
  MUSTER_ASSIGN_OR_RETURN(const HostPort peer, ParseHostPort(coordinator));
  MUSTER_ASSIGN_OR_RETURN(options_.address, AddressTowards(peer));
  if (!options_.check_address) return absl::OkStatus();
  return options_.check_address(options_.address);
}

void HostAgent::OnNoSession(const absl::Status& why) {
  if (events_.on_no_session) events_.on_no_session(why);
}

void HostAgent::Leave() {
  leaves_ = true;
  link_.SendEnds();
  StopWhenEmpty();
}

void HostAgent::StopWhenEmpty() {
  const bool goes_last = events_.coordinator_command != nullptr;
  if (!leaves_ || goes_last || MembersRun() || !WantedJobs().empty()) return;
  leaves_ = false;
  Stop();
}

void HostAgent::StartCoordinator() { agent_.Do(WantCoordinator{}); }

void HostAgent::GoTo(const std::string& coordinator) {
  options_.coordinator = coordinator;
  link_.GoTo(coordinator);
}

void HostAgent::CoordinatorServesAt(const std::string& http) { metrics_[kCoordinatorKey] = http; }

std::vector<std::string> HostAgent::WantedJobs() const {
  std::vector<std::string> wanted;
  for (const auto& [id, job] : jobs_)
    if (job.is_wanted) wanted.push_back(id);
  return wanted;
}

std::vector<std::string> HostAgent::CommandFor(const Spawn& spawn) {
  std::vector<std::string> command =
      spawn.key == kCoordinatorKey ? events_.coordinator_command() : CommandOfMember(spawn);
  command.insert(command.end(), options_.arguments.begin(), options_.arguments.end());
  return command;
}

std::vector<std::string> HostAgent::CommandOfMember(const Spawn& spawn) {
  const ProcessKey& key = spawn.key;
  return MemberCommand(spawn, {.programs = options_.programs,
                               .coordinator = link_.FromWhatAnswered(),
                               .node = options_.node,
                               .listen = options_.address + ":0",
                               .metrics = absl::StrCat(MetricsAddress(), ":", MetricsPortFor(key)),
                               .identity = identities_ ? identities_->FolderOf(key) : "",
                               .cluster = link_.cluster(),
                               .job_folder = RunsTask(spawn.role) ? folder_.job(key.job) : "",
                               .plugins = options_.plugins});
}

std::string HostAgent::MetricsAddress() const {
  if (!options_.metrics_address.empty()) return options_.metrics_address;
  // Nobody proves there who he is.
  return options_.identity ? "127.0.0.1" : options_.address;
}

int HostAgent::MetricsPortFor(const ProcessKey& member) {
  if (options_.metrics_port == 0) return 0;
  const auto had = metrics_ports_.find(member);
  if (had != metrics_ports_.end()) return had->second;
  int port = options_.metrics_port + 1;
  const auto has_it = [&port](const auto& given) { return given.second == port; };
  while (std::any_of(metrics_ports_.begin(), metrics_ports_.end(), has_it)) ++port;
  metrics_ports_[member] = port;
  return port;
}

// What CUDA finds, in the order in which it counts.
std::map<std::string, std::string> HostAgent::EnvironmentOf(const Spawn& spawn) const {
  if (options_.devices.empty() || spawn.key == kCoordinatorKey) return {};
  return {{"CUDA_VISIBLE_DEVICES", absl::StrJoin(spawn.devices, ",")}};
}

// Of a worker; a server, or a worker that never came so far, has no count, whatever one of its name
// had counted before.
LaneCount HostAgent::LanesOf(const ProcessKey& key) {
  const auto job = jobs_.find(key.job);
  if (job == jobs_.end()) return {};
  const auto counts =
      ReadLaneCounts(absl::StrCat(folder_.job(key.job), "/run/", key.name, ".lanes"));
  if (!counts.ok() || counts->empty()) return {};
  const LaneCount& newest = counts->back();
  Incarnation& counted = job->second.counted[key.name];
  const bool told = std::exchange(counted, newest.incarnation) == newest.incarnation;
  return told ? LaneCount{} : newest;
}

void HostAgent::OnWanted(const Wanted& wanted) {
  for (auto& [id, job] : jobs_) job.is_wanted = false;
  for (const JobProcesses& job : wanted.jobs) Begin(job);
  agent_.Do(WantMembers{wanted});
  DropIdentities();
  std::erase_if(jobs_, [this](const auto& job) { return !agent_.Has(job.first); });
  StopWhenEmpty();
}

void HostAgent::Begin(const JobProcesses& wanted) {
  const std::string& id = wanted.job;
  const auto [it, is_new] = jobs_.try_emplace(id);
  Job& job = it->second;
  job.is_wanted = true;
  job.first_start = wanted.first_start;
  // The job of that id may have been deleted, with its folder or without, and submitted again: we
  // do not hear of a deletion.
  if (folder_.HoldsAnotherJob(id, wanted.first_start)) {
    job.run_before.clear();
    run_before_.erase(id);
  }
  MakeFolder(id, job);
  if (is_new) {
    if (auto before = run_before_.extract(id); !before.empty())
      job.run_before = std::move(before.mapped());
  }
  if (!std::exchange(job.told_before, true)) TellLanesRunBefore(id, job.run_before);
}

// Where it cannot be made, no process of the job can be started, and that is told.
void HostAgent::MakeFolder(const std::string& id, const Job& job) const {
  if (const absl::Status made = folder_.MakeJob(id, job.first_start); !made.ok())
    LogWarning("%s", made.message());
}

// Of a process that is about to start. Somebody may have removed the folder since the last one did.
std::string HostAgent::LogFile(const Spawn& spawn) {
  const ProcessKey& key = spawn.key;
  if (const auto job = jobs_.find(key.job); job != jobs_.end()) MakeFolder(key.job, job->second);
  std::string path = folder_.LogFile(key);
  logs_.Starts(spawn, path);
  return path;
}

void HostAgent::TellLanesRunBefore(const std::string& id, const LanesByName& before) {
  for (const auto& [name, lanes] : before)
    link_.SendExit({.job = id,
                    .name = name,
                    .signal = SIGKILL,
                    .cause = "ended together with an earlier muster",
                    .lanes = lanes});
}

// Of a member with a certificate we have drawn the incarnation, which stands in there.
void HostAgent::OnStart(NoteStart note) {
  if (identities_) note.incarnation = identities_->IncarnationOf(note.key);
  if (events_.on_start) events_.on_start(std::move(note));
}

void HostAgent::OnReport(const ProcessKey& key, const Report& report) {
  if (!report.metrics.empty() && std::exchange(metrics_[key], report.metrics) != report.metrics)
    WriteTargets();
  if (events_.on_report) events_.on_report(key, report);
}

bool HostAgent::MembersRun() const {
  const std::vector<ProcessKey> running = agent_.Running();
  return std::any_of(running.begin(), running.end(),
                     [](const ProcessKey& key) { return key != kCoordinatorKey; });
}

void HostAgent::OnExit(NoteExit note) {
  cores_.Free(note.key);
  metrics_ports_.erase(note.key);
  logs_.Ended(note.key);
  logs_.Look(std::chrono::steady_clock::now());  // its last lines, as we may end next
  if (identities_) identities_->End(note.key);
  if (note.key != kCoordinatorKey && metrics_.erase(note.key) > 0) WriteTargets();
  if (!agent_.Has(note.key.job)) jobs_.erase(note.key.job);
  if (events_.on_exit) events_.on_exit(std::move(note));
  StopWhenEmpty();
}

void HostAgent::WriteTargets() {
  if (const absl::Status written = folder_.WriteTargets(metrics_); !written.ok())
    LogWarning("%s", written.message());
}

}  // namespace muster::agent
