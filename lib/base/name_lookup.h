// Names of hosts become addresses, off the thread that asks: the system's call has no deadline.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace muster {

// Numeric addresses of a name, as they are written before a port ("10.0.0.7", "[fd00::7]"): sorted,
// IPv4 first, each once, at least one. May block for as long as it likes. Errors name the host.
using Resolver = std::function<absl::StatusOr<std::vector<std::string>>(const std::string& host)>;
absl::StatusOr<std::vector<std::string>> ResolveBySystem(const std::string& host);

// Copies share their lookups. Thread-safe.
class NameLookup {
 public:
  using OnAnswer = std::function<void(absl::StatusOr<std::vector<std::string>>)>;
  explicit NameLookup(Resolver resolve = ResolveBySystem);

  // Called once, on a thread of the lookup's or inside Ask, unless somebody asks for the same name
  // before: then the lookup that is under way answers the one who asked last. So one that hangs
  // costs one thread, however often it is asked for, and whoever asks sets a deadline of his own.
  void Ask(const std::string& host, OnAnswer on_answer);

 private:
  struct State;
  std::shared_ptr<State> state_;  // also of the threads, which may outlive us
};

}  // namespace muster
