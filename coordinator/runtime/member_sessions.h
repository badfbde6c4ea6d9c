// The sessions of members and host agents, and who speaks on each. A session's first frame says
// what it is: AskJob (a process that does not know its job yet; a Join follows), Join (a member),
// or AgentHello (a host agent); anything else breaks it. A member and the agent of a host have one
// live session: a newer one replaces the older.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "coordinator/runtime/known_job.h"
#include "coordinator/state/actions.h"
#include "lib/base/time.h"
#include "lib/log/limited_log.h"
#include "lib/transport/transport.h"

namespace muster::coordinator {

// More than this not yet taken by the network, and the session is broken: its peer reads too
// slowly.
inline constexpr size_t kMaxQueuedBytes = size_t{64} << 20;

// A session whose first frame does not come within this time is closed.
inline constexpr Duration kGreetingPatience = std::chrono::seconds(5);
// A process that was told its job may have much to prepare. If it lives it comes again.
inline constexpr Duration kJoinPatience = std::chrono::minutes(10);
// Whoever was told to leave closes its session when it has read that. Strangers who do not would
// keep the places of members.
inline constexpr Duration kLeavePatience = std::chrono::seconds(10);

using SessionId = int64_t;
using AtCoordinator = std::variant<ToCoordinator, FromAgent>;

struct SessionEvents {
  std::function<void(Input)> input;
  // Answered by Answer. `proven`: the process that asks; nothing: without certificates.
  std::function<void(SessionId, const AskJob&, const std::optional<ProcessName>& proven)> asked;
  // A word of that agent about what a member printed, which decides nothing; may be null.
  std::function<void(const AgentId&, const LogLines&)> printed = nullptr;
  // That agent wants a certificate for a process; may be null.
  std::function<void(const AgentId&, const SignMember&)> asked_to_sign = nullptr;
  // What stands against whoever proves with that key that it is that host; empty: nothing. May be
  // null.
  std::function<std::string(const std::string& host, const std::string& key_hash)> why_not_heard =
      nullptr;
};

// All methods on the driver's thread.
class MemberSessions {
 public:
  // `room`: where there are so many sessions, one that was turned away, or is of nobody yet, is
  // closed for each that is opened. `wall`: the clock by which certificates are compared.
  MemberSessions(SessionEvents events, size_t room, std::function<absl::Time()> wall = absl::Now)
      : events_(std::move(events)), room_(room), wall_(std::move(wall)) {}

  // `heard`: when the newest of its frames came, whether it was given to Said or not.
  void Opened(SessionId id, std::shared_ptr<Session> session, Time now,
              std::function<Time(Time now)> heard);
  // Those whose first frame, or whose Join after the answer to AskJob, did not come in time, and
  // those that were told to leave and are still there.
  void CloseSilent(Time now);
  std::map<MemberId, Time> WhenMembersWereHeard(Time now) const;
  void Said(SessionId id, const AtCoordinator& message, Time came);
  // Its greeting is not heard. With `leave` it is told that, and has some time to close its
  // session; else it is closed at once.
  void TurnAway(SessionId id, const absl::Status& why, const std::optional<Leave>& leave, Time now);
  void Broken(SessionId id);
  // As if all sessions had broken: members and agents reconnect, and members send again whatever
  // was not acknowledged.
  void CloseAll(const absl::Status& why);

  // A message to a member without a session is dropped; the member is told again when it is back.
  void Tell(const MemberId& member, const FromCoordinator& message, Time now);
  void TellAll(const std::vector<MemberId>& members, const FromCoordinator& message, Time now);
  void Tell(const AgentId& agent, const ToAgent& message);
  std::vector<AgentId> Agents() const;
  void End(const MemberId& member, const std::string& why);
  void End(const AgentId& agent, const std::string& why);
  // An answer without the numeric environment is given again by TellEnvironment, once it is known.
  void Answer(SessionId id, const FromCoordinator& message, Time now);
  bool WaitsForEnvironment(const std::string& job) const;
  // The processes that were told their job and have not joined yet, by job. Their names are what
  // they say.
  std::map<std::string, PreparingProcesses> Preparing() const;
  void TellEnvironment(const JobIs& job);

  size_t members() const { return by_member_.size(); }

 private:
  struct Asker {
    std::string job, name;
    bool unanswered = true;
    bool prepares = false;              // it was told its job
    std::string waits_for_environment;  // the job; empty: no
    std::optional<HowFar> how_far;      // as it said last
  };
  struct Peer {
    std::shared_ptr<Session> session;
    std::function<Time(Time now)> heard;
    std::optional<PeerName> proven;  // nothing: without certificates
    std::string key;                 // that proves it
    Time since;                      // when it was opened, or told to leave first
    bool leaves = false;
    std::variant<std::monostate, Asker, MemberId, AgentId> who;
  };
  struct Patience {
    Duration time;
    const char* what;  // is closed after that
    int turn;          // to be closed where there is no room; the oldest of the lowest goes first
  };

  void From(SessionId id, const ToCoordinator& message, Time came);
  void From(SessionId id, const FromAgent& message, Time came);
  static void Note(Peer& peer, const AskJob& ask);
  absl::Status CheckHello(const Peer& peer, const AgentHello& hello) const;
  void Bind(SessionId id, Peer& peer, const Join& join);
  void MakeRoom();
  void Close(SessionId id, const absl::Status& why);
  void Replace(SessionId older);
  void Refuse(SessionId id, const std::string& why);
  void Refuse(SessionId id, const absl::Status& why);
  static std::optional<Patience> PatienceWith(const Peer& peer);
  static std::optional<ProcessName> ProcessOf(const Peer& peer);
  static void NoteLeave(Peer& peer, const FromCoordinator& message, Time now);
  static void Send(Session& session, Frame frame);

  const SessionEvents events_;
  const size_t room_;
  const std::function<absl::Time()> wall_;
  LimitedLog closed_;   // of silent ones, and for want of room
  LimitedLog refused_;  // of others
  std::map<SessionId, Peer> peers_;
  std::map<MemberId, SessionId> by_member_;
  std::map<AgentId, SessionId> by_agent_;
};

}  // namespace muster::coordinator
