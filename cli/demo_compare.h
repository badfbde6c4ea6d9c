// Two runs of one job side by side. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/job_result.h"

namespace muster::cli {

// The first step above `step` that has a fingerprint; -1: none.
int64_t FirstFingerprintAfter(const std::vector<StepFingerprint>& fingerprints, int64_t step);

// What a disturbed run lacks to prove anything, and what to do; empty: nothing. The worker and the
// coordinator must have been killed, and kWithoutCoordinator steps shown without the latter.
inline constexpr int64_t kWithoutCoordinator = 20;
std::string Shortfall(const JobResult& disturbed);

struct Comparison {
  bool equal = false;  // both have a fingerprint of that step, and it is the same
  std::string text;    // a table, what was trained, and where it lies
};
Comparison Compare(const JobResult& disturbed, const JobResult& undisturbed, int64_t step);

}  // namespace muster::cli
