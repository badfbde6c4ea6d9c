// The agent's session with the coordinator: made again whenever it breaks, for as long as this
// lives. On the loop's thread; transport threads only post.
//
// A session counts as up once the coordinator's first word arrives: it answers AgentHello with
// Wanted. What is sent before is dropped, because the supervisor tells what matters again
// (SessionUp).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "agent/runtime/event_loop.h"
#include "lib/base/address_list.h"
#include "lib/domain/message.h"
#include "lib/transport/transport.h"

namespace muster::agent {

struct LinkEvents {
  std::function<void()> on_up;
  std::function<void(const Wanted&)> on_wanted;        // after on_up
  std::function<void(const absl::Status&)> on_down;    // an up session broke
  std::function<void(const absl::Status&)> on_failed;  // a try to get one; may be null
};

class CoordinatorLink {
 public:
  // `address`: one, or a list of those at which the coordinator may be; while none answers they are
  // tried in turn. `hello`: what we say first in each session.
  CoordinatorLink(EventLoop& loop, Transport& transport, std::string address, AgentHello hello,
                  LinkEvents events);
  ~CoordinatorLink();
  CoordinatorLink(const CoordinatorLink&) = delete;
  CoordinatorLink& operator=(const CoordinatorLink&) = delete;

  void Start();
  // The coordinator listens there from now on.
  void GoTo(const std::string& address);
  // Does nothing while no session is up: the supervisor tells it again when one is.
  void SendExit(const ProcessExited& exited);
  void SendEnds();  // likewise
  // Likewise, and nobody tells it again.
  void SendLog(const LogLines& lines);
  // What the network has not taken yet.
  size_t QueuedBytes() const { return up_ ? session_->QueuedBytes() : 0; }
  bool up() const { return up_; }

 private:
  void Connect();
  void OnFrame(int64_t session_number, const Frame& frame);
  void OnBroken(int64_t session_number, const absl::Status& why);
  std::string WhyNotObeyed(const Wanted& wanted) const;

  EventLoop& loop_;
  Transport& transport_;
  AddressRound addresses_;
  const AgentHello hello_;
  const LinkEvents events_;
  // Calls that transport threads posted do nothing once this is gone.
  std::shared_ptr<CoordinatorLink*> self_;
  std::shared_ptr<Session> session_;
  int64_t session_number_ = 0;  // what older sessions still post is stale
  bool up_ = false;
  std::string cluster_;  // of the first coordinator that answered
  TermNumber term_;      // the highest that was heard
  Duration pause_{};
  std::optional<EventLoop::TimerId> timer_;
};

}  // namespace muster::agent
