// On which of its addresses a host of a run listens for the others.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace muster {

struct OwnAddress {
  std::string interface;  // "eth0"
  std::string ip;         // numeric, without a port or brackets
};

// Of the interfaces of this machine that are up, those of IPv4 first; none that is valid on one
// link only.
std::vector<OwnAddress> OwnAddresses();

// What a name stands for, as this machine looks it up; a numeric address stands for itself. It may
// take as long as the resolver's patience. Empty: nothing.
std::vector<std::string> AddressesOf(const std::string& name);

// The name in full, as this machine looks it up: "train-0.train.jobs.svc.cluster.local". It may
// take as long as the resolver's patience. Empty: there is none.
std::string FullNameOf(const std::string& name);

// The one to listen on. `interface`: a name or a network (CIDR) that a person has given, or empty.
// `named`: what the name that the launcher gives this host stands for. kInvalidArgument: no address
// is on that interface; the message lists what there is.
absl::StatusOr<std::string> ChooseAddress(const std::vector<OwnAddress>& own,
                                          const std::string& interface,
                                          const std::vector<std::string>& named);

// What `option` names: an address of this machine, or an interface or a network (CIDR), whose
// address is taken. kInvalidArgument: this host has none such; the message lists what there is.
absl::StatusOr<std::string> NamedAddress(const std::vector<OwnAddress>& own,
                                         const std::string& option, const std::string& wanted);

// Whether we could listen at this address with a port, which `option` names: numeric, of this
// machine, all of those, or localhost. kInvalidArgument: not.
absl::Status CheckListensHere(const std::vector<OwnAddress>& own, const std::string& option,
                              const std::string& address);

// "10.0.0.7" or "[fd00::7]", as it is written before a port.
std::string BeforePort(const std::string& ip);

}  // namespace muster
