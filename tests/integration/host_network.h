// Hosts as network namespaces on a bridge of their own, for tests. They live in descriptors of this
// process, so they end with it and with what runs in them, also when it is killed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lib/base/descriptor.h"

namespace muster::integration {

// Runs it in a child that is process 1 of its own: it sees that hosts have networks of their own,
// and nothing that it starts outlives it. Where that is not allowed it runs here. Its exit code.
int RunAsProcessOne(const std::function<int()>& run);

class HostNetwork {
 public:
  explicit HostNetwork(int hosts);

  // Why there is none, for people; empty: there is. This needs to be root and `ip`.
  const std::string& missing() const { return missing_; }
  // For Program: the child is to run on that host.
  std::function<bool()> On(int host) const;
  std::string Address(int host) const;  // 10.77.0.1 is that of host 0
  static constexpr char kNetwork[] = "10.77.0.0/24";
  // Nothing comes from there or gets there, without anybody being told.
  void Cut(int host) { Ip(bridge_, {"link", "set", Port(host), "down"}); }
  void Heal(int host) { Ip(bridge_, {"link", "set", Port(host), "up"}); }

 private:
  static std::string Port(int host) { return "port" + std::to_string(host); }
  Descriptor NewNamespace();
  void Ip(const Descriptor& where, std::vector<std::string> words);
  void Connect(int host);

  std::string missing_;
  Descriptor bridge_;
  std::vector<Descriptor> hosts_;
};

}  // namespace muster::integration
