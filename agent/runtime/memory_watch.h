// Tells a kill by the kernel for lack of memory from any other SIGKILL, by the counter of our
// memory cgroup.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace muster::agent {

class MemoryWatch {
 public:
  MemoryWatch();
  // The kernel has killed for memory in our cgroup since the last call (or since construction).
  // False where it cannot be known.
  bool KilledSinceLastCall();

 private:
  std::optional<int64_t> Count() const;
  std::string file_;  // memory.events of our cgroup
  std::optional<int64_t> last_;
};

// The value of `oom_kill` in the text of a memory.events file.
std::optional<int64_t> ParseOomKills(const std::string& text);

}  // namespace muster::agent
