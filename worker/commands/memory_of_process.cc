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
  std::string name, unit;
  int64_t kilobytes = 0;
  for (std::string line; status >> name && std::getline(status, line);) {
    if (name != "VmRSS:" && name != "VmHWM:") continue;
    kilobytes = std::stoll(line);
    (name == "VmRSS:" ? memory.now : memory.peak) = kilobytes * kBytesPerKilobyte;
  }
  return memory;
}

bool ForgetPeak() {
  constexpr char kPeakOnly[] = "5";  // proc(5), clear_refs
  std::ofstream file("/proc/self/clear_refs");
  file << kPeakOnly << std::flush;
  return file.good();
}

}  // namespace muster::worker
