#include "tests/sim/network.h"

#include <algorithm>

namespace muster::sim {

void Network::Remove(NodeId node) {
  runners_.erase(node);
  for (const auto& [id, ends] : OpenSessions())
    if (ends.from == node || ends.to == node) End(id, /*local=*/false);
}

std::map<SimSessionId, Network::Ends> Network::OpenSessions() const {
  std::map<SimSessionId, Ends> open;
  for (const auto& [id, session] : sessions_)
    if (!session.broken) open[id] = {session.out.from, session.out.to};
  return open;
}

SimSessionId Network::Between(NodeId a, NodeId b) const {
  for (const auto& [id, ends] : OpenSessions())
    if ((ends.from == a && ends.to == b) || (ends.from == b && ends.to == a)) return id;
  return 0;
}

// The end that is called is up first; its greeting makes the other one up.
SimSessionId Network::Open(NodeId from, NodeId to, SimSessionEvents at_from,
                           SimSessionEvents at_to) {
  if (!Has(from) || !Has(to)) return 0;
  const SimSessionId id = next_++;
  Session& session = sessions_[id];
  session.out.from = session.back.to = from;
  session.out.to = session.back.from = to;
  session.at_from = std::move(at_from);
  session.at_to = std::move(at_to);
  session.out.room = RoomOf(id, /*out=*/true);
  session.back.room = RoomOf(id, /*out=*/false);
  Push(id, /*out=*/true, schedule_.Random(0, 5),
       {[this, id](const Receipt&) {
          const SimSessionEvents events = sessions_[id].at_to;
          if (!events.answers || events.answers(id)) Greet(id);
        },
        nullptr, false, /*both_ways=*/true});
  return id;
}

void Network::Greet(SimSessionId id) {
  const SimSessionEvents events = sessions_[id].at_to;
  if (!sessions_[id].broken)
    Push(id, /*out=*/false, schedule_.Random(0, 5),
         {[this, id](const Receipt&) { sessions_[id].at_from.up(id); }, nullptr, false});
  events.up(id);
}

// A scenario's members hold as much as real ones do. Elsewhere they hold one frame, so that whoever
// waits for what is behind it is found.
std::shared_ptr<InboundRoom> Network::RoomOf(SimSessionId id, bool out) {
  auto room = std::make_shared<InboundRoom>([this, id, out] { ReadOn(id, out); });
  InboundLimits limits;
  if (!schedule_.smooth()) limits.held = 1;
  room->Limit(limits);
  room->Admit();
  return room;
}

void Network::SendWeighed(SimSessionId id, NodeId from, std::function<void(Receipt)> deliver) {
  SendFrame(id, from, {std::move(deliver), nullptr, false});
}

void Network::Send(SimSessionId id, NodeId from, std::function<void()> deliver,
                   std::function<void()> lost) {
  SendFrame(
      id, from,
      {[deliver = std::move(deliver)](const Receipt&) { deliver(); }, std::move(lost), false});
}

void Network::SendFrame(SimSessionId id, NodeId from, Frame frame) {
  const auto it = sessions_.find(id);
  if (it == sessions_.end() || it->second.broken) return;
  const bool out = it->second.out.from == from;
  // A frame that is held up holds up all that comes behind it.
  const int64_t late = schedule_.OneIn(200) ? schedule_.Random(30, 400) : 0;
  Push(id, out, schedule_.Random(0, 12) + late, std::move(frame));
}

void Network::Push(SimSessionId id, bool out, int64_t delay, Frame frame) {
  Session& session = sessions_[id];
  Direction& direction = out ? session.out : session.back;
  direction.last = std::max(direction.last, schedule_.now() + delay);
  direction.under_way.push_back(std::move(frame));
  const auto to = runners_.find(direction.to);
  if (to == runners_.end()) return;
  to->second->Later(direction.last - schedule_.now(), [this, id, out] { Arrive(id, out); });
}

void Network::Arrive(SimSessionId id, bool out) {
  Session& session = sessions_[id];
  Direction& direction = out ? session.out : session.back;
  if (direction.under_way.empty()) return;
  int64_t until = CutUntil(direction.from, direction.to);
  if (direction.under_way.front().both_ways)
    until = std::max(until, CutUntil(direction.to, direction.from));
  if (until > schedule_.now() && !direction.under_way.front().local) {
    NoteStoppedFrame(direction.from, direction.to);
    const auto to = runners_.find(direction.to);
    if (to != runners_.end())
      to->second->Later(until - schedule_.now(), [this, id, out] { Arrive(id, out); });
    return;
  }
  if (!direction.room->MayReadOn()) {
    ++direction.unread;
    return coverage_.Add(Corner::kStoodStill);
  }
  const Frame frame = std::move(direction.under_way.front());
  direction.under_way.pop_front();
  frame.deliver(direction.room->Hold(0));
}

// Each frame that was not read arrives once more.
void Network::ReadOn(SimSessionId id, bool out) {
  Session& session = sessions_[id];
  Direction& direction = out ? session.out : session.back;
  const auto to = runners_.find(direction.to);
  if (to == runners_.end()) return;
  for (int64_t n = std::exchange(direction.unread, 0); n > 0; --n)
    to->second->Later(0, [this, id, out] { Arrive(id, out); });
}

// Some of what is under way still arrives, the rest is lost; nothing gets through a cut any more.
void Network::LoseTail(Direction& direction) {
  const auto size = static_cast<int64_t>(direction.under_way.size());
  const bool cut = CutUntil(direction.from, direction.to) > schedule_.now();
  const int64_t arrive = cut ? 0 : schedule_.Random(0, size);
  if (arrive < size) coverage_.Add(Corner::kTornDeliveries);
  if (cut && size > 0) NoteStoppedFrame(direction.from, direction.to);
  while (static_cast<int64_t>(direction.under_way.size()) > arrive) {
    if (direction.under_way.back().lost) direction.under_way.back().lost();
    direction.under_way.pop_back();
  }
}

void Network::Break(SimSessionId id) { End(id, /*local=*/true); }

void Network::Close(SimSessionId id, NodeId by) {
  const auto it = sessions_.find(id);
  if (it == sessions_.end()) return;
  Session& session = it->second;
  (session.out.to == by ? session.out : session.back).room->Close();
  Break(id);
}

void Network::End(SimSessionId id, bool local) {
  const auto it = sessions_.find(id);
  if (it == sessions_.end() || it->second.broken) return;
  Session& session = it->second;
  session.broken = true;
  LoseTail(session.out);
  LoseTail(session.back);
  Push(id, true, 1, {[this, id](const Receipt&) { sessions_[id].at_to.down(id); }, nullptr, local});
  Push(id, false, 1,
       {[this, id](const Receipt&) { sessions_[id].at_from.down(id); }, nullptr, local});
}

void Network::Cut(NodeId from, NodeId to, int64_t ms, std::function<void()> stops_a_frame) {
  std::vector<CutWay>& cuts = cuts_[{from, to}];
  std::erase_if(cuts, [this](const CutWay& cut) { return cut.until <= schedule_.now(); });
  cuts.push_back({schedule_.now() + ms, std::move(stops_a_frame)});
  if (from >= kFirstMemberNode && to >= kFirstMemberNode)
    schedule_.At(schedule_.Random(2000, 3000), [this, from, to] { BreakSilent(from, to); });
}

void Network::BreakSilent(NodeId from, NodeId to) {
  if (CutUntil(from, to) <= schedule_.now()) return;
  for (const auto& [id, ends] : OpenSessions())
    if ((ends.from == from && ends.to == to) || (ends.from == to && ends.to == from)) Break(id);
}

bool Network::WasCutFromMembers(NodeId node, int64_t since) const {
  for (const auto& [way, cuts] : cuts_) {
    const bool concerns = (way.first == node && way.second >= kFirstMemberNode) ||
                          (way.second == node && way.first >= kFirstMemberNode);
    if (concerns && CutUntil(way.first, way.second) > since) return true;
  }
  return false;
}

int64_t Network::CutUntil(NodeId from, NodeId to) const {
  int64_t until = 0;
  if (const auto it = cuts_.find({from, to}); it != cuts_.end())
    for (const CutWay& cut : it->second) until = std::max(until, cut.until);
  return until;
}

void Network::NoteStoppedFrame(NodeId from, NodeId to) {
  for (const CutWay& cut : cuts_[{from, to}])
    if (cut.until > schedule_.now() && cut.stops_a_frame) cut.stops_a_frame();
}

}  // namespace muster::sim
