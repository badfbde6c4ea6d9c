// The dumb twin of a checkpoint's digest: of a state in memory, tensor by tensor.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "lib/domain/layout.h"
#include "lib/kernels/sha256.h"

namespace muster {

// `slots`: the values, then each optimizer slot, which holds no buffers.
inline std::string StateDigest(const Layout& layout, const std::vector<std::vector<float>>& slots) {
  std::map<std::string, Placed> by_name;
  for (const Placed& tensor : layout.tensors()) by_name.emplace(tensor.spec.name, tensor);
  Sha256 sha;
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    for (const auto& [name, tensor] : by_name) {
      if (slot > 0 && tensor.spec.kind == TensorKind::kBuffer) continue;
      sha.Update({reinterpret_cast<const std::byte*>(slots[slot].data() + tensor.offset),
                  static_cast<size_t>(tensor.count) * sizeof(float)});
    }
  }
  return sha.HexFinish();
}

}  // namespace muster
