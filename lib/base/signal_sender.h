// Whose signals a process heeds that an agent has started: those of its agent. Slurm and other
// launchers signal every process of a step; the agent hears them too, and decides what each of its
// processes is to do. Ending by themselves, members would be lost before the job has stopped.
#pragma once

#include <signal.h>
#include <unistd.h>

namespace muster {

// `has_agent`: our parent is one. What the kernel or we ourselves send counts in any case.
inline bool Heeds(const siginfo_t& info, bool has_agent) {
  const bool is_of_a_process = info.si_code <= 0;
  return !has_agent || !is_of_a_process || info.si_pid == getppid() || info.si_pid == getpid();
}

}  // namespace muster
