// A file of NumPy.
#include "tests/fuzz/data_files.h"

namespace muster::fuzz {
namespace {

const DataFuzz kFuzz = {"f.npy", {.format = DataFormat::kNumpy, .mean = {0.5}}};

std::string Make(Random& random) {
  static const std::vector<std::string> kTypes = {"<f4", ">i2", "|u1", "<f8"};
  const std::string& type = kTypes[Below(random, kTypes.size())];
  const auto rows = static_cast<int64_t>(1 + Below(random, 4));
  return Npy(type, {rows, 2}, std::string(static_cast<size_t>(rows) * 2 * (type[2] - '0'), 'x'));
}

}  // namespace
}  // namespace muster::fuzz

MUSTER_DATA_FUZZ_TARGET(muster::fuzz::kFuzz, muster::fuzz::Make, 8);
