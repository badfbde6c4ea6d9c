#include "coordinator/state/placement.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/plural.h"

namespace muster::coordinator {
namespace {

struct Host {
  HostRoom room;
  int32_t free = 0;
};

// The hosts, and what is left of them while places are given away.
class Room {
 public:
  explicit Room(const PlacementInput& input) {
    for (const HostRoom& host : input.hosts) hosts_[host.name] = {host, host.slots};
    for (const PlacedJob& job : input.running)
      for (const auto& [member, host] : job.placed)
        if (const auto it = hosts_.find(host); it != hosts_.end()) --it->second.free;
  }

  bool empty() const {
    return std::none_of(hosts_.begin(), hosts_.end(),
                        [](const auto& entry) { return entry.second.room.takes_new; });
  }
  const std::map<std::string, Host>& hosts() const { return hosts_; }
  const Host* Find(const std::string& name) const {
    const auto it = hosts_.find(name);
    return it == hosts_.end() ? nullptr : &it->second;
  }
  // Hosts that are away count: they come back, or are lost before long and not listed any more.
  int32_t SlotsFor(const std::set<std::string>& left_out) const {
    int32_t slots = 0;
    for (const auto& [name, host] : hosts_)
      if (left_out.count(name) == 0) slots += host.room.slots;
    return slots;
  }
  int32_t FreeFor(const std::set<std::string>& left_out) const {
    int32_t free = 0;
    for (const auto& [name, host] : hosts_)
      if (host.room.takes_new && left_out.count(name) == 0) free += std::max(0, host.free);
    return free;
  }
  void Take(const std::string& name) { --hosts_.at(name).free; }

 private:
  std::map<std::string, Host> hosts_;
};

bool IsServer(const std::string& name) { return name.rfind("server-", 0) == 0; }

// Where the members of one job are, while more of them are placed.
class Places {
 public:
  Places(const Room& room, std::set<std::string> left_out,
         const std::map<std::string, std::string>& placed)
      : left_out_(std::move(left_out)) {
    for (const auto& [member, host] : placed)
      Count(room, host, IsServer(member) ? Role::kServer : Role::kWorker);
  }

  // The workers of a job fill one node after the other, so that their ranks are consecutive there;
  // its servers are spread. Nothing: no host has room.
  std::optional<std::string> Give(Room& room, Role role) {
    using Key = std::tuple<int32_t, int32_t, int32_t, std::string>;  // the smallest is the best
    std::optional<Key> best;
    for (const auto& [name, host] : room.hosts()) {
      if (!host.room.takes_new || host.free <= 0 || left_out_.count(name) > 0) continue;
      const bool is_known = workers_of_node_.count(host.room.node) > 0;
      const bool is_here = workers_of_host_.count(name) > 0;
      const auto servers = servers_of_host_.find(name);
      Key key = role == Role::kWorker ? Key{!is_known, !is_here, -host.free, name}
                                      : Key{servers == servers_of_host_.end() ? 0 : servers->second,
                                            0, -host.free, name};
      if (!best || key < *best) best = std::move(key);
    }
    if (!best) return std::nullopt;
    const std::string host = std::get<std::string>(*best);
    room.Take(host);
    Count(room, host, role);
    return host;
  }

 private:
  void Count(const Room& room, const std::string& name, Role role) {
    if (role == Role::kServer) {
      ++servers_of_host_[name];
      return;
    }
    workers_of_host_.insert(name);
    if (const Host* host = room.Find(name)) workers_of_node_.insert(host->room.node);
  }

