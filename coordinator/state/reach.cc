#include "coordinator/state/reach.h"

#include <algorithm>
#include <optional>
#include <tuple>

namespace muster::coordinator {

void Reach::Learn(ViewNumber view, const std::vector<ViewMember>& members) {
  constexpr size_t kViewsKept = 4;  // who did not hear of the newest speaks of one before it
  std::erase_if(views_, [&](const auto& known) { return known.first == view; });
  std::vector<MemberId>& ids = views_.emplace_back(view, std::vector<MemberId>()).second;
  for (const ViewMember& m : members) ids.push_back(m.id);
  if (views_.size() > kViewsKept) views_.pop_front();
}

void Reach::Hear(const MemberId& from, const Unreachable& said, Time came) {
  const auto view = std::find_if(views_.begin(), views_.end(),
                                 [&](const auto& known) { return known.first == said.view; });
  if (view == views_.end()) return;  // it is in none, or in one of long ago
  const std::vector<MemberId>& members = view->second;
  Speaker& speaker = speakers_[from];
  const bool paused = came - speaker.last > pause_;
  std::map<MemberId, Run> before = std::exchange(speaker.names, {});
  speaker.last = came;
  for (const int32_t index : said.members) {
    if (static_cast<size_t>(index) >= members.size()) return;
    const MemberId& peer = members[static_cast<size_t>(index)];
    const auto known = before.find(peer);
    const bool goes_on = known != before.end() && !paused;
    const bool breaks = !paused && speaker.reached_all == said.view;
    speaker.names[peer] =
        goes_on ? Run{known->second.first, came, known->second.broke} : Run{came, came, breaks};
  }
  if (said.members.empty()) speaker.reached_all = said.view;
}

void Reach::Forget(const MemberId& member) {
  speakers_.erase(member);
  for (auto& [from, speaker] : speakers_) speaker.names.erase(member);
}

std::vector<NamedPair> Reach::Pairs(Time now) const {
  std::vector<NamedPair> pairs;
  for (const auto& [a, speaker] : speakers_)
    for (const auto& [b, run] : speaker.names) {
      const auto other = a < b ? speakers_.find(b) : speakers_.end();
      if (other == speakers_.end()) continue;
      const auto back = other->second.names.find(a);
      if (back == other->second.names.end()) continue;
      const auto [first, last, broke] = back->second;
      if (now - std::min(run.last, last) > pause_) continue;
      const Duration both = std::min(run.last, last) - std::max(run.first, first);
      pairs.push_back({a, b, std::max(both, Duration(0)), run.broke && broke});
    }
  return pairs;
}

bool Exchange(const View& view, Sync sync, size_t a, size_t b) {
  const auto has_part = [&](size_t i) { return view.HasPart(static_cast<int32_t>(i)); };
  if (!has_part(a) || !has_part(b)) return false;  // a spare
  if (sync == Sync::kAllreduce) return true;
  if (view.members[a].role != view.members[b].role) return true;
  // Servers tell the owner of chunk 0 their norms; workers exchange nothing.
  const auto is_first = [&](size_t i) { return view.owner_of[0] == static_cast<int32_t>(i); };
  return is_first(a) || is_first(b);
}

namespace {

// Of the parties that are left.
bool IsOnlyCopy(const std::vector<Party>& parties, size_t party, Sync sync) {
  const Role keeper = sync == Sync::kServer ? Role::kServer : Role::kWorker;
  const auto keeps = [&](const Party& p) { return p.holds_state && p.role == keeper; };
  if (!keeps(parties[party])) return false;
  return sync == Sync::kServer || std::count_if(parties.begin(), parties.end(), keeps) == 1;
}

// Who goes first of those that are cut; nothing: nobody is.
std::optional<size_t> Next(const std::vector<Party>& parties, const std::vector<PartyPair>& pairs,
                           Sync sync) {
  using Key = std::tuple<bool, int64_t, bool, bool, Rank, MemberId>;  // the greatest goes
  std::optional<std::pair<Key, size_t>> first;
  std::vector<int64_t> pairs_of(parties.size(), 0);
  for (const PartyPair& pair : pairs) {
    ++pairs_of[pair.a];
    ++pairs_of[pair.b];
  }
  std::vector<bool> is_seen(parties.size(), false);
  for (const PartyPair& cut : pairs) {
    if (!cut.is_cut) continue;
    for (const size_t p : {cut.a, cut.b}) {
      if (is_seen[p]) continue;
      is_seen[p] = true;
      const Party& party = parties[p];
      Key key{!IsOnlyCopy(parties, p, sync), pairs_of[p], !party.holds_state,
              party.role == Role::kWorker,   party.rank,  party.id};
      if (!first || key > first->first) first = {std::move(key), p};
    }
  }
  return first ? std::optional(first->second) : std::nullopt;
}

}  // namespace

std::vector<Verdict> WhomToLeaveOut(std::vector<Party> parties, std::vector<PartyPair> pairs,
                                    Sync sync) {
  std::vector<Verdict> verdicts;
  while (const std::optional<size_t> out = Next(parties, pairs, sync)) {
    Verdict verdict{*out, {}};
    const auto concerns = [&](const PartyPair& pair) { return pair.a == *out || pair.b == *out; };
    for (const PartyPair& pair : pairs)
      if (pair.is_cut && concerns(pair)) verdict.others.push_back(pair.a == *out ? pair.b : pair.a);
    std::sort(verdict.others.begin(), verdict.others.end());
    std::erase_if(pairs, concerns);
    parties[*out].holds_state = false;
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

}  // namespace muster::coordinator
