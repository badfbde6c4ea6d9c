#include <cstdlib>

#include "worker/torch/numerics.h"

namespace muster::worker {

absl::Status UseTorchHere(int32_t) { return absl::OkStatus(); }
std::string TorchProperties() { return "torch none\n"; }

void EndProcess(int exit_code) { std::exit(exit_code); }

}  // namespace muster::worker