  const std::set<std::string> left_out_;
  std::set<std::string> workers_of_node_, workers_of_host_;
  std::map<std::string, int32_t> servers_of_host_;
};

std::string Slots(int32_t count) { return Plural(count, "slot"); }

int32_t LeastOf(const QueuedJob& job) { return job.workers_min + job.servers; }

// How many slots later jobs may still take, so that the head finds room once the jobs that were
// submitted before it have ended.
int32_t LeftForPassing(const PlacementInput& input, const Room& room, const QueuedJob& head,
                       const std::map<int64_t, int32_t>& started) {
  int32_t left = room.SlotsFor(head.left_out) - LeastOf(head);
  for (const PlacedJob& job : input.running)
    if (job.submission > head.submission)
      left -= static_cast<int32_t>(job.placed.size() + job.unplaced.size());
  for (const auto& [submission, slots] : started)
    if (submission > head.submission) left -= slots;
  return std::max(0, left);
}

std::string WhyItWaits(const Room& room, const QueuedJob& job, const QueuedJob* head) {
  if (room.empty()) return "waits for a host agent";
  const int32_t total = room.SlotsFor(job.left_out), free = room.FreeFor(job.left_out);
  const int32_t least = LeastOf(job);
  if (least > total) return absl::StrCat("needs ", Slots(least), "; the cluster has ", total);
  if (least > free)
    return absl::StrCat("needs ", Slots(least), "; ", free, " of ", total, " are free");
  if (head == nullptr) return "waits for its turn";
  return absl::StrCat("needs ", Slots(least), "; they are kept for ", head->id,
                      ", which was submitted before");
}

template <class Job>
std::vector<const Job*> BySubmission(const std::vector<Job>& jobs) {
  std::vector<const Job*> sorted;
  for (const Job& job : jobs) sorted.push_back(&job);
  std::sort(sorted.begin(), sorted.end(),
            [](const Job* a, const Job* b) { return a->submission < b->submission; });
  return sorted;
}

}  // namespace

PlacementDecision DecidePlacement(const PlacementInput& input) {
  PlacementDecision decision;
  Room room(input);
  const std::vector<const PlacedJob*> running = BySubmission(input.running);
  const auto place = [&](const std::string& job, Places& places, const MemberToPlace& member) {
    if (std::optional<std::string> host = places.Give(room, member.role))
      decision.places.push_back({job, member, *std::move(host)});
  };
  // What running jobs have lost comes before anything new.
  for (const PlacedJob* job : running) {
    Places places(room, job->left_out, job->placed);
    for (const MemberToPlace& member : job->unplaced) place(job->id, places, member);
  }
  const QueuedJob* head = nullptr;
  std::map<int64_t, int32_t> started;  // slots by submission
  for (const QueuedJob* job : BySubmission(input.queued)) {
    const bool could_fit = LeastOf(*job) <= room.SlotsFor(job->left_out);
    int32_t free = room.FreeFor(job->left_out);
    if (head != nullptr) free = std::min(free, LeftForPassing(input, room, *head, started));
    if (!could_fit || LeastOf(*job) > free) {
      decision.reasons[job->id] = WhyItWaits(room, *job, head);
      if (!could_fit && !room.empty()) decision.too_large.insert(job->id);
      if (could_fit && head == nullptr) head = job;
      continue;
    }
    const int32_t workers = std::min(job->workers_max, free - job->servers);
    Places places(room, job->left_out, {});
    for (int32_t i = 0; i < job->servers; ++i)
      place(job->id, places, {absl::StrCat("server-", i), Role::kServer});
    for (int32_t i = 0; i < workers; ++i)
      place(job->id, places, {absl::StrCat("worker-", i), Role::kWorker});
    decision.starts[job->id] = workers;
    started[job->submission] = workers + job->servers;
  }
  // Somebody who waits could use what is free, soon or when more of it is: nobody grows into it.
  if (head != nullptr) return decision;
  for (const PlacedJob* job : running) {
    Places places(room, job->left_out, job->placed);
    std::set<std::string> names;
    for (const auto& [member, host] : job->placed) names.insert(member);
    for (const MemberToPlace& member : job->unplaced) names.insert(member.name);
    for (int32_t i = 0; i < job->may_grow_by && room.FreeFor(job->left_out) > 0; ++i) {
      const std::string name = FreeWorkerName(names);
      names.insert(name);
      place(job->id, places, {name, Role::kWorker});
      ++decision.grows[job->id];
    }
  }
  return decision;
}

std::string FreeWorkerName(const std::set<std::string>& taken) {
  for (int32_t i = 0;; ++i)
    if (std::string name = absl::StrCat("worker-", i); taken.count(name) == 0) return name;
}

}  // namespace muster::coordinator
