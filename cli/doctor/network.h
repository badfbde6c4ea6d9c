// Names and addresses of this machine, ports that Muster would listen on, and the way to a
// coordinator.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/doctor/finding.h"
#include "lib/base/name_lookup.h"
#include "lib/base/time.h"
#include "lib/launch/own_address.h"

namespace muster::cli::doctor {

struct NameFacts {
  std::string host;                                // name of this machine
  absl::StatusOr<std::vector<std::string>> found;  // what it stands for, as of Resolver
  std::vector<OwnAddress> own;
};
NameFacts GatherName(const Resolver& resolve = ResolveBySystem);
Finding JudgeName(const NameFacts& facts);

// Members listen at any port of these addresses.
struct AddressFacts {
  std::vector<OwnAddress> own;
  // Of those that are not loopback: whether this machine reaches itself there.
  std::vector<std::pair<std::string, absl::Status>> reached;
  std::optional<int64_t> free_ports;  // that the kernel chooses from; nothing: it does not say
};
AddressFacts GatherAddresses(Duration patience, const std::string& root = "");
Findings JudgeAddresses(const AddressFacts& facts);

struct PortFacts {
  std::string address;        // HOST:PORT
  absl::Status listens;       // whether we could; kAlreadyExists: somebody does
  std::string holder;         // "nginx (process 812)"; empty: not known
  bool is_named = true;       // by a person; else it is what muster up takes without --listen
  bool is_of_folder = false;  // the cluster of the folder that is looked at answers there
};
PortFacts GatherPort(const std::string& address, const std::string& root = "");
Finding JudgePort(const PortFacts& facts);

// Who listens at a port of this machine, as /proc tells it to this user; empty: it does not.
std::string HolderOf(uint16_t port, const std::string& root);

struct ReachFacts {
  std::string address;                             // HOST:PORT
  absl::StatusOr<std::vector<std::string>> found;  // what the host stands for, as of Resolver
  absl::Status reached;                            // OK: some program answers at one of these
};
// Each address of the list for `patience` at most.
std::vector<ReachFacts> GatherReach(const std::vector<std::string>& addresses, Duration patience,
                                    const Resolver& resolve = ResolveBySystem);
// One of these addresses has the coordinator.
Findings JudgeReach(const std::vector<ReachFacts>& facts);

}  // namespace muster::cli::doctor
