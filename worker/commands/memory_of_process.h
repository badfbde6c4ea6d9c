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

// From now on this process gets no more than `bytes` of memory of its own beyond what it has, as
// where the machine has none left: what asks for it hears so, and nobody is killed for it. A limit
// that is lower stays; a kernel that does not tell what we have lets us be without.
void LimitMemory(int64_t bytes);

}  // namespace muster::worker
