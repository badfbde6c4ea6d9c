#include "worker/commands/memory_of_process.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace muster::worker {
namespace {

constexpr int64_t kBytesPerKilobyte = 1024;

// In bytes; 0 where the kernel does not tell it. `name`: as /proc/self/status has it, "VmRSS:".
int64_t Counted(const std::string& name) {
  std::ifstream status("/proc/self/status");
  std::string key;
  for (std::string line; status >> key && std::getline(status, line);)
    if (key == name) return std::stoll(line) * kBytesPerKilobyte;
  return 0;
}

}  // namespace

MemoryOfProcess MemoryNow() { return {.now = Counted("VmRSS:"), .peak = Counted("VmHWM:")}; }

void ForgetPeak() {
  constexpr char kPeakOnly[] = "5";  // proc(5), clear_refs
  std::ofstream file("/proc/self/clear_refs");
  file << kPeakOnly << std::flush;
}

void LimitMemory(int64_t bytes) {
  // What RLIMIT_DATA counts.
  const int64_t has = Counted("VmData:");
  rlimit limit{};
  if (has == 0 || bytes > std::numeric_limits<int64_t>::max() - has ||
      getrlimit(RLIMIT_DATA, &limit) != 0)
    return;
  limit.rlim_cur = std::min(limit.rlim_cur, static_cast<rlim_t>(has + bytes));
  setrlimit(RLIMIT_DATA, &limit);
}

}  // namespace muster::worker
