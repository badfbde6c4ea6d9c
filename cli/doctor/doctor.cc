#include "cli/doctor/doctor.h"

#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/cluster_folder.h"
#include "cli/doctor/certificates.h"
#include "cli/doctor/checks.h"
#include "cli/doctor/cluster.h"
#include "cli/doctor/disk.h"
#include "cli/doctor/gpus.h"
#include "cli/doctor/libtorch.h"
#include "cli/doctor/limits.h"
#include "cli/doctor/network.h"
#include "cli/doctor/programs.h"
#include "cli/doctor/report.h"
#include "cli/tokens.h"
#include "lib/base/exit_codes.h"
#include "lib/base/own_folder.h"
#include "lib/base/printable.h"
#include "lib/base/this_process.h"
#include "lib/base/version.h"
#include "lib/http/client.h"

namespace muster::cli {
namespace {

using doctor::Check;
using doctor::Findings;

constexpr Duration kPatience = std::chrono::seconds(10);  // with each check
constexpr Duration kPatienceWithAProgram = std::chrono::seconds(8);
constexpr Duration kPatienceWithAnAddress = std::chrono::seconds(2);
constexpr Duration kPatienceWithACoordinator = std::chrono::seconds(3);

constexpr char kHost[] = "host";
constexpr char kFolder[] = "folder";
constexpr char kCluster[] = "cluster";
constexpr char kDiskHangs[] =
    "the file system does not answer: see whether its server is up, and mount it anew";

// What is looked at, as the arguments say.
struct Scope {
  RemoteArguments remote;  // with what the coordinator is shown
  absl::Status shows;      // whether that is known
  std::string folder;      // empty: none
  bool in_use = false;     // a muster runs in it
  std::string at;          // URL of the folder's cluster; empty: nothing runs there
  std::string url;         // of the cluster that is looked at; empty: none
  std::string no_cluster;  // then: why
};

// Reads files, and so may hang where their file system does.
Scope ScopeOf(RemoteArguments remote, const DoctorSurroundings& surroundings) {
  Scope scope{.in_use = IsInUse(remote.dir)};
  if (remote.has_dir || scope.in_use) scope.folder = remote.dir;
  if (scope.in_use) scope.at = UrlOfCluster(remote.dir);
  if (!remote.has_to && !scope.at.empty()) remote.to = scope.at;
  if (remote.has_to || !scope.at.empty())
    scope.url = remote.to;
  else if (scope.in_use)
    scope.no_cluster = absl::StrCat("The cluster in ", Printable(remote.dir),
                                    " does not say yet where it answers.");
  else
    scope.no_cluster =
        absl::StrCat("Nothing runs in ", Printable(remote.dir),
                     ", and --to names no cluster: only what is here was looked at.");
  if (!scope.url.empty()) scope.shows = surroundings.find_what_it_shows(remote);
  scope.remote = std::move(remote);
  return scope;
}

// In time, or as one of which nothing is known.
Scope ScopeInTime(const RemoteArguments& remote, const DoctorSurroundings& surroundings,
                  bool* ended) {
  std::packaged_task<Scope()> look([=] { return ScopeOf(remote, surroundings); });
  std::future<Scope> found = look.get_future();
  try {
    std::thread(std::move(look)).detach();
  } catch (const std::system_error&) {  // this user may have no more threads
    *ended = true;
    return ScopeOf(remote, surroundings);
  }
  *ended = found.wait_for(kPatience) == std::future_status::ready;
  if (*ended) return found.get();
  return {.remote = remote,
          .folder = remote.dir,
          .no_cluster = absl::StrCat("The file system of ", Printable(remote.dir),
                                     " does not answer, so it is not known where the cluster is.")};
}

std::vector<Check> ProgramChecks(const DoctorSurroundings& surroundings) {
  struct Row {
    const char* name;
    const char* what;
    bool is_for_some_data = false;  // the rest works without it
  };
  constexpr Row kPrograms[] = {
      {"muster-coordinator", "this host can start no cluster"},
      {"muster-worker", "no worker can be started on this host"},
      {"muster-server", "no server can be started on this host"},
      {"muster-decoder", "workers of this host cannot read HDF5 and images",
       /*is_for_some_data=*/true},
  };
  std::vector<Check> checks;
  for (const Row& row : kPrograms)
    checks.push_back({kHost, row.name, "see whether its file system answers",
                      [row, path = absl::StrCat(surroundings.programs, "/", row.name)] {
                        doctor::Finding finding = doctor::JudgeProgram(
                            row.name, row.what, doctor::GatherProgram(path, kPatienceWithAProgram),
                            kVersion);
                        if (row.is_for_some_data && finding.verdict == doctor::Verdict::kProblem)
                          finding.verdict = doctor::Verdict::kWarning;
                        return Findings{finding};
                      }});
  return checks;
}

std::vector<Check> PortChecks(const DoctorArguments& arguments, const Scope& scope) {
  std::vector<Check> checks;
  std::vector<std::string> addresses = arguments.listen;
  // Who looks at a cluster that runs elsewhere, or here, starts none.
  const bool is_named = !addresses.empty();
  if (!is_named && scope.url.empty()) addresses.push_back(UpArguments().listen);
  for (const std::string& address : addresses)
    checks.push_back({kHost, absl::StrCat("port ", address), "try it again",
                      [=, is_of_folder = absl::EndsWith(scope.at, absl::StrCat("//", address))] {
                        doctor::PortFacts facts = doctor::GatherPort(address);
                        facts.is_named = is_named;
                        facts.is_of_folder = is_of_folder;
                        return Findings{doctor::JudgePort(facts)};
                      }});
  if (!arguments.coordinators.empty())
    checks.push_back({kHost, "way to the coordinator",
                      "see whether the DNS answers (/etc/resolv.conf), or give addresses",
                      [list = arguments.coordinators] {
                        return doctor::JudgeReach(
                            doctor::GatherReach(list, kPatienceWithAnAddress));
                      }});
  return checks;
}

std::vector<Check> HostChecks(const DoctorArguments& arguments,
                              const DoctorSurroundings& surroundings, const Scope& scope) {
  std::vector<Check> checks = ProgramChecks(surroundings);
  checks.push_back({kHost, "limits", "try it again",
                    [] { return doctor::JudgeLimits(doctor::GatherLimits()); }});
  checks.push_back({kHost, "shared memory", kDiskHangs, [] {
                      return Findings{doctor::JudgeSharedMemory(doctor::GatherSharedMemory())};
                    }});
  checks.push_back({kHost, "TMPDIR", kDiskHangs, [folder = surroundings.temporary] {
                      return doctor::JudgeDisk("TMPDIR", doctor::DiskUse::kTemporary,
                                               doctor::GatherDisk(folder));
                    }});
  checks.push_back({kHost, "GPUs", "see whether NVIDIA's driver answers (nvidia-smi)",
                    [devices = surroundings.devices, visible = surroundings.visible_devices] {
                      return Findings{doctor::JudgeGpus(doctor::GatherGpus(devices(), visible))};
                    }});
  checks.push_back({kHost, "LibTorch", "see whether NVIDIA's driver answers (nvidia-smi)",
                    [worker = absl::StrCat(surroundings.programs, "/muster-worker"),
                     devices = surroundings.devices, visible = surroundings.visible_devices] {
                      const doctor::GpuFacts gpus = doctor::GatherGpus(devices(), visible);
                      return Findings{doctor::JudgeLibTorch(
                          doctor::GatherLibTorch(worker, kPatienceWithAProgram), gpus.files,
                          gpus.offered.ok() && gpus.offered->empty())};
                    }});
  checks.push_back({kHost, "clock", "try it again",
                    [] { return Findings{doctor::JudgeOwnClock(doctor::IsClockKept())}; }});
  checks.push_back({kHost, "name", "see whether the DNS answers (/etc/resolv.conf)",
                    [] { return Findings{doctor::JudgeName(doctor::GatherName())}; }});
  checks.push_back(
      {kHost, "addresses", "see what the firewall does",
       [] { return doctor::JudgeAddresses(doctor::GatherAddresses(kPatienceWithAnAddress)); }});
  for (Check& check : PortChecks(arguments, scope)) checks.push_back(std::move(check));
  if (!arguments.identity.empty())
    checks.push_back({kHost, "certificate of this host", kDiskHangs, [folder = arguments.identity] {
                        return doctor::JudgeIdentity(
                            "certificate of this host",
                            doctor::GatherIdentity(folder, /*is_at_rest=*/false), absl::Now());
                      }});
  return checks;
}

// Where the coordinator of a folder keeps its identity: in that of muster up, and in its own.
std::string IdentityIn(const std::string& folder) {
  std::error_code none;
  const std::string own = folder + "/identity";
  return std::filesystem::exists(own, none) ? own : folder + "/store/identity";
}

// Checkpoints may lie on another disk, where somebody has mounted one or put a link.
Findings JudgeFolderDisk(const std::string& folder) {
  Findings findings =
      doctor::JudgeDisk("disk", doctor::DiskUse::kCluster, doctor::GatherDisk(folder));
  for (const char* part : {"store", "checkpoints"}) {
    const std::string below = absl::StrCat(folder, "/", part);
    struct stat around {
    }, inside{};
    if (stat(below.c_str(), &inside) != 0 || stat(folder.c_str(), &around) != 0 ||
        inside.st_dev == around.st_dev)
      continue;
    for (doctor::Finding& finding : doctor::JudgeDisk(
             absl::StrCat("disk of ", part), doctor::DiskUse::kCluster, doctor::GatherDisk(below)))
      findings.push_back(std::move(finding));
  }
  return findings;
}

std::vector<Check> FolderChecks(const Scope& scope) {
  const std::string& folder = scope.folder;
  std::vector<Check> checks;
  checks.push_back({kFolder, "use", kDiskHangs, [folder, in_use = scope.in_use] {
                      std::error_code none;
                      if (std::filesystem::exists(folder, none) &&
                          !std::filesystem::is_directory(folder, none))
                        return Findings{doctor::Skipped("use", "It is no folder.")};
                      const absl::Status ours = CheckOwnFolder(folder);
                      if (!ours.ok())
                        return Findings{doctor::Problem("use", doctor::Sentence(ours.message()),
                                                        "name another folder")};
                      const absl::Status files = CheckFilesOf(folder);
                      if (!files.ok())
                        return Findings{doctor::Problem("use", doctor::Sentence(files.message()),
                                                        "move it away, or name another folder")};
                      return Findings{doctor::Ok(
                          "use", in_use ? "A muster runs in it."
                                        : "Nothing runs in it; muster up or muster train with this "
                                          "--dir starts or goes on.")};
                    }});
  checks.push_back({kFolder, "disk", kDiskHangs, [folder] { return JudgeFolderDisk(folder); }});
  checks.push_back(
      {kFolder, "certificate of the coordinator", kDiskHangs, [folder, at_rest = !scope.in_use] {
         return doctor::JudgeIdentity("certificate of the coordinator",
                                      doctor::GatherIdentity(IdentityIn(folder), at_rest),
                                      absl::Now());
       }});
  return checks;
}

Check ClusterCheck(const Scope& scope) {
  if (scope.url.empty())
    return {kCluster, "coordinator", "",
            [why = scope.no_cluster] { return Findings{doctor::Skipped("coordinator", why)}; }};
  const RemoteArguments& remote = scope.remote;
  doctor::ClusterFacts facts{.url = scope.url, .may_ask = scope.shows};
  if (facts.may_ask.ok()) facts.may_ask = CheckMayAsk(remote, scope.url);
  facts.has_token = !remote.token.empty();
  const http::ClientOptions options{
      .timeout = kPatienceWithACoordinator, .token = remote.token, .trust = remote.trust};
  return {kCluster, "coordinator", "see whether its machine is overloaded, and try it again",
          [=, url = scope.url] {
            const doctor::Ask ask = [&](const std::string& target) {
              return http::Get(url + target, options);
            };
            return doctor::JudgeCluster(
                doctor::GatherCluster(facts, ask, [] { return absl::Now(); }), kVersion,
                absl::Now());
          }};
}

}  // namespace

Examined Doctor(const DoctorArguments& arguments, const DoctorSurroundings& surroundings,
                const Terminal& terminal) {
  bool scope_is_known = false;
  const Scope scope = ScopeInTime(arguments.remote, surroundings, &scope_is_known);
  std::vector<Check> checks = HostChecks(arguments, surroundings, scope);
  std::vector<doctor::Section> sections = {{kHost, absl::StrCat("This host, ", HostName()), {}}};
  if (!scope.folder.empty()) {
    sections.push_back({kFolder, absl::StrCat("The folder ", scope.folder), {}});
    for (Check& check : FolderChecks(scope)) checks.push_back(std::move(check));
  }
  const std::string at = scope.url.empty() ? "" : absl::StrCat(" at ", scope.url);
  sections.push_back({kCluster, absl::StrCat("The cluster", at), {}});
  checks.push_back(ClusterCheck(scope));
  const doctor::Checked checked =
      doctor::RunChecks(std::move(checks), std::move(sections), kPatience);
  if (arguments.remote.json)
    terminal.out << doctor::JsonOf(checked.sections) << std::endl;
  else
    terminal.out << doctor::TextOf(checked.sections, terminal.is_terminal) << std::flush;
  return {doctor::CountsOf(checked.sections).problems == 0 ? kExitDone : kExitFailed,
          scope_is_known && checked.all_ended};
}

}  // namespace muster::cli
