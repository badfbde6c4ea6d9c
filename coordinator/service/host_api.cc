#include "coordinator/service/host_api.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/service/answer_size.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/config/field_error.h"
#include "lib/domain/role_name.h"

namespace muster::coordinator {
namespace {

HostInfo InfoOf(const HostStatus& host, Time now) {
  HostInfo info{.name = host.name,
                .node = host.node,
                .slots = host.slots,
                .up = host.up,
                .draining = host.draining,
                .left_out = host.left_out};
  for (const HostDevice& device : host.devices) {
    info.devices.push_back(device.id);
    if (device.holder != PlacementNumber()) info.devices_used.insert(device.id);
  }
  // It was shown before `now` was asked, and may have been lost since.
  if (!host.up)
    info.away_for_seconds =
        std::max(0.0, std::chrono::duration<double>(now - host.away_since).count());
  return info;
}

// Into those of `hosts` that are there. What is no business of `scope` is only counted.
void AddJob(const JobStatus& status, const std::string& scope,
            std::map<std::string, HostInfo>& hosts) {
  const JobJournal& job = status.job;
  if (!HoldsPlaces(job)) return;
  const bool is_seen = Sees({.scope = scope}, RightsOf(job));
  std::map<std::string, std::string> states;  // by member that has a session
  for (const MemberStatus& member : status.members)
    if (member.up) states[member.member.id.name] = member.state;
  for (const auto& [name, placement] : job.placements) {
    const auto host = placement.host ? hosts.find(*placement.host) : hosts.end();
    if (host == hosts.end()) continue;
    ++host->second.used;
    host->second.devices_used.insert(placement.devices.begin(), placement.devices.end());
    if (!is_seen) continue;
    host->second.members.push_back({.job = job.id,
                                    .member = name,
                                    .role = NameOfRole(placement.role),
                                    .placement = placement.number.value(),
                                    .state = states.contains(name) ? states[name] : "absent",
                                    .devices = placement.devices});
  }
  if (!is_seen) return;
  for (const std::string& name : job.left_out)
    if (const auto host = hosts.find(name); host != hosts.end())
      host->second.left_out_by.push_back(job.id);
}

void AddJobs(const KnownCluster& known, const std::string& scope,
             std::map<std::string, HostInfo>& hosts) {
  for (const KnownJobPtr& job : *known.jobs) AddJob(job->status, scope, hosts);
  for (auto& [name, host] : hosts) {
    if (const auto record = known.host_records->find(name); record != known.host_records->end())
      host.name_space = record->second.name_space;
    host.free = std::max(0, host.slots - host.used);
    // The reason names jobs, and these may be of any namespace.
    if (scope != kAllNamespaces && !host.left_out.empty())
      host.left_out = "members of several jobs could not run there";
  }
}

absl::Status NoSuchHost(const KnownHosts& hosts, const std::string& name) {
  constexpr size_t kNamed = 5;
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(kNamed, hosts.size()); ++i)
    names.push_back(Cut(Printable(hosts[i].name)));
  const std::string there =
      names.empty() ? "no host has joined yet; `muster agent` joins one"
                    : absl::StrCat("there are: ", absl::StrJoin(names, ", "),
                                   hosts.size() > kNamed ? ", …; `muster hosts` shows all" : "");
  return absl::NotFoundError(absl::StrCat("there is no host ", Cut(Printable(name)), "; ", there));
}

std::vector<std::string> RevokedIn(const KnownCluster& known) {
  std::vector<std::string> names;
  for (const auto& [host, record] : *known.host_records)
    if (record.revoked && names.size() < kMostRevokedTold) names.push_back(host);
  return names;
}

class Api final : public HostApi {
 public:
  Api(Driver& driver, const Clock& clock, const LauncherNote* launcher)
      : driver_(driver), clock_(clock), launcher_(launcher) {}

