#include "coordinator/state/placement.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/state/places.h"
#include "coordinator/state/room.h"
#include "lib/base/plural.h"

namespace muster::coordinator {
namespace {

std::string Slots(int32_t count) { return Plural(count, "slot"); }

int32_t LeastOf(const QueuedJob& job) { return job.workers_min + OthersOf(job); }

// What comes first has the lesser one.
using Order = std::pair<int32_t, int64_t>;

template <class Job>
Order OrderOf(const Job& job) {
  return {-job.priority, job.submission};
}

template <class Job>
std::vector<Job> InOrder(std::vector<Job> jobs) {
  std::sort(jobs.begin(), jobs.end(),
            [](const Job& a, const Job& b) { return OrderOf(a) < OrderOf(b); });
  return jobs;
}

// Devices that a member needs.
template <class Job>
int32_t NeedOf(const Job& job, Role role) {
  return RunsTask(role) ? job.devices_each : 0;
}

// The only host that it may be on; empty: any.
template <class Job>
std::string HostFor(const Job& job, Role role) {
  return role == Role::kReader ? job.reader_host : "";
}

// What those who may look at `reader` are told of that job: others of their namespace they know.
template <class Job>
std::string NameFor(const Job& reader, const QueuedJob& job, const char* word) {
  return reader.name_space == job.name_space ? absl::StrCat(word, job.id)
                                             : "a job of another namespace";
}

int32_t MembersOf(const PlacedJob& job) {
  return static_cast<int32_t>(job.placed.size() + job.unplaced.size());
}

// One decision, while it is made.
class Decider {
 public:
  // `name_space`: whose hosts and jobs these are; empty: hosts are of everybody.
  Decider(PlacementInput input, const std::string& name_space)
      : room_(input.hosts, input.running),
        queued_(InOrder(std::move(input.queued))),
        quotas_(std::move(input.quotas)),
        of_namespace_(name_space.empty() ? "" : absl::StrCat(" for namespace ", name_space)) {
    for (PlacedJob& job : InOrder(std::move(input.running))) {
      held_[job.name_space] += MembersOf(job);
      Places places(room_, job.left_out, job.placed, job.apart);
      running_.push_back({std::move(job), std::move(places)});
    }
  }

  PlacementDecision Decide() && {
    for (Running& job : running_) ChooseLeavers(job);
    // What running jobs have lost comes before anything new.
    for (Running& job : running_) PlaceWaiting(job);
    for (Running& job : running_) StayOrMove(job);
    for (const Running& job : running_) MakeRoomForFollower(job);
    GiveUpPlaces();
    for (const auto& [name_space, quota] : quotas_) ShrinkToQuota(name_space, quota);
    for (const QueuedJob& job : queued_) StartOrWait(job);
    // Somebody who waits could use what is free, soon or when more of it is: nobody grows into it.
    if (!head_)
      for (Running& job : running_) Grow(job);
    for (const auto& [id, why] : decision_.give_way) {
      decision_.leaves.erase(id);
      decision_.grows.erase(id);
      std::erase_if(decision_.places,
                    [&, &job = id](const auto& place) { return place.job == job; });
    }
    return std::move(decision_);
  }

 private:
  struct Running {
    PlacedJob job;
    Places places;
    std::set<std::string> fresh{};  // workers that it gets now
  };

