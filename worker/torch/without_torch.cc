#include <cstdlib>

#include "worker/torch/libtorch_archive.h"
#include "worker/torch/numerics.h"
#include "worker/torch/report.h"

namespace muster::worker {

absl::Status UseTorchHere(int32_t) { return absl::OkStatus(); }
std::string TorchProperties() { return "torch none\n"; }
std::string LibTorchReport() { return TorchProperties(); }

absl::Status WriteLibTorchArchive(const FlatSpace&, absl::Span<const float>, const std::string&) {
  return absl::FailedPreconditionError("this worker was built without LibTorch");
}

void EndProcess(int exit_code) { std::exit(exit_code); }

}  // namespace muster::worker
