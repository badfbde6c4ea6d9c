// How a tensor is told of to people and programs. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "lib/base/printable.h"
#include "muster/tensor.h"

namespace muster {

inline const char* KindOf(const TensorSpec& tensor) {
  switch (tensor.kind) {
    case TensorKind::kParameter: return "parameter";
    case TensorKind::kBuffer: return "buffer";
    case TensorKind::kSum: return "sum";
    case TensorKind::kPhase: return "phase";
  }
  return "";
}

inline std::vector<std::string> PrintableAliases(const TensorSpec& tensor) {
  std::vector<std::string> names;
  for (const std::string& alias : tensor.aliases) names.push_back(Printable(alias));
  return names;
}

}  // namespace muster
