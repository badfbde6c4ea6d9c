// Which member of which job runs on which host, and which are to leave theirs (docs/hosts.md
// sections 4 and 7): a pure function of the hosts, the jobs and what is placed already. It moves
// nobody.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/domain/view.h"

namespace muster::coordinator {

// What a host offers. The coordinator's own slots are a host without a name.
struct HostRoom {
  std::string name;
  std::string node;       // hosts of one machine share it
  int32_t slots = 0;      // members that it can hold
  bool takes_new = true;  // it has a session; one that is away keeps what it has
  // Its members are to leave: a person wants it to be empty, or it says itself that it ends.
  bool drains = false;
  bool ends = false;  // it drains, and waits for room elsewhere no more
  // Ids; a worker of a job with devices gets some of them. Of the held ones a process has not let
  // go yet, whoever is placed.
  std::vector<std::string> devices{};
  std::set<std::string> held{};
  // Jobs of which it takes; either all hosts of an input have one, or none has: then all take any.
  std::string name_space{};
  std::string job{};  // for which it was made; empty: for none, or it is gone
};
inline bool Takes(const HostRoom& room, const std::string& name_space) {
  return room.name_space.empty() || room.name_space == name_space;
}

// The lesser name first.
using NodePairs = std::set<std::pair<std::string, std::string>>;

struct MemberToPlace {
  std::string name;
  Role role = Role::kWorker;
  bool operator==(const MemberToPlace&) const = default;
};

// A job that runs: its members that have a place, and those that wait for one.
struct PlacedJob {
  std::string id;
  int64_t submission = 0;  // its number; of one priority, earlier ones come first
  std::map<std::string, std::string> placed;  // host by member
  std::vector<MemberToPlace> unplaced;
  std::set<std::string> left_out;  // hosts on which none of its members may be started
  int32_t workers_min = 1;
  int32_t workers_max = 1;
  // Its workers, placed or not, in the order in which they would leave.
  std::vector<std::string> workers{};
  std::set<std::string> leaving{};  // those of them that were told to
  bool may_shrink = false;          // for others: its steps go on
  bool may_grow = false;
  NodePairs apart{};  // it has members on one of the two only
  int32_t priority = 0;
  std::string name_space{};
  bool stops = false;  // it was told to: all its places come free
  // For whom there has been no room for so long that the job, which cannot go on without, is not to
  // keep its places any more; empty: nobody.
  std::string lacks{};
  int32_t devices_each = 0;                                   // that a worker needs
  std::map<std::string, std::vector<std::string>> devices{};  // by member that has some
  std::string reader_host{};  // on no other its reader is placed; empty: on any
};

struct QueuedJob {
  std::string id;
  int64_t submission = 0;
  int32_t workers_min = 1;
  int32_t workers_max = 1;
  int32_t servers = 0;
  std::set<std::string> left_out;
  int32_t priority = 0;
  std::string name_space{};
  int32_t devices_each = 0;   // that a worker needs
  int32_t followers = 0;      // each needs as many
  int32_t readers = 0;        // none, or one, which needs none
  std::string reader_host{};  // on no other it is placed; empty: on any
};

inline int32_t OthersOf(const QueuedJob& job) {  // than workers
  return job.servers + job.followers + job.readers;
}

struct PlacementInput {
  std::vector<HostRoom> hosts;
  std::vector<PlacedJob> running;
  std::vector<QueuedJob> queued;
  std::map<std::string, int32_t> quotas{};  // most slots by namespace; not named: no bound
  bool hosts_of_jobs = false;               // each host takes only of the job for which it was made
};

enum class LeaveCause { kScaled, kMakesRoom, kDrained, kQuota, kForFollower };

struct PlacementDecision {
  struct Place {
    std::string job;
    MemberToPlace member;
    std::string host;
    std::vector<std::string> devices{};
    bool operator==(const Place&) const = default;
  };
  std::vector<Place> places;
  std::map<std::string, int32_t> starts;  // queued jobs that start, and their workers
  std::map<std::string, int32_t> grows;   // running jobs that get more workers: how many more
  // Of running jobs: all that are to leave while they live. Who is not among them stays.
  std::map<std::string, std::map<std::string, LeaveCause>> leaves;
  // Running jobs that are to be stopped with a checkpoint and to wait in the queue, and why.
  std::map<std::string, std::string> give_way;
  std::set<std::string> preempted;  // those of them of which a job that waits needs the places
  std::map<std::string, std::string> reasons;  // why each other queued job waits, for people
  std::set<std::string> too_large;             // those that the whole cluster cannot hold
};

PlacementDecision DecidePlacement(PlacementInput input);

// How many workers that need so many devices each the host can hold when nobody is there.
int32_t MostWorkersOn(const HostRoom& host, int32_t devices_each);

}  // namespace muster::coordinator
