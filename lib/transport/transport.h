// Sessions between two ends: frames arrive in order and once, or the session breaks. One interface,
// two makers: transport/loop (in memory, with faults) and transport/grpc. Nothing here knows what a
// frame means.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lib/base/credentials.h"
#include "lib/base/frame_limits.h"
#include "lib/base/time.h"
#include "lib/identity/peer_name.h"
#include "lib/transport/inbound.h"
#include "lib/transport/payload.h"

namespace muster {

struct Frame {
  std::string header;  // a small serialized message; the receiver parses it and trusts nothing
  Payload payload;     // may be empty
  // In place of `header`, when many sessions send the same: none of them copies it. Whoever
  // receives a frame finds its header in `header`.
  std::shared_ptr<const std::string> shared_header = nullptr;
  // Of a frame that came: kept until the receiver is done with it. A frame that is sent on has none
  // any more.
  Receipt receipt = nullptr;

  const std::string& HeaderToSend() const { return shared_header ? *shared_header : header; }
};
inline Frame FrameOfMany(std::shared_ptr<const std::string> header) {
  return {.header = {}, .payload = {}, .shared_header = std::move(header)};
}

inline size_t BytesOf(const Frame& frame) {
  return frame.HeaderToSend().size() + frame.payload.size();
}

// OK or kResourceExhausted with the sizes.
inline absl::Status CheckFrameLimits(size_t header_bytes, size_t payload_bytes) {
  if (header_bytes <= kMaxHeaderBytes && payload_bytes <= kMaxPayloadBytes) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("frame with a header of ", header_bytes, " and a payload of ", payload_bytes,
                   " bytes; at most ", kMaxHeaderBytes, " and ", kMaxPayloadBytes, " are allowed"));
}

// Both are given. Called on transport threads, one call at a time per session, maybe before Connect
// has returned. on_broken is the last call, exactly once, also after Close and at shutdown. A
// handler returns quickly: it posts to a mailbox. It may call Send and Close and may destroy any
// session; it must not destroy a Listener or a Transport.
//
// Codes that on_broken gets: what Close was given at this end · kUnavailable: the peer closed, died
// or could not be reached (see IsConnectRefused) · kDeadlineExceeded: not connected within the
// timeout · kFailedPrecondition: address refused without certificates · kInvalidArgument: the peer
// sent what is no frame, or the address is no address · kResourceExhausted: a frame above the
// limits · kUnimplemented: the peer does not speak this protocol · kUnauthenticated: its
// certificate makes it nobody, or ours made us nobody to it · kPermissionDenied: it is not whom we
// expected · kCancelled: destroyed.
//
// A session that its receiver holds too much of (`inbound`) stands still, and with it the peer's
// sending: nothing is lost. A break that only reading shows is then told when it reads on.
struct SessionHandler {
  std::function<void(Frame)> on_frame;
  std::function<void(absl::Status)> on_broken;
  InboundLimits inbound = {};
  // Of one who connects: who must be there, where there are certificates. Nobody else gets a frame.
  std::optional<ExpectedPeer> expected = std::nullopt;
};

// All methods thread-safe; none blocks.
class Session {
 public:
  // Closes; returns after the last handler call has returned, unless called on a transport thread
  // (inside a handler): then on_broken follows.
  virtual ~Session() = default;
  virtual void Send(Frame frame) = 0;  // queued in order; dropped once broken
  // The receiver knows who speaks: from now on as much may be held as the handler's `inbound` says.
  virtual void Admit() = 0;
  // Breaks both ends. Queued frames may be lost, in both directions. The other end gets `why` where
  // it could still be carried: as kPermissionDenied where it is that, else in a kUnavailable.
  virtual void Close(absl::Status why) = 0;
  virtual size_t QueuedBytes() const = 0;  // payload and header bytes not yet given to the network
  virtual std::string Peer() const = 0;    // for messages to people
  // Whom the certificate of the other end names; nothing without certificates. The accepting end
  // knows it from the start, the connecting one before the first frame that comes.
  virtual std::optional<PeerName> ProvenPeer() const { return std::nullopt; }
  // At the accepting end: HashOfKey (lib/identity/keys.h) of the key in that certificate. Empty
  // without certificates, and at the connecting end.
  virtual std::string ProvenKey() const { return ""; }
};

// What the accepting side makes of a new session, before its first frame; called on transport
// threads. The handler of the accepted session is returned; the acceptor keeps the session alive.
using Acceptor = std::function<SessionHandler(std::shared_ptr<Session>)>;

class Listener {
 public:
  // Stops accepting, breaks the sessions it accepted (kCancelled) and returns after their last
  // handler call has returned. The sessions themselves may live on, broken.
  virtual ~Listener() = default;
  // host:port in effect (port 0 was asked for: the port that was given).
  virtual std::string Address() const = 0;
};

class Transport {
 public:
  // Breaks the sessions it connected (kCancelled) and returns after their last handler call has
  // returned. Its listeners must be gone.
  virtual ~Transport() = default;
  // kFailedPrecondition: address refused without certificates; kAlreadyExists: port in use;
  // kInvalidArgument: no such address here.
  virtual absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                           Acceptor acceptor) = 0;
  // Returns at once. Until connected, frames queue; failure to connect within `timeout` is a broken
  // session.
  virtual std::shared_ptr<Session> Connect(const std::string& address, Duration timeout,
                                           SessionHandler handler) = 0;
};

// A broken session's reason that proves more than silence: the peer's host answered that nobody
// listens at that address.
inline constexpr char kConnectRefusedPayload[] = "muster/connect-refused";
inline absl::Status ConnectRefusedError(absl::string_view message) {
  absl::Status status = absl::UnavailableError(message);
  status.SetPayload(kConnectRefusedPayload, absl::Cord());
  return status;
}
inline bool IsConnectRefused(const absl::Status& status) {
  return status.GetPayload(kConnectRefusedPayload).has_value();
}

// Of a session that the peer closed: `why` is what Close was given there, as ToString gives it.
inline absl::Status ClosedByPeerError(absl::string_view peer, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat("closed by ", peer, ": ", why));
}
// The peer closed it as it cannot take what it was told: the same words would end so again.
inline bool IsRefusedAsInvalid(const absl::Status& status) {
  return absl::IsUnavailable(status) && absl::StartsWith(status.message(), "closed by ") &&
         absl::StrContains(status.message(), ": INVALID_ARGUMENT: ");
}

}  // namespace muster
