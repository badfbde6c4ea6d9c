// A file of safetensors.
#include "tests/fuzz/data_files.h"

namespace muster::fuzz {
namespace {

const DataFuzz kFuzz = {"f.safetensors", {.format = DataFormat::kSafetensors, .label = "y"}};

std::string Make(Random& random) {
  const size_t rows = 1 + Below(random, 4);
  return Safetensors(
      absl::StrCat("{\"x\":{\"dtype\":\"F32\",\"shape\":[", rows, ",2],\"data_offsets\":[0,",
                   8 * rows, "]},\"y\":{\"dtype\":\"U8\",\"shape\":[", rows, "],\"data_offsets\":[",
                   8 * rows, ",", 9 * rows, "]}}"),
      std::string(9 * rows, 'x'));
}

}  // namespace
}  // namespace muster::fuzz

MUSTER_DATA_FUZZ_TARGET(muster::fuzz::kFuzz, muster::fuzz::Make, 6);
