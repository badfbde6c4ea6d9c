#include "lib/data/tensor_pickle.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iostream>

#include "tests/lib/data/written_files.h"

namespace muster {
namespace {

SourcePtr Pickle(const std::string& value) {
  return MemorySource("f.pt (a/data.pkl)", absl::StrCat("\x80\x02", value, "."));
}

const PtTensor kTensor = {"FloatStorage", "0", 0, {2}, {1}};

TEST(TensorPickle, ModulesOfOneDictHoldTheSame) {
  const std::string module = "c__torch__\nM\n)\x81";
  const std::string dict = PtDict({{"w", PtPickle(kTensor)}}) + "q\1";
  const std::string both = PtModule({{"a", module + dict + "b"}, {"b", module + "h\1b"}});
  const auto tensors = ReadTensorPickle(*Pickle(both), PickleOf::kModel);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), 2u);
  EXPECT_EQ(tensors->at(0).name, "a.w");
  EXPECT_EQ(tensors->at(1).name, "b.w");
}

// Of which each has few bytes, since torch.save puts aside what comes again.
TEST(TensorPickle, ThousandsOfTensorsAreNotTooMuch) {
  std::string dict = "}(" + PtText("a") + "ctorch._utils\n_rebuild_tensor_v2\nq\1" +  //
                     PtText("b") + PtText("storage") + "q\2" +                        //
                     PtText("c") + "ctorch\nFloatStorage\nq\3" +                      //
                     PtText("d") + PtText("cpu") + "q\4" +                            //
                     PtText("e") + "ccollections\nOrderedDict\nq\5";
  const std::string offset = "K" + std::string(1, '\0');
  for (int i = 0; i < 10'000; ++i)
    absl::StrAppend(&dict, PtText(absl::StrCat(i)), "h\1((h\2h\3", PtText(absl::StrCat(i)),
                    "h\4K\2tQ", offset, "K\2\x85K\1\x85\x89h\5)RtR");
  const auto tensors = ReadTensorPickle(*Pickle(dict + "u"), PickleOf::kArrays);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ(tensors->size(), 10'000u);
}

#ifndef __SANITIZE_ADDRESS__
// Two bytes name once more what is large, and there is much of it.
struct Hostile {
  const char* name;
  std::string value;
  const char* says;
  friend std::ostream& operator<<(std::ostream& out, const Hostile& hostile) {
    return out << hostile.name;
  }
};
class HostilePickle : public testing::TestWithParam<Hostile> {};

TEST_P(HostilePickle, TakesLittleMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // in a process that has held nothing yet
  const SourcePtr pickle = Pickle(GetParam().value);
  const auto read = [&pickle] {
    malloc_trim(0);  // what was freed is room, too
    int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t most = static_cast<rlim_t>(pages * getpagesize()) + (rlim_t{200} << 20);
    const rlimit few = {most, most};
    if (setrlimit(RLIMIT_AS, &few) != 0) std::_Exit(2);
    const absl::Status status = ReadTensorPickle(*pickle, PickleOf::kArrays).status();
    std::cerr << status;
    std::_Exit(absl::IsDataLoss(status) ? 0 : 1);
  };
  EXPECT_EXIT(read(), testing::ExitedWithCode(0), GetParam().says);
}

std::vector<Hostile> HostilePickles() {
  const auto times = [](int count, const std::string& what) {
    std::string all;
    for (int i = 0; i < count; ++i) all += what;
    return all;
  };
  const auto repeated = [&](const PtTensor& tensor, int count) {
    return "](" + PtPickle(tensor) + "q\1" + times(count, "h\1") + "e";
  };
  PtTensor entry = kTensor, type = kTensor, sizes = kTensor;
  entry.entry = std::string(500'000, '0');
  type.storage = std::string(500'000, 'x') + "Storage";
  sizes.shape = sizes.strides = std::vector<int>(32, 1);
  const std::string module = "c__torch__\nM\nq\1)\x81q\2}(" + times(60'000, "h\1h\2") + "uq\3b";
  return {{"Entry", repeated(entry, 10'000), "is not told of as torch.save does"},
          {"Type", repeated(type, 10'000), "is not told of as torch.save does"},
          {"Sizes", repeated(sizes, 500'000), "what it tells of its tensors comes to more than"},
          {"Modules", "(" + module + times(20'000, "h\1)\x81h\3b") + "t", "it holds no tensor"}};
}

INSTANTIATE_TEST_SUITE_P(Table, HostilePickle, testing::ValuesIn(HostilePickles()),
                         [](const auto& tried) { return std::string(tried.param.name); });
#endif

}  // namespace
}  // namespace muster
