// Hosts that are made for one job and for no other (docs/hosts.md section 12): what each job that
// is under way needs, and what becomes of the names. Pure functions on plain values.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/state/job_state.h"
#include "coordinator/state/quotas.h"

namespace muster::coordinator {

// The hosts of one job, as a launcher is to make them.
struct Launch {
  std::string name;  // LAUNCH: letters, digits and dashes, at most kLongestLaunchName
  std::string job;
  int32_t hosts = 0;                            // one for each member that it may have
  bool is_elastic = false;                      // how many they are may change while it runs
  int32_t devices_each = 0;                     // that a host needs
  std::map<std::string, std::string> labels{};  // the job's own
  bool operator==(const Launch&) const = default;
};
using Launches = std::vector<Launch>;                 // by name
using LaunchesPtr = std::shared_ptr<const Launches>;  // of one time

// With what JobSet puts behind it for a pod ("-hosts-0-4095-x7k2p") it is a label of DNS.
inline constexpr size_t kLongestLaunchName = 44;

// What the launcher says of one.
struct LaunchTold {
  std::string launch;
  std::string text{};  // how far it is, for people; empty: it is complete
  std::string why{};   // what stands in the way, for people; empty: nothing but time
  // Why it is given up, for people; empty: it is not.
  std::string failure{};
  bool is_over = false;  // then: nothing of it is left, so that a job that runs on it ends, too
  int exit_code = 1;     // the same
  bool operator==(const LaunchTold&) const = default;
};

// Of a job that was granted one.
std::string LaunchNameOf(const std::string& cluster, const JobJournal& job);

struct HostOfLaunch {
  std::string launch;
  int32_t index = 0;
};
// "LAUNCH-hosts-0-3" and "LAUNCH-3" are host 3 of LAUNCH. Nothing: it is called otherwise.
std::optional<HostOfLaunch> HostOfLaunchNamed(const std::string& host);

// As it is to be made, of a job that was granted one and is under way; an elastic one has no more
// than `most` hosts, unless somebody is placed there.
Launch LaunchOf(const std::string& cluster, const JobJournal& job, int32_t most);

// Which queued jobs may be granted one now: in the order of the queue, as long as the quota of
// their namespace has room for the whole job besides those that have one.
struct LaunchDecision {
  std::vector<std::string> grants;           // ids
  std::map<std::string, int32_t> most;       // hosts, by job that has an elastic one
  std::map<std::string, std::string> waits;  // why others get none, for people
};
LaunchDecision DecideLaunches(const std::vector<const JobJournal*>& under_way,
                              const Quotas& quotas);

}  // namespace muster::coordinator
