#include "coordinator/state/plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/frame_limits.h"

namespace muster::coordinator {
namespace {

class Planner {
 public:
  explicit Planner(PlanInput input) : in_(std::move(input)) {}

  Planned Run() {
    GiveRanks();
    GiveOwners(Balanced());
    FindBase();
    if (base_) {
      PlanSurvivors();
    } else {
      PlanRewind();
    }
    AssignLanes();
    DropSpares();
    FillView();
    return std::move(out_);
  }

 private:
  size_t count() const { return local_state_.size(); }
  bool server(size_t i) const { return members()[i].role == Role::kServer; }
  std::vector<ViewMember>& members() { return out_.view.members; }
  const std::vector<ViewMember>& members() const { return out_.view.members; }
  LineageNumber current() const {
    return in_.lineages.empty() ? LineageNumber(0) : in_.lineages.back().number;
  }

  // Survivors keep their rank unless it is too high; the others take the lowest free ones, those
  // that hold a state first: when there are more workers than lanes, they must not become spares.
  // Those that are leaving come last. Servers go by name alone: what a server holds follows from
  // its rank.
  void GiveRanks() {
    std::vector<Candidate> ordered;
    for (Role role : {Role::kWorker, Role::kServer}) {
      std::vector<Candidate> of_role;
      for (const Candidate& c : in_.candidates)
        if (c.member.role == role) of_role.push_back(c);
      std::sort(of_role.begin(), of_role.end(), [](const Candidate& a, const Candidate& b) {
        const auto key = [](const Candidate& c) {
          return std::tuple(c.member.role == Role::kWorker && !c.local_state.has_state,
                            c.member.id);
        };
        return key(a) < key(b);
      });
      const auto leaving = std::stable_partition(of_role.begin(), of_role.end(),
                                                 [](const Candidate& c) { return !c.leaving; });
      const auto staying = static_cast<int32_t>(leaving - of_role.begin());
      if (role == Role::kWorker) staying_workers_ = staying;
      std::vector<std::optional<Candidate>> by_rank(of_role.size());
      std::vector<Candidate> rest;
      for (Candidate& c : of_role) {
        const bool keeps = role == Role::kWorker && !c.leaving && c.rank &&
                           c.rank->value() < staying &&
                           !by_rank[static_cast<size_t>(c.rank->value())];
        if (keeps) {
          by_rank[static_cast<size_t>(c.rank->value())] = c;
        } else {
          rest.push_back(c);
        }
      }
      size_t next = 0;
      for (const Candidate& c : rest) {
        while (by_rank[next]) ++next;
        by_rank[next] = c;
      }
      for (size_t r = 0; r < by_rank.size(); ++r) {
        by_rank[r]->member.rank = Rank(static_cast<int32_t>(r));
        ordered.push_back(*by_rank[r]);
      }
    }
    std::map<std::pair<std::string, Role>, int32_t> on_node;
    for (Candidate& c : ordered) {
      c.member.local_rank = on_node[{c.member.node, c.member.role}]++;
      members().push_back(c.member);
      LocalState held = c.local_state;
      // It was evicted and came back late: its lanes belong to others now.
      if (!c.rank && !held.lanes.empty()) held = LocalState{};
      if (held.has_state && held.lineage != current()) held = LocalState{};
      local_state_.push_back(held);
    }
  }

  void FindBase() {
    if (in_.must_rewind || current() == LineageNumber(0)) return;
    std::optional<Step> low, high;
    bool all = true;
    for (size_t i = 0; i < count(); ++i) {
      const bool counts = in_.sync == Sync::kServer ? Owns(i) : !server(i);
      if (!counts) continue;
      if (!local_state_[i].has_state) {
        all = false;
        continue;
      }
      low = low ? std::min(*low, local_state_[i].step) : local_state_[i].step;
      high = high ? std::max(*high, local_state_[i].step) : local_state_[i].step;
    }
    if (in_.sync == Sync::kAllreduce) {
      base_ = high;
    } else if (all && low && *high <= *low + 1 && ValuesHeld(*low)) {
      base_ = low;
    }
  }

  // Whether, with servers, somebody has the values of every chunk at `base`: the servers themselves
  // or a worker.
  bool ValuesHeld(Step base) const {
    bool servers = true;
    for (size_t i = 0; i < count(); ++i) {
      const LocalState& h = local_state_[i];
      if (!server(i) && h.has_state && h.step == base) return true;
      if (Owns(i)) servers = servers && (h.step == base || h.previous_results);
    }
    return servers;
  }

  bool Owns(size_t i) const {
    const auto& owners = out_.heal.owner_of;
    return std::find(owners.begin(), owners.end(), static_cast<int32_t>(i)) != owners.end();
  }

