#include "lib/transport/loop/loop_network.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/mutex.h"
#include "lib/base/status.h"

namespace muster {
namespace {

// True on a thread that delivers: there nobody may wait for a delivery.
thread_local bool delivering = false;

using HostPair = std::pair<std::string, std::string>;
HostPair Unordered(const std::string& a, const std::string& b) { return std::minmax(a, b); }

struct LoopAcceptor {
  const std::string address;
  const std::string host;
  const std::optional<PeerName> own;
  const Acceptor accept;
};

// One end of a session. `handler` is set before the first delivery, and then belongs to the thread
// that delivers. What else changes is an EndState.
struct LoopEnd {
  const uint64_t id;
  const std::string host;
  const void* const owner;  // the transport or acceptor that made it
  const std::optional<PeerName> own = std::nullopt;
  SessionHandler handler{};
};
using EndPtr = std::shared_ptr<LoopEnd>;

// What changes of an end. Lives until its last handler call has returned.
struct EndState {
  EndPtr end;
  std::string peer_host;  // an address until connected
  std::shared_ptr<InboundRoom> room;
  std::optional<PeerName> proven{};  // by its peer
  uint64_t peer = 0;                 // the end that it is connected to; 0: none, or none any more
  std::deque<Frame> parked;          // that came for it and wait for room
  size_t queued_bytes = 0;
  bool broken = false;  // its break is due or delivered
};

struct Event {
  enum class Kind { kConnect, kFrame, kRoom, kBreak };
  Kind kind;
  EndPtr end;  // the one that connects, sends, has room again or breaks
  Frame frame;
  absl::Status why;
};

// What the handshake makes of the two.
absl::Status Shake(const LoopEnd& connects, const LoopAcceptor& accepts) {
  if (connects.own.has_value() != accepts.own.has_value())
    return absl::UnavailableError(
        absl::StrCat("session with ", accepts.address, " broke: one end has no certificate"));
  if (!connects.own) return absl::OkStatus();
  if (connects.own->cluster != accepts.own->cluster)
    return absl::UnauthenticatedError(absl::StrCat(ToUri(*accepts.own), " is of another cluster"));
  const std::optional<ExpectedPeer>& expected = connects.handler.expected;
  return expected ? CheckExpected(*expected, *accepts.own) : absl::OkStatus();
}

}  // namespace

class LoopNetwork::State : public std::enable_shared_from_this<State> {
 public:
  explicit State(Delivery delivery) : delivery_(delivery) {}

  void Start() {
    if (delivery_ == Delivery::kThread) thread_ = std::thread([this] { Run(); });
  }
  void Stop();
  bool Pump();

  absl::StatusOr<std::shared_ptr<LoopAcceptor>> Listen(const std::string& host,
                                                       const std::optional<PeerName>& own,
                                                       const std::string& address, Acceptor accept);
  void StopListening(const std::shared_ptr<LoopAcceptor>& acceptor);
  EndPtr Connect(const void* owner, const std::string& host, const std::optional<PeerName>& own,
                 const std::string& address, SessionHandler handler);
  void Send(const EndPtr& end, Frame frame);
  void Admit(const EndPtr& end);
  void Close(const EndPtr& end, const absl::Status& why);
  // Close, then wait for (or make) the last handler call, unless on a delivering thread.
  void Retire(const EndPtr& end);
  void RetireAllOf(const void* owner);
  size_t QueuedBytes(const EndPtr& end) const;
  std::optional<PeerName> ProvenPeer(const EndPtr& end) const;
  void Break(const std::string& a, const std::string& b, bool cut);
  void Heal(const std::string& a, const std::string& b);
  const TransportCounters& counters() const { return counters_; }

