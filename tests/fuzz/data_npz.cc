// A file of NumPy that holds several.
#include "tests/fuzz/data_files.h"

namespace muster::fuzz {
namespace {

const DataFuzz kFuzz = {"f.npz", {.format = DataFormat::kNumpy, .label = "y"}};

std::string Make(Random& random) {
  const std::string x = Npy("<f4", {2, 2}, std::string(16, 'x'));
  const std::string y = Npy("<i4", {2}, std::string(8, 'y'));
  return Zip({{"x.npy", x}, {"y.npy", y}}, Below(random, 2) == 0);
}

}  // namespace
}  // namespace muster::fuzz

MUSTER_DATA_FUZZ_TARGET(muster::fuzz::kFuzz, muster::fuzz::Make, 8);