  void List(const HostQuery& query, Reply<HostPage> reply) override {
    const absl::StatusOr<KnownCluster> known = driver_.KnownWithHosts();
    if (!known.ok()) return reply(known.status());
    reply(HostPageOf(*known, query, clock_.Now(), launcher_));
  }

  void Get(const std::string& name, const std::string& scope, Reply<HostInfo> reply) override {
    reply(Find(name, scope));
  }

  void Drain(const std::string& name, bool on, Reply<HostInfo> reply) override {
    if (const absl::StatusOr<HostInfo> host = Find(name); !host.ok()) return reply(host.status());
    if (driver_.HasLauncher() && HostOfLaunchNamed(name))
      return reply(absl::FailedPreconditionError(absl::StrCat(
          "host ", name, " is a pod that was made for a job, and comes again under its ",
          "name: drain its node in Kubernetes, or delete the pod")));
    driver_.Change(
        [name, on](const KnownJobs&) -> absl::StatusOr<std::optional<Input>> {
          return coordinator::Drain{name, on};
        },
        // What was decided is published once it is written, which is before this.
        [this, name, reply = std::move(reply)](const absl::StatusOr<KnownJobs>& jobs) {
          if (!jobs.ok()) return reply(jobs.status());
          reply(Find(name));
        });
  }

 private:
  absl::StatusOr<HostInfo> Find(const std::string& name,
                                const std::string& scope = std::string(kAllNamespaces)) const {
    MUSTER_ASSIGN_OR_RETURN(const KnownCluster known, driver_.KnownWithHosts());
    return HostOf(known, name, clock_.Now(), scope);
  }

  Driver& driver_;
  const Clock& clock_;
  const LauncherNote* const launcher_;
};

}  // namespace

absl::StatusOr<HostPage> HostPageOf(const KnownCluster& known, const HostQuery& query, Time now,
                                    const LauncherNote* launcher) {
  if (query.limit < 0 || query.limit > kMostJobsPerPage)
    return FieldError("", "limit", absl::StrCat("must be 1 to ", kMostJobsPerPage));
  const auto limit = static_cast<size_t>(query.limit == 0 ? kJobsPerPage : query.limit);
  std::map<std::string, HostInfo> hosts;
  bool is_last = true;
  for (const HostStatus& host : *known.hosts) {
    if (!query.page_token.empty() && host.name <= query.page_token) continue;
    is_last = hosts.size() < limit;
    if (!is_last) break;
    hosts[host.name] = InfoOf(host, now);
  }
  AddJobs(known, query.scope, hosts);
  HostPage page;
  size_t bytes = 0;
  for (auto& [name, host] : hosts) {
    bytes += AboutBytesOf(host);
    is_last = is_last && (bytes <= kMostPageBytes || page.hosts.empty());
    if (bytes > kMostPageBytes && !page.hosts.empty()) break;
    page.hosts.push_back(std::move(host));
  }
  if (!is_last) page.next_page_token = page.hosts.back().name;
  if (query.page_token.empty()) page.revoked = RevokedIn(known);
  if (launcher != nullptr) {
    page.launch_namespace = launcher->name_space();
    page.launch_trouble = launcher->trouble();
  }
  return page;
}

absl::StatusOr<HostInfo> HostOf(const KnownCluster& known, const std::string& name, Time now,
                                const std::string& scope) {
  const KnownHosts& all = *known.hosts;
  const auto host = std::find_if(all.begin(), all.end(),
                                 [&](const HostStatus& status) { return status.name == name; });
  if (host == all.end()) return NoSuchHost(all, name);
  std::map<std::string, HostInfo> hosts{{name, InfoOf(*host, now)}};
  AddJobs(known, scope, hosts);
  return std::move(hosts.at(name));
}

std::unique_ptr<HostApi> MakeHostApi(Driver& driver, const Clock& clock,
                                     const LauncherNote* launcher) {
  return std::make_unique<Api>(driver, clock, launcher);
}

}  // namespace muster::coordinator