  bool HoldsResult(size_t i, Step step, size_t chunk) const {
    const LocalState& h = local_state_[i];
    if (!h.has_state) return false;
    if (server(i) && out_.heal.owner_of[chunk] != static_cast<int32_t>(i)) return false;
    if (h.step == step) return chunk < h.results.size() && h.results[chunk];
    return h.step == step + 1 && h.previous_results;
  }

  // Prefers a member that has finished the step, because it has the step's record too.
  int32_t HolderOfResult(Step step, size_t chunk) const {
    int32_t holder = -1;
    for (size_t i = 0; i < count(); ++i) {
      if (!HoldsResult(i, step, chunk)) continue;
      if (local_state_[i].step > step) return static_cast<int32_t>(i);
      if (holder < 0) holder = static_cast<int32_t>(i);
    }
    return holder;
  }

  void GiveOwners(const LaneMap& balanced) {
    const std::vector<int32_t> owners = OwnersOf(members(), balanced, in_.sync);
    const int32_t n = static_cast<int32_t>(owners.size());
    const int32_t stripe = std::max(1, std::min(in_.bucket_chunks, in_.chunks) / n);
    out_.heal.owner_of = StripeOwners(in_.chunks, stripe, owners);
  }

  LaneMap Balanced() const { return {BalancedLanes(in_.lanes, staying_workers_)}; }

  void Prepare() {
    const auto chunks = static_cast<size_t>(in_.chunks);
    HealPlan& heal = out_.heal;
    heal.members = members();
    heal.how.assign(count(), HealBy::kCopy);
    heal.values_from.assign(chunks, -1);
    heal.slots_from.assign(chunks, -1);
    heal.catch_up_from.assign(chunks, -1);
    heal.done_from.assign(chunks, -1);
    heal.done.assign(chunks, false);
    out_.view.first_done.assign(chunks, false);
  }

  void PlanSurvivors() {
    Prepare();
    HealPlan& heal = out_.heal;
    heal.lineage = current();
    heal.base = *base_;
    for (size_t c = 0; c < heal.done.size(); ++c) {
      const int32_t holder = HolderOfResult(*base_, c);
      heal.done[c] = holder >= 0;
      heal.done_from[c] = holder;
      out_.view.first_done[c] = heal.done[c] || SumHeld(c);
      heal.catch_up_from[c] = *base_ > Step(0) ? HolderOfResult(*base_ - 1, c) : -1;
    }
    const bool can_catch_up = std::all_of(heal.catch_up_from.begin(), heal.catch_up_from.end(),
                                          [](int32_t from) { return from >= 0; });
    std::vector<int32_t> donors;
    for (size_t i = 0; i < count(); ++i) {
      const LocalState& h = local_state_[i];
      if (!h.has_state) continue;
      if (h.step >= *base_) {
        heal.how[i] = HealBy::kHold;
      } else if (h.step == *base_ - 1 && can_catch_up && !server(i)) {
        heal.how[i] = HealBy::kCatchUp;
      }
      if (!server(i) && h.step == *base_) donors.push_back(static_cast<int32_t>(i));
    }
    for (size_t c = 0; c < heal.values_from.size(); ++c) {
      const bool workers = !donors.empty();
      heal.values_from[c] = workers ? donors[c % donors.size()] : heal.owner_of[c];
      if (in_.sync == Sync::kAllreduce) heal.slots_from[c] = heal.values_from[c];
    }
    out_.why = absl::StrCat("base is step ", base_->value());
  }

  // A complete sum that waits for the global norm counts: its owner keeps it.
  bool SumHeld(size_t chunk) const {
    const LocalState& h = local_state_[static_cast<size_t>(out_.heal.owner_of[chunk])];
    return h.has_state && h.step == *base_ && chunk < h.sums.size() && h.sums[chunk];
  }

  void PlanRewind() {
    Prepare();
    HealPlan& heal = out_.heal;
    const LineageNumber number = current() + 1;
    const Step to = in_.checkpoint ? in_.checkpoint->step : Step(0);
    LineageNumber parent = in_.checkpoint ? in_.checkpoint->lineage : LineageNumber(0);
    heal.lineage = number;
    heal.base = to;
    heal.manifest = in_.checkpoint;
    const LaneMap balanced = Balanced();
    const int32_t maker = balanced.holder_of[0];
    for (size_t i = 0; i < count(); ++i) {
      if (in_.checkpoint) {
        heal.how[i] = HealBy::kLoad;
      } else {
        heal.how[i] = static_cast<int32_t>(i) == maker ? HealBy::kMake : HealBy::kCopy;
      }
      local_state_[i] = LocalState{};
    }
    heal.values_from.assign(heal.values_from.size(), maker);
    out_.rewind = Lineage{number, parent, to, in_.rewind_cause};
    out_.why = absl::StrCat(in_.rewind_cause, ": lineage ", number.value(), " from ",
                            in_.checkpoint ? "the checkpoint of " : "", "step ", to.value());
  }

