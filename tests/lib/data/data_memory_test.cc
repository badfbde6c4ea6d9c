#include "lib/data/data_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/corpus.h"
#include "tests/lib/data/opened_set.h"
#include "tests/lib/data/written_files.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr uint64_t kMebibyte = uint64_t{1} << 20;

// All but a mebibyte is taken already.
class AlmostFull : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(others_.Take("others", DataMemory::Left() - kMebibyte).ok());
  }
  static void ExpectTooMuch(const absl::Status& status, const std::string& file) {
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(file), HasSubstr("held in memory")));
  }

  const Files files_;
  DataMemory others_;
};

TEST_F(AlmostFull, WhatIsTakenIsGivenBack) {
  DataMemory first;
  EXPECT_TRUE(first.Take("a", kMebibyte).ok());
  EXPECT_EQ(DataMemory::Left(), 0u);
  DataMemory moved = std::move(first);
  ExpectTooMuch(DataMemory().Take("b", 1), "b: 1 bytes more are to be held in memory");
  ExpectTooMuch(moved.Take("c", UINT64_MAX), "c: ");
  moved = DataMemory();
  EXPECT_EQ(DataMemory::Left(), kMebibyte);
}

// What can be done about it is told.
TEST_F(AlmostFull, ATableOfCsvMayBecomeArrays) {
  std::string csv = "a\n";
  for (int i = 0; i < 600'000; ++i) csv += "1\n";
  const std::string file = files_.Write("f.csv", csv);
  const absl::Status status =
      OpenDataSet({.paths = {file}, .format = DataFormat::kCsv}, 1).status();
  ExpectTooMuch(status, absl::StrCat(file, ": ", csv.size(), " bytes more"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("give arrays (data.format: numpy"));
}

// Each of two files has room alone.
TEST_F(AlmostFull, IsNoPlaceForMoreFilesTogether) {
  std::string csv = "a\n", names = "a,b\n";
  for (int i = 0; i < 150'000; ++i) csv += "1\n";
  for (int i = 0; i < 5'000; ++i) absl::StrAppend(&names, "1,", i, "\n");
  const std::string npz =
      Zip({{"x.npy", Npy("|u1", {600, 1000}, std::string(600'000, '\0'))}}, /*deflated=*/true);
  const std::string idx = Gzip(Idx(8, {600, 1000}, std::string(600'000, '\0')));
  const struct {
    std::string name, content;
    DataSpec data;
  } kTried[] = {{"f.csv", csv, {.format = DataFormat::kCsv}},
                {"names.csv", names, {.format = DataFormat::kCsv, .classes = {"b"}}},
                {"f.npz", npz, {.format = DataFormat::kNumpy}},
                {"f.gz", idx, {.format = DataFormat::kIdx}},
                {"f.txt", std::string(600'000, 'x'), {.shape = {1}}}};
  for (const auto& tried : kTried) {
    SCOPED_TRACE(tried.name);
    const bool is_text = tried.data.format == DataFormat::kText;
    const std::string a = files_.Write("a/" + tried.name, tried.content);
    const std::string b = files_.Write("b/" + tried.name, tried.content);
    DataSpec one = tried.data, both = tried.data;
    one.paths = {a};
    both.paths = {a, b};
    if (tried.name == "names.csv") {
      // One file has all the names of the other: what is full is full of names.
      DataMemory less;
      ASSERT_TRUE(less.Take("more", 600'000).ok());
      ExpectTooMuch(OpenDataSet(one, 1).status(), a);
      continue;
    }
    ExpectTooMuch(OpenDataSet(both, 1).status(), is_text ? "data.paths" : b);
    const auto training = Opened(one);
    ASSERT_NE(training, nullptr);
    ExpectTooMuch(OpenDataSet(one, 1).status(), is_text ? "data.paths" : a);
  }
  others_ = DataMemory();
  EXPECT_NE(Opened({.paths = {files_.root() + "/a/f.csv", files_.root() + "/b/f.csv"},
                    .format = DataFormat::kCsv}),
            nullptr);
}

TEST_F(AlmostFull, TextMayBeCutAndIsNotLeftOut) {
  DataSpec data = {.paths = {files_.Write("f", std::string(2 * kMebibyte, 'x'))},
                   .unreadable = Unreadable::kSkip};
  const absl::Status status = ReadCorpus(data).status();
  ExpectTooMuch(status, "data.paths");
  EXPECT_THAT(std::string(status.message()), HasSubstr("data.max_bytes reads a part of it"));
  data.max_bytes = kMebibyte;
  const absl::StatusOr<Corpus> cut = ReadCorpus(data);
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_EQ(cut->bytes.size(), kMebibyte);
}

}  // namespace
}  // namespace muster
