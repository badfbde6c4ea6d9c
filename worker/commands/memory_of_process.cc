#include "worker/commands/memory_of_process.h"

#include <fstream>
#include <string>

namespace muster::worker {
namespace {

constexpr int64_t kBytesPerKilobyte = 1024;

}  // namespace

MemoryOfProcess MemoryNow() {
  MemoryOfProcess memory;
  std::ifstream status("/proc/self/status");
  std::string name;
  for (std::string line; status >> name && std::getline(status, line);) {
    if (name != "VmRSS:" && name != "VmHWM:") continue;
    (name == "VmRSS:" ? memory.now : memory.peak) = std::stoll(line) * kBytesPerKilobyte;
  }
  return memory;
}

void ForgetPeak() {
  constexpr char kPeakOnly[] = "5";  // proc(5), clear_refs
  std::ofstream file("/proc/self/clear_refs");
  file << kPeakOnly << std::flush;
}

}  // namespace muster::worker
