// Who cannot reach whom (docs/hosts.md section 8): what members say of each other, which pairs are
// cut, and who of them is left out. Plain values and pure functions, but for Reach, which lives as
// long as its JobRun.
#pragma once

#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "lib/base/time.h"
#include "lib/domain/message.h"

namespace muster::coordinator {

// Two members that name each other, and for how long both have done so without a pause.
struct NamedPair {
  MemberId a, b;  // a < b
  Duration lasts{};
  bool broke = false;  // both had said before, in the same view, that they reach everybody
  bool operator==(const NamedPair&) const = default;
};

// What the members of one job say. Lives as long as its JobRun.
class Reach {
 public:
  // Two words of a member that came further apart say nothing of the time between them.
  explicit Reach(Duration pause) : pause_(pause) {}

  // Members of a view, active or forming, in whose numbers its members will speak.
  void Learn(ViewNumber view, const std::vector<ViewMember>& members);
  // `from` said this; it came then.
  void Hear(const MemberId& from, const Unreachable& said, Time came);
  void Forget(const MemberId& member);  // it has no session, or takes no part any more
  // Whose last words of each other are recent: else one has fallen silent, or all stood still and
  // the way may be there again.
  std::vector<NamedPair> Pairs(Time now) const;

 private:
  struct Run {  // of words that name it, without a pause
    Time first, last;
    bool broke = false;
  };
  struct Speaker {
    Time last{};
    ViewNumber reached_all{};  // the last view of which it has named nobody
    std::map<MemberId, Run> names;
  };
  const Duration pause_;
  std::deque<std::pair<ViewNumber, std::vector<MemberId>>> views_;  // the last few
  std::map<MemberId, Speaker> speakers_;
};

// A member of a view, and what is lost with it.
struct Party {
  MemberId id;
  Role role = Role::kWorker;
  Rank rank;
  bool holds_state = false;  // of the current lineage
};
// Indices into the parties.
struct PartyPair {
  size_t a = 0, b = 0;
  bool is_cut = false;  // else it may only be a session that is made again
};
struct Verdict {
  size_t out = 0;
  std::vector<size_t> others;  // that it is cut from; ascending, never empty
  bool operator==(const Verdict&) const = default;
};

// Do they exchange anything in the steps of this view? Indices of its members.
bool Exchange(const View& view, Sync sync, size_t a, size_t b);

// Who is left out, one after the other, until no pair that is cut is left: whoever cannot reach
// most others. Among equals one that does not hold the state, then a worker before a server, then
// the highest rank. The only copy of the state is chosen where it is cut from another one only.
// With servers each has its chunks alone; else every worker with the state has all of it.
std::vector<Verdict> WhomToLeaveOut(std::vector<Party> parties, std::vector<PartyPair> pairs,
                                    Sync sync);

}  // namespace muster::coordinator
