// The hosts of a cluster: which agents are there, what they offer, and since when those that are
// away have been silent (docs/hosts.md sections 1, 2 and 5). It knows nothing of jobs. Lives as
// long as its Coordinator.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/state/placement.h"
#include "coordinator/state/status.h"
#include "lib/base/time.h"
#include "lib/domain/message.h"

namespace muster::coordinator {

inline constexpr size_t kMostHosts = 4096;  // as members of a job

class HostTable {
 public:
  // `own_slots`: of members that are started by others than host agents. `lease`: of an agent.
  // `drained`: hosts that are to be empty, `left_out`: for all jobs, and why, as the journal says.
  HostTable(int32_t own_slots, Duration lease, std::set<std::string> drained = {},
            std::map<std::string, std::string> left_out = {})
      : own_slots_(own_slots),
        lease_(lease),
        drained_(std::move(drained)),
        left_out_(std::move(left_out)) {}

  // A member is placed there, with these devices, as the journal says, by that agent, which may
  // come.
  void Expect(const AgentId& agent, const std::vector<std::string>& devices, Time now);
  // `lives`: a member that another agent of that name was told to start may live. Why this agent
  // cannot speak for its host, for people; empty: it does from now on.
  std::string Up(const AgentHello& hello, bool lives, Time now);
  // False: it spoke for no host.
  bool Down(const AgentId& agent, Time now);
  // Nothing was handled for so long, or longer, until now: agents may be back already.
  void HeldUp(Duration time, Time now);
  // A person wants it to be empty, or to take members again; also one that is not there. False: it
  // is so already.
  bool Drain(const std::string& host, bool on);
  const std::set<std::string>& drained() const { return drained_; }
  // No job may place anything new there until it is let back, because of `why`. False: it is so
  // already, or nobody knows such a host.
  bool LeaveOut(const std::string& host, std::string why);
  bool LetBack(const std::string& host);  // false: it was not left out
  const std::map<std::string, std::string>& left_out() const { return left_out_; }
  // Hosts that all jobs are kept off: those that are left out, as long as another one of their
  // namespace remains. `rooms` are Rooms() with their namespaces.
  std::set<std::string> KeptOff(const std::vector<HostRoom>& rooms) const;
  // That agent is about to end. False: it speaks for no host, or has said so.
  bool Ends(const AgentId& agent);
  // Which of its devices are held, of those that it said it has. False: as before, or that agent
  // speaks for no host.
  bool Hold(const AgentId& agent, const std::vector<HostDevice>& devices);
  // Whom it and its members trust, as of AgentTrusts.
  void Trusts(const AgentId& agent, const std::string& hash);
  // Its members are placed anew; should it come back, it begins afresh.
  void Forget(const std::string& host);

  std::vector<HostRoom> Rooms() const;  // with the coordinator's own slots, if it has any
  // By name, for people; without the coordinator's own slots, which nobody can see or drain.
  std::vector<HostStatus> Status(const std::set<std::string>& kept_off) const;
  // Status may tell something else than when this was called last.
  bool TakeChanged() { return std::exchange(changed_, false); }
  // Hosts of other machines than this are known, and none has a session. One that is expected, and
  // has not said where it is, counts as one of them.
  bool HearsNoOther(const std::string& node) const;
  // An agent is expected that has not said yet how many slots its host has.
  bool AwaitsAnother(const std::string& than) const;
  // Other hosts of which that agent spoke.
  std::vector<std::string> OthersOf(const AgentId& agent, Incarnation spoke) const;
  std::vector<AgentId> Agents() const;                 // that have a session
  Incarnation AgentOf(const std::string& host) const;  // zero: none was there yet
  bool Speaks(const AgentId& agent) const;
  // Hosts without a session for so long, or longer.
  std::vector<std::string> SilentFor(Duration patience, Time now) const;

 private:
  struct Host {
    Incarnation incarnation{};  // of the agent that speaks for it, or spoke last; zero: none yet
    std::string node;
    int32_t slots = 0;                  // of one that is expected: as many as are placed there
    std::vector<HostDevice> devices{};  // the same
    bool is_expected = false;
    bool up = false;
    bool ends = false;     // as its agent said
    std::string trusts{};  // the same; empty: it has not said yet in this session
    Time down_since{};
  };

  bool Drains(const std::string& name, const Host& host) const {
    return host.ends || drained_.contains(name);
  }

  const int32_t own_slots_;
  const Duration lease_;
  std::map<std::string, Host> hosts_;
  std::set<std::string> drained_;                // by name
  std::map<std::string, std::string> left_out_;  // for all jobs: why, by name
  bool changed_ = true;                          // since somebody looked
};

}  // namespace muster::coordinator
