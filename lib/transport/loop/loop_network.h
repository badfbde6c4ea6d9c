// Sessions inside one process, with faults: what runs over gRPC runs over this too, in a test or in
// one program. Frames cross without a copy; the receiver sees the sender's memory.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "lib/transport/counters.h"
#include "lib/transport/transport.h"

namespace muster {

// A network of named hosts. Thread-safe. Everything is delivered in one order, by one thread: its
// own (kThread), or whoever calls Pump (kPumped). In both cases that thread is the transport thread
// of the contract in transport.h.
//
// The network outlives the transports, listeners and sessions made of it. In kPumped, destroying a
// session, a listener or a transport outside a handler delivers its outstanding on_broken calls on
// the spot.
class LoopNetwork {
 public:
  enum class Delivery { kThread, kPumped };
  explicit LoopNetwork(Delivery delivery = Delivery::kThread);
  ~LoopNetwork();
  LoopNetwork(const LoopNetwork&) = delete;
  LoopNetwork& operator=(const LoopNetwork&) = delete;

  // The transport of a host; `name` is for Break, Cut and messages. It may listen on any text as an
  // address; one that ends in ":0" gets a free number. A name is used by one transport at a time.
  // `own`: whom its certificate names, as if it spoke TLS; it reaches only others that have one.
  std::unique_ptr<Transport> MakeTransport(const std::string& name,
                                           std::optional<PeerName> own = std::nullopt);

  // Delivers one thing that is due (a connection, a frame, a break); false when nothing is. Only in
  // kPumped, and not inside a handler.
  bool Pump();

  // Every session between the hosts breaks now, with what is on its way lost; new ones may follow.
  void Break(const std::string& a, const std::string& b);
  // As Break, and connects between them are refused (IsConnectRefused) until Heal.
  void Cut(const std::string& a, const std::string& b);
  void Heal(const std::string& a, const std::string& b);

  const TransportCounters& counters() const;

  class State;  // shared with the sessions; defined in the source file

 private:
  std::shared_ptr<State> state_;
};

}  // namespace muster
