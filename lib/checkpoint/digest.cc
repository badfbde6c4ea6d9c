#include <algorithm>
#include <vector>

#include "lib/base/bytes.h"
#include "lib/base/status.h"
#include "lib/checkpoint/load.h"
#include "lib/checkpoint/tensor_reader.h"
#include "lib/kernels/sha256.h"

namespace muster {
namespace {

std::vector<const Placed*> ByName(const Layout& layout) {
  std::vector<const Placed*> tensors;
  for (const Placed& tensor : layout.tensors()) tensors.push_back(&tensor);
  std::sort(tensors.begin(), tensors.end(),
            [](const Placed* a, const Placed* b) { return a->spec.name < b->spec.name; });
  return tensors;
}

}  // namespace

absl::StatusOr<std::string> Digest(const CheckpointFiles& files, const Manifest& manifest,
                                   const std::stop_token& stop) {
  MUSTER_ASSIGN_OR_RETURN(TensorReader reader, TensorReader::Open(files, manifest));
  Sha256 sha;
  const TensorReader::Take hash = [&](absl::Span<const float> run) -> absl::Status {
    if (stop.stop_requested()) return absl::CancelledError("the digest was stopped");
    sha.Update(BytesOf(run));
    return absl::OkStatus();
  };
  const std::vector<const Placed*> tensors = ByName(reader.layout());
  for (int32_t slot = 0; slot <= manifest.slots; ++slot)
    for (const Placed* tensor : tensors)
      if (slot == kValuesSlot || tensor->spec.kind == TensorKind::kParameter)
        MUSTER_RETURN_IF_ERROR(reader.Read(*tensor, slot, hash));
  return sha.HexFinish();
}

}  // namespace muster
