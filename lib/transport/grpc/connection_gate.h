// Accepts the connections of a gRPC server and hands them to it, at most so many at a time. gRPC's
// own acceptor knows no bound, and the first accept that fails for want of a descriptor makes it
// deaf for good (1.51); this one turns away whom there is no room for, with a reason, and listens
// on.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "lib/base/loopback.h"
#include "lib/base/time.h"

namespace muster {

// Which of the sockets that were given away are still open. gRPC closes them without a word, so
// they are looked at: a descriptor that is closed, or is another socket by now, is gone.
class GivenSockets {
 public:
  explicit GivenSockets(size_t most) : most_(most) {}
  // Whether one more may be given away. Looks at all of them only when there seem to be `most`,
  // and then at most every 50 ms, so that a flood of connections costs little.
  bool HasRoom(Time now);
  void Add(int fd);
  size_t size() const { return inode_of_.size(); }  // may count some that are closed already

 private:
  void ForgetClosed();

  const size_t most_;
  std::map<int, ino_t> inode_of_;
  Time looked_{};
};

class ConnectionGate {
 public:
  // Takes the descriptor of an accepted connection over. On the gate's thread.
  using Welcome = std::function<void(int listener, int fd)>;

  // Listens, and lets connections wait until Open. kAlreadyExists: port in use; kInvalidArgument:
  // no address of this machine; kPermissionDenied; kUnavailable: other.
  static absl::StatusOr<std::unique_ptr<ConnectionGate>> Listen(const HostPort& address,
                                                                int connections);
  ~ConnectionGate();  // no Welcome is called after it
  ConnectionGate(const ConnectionGate&) = delete;
  ConnectionGate& operator=(const ConnectionGate&) = delete;

  // Once.
  void Open(Welcome welcome);
  const std::string& address() const { return address_; }  // in effect

 private:
  ConnectionGate(int connections, int listener);
  absl::Status ReadAddress(HostPort address);
  void Run();
  // Waits for a connection that wants to be accepted; false: the gate is to close.
  bool AwaitKnock(int timeout_ms);
  void AcceptAll();
  void TurnAway(int fd) const;
  // No connection can be accepted for want of a descriptor: the spare one is given up for as long
  // as it takes to accept one and tell it so.
  void AcceptWithSpare();

  const int connections_;
  const int listener_;
  const int closing_;  // eventfd
  int spare_;          // the gate's thread's, once open
  GivenSockets given_;
  std::string address_;
  Welcome welcome_;
  std::thread thread_;
};

}  // namespace muster
