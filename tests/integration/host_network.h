// Hosts as network namespaces on a bridge of their own, for tests, and what may happen to their
// networks. They live in descriptors of this process, so they end with it and with what runs in
// them, also when it is killed, and so do their rules.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/descriptor.h"
#include "tests/integration/frame_relay.h"

namespace muster::integration {

// Runs it in a child that is process 1 of its own: it sees that hosts have networks of their own,
// and nothing that it starts outlives it. Where that is not allowed it runs here. Its exit code.
int RunAsProcessOne(const std::function<int()>& run);

class HostNetwork {
 public:
  // kRelay: of each host a FrameRelay stands between it and the bridge, so that there is weather.
  enum class Wire { kPlain, kRelay };
  explicit HostNetwork(int hosts, Wire wire = Wire::kPlain);

  // Why there is none, for people; empty: there is. This needs to be root, `ip`, and what the
  // faults below are made with.
  const std::string& missing() const { return missing_; }
  // For Program: the child is to run on that host.
  std::function<bool()> On(int host) const;
  std::string Address(int host) const;  // 10.77.0.1 is that of host 0
  void Readdress(int host);  // it has another address from now on, and the one before no more
  static constexpr char kNetwork[] = "10.77.0.0/24";
  // Nothing comes from there or gets there, without anybody being told.
  void Cut(int host) { Ip(bridge_, {"link", "set", Port(host), "down"}); }
  void Heal(int host) { Ip(bridge_, {"link", "set", Port(host), "up"}); }

  // Rules of one host's firewall, without anybody being told, until LiftRules. They add up.
  void CutInbound(int host);                 // it hears nobody
  void CutOutbound(int host);                // nobody hears it
  void CutPair(int host, int other);         // neither hears the other
  void CutOneWay(int from, int to);          // `to` does not hear `from`
  void Lose(int host, double probability);   // of each packet that comes to it
  void DropLongerThan(int host, int bytes);  // what it sends; a hole of the path's MTU
  // What comes is answered with a reset: its peers see their connections end, and it learns of it
  // when it sends something later.
  void ResetConnections(int host);
  // Likewise, each connection once that many bytes went over it, in both directions together.
  void ResetConnectionsAfter(int host, int64_t bytes);
  // What that process of it says to that port of others is lost; nobody there connects to it anew.
  // Connections of other processes stay.
  void CutConnections(int host, pid_t process, int port);
  // How many packets the rules of that host have taken, so that a test knows of its fault.
  int64_t PacketsTaken(int host);
  void LiftRules(int host);

  void Narrow(int host, const std::string& rate);  // of what it sends: "8mbit"
  void Widen(int host);
  // Its own end of the wire, as a cable that is pulled out: it has no way to anywhere.
  void Unplug(int host);
  void PlugIn(int host);
  FrameRelay& Relay(int host) { return *relays_[static_cast<size_t>(host)]; }

 private:
  static std::string Port(int host) { return "port" + std::to_string(host); }
  const Descriptor& Host(int host) const { return hosts_[static_cast<size_t>(host)]; }
  Descriptor NewNamespace();
  Descriptor NewTap(const Descriptor& where, const std::string& name);
  // Its output; "" once something is missing.
  std::string Run(const Descriptor& where, std::vector<std::string> words);
  void Ip(const Descriptor& where, std::vector<std::string> words);
  std::string Rules(int host, std::vector<std::string> words);
  void Connect(int host, Wire wire);

  std::string missing_;
  Descriptor bridge_;
  std::vector<Descriptor> hosts_;
  std::vector<int> addresses_;  // the last part of each
  std::vector<std::unique_ptr<FrameRelay>> relays_;
};

}  // namespace muster::integration
