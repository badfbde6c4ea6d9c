// The session to the coordinator: kept up for ever, with growing waits between attempts; steps go
// on without it. Exchange thread only.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "lib/domain/message.h"
#include "lib/member/runtime/backoff.h"
#include "lib/member/runtime/events.h"
#include "lib/transport/transport.h"

namespace muster {

class CoordinatorLink {
 public:
  CoordinatorLink(Transport& transport, std::string address, std::shared_ptr<EventBox> events,
                  std::shared_ptr<std::atomic<SessionId>> next_id, uint64_t seed);
  ~CoordinatorLink();

  void Connect(Time now);
  bool Owns(SessionId id) const { return session_ != nullptr && id == id_; }
  // Queued while the session is being set up, dropped while there is none.
  void Send(const ToCoordinator& message);
  // kInvalidArgument: not a message; the session is closed.
  absl::StatusOr<FromCoordinator> Take(const FrameCame& came, Time now);
  void Take(const SessionBroke& broke, Time now);
  // True when a new session was begun: the member introduces itself again.
  bool Tick(Time now);
  Time NextTick() const { return connect_at_.value_or(Time::max()); }
  // Since when no frame of a coordinator has come.
  Time silent_since() const { return silent_since_; }

 private:
  Transport& transport_;
  const std::string address_;
  const std::shared_ptr<EventBox> events_;
  const std::shared_ptr<std::atomic<SessionId>> next_id_;
  Backoff backoff_;
  std::shared_ptr<Session> session_;
  SessionId id_ = 0;
  bool down_told_ = false;  // the log knows that the coordinator is away
  std::optional<Time> connect_at_;
  Time silent_since_{};
};

}  // namespace muster
