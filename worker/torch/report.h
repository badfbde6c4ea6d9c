// What LibTorch is here, for `muster doctor`, which has none itself. No LibTorch in this header; a
// build without LibTorch has this function too.
#pragma once

#include <string>

namespace muster::worker {

// One property per line, "name value\n": those of numerics.h, then of LibTorch's CUDA half, which
// Muster's workers do not use yet. It is loaded for that, with all that it needs, and the devices
// are counted: in a process that does nothing else, before anything else of LibTorch, since what
// was asked for CUDA once keeps its answer.
//   cuda            its version, "13.0"; "none" where it cannot be loaded
//   cuda_missing    with cuda none alone: the dynamic linker's reason
//   cuda_driver     "found" where libcuda.so.1 can be loaded, else "none"
//   cuda_devices    how many it counts
//   cuda_complaint  what it says meanwhile, such as of a driver that is too old
// The last three are left out with cuda none, and the last one where it says nothing.
std::string LibTorchReport();

}  // namespace muster::worker