 private:
  void Run();
  void PostLocked(Event event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Null: it has finished.
  EndState* FindLocked(const EndPtr& end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AllFinishedLocked(const std::vector<EndPtr>& ends) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void BreakLocked(EndState& state, absl::Status why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CloseLocked(EndState& state, const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  EndState& NewEndLocked(const void* owner, const std::string& host,
                         const std::optional<PeerName>& own, const std::string& peer_host)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Await(const std::vector<EndPtr>& ends);
  void DeliverBreaksOf(const std::vector<EndPtr>& ends);
  void Deliver(Event event);
  void DeliverConnect(const EndPtr& end);
  void DeliverFrame(const EndPtr& from, Frame frame);
  void DeliverParked(const EndPtr& to);
  void HandOver(const EndPtr& to, InboundRoom& room, Frame frame);
  void HasRoom(uint64_t end);
  void DeliverBreak(const EndPtr& end, const absl::Status& why);

  const Delivery delivery_;
  std::thread thread_;
  TransportCounters counters_;
  Mutex pump_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);  // kPumped: one delivery at a time

  mutable Mutex mutex_;
  CondVar due_;       // events_ or stopping_ changed
  CondVar returned_;  // a handler or acceptor call has returned
  std::deque<Event> events_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, EndState> ends_ ABSL_GUARDED_BY(mutex_);  // by id: those not finished
  std::map<std::string, std::shared_ptr<LoopAcceptor>> acceptors_ ABSL_GUARDED_BY(mutex_);
  // Whose `accept` is being called; one at most, since one thread delivers.
  const LoopAcceptor* accepting_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::set<HostPair> cuts_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

namespace {

class LoopSession final : public Session {
 public:
  LoopSession(std::shared_ptr<LoopNetwork::State> network, EndPtr end, std::string peer)
      : network_(std::move(network)), end_(std::move(end)), peer_(std::move(peer)) {}
  ~LoopSession() override { network_->Retire(end_); }
  void Send(Frame frame) override { network_->Send(end_, std::move(frame)); }
  void Admit() override { network_->Admit(end_); }
  void Close(absl::Status why) override { network_->Close(end_, why); }
  size_t QueuedBytes() const override { return network_->QueuedBytes(end_); }
  std::string Peer() const override { return peer_; }
  std::optional<PeerName> ProvenPeer() const override { return network_->ProvenPeer(end_); }

 private:
  const std::shared_ptr<LoopNetwork::State> network_;
  const EndPtr end_;
  const std::string peer_;
};

class LoopListener final : public Listener {
 public:
  LoopListener(std::shared_ptr<LoopNetwork::State> network, std::shared_ptr<LoopAcceptor> acceptor)
      : network_(std::move(network)), acceptor_(std::move(acceptor)) {}
  ~LoopListener() override { network_->StopListening(acceptor_); }
  std::string Address() const override { return acceptor_->address; }

 private:
  const std::shared_ptr<LoopNetwork::State> network_;
  const std::shared_ptr<LoopAcceptor> acceptor_;
};

class LoopTransport final : public Transport {
 public:
  LoopTransport(std::shared_ptr<LoopNetwork::State> network, std::string host,
                std::optional<PeerName> own)
      : network_(std::move(network)), host_(std::move(host)), own_(std::move(own)) {}
  ~LoopTransport() override { network_->RetireAllOf(this); }
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   Acceptor acceptor) override {
    MUSTER_ASSIGN_OR_RETURN(auto made, network_->Listen(host_, own_, address, std::move(acceptor)));
    return std::make_unique<LoopListener>(network_, std::move(made));
  }
  std::shared_ptr<Session> Connect(const std::string& address, Duration /*timeout*/,
                                   SessionHandler handler) override {
    EndPtr end = network_->Connect(this, host_, own_, address, std::move(handler));
    return std::make_shared<LoopSession>(network_, std::move(end), address);
  }

 private:
  const std::shared_ptr<LoopNetwork::State> network_;
  const std::string host_;
  const std::optional<PeerName> own_;
};

}  // namespace

LoopNetwork::LoopNetwork(Delivery delivery) : state_(std::make_shared<State>(delivery)) {
  state_->Start();
}
LoopNetwork::~LoopNetwork() { state_->Stop(); }
std::unique_ptr<Transport> LoopNetwork::MakeTransport(const std::string& name,
                                                      std::optional<PeerName> own) {
  return std::make_unique<LoopTransport>(state_, name, std::move(own));
}
bool LoopNetwork::Pump() { return state_->Pump(); }
void LoopNetwork::Break(const std::string& a, const std::string& b) { state_->Break(a, b, false); }
void LoopNetwork::Cut(const std::string& a, const std::string& b) { state_->Break(a, b, true); }
void LoopNetwork::Heal(const std::string& a, const std::string& b) { state_->Heal(a, b); }
const TransportCounters& LoopNetwork::counters() const { return state_->counters(); }

void LoopNetwork::State::Stop() {
  {
    MutexLock lock(mutex_);
    MUSTER_CHECK(ends_.empty() && acceptors_.empty(),
                 "a LoopNetwork is destroyed before what was made of it");
    stopping_ = true;
  }
  due_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void LoopNetwork::State::Run() {
  delivering = true;
  while (true) {
    MutexLock lock(mutex_);
    while (!stopping_ && events_.empty()) due_.Wait(mutex_);
    if (events_.empty()) return;
    Event event = std::move(events_.front());
    events_.pop_front();
    lock.Unlock();
    Deliver(std::move(event));
  }
}

bool LoopNetwork::State::Pump() {
  MUSTER_CHECK(delivery_ == Delivery::kPumped && !delivering, "Pump has no place here");
  MutexLock pumping(pump_mutex_);
  MutexLock lock(mutex_);
  if (events_.empty()) return false;
  Event event = std::move(events_.front());
  events_.pop_front();
  lock.Unlock();
  delivering = true;
  Deliver(std::move(event));
  delivering = false;
  return true;
}

absl::StatusOr<std::shared_ptr<LoopAcceptor>> LoopNetwork::State::Listen(
    const std::string& host, const std::optional<PeerName>& own, const std::string& address,
    Acceptor accept) {
  MutexLock lock(mutex_);
  std::string name = address;
  if (absl::EndsWith(name, ":0")) name = absl::StrCat(name.substr(0, name.size() - 1), next_id_++);
  if (acceptors_.contains(name)) {
    return absl::AlreadyExistsError(absl::StrCat("address ", name, " is in use by host ",
                                                 acceptors_[name]->host, "; choose another"));
  }
  auto acceptor = std::make_shared<LoopAcceptor>(LoopAcceptor{name, host, own, std::move(accept)});
  acceptors_[name] = acceptor;
  return acceptor;
}

void LoopNetwork::State::StopListening(const std::shared_ptr<LoopAcceptor>& acceptor) {
  {
    MutexLock lock(mutex_);
    acceptors_.erase(acceptor->address);
    while (!delivering && accepting_ == acceptor.get()) returned_.Wait(mutex_);
  }
  RetireAllOf(acceptor.get());
}

EndState& LoopNetwork::State::NewEndLocked(const void* owner, const std::string& host,
                                           const std::optional<PeerName>& own,
                                           const std::string& peer_host) {
  const uint64_t id = next_id_++;
  auto end = std::make_shared<LoopEnd>(LoopEnd{id, host, owner, own});
  auto room = std::make_shared<InboundRoom>([network = weak_from_this(), id] {
    if (const auto alive = network.lock()) alive->HasRoom(id);
  });
  return ends_.emplace(id, EndState{std::move(end), peer_host, std::move(room)}).first->second;
}

EndPtr LoopNetwork::State::Connect(const void* owner, const std::string& host,
                                   const std::optional<PeerName>& own, const std::string& address,
                                   SessionHandler handler) {
  MutexLock lock(mutex_);
  const EndState& made = NewEndLocked(owner, host, own, address);
  made.room->Limit(handler.inbound);
  const EndPtr end = made.end;
  end->handler = std::move(handler);
  PostLocked({Event::Kind::kConnect, end, {}, {}});
  return end;
}

void LoopNetwork::State::PostLocked(Event event) {
  events_.push_back(std::move(event));
  due_.NotifyOne();
}

EndState* LoopNetwork::State::FindLocked(const EndPtr& end) {
  const auto found = ends_.find(end->id);
  return found == ends_.end() ? nullptr : &found->second;
}

void LoopNetwork::State::Send(const EndPtr& end, Frame frame) {
  const absl::Status fits = CheckFrameLimits(frame.HeaderToSend().size(), frame.payload.size());
  frame.receipt.reset();
  MutexLock lock(mutex_);
  EndState* const state = FindLocked(end);
  if (state == nullptr || state->broken) return;
  if (!fits.ok()) return CloseLocked(*state, fits);
  state->queued_bytes += BytesOf(frame);
  if (const auto shared = std::exchange(frame.shared_header, nullptr)) frame.header = *shared;
  PostLocked({Event::Kind::kFrame, end, std::move(frame), {}});
}

void LoopNetwork::State::Admit(const EndPtr& end) {
  std::shared_ptr<InboundRoom> room;
  {
    MutexLock lock(mutex_);
    EndState* const state = FindLocked(end);
    if (state == nullptr) return;
    room = state->room;
  }
  room->Admit();
}

// The room of an end says, with no lock held, that frames may be handed over again.
void LoopNetwork::State::HasRoom(uint64_t end) {
  MutexLock lock(mutex_);
  const auto found = ends_.find(end);
  if (found != ends_.end()) PostLocked({Event::Kind::kRoom, found->second.end, {}, {}});
}

void LoopNetwork::State::BreakLocked(EndState& state, absl::Status why) {
  if (state.broken) return;
  state.broken = true;
  state.queued_bytes = 0;
  PostLocked({Event::Kind::kBreak, state.end, {}, std::move(why)});
}

void LoopNetwork::State::CloseLocked(EndState& state, const absl::Status& why) {
  BreakLocked(state, why);
  if (state.peer == 0) return;
  const std::string& by = state.end->host;
  BreakLocked(ends_.at(state.peer), absl::IsPermissionDenied(why)
                                        ? absl::PermissionDeniedError(
                                              absl::StrCat("refused by ", by, ": ", why.message()))
                                        : ClosedByPeerError(by, why.ToString()));
}

void LoopNetwork::State::Close(const EndPtr& end, const absl::Status& why) {
  MutexLock lock(mutex_);
  if (EndState* const state = FindLocked(end)) CloseLocked(*state, why);
}

void LoopNetwork::State::Retire(const EndPtr& end) {
  Close(end, absl::CancelledError("session destroyed"));
  Await({end});
}

void LoopNetwork::State::RetireAllOf(const void* owner) {
  std::vector<EndPtr> mine;
  {
    MutexLock lock(mutex_);
    for (auto& [id, state] : ends_) {
      if (state.end->owner != owner) continue;
      mine.push_back(state.end);
      CloseLocked(state, absl::CancelledError("transport or listener destroyed"));
    }
  }
  Await(mine);
}

void LoopNetwork::State::Await(const std::vector<EndPtr>& ends) {
  if (delivering) return;
  if (delivery_ == Delivery::kPumped) return DeliverBreaksOf(ends);
  MutexLock lock(mutex_);
  while (!AllFinishedLocked(ends)) returned_.Wait(mutex_);
}

bool LoopNetwork::State::AllFinishedLocked(const std::vector<EndPtr>& ends) const {
  for (const EndPtr& end : ends) {
    if (ends_.contains(end->id)) return false;
  }
  return true;
}

void LoopNetwork::State::DeliverBreaksOf(const std::vector<EndPtr>& ends) {
  MutexLock pumping(pump_mutex_);
  for (const EndPtr& end : ends) {
    MutexLock lock(mutex_);
    const auto event = std::find_if(events_.begin(), events_.end(), [&](const Event& e) {
      return e.end == end && e.kind == Event::Kind::kBreak;
    });
    if (event == events_.end()) continue;
    const absl::Status why = event->why;
    events_.erase(event);
    lock.Unlock();
    delivering = true;
    DeliverBreak(end, why);
    delivering = false;
  }
}

size_t LoopNetwork::State::QueuedBytes(const EndPtr& end) const {
  MutexLock lock(mutex_);
  const auto found = ends_.find(end->id);
  return found == ends_.end() ? 0 : found->second.queued_bytes;
}

std::optional<PeerName> LoopNetwork::State::ProvenPeer(const EndPtr& end) const {
  MutexLock lock(mutex_);
  const auto found = ends_.find(end->id);
  return found == ends_.end() ? std::nullopt : found->second.proven;
}

void LoopNetwork::State::Break(const std::string& a, const std::string& b, bool cut) {
  MutexLock lock(mutex_);
  if (cut) cuts_.insert(Unordered(a, b));
  for (auto& [id, state] : ends_) {
    if (state.peer == 0 || Unordered(state.end->host, state.peer_host) != Unordered(a, b)) continue;
    BreakLocked(state, absl::UnavailableError(absl::StrCat("connection to ", state.peer_host,
                                                           " was reset by the network")));
  }
}

void LoopNetwork::State::Heal(const std::string& a, const std::string& b) {
  MutexLock lock(mutex_);
  cuts_.erase(Unordered(a, b));
}

void LoopNetwork::State::Deliver(Event event) {
  switch (event.kind) {
    case Event::Kind::kConnect: return DeliverConnect(event.end);
    case Event::Kind::kFrame: return DeliverFrame(event.end, std::move(event.frame));
    case Event::Kind::kRoom: return DeliverParked(event.end);
    case Event::Kind::kBreak: return DeliverBreak(event.end, event.why);
  }
}

void LoopNetwork::State::DeliverConnect(const EndPtr& end) {
  MutexLock lock(mutex_);
  EndState* const state = FindLocked(end);
  if (state == nullptr || state->broken) return;
  const auto found = acceptors_.find(state->peer_host);
  if (found == acceptors_.end() || cuts_.contains(Unordered(end->host, found->second->host))) {
    return BreakLocked(*state, ConnectRefusedError(absl::StrCat(
                                   "connection to ", state->peer_host,
                                   " refused; is the process that should listen there running?")));
  }
  const std::shared_ptr<LoopAcceptor> acceptor = found->second;
  if (const absl::Status shake = Shake(*end, *acceptor); !shake.ok())
    return BreakLocked(*state, shake);
  EndState& made = NewEndLocked(acceptor.get(), acceptor->host, acceptor->own, end->host);
  const EndPtr accepted = made.end;
  const std::shared_ptr<InboundRoom> room = made.room;
  state->peer_host = acceptor->host;
  state->peer = accepted->id;
  made.peer = end->id;
  made.proven = end->own;
  state->proven = acceptor->own;
  accepting_ = acceptor.get();
  lock.Unlock();
  accepted->handler =
      acceptor->accept(std::make_shared<LoopSession>(shared_from_this(), accepted, end->host));
  room->Limit(accepted->handler.inbound);
  lock.Relock();
  accepting_ = nullptr;
  returned_.NotifyAll();
}

void LoopNetwork::State::DeliverFrame(const EndPtr& from, Frame frame) {
  EndPtr to;
  std::shared_ptr<InboundRoom> room;
  {
    MutexLock lock(mutex_);
    EndState* const sender = FindLocked(from);
    if (sender == nullptr || sender->broken || sender->peer == 0) return;
    EndState& receiver = ends_.at(sender->peer);
    if (receiver.broken) return;
    if (!receiver.parked.empty() || !receiver.room->MayReadOn())
      return receiver.parked.push_back(std::move(frame));
    to = receiver.end;
    room = receiver.room;
    sender->queued_bytes -= BytesOf(frame);
  }
  HandOver(to, *room, std::move(frame));
}

// One frame; then the room is asked again, so that others get their turn.
void LoopNetwork::State::DeliverParked(const EndPtr& to) {
  std::shared_ptr<InboundRoom> room;
  Frame frame;
  {
    MutexLock lock(mutex_);
    EndState* const receiver = FindLocked(to);
    if (receiver == nullptr || receiver->broken || receiver->parked.empty()) return;
    frame = std::move(receiver->parked.front());
    receiver->parked.pop_front();
    room = receiver->room;
    EndState* const sender = receiver->peer == 0 ? nullptr : &ends_.at(receiver->peer);
    if (sender != nullptr && !sender->broken) sender->queued_bytes -= BytesOf(frame);
  }
  HandOver(to, *room, std::move(frame));
  MutexLock lock(mutex_);
  EndState* const receiver = FindLocked(to);
  if (receiver == nullptr || receiver->parked.empty()) return;
  if (receiver->room->MayReadOn()) PostLocked({Event::Kind::kRoom, to, {}, {}});
}

void LoopNetwork::State::HandOver(const EndPtr& to, InboundRoom& room, Frame frame) {
  const size_t bytes = BytesOf(frame);
  if (const absl::Status fits = room.CheckFirst(bytes); !fits.ok()) {
    ++counters_.frames_refused;
    return Close(to, fits);
  }
  counters_.bytes_sent += bytes;
  counters_.bytes_received += bytes;
  frame.receipt = room.Hold(bytes);
  to->handler.on_frame(std::move(frame));
}

void LoopNetwork::State::DeliverBreak(const EndPtr& end, const absl::Status& why) {
  end->handler.on_broken(why);
  end->handler = {};
  MutexLock lock(mutex_);
  if (const uint64_t peer = ends_.at(end->id).peer; peer != 0) ends_.at(peer).peer = 0;
  ends_.erase(end->id);
  returned_.NotifyAll();
}

}  // namespace muster
