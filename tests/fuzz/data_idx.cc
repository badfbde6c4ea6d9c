// A file of MNIST.
#include "tests/fuzz/data_files.h"

namespace muster::fuzz {
namespace {

const DataFuzz kFuzz = {"f", {.format = DataFormat::kIdx}};

std::string Make(Random& random) {
  const auto rows = static_cast<uint32_t>(1 + Below(random, 4));
  const std::string file = Idx(8, {rows, 2, 3}, std::string(size_t{rows} * 6, 'x'));
  return Below(random, 2) == 0 ? Gzip(file) : file;
}

}  // namespace
}  // namespace muster::fuzz

MUSTER_DATA_FUZZ_TARGET(muster::fuzz::kFuzz, muster::fuzz::Make, 5);
