// The session to the coordinator: kept up for ever, with growing waits between attempts; steps go
// on without it. Exchange thread only.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "lib/base/address_list.h"
#include "lib/domain/message.h"
#include "lib/member/runtime/backoff.h"
#include "lib/member/runtime/events.h"
#include "lib/transport/transport.h"

namespace muster {

class CoordinatorLink {
 public:
  // `address`: one, or a list of those at which the coordinator may be; while none answers they are
  // tried in turn.
  CoordinatorLink(Transport& transport, std::string address, std::shared_ptr<EventBox> events,
                  std::shared_ptr<std::atomic<LinkId>> next_id, uint64_t seed);
  ~CoordinatorLink();

  void Connect(Time now);
  bool Owns(LinkId id) const { return session_ != nullptr && id == id_; }
  // Null while there is none.
  const std::shared_ptr<Session>& session() const { return session_; }
  // Queued while the session is being set up, dropped while there is none.
  void Send(const ToCoordinator& message);
  // kInvalidArgument: not a message; the session is closed.
  absl::StatusOr<FromCoordinator> Handle(const FrameCame& came);
  void Handle(const SessionBroke& broke, Time now);
  // True when a new session was begun: the member introduces itself again.
  bool Tick(Time now);
  Time NextTick() const { return connect_at_.value_or(Time::max()); }
  // How long there has been no session; zero while there is one, however silent it is.
  Duration Away(Time now) const { return IsOpen(now) ? Duration() : now - away_since_; }

 private:
  // A transport does not tell when it has connected. We take the session for open when a message
  // came, or when the time to connect has passed without an error.
  bool IsOpen(Time now) const;

  Transport& transport_;
  AddressRound addresses_;
  const std::shared_ptr<EventBox> events_;
  const std::shared_ptr<std::atomic<LinkId>> next_id_;
  Backoff backoff_;
  std::shared_ptr<Session> session_;
  LinkId id_ = 0;
  bool heard_ = false;      // a message came in this session
  Time began_{};            // of this session
  Time away_since_{};       // while none is open
  bool down_told_ = false;  // the log knows that the coordinator is away
  std::optional<Time> connect_at_;
};

}  // namespace muster
