// Who takes part in a job: who is live, whose lease is over, who hangs, who was evicted. Lives as
// long as its JobRun.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/time.h"
#include "lib/domain/message.h"

namespace muster::coordinator {

struct LiveMember {
  ViewMember member;
  bool up = false;  // it has a session
  Time heard;
  ViewNumber sealed;  // as it said when it joined
  Speaks speaks;      // likewise
  Step step;
  std::string phase;               // or why it cannot go on
  std::vector<ThreadAge> threads;  // that have work, as it said last
  bool exited = false;             // the agent said so; the session may not have broken yet
  bool holds_state = false;        // of the current lineage, as far as is known
  bool waited_for = false;         // though its lease is over; until it says something
};

class Membership {
 public:
  struct Patience {
    Duration lease;   // with one that is silent
    Duration thread;  // with one of which a thread stands still in its work
  };
  Membership(Patience patience, const std::set<Incarnation>& evicted);

  const std::map<MemberId, LiveMember>& live() const { return live_; }
  bool IsLive(const MemberId& member) const { return live_.count(member) > 0; }
  bool AllLive(const std::vector<MemberId>& members) const;
  size_t Count(Role role) const {
    const auto it = count_.find(role);
    return it == count_.end() ? 0 : it->second;
  }
  // The one of a role of which there is one at most; nothing: nobody.
  std::optional<MemberId> OnlyOf(Role role) const;
  ViewNumber HighestSealed() const;
  // Another number than before: somebody came or went, or an agent told of an end.
  int64_t revision() const { return revision_; }

  // The exit code with which it is to leave should it come back. Nothing: it was not evicted.
  std::optional<int> EvictedWith(Incarnation member) const;
  // Live ones of the same name under another incarnation.
  std::vector<MemberId> OthersOfName(const MemberId& member) const;

  // A process of that name that its host started later has a session. The Join was sent before it
  // died, and comes late.
  bool HasSuccessor(const Join& join) const;

  // True: it was not live before.
  bool Admit(const Join& join, Time now);
  // It said something, which came then. False: it is not live.
  bool Heard(const MemberId& member, Time came);
  // When words of members, also of other jobs, came; what they say may still wait for us.
  void WordsCame(const std::map<MemberId, Time>& heard);
  void Note(const MemberId& member, const Alive& alive);
  void NoteState(const MemberId& member, bool holds);
  void NobodyHoldsState();
  // Nothing was handled for so long: those without a session may be back already.
  void HeldUp(Duration time, Time now);
  // It is kept though its lease is over. True: that is new.
  bool WaitFor(const MemberId& member);
  void Down(const MemberId& member, Time now);  // its session broke
  // The agent reports that a process has ended. `incarnation` is zero when it does not know which
  // process of that name it was. True: that may concern a live member.
  bool Exited(const std::string& name, Incarnation incarnation, Time now);

  // Those whose processes have ended; they are to be evicted.
  std::vector<MemberId> Ended() const;
  // What it does or waits for, for people; with a thread that has stood still for some time.
  std::string PhaseOf(const LiveMember& live) const;
  // Whose process has ended, whose lease is over, and who has a thread that hangs.
  std::vector<std::pair<MemberId, std::string>> Lost(Time now) const;
  // Evicts it for good. Returns whether its session was up; nothing if it was not live.
  std::optional<bool> Evict(const MemberId& member, int exit_code);
  void Ban(Incarnation member);  // refuses it from now on

 private:
  const Patience patience_;
  std::map<MemberId, LiveMember> live_;
  std::map<Role, size_t> count_;        // of them
  std::map<Incarnation, int> evicted_;  // with the exit code
  // By name: the agent told the end of a process whose session may still seem up.
  std::map<std::string, Time> ended_at_;
  int64_t revision_ = 0;
};

}  // namespace muster::coordinator
