// What the machine, its cgroups and the limits of this process (ulimit) leave to Muster.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/doctor/finding.h"

namespace muster::cli::doctor {

struct LimitFacts {
  // Bounds of this process, as getrlimit tells them; nothing: there is none.
  std::optional<int64_t> descriptors;
  std::optional<int64_t> processes;   // of this user, and threads count; nothing for root as well
  std::optional<int64_t> file_bytes;  // of one file
  std::optional<int64_t> address_space;
  // Of the cgroups around us.
  std::optional<int64_t> pids_left;
  std::optional<double> cpu_quota;  // in cores
  int64_t memory_of_machine = 0;
  int64_t memory_for_us = 0;  // what the cgroups leave of it
  int slots = 1;              // that muster up takes without --slots
};
// `root` goes before every path, /proc among them: for tests. "" is this machine.
LimitFacts GatherLimits(const std::string& root = "");
Findings JudgeLimits(const LimitFacts& facts);

// The least of what the cgroups around us leave, of version 1 or 2; nothing: no bound.
std::optional<int64_t> PidsLeft(const std::string& root);
std::optional<double> CpuQuota(const std::string& root);

struct SharedMemoryFacts {
  bool is_there = false;
  int64_t bytes = 0;
  int64_t used = 0;
  int64_t memory = 0;  // of this machine, or what its cgroups leave us
};
SharedMemoryFacts GatherSharedMemory(const std::string& folder = "/dev/shm");
Finding JudgeSharedMemory(const SharedMemoryFacts& facts);

// Whether something keeps the clock of this machine right, as the kernel was told; nothing: it does
// not say.
std::optional<bool> IsClockKept();
Finding JudgeOwnClock(std::optional<bool> is_kept);

}  // namespace muster::cli::doctor
