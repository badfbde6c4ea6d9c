// Tells a kill by the kernel for lack of memory from any other SIGKILL, by the counter of our
// memory cgroup, of version 1 or 2 of the cgroups, also where we see only a part of their tree.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace muster::agent {

class MemoryWatch {
 public:
  // `root` goes before every path, /proc among them: for tests.
  explicit MemoryWatch(const std::string& root = "");
  // The kernel has killed for memory in our cgroup since the last call (or since construction).
  // False where it cannot be known.
  bool KilledSinceLastCall();

  const std::string& file() const { return file_; }  // that has the counter; empty: there is none

 private:
  std::string file_;
  std::optional<int64_t> last_;
};

// The value of `oom_kill` in the text of a memory.events or memory.oom_control file.
std::optional<int64_t> ParseOomKills(const std::string& text);

}  // namespace muster::agent
