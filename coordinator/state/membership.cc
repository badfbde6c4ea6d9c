#include "coordinator/state/membership.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/exit_codes.h"

namespace muster::coordinator {
namespace {

using Counts = bool (*)(const ThreadAge&);
bool IsAny(const ThreadAge&) { return true; }

// Of those that count. Null: none of them has work.
const ThreadAge* LongestStill(const LiveMember& live, Counts counts) {
  const ThreadAge* longest = nullptr;
  for (const ThreadAge& age : live.threads)
    if (counts(age) && (longest == nullptr || age.seconds > longest->seconds)) longest = &age;
  return longest;
}

std::string Standstill(const ThreadAge& age) {
  return absl::StrFormat("its %s thread has stood still for %.0f s", age.thread, age.seconds);
}

// One that is no newer than what was heard says nothing of its sender: it waited for us.
void WordCame(LiveMember& live, Time came) {
  if (came <= live.heard) return;
  live.heard = came;
  live.waited_for = false;
}

}  // namespace

Membership::Membership(Patience patience, const std::set<Incarnation>& evicted)
    : patience_(patience) {
  for (const Incarnation member : evicted) Ban(member);
}

std::optional<int> Membership::EvictedWith(Incarnation member) const {
  const auto it = evicted_.find(member);
  return it == evicted_.end() ? std::nullopt : std::optional(it->second);
}

void Membership::Ban(Incarnation member) { evicted_.try_emplace(member, kExitFailed); }

std::optional<MemberId> Membership::OnlyOf(Role role) const {
  for (const auto& [id, live] : live_)
    if (live.member.role == role) return id;
  return std::nullopt;
}

bool Membership::AllLive(const std::vector<MemberId>& members) const {
  return std::all_of(members.begin(), members.end(),
                     [&](const MemberId& id) { return IsLive(id); });
}

ViewNumber Membership::HighestSealed() const {
  ViewNumber highest;
  for (const auto& [id, live] : live_) highest = std::max(highest, live.sealed);
  return highest;
}

std::vector<MemberId> Membership::OthersOfName(const MemberId& member) const {
  std::vector<MemberId> others;
  for (auto it = live_.lower_bound({member.name, {}}); it != live_.end(); ++it) {
    if (it->first.name != member.name) break;
    if (it->first.incarnation != member.incarnation) others.push_back(it->first);
  }
  return others;
}

bool Membership::HasSuccessor(const Join& join) const {
  const std::vector<MemberId> others = OthersOfName(join.id);
  return std::any_of(others.begin(), others.end(), [&](const MemberId& other) {
    const LiveMember& live = live_.at(other);
    return live.up && live.member.node == join.node &&
           other.incarnation.hi > join.id.incarnation.hi;
  });
}

bool Membership::Admit(const Join& join, Time now) {
  const auto [it, is_new] = live_.try_emplace(join.id);
  LiveMember& live = it->second;
  if (!is_new) --count_[live.member.role];
  ++count_[join.role];
  live.member = ViewMember{join.id, join.role, join.node, join.address, Rank(0), 0};
  live.up = true;
  live.heard = now;
  live.sealed = join.sealed;
  live.speaks = join.speaks;
  live.threads.clear();
  if (is_new) ++revision_;
  return is_new;
}

bool Membership::Heard(const MemberId& member, Time came) {
  const auto it = live_.find(member);
  if (it == live_.end()) return false;
  WordCame(it->second, came);
  it->second.up = true;
  return true;
}

void Membership::WordsCame(const std::map<MemberId, Time>& heard) {
  for (auto& [id, live] : live_) {
    const auto word = heard.find(id);
    if (word != heard.end()) WordCame(live, word->second);
  }
}

void Membership::Note(const MemberId& member, const Alive& alive) {
  const auto it = live_.find(member);
  if (it == live_.end()) return;
  it->second.step = alive.step;
  it->second.phase = alive.lacks.empty() ? alive.phase : alive.lacks;
  it->second.threads = alive.threads;
}

std::string Membership::PhaseOf(const LiveMember& live) const {
  const ThreadAge* age = LongestStill(live, IsAny);
  if (age == nullptr || age->seconds < Seconds(patience_.thread) / 10) return live.phase;
  return live.phase.empty() ? Standstill(*age) : absl::StrCat(live.phase, "; ", Standstill(*age));
}

void Membership::NoteState(const MemberId& member, bool holds) {
  const auto it = live_.find(member);
  if (it != live_.end()) it->second.holds_state = holds;
}

void Membership::NobodyHoldsState() {
  for (auto& [id, live] : live_) live.holds_state = false;
}

void Membership::HeldUp(Duration time, Time now) {
  for (auto& [id, live] : live_)
    if (!live.up) live.heard = std::min(now, live.heard + time);
}

bool Membership::WaitFor(const MemberId& member) {
  const auto it = live_.find(member);
  return it != live_.end() && !std::exchange(it->second.waited_for, true);
}

void Membership::Down(const MemberId& member, Time now) {
  const auto it = live_.find(member);
  if (it == live_.end()) return;
  it->second.up = false;
  // Its lease starts again, if it was not over already: the session of a machine that is gone
  // breaks long after.
  if (!it->second.waited_for) it->second.heard = now;
  const auto ended = ended_at_.find(member.name);
  if (ended != ended_at_.end() && now - ended->second < patience_.lease) it->second.exited = true;
}

bool Membership::Exited(const std::string& name, Incarnation incarnation, Time now) {
  ++revision_;
  const bool known = incarnation != Incarnation{};
  std::erase_if(ended_at_,
                [&](const auto& entry) { return now - entry.second >= patience_.lease; });
  bool concerns = false;
  for (auto it = live_.lower_bound({name, {}}); it != live_.end() && it->first.name == name; ++it) {
    LiveMember& live = it->second;
    if (known && incarnation != it->first.incarnation) continue;  // an earlier process
    concerns = true;
    // We cannot tell which process ended. If the session breaks soon, it was this one.
    if (!known && live.up) {
      ended_at_[name] = now;
      continue;
    }
    live.exited = true;
    live.up = false;
  }
  return concerns;
}

std::vector<MemberId> Membership::Ended() const {
  std::vector<MemberId> ended;
  for (const auto& [id, live] : live_)
    if (live.exited && !live.up) ended.push_back(id);
  return ended;
}

std::vector<std::pair<MemberId, std::string>> Membership::Lost(Time now) const {
  std::vector<std::pair<MemberId, std::string>> lost;
  for (const auto& [id, live] : live_) {
    const ThreadAge* age = LongestStill(live, IsJudged);
    if (live.exited && !live.up)
      lost.emplace_back(id, "its process ended");
    else if (age != nullptr && age->seconds > Seconds(patience_.thread))
      lost.emplace_back(id, Standstill(*age));
    else if (now - live.heard > patience_.lease)
      lost.emplace_back(id, "silent for longer than its lease");
  }
  return lost;
}

std::optional<bool> Membership::Evict(const MemberId& member, int exit_code) {
  const auto it = live_.find(member);
  if (it == live_.end()) return std::nullopt;
  const bool up = it->second.up;
  --count_[it->second.member.role];
  live_.erase(it);
  evicted_[member.incarnation] = exit_code;
  ++revision_;
  return up;
}

}  // namespace muster::coordinator
