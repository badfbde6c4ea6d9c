// A file of comma-separated values.
#include "tests/fuzz/data_files.h"

namespace muster::fuzz {
namespace {

const DataFuzz kFuzz = {"f.csv", {.format = DataFormat::kCsv, .label = "b", .classes = {"b"}}};

std::string Make(Random& random) {
  static const std::vector<std::string> kCells = {"1", "-0.5", "\"2\"", "\"a,\"\"b\"", "1e9", ""};
  std::string text = "a,b\n";
  for (size_t row = Below(random, 5) + 1; row > 0; --row)
    text += kCells[Below(random, 3)] + "," + kCells[Below(random, kCells.size())] + "\r\n";
  return text;
}

}  // namespace
}  // namespace muster::fuzz

MUSTER_DATA_FUZZ_TARGET(muster::fuzz::kFuzz, muster::fuzz::Make, 3);
