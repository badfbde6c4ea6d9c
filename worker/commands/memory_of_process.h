// How much memory this process has in the machine, as the kernel counts it. Any thread.
#pragma once

#include <cstdint>

namespace muster::worker {

struct MemoryOfProcess {
  int64_t now = 0;   // bytes that are resident
  int64_t peak = 0;  // the most that were, since ForgetPeak or the start
};
MemoryOfProcess MemoryNow();  // zeros where the kernel does not tell

// From now on the peak is a new one; where the kernel does not let us, it stays the old one.
void ForgetPeak();

}  // namespace muster::worker