  // Lanes stay with the member that has folded or is running them. Missing ones go where the
  // balanced map puts them, but not to a member that already has more than its part.
  void AssignLanes() {
    out_.view.lanes = Balanced();
    const auto& wanted = out_.view.lanes.holder_of;
    std::vector<int32_t> holder(wanted.size(), -1);
    std::vector<int32_t> load(count(), 0);
    for (size_t i = 0; i < count(); ++i) {
      const LocalState& h = local_state_[i];
      if (server(i) || !h.has_state || h.step != out_.heal.base) continue;
      for (LaneId l : h.lanes) {
        int32_t& slot = holder[static_cast<size_t>(l.value())];
        if (slot >= 0) continue;
        slot = static_cast<int32_t>(i);
        ++load[i];
      }
    }
    const ChunkSet& done = out_.view.first_done;
    const bool needed = std::find(done.begin(), done.end(), false) != done.end();
    for (size_t l = 0; l < holder.size(); ++l) {
      if (holder[l] >= 0) continue;
      if (needed) out_.reassigned.emplace_back(static_cast<int32_t>(l));
      auto over = [&](size_t i) {
        return load[i] - std::count(wanted.begin(), wanted.end(), static_cast<int32_t>(i));
      };
      size_t best = static_cast<size_t>(wanted[l]);
      for (size_t i = 0; i < count() && over(best) >= 0; ++i)
        if (!server(i) && InBalance(i) && over(i) < over(best)) best = i;
      holder[l] = static_cast<int32_t>(best);
      ++load[best];
    }
    out_.view.first_lanes.holder_of = std::move(holder);
  }

  bool InBalance(size_t i) const {
    const auto& lanes = out_.view.lanes.holder_of;
    return std::find(lanes.begin(), lanes.end(), static_cast<int32_t>(i)) != lanes.end();
  }

  void DropSpares() {
    for (size_t i = 0; i < count(); ++i) {
      const auto& first = out_.view.first_lanes.holder_of;
      const bool has_lanes = InBalance(i) || std::find(first.begin(), first.end(),
                                                       static_cast<int32_t>(i)) != first.end();
      if (server(i) ? !Owns(i) : !has_lanes) out_.heal.how[i] = HealBy::kNothing;
    }
  }

  void FillView() {
    View& view = out_.view;
    view.job = in_.job;
    view.term = in_.term;
    view.number = in_.number;
    view.lineage = out_.heal.lineage;
    view.owner_of = out_.heal.owner_of;
    view.first_step = out_.heal.base;
    view.end = in_.end;
    out_.heal.first_lanes = view.first_lanes;
  }

  const PlanInput in_;
  Planned out_;
  std::vector<LocalState> local_state_;  // by member
  std::optional<Step> base_;
  int32_t staying_workers_ = 0;  // they have the lowest ranks
};

}  // namespace

absl::Status CheckPlanFits(const Layout& layout, int32_t slots) {
  constexpr auto kHeader = static_cast<int64_t>(kMaxHeaderBytes);
  constexpr int64_t kRest = int64_t{64} << 10;
  constexpr int64_t kChunk = 20, kPart = 26, kTensor = 80;  // upper bounds, encoded
  const int64_t chunks = layout.chunk_count();
  const int64_t parts = chunks + slots * int64_t{layout.parameter_chunk_count()};
  int64_t bytes = kRest + chunks * kChunk + parts * kPart;
  for (const Placed& tensor : layout.tensors())
    for (const std::string& name : tensor.spec.Names())
      bytes += kTensor + static_cast<int64_t>(name.size());
  if (bytes <= kHeader) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the model is too large: its ", chunks, " chunks and ", parts,
      " parts of a checkpoint do not fit into one plan; with larger chunks (chunk_bytes, fewer "
      "lanes) or an optimizer with fewer slots more fits"));
}

Planned PlanView(PlanInput input) { return Planner(std::move(input)).Run(); }

bool OnAncestry(const std::vector<Lineage>& lineages, LineageNumber lineage, Step step) {
  if (lineages.empty()) return false;
  std::map<LineageNumber, Lineage> by_number;
  for (const Lineage& l : lineages) by_number[l.number] = l;
  LineageNumber at = lineages.back().number;
  std::optional<Step> below;
  while (at != LineageNumber(0)) {
    if (at == lineage) return !below || step <= *below;
    const auto it = by_number.find(at);
    if (it == by_number.end()) return false;
    below = below ? std::min(*below, it->second.fork) : it->second.fork;
    at = it->second.parent;
  }
  return false;
}

}  // namespace muster::coordinator
