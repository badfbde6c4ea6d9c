// A file of CIFAR-10.
#include "tests/fuzz/data_files.h"

namespace muster::fuzz {
namespace {

const DataFuzz kFuzz = {"f.bin", {.format = DataFormat::kCifar10, .crop = 2, .flip = true}};

std::string Make(Random& random) {
  return std::string(3073 * (1 + Below(random, 2)), static_cast<char>(random()));
}

}  // namespace
}  // namespace muster::fuzz

MUSTER_DATA_FUZZ_TARGET(muster::fuzz::kFuzz, muster::fuzz::Make, 1);
