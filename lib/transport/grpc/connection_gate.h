// Accepts the connections of a gRPC server and hands them to it, at most so many at a time. gRPC's
// own acceptor knows no bound, and the first accept that fails for want of a descriptor makes it
// deaf for good (1.51); this one turns away whom there is no room for, with a reason, and listens
// on.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "lib/base/loopback.h"
#include "lib/transport/grpc/given_sockets.h"

namespace muster {

struct GateLimits {
  int connections = 2;            // at a time
  uint64_t most_of_stranger = 0;  // see GivenSockets
  bool speaks_tls = false;
};

class ConnectionGate {
 public:
  // Takes the descriptor of an accepted connection over. On the gate's thread.
  using Welcome = std::function<void(int listener, int fd)>;

  // Listens, and lets connections wait until Open. kAlreadyExists: port in use; kInvalidArgument:
  // no address of this machine; kPermissionDenied; kUnavailable: other.
  static absl::StatusOr<std::unique_ptr<ConnectionGate>> Listen(const HostPort& address,
                                                                GateLimits limits);
  ~ConnectionGate();  // no Welcome is called after it
  ConnectionGate(const ConnectionGate&) = delete;
  ConnectionGate& operator=(const ConnectionGate&) = delete;

  // Once.
  void Open(Welcome welcome);
  const std::string& address() const { return address_; }  // in effect
  const std::shared_ptr<GivenSockets>& given() const { return given_; }

 private:
  ConnectionGate(GateLimits limits, int listener);
  absl::Status ReadAddress(HostPort address);
  void Run();
  // Waits for a connection that wants to be accepted, or for the time; false: the gate is to close.
  bool AwaitKnock(int timeout_ms);
  void GiveBack(Time now);  // freed memory, to the system
  void Pause();
  void AcceptAll();
  void Take(int fd, const std::string& peer);
  std::string Full() const;
  void TurnAway(int fd, const std::string& why) const;
  // No connection can be accepted for want of a descriptor: the spare one is given up for as long
  // as it takes to accept one and tell it so.
  void AcceptWithSpare();

  const GateLimits limits_;
  const int listener_;
  const int closing_;                          // eventfd
  int spare_;                                  // the gate's thread's, once open
  const std::shared_ptr<GivenSockets> given_;  // sessions outlive the gate
  std::string address_;
  Welcome welcome_;
  // Of the thread.
  Time busy_until_{};
  Time gave_back_{};
  size_t held_ = 0;  // memory, when some was given back last
  std::thread thread_;
};

}  // namespace muster
