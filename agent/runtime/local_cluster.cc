#include "agent/runtime/local_cluster.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/descriptors.h"
#include "lib/base/plural.h"
#include "lib/base/status.h"
#include "lib/lane_counter/lane_counter.h"
#include "lib/log/log.h"

namespace muster::agent {
namespace {

constexpr char kStopThatProgram[] = ": stop that program, or end this muster and start it again";

std::string HostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 && name[0] != 0 ? name.data() : "localhost";
}

SupervisorOptions WithSlots(SupervisorOptions options, int slots) {
  options.slots = slots;
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
absl::Status CheckPrograms(const std::string& folder) {
  for (const char* name : {"muster-coordinator", "muster-server", "muster-worker"})
    if (const std::string path = absl::StrCat(folder, "/", name); access(path.c_str(), X_OK) != 0)
      return absl::NotFoundError(absl::StrCat(
          path, " is no program that can be run (", std::strerror(errno),
          "): it belongs beside muster; build or install it, or start the muster that it lies by"));
  return absl::OkStatus();
}

}  // namespace

// Nobody has told it yet.
std::map<std::string, LocalCluster::LanesByName> LocalCluster::LanesRunBefore(
    const RunFolder& folder) {
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

absl::StatusOr<std::unique_ptr<LocalCluster>> LocalCluster::Make(EventLoop& loop,
                                                                 Transport& transport,
                                                                 LocalClusterOptions options,
                                                                 LocalClusterEvents events) {
  MUSTER_RETURN_IF_ERROR(CheckPrograms(options.programs));
  MUSTER_RETURN_IF_ERROR(CheckDescriptors(options.slots));
  MUSTER_ASSIGN_OR_RETURN(RunFolder folder, RunFolder::Open(options.folder));
  MUSTER_ASSIGN_OR_RETURN(ClusterAddresses addresses, folder.PickAddresses(options.http));
  return std::unique_ptr<LocalCluster>(new LocalCluster(loop, transport, std::move(options),
                                                        std::move(events), std::move(folder),
                                                        std::move(addresses)));
}

LocalCluster::LocalCluster(EventLoop& loop, Transport& transport, LocalClusterOptions options,
                           LocalClusterEvents events, RunFolder folder, ClusterAddresses addresses)
    : options_(std::move(options)),
      events_(std::move(events)),
      folder_(std::move(folder)),
      addresses_(std::move(addresses)),
      node_(HostName()),
      run_before_(LanesRunBefore(folder_)),
      metrics_{{kCoordinatorKey, addresses_.http}},
      agent_(loop,
             {.log_file = [this](const ProcessKey& key) { return LogFile(key); },
              .command = [this](const Spawn& spawn) { return CommandFor(spawn); },
              .lanes = [this](const ProcessKey& key) { return LanesOf(key); },
              .supervisor = WithSlots(options_.supervisor, options_.slots),
              .faults = options_.faults},
             {.on_start = events_.on_start,
              .on_exit = [this](const NoteExit& note) { OnExit(note); },
              .on_report = [this](const ProcessKey& key,
                                  const Report& report) { OnReport(key, report); },
              .on_fault = events_.on_fault,
              .tell_coordinator = [this](const ProcessExited& exited) { link_.SendExit(exited); },
              .on_stopped = events_.on_stopped}),
      link_(loop, transport, addresses_.grpc, node_, options_.slots,
            {.on_up =
                 [this] {
                   agent_.Do(SessionUp{});
                   for (auto& [id, job] : jobs_) job.told_before = false;
                 },
             .on_wanted = [this](const Wanted& wanted) { OnWanted(wanted); },
             .on_down = [](const absl::Status&) {}}) {}

void LocalCluster::Start() {
  WriteTargets();
  agent_.Do(WantCoordinator{});
  link_.Start();
}

void LocalCluster::Stop() { agent_.Do(StopAll{}); }

std::vector<std::string> LocalCluster::WantedJobs() const {
  std::vector<std::string> wanted;
  for (const auto& [id, job] : jobs_)
    if (job.is_wanted) wanted.push_back(id);
  return wanted;
}

std::vector<std::string> LocalCluster::CommandFor(const Spawn& spawn) const {
  std::vector<std::string> command =
      spawn.key == kCoordinatorKey ? CoordinatorCommand() : MemberCommand(spawn);
  command.insert(command.end(), options_.arguments.begin(), options_.arguments.end());
  return command;
}

std::vector<std::string> LocalCluster::CoordinatorCommand() const {
  std::vector<std::string> command = {options_.programs + "/muster-coordinator",
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
  command.insert(command.end(), options_.coordinator_arguments.begin(),
                 options_.coordinator_arguments.end());
  return command;
}

std::vector<std::string> LocalCluster::MemberCommand(const Spawn& spawn) const {
  const ProcessKey& key = spawn.key;
  const char* program = spawn.role == Role::kServer ? "/muster-server" : "/muster-worker";
  std::vector<std::string> command = {options_.programs + program,
                                      "--coordinator",
                                      addresses_.grpc,
                                      "--job",
                                      key.job,
                                      "--start",
                                      absl::StrCat(spawn.start.value()),
                                      "--name",
                                      key.name,
                                      "--node",
                                      node_};
  if (spawn.role == Role::kWorker)
    command.insert(command.end(), {"--dir", folder_.job(key.job)});  // a server has no files there
  return command;
}

// Of a worker; a server, or a worker that never came so far, has no count, whatever one of its name
// had counted before.
LaneCount LocalCluster::LanesOf(const ProcessKey& key) {
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

void LocalCluster::OnWanted(const Wanted& wanted) {
  for (auto& [id, job] : jobs_) job.is_wanted = false;
  for (const JobProcesses& job : wanted.jobs) Begin(job);
  agent_.Do(WantMembers{wanted});
  std::erase_if(jobs_, [this](const auto& job) { return !agent_.Has(job.first); });
}

void LocalCluster::Begin(const JobProcesses& wanted) {
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
  if (!std::exchange(job.told_before, true)) TellLanesRunBefore(id, job);
}

// Where it cannot be made, no process of the job can be started, and that is told.
void LocalCluster::MakeFolder(const std::string& id, const Job& job) const {
  if (const absl::Status made = folder_.MakeJob(id, job.first_start); !made.ok())
    LogWarning("%s", made.message());
}

// Of a process that is about to start. Somebody may have removed the folder since the last one did.
std::string LocalCluster::LogFile(const ProcessKey& key) const {
  if (const auto job = jobs_.find(key.job); job != jobs_.end()) MakeFolder(key.job, job->second);
  return folder_.LogFile(key);
}

void LocalCluster::TellLanesRunBefore(const std::string& id, Job& job) {
  for (const auto& [name, lanes] : job.run_before)
    link_.SendExit({.job = id,
                    .name = name,
                    .signal = SIGKILL,
                    .cause = "ended together with an earlier muster",
                    .lanes = lanes});
}

void LocalCluster::OnReport(const ProcessKey& key, const Report& report) {
  if (!report.metrics.empty() && std::exchange(metrics_[key], report.metrics) != report.metrics)
    WriteTargets();
  if (key == kCoordinatorKey && report.event == "listening" && events_.on_coordinator)
    events_.on_coordinator(true);
  if (events_.on_report) events_.on_report(key, report);
}

// After an end of the coordinator, which could not listen. A wait for an address that another
// program keeps has no end, so it goes elsewhere where that is possible. What follows, for people.
std::string LocalCluster::LeaveTakenAddresses() {
  std::string text;
  if (const std::string taken = addresses_.grpc; RunFolder::IsTaken(taken)) {
    absl::StrAppend(&text, "; another program has ", taken, " (gRPC), ");
    const auto picked = MembersRun() ? absl::FailedPreconditionError("members that run know it")
                                     : folder_.PickAddresses(addresses_.http);
    if (picked.ok()) {
      addresses_ = *picked;
      link_.GoTo(addresses_.grpc);
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

bool LocalCluster::MembersRun() const {
  const std::vector<ProcessKey> running = agent_.Running();
  return std::any_of(running.begin(), running.end(),
                     [](const ProcessKey& key) { return key != kCoordinatorKey; });
}

void LocalCluster::OnExit(NoteExit note) {
  const bool left = note.exit.signal == 0 && note.exit.code == kExitLater;
  if (note.key == kCoordinatorKey && left && note.after == AfterExit::kStartsAgain)
    absl::StrAppend(&note.text, LeaveTakenAddresses());
  if (note.key != kCoordinatorKey && metrics_.erase(note.key) > 0) WriteTargets();
  if (!agent_.Has(note.key.job)) jobs_.erase(note.key.job);
  if (note.key == kCoordinatorKey && events_.on_coordinator) events_.on_coordinator(false);
  if (events_.on_exit) events_.on_exit(note);
}

void LocalCluster::WriteTargets() {
  if (const absl::Status written = folder_.WriteTargets(metrics_); !written.ok())
    LogWarning("%s", written.message());
}

}  // namespace muster::agent
