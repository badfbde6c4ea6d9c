#include "coordinator/runtime/member_sessions.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/identity/clocks.h"
#include "lib/identity/may_say.h"
#include "lib/wire/message_codec.h"

namespace muster::coordinator {

void MemberSessions::Opened(SessionId id, std::shared_ptr<Session> session, Time now,
                            std::function<Time(Time now)> heard) {
  MakeRoom();
  std::optional<PeerName> proven = session->ProvenPeer();
  std::string key = session->ProvenKey();
  peers_[id] = {std::move(session),
                std::move(heard),
                std::move(proven),
                std::move(key),
                now,
                /*leaves=*/false,
                {}};
}

std::map<MemberId, Time> MemberSessions::WhenMembersWereHeard(Time now) const {
  std::map<MemberId, Time> heard;
  for (const auto& [member, id] : by_member_) heard[member] = peers_.at(id).heard(now);
  return heard;
}

// Nothing: it may be silent, as far as its session goes.
std::optional<MemberSessions::Patience> MemberSessions::PatienceWith(const Peer& peer) {
  if (peer.leaves) return Patience{kLeavePatience, "it was told to leave and did not in time", 0};
  if (std::holds_alternative<std::monostate>(peer.who))
    return Patience{kGreetingPatience, "the first frame did not come in time", 1};
  if (std::holds_alternative<Asker>(peer.who))
    return Patience{kJoinPatience, "it asked for its job and did not join in time", 2};
  return std::nullopt;
}

// Whoever opens sessions without end then takes the places of his own. One that is closed and means
// well comes again.
void MemberSessions::MakeRoom() {
  if (peers_.size() < room_) return;
  std::optional<std::pair<int, SessionId>> first;
  for (const auto& [id, peer] : peers_) {
    const std::optional<Patience> patience = PatienceWith(peer);
    if (patience && (!first || patience->turn < first->first)) first = {patience->turn, id};
    if (first && first->first == 0) break;
  }
  if (first)
    Close(first->second,
          absl::ResourceExhaustedError(absl::StrCat(
              "there are ", peers_.size(), " sessions, and others need the place; come again")));
}

void MemberSessions::Close(SessionId id, const absl::Status& why) {
  Session& session = *peers_.at(id).session;
  closed_.Warn("session of %s is closed: %s", session.Peer(), why.message());
  session.Close(why);
  Broken(id);
}

void MemberSessions::CloseSilent(Time now) {
  std::vector<std::pair<SessionId, const char*>> silent;
  for (const auto& [id, peer] : peers_) {
    const std::optional<Patience> patience = PatienceWith(peer);
    if (patience && now - peer.since >= patience->time) silent.emplace_back(id, patience->what);
  }
  for (const auto& [id, what] : silent) Close(id, absl::DeadlineExceededError(what));
}

void MemberSessions::Said(SessionId id, const AtCoordinator& message, Time came) {
  const auto peer = peers_.find(id);
  if (peer == peers_.end()) return;  // broken by us meanwhile
  const auto may_say = [&](const auto& from) {
    return peer->second.proven ? MaySay(*peer->second.proven, from) : absl::OkStatus();
  };
  if (const absl::Status may = std::visit(may_say, message); !may.ok()) return Refuse(id, may);
  std::visit([&](const auto& from) { From(id, from, came); }, message);
}

void MemberSessions::TurnAway(SessionId id, const absl::Status& why,
                              const std::optional<Leave>& leave, Time now) {
  const auto it = peers_.find(id);
  if (it == peers_.end()) return;  // broken by us meanwhile
  if (!leave) return Refuse(id, why);
  refused_.Warn("%s is turned away: %s", it->second.session->Peer(), why.message());
  Answer(id, *leave, now);
}

void MemberSessions::Broken(SessionId id) {
  const auto it = peers_.find(id);
  if (it == peers_.end()) return;
  const auto who = std::move(it->second.who);
  peers_.erase(it);
  if (const MemberId* member = std::get_if<MemberId>(&who)) {
    by_member_.erase(*member);
    events_.input(MemberDown{*member});
  } else if (const AgentId* agent = std::get_if<AgentId>(&who)) {
    by_agent_.erase(*agent);
    events_.input(AgentDown{*agent});
  }
}

void MemberSessions::CloseAll(const absl::Status& why) {
  std::vector<SessionId> open;
  for (const auto& [id, peer] : peers_) open.push_back(id);
  for (const SessionId id : open) {
    peers_.at(id).session->Close(why);
    Broken(id);
  }
}

// Nothing: it has not proven that it is a process of a member.
std::optional<ProcessName> MemberSessions::ProcessOf(const Peer& peer) {
  const auto* process = peer.proven ? std::get_if<MemberPeer>(&peer.proven->who) : nullptr;
  if (process == nullptr) return std::nullopt;
  return ProcessName{process->job, process->name, process->placement, process->incarnation};
}

void MemberSessions::From(SessionId id, const ToCoordinator& message, Time came) {
  Peer& peer = peers_.at(id);
  if (std::holds_alternative<AgentId>(peer.who))
    return Refuse(id, "a host agent spoke as a member");
  if (const AskJob* ask = std::get_if<AskJob>(&message)) {
    if (std::holds_alternative<MemberId>(peer.who))
      return Refuse(id, "a member asked for its job after it had joined");
    if (const Asker* asker = std::get_if<Asker>(&peer.who); asker != nullptr && asker->unanswered)
      return Refuse(id, "a process asked for its job again before it was answered");
    Note(peer, *ask);
    return events_.asked(id, *ask, ProcessOf(peer));
  }
  if (const Join* join = std::get_if<Join>(&message)) {
    Bind(id, peer, *join);
    if (peers_.count(id) == 0) return;
  }
  const MemberId* member = std::get_if<MemberId>(&peer.who);
  if (member == nullptr)
    return Refuse(id, "the first frame is neither AskJob nor Join nor AgentHello");
  events_.input(MemberSays{*member, message, came, peer.proven.has_value()});
}

// One that asks again to say how far it is stays what it was meanwhile.
void MemberSessions::Note(Peer& peer, const AskJob& ask) {
  Asker* asker = std::get_if<Asker>(&peer.who);
  if (asker == nullptr || asker->job != ask.job || asker->name != ask.name)
    asker = &peer.who.emplace<Asker>(Asker{.job = ask.job, .name = ask.name});
  asker->unanswered = true;
  asker->how_far = ask.preparing;
}

void MemberSessions::Bind(SessionId id, Peer& peer, const Join& join) {
  if (const MemberId* bound = std::get_if<MemberId>(&peer.who);
      bound != nullptr && *bound != join.id)
    return Refuse(id, absl::StrCat("the session of ", bound->name, " joined as ", join.id.name));
  const auto [it, fresh] = by_member_.try_emplace(join.id, id);
  if (!fresh && it->second != id) {
    Replace(it->second);
    it->second = id;
  }
  peer.who = join.id;
  peer.session->Admit();
}

// Nobody is told that it is gone: the newer one speaks for it.
void MemberSessions::Replace(SessionId older) {
  const auto it = peers_.find(older);
  it->second.session->Close(
      absl::CancelledError("replaced by a newer session of the same member or host agent"));
  peers_.erase(it);
}

// Before it takes the place of another session of that agent.
absl::Status MemberSessions::CheckHello(const Peer& peer, const AgentHello& hello) const {
  if (!peer.proven) return absl::OkStatus();
  const std::string& host = hello.agent.host;
  if (events_.why_not_heard)
    if (const std::string why = events_.why_not_heard(host, peer.key); !why.empty())
      return absl::PermissionDeniedError(why);
  return CheckClocks(wall_(), absl::FromUnixMillis(hello.now_unix_ms), absl::StrCat("host ", host));
}

void MemberSessions::From(SessionId id, const FromAgent& message, Time) {
  Peer& peer = peers_.at(id);
  const AgentHello* hello = std::get_if<AgentHello>(&message);
  if (hello != nullptr && std::holds_alternative<std::monostate>(peer.who)) {
    if (const absl::Status may = CheckHello(peer, *hello); !may.ok()) return Refuse(id, may);
    peer.who = hello->agent;
    peer.session->Admit();
    const auto [it, fresh] = by_agent_.try_emplace(hello->agent, id);
    if (!fresh) Replace(std::exchange(it->second, id));
    return events_.input(AgentUp{*hello});
  }
  const AgentId* agent = std::get_if<AgentId>(&peer.who);
  if (agent == nullptr) return Refuse(id, "the first frame of a host agent is not AgentHello");
  if (hello != nullptr && hello->agent != *agent)
    return Refuse(id, absl::StrCat("the session of the host agent of ", agent->host,
                                   " spoke as that of ", hello->agent.host));
  if (const ProcessExited* exited = std::get_if<ProcessExited>(&message))
    return events_.input(AgentSays{*exited, peer.proven ? agent->host : ""});
  if (std::holds_alternative<AgentEnds>(message)) return events_.input(HostEnds{*agent});
  if (const DevicesHeld* held = std::get_if<DevicesHeld>(&message))
    return events_.input(DevicesTold{*agent, held->devices});
  if (const AgentTrusts* trusts = std::get_if<AgentTrusts>(&message))
    return events_.input(TrustTold{*agent, trusts->hash});
  const SignMember* ask = std::get_if<SignMember>(&message);
  if (ask != nullptr && events_.asked_to_sign) events_.asked_to_sign(*agent, *ask);
  const LogLines* lines = std::get_if<LogLines>(&message);
  if (lines != nullptr && events_.printed) events_.printed(*agent, *lines);
}

void MemberSessions::Refuse(SessionId id, const std::string& why) {
  Refuse(id, absl::InvalidArgumentError(why));
}

void MemberSessions::Refuse(SessionId id, const absl::Status& why) {
  const auto it = peers_.find(id);
  refused_.Warn("session of %s is broken: %s", it->second.session->Peer(), why.message());
  it->second.session->Close(why);
  Broken(id);
}

void MemberSessions::Send(Session& session, Frame frame) {
  session.Send(std::move(frame));
  if (session.QueuedBytes() > kMaxQueuedBytes)
    session.Close(
        absl::ResourceExhaustedError(absl::StrCat(session.Peer(), " reads too slowly: more than ",
                                                  kMaxQueuedBytes >> 20, " MiB wait for it")));
}

// Being told again prolongs nothing.
void MemberSessions::NoteLeave(Peer& peer, const FromCoordinator& message, Time now) {
  if (!std::holds_alternative<Leave>(message) || std::exchange(peer.leaves, true)) return;
  peer.since = now;
}

void MemberSessions::Tell(const MemberId& member, const FromCoordinator& message, Time now) {
  const auto it = by_member_.find(member);
  if (it == by_member_.end()) return;
  Peer& peer = peers_.at(it->second);
  NoteLeave(peer, message, now);
  Send(*peer.session, {Encode(message), {}});
}

void MemberSessions::TellAll(const std::vector<MemberId>& members, const FromCoordinator& message,
                             Time now) {
  const auto header = std::make_shared<const std::string>(Encode(message));
  for (const MemberId& member : members) {
    const auto it = by_member_.find(member);
    if (it == by_member_.end()) continue;
    Peer& peer = peers_.at(it->second);
    NoteLeave(peer, message, now);
    Send(*peer.session, FrameOfMany(header));
  }
}

void MemberSessions::Tell(const AgentId& agent, const ToAgent& message) {
  const auto it = by_agent_.find(agent);
  if (it != by_agent_.end()) Send(*peers_.at(it->second).session, {Encode(message), {}});
}

std::vector<AgentId> MemberSessions::Agents() const {
  std::vector<AgentId> agents;
  for (const auto& [agent, id] : by_agent_) agents.push_back(agent);
  return agents;
}

void MemberSessions::End(const MemberId& member, const std::string& why) {
  const auto it = by_member_.find(member);
  if (it != by_member_.end()) Refuse(it->second, why);
}

void MemberSessions::End(const AgentId& agent, const std::string& why) {
  const auto it = by_agent_.find(agent);
  if (it != by_agent_.end()) Refuse(it->second, why);
}

void MemberSessions::Answer(SessionId id, const FromCoordinator& message, Time now) {
  const auto it = peers_.find(id);
  if (it == peers_.end()) return;
  NoteLeave(it->second, message, now);
  const JobIs* job = std::get_if<JobIs>(&message);
  Asker* asker = std::get_if<Asker>(&it->second.who);
  if (asker != nullptr) asker->unanswered = false;
  if (job != nullptr && asker != nullptr) {
    asker->prepares = true;
    asker->waits_for_environment = job->environment ? "" : job->job;
  }
  Send(*it->second.session, {Encode(message), {}});
}

std::map<std::string, PreparingProcesses> MemberSessions::Preparing() const {
  std::map<std::string, PreparingProcesses> preparing;
  for (const auto& [id, peer] : peers_) {
    const Asker* asker = std::get_if<Asker>(&peer.who);
    if (asker != nullptr && asker->prepares) preparing[asker->job][asker->name] = asker->how_far;
  }
  return preparing;
}

bool MemberSessions::WaitsForEnvironment(const std::string& job) const {
  for (const auto& [id, peer] : peers_) {
    const Asker* asker = std::get_if<Asker>(&peer.who);
    if (asker != nullptr && asker->waits_for_environment == job) return true;
  }
  return false;
}

void MemberSessions::TellEnvironment(const JobIs& job) {
  const auto header = std::make_shared<const std::string>(Encode(FromCoordinator(job)));
  for (auto& [id, peer] : peers_) {
    Asker* asker = std::get_if<Asker>(&peer.who);
    if (asker == nullptr || asker->waits_for_environment != job.job) continue;
    asker->waits_for_environment.clear();
    Send(*peer.session, FrameOfMany(header));
  }
}

}  // namespace muster::coordinator
