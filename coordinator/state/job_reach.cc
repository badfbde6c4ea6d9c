// Members of a started job that cannot reach each other (docs/hosts.md section 8).
#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "coordinator/state/job_run.h"
#include "lib/base/exit_codes.h"
#include "lib/base/plural.h"

namespace muster::coordinator {
namespace {

// Both have named each other for so long. A session that only broke is made again before, also when
// the first packet of the new one is lost; one that was never there may take longer.
constexpr Duration kPatienceWithBreak = std::chrono::milliseconds(1250);
constexpr Duration kPatienceWithPair = std::chrono::seconds(2);

bool IsCut(const NamedPair& pair) {
  return pair.lasts >= (pair.broke ? kPatienceWithBreak : kPatienceWithPair);
}

std::pair<std::string, std::string> PairOf(const std::string& a, const std::string& b) {
  return std::minmax(a, b);
}

}  // namespace

// Nothing: who takes part is not settled.
const View* JobRun::ViewToJudge() const {
  if (reattachment_ || finishes_since_) return nullptr;
  if (!change_) {
    const bool is_active =
        journal_.view && !journal_.resumes && journal_.view->number == journal_.number;
    return is_active ? &*journal_.view : nullptr;
  }
  const bool takes_long = last_tick_ - change_->since() >= kPatienceWithPair;
  return takes_long && change_->plan() ? &change_->plan()->view : nullptr;
}

void JobRun::JudgeReach() {
  const View* view = ViewToJudge();
  if (view == nullptr) return;
  const std::vector<NamedPair> named = reach_.Pairs(now_);
  if (std::none_of(named.begin(), named.end(), IsCut)) return;
  const Sync sync = journal_.spec.training.sync;
  const std::map<MemberId, int32_t> indexes = view->Indexes();
  std::vector<PartyPair> pairs;
  for (const NamedPair& pair : named) {
    const auto a = indexes.find(pair.a), b = indexes.find(pair.b);
    if (a == indexes.end() || b == indexes.end()) continue;
    const auto at_a = static_cast<size_t>(a->second), at_b = static_cast<size_t>(b->second);
    // While a view forms, those that hold its base need nothing from each other.
    const bool matters =
        change_ ? change_->holding().count(pair.a) == 0 || change_->holding().count(pair.b) == 0
                : Exchange(*view, sync, at_a, at_b);
    if (matters) pairs.push_back({at_a, at_b, IsCut(pair)});
  }
  std::vector<Party> parties;
  for (const ViewMember& m : view->members) {
    const auto live = membership_.live().find(m.id);
    const bool holds = live != membership_.live().end() && live->second.holds_state;
    parties.push_back({m.id, m.role, m.rank, holds});
  }
  const std::vector<Verdict> verdicts = WhomToLeaveOut(parties, std::move(pairs), sync);
  if (verdicts.empty()) return;
  const std::vector<ViewMember> members = view->members;  // what follows ends the view
  std::vector<std::string> places;                        // before some are taken back
  for (const ViewMember& m : members) places.push_back(WhereIs(m));
  std::vector<bool> parts;
  for (const Verdict& verdict : verdicts) parts.push_back(KeepApart(members, verdict));
  Persist();
  for (size_t i = 0; i < verdicts.size(); ++i)
    LeaveOutOfReach(members, places, verdicts[i], parts[i]);
}

// True: another place is looked for. Else it is on the node of those that it is cut from.
bool JobRun::KeepApart(const std::vector<ViewMember>& members, const Verdict& verdict) {
  const ViewMember& out = members[verdict.out];
  bool parts = false;
  for (const size_t i : verdict.others) {
    if (members[i].node == out.node) continue;
    journal_.apart.insert(PairOf(members[i].node, out.node));
    parts = true;
  }
  if (!parts) return false;
  parted_ = now_;
  const auto placement = journal_.placements.find(out.id.name);
  const bool is_placed = placement != journal_.placements.end() && placement->second.host &&
                         !placement->second.host->empty();  // else others start it
  if (is_placed) Vacate(placement->second);
  gives_up_places_ |= is_placed;
  return true;
}

std::string JobRun::WhereIs(const ViewMember& member) const {
  const std::string host = HostOfMember(journal_, member.id.name);
  return host.empty() ? member.node : host;
}

// On one node it is a failure of that process: its agent counts it, and starts it again.
void JobRun::LeaveOutOfReach(const std::vector<ViewMember>& members,
                             const std::vector<std::string>& places, const Verdict& verdict,
                             bool parts) {
  const ViewMember& out = members[verdict.out];
  const ViewMember& other = members[verdict.others.front()];
  const size_t more = verdict.others.size() - 1;
  Say("verdict",
      absl::StrCat(out.id.name, " on ", places[verdict.out], " and ", other.id.name, " on ",
                   places[verdict.others.front()],
                   more == 0 ? "" : absl::StrCat(", and ", Plural(more, "other"), ","),
                   " cannot reach each other, though all reach the coordinator: ", out.id.name,
                   " is left out",
                   parts ? ", and their nodes are kept apart for this start of the job"
                         : ", as if its process had failed"),
      {{"member", out.id.name},
       {"node", out.node},
       {"other", other.id.name},
       {"other_node", other.node}});
  Evict(out.id, absl::StrCat("it and ", other.id.name, " cannot reach each other"),
        parts ? kExitLater : kExitFailed);
}

// What placement heeds. A job that stands still has nothing to lose, be it that it lacks a server
// or every worker, or that it has not begun: now and then it tries whether the nodes reach each
// other again.
NodePairs JobRun::KeptApart() const {
  bool lacks_server = false, has_worker = false;
  for (const auto& [name, placement] : journal_.placements) {
    lacks_server |= placement.role == Role::kServer && !placement.host;
    has_worker |= placement.role == Role::kWorker && placement.host;
  }
  const bool tries = now_ - parted_ >= leadership_.settings.grow_interval;
  const bool begins = !HasBegun();
  return tries && (begins || lacks_server || !has_worker) ? NodePairs() : journal_.apart;
}

// A member that takes part, and that a newcomer's node cannot reach. Placement sees to that for
// those that agents start; others would come again and again, and each time stop the job.
const LiveMember* JobRun::OutOfReachOf(const Join& join) const {
  const bool is_new =
      !membership_.IsLive(join.id) && !(journal_.view && journal_.view->IndexOf(join.id) >= 0);
  const bool is_placed = join.placement != PlacementNumber();
  // Who is in no view talks to no peer.
  if (!is_new || is_placed || !IsInViews(join.role) || journal_.apart.empty()) return nullptr;
  const bool tries = now_ - parted_ >= leadership_.settings.grow_interval;
  if (tries && join.role == Role::kServer) return nullptr;
  for (const auto& [id, live] : membership_.live())
    if (IsInViews(live.member.role) &&
        journal_.apart.count(PairOf(join.node, live.member.node)) > 0)
      return &live;
  return nullptr;
}

}  // namespace muster::coordinator
