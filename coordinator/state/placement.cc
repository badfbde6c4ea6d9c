#include "coordinator/state/placement.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/plural.h"

namespace muster::coordinator {
namespace {

using NodePairs = std::set<std::pair<std::string, std::string>>;

struct Host {
  HostRoom room;
  int32_t free = 0;
};

bool TakesNew(const HostRoom& room) { return room.takes_new && !room.drains; }

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
                        [](const auto& entry) { return TakesNew(entry.second.room); });
  }
  // It may come back with room for those who wait.
  bool is_one_away() const {
    return std::any_of(hosts_.begin(), hosts_.end(), [](const auto& entry) {
      return !entry.second.room.takes_new && !entry.second.room.drains;
    });
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
      if (left_out.count(name) == 0 && !host.room.drains) slots += host.room.slots;
    return slots;
  }
  int32_t FreeFor(const std::set<std::string>& left_out) const {
    int32_t free = 0;
    for (const auto& [name, host] : hosts_)
      if (TakesNew(host.room) && left_out.count(name) == 0) free += std::max(0, host.free);
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
         const std::map<std::string, std::string>& placed, NodePairs apart = {})
      : left_out_(std::move(left_out)), apart_(std::move(apart)) {
    for (const auto& [member, host] : placed)
      Count(room, host, IsServer(member) ? Role::kServer : Role::kWorker);
  }

  // The workers of a job fill one node after the other, so that their ranks are consecutive there;
  // its servers are spread. Nothing: no host has room.
  std::optional<std::string> Give(Room& room, Role role) {
    using Key = std::tuple<int32_t, int32_t, int32_t, std::string>;  // the smallest is the best
    // After a restart: a host that has not come back yet may be one that others cannot reach.
    if (!apart_.empty() && nodes_.count("") > 0) return std::nullopt;
    std::optional<Key> best;
    for (const auto& [name, host] : room.hosts()) {
      if (!TakesNew(host.room) || host.free <= 0 || left_out_.count(name) > 0 ||
          IsKeptApart(host.room.node))
        continue;
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
  bool IsKeptApart(const std::string& node) const {
    return std::any_of(apart_.begin(), apart_.end(), [&](const auto& pair) {
      return (pair.first == node && nodes_.count(pair.second) > 0) ||
             (pair.second == node && nodes_.count(pair.first) > 0);
    });
  }
  void Count(const Room& room, const std::string& name, Role role) {
    if (const Host* host = room.Find(name); host != nullptr && !name.empty())
      nodes_.insert(host->room.node);
    if (role == Role::kServer) {
      ++servers_of_host_[name];
      return;
    }
    workers_of_host_.insert(name);
    if (const Host* host = room.Find(name)) workers_of_node_.insert(host->room.node);
  }

  const std::set<std::string> left_out_;
  const NodePairs apart_;
  std::set<std::string> nodes_;  // of all members
  std::set<std::string> workers_of_node_, workers_of_host_;
  std::map<std::string, int32_t> servers_of_host_;
};

std::string Slots(int32_t count) { return Plural(count, "slot"); }

int32_t LeastOf(const QueuedJob& job) { return job.workers_min + job.servers; }

template <class Job>
std::vector<Job> BySubmission(std::vector<Job> jobs) {
  std::sort(jobs.begin(), jobs.end(),
            [](const Job& a, const Job& b) { return a.submission < b.submission; });
  return jobs;
}

// One decision, while it is made.
class Decider {
 public:
  explicit Decider(PlacementInput input) : room_(input), queued_(BySubmission(input.queued)) {
    for (PlacedJob& job : BySubmission(std::move(input.running))) {
      Places places(room_, job.left_out, job.placed, job.apart);
      running_.push_back({std::move(job), std::move(places)});
    }
  }

  PlacementDecision Decide() && {
    for (Running& job : running_) ChooseLeavers(job);
    // What running jobs have lost comes before anything new.
    for (Running& job : running_) PlaceWaiting(job);
    for (Running& job : running_) StayOrMove(job);
    for (const QueuedJob& job : queued_) StartOrWait(job);
    // Somebody who waits could use what is free, soon or when more of it is: nobody grows into it.
    if (!head_)
      for (Running& job : running_) Grow(job);
    for (const auto& [id, why] : decision_.give_way) decision_.leaves.erase(id);
    return std::move(decision_);
  }

 private:
  struct Running {
    PlacedJob job;
    Places places;
    std::set<std::string> fresh{};  // workers that it gets now
  };

  const HostRoom* HostOf(const PlacedJob& job, const std::string& member) const {
    const auto it = job.placed.find(member);
    const Host* host = it == job.placed.end() ? nullptr : room_.Find(it->second);
    return host == nullptr ? nullptr : &host->room;
  }
  bool IsDrained(const PlacedJob& job, const std::string& member) const {
    const HostRoom* host = HostOf(job, member);
    return host != nullptr && host->drains;
  }
  bool Leaves(const PlacedJob& job, const std::string& member) const {
    const auto it = decision_.leaves.find(job.id);
    return it != decision_.leaves.end() && it->second.count(member) > 0;
  }
  bool GivesWay(const PlacedJob& job) const { return decision_.give_way.count(job.id) > 0; }
  int32_t Staying(const Running& running) const {
    const auto it = decision_.leaves.find(running.job.id);
    const size_t leaving = it == decision_.leaves.end() ? 0 : it->second.size();
    return static_cast<int32_t>(running.job.workers.size() + running.fresh.size() - leaving);
  }

  bool Place(const std::string& job, Places& places, const MemberToPlace& member) {
    std::optional<std::string> host = places.Give(room_, member.role);
    if (!host) return false;
    decision_.places.push_back({job, member, *std::move(host)});
    return true;
  }
  // At most so many, on hosts that have room.
  void AddWorkers(Running& running, int32_t count) {
    const PlacedJob& job = running.job;
    std::set<std::string> names(job.workers.begin(), job.workers.end());
    names.insert(running.fresh.begin(), running.fresh.end());
    for (int32_t i = 0; i < count && room_.FreeFor(job.left_out) > 0; ++i) {
      const std::string name = FreeWorkerName(names);
      names.insert(name);
      if (!Place(job.id, running.places, {name, Role::kWorker})) break;  // kept apart
      running.fresh.insert(name);
      ++decision_.grows[job.id];
    }
  }

  // More than it may have, first of all those on hosts that are to be empty; and all of these.
  void ChooseLeavers(const Running& running) {
    const PlacedJob& job = running.job;
    for (const auto& [member, host] : job.placed)
      if (IsServer(member) && IsDrained(job, member))
        decision_.give_way[job.id] = absl::StrCat(
            "host ", host, " is drained, and a server cannot leave while the job runs");
    std::vector<std::string> workers = job.workers;
    std::stable_partition(workers.begin(), workers.end(),
                          [&](const std::string& name) { return IsDrained(job, name); });
    const size_t excess =
        workers.size() - std::min(workers.size(), static_cast<size_t>(job.workers_max));
    for (size_t i = 0; i < workers.size(); ++i) {
      if (i < excess)
        decision_.leaves[job.id][workers[i]] = LeaveCause::kScaled;
      else if (IsDrained(job, workers[i]))
        decision_.leaves[job.id][workers[i]] = LeaveCause::kDrained;
    }
  }

  void PlaceWaiting(Running& running) {
    const PlacedJob& job = running.job;
    if (GivesWay(job)) return;
    for (const MemberToPlace& member : job.unplaced)
      if (!Leaves(job, member.name) && Place(job.id, running.places, member) &&
          member.role == Role::kWorker)
        ++placed_now_[job.id];
  }

  // Of those whose host is drained, as many go as leaves the job its least number of workers. The
  // others wait until there is room elsewhere; on a host that ends they cannot.
  void StayOrMove(Running& running) {
    const PlacedJob& job = running.job;
    const auto leaves = decision_.leaves.find(job.id);
    if (GivesWay(job) || leaves == decision_.leaves.end()) return;
    // Whoever waits for a place keeps no state, and may wait for long.
    const auto waiting = static_cast<int32_t>(
        std::count_if(job.workers.begin(), job.workers.end(), [&](const std::string& name) {
          return job.placed.count(name) == 0 && leaves->second.count(name) == 0;
        }));
    const auto staying = [&] { return Staying(running) - waiting + placed_now_[job.id]; };
    const int32_t least = std::max(1, job.workers_min);
    std::vector<std::string> may_stay;
    std::string ending;
    for (const std::string& name : job.workers) {
      const auto cause = leaves->second.find(name);
      if (cause == leaves->second.end() || cause->second != LeaveCause::kDrained) continue;
      const HostRoom* host = HostOf(job, name);
      if (host->ends)
        ending = host->name;
      else
        may_stay.push_back(name);
    }
    const auto could_stay = staying() + static_cast<int32_t>(may_stay.size());
    if (!ending.empty() && could_stay < least) {
      decision_.give_way[job.id] =
          absl::StrCat("host ", ending, " ends, and without it the job has fewer than workers.min");
      return;
    }
    AddWorkers(running, std::min(least - staying(), job.workers_max - Staying(running)));
    while (staying() < least && !may_stay.empty()) {
      leaves->second.erase(may_stay.back());
      may_stay.pop_back();
    }
  }

  void StartOrWait(const QueuedJob& job) {
    const bool could_fit = LeastOf(job) <= room_.SlotsFor(job.left_out);
    int32_t free = room_.FreeFor(job.left_out);
    if (head_) free = std::min(free, LeftForPassing());
    if (!could_fit || LeastOf(job) > free) {
      decision_.reasons[job.id] = WhyItWaits(job);
      if (!could_fit && !room_.empty()) decision_.too_large.insert(job.id);
      if (!could_fit || head_) return;
      head_ = job;
      MakeRoom();
      return;
    }
    const int32_t workers = std::min(job.workers_max, free - job.servers);
    Places places(room_, job.left_out, {});
    for (int32_t i = 0; i < job.servers; ++i)
      Place(job.id, places, {absl::StrCat("server-", i), Role::kServer});
    for (int32_t i = 0; i < workers; ++i)
      Place(job.id, places, {absl::StrCat("worker-", i), Role::kWorker});
    decision_.starts[job.id] = workers;
    started_[job.submission] = workers + job.servers;
  }

  // Of which the head may use the slot once it is gone.
  bool LeavesRoom(const PlacedJob& job, const std::string& member) const {
    const HostRoom* host = HostOf(job, member);
    return host != nullptr && TakesNew(*host) && head_->left_out.count(host->name) == 0;
  }

  // Jobs with more workers than their least give some up, if the head then fits: the job that was
  // submitted last first. While a host is away, what was begun goes on and nothing new begins.
  void MakeRoom() {
    coming_ = 0;
    for (const Running& running : running_)
      for (const auto& [member, host] : running.job.placed)
        if ((Leaves(running.job, member) || GivesWay(running.job)) &&
            LeavesRoom(running.job, member))
          ++coming_;
    const int32_t lack = LeastOf(*head_) - room_.FreeFor(head_->left_out) - coming_;
    std::vector<std::pair<std::string, std::string>> chosen;  // job and member
    int32_t room = 0;
    const bool only_begun = room_.is_one_away();
    for (auto it = running_.rbegin(); it != running_.rend() && room < lack; ++it) {
      const PlacedJob& job = it->job;
      if (!job.may_shrink || GivesWay(job)) continue;
      int32_t more = Staying(*it) - std::max(1, job.workers_min);
      for (const std::string& name : job.workers) {
        if (more <= 0 || room >= lack) break;
        const bool is_placed = job.placed.count(name) > 0;
        if (Leaves(job, name) || (is_placed && !LeavesRoom(job, name))) continue;
        if (only_begun && job.leaving.count(name) == 0) continue;
        chosen.emplace_back(job.id, name);
        --more;
        if (is_placed) ++room;
      }
    }
    if (room < lack && !only_begun) return;
    for (const auto& [job, name] : chosen) decision_.leaves[job][name] = LeaveCause::kMakesRoom;
    coming_ += room;
    is_made_room_ = lack <= room;
  }

  // How many slots later jobs may still take, so that the head finds room once the jobs that were
  // submitted before it have ended, or what is made for it is there.
  int32_t LeftForPassing() const {
    int32_t left = room_.SlotsFor(head_->left_out) - LeastOf(*head_);
    for (const auto& [job, places, fresh] : running_)
      if (job.submission > head_->submission)
        left -= static_cast<int32_t>(job.placed.size() + job.unplaced.size());
    for (const auto& [submission, slots] : started_)
      if (submission > head_->submission) left -= slots;
    if (is_made_room_)
      left = std::min(left, room_.FreeFor(head_->left_out) + coming_ - LeastOf(*head_));
    return std::max(0, left);
  }

  std::string WhyItWaits(const QueuedJob& job) const {
    if (room_.empty()) return "waits for a host agent";
    const int32_t total = room_.SlotsFor(job.left_out), free = room_.FreeFor(job.left_out);
    const int32_t least = LeastOf(job);
    if (least > total) return absl::StrCat("needs ", Slots(least), "; the cluster has ", total);
    if (least > free)
      return absl::StrCat("needs ", Slots(least), "; ", free, " of ", total, " are free");
    if (!head_) return "waits for its turn";
    return absl::StrCat("needs ", Slots(least), "; they are kept for ", head_->id,
                        ", which was submitted before");
  }

  void Grow(Running& running) {
    const PlacedJob& job = running.job;
    if (!job.may_grow || GivesWay(job)) return;
    AddWorkers(running, job.workers_max - Staying(running));
  }

  Room room_;
  const std::vector<QueuedJob> queued_;        // by submission
  std::vector<Running> running_;               // by submission
  std::optional<QueuedJob> head_;              // of the queue
  std::map<int64_t, int32_t> started_;         // slots by submission
  int32_t coming_ = 0;                         // slots that the head may use once leavers are gone
  bool is_made_room_ = false;                  // with these the head fits
  std::map<std::string, int32_t> placed_now_;  // workers that waited, by job
  PlacementDecision decision_;
};

}  // namespace

PlacementDecision DecidePlacement(PlacementInput input) {
  return Decider(std::move(input)).Decide();
}

std::string FreeWorkerName(const std::set<std::string>& taken) {
  for (int32_t i = 0;; ++i)
    if (std::string name = absl::StrCat("worker-", i); taken.count(name) == 0) return name;
}

}  // namespace muster::coordinator