  const Host* HostOf(const PlacedJob& job, const std::string& member) const {
    const auto it = job.placed.find(member);
    return it == job.placed.end() ? nullptr : room_.Find(it->second);
  }
  bool IsDrained(const PlacedJob& job, const std::string& member) const {
    const Host* host = HostOf(job, member);
    return host != nullptr && host->room->drains;
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

  bool Place(Running& running, const MemberToPlace& member) {
    const PlacedJob& job = running.job;
    std::optional<Places::Given> given = running.places.Give(
        room_, member.role, NeedOf(job, member.role), HostFor(job, member.role));
    if (!given) return false;
    decision_.places.push_back({job.id, member, std::move(given->host), std::move(given->devices)});
    return true;
  }
  // At most so many, on hosts that have room.
  void AddWorkers(Running& running, int32_t count) {
    const PlacedJob& job = running.job;
    std::set<std::string> names(job.workers.begin(), job.workers.end());
    names.insert(running.fresh.begin(), running.fresh.end());
    int32_t next = 0;  // of the names
    for (int32_t i = 0; i < count; ++i) {
      std::string name = WorkerName(next);
      while (names.contains(name)) name = WorkerName(++next);
      if (!Place(running, {name, Role::kWorker})) break;  // no room, kept apart, or no devices
      names.insert(name);
      running.fresh.insert(name);
      ++held_[job.name_space];
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
    if (IsDrained(job, kReaderName) && !HostFor(job, Role::kReader).empty())
      decision_.give_way[job.id] =
          absl::StrCat("host ", job.placed.at(kReaderName),
                       " is drained, and the job's reader is to be there (data.stream.host)");
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

  std::vector<MemberToPlace> WaitingOf(const PlacedJob& job) const {
    std::vector<MemberToPlace> waiting = job.unplaced;
    // They move while the others train: they hold nothing.
    if (IsDrained(job, kFollowerName)) waiting.push_back({kFollowerName, Role::kFollower});
    if (IsDrained(job, kReaderName)) waiting.push_back({kReaderName, Role::kReader});
    return waiting;
  }

  bool IsPlacedNow(const PlacedJob& job, const std::string& member) const {
    return std::any_of(decision_.places.begin(), decision_.places.end(), [&](const auto& place) {
      return place.job == job.id && place.member.name == member;
    });
  }

  void PlaceWaiting(Running& running) {
    const PlacedJob& job = running.job;
    if (GivesWay(job)) return;
    std::vector<MemberToPlace> waiting = WaitingOf(job);
    // Who needs none would take the slot that a worker needs for its devices.
    if (job.devices_each > 0)
      std::stable_partition(waiting.begin(), waiting.end(),
                            [](const MemberToPlace& member) { return RunsTask(member.role); });
    // Of samples that have come something can be made without a reader, and nothing without the
    // others. One that is bound to a host would find no slot there any more.
    if (HostFor(job, Role::kReader).empty())
      std::stable_partition(waiting.begin(), waiting.end(), [](const MemberToPlace& member) {
        return member.role != Role::kReader;
      });
    for (const MemberToPlace& member : waiting)
      if (!Leaves(job, member.name) && Place(running, member) && member.role == Role::kWorker)
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
      const HostRoom& host = *HostOf(job, name)->room;
      if (host.ends)
        ending = host.name;
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

  // Training waits for the follower before long, so a worker beyond the least number gives it its
  // place, unless one comes free anyway.
  void MakeRoomForFollower(const Running& running) {
    const PlacedJob& job = running.job;
    const std::vector<MemberToPlace> waiting = WaitingOf(job);
    const bool waits = std::any_of(waiting.begin(), waiting.end(), [&](const MemberToPlace& m) {
      return m.role == Role::kFollower && !IsPlacedNow(job, m.name);
    });
    if (!waits || !job.may_shrink || GivesWay(job)) return;
    const auto suits = [&](const Host* host) {
      return host != nullptr && TakesNew(*host) && !job.left_out.contains(host->room->name);
    };
    const Room later = room_.WithoutHolders();
    for (const Host& host : later.hosts())
      if (suits(&host) && host.Fits(NeedOf(job, Role::kFollower)) > 0) return;
    std::vector<std::string> may_go;
    int32_t more = -std::max(1, job.workers_min);
    for (const std::string& name : job.workers) {
      const Host* host = HostOf(job, name);
      if (Leaves(job, name) && suits(host)) return;
      if (Leaves(job, name) || !job.placed.contains(name)) continue;
      ++more;
      if (suits(host)) may_go.push_back(name);
    }
    if (more > 0 && !may_go.empty())
      decision_.leaves[job.id][may_go.front()] = LeaveCause::kForFollower;
  }

  // Jobs that stand still for want of room hold places that others could use, perhaps those for
  // which the others wait. One at a time, the last one first: what it gives up may suffice for the
  // rest.
  void GiveUpPlaces() {
    std::vector<const PlacedJob*> starve;
    for (const Running& running : running_)
      if (const PlacedJob& job = running.job; !job.lacks.empty() && !job.stops && !GivesWay(job))
        starve.push_back(&job);
    if (starve.empty()) return;
    const PlacedJob& last = *starve.back();
    const bool gets_room =
        std::any_of(last.unplaced.begin(), last.unplaced.end(),
                    [&](const MemberToPlace& member) { return IsPlacedNow(last, member.name); });
    // Where it is alone, a try with nodes that were kept apart comes first.
    if (gets_room && starve.size() == 1) return;
    decision_.give_way[last.id] = absl::StrCat("there has been no room for ", last.lacks);
  }

  // How many more slots jobs of that namespace may hold. Those that are to leave count until they
  // are gone.
  int32_t QuotaLeft(const std::string& name_space) const {
    const auto quota = quotas_.find(name_space);
    if (quota == quotas_.end()) return std::numeric_limits<int32_t>::max();
    const auto held = held_.find(name_space);
    return std::max(0, quota->second - (held == held_.end() ? 0 : held->second));
  }

  // What its jobs hold beyond a quota that was lowered, as far as they can shrink. The last ones
  // first.
  void ShrinkToQuota(const std::string& name_space, int32_t quota) {
    int32_t over = -quota;
    for (const Running& running : running_)
      if (running.job.name_space == name_space) over += StayingMembers(running);
    for (auto it = running_.rbegin(); it != running_.rend() && over > 0; ++it) {
      const PlacedJob& job = it->job;
      if (job.name_space != name_space || !job.may_shrink || GivesWay(job)) continue;
      int32_t more = Staying(*it) - std::max(1, job.workers_min);
      for (const std::string& name : job.workers) {
        if (more <= 0 || over <= 0) break;
        if (Leaves(job, name)) continue;
        decision_.leaves[job.id][name] = LeaveCause::kQuota;
        --more;
        --over;
      }
    }
  }

  // With its servers; none of a job that stops.
  int32_t StayingMembers(const Running& running) const {
    const PlacedJob& job = running.job;
    if (job.stops || GivesWay(job)) return 0;
    return MembersOf(job) - static_cast<int32_t>(job.workers.size()) + Staying(running);
  }

  // The namespace of this job has no room for it, the cluster may have: it is not the head, and
  // holds up only those of its namespace.
  void WaitForQuota(const QueuedJob& job) {
    const int32_t quota = quotas_.at(job.name_space);
    if (LeastOf(job) > quota) {
      decision_.reasons[job.id] =
          absl::StrCat("needs ", Slots(LeastOf(job)), "; the quota of namespace ", job.name_space,
                       " is ", quota);
      decision_.too_large.insert(job.id);
      return;
    }
    decision_.reasons[job.id] =
        absl::StrCat("needs ", Slots(LeastOf(job)), "; namespace ", job.name_space, " holds ",
                     held_[job.name_space], " of its quota of ", quota);
    const auto [first, is_first] = waits_for_quota_.try_emplace(job.name_space, job.id);
    const bool is_behind_head = head_ && head_->name_space == job.name_space;
    if (!is_first || is_behind_head) {
      decision_.reasons[job.id] =
          absl::StrCat("needs ", Slots(LeastOf(job)), "; what is left of the quota of namespace ",
                       job.name_space, " is kept for ", is_first ? head_->id : first->second,
                       ", which comes first");
      return;
    }
    int32_t stays = 0;
    for (const Running& running : running_)
      if (running.job.name_space == job.name_space) stays += StayingMembers(running);
    for (const auto& [id, slots] : started_in_[job.name_space]) stays += slots;
    const int32_t lack = stays + LeastOf(job) - quota;
    const bool only_begun = room_.is_one_away();
    // Behind a head it might not start all the same, and who left for it would take its quota
    // again.
    if (lack <= 0 || head_ || (!only_begun && !CouldFitAsHead(job))) return;
    Claim(
        job, [&](const Claimed& claimed) { return claimed.room >= lack; }, only_begun,
        [&](const PlacedJob& other, const std::string&) {
          return other.name_space == job.name_space;
        });
  }

  // Once its namespace has room for it, it finds places, or others can make room for it.
  bool CouldFitAsHead(const QueuedJob& job) const {
    const Frees frees = FreesFor(job);
    const auto never = [](const Claimed&) { return false; };
    const Claimed most = Choose(job, never, /*only_begun=*/false, frees);
    return After(ComingFor(job), most, frees).Holds(job);
  }

  void StartOrWait(const QueuedJob& job) {
    const bool could_fit =
        LeastOf(job) <= room_.SlotsFor(job.left_out) &&
        job.workers_min + job.followers <= room_.MostWorkersFor(job.left_out, job.devices_each);
    const int32_t quota_left = QuotaLeft(job.name_space);
    if (could_fit && (LeastOf(job) > quota_left || waits_for_quota_.count(job.name_space) > 0))
      return WaitForQuota(job);
    int32_t free = room_.FreeFor(job.left_out);
    if (head_) free = std::min(free, LeftForPassing());
    const int32_t devices_of_others = job.devices_each > 0 ? job.followers : 0;
    int32_t workers = std::min({job.workers_max, std::min(free, quota_left) - OthersOf(job),
                                room_.FreeFor(job.left_out, job.devices_each) - devices_of_others});
    if (!could_fit || workers < job.workers_min || !Start(job, workers)) {
      decision_.reasons[job.id] = WhyItWaits(job);
      if (!could_fit && !room_.empty()) decision_.too_large.insert(job.id);
      if (!could_fit || head_) return;
      head_ = job;
      placed_before_head_ = decision_.places.size();
      MakeRoom();
      // Nobody of its namespace passes it into its quota.
      started_in_[job.name_space][job.id] = LeastOf(job);
      held_[job.name_space] += LeastOf(job);
      return;
    }
    decision_.starts[job.id] = workers;
    started_[OrderOf(job)] = workers + OthersOf(job);
    started_in_[job.name_space][job.id] = workers + OthersOf(job);
    held_[job.name_space] += workers + OthersOf(job);
  }

  // With so many workers, or with its least number of them where more would take devices that the
  // head needs. False: these would, too.
  bool Start(const QueuedJob& job, int32_t& workers) {
    if (head_ && head_->devices_each > 0 && ++tried_ > kMostTried) return false;
    for (const int32_t count : {workers, job.workers_min}) {
      Room room = room_;
      std::vector<PlacementDecision::Place> places = Assign(job, count, room);
      if (!HeadStillFits(places)) continue;
      workers = count;
      room_ = std::move(room);
      std::move(places.begin(), places.end(), std::back_inserter(decision_.places));
      return true;
    }
    return false;
  }

  // A server would take the slot that a worker needs for its devices.
  static std::vector<PlacementDecision::Place> Assign(const QueuedJob& job, int32_t workers,
                                                      Room& room) {
    std::vector<MemberToPlace> members;
    for (int32_t i = 0; i < job.servers; ++i)
      members.push_back({absl::StrCat("server-", i), Role::kServer});
    for (int32_t i = 0; i < workers; ++i) members.push_back({WorkerName(i), Role::kWorker});
    if (job.followers > 0) members.push_back({kFollowerName, Role::kFollower});
    if (job.devices_each > 0)
      std::rotate(members.begin(), members.begin() + job.servers, members.end());
    // Bound to a host, it comes before those that could take its slot there and need not; where it
    // has no room, it waits, and the others begin.
    const bool is_bound = !job.reader_host.empty() && job.devices_each == 0;
    if (job.readers > 0)
      members.insert(is_bound ? members.begin() : members.end(),
                     MemberToPlace{kReaderName, Role::kReader});
    Places places(room, job.left_out, {});
    std::vector<PlacementDecision::Place> assigned;
    for (MemberToPlace& member : members) {
      const int32_t need = NeedOf(job, member.role);
      if (auto given = places.Give(room, member.role, need, HostFor(job, member.role)))
        assigned.push_back(
            {job.id, std::move(member), std::move(given->host), std::move(given->devices)});
    }
    return assigned;
  }

  // With these places given away the head, if it needs devices, finds its own once the jobs that
  // come before it have ended, or what is made for it is there.
  bool HeadStillFits(const std::vector<PlacementDecision::Place>& places) const {
    if (!head_ || head_->devices_each == 0) return true;
    const auto fits_in = [&](Room room) {
      for (size_t i = placed_before_head_; i < decision_.places.size(); ++i)
        room.Take(decision_.places[i].host, decision_.places[i].devices);
      for (const auto& place : places) room.Take(place.host, place.devices);
      return room.Holds(*head_);
    };
    Room later = room_.Emptied();
    for (const Running& running : running_)
      if (const PlacedJob& job = running.job; OrderOf(job) > OrderOf(*head_))
        for (const auto& [member, host] : job.placed) later.Take(host, DevicesOf(job, member));
    return fits_in(std::move(later)) && (!made_room_ || fits_in(*made_room_));
  }

  // Of whom a job that waits may use the slot once it is gone.
  using Frees = std::function<bool(const PlacedJob&, const std::string&)>;
  Frees FreesFor(const QueuedJob& waiting) const {
    return [this, left_out = waiting.left_out](const PlacedJob& job, const std::string& member) {
      const Host* host = HostOf(job, member);
      return host != nullptr && TakesNew(*host) && left_out.count(host->room->name) == 0;
    };
  }

  // As it will be for that job when those have gone who leave or stop already.
  Room ComingFor(const QueuedJob& waiting) const {
    Room coming = room_.WithoutHolders();
    const Frees frees = FreesFor(waiting);
    for (const Running& running : running_)
      for (const auto& [member, host] : running.job.placed)
        if ((Leaves(running.job, member) || GivesWay(running.job) || running.job.stops) &&
            frees(running.job, member))
          coming.GiveBack(host, DevicesOf(running.job, member));
    return coming;
  }

  // While a host is away, what was begun goes on and nothing new begins.
  void MakeRoom() {
    Room coming = ComingFor(*head_);
    const int32_t lack = LeastOf(*head_) - coming.FreeFor(head_->left_out);
    coming_ = coming.FreeFor(head_->left_out) - room_.FreeFor(head_->left_out);
    const Frees frees = FreesFor(*head_);
    const auto suffices = [&](const Claimed& claimed) {
      return claimed.room >= lack &&
             (head_->devices_each == 0 || After(coming, claimed, frees).Holds(*head_));
    };
    const std::optional<Claimed> made = Claim(*head_, suffices, room_.is_one_away(), frees);
    if (!made) return;
    coming_ += made->room;
    if (suffices(*made)) made_room_ = After(std::move(coming), *made, frees);
  }

  // Whose place it is, and what a job that waits gains by it.
  struct Leaver {
    std::string job;
    std::string name;
    int32_t gain = 0;
  };
  struct Victim {
    std::string job;
    int32_t gain = 0;
  };
  struct Claimed {
    std::vector<Leaver> leavers{};
    std::vector<Victim> victims{};
    int32_t room = 0;  // places that become free
  };
  using Suffices = std::function<bool(const Claimed&)>;

  // What those who gain nothing hold is as it was.
  Room After(Room room, const Claimed& claimed, const Frees& frees) const {
    std::set<std::pair<std::string, std::string>> leavers;
    std::set<std::string> victims;
    for (const Leaver& leaver : claimed.leavers)
      if (leaver.gain > 0) leavers.emplace(leaver.job, leaver.name);
    for (const Victim& victim : claimed.victims)
      if (victim.gain > 0) victims.insert(victim.job);
    for (const Running& running : running_)
      for (const auto& [member, host] : running.job.placed) {
        const bool goes = leavers.contains({running.job.id, member}) ||
                          (victims.contains(running.job.id) && !Leaves(running.job, member));
        if (goes && frees(running.job, member)) room.GiveBack(host, DevicesOf(running.job, member));
      }
    return room;
  }

  // Places for a job that waits. Jobs that have no higher priority give up workers beyond their
  // least number; where that does not suffice, jobs with a lower priority give way whole. Of both
  // the last ones first, until it suffices.
  Claimed Choose(const QueuedJob& waiting, const Suffices& suffices, bool only_begun,
                 const Frees& frees) const {
    Claimed claimed;
    for (auto it = running_.rbegin(); it != running_.rend() && !suffices(claimed); ++it) {
      const PlacedJob& job = it->job;
      if (!job.may_shrink || GivesWay(job) || job.priority > waiting.priority ||
          GainOf(job, {}, frees) == 0)
        continue;
      int32_t more = Staying(*it) - std::max(1, job.workers_min);
      for (const std::string& name : InLeavingOrder(job, waiting)) {
        if (more <= 0 || suffices(claimed)) break;
        const bool is_free = frees(job, name);
        const bool is_placed = job.placed.count(name) > 0;
        if (Leaves(job, name) || (is_placed && !is_free)) continue;
        if (only_begun && job.leaving.count(name) == 0) continue;
        claimed.leavers.push_back({job.id, name, is_free ? 1 : 0});
        --more;
        claimed.room += is_free ? 1 : 0;
      }
    }
    for (auto it = running_.rbegin(); it != running_.rend() && !only_begun && !suffices(claimed);
         ++it) {
      const PlacedJob& job = it->job;
      if (job.priority >= waiting.priority || GivesWay(job) || job.stops) continue;
      const int32_t gain = GainOf(job, claimed.leavers, frees);
      if (gain == 0) continue;
      claimed.victims.push_back({job.id, gain});
      claimed.room += gain;
    }
    return claimed;
  }

  // No more than is lacking; nobody, where it would not suffice. Returns what becomes free;
  // nothing: nobody was chosen in vain.
  std::optional<Claimed> Claim(const QueuedJob& waiting, const Suffices& suffices, bool only_begun,
                               const Frees& frees) {
    Claimed claimed = Choose(waiting, suffices, only_begun, frees);
    if (!only_begun && !suffices(claimed)) return std::nullopt;
    const bool is_by_devices = waiting.devices_each > 0 && !only_begun;
    // A later one may have more than all before it: those are not needed then. Nor are those who
    // leave a host on which the devices do not suffice all the same.
    const auto spare = [&](auto& chosen) {
      for (auto it = chosen.rbegin(); it != chosen.rend(); ++it) {
        const int32_t gain = std::exchange(it->gain, 0);
        claimed.room -= gain;
        if (suffices(claimed)) continue;
        it->gain = gain;
        claimed.room += gain;
      }
      std::erase_if(chosen, [](const auto& one) { return one.gain == 0; });
    };
    if (!claimed.victims.empty() || is_by_devices) {
      spare(claimed.victims);
      spare(claimed.leavers);
    }
    for (const Leaver& leaver : claimed.leavers)
      decision_.leaves[leaver.job][leaver.name] = LeaveCause::kMakesRoom;
    for (const Victim& victim : claimed.victims) {
      decision_.preempted.insert(victim.job);
      decision_.give_way[victim.job] = absl::StrCat(NameFor(JobOf(victim.job), waiting, "job "),
                                                    " has a higher priority and needs its places");
    }
    return claimed;
  }

  const PlacedJob& JobOf(const std::string& id) const {
    return std::find_if(running_.begin(), running_.end(),
                        [&](const Running& running) { return running.job.id == id; })
        ->job;
  }

  // For devices workers leave one host after the other, the same one in all jobs; who was told to
  // goes first.
  static std::vector<std::string> InLeavingOrder(const PlacedJob& job, const QueuedJob& waiting) {
    std::vector<std::string> names = job.workers;
    if (waiting.devices_each == 0) return names;
    const auto key = [&](const std::string& name) {
      const auto place = job.placed.find(name);
      return std::pair(job.leaving.count(name) == 0,
                       place == job.placed.end() ? "" : place->second);
    };
    std::stable_sort(names.begin(), names.end(),
                     [&](const std::string& a, const std::string& b) { return key(a) < key(b); });
    return names;
  }

  // By all its members that are not to leave already.
  int32_t GainOf(const PlacedJob& job, const std::vector<Leaver>& leavers,
                 const Frees& frees) const {
    std::set<std::string> names;
    for (const auto& [name, host] : job.placed) names.insert(name);
    for (const MemberToPlace& member : job.unplaced) names.insert(member.name);
    for (const Leaver& leaver : leavers)
      if (leaver.job == job.id) names.erase(leaver.name);
    return static_cast<int32_t>(std::count_if(names.begin(), names.end(), [&](const auto& name) {
      return !Leaves(job, name) && frees(job, name);
    }));
  }

  // How many slots later jobs may still take, so that the head finds room once the jobs that were
  // submitted before it have ended, or what is made for it is there.
  int32_t LeftForPassing() const {
    int32_t left = room_.SlotsFor(head_->left_out) - LeastOf(*head_);
    for (const auto& [job, places, fresh] : running_)
      if (OrderOf(job) > OrderOf(*head_)) left -= MembersOf(job);
    for (const auto& [order, slots] : started_)
      if (order > OrderOf(*head_)) left -= slots;
    if (made_room_)
      left = std::min(left, room_.FreeFor(head_->left_out) + coming_ - LeastOf(*head_));
    return std::max(0, left);
  }

  std::string WhyItWaits(const QueuedJob& job) const {
    if (room_.empty()) return absl::StrCat("waits for a host agent", of_namespace_);
    const int32_t total = room_.SlotsFor(job.left_out), free = room_.FreeFor(job.left_out);
    const int32_t least = LeastOf(job);
    if (least > total)
      return absl::StrCat("needs ", Slots(least), "; the cluster has ", total, of_namespace_);
    if (least > free)
      return absl::StrCat("needs ", Slots(least), "; ", free, " of ", total, of_namespace_,
                          " are free");
    if (const int32_t each = job.devices_each; each > 0) {
      const auto most = static_cast<int32_t>(room_.MostDevicesFor(job.left_out));
      if (each > most)
        return absl::StrCat("needs ", Plural(each, "device"), " for each worker; no host",
                            of_namespace_,
                            most == 0 ? " has any (muster agent --devices)"
                                      : absl::StrCat(" has more than ", most));
      const int32_t could = room_.MostWorkersFor(job.left_out, each);
      const int32_t can = room_.FreeFor(job.left_out, each);
      const std::string need = absl::StrCat("needs ", Plural(job.workers_min, "worker"),
                                            job.followers > 0 ? " and a follower" : "", " with ",
                                            Plural(each, "device"), " each; ");
      if (job.workers_min + job.followers > could)
        return absl::StrCat(need, "the hosts", of_namespace_, " have enough for ", could);
      if (job.workers_min + job.followers > can)
        return absl::StrCat(need, "enough are free for ", can, " of ", could);
    }
    if (!head_) return "waits for its turn";
    return absl::StrCat("needs ", Slots(least), "; they are kept for ", NameFor(job, *head_, ""),
                        head_->priority > job.priority ? ", which has a higher priority"
                                                       : ", which was submitted before");
  }

  void Grow(Running& running) {
    const PlacedJob& job = running.job;
    if (!job.may_grow || GivesWay(job) || waits_for_quota_.count(job.name_space) > 0) return;
    AddWorkers(running, std::min(job.workers_max - Staying(running), QuotaLeft(job.name_space)));
  }

  static std::string WorkerName(int32_t number) { return absl::StrCat("worker-", number); }

  Room room_;
  const std::vector<QueuedJob> queued_;  // in order
  std::vector<Running> running_;         // in order
  const std::map<std::string, int32_t> quotas_;
  const std::string of_namespace_;       // for people; empty: hosts take jobs of all
  std::map<std::string, int32_t> held_;  // slots by namespace, with those that are given now
  std::map<std::string, std::map<std::string, int32_t>> started_in_;  // slots by namespace and job
  std::map<std::string, std::string> waits_for_quota_;                // the first job by namespace
  std::optional<QueuedJob> head_;                                     // of the queue
  std::map<Order, int32_t> started_;                                  // slots
  // Each job that is tried behind a head with devices costs copies of the room.
  static constexpr int32_t kMostTried = 100;
  int32_t tried_ = 0;
  int32_t coming_ = 0;                         // slots that the head may use once leavers are gone
  std::optional<Room> made_room_{};            // when they are gone, and the head fits in
  size_t placed_before_head_ = 0;              // places of the decision
  std::map<std::string, int32_t> placed_now_;  // workers that waited, by job
  PlacementDecision decision_;
};

// Where hosts are of namespaces, or of jobs, each of these is a cluster of its own: its head of the
// queue holds up nobody else. A member that is on a host of another one, as its job was moved
// since, takes up a slot there, and its devices.
std::map<std::string, PlacementInput> InParts(PlacementInput input) {
  const bool by_job = input.hosts_of_jobs;
  const auto part_of = [&](const auto& job) { return by_job ? job.id : job.name_space; };
  std::map<std::string, PlacementInput> parts;
  std::map<std::string, std::string> part_of_host;
  for (const HostRoom& host : input.hosts)
    part_of_host[host.name] = by_job ? host.job : host.name_space;
  std::map<std::string, int32_t> taken;  // slots, by host
  std::map<std::string, std::set<std::string>> devices;
  for (const PlacedJob& job : input.running)
    for (const auto& [member, host] : job.placed)
      if (const auto it = part_of_host.find(host);
          it != part_of_host.end() && it->second != part_of(job)) {
        ++taken[host];
        const Devices& of_member = DevicesOf(job, member);
        devices[host].insert(of_member.begin(), of_member.end());
      }
  for (HostRoom& host : input.hosts) {
    host.slots = std::max(0, host.slots - taken[host.name]);
    std::erase_if(host.devices, [&](const auto& id) { return devices[host.name].contains(id); });
    parts[part_of_host[host.name]].hosts.push_back(std::move(host));
  }
  for (PlacedJob& job : input.running) parts[part_of(job)].running.push_back(std::move(job));
  for (QueuedJob& job : input.queued) parts[part_of(job)].queued.push_back(std::move(job));
  // Where hosts are made for a job, that looks at quotas (launch.h).
  if (!by_job)
    for (const auto& [name_space, quota] : input.quotas)
      parts[name_space].quotas[name_space] = quota;
  return parts;
}

// Of disjoint jobs.
void Add(PlacementDecision part, PlacementDecision& whole) {
  whole.places.insert(whole.places.end(), part.places.begin(), part.places.end());
  whole.starts.merge(part.starts);
  whole.grows.merge(part.grows);
  whole.leaves.merge(part.leaves);
  whole.give_way.merge(part.give_way);
  whole.preempted.merge(part.preempted);
  whole.reasons.merge(part.reasons);
  whole.too_large.merge(part.too_large);
}

}  // namespace

int32_t MostWorkersOn(const HostRoom& host, int32_t devices_each) {
  if (devices_each == 0) return host.slots;
  return std::min(host.slots, static_cast<int32_t>(host.devices.size()) / devices_each);
}

PlacementDecision DecidePlacement(PlacementInput input) {
  const bool of_jobs = input.hosts_of_jobs;
  const bool is_apart = std::any_of(input.hosts.begin(), input.hosts.end(),
                                    [](const auto& host) { return !host.name_space.empty(); });
  if (!is_apart && !of_jobs) return Decider(std::move(input), "").Decide();
  PlacementDecision whole;
  for (auto& [name, part] : InParts(std::move(input)))
    Add(Decider(std::move(part), of_jobs ? "" : name).Decide(), whole);
  return whole;
}

}  // namespace muster::coordinator
