// A started job's workers that leave while they live, and how it gives its place to others
// (docs/hosts.md section 7).
#include <algorithm>
#include <chrono>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/state/job_run.h"
#include "lib/base/plural.h"

namespace muster::coordinator {
namespace {

const char* WhyItLeaves(LeaveCause cause) {
  switch (cause) {
    case LeaveCause::kScaled: return "the job has more workers than it may have now";
    case LeaveCause::kMakesRoom: return "it makes room for a job that waits";
    case LeaveCause::kDrained: return "its host is drained";
    case LeaveCause::kQuota: return "its namespace holds more slots than its quota";
    case LeaveCause::kForFollower: return "there is no other room for the follower of its job";
  }
  return "";
}

std::string WorkersText(const RuntimeSpec& runtime) {
  if (runtime.workers_min == runtime.workers_max) return Plural(runtime.workers_max, "worker");
  return absl::StrCat(runtime.workers_min, " to ", Plural(runtime.workers_max, "worker"));
}

bool Names(const std::vector<int32_t>& holders, int32_t index) {
  return std::find(holders.begin(), holders.end(), index) != holders.end();
}

}  // namespace

bool JobRun::IsLeaving(const std::string& name) const {
  const Placement* placement = PlacementOf(journal_, name);
  if (placement != nullptr) return placement->leaving;
  return has_leavers_ && LeavingUnderOtherNames().contains(name);
}

// Of our own slots, and nobody of that name is there: a member under another name may stand for it.
bool JobRun::IsEmptySlot(const std::string& name, const Placement& placement) const {
  return placement.role == Role::kWorker && placement.host == "" &&
         membership_.OthersOfName({name, {}}).empty();
}

// In our own slots members may have any names, and each stands for a place that nobody has by name.
// Where there are fewer such places that stay, those leave that are not in the view, then the
// highest ranks.
std::set<std::string> JobRun::LeavingUnderOtherNames() const {
  size_t stay = 0, leave = 0;
  for (const auto& [name, placement] : journal_.placements)
    if (IsEmptySlot(name, placement)) ++(placement.leaving ? leave : stay);
  std::set<std::string> names;
  if (leave == 0) return names;
  const std::map<MemberId, int32_t> in_view =
      journal_.view ? journal_.view->Indexes() : std::map<MemberId, int32_t>();
  using Key = std::tuple<bool, int32_t, std::string>;
  std::vector<Key> ordered;
  for (const auto& [id, live] : membership_.live()) {
    if (live.member.role != Role::kWorker || PlacementOf(journal_, id.name) != nullptr) continue;
    const auto index = in_view.find(id);
    const bool is_there = index != in_view.end();
    const int32_t rank =
        is_there ? journal_.view->members[static_cast<size_t>(index->second)].rank.value() : 0;
    ordered.emplace_back(is_there, -rank, id.name);
  }
  std::sort(ordered.begin(), ordered.end());
  const size_t too_many = ordered.size() - std::min(ordered.size(), stay);
  for (size_t i = 0; i < std::min(too_many, leave); ++i) names.insert(std::get<2>(ordered[i]));
  return names;
}

// In the order in which they would leave: those that were told to, those that are not there, then
// the highest ranks.
std::vector<std::string> JobRun::WorkersInLeavingOrder() const {
  std::map<std::string, int32_t> rank_of;
  if (journal_.view)
    for (const ViewMember& m : journal_.view->members)
      if (membership_.IsLive(m.id)) rank_of[m.id.name] = m.rank.value();
  using Key = std::tuple<bool, bool, bool, int32_t>;
  std::vector<std::pair<Key, std::string>> ordered;
  for (const auto& [name, placement] : journal_.placements) {
    if (placement.role != Role::kWorker) continue;
    const auto rank = rank_of.find(name);
    const bool is_there = rank != rank_of.end();
    ordered.push_back(
        {{!placement.leaving, placement.host.has_value(), is_there, is_there ? -rank->second : 0},
         name});
  }
  std::sort(ordered.begin(), ordered.end());
  std::vector<std::string> names;
  for (auto& [key, name] : ordered) names.push_back(std::move(name));
  return names;
}

void JobRun::On(const Leavers& leavers) {
  std::vector<std::string> leave, stay;
  for (auto& [name, placement] : journal_.placements) {
    const auto cause = leavers.causes.find(name);
    const bool is_leaving = cause != leavers.causes.end();
    if (std::exchange(placement.leaving, is_leaving) == is_leaving) continue;
    if (is_leaving)
      leave.push_back(absl::StrCat(name, " is to leave, because ", WhyItLeaves(cause->second)));
    else
      stay.push_back(absl::StrCat(name, " stays after all"));
  }
  if (leave.empty() && stay.empty()) return;
  has_leavers_ = !leavers.causes.empty();
  looks_for_leavers_ = true;
  fits_.reset();
  Persist();
  for (const std::string& text : leave) Say("process", text);
  for (const std::string& text : stay) Say("process", text);
}

// Whoever is marked loses its part in the next view, and then, when the step in which it still had
// one is done, its place.
void JobRun::LetLeaversGo() {
  if (!has_leavers_ || reattachment_ || !std::exchange(looks_for_leavers_, false)) return;
  std::set<std::string> live;
  for (const auto& [id, member] : membership_.live()) live.insert(id.name);
  const std::vector<MemberId> go = change_ ? std::vector<MemberId>() : WhoMayGo();
  std::set<std::string> names;
  for (const MemberId& id : go) names.insert(id.name);
  // Who stands for a place under another name, and cannot go yet, keeps one.
  const std::set<std::string> under_other_names = LeavingUnderOtherNames();
  const auto kept = std::count_if(under_other_names.begin(), under_other_names.end(),
                                  [&](const std::string& name) { return !names.contains(name); });
  int64_t empty_slots = 0;
  for (const auto& [name, placement] : journal_.placements) {
    if (!placement.leaving || live.contains(name)) continue;
    if (!IsEmptySlot(name, placement) || ++empty_slots > kept) names.insert(name);
  }
  if (names.empty()) return;
  std::erase_if(journal_.placements,
                [&](const auto& entry) { return names.contains(entry.first); });
  gives_up_places_ = true;
  has_leavers_ = std::any_of(journal_.placements.begin(), journal_.placements.end(),
                             [](const auto& entry) { return entry.second.leaving; });
  bool changes_view = false;
  const std::map<MemberId, int32_t> in_view =
      journal_.view ? journal_.view->Indexes() : std::map<MemberId, int32_t>();
  for (const MemberId& id : go) {
    if (!in_view.contains(id)) continue;
    journal_.lanes.Lose(id.incarnation, Role::kWorker);
    changes_view = true;
  }
  Persist();
  for (const MemberId& id : go)
    if (membership_.Evict(id, kExitLater).value_or(false))
      Do(ToMember{id, Leave{leadership_.term, kExitLater,
                            "its place was taken back; others have all that it held",
                            leadership_.cluster}});
  const std::string text =
      absl::StrCat(absl::StrJoin(names, ", "), names.size() == 1 ? " has left" : " have left");
  if (changes_view && Next().cause.empty()) Next().cause = text;
  Say("process", text);
}

// Leavers that have no part in what is still to be computed, if others have the state.
std::vector<MemberId> JobRun::WhoMayGo() const {
  const std::optional<View>& view = journal_.view;
  // Else nobody has a state yet; or the job stands still for want of a server, whose chunks no
  // worker has.
  const auto servers = static_cast<size_t>(journal_.spec.runtime.servers);
  const bool has_begun = view && !journal_.resumes && membership_.Count(Role::kServer) >= servers;
  if (has_begun && view->number != journal_.number) return {};
  if (has_begun && !OthersHoldState()) return {};
  std::map<MemberId, int32_t> indexes;
  std::vector<bool> has_part;
  if (has_begun) {
    // What a coordinator before this one was told they say again when a view forms.
    if (!KnowsWhoOwesParts()) return {};
    indexes = view->Indexes();
    has_part.resize(view->members.size(), false);
    const auto note = [&](const std::vector<int32_t>& holders) {
      for (const int32_t holder : holders) has_part[static_cast<size_t>(holder)] = true;
    };
    note(view->lanes.holder_of);
    note(view->owner_of);
    if (first_step_done_ != view->number) note(view->first_lanes.holder_of);
  }
  std::vector<MemberId> go;
  for (const auto& [id, live] : membership_.live()) {
    if (!IsLeaving(id.name)) continue;
    const auto index = indexes.find(id);
    const bool has_none = index == indexes.end() || !has_part[static_cast<size_t>(index->second)];
    if (has_none && !OwesPart(id)) go.push_back(id);
  }
  return go;
}

// Members that stay, and that were heard lately: whoever was not may be gone.
bool JobRun::OthersHoldState() const {
  if (journal_.spec.training.sync == Sync::kServer) return true;
  return std::any_of(membership_.live().begin(), membership_.live().end(), [&](const auto& entry) {
    const auto& [id, live] = entry;
    return live.holds_state && live.up && now_ - live.heard <= leadership_.settings.lease / 2 &&
           live.member.role == Role::kWorker && !IsLeaving(id.name);
  });
}

// One that stays has no lane although there is one for it: it was to leave when the view formed.
bool JobRun::StayerIsIdle() const {
  const View& view = *journal_.view;
  const std::set<int32_t> holders(view.lanes.holder_of.begin(), view.lanes.holder_of.end());
  size_t staying = 0;
  for (const ViewMember& m : view.members)
    staying += m.role == Role::kWorker && !IsLeaving(m.id.name) ? 1 : 0;
  return holders.size() < std::min(staying, view.lanes.holder_of.size());
}

// It stops and cannot form a view any more: what it lacks has no room. It goes back to its last
// checkpoint in any case. For others it does not keep its other places meanwhile; stopped by a
// person it waits for a while, as a host that comes back would have room.
void JobRun::EndIfNobodyIsLeftToStop() {
  const JobEnding& ending = journal_.ending;
  const bool lacks_members = WhoHasNotJoined().has_value();
  const bool waits_for_room =
      ending.stop_asked && !reattachment_ && !AwaitsLastMeasure() &&
      (lacks_members || !WaitsForMeasure().empty()) &&
      std::any_of(journal_.placements.begin(), journal_.placements.end(), [&](const auto& entry) {
        return !entry.second.host.has_value() && entry.second.role != Role::kReader &&
               (lacks_members || entry.second.role == Role::kFollower);
      });
  if (!waits_for_room) return cannot_stop_since_.reset();
  if (ending.gives_way)
    return End(JobPhase::kStopped, "gives way without a checkpoint of its end", kExitLater);
  if (!cannot_stop_since_) cannot_stop_since_ = now_;
  if (ending.is_late || now_ - *cannot_stop_since_ <= leadership_.settings.stop_patience) return;
  End(JobPhase::kStopped,
      "stopped without a checkpoint of its end, as there is no room for what it lacks; it goes on "
      "from the last one",
      kExitStopped);
}

// Without whom the job cannot go on, and who has no place, for people; empty: nobody.
std::string JobRun::WhoLacksRoom() const {
  if (reattachment_ || finishes_since_ || digesting_) return "";
  const bool begins = !HasBegun();
  int32_t workers = 0;
  std::map<Role, std::string> first;  // without a place
  for (const auto& [name, placement] : journal_.placements) {
    if (placement.host)
      workers += placement.role == Role::kWorker ? 1 : 0;
    else
      first.try_emplace(placement.role, name);
  }
  // One that is bound to a host would find no other place for having given up this one.
  const bool lacks_reader = journal_.spec.runtime.stream.host.empty() && !WaitsForStream().empty();
  const bool lacks_workers = workers < (begins ? journal_.spec.runtime.workers_min : 1);
  for (const auto& [role, name] : first) {
    const bool is_lacking = role == Role::kServer || (role == Role::kWorker && lacks_workers) ||
                            (role == Role::kFollower && !WaitsForMeasure().empty()) ||
                            (role == Role::kReader && lacks_reader);
    if (is_lacking) return name;
  }
  return "";
}

// A place that does not help, as nodes that were kept apart still do not reach each other, is no
// end of it: only a step is.
void JobRun::NoteRoom() {
  if (!WhoLacksRoom().empty()) {
    if (!stands_still_since_) stands_still_since_ = now_;
  } else if (ViewStillFits() && first_step_done_ == journal_.view->number) {
    stands_still_since_.reset();
  }
}

// The view gives lanes to one that is leaving although others could have them.
bool JobRun::LeaverHasPart() const {
  const auto& live = membership_.live();
  const bool others_stay = std::any_of(live.begin(), live.end(), [&](const auto& entry) {
    return entry.second.member.role == Role::kWorker && !IsLeaving(entry.first.name);
  });
  if (!others_stay) return false;
  const View& view = *journal_.view;
  for (size_t i = 0; i < view.members.size(); ++i)
    if (view.members[i].role == Role::kWorker && IsLeaving(view.members[i].id.name) &&
        Names(view.lanes.holder_of, static_cast<int32_t>(i)))
      return true;
  return false;
}

// A worker tells the first step of the active view: it has all results, so all lanes of it are in.
void JobRun::NoteFirstStep(const MemberId& member, const StepRecord& record) {
  if (!journal_.view || record.view != journal_.view->number) return;
  const auto live = membership_.live().find(member);
  if (live == membership_.live().end() || live->second.member.role != Role::kWorker) return;
  looks_for_leavers_ |= first_step_done_ != record.view;
  first_step_done_ = record.view;
}

void JobRun::On(const Scale& scale) {
  RuntimeSpec& runtime = journal_.spec.runtime;
  if (runtime.workers_min == scale.workers_min && runtime.workers_max == scale.workers_max) return;
  runtime.workers_min = scale.workers_min;
  runtime.workers_max = scale.workers_max;
  grown_ = now_ - leadership_.settings.grow_interval;  // a person does not wait for the next look
  Persist();
  Say("state", absl::StrCat("the job may have ", WorkersText(runtime), " now"));
}

void JobRun::On(const SetQueue& set) {
  if (journal_.spec.queue == set.queue) return;
  journal_.spec.queue = set.queue;
  Persist();
}

// Time in which there was no coordinator is not known.
void JobRun::CountTime() { journal_.ran += now_ - std::exchange(counted_, now_); }

// Nothing else may be written for hours, and a restart knows only what is.
void JobRun::KeepTime() {
  constexpr Duration kMostUncounted = std::chrono::seconds(60);
  if (journal_.spec.queue.deadline > 0 && now_ - counted_ >= kMostUncounted) Persist();
}

std::string JobRun::WhyItIsLate() const {
  return absl::StrCat("its deadline has passed: it may run ", journal_.spec.queue.deadline,
                      " s in all");
}

// As a stop, but it has failed. A person who stopped it before has it stopped.
void JobRun::StopWhenLate() {
  const double deadline = journal_.spec.queue.deadline;
  JobEnding& ending = journal_.ending;
  const bool is_stopped = ending.stop_asked && !ending.gives_way;
  if (deadline <= 0 || is_stopped || finishes_since_) return;
  if (Seconds(journal_.ran + (now_ - counted_)) < deadline) return;
  const bool stops_already = std::exchange(ending.stop_asked, true);
  ending.gives_way = false;
  ending.is_urgent = ending.is_late = true;
  if (!stops_already) stops_since_ = now_;
  if (!HasBegun()) {
    if (AwaitsLastMeasure()) return EndUnmeasured(WhyItIsLate());
    return End(JobPhase::kFailed, WhyItIsLate(), kExitFailed);
  }
  SetPhase(JobPhase::kStopping, absl::StrCat("stops after a checkpoint: ", WhyItIsLate()));
  GiveCommands();
}

// It goes on, if it does, from its last checkpoint. Its processes are let go with its places.
void JobRun::EndIfStopTakesTooLong() {
  const JobEnding& ending = journal_.ending;
  if (!ending.is_urgent || finishes_since_ || digesting_ ||
      now_ - stops_since_ <= WithTimeForState(leadership_.settings.stop_patience))
    return;
  const char* without = "no checkpoint of its end came in time";
  if (ending.is_late)
    return End(JobPhase::kFailed, absl::StrCat(WhyItIsLate(), "; ", without), kExitFailed);
  End(JobPhase::kStopped, absl::StrCat("stopped; ", without, ", and it goes on from the last one"),
      kExitStopped);
}

// As a stop, but others need its place: it goes on later.
void JobRun::On(const GiveWay& give_way) {
  if (journal_.ending.stop_asked) return;
  journal_.ending.stop_asked = true;
  journal_.ending.gives_way = true;
  journal_.ending.is_urgent = give_way.is_urgent;
  stops_since_ = now_;
  if (!HasBegun()) {
    if (AwaitsLastMeasure()) return EndUnmeasured(give_way.why);
    Say("state", absl::StrCat("gives up its places: ", give_way.why));
    return End(JobPhase::kStopped, give_way.why, kExitLater);
  }
  SetPhase(JobPhase::kStopping,
           absl::StrCat("stops after a checkpoint, and waits in the queue: ", give_way.why));
  GiveCommands();
}

}  // namespace muster::coordinator
