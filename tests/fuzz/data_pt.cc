// A file of torch.save.
#include "tests/fuzz/data_files.h"

namespace muster::fuzz {
namespace {

const DataFuzz kFuzz = {"f.pt", {.format = DataFormat::kPt, .label = "y"}};

std::string Make(Random& random) {
  static const std::vector<std::string> kStorages = {"FloatStorage", "DoubleStorage",
                                                     "ComplexFloatStorage"};
  const int rows = 1 + static_cast<int>(Below(random, 4));
  const int stride = static_cast<int>(Below(random, 4));
  const PtTensor x{kStorages[Below(random, kStorages.size())], "0", 0, {rows, 2}, {stride, 1}};
  const PtTensor y{"IntStorage", Below(random, 8) == 0 ? "2" : "1", 0, {rows}, {1}};
  std::string pickle = PtDict({{"x", PtPickle(x) + "q\x07"}, {"y", PtPickle(y)}, {"z", "h\x07"}});
  switch (Below(random, 8)) {
    case 0: pickle = "cos\nsystem\n" + pickle; break;
    case 1: pickle += "}b"; break;
    case 2: pickle = "(" + PtPickle(x) + PtPickle(y) + "t"; break;
    case 3: pickle.resize(Below(random, pickle.size())); break;
    default: break;
  }
  // A byte of the pickle is another instruction or number.
  if (Below(random, 2) == 0 && !pickle.empty())
    pickle[Below(random, pickle.size())] = static_cast<char>(random());
  return Pt(pickle, {std::string(128, 'x'), std::string(16, 'y')}, Below(random, 2) == 0);
}

}  // namespace
}  // namespace muster::fuzz

MUSTER_DATA_FUZZ_TARGET(muster::fuzz::kFuzz, muster::fuzz::Make, 8);
