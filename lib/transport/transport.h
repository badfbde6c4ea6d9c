// Sessions between two ends: frames arrive in order and once, or the session breaks. One interface, two makers:
// transport/loop (in memory, with faults) and transport/grpc. Nothing here knows what a frame means.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/clock.h"
#include "lib/base/credentials.h"
#include "lib/transport/payload.h"

namespace muster {

// Limits of a frame; a larger one from outside breaks the session with kResourceExhausted.
inline constexpr size_t kMaxHeaderBytes = size_t{1} << 20;
inline constexpr size_t kMaxPayloadBytes = size_t{4} << 20;

struct Frame {
  std::string header;  // a small serialized message; the receiver parses it and trusts nothing
  Payload payload;     // may be empty
};

// Called on transport threads, one call at a time per session. OnBroken is the last call, exactly once, also after
// Close and at shutdown. A handler returns quickly: it posts to a mailbox. It may call Send and Close.
struct SessionHandler {
  std::function<void(Frame)> on_frame;
  std::function<void(absl::Status)> on_broken;
};

// All methods thread-safe; none blocks.
class Session {
 public:
  virtual ~Session() = default;        // closes; returns after the last handler call has returned, unless inside one
  virtual void Send(Frame frame) = 0;  // queued in order; dropped once broken
  virtual void Close(absl::Status why) = 0;  // queued frames may be lost
  virtual size_t QueuedBytes() const = 0;    // payload and header bytes not yet given to the network
  virtual std::string Peer() const = 0;      // for messages to people
};

// What the accepting side makes of a new session, before its first frame.
// `handler` of the accepted session is returned; the acceptor keeps the session alive.
using Acceptor = std::function<SessionHandler(std::shared_ptr<Session>)>;

class Listener {
 public:
  virtual ~Listener() = default;  // stops accepting and breaks the sessions it accepted
  virtual std::string Address() const = 0;  // host:port in effect (port 0 was asked for: the port that was given)
};

class Transport {
 public:
  virtual ~Transport() = default;
  // kFailedPrecondition: address refused without certificates; kAlreadyExists: port in use.
  virtual absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                           Acceptor acceptor) = 0;
  // Returns at once. Until connected, frames queue; failure to connect within `timeout` is a broken session.
  virtual std::shared_ptr<Session> Connect(const std::string& address, Duration timeout,
                                           SessionHandler handler) = 0;
};

}  // namespace muster
