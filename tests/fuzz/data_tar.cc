// A tar file of WebDataset.
#include "tests/fuzz/data_files.h"

namespace muster::fuzz {
namespace {

const DataFuzz kFuzz = {"f.tar", {.format = DataFormat::kWebDataset}, size_t{512} << 20};

std::string Make(Random& random) {
  return Tar({{"a.png", Png({2, 2, 3, "abcdefghijkl"})},
              {"a.cls", absl::StrCat(Below(random, 10))},
              {"b.cls", "7"},
              {"b.png", Png({2, 2, 3, "abcdefghijkl"})}});
}

}  // namespace
}  // namespace muster::fuzz

MUSTER_DATA_FUZZ_TARGET(muster::fuzz::kFuzz, muster::fuzz::Make, 5);
