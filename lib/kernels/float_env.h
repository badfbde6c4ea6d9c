// How this process computes: part of the numeric environment that members compare when they join.
#pragma once

#include <string>

namespace muster {

// For the calling thread: results and operands below the normal range count as zero (flush-to-zero,
// denormals-are-zero), rounding to nearest even. Each thread that touches numbers calls it once,
// before the first; threads that it starts later inherit it.
void SetFloatEnvironment();
bool FloatEnvironmentIsSet();  // of the calling thread

// Highway's name of the instruction set that the kernels use on this machine, such as "AVX2".
// Results do not depend on it.
std::string InstructionSet();

}  // namespace muster
