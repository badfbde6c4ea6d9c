#include "coordinator/state/launch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/digits.h"
#include "lib/base/hash.h"
#include "lib/base/plural.h"
#include "lib/domain/validation.h"

namespace muster::coordinator {
namespace {

constexpr absl::string_view kFront = "muster-";
constexpr absl::string_view kOfJobSet = "-hosts-0";  // its replicated job is called hosts
constexpr size_t kDigitsOfCluster = 8;
constexpr size_t kMostDigits = 6;  // of the number of a host

// What people read of it; the numbers tell jobs apart.
std::string ReadableOf(const std::string& id, size_t most) {
  std::string text;
  for (const char c : id.substr(0, most)) {
    const bool fits = absl::ascii_isalnum(static_cast<unsigned char>(c));
    text += fits ? absl::ascii_tolower(static_cast<unsigned char>(c)) : '-';
  }
  return text;
}

int32_t MembersOf(const JobJournal& job) { return MostMembersOf(job.spec); }

}  // namespace

std::string LaunchNameOf(const std::string& cluster, const JobJournal& job) {
  const std::string front =
      absl::StrFormat("%s%0*x-", std::string(kFront), static_cast<int>(kDigitsOfCluster),
                      static_cast<uint32_t>(HashBytes({cluster.data(), cluster.size()})));
  const std::string number = absl::StrFormat("-%x", job.launch.number);
  return absl::StrCat(front, ReadableOf(job.id, kLongestLaunchName - front.size() - number.size()),
                      number);
}

std::optional<HostOfLaunch> HostOfLaunchNamed(const std::string& host) {
  const size_t dash = host.rfind('-');
  HostOfLaunch found;
  if (dash == std::string::npos || !absl::StartsWith(host, kFront) ||
      host.size() - dash - 1 > kMostDigits || !ParseDigits(host.substr(dash + 1), &found.index))
    return std::nullopt;
  absl::string_view launch = absl::string_view(host).substr(0, dash);
  if (absl::EndsWith(launch, kOfJobSet)) launch.remove_suffix(kOfJobSet.size());
  found.launch = std::string(launch);
  return found;
}

// Those whose number falls go last from the highest: Kubernetes ends these first, and who is placed
// there is to have left before.
Launch LaunchOf(const std::string& cluster, const JobJournal& job, int32_t most) {
  int32_t hosts = job.launch.hosts;
  if (job.launch.is_elastic) {
    hosts = std::min(MembersOf(job), most);
    for (const auto& [name, placement] : job.placements)
      if (placement.host && !Ended(job.phase))
        if (const auto at = HostOfLaunchNamed(*placement.host))
          hosts = std::max(hosts, at->index + 1);
  }
  return {.name = LaunchNameOf(cluster, job),
          .job = job.id,
          .hosts = hosts,
          .is_elastic = job.launch.is_elastic,
          .devices_each = job.spec.runtime.devices,
          .labels = job.spec.queue.labels};
}

LaunchDecision DecideLaunches(const std::vector<const JobJournal*>& under_way,
                              const Quotas& quotas) {
  std::map<std::string, int64_t> held;  // members, by namespace
  std::vector<const JobJournal*> waiting;
  for (const JobJournal* job : under_way) {
    const int32_t granted = job->launch.hosts;
    if (job->launch.number > 0)
      held[job->spec.queue.name_space] +=
          job->launch.is_elastic ? std::min(MembersOf(*job), granted) : granted;
    else if (job->phase != JobPhase::kQueued)
      held[job->spec.queue.name_space] += MembersOf(*job);
    else
      waiting.push_back(job);
  }
  const auto quota_of = [&quotas](const std::string& name_space) {
    const auto it = quotas.find(name_space);
    return it == quotas.end() ? std::nullopt : it->second.slots;
  };
  LaunchDecision decision;
  // One that was scaled has more than it was granted as far as that is left.
  for (const JobJournal* job : under_way) {
    if (job->launch.number == 0 || !job->launch.is_elastic) continue;
    const std::string& name_space = job->spec.queue.name_space;
    int64_t more = std::max(0, MembersOf(*job) - job->launch.hosts);
    if (const auto quota = quota_of(name_space))
      more = std::clamp<int64_t>(*quota - held[name_space], 0, more);
    held[name_space] += more;
    decision.most[job->id] = static_cast<int32_t>(job->launch.hosts + more);
  }
  std::sort(waiting.begin(), waiting.end(), [](const JobJournal* a, const JobJournal* b) {
    return std::pair(-int64_t{a->spec.queue.priority}, a->submission) <
           std::pair(-int64_t{b->spec.queue.priority}, b->submission);
  });
  std::map<std::string, std::string> first_waits;  // by namespace
  for (const JobJournal* job : waiting) {
    const std::string& name_space = job->spec.queue.name_space;
    const auto quota = quota_of(name_space);
    const bool is_bound = quota.has_value();
    const int32_t most = quota.value_or(0);
    const int32_t members = MembersOf(*job);
    const std::string needs = absl::StrCat("needs ", Plural(members, "slot"), "; ");
    if (is_bound && members > most) {  // it holds up nobody
      decision.waits[job->id] =
          absl::StrCat(needs, "the quota of namespace ", name_space, " is ", most);
    } else if (first_waits.contains(name_space)) {
      decision.waits[job->id] = absl::StrCat(needs, "what is left of the quota of namespace ",
                                             name_space, " is kept for ", first_waits[name_space]);
    } else if (is_bound && held[name_space] + members > most) {
      decision.waits[job->id] = absl::StrCat(needs, "namespace ", name_space, " holds ",
                                             held[name_space], " of its quota of ", most);
      first_waits[name_space] = job->id;
    } else {
      held[name_space] += members;
      decision.grants.push_back(job->id);
    }
  }
  return decision;
}

}  // namespace muster::coordinator
