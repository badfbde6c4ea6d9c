#include "muster/data_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <optional>
#include <ostream>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "lib/base/whole_file.h"
#include "lib/data/read_good.h"
#include "tests/lib/data/opened_set.h"
#include "tests/lib/data/written_files.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using std::string_literals::operator""s;
using testing::ElementsAre;
using testing::HasSubstr;

// ---- CSV

TEST(Csv, ColumnsAreFoundByNameInEachFile) {
  const Files files;
  files.Write("a.csv", "id,x,y,price\n1,0.5,2,10\n2,-1e-3,+4,20\r\n");
  files.Write("b.csv", "\xef\xbb\xbfprice,y,x,id\n30,\"6\", 7.25 ,3\n\n");
  const auto set = Opened({.paths = {files.root()},
                           .format = DataFormat::kCsv,
                           .columns = {"y", "x"},
                           .label = "price"});
  ASSERT_NE(set, nullptr);
  EXPECT_EQ(set->Samples(), 3u);
  EXPECT_THAT(set->Fields(), ElementsAre(DataField{"input", TensorType::kFloat32, {2}},
                                         DataField{"label", TensorType::kFloat32, {}}));
  EXPECT_THAT(Read<float>(*set, 0, {2, 0, 1}), ElementsAre(6, 7.25f, 2, 0.5f, 4, -1e-3f));
  EXPECT_THAT(Read<float>(*set, 1, {2, 0, 1}), ElementsAre(30, 10, 20));
}

// Were each looked for among all others, this would take minutes.
TEST(Csv, ManyColumnsAreFoundInOneLookAtTheHeader) {
  constexpr int kColumns = 300'000;
  const Files files;
  std::string header, row;
  for (int i = 0; i < kColumns; ++i) {
    const char* const comma = i == 0 ? "" : ",";
    absl::StrAppend(&header, comma, "c", i);
    absl::StrAppend(&row, comma, i % 10);
  }
  const std::string text = header + "\n" + row + "\n";
  const auto numbers =
      Opened({.paths = {files.Write("a.csv", text)}, .format = DataFormat::kCsv, .label = "c7"});
  ASSERT_NE(numbers, nullptr);
  EXPECT_EQ(numbers->Fields()[0].shape, std::vector<int64_t>{kColumns - 1});
  EXPECT_THAT(Read<float>(*numbers, 1, {0}), ElementsAre(7));
  DataSpec names{.paths = {files.root()}, .format = DataFormat::kCsv};
  for (int i = 0; i < kColumns; ++i) names.classes.push_back(absl::StrCat("c", i));
  const auto classes = Opened(names);
  ASSERT_NE(classes, nullptr);
  EXPECT_EQ(classes->Fields()[0].type, TensorType::kInt64);
}

TEST(Csv, WithoutAHeaderColumnsHaveNumbers) {
  const Files files;
  const std::string file = files.Write("a.csv", "1;2;3\n4;5;6");
  const auto set = Opened({.paths = {file},
                           .format = DataFormat::kCsv,
                           .label = "1",
                           .header = false,
                           .delimiter = ";"});
  ASSERT_NE(set, nullptr);
  EXPECT_THAT(Read<float>(*set, 0, {0, 1}), ElementsAre(2, 3, 5, 6));
  EXPECT_THAT(Read<float>(*set, 1, {0, 1}), ElementsAre(1, 4));
}

TEST(Csv, NamesAreNumberedInTheirOrderWhateverComesFirst) {
  const Files files;
  files.Write("a.csv", "colour,kind\nred,\"a, b\"\nblue,c\ngreen,\"say \"\"no\"\"\"\nred,c\n");
  const auto set = Opened({.paths = {files.root()},
                           .format = DataFormat::kCsv,
                           .label = "kind",
                           .classes = {"colour", "kind"}});
  ASSERT_NE(set, nullptr);
  EXPECT_THAT(set->Fields(), ElementsAre(DataField{"input", TensorType::kInt64, {1}},
                                         DataField{"label", TensorType::kInt64, {}}));
  EXPECT_THAT(Read<int64_t>(*set, 0, {0, 1, 2, 3}), ElementsAre(2, 0, 1, 2));
  EXPECT_THAT(Read<int64_t>(*set, 1, {0, 1, 2, 3}), ElementsAre(0, 1, 2, 1));
}

TEST(Csv, WholeNumbersAsClassesStandForThemselves) {
  const Files files;
  files.Write("a.csv", "x,digit\n0,7\n0,10\n0,2\n");
  const auto set = Opened({.paths = {files.root()},
                           .format = DataFormat::kCsv,
                           .label = "digit",
                           .classes = {"digit"}});
  ASSERT_NE(set, nullptr);
  EXPECT_THAT(Read<int64_t>(*set, 1, {0, 1, 2}), ElementsAre(7, 10, 2));
}

TEST(Csv, InputIsOfWholeNumbersWhereAllItsColumnsAreClasses) {
  const Files files;
  files.Write("a.csv", "a,b,y\n16777217,z,1\n0,x,2\n");
  files.Write("b.csv", "y,b,a\n3,y,16777216\n");
  const auto with = [&](std::vector<std::string> classes, std::vector<double> mean = {}) {
    return Opened({.paths = {files.root()},
                   .format = DataFormat::kCsv,
                   .columns = {"b", "a"},
                   .label = "y",
                   .classes = std::move(classes),
                   .mean = std::move(mean)});
  };
  const auto whole = with({"a", "b"});
  ASSERT_NE(whole, nullptr);
  EXPECT_THAT(whole->Fields(), ElementsAre(DataField{"input", TensorType::kInt64, {2}},
                                           DataField{"label", TensorType::kFloat32, {}}));
  EXPECT_THAT(Read<int64_t>(*whole, 0, {0, 1, 2}), ElementsAre(2, 16777217, 0, 0, 1, 16777216));
  EXPECT_THAT(Read<float>(*whole, 1, {0, 1, 2}), ElementsAre(1, 2, 3));
  // One column of numbers makes reals of all.
  const auto mixed = with({"b"});
  ASSERT_NE(mixed, nullptr);
  EXPECT_EQ(mixed->Fields()[0].type, TensorType::kFloat32);
  EXPECT_THAT(Read<float>(*mixed, 0, {1, 2}), ElementsAre(0, 0, 1, 16777216));
  EXPECT_NE(mixed->ContentHash(), whole->ContentHash());
  const auto normal = with({"a", "b"}, {0});
  ASSERT_NE(normal, nullptr);
  EXPECT_EQ(normal->Fields()[0].type, TensorType::kFloat32);
  EXPECT_THAT(Read<float>(*normal, 0, {1, 2}), ElementsAre(0, 0, 1, 16777216));
}

TEST(Declared, WhatFilesHoldIsHeldAgainstIt) {
  const Files files;
  files.Write("csv/a.csv", "a,b,y\n1,0.5,3\n");
  files.Write("csv/b.csv", "a,b,y\n2,1,-4\n7,1,1.5\n");
  files.Write("npy/x.npy", Npy(">f8", {2, 3, 1}, std::string(48, '\0')));
  files.Write("npy/y.npy", Npy("|u1", {2}, "ab"));
  using Types = std::map<std::string, TensorType>;
  using Shapes = std::map<std::string, std::vector<int64_t>>;
  const auto error = [&](const char* folder, DataFormat format, Types types, Shapes shapes = {}) {
    return OpenDataSet({.paths = {files.root() + "/" + folder},
                        .format = format,
                        .label = "y",
                        .types = std::move(types),
                        .shapes = std::move(shapes)},
                       7)
        .status();
  };
  constexpr auto kCsv = DataFormat::kCsv, kNumpy = DataFormat::kNumpy;
  constexpr auto kReal = TensorType::kFloat32, kWhole = TensorType::kInt64;
  EXPECT_EQ(error("csv", kCsv, {{"a", kWhole}, {"b", kReal}, {"y", kReal}}), absl::OkStatus());
  EXPECT_EQ(error("npy", kNumpy, {{"x", TensorType::kFloat64}, {"y", TensorType::kUint8}},
                  {{"x", {3, 1}}, {"y", {}}}),
            absl::OkStatus());
  const struct {
    absl::Status status;
    absl::StatusCode code;
    std::string message;  // ends so
  } kWrong[] = {
      {error("csv", kCsv, {{"y", kWhole}}), absl::StatusCode::kDataLoss,
       "/csv/b.csv: line 3 (byte 13): column 'y': '1.5' is no whole number, and data.types.y "
       "declares int64"},
      {error("csv", kCsv, {{"c", kWhole}}), absl::StatusCode::kFailedPrecondition,
       "data.types: 'c' is no column that is used"},
      {error("csv", kCsv, {{"a", TensorType::kInt8}}), absl::StatusCode::kFailedPrecondition,
       "data.types: 'a' is a column of CSV, which is float32 or int64, and never int8"},
      {error("npy", kNumpy, {{"x", kReal}}), absl::StatusCode::kDataLoss,
       "/npy/x.npy: 'x' is float64, and data.types.x declares float32"},
      {error("npy", kNumpy, {}, {{"x", {1, 3}}}), absl::StatusCode::kDataLoss,
       "/npy/x.npy: a sample of 'x' has the shape (3, 1), and data.shapes.x declares (1, 3)"},
      {error("npy", kNumpy, {}, {{"y", {1}}}), absl::StatusCode::kDataLoss,
       "/npy/y.npy: a sample of 'y' has the shape (), and data.shapes.y declares (1)"},
      {error("npy", kNumpy, {{"z", kReal}}), absl::StatusCode::kFailedPrecondition,
       "data.types: 'z' is no key that is used; these are: x, y"},
      {error("npy", kNumpy, {}, {{"z", {}}}), absl::StatusCode::kFailedPrecondition,
       "data.shapes: 'z' is no key that is used; these are: x, y"}};
  for (const auto& [status, code, message] : kWrong) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), testing::EndsWith(message));
  }
}

TEST(Declared, ClassesAreNames) {
  const Files files;
  files.Write("a.csv", "a,b\n1,2\n");
  EXPECT_THAT(std::string(OpenDataSet({.paths = {files.root()},
                                       .format = DataFormat::kCsv,
                                       .classes = {"a"},
                                       .types = {{"a", TensorType::kInt64}}},
                                      7)
                              .status()
                              .message()),
              HasSubstr("data.types: 'a' stands in data.classes"));
}

// As reals, two of them would be one.
TEST(Csv, ClassesThatAFloatCannotTellApartAreRefusedBesideNumbers) {
  const Files files;
  files.Write("a.csv", "a,b\n16777217,0.5\n16777216,0.5\n");
  const absl::Status status =
      OpenDataSet({.paths = {files.root()}, .format = DataFormat::kCsv, .classes = {"a"}}, 7)
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("data.classes: column 'a' has a class of number 16777217; at most 2^24"));
}

// Options of a task that is measured with files of their own.
TaskOptions Measuring(DataSpec data, const std::string& path) {
  TaskOptions options;
  options.data = std::move(data);
  options.part = DataPart::kValidation;
  options.validation_paths = {path};
  return options;
}

TEST(Csv, IsMeasuredWithTheNamesAndColumnsOfTraining) {
  const Files files;
  files.Write("train/a.csv", "x,y,kind,from\n1,2,dog,1\n3,4,fish,2\n");
  files.Write("train/b.csv", "x,y,kind,from\n5,6,cat,x\n");
  const DataSpec data{.paths = {files.root() + "/train"},
                      .format = DataFormat::kCsv,
                      .label = "kind",
                      .classes = {"kind", "from"}};
  const auto set = OpenDataSet(
      Measuring(data, files.Write("some.csv", "more,kind,from,y,x\n0,fish,2,8,7\n0,dog,1,10,9\n")));
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_THAT(Read<float>(**set, 0, {0, 1}), ElementsAre(7, 8, 1, 9, 10, 0));
  EXPECT_THAT(Read<int64_t>(**set, 1, {0, 1}), ElementsAre(2, 1));
  TaskOptions other =
      Measuring(data, files.Write("other.csv", "x,y,kind,from\n1,2,dog,1\n1,2,bird,1\n"));
  for (const OnBadSample on_bad_sample : {OnBadSample::kStop, OnBadSample::kSkip}) {
    other.data.on_bad_sample = on_bad_sample;
    const absl::Status status = OpenDataSet(other).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(other.validation_paths[0] +
                          ": line 3 (byte 24): column 'kind': 'bird' is no class of this column in "
                          "data.paths"));
  }
}

TEST(Csv, ALongCellThatIsWrongIsToldByItsBeginAndThatItIsCut) {
  const Files files;
  const std::string path = files.Write("a.csv", "x,y\n1,\"" + std::string(5000, '7') + "x\"\n");
  TaskOptions options;
  options.data = {.paths = {path}, .format = DataFormat::kCsv, .label = "y"};
  EXPECT_THAT(std::string(OpenDataSet(options).status().message()),
              HasSubstr("column 'y': '" + std::string(37, '7') + "...' is no number"));
}

TEST(Csv, WholeNumbersStandForThemselvesWhereTheyDoInTraining) {
  const Files files;
  const auto labels = [&](const std::string& trained, const std::string& measured) {
    const DataSpec data{.paths = {files.Write("train.csv", "x,y\n" + trained)},
                        .format = DataFormat::kCsv,
                        .label = "y",
                        .classes = {"y"}};
    const auto set = OpenDataSet(Measuring(data, files.Write("v.csv", "x,y\n" + measured)));
    EXPECT_TRUE(set.ok()) << set.status();
    return set.ok() ? Read<int64_t>(**set, 1, {0, 1}) : std::vector<int64_t>();
  };
  EXPECT_THAT(labels("1,0\n1,5\n", "1,5\n1,7\n"), ElementsAre(5, 7));
  EXPECT_THAT(labels("1,3\n1,5\n1,x\n", "1,5\n1,3\n"), ElementsAre(1, 0));
}

// Also where the first line is longer than what is read of the file first.
TEST(Csv, IsMeasuredWithTheColumnsOfTrainingWhereThereIsNoClass) {
  const Files files;
  constexpr int kColumns = 1000;
  std::string header, row, turned_header, turned_row;
  for (int i = 0; i < kColumns; ++i) {
    const char* const end = i == kColumns - 1 ? "\n" : ",";
    const int turned = kColumns - 1 - i;
    const std::string name(100, 'c');
    absl::StrAppend(&header, name, i, end);
    absl::StrAppend(&row, i, end);
    absl::StrAppend(&turned_header, name, turned, end);
    absl::StrAppend(&turned_row, turned, end);
  }
  const DataSpec data{.paths = {files.Write("train.csv", header + row + row)},
                      .format = DataFormat::kCsv};
  const auto set = OpenDataSet(Measuring(data, files.Write("v.csv", turned_header + turned_row)));
  ASSERT_TRUE(set.ok()) << set.status();
  std::vector<float> expected(kColumns);
  std::iota(expected.begin(), expected.end(), 0.0f);
  EXPECT_EQ(Read<float>(**set, 0, {0}), expected);
}

TEST(Csv, ColumnsTakeAShapeAndAMeanEach) {
  const Files files;
  files.Write("a.csv", "a,b,c,d\n1,2,3,4\n");
  const auto shaped =
      Opened({.paths = {files.root()}, .format = DataFormat::kCsv, .shape = {1, 2, 2}});
  ASSERT_NE(shaped, nullptr);
  EXPECT_THAT(shaped->Fields()[0].shape, ElementsAre(1, 2, 2));
  const auto normal = Opened({.paths = {files.root()},
                              .format = DataFormat::kCsv,
                              .mean = {1, 1, 1, 2},
                              .deviation = {2}});
  ASSERT_NE(normal, nullptr);
  EXPECT_THAT(Read<float>(*normal, 0, {0}), ElementsAre(0, 0.5f, 1, 1));
}

// ---- arrays

TEST(Numpy, FilesOfOneNameAreOneArrayAndReadInPlace) {
  const Files files;
  files.Write("1/x.npy", Npy("<f4", {2, 3}, Bytes<float>({0, 1, 2, 3, 4, 5})));
  files.Write("1/y.npy", Npy("<i4", {2}, Bytes<int32_t>({-1, 5})));
  files.Write("2/x.npy", Npy("<f4", {1, 3}, Bytes<float>({6, 7, 8})));
  files.Write("2/y.npy", Npy("<i4", {1}, Bytes<int32_t>({9})));
  const auto set = Opened({.paths = {files.root()}, .format = DataFormat::kNumpy, .label = "y"});
  ASSERT_NE(set, nullptr);
  EXPECT_THAT(set->Fields(), ElementsAre(DataField{"x", TensorType::kFloat32, {3}},
                                         DataField{"y", TensorType::kInt64, {}}));
  EXPECT_THAT(Read<float>(*set, 0, {2, 0}), ElementsAre(6, 7, 8, 0, 1, 2));
  EXPECT_THAT(Read<int64_t>(*set, 1, {2, 0, 1}), ElementsAre(9, -1, 5));
}

TEST(Numpy, StoredAndDeflatedMembersAreTheSame) {
  const Files files;
  const std::string x = Npy("<i8", {2, 2}, Bytes<int64_t>({1, 2, 3, 4}));
  const std::string y = Npy("|u1", {2}, "\x07\x09");
  std::vector<std::string> hashes;
  for (const bool deflated : {false, true}) {
    SCOPED_TRACE(deflated);
    const std::string file =
        files.Write(absl::StrCat(deflated, ".npz"), Zip({{"x.npy", x}, {"y.npy", y}}, deflated));
    const auto set =
        Opened({.paths = {file}, .format = DataFormat::kNumpy, .keys = {"x"}, .label = "y"});
    ASSERT_NE(set, nullptr);
    EXPECT_THAT(Read<int64_t>(*set, 0, {1, 0}), ElementsAre(3, 4, 1, 2));
    EXPECT_THAT(Read<int64_t>(*set, 1, {1, 0}), ElementsAre(9, 7));
    hashes.push_back(set->ContentHash());
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

// Members that are too large to be read ahead of the hash: the checksum is looked at with it, also
// of bytes that are no sample's.
class LargeStoredMembers : public testing::Test {
 protected:
  static constexpr int kRows = 3 << 10;  // of a KiB
  static constexpr size_t kRowBytes = 1024;

  // Of `at` a bit turned.
  absl::Status Open(const std::string& name, std::string bytes, std::optional<size_t> at,
                    DataFormat format, const std::string& member) const {
    if (at) bytes[*at] = static_cast<char>(bytes[*at] ^ 4);
    const std::string file = files_.Write(name, bytes);
    const absl::Status status = OpenDataSet({.paths = {file}, .format = format}, 1).status();
    if (at) {
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(absl::StrCat(file, " (", member, "): its checksum differs")));
    }
    return status;
  }

  const Files files_;
  const std::string rows_ = std::string(kRows * kRowBytes, '\1');
};

TEST_F(LargeStoredMembers, OfNpzAreHeldAgainstTheirChecksum) {
  const std::string npy = Npy("|u1", {kRows, kRowBytes}, rows_ + "behind");
  const std::string npz = Zip({{"x.npy", npy}}, false);
  const size_t end = npz.find("PK\x01\x02");
  const auto open = [&](std::optional<size_t> at) {
    return Open("f.npz", npz, at, DataFormat::kNumpy, "x.npy").code();
  };
  EXPECT_EQ(open(std::nullopt), absl::StatusCode::kOk);
  EXPECT_EQ(open(end - 1), absl::StatusCode::kDataLoss);  // behind the array
  EXPECT_EQ(open(end - 7), absl::StatusCode::kDataLoss);  // of the last row
  EXPECT_EQ(open(end - 2 * kRowBytes), absl::StatusCode::kDataLoss);
  EXPECT_EQ(open(end - kRows * kRowBytes), absl::StatusCode::kDataLoss);
}

TEST_F(LargeStoredMembers, OfPtAreHeldAgainstTheirChecksumUnlessItIsNone) {
  // Every second row from the second on, and another tensor at the begin of the same storage.
  const std::string pickle =
      PtDict({{"x", PtPickle({"ByteStorage", "0", kRowBytes, {kRows / 2, 512}, {2048, 1}})},
              {"y", PtPickle({"ByteStorage", "0", 0, {kRows / 2}, {1}})}});
  std::string pt = Pt(pickle, {rows_});
  const size_t begin = pt.find(rows_.substr(0, kRowBytes));
  const auto open = [&](std::optional<size_t> at) {
    return Open("f.pt", pt, at, DataFormat::kPt, "a/data/0").code();
  };
  EXPECT_EQ(open(std::nullopt), absl::StatusCode::kOk);
  EXPECT_EQ(open(begin), absl::StatusCode::kDataLoss);
  EXPECT_EQ(open(begin + 2 * kRowBytes - 1), absl::StatusCode::kDataLoss);  // between rows
  EXPECT_EQ(open(begin + rows_.size() - 1), absl::StatusCode::kDataLoss);   // behind them
  pt.replace(pt.rfind("a/data/0") - 30, 4, std::string(4, '\0'));
  pt[begin] = '\2';
  EXPECT_EQ(open(std::nullopt), absl::StatusCode::kOk);
}

// As numpy, where it looks at them: of all formats whose arrays lie as they were stored.
TEST(Arrays, EachByteOfABooleanButZeroIsTrue) {
  const Files files;
  const std::string bytes("\7\0\1\xff", 4);
  const std::string npy = Npy("|b1", {4}, bytes);
  const struct {
    std::string name, content;
    DataFormat format;
  } kFiles[] = {{"x.npy", npy, DataFormat::kNumpy},
                {"stored.npz", Zip({{"x.npy", npy}}, false), DataFormat::kNumpy},
                {"packed.npz", Zip({{"x.npy", npy}}, true), DataFormat::kNumpy},
                {"f.safetensors",
                 Safetensors(R"({"x":{"dtype":"BOOL","shape":[4],"data_offsets":[0,4]}})", bytes),
                 DataFormat::kSafetensors},
                {"f.pt", Pt(PtDict({{"x", PtPickle({"BoolStorage", "0", 0, {4}, {1}})}}), {bytes}),
                 DataFormat::kPt}};
  for (const auto& file : kFiles) {
    SCOPED_TRACE(file.name);
    const auto set =
        Opened({.paths = {files.Write(file.name, file.content)}, .format = file.format});
    ASSERT_NE(set, nullptr);
    EXPECT_THAT(Read<uint8_t>(*set, 0, {0, 1, 2, 3}), ElementsAre(1, 0, 1, 1));
  }
}

// Of these 6 samples of 2 by 3 the numbers are 100 * sample + 10 * row + column.
TEST(Numpy, FortransOrderHasTheSameSamples) {
  const Files files;
  std::vector<int16_t> in_c, in_fortran;
  for (int16_t n = 0; n < 6; ++n)
    for (int16_t i = 0; i < 2; ++i)
      for (int16_t j = 0; j < 3; ++j) in_c.push_back(static_cast<int16_t>(100 * n + 10 * i + j));
  for (int16_t j = 0; j < 3; ++j)
    for (int16_t i = 0; i < 2; ++i)
      for (int16_t n = 0; n < 6; ++n)
        in_fortran.push_back(static_cast<int16_t>(100 * n + 10 * i + j));
  const std::string c = Npy("<i2", {6, 2, 3}, Bytes<int16_t>(in_c));
  const std::string fortran = Npy("<i2", {6, 2, 3}, Bytes<int16_t>(in_fortran), "True");
  std::vector<std::string> hashes;
  const std::vector<std::string> paths = {
      files.Write("c/x.npy", c), files.Write("fortran/x.npy", fortran),
      files.Write("stored.npz", Zip({{"x.npy", fortran}}, false)),
      files.Write("packed.npz", Zip({{"x.npy", fortran}}, true))};
  for (const std::string& path : paths) {
    SCOPED_TRACE(path);
    const auto set = Opened({.paths = {path}, .format = DataFormat::kNumpy});
    ASSERT_NE(set, nullptr);
    EXPECT_THAT(Read<int16_t>(*set, 0, {5, 0}),
                ElementsAre(500, 501, 502, 510, 511, 512, 0, 1, 2, 10, 11, 12));
    hashes.push_back(set->ContentHash());
  }
  EXPECT_THAT(hashes, testing::Each(hashes[0]));
}

// More samples, and more numbers of one, than are turned at a time.
TEST(Numpy, LargeOnesOfFortransOrderHaveTheSameSamples) {
  const Files files;
  for (const auto& [rows, columns] :
       {std::pair(150'000, 3), std::pair(5, 300'000), std::pair(70'000, 70)}) {
    SCOPED_TRACE(rows);
    std::string in_c, in_fortran;
    const auto value = [](int row, int column) {
      return static_cast<char>((row * 31 + column * 7 + row / 256) & 0xff);
    };
    for (int row = 0; row < rows; ++row)
      for (int column = 0; column < columns; ++column) in_c.push_back(value(row, column));
    for (int column = 0; column < columns; ++column)
      for (int row = 0; row < rows; ++row) in_fortran.push_back(value(row, column));
    const std::string c = files.Write("c/x.npy", Npy("|u1", {rows, columns}, in_c));
    const std::string fortran =
        files.Write("fortran/x.npy", Npy("|u1", {rows, columns}, in_fortran, "True"));
    const auto theirs = Opened({.paths = {c}, .format = DataFormat::kNumpy});
    const auto ours = Opened({.paths = {fortran}, .format = DataFormat::kNumpy});
    ASSERT_TRUE(theirs != nullptr && ours != nullptr);
    EXPECT_EQ(ours->ContentHash(), theirs->ContentHash());
  }
}

TEST(Numpy, OfFortransOrderAFileThatChangesIsNoticed) {
  const Files files;
  const std::string content = Npy("<f4", {2, 2}, Bytes<float>({0, 2, 1, 3}), "True");
  const std::string path = files.Write("x.npy", content);
  const auto set = Opened({.paths = {path}, .format = DataFormat::kNumpy});
  ASSERT_NE(set, nullptr);
  EXPECT_THAT(Read<float>(*set, 0, {1}), ElementsAre(2, 3));
  files.Write("x.npy", content + "more");
  EXPECT_TRUE(absl::IsDataLoss(set->Read(-1, std::vector<uint64_t>{1}).status()));
}

TEST(Numpy, OtherRealsBecomeFloat32WhateverTheirByteOrder) {
  const Files files;
  const uint64_t one_and_a_half = 0x3ff8000000000000u;
  std::string swapped = Little(one_and_a_half);
  std::reverse(swapped.begin(), swapped.end());
  files.Write("a.npy", Npy(">f8", {1, 1}, swapped));
  files.Write("b.npy", Npy("<f2", {1, 3}, Bytes<uint16_t>({0x3c00, 0xc000, 0x0001})));
  files.Write("c.npy", Npy("<f8", {1}, Bytes<double>({1e-40})));
  const auto set = Opened({.paths = {files.root()}, .format = DataFormat::kNumpy});
  ASSERT_NE(set, nullptr);
  EXPECT_THAT(Read<float>(*set, 0, {0}), ElementsAre(1.5f));
  EXPECT_THAT(Read<float>(*set, 1, {0}), ElementsAre(1, -2, 0x1p-24f));
  EXPECT_THAT(Read<float>(*set, 2, {0}), ElementsAre(0));  // below float32's normal range
}

TEST(Safetensors, TensorsAreFields) {
  const Files files;
  const std::string file = files.Write(
      "a.safetensors", Safetensors(R"({"__metadata__":{"format":"pt"},)"
                                   R"("x":{"dtype":"BF16","shape":[2,2],"data_offsets":[2,10]},)"
                                   R"("y":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
                                   "\x03\x04" + Bytes<uint16_t>({0x3f80, 0x4000, 0xbf80, 0x0000})));
  const auto set = Opened({.paths = {file}, .format = DataFormat::kSafetensors, .label = "y"});
  ASSERT_NE(set, nullptr);
  EXPECT_THAT(Read<float>(*set, 0, {1, 0}), ElementsAre(-1, 0, 1, 2));
  EXPECT_THAT(Read<int64_t>(*set, 1, {1, 0}), ElementsAre(4, 3));
}

TEST(Pt, TensorsOfADictAreFieldsWhateverElseStandsThere) {
  const Files files;
  // As a module's state is saved: an ordered dict, with attributes.
  const std::string items = PtDict({{"x", PtPickle({"FloatStorage", "0", 0, {2, 2}, {2, 1}})},
                                    {"epoch", "K\x07"},
                                    {"y", PtPickle({"LongStorage", "1", 1, {2}, {1}})},
                                    {"names", "]X\x01\0\0\0na"s}});
  const std::string pickle =
      "ccollections\nOrderedDict\n)R" + items.substr(1) + "}" + PtText("_metadata") + "}sb";
  std::vector<std::string> hashes;
  for (const bool deflated : {false, true}) {
    const std::string file =
        files.Write(absl::StrCat(deflated, ".pt"),
                    Pt(pickle, {Bytes<float>({1, 2, 3, 4}), Bytes<int64_t>({9, 5, 7})}, deflated));
    const auto set = Opened({.paths = {file}, .format = DataFormat::kPt, .label = "y"});
    ASSERT_NE(set, nullptr);
    EXPECT_THAT(set->Fields(), ElementsAre(DataField{"x", TensorType::kFloat32, {2}},
                                           DataField{"y", TensorType::kInt64, {}}));
    EXPECT_THAT(Read<float>(*set, 0, {1, 0}), ElementsAre(3, 4, 1, 2));
    EXPECT_THAT(Read<int64_t>(*set, 1, {0, 1}), ElementsAre(5, 7));
    hashes.push_back(set->ContentHash());
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

TEST(Pt, ATensorAloneHasTheNameOfItsFileAndATupleHasNumbers) {
  const Files files;
  const PtTensor x{"ShortStorage", "0", 0, {3}, {1}};
  const std::string one = files.Write("n.pt", Pt(PtPickle(x), {Bytes<int16_t>({1, 2, -3})}));
  // The tensor is put aside, and taken from there: both name one.
  const std::string two =
      files.Write("t.pt", Pt("(" + PtPickle(x) + "q\x05" + "h\x05t", {Bytes<int16_t>({1, 2, -3})}));
  const auto alone = Opened({.paths = {one}, .format = DataFormat::kPt});
  const auto tuple = Opened({.paths = {two}, .format = DataFormat::kPt, .label = "1"});
  ASSERT_TRUE(alone != nullptr && tuple != nullptr);
  EXPECT_EQ(alone->Fields()[0].name, "n");
  EXPECT_THAT(Read<int16_t>(*alone, 0, {2, 0}), ElementsAre(-3, 1));
  EXPECT_EQ(tuple->Fields()[0].name, "0");
  EXPECT_THAT(Read<int64_t>(*tuple, 1, {2}), ElementsAre(-3));
}

TEST(Pt, EverySecondRowAndAPartOfEachAreReadInPlace) {
  const Files files;
  std::vector<float> numbers(24);
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  const std::string file = files.Write(  // of 6 by 4: [1::2, :2]
      "x.pt", Pt(PtPickle({"FloatStorage", "0", 4, {3, 2}, {8, 1}}), {Bytes(numbers)}));
  const auto set = Opened({.paths = {file}, .format = DataFormat::kPt});
  ASSERT_NE(set, nullptr);
  EXPECT_THAT(Read<float>(*set, 0, {0, 1, 2}), ElementsAre(4, 5, 12, 13, 20, 21));
}

TEST(Pt, BigEndianFilesAreTurned) {
  const Files files;
  const std::string file = files.Write("x.pt", Pt(PtPickle({"IntStorage", "0", 0, {2}, {1}}),
                                                  {Big32(7) + Big32(258)}, false, "big"));
  const auto set = Opened({.paths = {file}, .format = DataFormat::kPt});
  ASSERT_NE(set, nullptr);
  EXPECT_THAT(Read<int32_t>(*set, 0, {0, 1}), ElementsAre(7, 258));
}

TEST(Pt, WhatIsNotAskedForMayBeOfAnyType) {
  const Files files;
  const std::string file =
      files.Write("x.pt", Pt(PtDict({{"x", PtPickle({"FloatStorage", "0", 0, {1}, {1}})},
                                     {"c", PtPickle({"ComplexFloatStorage", "0", 0, {1}, {1}})}}),
                             {"1234"}));
  EXPECT_NE(Opened({.paths = {file}, .format = DataFormat::kPt, .keys = {"x"}}), nullptr);
}

TEST(IdxFormat, MnistsImagesAndLabelsAlsoInGzip) {
  const Files files;
  files.Write("train-images-idx3-ubyte",
              Idx(8, {2, 2, 2}, std::string("\x00\xff\x33\x66\x01\x02\x03\x04", 8)));
  files.Write("train-labels-idx1-ubyte.gz", Gzip(Idx(8, {2}, "\x05\x09")));
  const auto set = Opened({.paths = {files.root()}, .format = DataFormat::kIdx});
  ASSERT_NE(set, nullptr);
  EXPECT_THAT(set->Fields(), ElementsAre(DataField{"image", TensorType::kFloat32, {1, 2, 2}},
                                         DataField{"label", TensorType::kInt64, {}}));
  EXPECT_THAT(Read<float>(*set, 0, {0}), ElementsAre(0, 1, 0.2f, 0.4f));
  EXPECT_THAT(Read<int64_t>(*set, 1, {1, 0}), ElementsAre(9, 5));
}

TEST(IdxFormat, WiderNumbersStandInBigEndian) {
  const Files files;
  files.Write("a", Idx(0x0c, {2, 1}, Big32(1) + Big32(static_cast<uint32_t>(-2))));
  const auto set = Opened({.paths = {files.root()}, .format = DataFormat::kIdx});
  ASSERT_NE(set, nullptr);
  EXPECT_THAT(Read<int32_t>(*set, 0, {0, 1}), ElementsAre(1, -2));
}

std::string CifarRecord(const std::string& labels, char first, char last) {
  std::string image(3072, '\0');
  image.front() = first;
  image.back() = last;
  return labels + image;
}

TEST(Cifar, RecordsOfBothKinds) {
  const Files files;
  const std::string ten = files.Write(
      "10.bin", CifarRecord("\x03", '\x33', '\xff') + CifarRecord("\x09", '\x00', '\x66'));
  const std::string hundred = files.Write("100.bin", CifarRecord("\x11\x63", '\x33', '\xff'));
  const auto of_ten = Opened({.paths = {ten}, .format = DataFormat::kCifar10});
  const auto of_hundred = Opened({.paths = {hundred}, .format = DataFormat::kCifar100});
  ASSERT_TRUE(of_ten != nullptr && of_hundred != nullptr);
  EXPECT_THAT(Read<int64_t>(*of_ten, 1, {1, 0}), ElementsAre(9, 3));
  const std::vector<float> image = Read<float>(*of_ten, 0, {0});
  EXPECT_EQ(image.size(), 3072u);
  EXPECT_EQ(image.front(), 0.2f);
  EXPECT_EQ(image.back(), 1);
  EXPECT_THAT(Read<int64_t>(*of_hundred, 1, {0}), ElementsAre(99));
}

TEST(Text, RowsOfSoManyBytes) {
  const Files files;
  files.Write("a", "abcd");
  files.Write("b", "ef");
  const auto set = Opened({.paths = {files.root()}, .shape = {3}});
  ASSERT_NE(set, nullptr);
  EXPECT_EQ(set->Samples(), 2u);  // "abc", "d", a zero, "e"; "f" is left
  EXPECT_THAT(Read<char>(*set, 0, {1}), ElementsAre('d', '\0', 'e'));
}

// ---- images

TEST(Images, FoldersAreClassesInTheOrderOfTheirNames) {
  const Files files;
  files.Write("dog/1.png", Png(Slope(4, 4)));
  files.Write("cat/b/2.png", Png(Slope(4, 4)));
  files.Write("cat/a.jpg", Jpeg(Slope(4, 4)));
  const auto set = Opened({.paths = {files.root()}, .format = DataFormat::kImages});
  ASSERT_NE(set, nullptr);
  EXPECT_THAT(set->Fields(), ElementsAre(DataField{"image", TensorType::kFloat32, {3, 4, 4}},
                                         DataField{"label", TensorType::kInt64, {}}));
  EXPECT_THAT(Read<int64_t>(*set, 1, {0, 1, 2}), ElementsAre(0, 0, 1));
  const std::vector<float> image = Read<float>(*set, 0, {2});
  EXPECT_EQ(image[4], 63 / 255.0f);       // red, second row
  EXPECT_EQ(image[16 + 1], 63 / 255.0f);  // green, second column
  EXPECT_EQ(image[32], 128 / 255.0f);
}

TEST(OpenDataSet, OfNoPartIsAnErrorOfTheTaskThatOpensIt) {
  const Files files;
  TaskOptions options;
  options.data = {.paths = {files.Write("a.csv", "x\n1\n")}, .format = DataFormat::kCsv};
  EXPECT_TRUE(OpenDataSet(options).ok());
  options.part = DataPart::kNone;
  const absl::Status status = OpenDataSet(options).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("model_holds_all"));
}

TEST(Images, AreMeasuredWithTheClassesOfTraining) {
  const Files files;
  const std::string image = Png(Slope(4, 4));
  for (const char* name : {"cat", "dog", "fish"})
    files.Write(absl::StrCat("train/", name, "/1.png"), image);
  for (const char* name : {"dog", "fish"}) files.Write(absl::StrCat("v/", name, "/1.png"), image);
  TaskOptions options = Measuring(
      {.paths = {files.root() + "/train"}, .format = DataFormat::kImages}, files.root() + "/v");
  const auto set = OpenDataSet(options);
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_THAT(Read<int64_t>(**set, 1, {0, 1}), ElementsAre(1, 2));
  const std::string bird = files.Write("v/bird/1.png", image);
  for (const OnBadSample on_bad_sample : {OnBadSample::kStop, OnBadSample::kSkip}) {
    options.data.on_bad_sample = on_bad_sample;
    const absl::Status status = OpenDataSet(options).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(bird + ": its folder 'bird' is no class in data.paths"));
  }
  options.data.paths = {files.root() + "/nowhere"};
  EXPECT_THAT(std::string(OpenDataSet(options).status().message()),
              HasSubstr("what the model was trained with: data.paths: " + options.data.paths[0]));
}

TEST(Images, BecomeOneSizeAndGray) {
  const Files files;
  files.Write("a/1.png", Png(Slope(8, 16)));
  files.Write("b/2.png", Png(Slope(5, 5, 1)));
  const auto set = Opened({.paths = {files.root()},
                           .format = DataFormat::kImages,
                           .image_size = {4, 6},
                           .channels = 1});
  ASSERT_NE(set, nullptr);
  EXPECT_THAT(set->Fields()[0].shape, ElementsAre(1, 4, 6));
  EXPECT_EQ(Read<float>(*set, 0, {0, 1}).size(), 48u);
}

TEST(WebDataset, SamplesOfTarsHaveTheirLabels) {
  const Files files;
  const std::string image = Png(Slope(4, 4));
  files.Write("0.tar", Tar({{"a/1.png", image},
                            {"a/1.cls", "3"},
                            {"a/1.json", "{}"},
                            {"a/1.mask.png", "what we do not know"}}));
  // As tar does, which makes its files a round size long.
  files.Write("1.tar", Tar({{"a/2.cls", "5\n"}, {"a/2.png", image}}) + std::string(10 << 20, '\0'));
  const auto set = Opened({.paths = {files.root()}, .format = DataFormat::kWebDataset});
  ASSERT_NE(set, nullptr);
  EXPECT_THAT(Read<int64_t>(*set, 1, {0, 1}), ElementsAre(3, 5));
  EXPECT_EQ(Read<float>(*set, 0, {0}), Read<float>(*set, 0, {1}));
}

// ---- what a job asks for

TEST(Normalisation, OfEachChannel) {
  const Files files;
  files.Write("a/1.png", Png({1, 1, 3, "\x33\x66\xff"}));
  const auto set = Opened({.paths = {files.root()},
                           .format = DataFormat::kImages,
                           .mean = {0.2, 0.2, 0.5},
                           .deviation = {1, 0.1, 0.25}});
  ASSERT_NE(set, nullptr);
  const std::vector<float> image = Read<float>(*set, 0, {0});
  ASSERT_EQ(image.size(), 3u);
  EXPECT_NEAR(image[0], 0, 1e-7);
  EXPECT_NEAR(image[1], 2, 1e-6);
  EXPECT_NEAR(image[2], 2, 1e-6);
}

TEST(Normalisation, OneMeanIsForAllAndBytesCountAsShares) {
  const Files files;
  files.Write("x.npy", Npy("|u1", {2, 3}, std::string("\x00\x33\xff\xff\x00\x66", 6)));
  const auto set =
      Opened({.paths = {files.root()}, .format = DataFormat::kNumpy, .deviation = {0.5}});
  ASSERT_NE(set, nullptr);
  EXPECT_THAT(Read<float>(*set, 0, {1, 0}), ElementsAre(2, 0, 0.8f, 0, 0.4f, 2));
}

std::string Numbered(int count) {
  std::vector<int32_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return Npy("<i4", {count}, Bytes(numbers));
}

TEST(Split, EverySampleIsOfOnePartAndMoreDataMovesNone) {
  const Files files;
  const std::string few = files.Write("few/n.npy", Numbered(100));
  const std::string many = files.Write("many/n.npy", Numbered(1000));
  std::vector<std::set<int32_t>> parts;
  for (const std::string& file : {few, many})
    for (const DataPart part : {DataPart::kTraining, DataPart::kValidation}) {
      const DataSpec data{
          .paths = {file}, .format = DataFormat::kNumpy, .validation_share = 0.2, .split_seed = 3};
      const auto set = Opened(data, part);
      ASSERT_NE(set, nullptr);
      std::vector<uint64_t> ids(set->Samples());
      std::iota(ids.begin(), ids.end(), 0);
      const std::vector<int32_t> numbers = Read<int32_t>(*set, 0, ids);
      EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end()));
      parts.emplace_back(numbers.begin(), numbers.end());
    }
  EXPECT_EQ(parts[0].size() + parts[1].size(), 100u);
  EXPECT_EQ(parts[2].size() + parts[3].size(), 1000u);
  EXPECT_NEAR(static_cast<double>(parts[3].size()), 200, 60);
  for (int32_t i = 0; i < 100; ++i) {
    EXPECT_NE(parts[0].contains(i), parts[1].contains(i)) << i;
    EXPECT_EQ(parts[1].contains(i), parts[3].contains(i)) << i;
  }
}

TEST(Split, AnotherSeedIsAnotherSplit) {
  const DataSpec one{.validation_share = 0.5, .split_seed = 1};
  const DataSpec two{.validation_share = 0.5, .split_seed = 2};
  int differs = 0;
  for (uint64_t id = 0; id < 1000; ++id)
    differs += IsForValidation(one, id) != IsForValidation(two, id);
  EXPECT_NEAR(differs, 500, 100);
}

TEST(Split, ATaskWithSamplesOfItsOwnAsksOfEachWhetherItIsOfItsPart) {
  TaskOptions options;
  for (const double share : {0.0, 0.3}) {
    options.data.validation_share = share;
    options.validation_paths.clear();
    for (uint64_t id = 0; id < 100; ++id) {
      const bool is_measured = IsForValidation(options.data, id);
      options.part = DataPart::kTraining;
      EXPECT_EQ(IsOfPart(options, id), !is_measured) << id;
      options.part = DataPart::kValidation;
      EXPECT_EQ(IsOfPart(options, id), is_measured) << id;
      options.part = DataPart::kAll;
      EXPECT_TRUE(IsOfPart(options, id)) << id;
    }
    options.validation_paths = {"held-out"};
    options.part = DataPart::kValidation;
    for (uint64_t id = 0; id < 100; ++id) EXPECT_TRUE(IsOfPart(options, id)) << "of those files";
    options.part = DataPart::kTraining;
    EXPECT_EQ(IsOfPart(options, 7), !IsForValidation(options.data, 7));
  }
}

class RandomChange : public testing::Test {
 protected:
  RandomChange() {
    std::string pixels;
    for (int id = 0; id < 64; ++id) pixels += Slope(8, 8, 3).pixels;
    files_.Write("x.npy", Npy("|u1", {64, 3, 8, 8}, pixels));
  }
  DataSpec Data(uint64_t crop, bool flip) const {
    return {.paths = {files_.root()}, .format = DataFormat::kNumpy, .crop = crop, .flip = flip};
  }
  const Files files_;
};

TEST_F(RandomChange, DependsOnEpochAndSampleAndOnNothingElse) {
  const auto set = Opened(Data(2, true)), again = Opened(Data(2, true));
  ASSERT_TRUE(set != nullptr && again != nullptr);
  EXPECT_EQ(Read<char>(*set, 0, {5, 9}, 3), Read<char>(*again, 0, {5, 9}, 3));
  const std::vector<char> alone = Read<char>(*set, 0, {9}, 3), two = Read<char>(*set, 0, {5, 9}, 3);
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), two.begin() + 192));
  std::set<std::vector<char>> of_epochs, of_samples;
  for (int64_t epoch = 0; epoch < 20; ++epoch) of_epochs.insert(Read<char>(*set, 0, {9}, epoch));
  for (uint64_t id = 0; id < 20; ++id) of_samples.insert(Read<char>(*set, 0, {id}, 3));
  EXPECT_GT(of_epochs.size(), 10u);
  EXPECT_GT(of_samples.size(), 10u);
}

TEST_F(RandomChange, MirrorsHalfAndIsUndoneByMirroringAgain) {
  const auto set = Opened(Data(0, true)), plain = Opened(Data(0, false));
  ASSERT_TRUE(set != nullptr && plain != nullptr);
  const std::vector<char> original = Read<char>(*plain, 0, {0});
  std::vector<char> mirrored;
  for (size_t row = 0; row < 24; ++row)
    for (size_t x = 0; x < 8; ++x) mirrored.push_back(original[row * 8 + 7 - x]);
  int count = 0;
  for (uint64_t id = 0; id < 64; ++id) {
    const std::vector<char> read = Read<char>(*set, 0, {id});
    EXPECT_TRUE(read == original || read == mirrored) << id;
    count += read == mirrored;
  }
  EXPECT_NEAR(count, 32, 16);
}

// The dumb twin: the picture laid into a larger one of zeros, of which a part is cut.
TEST_F(RandomChange, MovesByAtMostSoManyPixelsAndFillsWithZeros) {
  const auto set = Opened(Data(2, false)), plain = Opened(Data(0, false));
  ASSERT_TRUE(set != nullptr && plain != nullptr);
  const std::vector<char> original = Read<char>(*plain, 0, {0});
  std::set<std::vector<char>> possible, seen;
  for (size_t top = 0; top <= 4; ++top)
    for (size_t left = 0; left <= 4; ++left) {
      std::vector<char> cut;
      for (size_t c = 0; c < 3; ++c) {
        char larger[12][12] = {};
        for (size_t y = 0; y < 8; ++y)
          for (size_t x = 0; x < 8; ++x) larger[y + 2][x + 2] = original[c * 64 + y * 8 + x];
        for (size_t y = 0; y < 8; ++y)
          for (size_t x = 0; x < 8; ++x) cut.push_back(larger[y + top][x + left]);
      }
      possible.insert(cut);
    }
  for (int64_t epoch = 0; epoch < 10; ++epoch)
    for (uint64_t id = 0; id < 64; ++id) seen.insert(Read<char>(*set, 0, {id}, epoch));
  EXPECT_EQ(seen, possible);
}

TEST_F(RandomChange, IsNotDoneWithoutAnEpoch) {
  const auto set = Opened(Data(2, true)), plain = Opened(Data(0, false));
  ASSERT_TRUE(set != nullptr && plain != nullptr);
  for (uint64_t id = 0; id < 10; ++id)
    EXPECT_EQ(Read<char>(*set, 0, {id}, -1), Read<char>(*plain, 0, {id}, -1));
}

TEST_F(RandomChange, IsNotDoneForValidation) {
  DataSpec data = Data(2, true);
  data.validation_share = 0.5;
  const auto set = Opened(data, DataPart::kValidation), plain = Opened(Data(0, false));
  ASSERT_TRUE(set != nullptr && plain != nullptr);
  EXPECT_EQ(Read<char>(*set, 0, {0}), Read<char>(*plain, 0, {0}));
}

// ---- any thread, and files that change

TEST(DataSet, ManyThreadsReadTheSame) {
  const Files files;
  files.Write("a/1.jpg", Jpeg(Slope(40, 50)));
  files.Write("b/2.png", Png(Slope(40, 50)));
  const auto set = Opened({.paths = {files.root()},
                           .format = DataFormat::kImages,
                           .image_size = {16, 16},
                           .crop = 2,
                           .flip = true});
  ASSERT_NE(set, nullptr);
  const std::vector<float> alone = Read<float>(*set, 0, {0, 1, 0});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) EXPECT_EQ(Read<float>(*set, 0, {0, 1, 0}), alone);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(DataSet, AFileThatChangesIsNamed) {
  const Files files;
  const std::string file = files.Write("n.npy", Numbered(10));
  const auto set = Opened({.paths = {file}, .format = DataFormat::kNumpy});
  ASSERT_NE(set, nullptr);
  files.Write("n.npy", Numbered(11));
  const absl::Status status = set->Read(0, std::vector<uint64_t>{3}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(file + ": it has changed since the job began"));
}

struct OfFormat {
  const char* name;
  std::string content;
  DataSpec data;
};
std::vector<OfFormat> FilesOfEachFormat() {
  const std::string x = Npy("<i4", {2}, "12345678");
  return {
      {"x.npy", x, {.format = DataFormat::kNumpy}},
      {"x.npz", Zip({{"x.npy", x}}, false), {.format = DataFormat::kNumpy}},
      {"packed.npz", Zip({{"x.npy", x}}, true), {.format = DataFormat::kNumpy}},
      {"x.safetensors",
       Safetensors(R"({"x":{"dtype":"I32","shape":[2],"data_offsets":[0,8]}})", "12345678"),
       {.format = DataFormat::kSafetensors}},
      {"x.pt",
       Pt(PtPickle({"IntStorage", "0", 0, {2}, {1}}), {"12345678"}),
       {.format = DataFormat::kPt}},
      {"packed.pt",
       Pt(PtPickle({"IntStorage", "0", 0, {2}, {1}}), {"12345678"}, true),
       {.format = DataFormat::kPt}},
      {"train-images-idx3-ubyte", Idx(8, {2, 2, 2}, "12345678"), {.format = DataFormat::kIdx}},
      {"train-images-idx3-ubyte.gz",
       Gzip(Idx(8, {2, 2, 2}, "12345678")),
       {.format = DataFormat::kIdx}},
      {"10.bin", CifarRecord("\x03", 'a', 'b'), {.format = DataFormat::kCifar10}},
      {"100.bin", CifarRecord("\x03\x04", 'a', 'b'), {.format = DataFormat::kCifar100}},
      {"dog/1.png", Png(Slope(4, 4)), {.format = DataFormat::kImages}},
      {"dog/1.jpg", Jpeg(Slope(4, 4)), {.format = DataFormat::kImages}},
      {"0.tar",
       Tar({{"1.png", Png(Slope(4, 4))}, {"1.cls", "3"}}),
       {.format = DataFormat::kWebDataset}},
      {"x.csv", "x\n1\n2\n", {.format = DataFormat::kCsv}},
      {"labelled.csv", "x,y\n1,2\n3,4\n", {.format = DataFormat::kCsv, .label = "y"}},
      {"x.txt", "abcd", {.shape = {2}}},
  };
}

// Other bytes of the same size, with the time of modification that was there, as `cp -p` and others
// put them; a copy has another inode.
void Replace(const std::string& file, const std::string& content) {
  std::ofstream(file + ".new", std::ios::binary) << content;
  fs::last_write_time(file + ".new", fs::last_write_time(file));
  fs::rename(file + ".new", file);
}

// Also of those formats that are held in memory once they were read.
TEST(DataSet, AFileOfAnyFormatThatChangesIsNoticedWhereItIsRead) {
  const auto longer = [](const std::string& file) { std::ofstream(file, std::ios::app) << "more"; };
  // Of the same size, and moved to its place.
  const auto replaced = [](const std::string& file) {
    fs::copy_file(file, file + ".new");
    fs::last_write_time(file + ".new", fs::last_write_time(file) + std::chrono::seconds(1));
    fs::rename(file + ".new", file);
  };
  const auto removed = [](const std::string& file) { fs::remove(file); };
  const auto a_folder = [](const std::string& file) {
    fs::remove(file);
    fs::create_directory(file);
  };
  const auto other_bytes = [](const std::string& file) {
    std::string content = ReadWholeFile(file).value_or("");
    content.back() ^= 1;
    Replace(file, content);
  };
  const std::vector<std::function<void(const std::string&)>> changes = {longer, replaced, removed,
                                                                        a_folder, other_bytes};
  for (const OfFormat& one : FilesOfEachFormat())
    for (size_t c = 0; c < changes.size(); ++c) {
      SCOPED_TRACE(absl::StrCat(one.name, ", change ", c));
      const Files files;
      const std::string file = files.Write(one.name, one.content);
      DataSpec data = one.data;
      data.paths = {files.root()};
      const auto set = Opened(data);
      ASSERT_NE(set, nullptr);
      ASSERT_TRUE(set->Read(0, std::vector<uint64_t>{0}).ok());
      changes[c](file);
      const absl::Status status = set->Read(0, std::vector<uint64_t>{0}).status();
      EXPECT_TRUE(absl::IsDataLoss(status) && !IsBadSample(status)) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(file));
    }
}

// Its inode or its time of change is another one, and its content is not.
TEST(DataSet, AFileOfAnyFormatThatIsOnlyTouchedIsStillTheSame) {
  const auto copied = [](const std::string& file) {
    Replace(file, ReadWholeFile(file).value_or(""));
  };
  const auto other_rights = [](const std::string& file) {
    fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
  };
  const auto linked = [](const std::string& file) { fs::create_hard_link(file, file + ".link"); };
  const std::vector<std::function<void(const std::string&)>> touches = {copied, other_rights,
                                                                        linked};
  for (const OfFormat& one : FilesOfEachFormat()) {
    SCOPED_TRACE(one.name);
    const Files files;
    const std::string file = files.Write(one.name, one.content);
    DataSpec data = one.data;
    data.paths = {files.root()};
    const auto set = Opened(data);
    ASSERT_NE(set, nullptr);
    for (const auto& touch : touches) {
      touch(file);
      for (int again = 0; again < 2; ++again) {
        const absl::Status status = set->Read(0, std::vector<uint64_t>{0}).status();
        EXPECT_TRUE(status.ok()) << status;
      }
    }
    std::string other = one.content;
    other.back() ^= 1;
    Replace(file, other);
    EXPECT_THAT(std::string(set->Read(0, std::vector<uint64_t>{0}).status().message()),
                HasSubstr(file + ": it has changed since the job began"));
  }
}

// Of many rows, far from those that are read next; and of one of many images.
TEST(DataSet, AReplacedFileIsNoticedWhateverIsReadOfIt) {
  const Files files;
  const int64_t rows = 3 << 20;
  std::string content(static_cast<size_t>(rows), 'x');
  const std::string file = files.Write("n.npy", Npy("|u1", {rows}, content));
  const auto set = Opened({.paths = {file}, .format = DataFormat::kNumpy});
  ASSERT_NE(set, nullptr);
  Replace(file, Npy("|u1", {rows}, content));
  EXPECT_TRUE(set->Read(0, std::vector<uint64_t>{3}).ok());
  content[content.size() / 2] = 'y';
  Replace(file, Npy("|u1", {rows}, content));
  EXPECT_THAT(std::string(set->Read(0, std::vector<uint64_t>{3}).status().message()),
              HasSubstr(file + ": it has changed since the job began"));
  files.Write("d/a/1.png", Png(Slope(4, 4)));
  const std::string replaced = files.Write("d/b/2.png", Png({1, 1, 3, "abc"}));
  const auto images =
      Opened({.paths = {files.root() + "/d"}, .format = DataFormat::kImages, .image_size = {4, 4}});
  ASSERT_NE(images, nullptr);
  const std::string other = Png({1, 1, 3, "abd"});
  ASSERT_EQ(other.size(), fs::file_size(replaced));
  Replace(replaced, other);
  EXPECT_TRUE(images->Read(0, std::vector<uint64_t>{0}).ok());
  const absl::Status status = images->Read(1, std::vector<uint64_t>{0, 1}).status();
  EXPECT_TRUE(absl::IsDataLoss(status) && !IsBadSample(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(replaced + ": it has changed since the job began"));
}

// However many there are, each comes its turn.
TEST(DataSet, OneOfManyFilesThatAreHeldInMemoryIsNoticedToo) {
  const Files files;
  constexpr int kFiles = 30;
  const auto name = [](int i) { return absl::StrCat("part-", 100 + i, ".csv"); };
  for (int i = 0; i < kFiles; ++i) files.Write(name(i), "x\n1\n");
  for (const int changed : {0, 17, kFiles - 1}) {
    SCOPED_TRACE(changed);
    const auto set = Opened({.paths = {files.root()}, .format = DataFormat::kCsv});
    ASSERT_NE(set, nullptr);
    for (int i = 0; i < 2 * kFiles; ++i) EXPECT_THAT(Read<float>(*set, 0, {0}), ElementsAre(1));
    const std::string file = files.Write(name(changed), absl::StrCat("x\n", 20 + changed, "\n1\n"));
    absl::Status status;
    for (int i = 0; i < kFiles && status.ok(); ++i)
      status = set->Read(0, std::vector<uint64_t>{0}).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(file + ": it has changed since the job began"));
    files.Write(name(changed), "x\n1\n");
  }
}

TEST(DataSet, AFileThatIsHeldInMemoryChangesTheHashOfWhoStartsLater) {
  const std::string x = Npy("<i4", {2}, "12345678"), y = Npy("<i4", {2}, "1234567!");
  const struct {
    const char* name;
    std::string before, after;
    DataSpec data;
  } cases[] = {
      {"a.csv", "x\n1\n2\n", "x\n1\n3\n", {.format = DataFormat::kCsv}},
      {"a.txt", "abcd", "abce", {.shape = {2}}},
      {"a.npz",
       Zip({{"x.npy", x}}, true),
       Zip({{"x.npy", y}}, true),
       {.format = DataFormat::kNumpy}},
      {"a.pt",
       Pt(PtPickle({"IntStorage", "0", 0, {2}, {1}}), {"12345678"}, true),
       Pt(PtPickle({"IntStorage", "0", 0, {2}, {1}}), {"1234567!"}, true),
       {.format = DataFormat::kPt}},
      {"train-images-idx3-ubyte.gz",
       Gzip(Idx(8, {2, 2, 2}, "12345678")),
       Gzip(Idx(8, {2, 2, 2}, "1234567!")),
       {.format = DataFormat::kIdx}},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.name);
    const Files files;
    files.Write(one.name, one.before);
    DataSpec data = one.data;
    data.paths = {files.root()};
    const auto set = Opened(data);
    ASSERT_NE(set, nullptr);
    files.Write(one.name, one.after);
    const auto later = Opened(data);
    ASSERT_NE(later, nullptr);
    EXPECT_NE(later->ContentHash(), set->ContentHash());
  }
}

TEST(DataSet, ASampleThatIsNotThereIsRefused) {
  const Files files;
  const std::string file = files.Write("n.npy", Numbered(10));
  const auto set = Opened({.paths = {file}, .format = DataFormat::kNumpy});
  ASSERT_NE(set, nullptr);
  EXPECT_EQ(set->Read(0, std::vector<uint64_t>{10}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(DataSet, TheHashIsOfTheContent) {
  const Files files;
  const auto hash = [&](const std::string& name, const std::string& content) {
    const auto set = Opened({.paths = {files.Write(name, content)}, .format = DataFormat::kNumpy});
    return set == nullptr ? "" : set->ContentHash();
  };
  const std::string ten = hash("1/n.npy", Numbered(10));
  EXPECT_EQ(hash("2/n.npy", Numbered(10)), ten);
  EXPECT_NE(hash("3/n.npy", Numbered(11)), ten);
  EXPECT_NE(hash("4/m.npy", Numbered(10)), ten);
  EXPECT_NE(hash("5/n.npy", Npy("<i4", {5, 2}, Numbered(10).substr(64))), ten);
}

TEST(DataSet, WhatCannotBeReadIsLeftOutAndTold) {
  const Files files;
  files.Write("d/n.npy", Numbered(10));
  fs::create_symlink("nowhere", fs::path(files.root()) / "d/m.npy");
  const auto set = Opened({.paths = {files.root() + "/d"},
                           .unreadable = Unreadable::kSkip,
                           .format = DataFormat::kNumpy});
  ASSERT_NE(set, nullptr);
  EXPECT_THAT(set->LeftOut(), HasSubstr("1 file or directory that cannot be read"));
}

TEST(DataSet, PathsWithoutAFileOrASampleAreNamed) {
  const Files files;
  fs::create_directory(files.root() + "/none");
  fs::create_directory(files.root() + "/loop");
  fs::create_symlink("a.npy", files.root() + "/loop/a.npy");
  fs::create_symlink("/proc/self/maps", files.root() + "/maps");
  const std::string empty = files.Write("empty.csv", "a\n");
  const auto refusal = [&](std::vector<std::string> paths, DataFormat format) {
    return std::string(
        OpenDataSet({.paths = std::move(paths), .format = format}, 1).status().message());
  };
  const std::string root = files.root();
  EXPECT_EQ(
      refusal({root + "/none", root + "/none"}, DataFormat::kNumpy),
      "data.paths: no file in " + root + "/none, " + root + "/none; name files that are not empty");
  EXPECT_EQ(refusal({empty}, DataFormat::kCsv),
            "data.paths: no sample in " + empty + "; name files that are not empty");
  EXPECT_EQ(refusal({root + "/loop/a.npy"}, DataFormat::kNumpy),
            "data.paths: " + root +
                "/loop/a.npy cannot be read: Too many levels of symbolic links; " +
                "make it readable, or name others");
  EXPECT_EQ(refusal({root + "/maps"}, DataFormat::kNumpy),
            "data.paths: " + root +
                "/maps cannot be read: it is no stored file: the system makes it " +
                "while it is read; make it readable, or name others");
}

TEST(DataSetInMemory, HoldsRowsOfItsFields) {
  const std::vector<DataField> fields = {{"x", TensorType::kFloat32, {2}},
                                         {"y", TensorType::kInt64, {}}};
  const std::string x = Bytes<float>({1, 2, 3, 4}), y = Bytes<int64_t>({5, 6});
  const auto set = DataSetInMemory(fields, {x, y});
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ((*set)->Fields(), fields);
  EXPECT_THAT(Read<float>(**set, 0, {1, 0}), ElementsAre(3, 4, 1, 2));
  EXPECT_THAT(Read<int64_t>(**set, 1, {1}), ElementsAre(6));
  const auto refused = [&](std::vector<DataField> of, std::vector<std::string> rows) {
    return DataSetInMemory(of, std::move(rows)).status().code() ==
           absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused(fields, {x}));
  EXPECT_TRUE(refused(fields, {x + "1", y}));
  EXPECT_TRUE(refused(fields, {x, y + y}));
  EXPECT_TRUE(refused({fields[0], fields[0]}, {x, x}));
  EXPECT_TRUE(refused({}, {}));
}

// ---- broken files: each ends in a sentence that names the file and what is wrong

struct Broken {
  const char* name;
  DataFormat format;
  std::string content;
  const char* says;
  absl::StatusCode code = absl::StatusCode::kDataLoss;
  DataSpec data{};
  const char* file = "f";
  friend std::ostream& operator<<(std::ostream& out, const Broken& broken) {
    return out << broken.name;
  }
};
class BrokenFile : public testing::TestWithParam<Broken> {};

TEST_P(BrokenFile, IsNamedWithThePlace) {
  const Broken& broken = GetParam();
  const Files files;
  DataSpec data = broken.data;
  data.format = broken.format;
  data.paths = {files.Write(absl::StrCat("c/", broken.file), broken.content)};
  const auto set = OpenDataSet(data, 1);
  absl::Status status = set.status();
  if (set.ok()) status = (*set)->Read(0, std::vector<uint64_t>{0}).status();
  EXPECT_EQ(status.code(), broken.code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(broken.says));
  if (broken.code == absl::StatusCode::kDataLoss) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(data.paths[0]));
  }
}

const std::string kNpy = Npy("<f4", {2, 2}, Bytes<float>({1, 2, 3, 4}));
const std::string kNpz = Zip({{"x.npy", kNpy}}, true);
const std::string kStoredNpz = Zip({{"x.npy", kNpy}}, false);
constexpr auto kPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr auto kNone = absl::StatusCode::kInvalidArgument;

std::string With(std::string bytes, size_t at, const std::string& other) {
  bytes.replace(at, other.size(), other);
  return bytes;
}

// As one that was cut off between two files.
std::string WithoutTheEnd(const std::string& tar) { return tar.substr(0, tar.size() - 1024); }

// Of the first file.
std::string WithKind(std::string tar, char kind) {
  const unsigned sum = static_cast<unsigned>(std::stoul(tar.substr(148, 6), nullptr, 8));
  tar = With(tar, 148, absl::StrFormat("%06o", sum + kind - tar[156]));
  return With(tar, 156, std::string(1, kind));
}

// Without the mark of the end.
std::string TarLink(char kind, const std::string& name, const std::string& to) {
  std::string header = WithKind(Tar({{name, ""}}), kind).substr(0, 512);
  unsigned sum = static_cast<unsigned>(std::stoul(header.substr(148, 6), nullptr, 8));
  for (const char c : to) sum += static_cast<unsigned char>(c);
  header = With(header, 148, absl::StrFormat("%06o", sum));
  return With(header, 157, to);
}

std::vector<Broken> BrokenTables() {
  using enum DataFormat;
  return {
      {"CsvEmpty", kCsv, "", "no sample", kNone},
      {"CsvHeaderAlone", kCsv, "a,b\n", "no sample", kNone},
      {"CsvUtf16", kCsv,
       "\xff\xfe"
       "a\0\n\0001\0\n\0"s,
       "it is UTF-16; save it as UTF-8"},
      {"CsvUtf16Big", kCsv, "\xfe\xff\0a\0\n\0001\0\n"s, "it is UTF-16; save it as UTF-8"},
      {"CsvOfCr", kCsv, "a,b\r1,2\r3,4\r", "at byte 3: its lines end in CR alone"},
      {"CsvText", kCsv, "a,b\n1,two\n", "line 2 (byte 4): column 'b': 'two' is no number"},
      {"CsvInfinite", kCsv, "a\n1e999\n", "column 'a': '1e999' is no number"},
      {"CsvShortRow", kCsv, "a,b\n1,2\n\n3\n", "line 4 (byte 9): has 1 cells, and the first has 2"},
      {"CsvOpenQuote", kCsv, "a,b\n1,\"2\n", "line 2 (byte 6): a quoted cell has no end"},
      {"CsvAfterQuote", kCsv, "a,b\n1,\"2\"3\n", "something stands after a quoted cell"},
      {"CsvTwoColumnsOfOneName", kCsv, "a,a\n1,2\n", "two columns are called 'a'"},
      {"CsvNoColumn", kCsv, "a,b\n1,2\n", "data.columns: ", kPrecondition, {.columns = {"c"}}},
      {"CsvNoLabel", kCsv, "a,b\n1,2\n", "data.label: ", kPrecondition, {.label = "c"}},
      {"CsvLabelAlone", kCsv, "a\n1\n", "no column but the label", kPrecondition, {.label = "a"}},
      {"CsvDelimiter", kCsv, "a\n1\n", "data.delimiter", kPrecondition, {.delimiter = "\""}},
      {"CsvShape", kCsv, "a,b\n1,2\n", "cannot become (3)", kPrecondition, {.shape = {3}}},
      {"CsvMeans", kCsv, "a,b\n1,2\n", "data.mean: 3 numbers", kPrecondition, {.mean = {1, 2, 3}}},
      {"CsvFlip", kCsv, "a,b\n1,2\n", "data.flip", kPrecondition, {.flip = true}},
      {"NpyShort", kNumpy, "\x93NUMPY", "too short for a .npy file"},
      {"NpyOther", kNumpy, std::string(100, 'x'), "at byte 0: it is no .npy file"},
      {"NpyVersion", kNumpy, With(kNpy, 6, "\x09"), "version 9 of .npy is not known"},
      {"NpyHeaderLength", kNumpy, With(kNpy, 8, "\xff\xff"), "its header would have 65535 bytes"},
      {"NpyHeader", kNumpy, With(kNpy, 12, "x"), "no dictionary"},
      {"NpyCutOff", kNumpy, kNpy.substr(0, kNpy.size() - 1), "'f' has 2 rows of 8 bytes"},
      {"NpyObjects", kNumpy, Npy("|O", {2}, "12345678"), "its elements are '|O'"},
      {"NpyUnsigned", kNumpy, Npy("<u4", {1}, "1234"), "its elements are '<u4'"},
      {"NpyFortranCutOff", kNumpy, Npy("<f4", {2, 2}, "123456781234567", "True"),
       "'f' has 2 rows of 8 bytes"},
      {"NpyFortranHuge", kNumpy, Npy("<f4", {int64_t{1} << 60, 2}, "12345678", "True"),
       "and the file ends before"},
      {"NpyScalar", kNumpy, Npy("<f4", {}, "1234"), "a single number"},
      {"NpyHuge", kNumpy, Npy("<f4", {1, int64_t{1} << 40, int64_t{1} << 40}, "1234"),
       "at most 2147483648 bytes are allowed"},
      {"NpyRows", kNumpy, Npy("<f4", {int64_t{1} << 62}, "1234"), "and the file ends before"},
      {"NpyNoRows", kNumpy, Npy("<f4", {0, 2}, ""), "no sample", kNone},
      {"NpyNothing", kNumpy, Npy("<f4", {2, 0}, ""), "which holds nothing"},
      {"NpyKey",
       kNumpy,
       kNpy,
       "data.keys: the files hold no array 'z'",
       kPrecondition,
       {.keys = {"z"}}},
      {"NpzOther",
       kNumpy,
       std::string(100, 'x'),
       "no directory of a zip file",
       absl::StatusCode::kDataLoss,
       {},
       "f.npz"},
      {"NpzCutOff",
       kNumpy,
       kNpz.substr(0, kNpz.size() / 2),
       "it may be cut off",
       absl::StatusCode::kDataLoss,
       {},
       "f.npz"},
      {"NpzChecksum",
       kNumpy,
       With(kNpz, kNpz.find("PK\x01\x02") + 16, std::string(4, '\x01')),
       "its checksum differs",
       absl::StatusCode::kDataLoss,
       {},
       "f.npz"},
      {"NpzStoredChecksum",
       kNumpy,
       With(kStoredNpz, kStoredNpz.find("PK\x01\x02") - 1, "\x01"),
       "(x.npy): its checksum differs",
       absl::StatusCode::kDataLoss,
       {},
       "f.npz"},
      {"NpzLarger",
       kNumpy,
       With(kNpz, kNpz.find("PK\x01\x02") + 24, "\x10"),
       "unpacked it is larger than the zip file says",
       absl::StatusCode::kDataLoss,
       {},
       "f.npz"},
      {"NpzTwice",
       kNumpy,
       Zip({{"x.npy", kNpy}, {"x.npy", kNpy}}, false),
       "array 'x' stands there twice",
       absl::StatusCode::kDataLoss,
       {},
       "f.npz"},
      {"NpzTwiceByTwoNames",
       kNumpy,
       Zip({{"x.npy", kNpy}, {"x", kNpy}}, false),
       "array 'x' stands there twice",
       absl::StatusCode::kDataLoss,
       {},
       "f.npz"},
      {"NpzCount",
       kNumpy,
       With(kNpz, kNpz.size() - 12, "\xff\xff"),
       "its directory has 1 entries, and its end tells of 65535",
       absl::StatusCode::kDataLoss,
       {},
       "f.npz"},
      {"NpzMethod",
       kNumpy,
       With(kNpz, kNpz.find("PK\x01\x02") + 10, "\x0c"),
       "packed by method 12",
       absl::StatusCode::kDataLoss,
       {},
       "f.npz"},
      {"NpzStream",
       kNumpy,
       With(kNpz, 55, std::string(8, '\xff')),
       "cannot be unpacked",
       absl::StatusCode::kDataLoss,
       {},
       "f.npz"},
  };
}

std::vector<Broken> BrokenOthers() {
  using enum DataFormat;
  const std::string png = Png(Slope(4, 4)), jpeg = Jpeg(Slope(64, 64));
  return {
      {"SafetensorsShort", kSafetensors, "1234", "too short"},
      {"SafetensorsGigabyte", kSafetensors, Little<uint64_t>(1 << 30) + "{}",
       "its header would have 1073741824 bytes"},
      {"SafetensorsLongest", kSafetensors, std::string(16, '\xff'), "its header would have"},
      {"SafetensorsJson", kSafetensors, Safetensors("{\"x\":", ""), "no JSON object"},
      {"SafetensorsDeep", kSafetensors, Safetensors(std::string(5000, '['), ""), "no JSON object"},
      {"SafetensorsOffsets", kSafetensors,
       Safetensors(R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[0,3]}})", "123"),
       "has 2 samples of 1 bytes, and its data is 3"},
      {"SafetensorsCutOff", kSafetensors,
       Safetensors(R"({"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", "123"),
       "the file ends before"},
      {"SafetensorsType", kSafetensors,
       Safetensors(R"({"x":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}})", "1"),
       "is of type F8_E4M3"},
      {"SafetensorsNegative", kSafetensors,
       Safetensors(R"({"x":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", "1"),
       "shape and data_offsets that can be"},
      {"SafetensorsBytesBehind", kSafetensors,
       Safetensors(R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "12345"),
       "at byte 63: its last tensor ends here, and 3 bytes follow"},
      {"SafetensorsHole", kSafetensors,
       Safetensors(R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                   R"("y":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})",
                   "12345"),
       "tensor 'y' begins at byte 116, and what stands before it ends at byte 115"},
      {"SafetensorsShared", kSafetensors,
       Safetensors(R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                   R"("y":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                   "123"),
       "tensor 'y' begins at byte 114, and what stands before it ends at byte 115"},
      {"SafetensorsHoleAtFirst", kSafetensors,
       Safetensors(R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", "123"),
       "tensor 'x' begins at byte 62, and what stands before it ends at byte 61"},
      {"SafetensorsTwice", kSafetensors,
       Safetensors(R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                   R"("x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
                   "12"),
       "tensor 'x' stands there twice"},
      {"IdxOther", kIdx, "hello, world", "it is no idx file"},
      {"IdxCutOff", kIdx, Idx(8, {3, 2, 2}, "12345678"), "the file ends before"},
      {"IdxHuge", kIdx, Idx(8, {1, 0xffffffff, 0xffffffff}, ""), "bytes are allowed"},
      {"IdxGzip", kIdx, Gzip(Idx(8, {1, 2, 2}, "1234")).substr(0, 20), "before all is unpacked"},
      {"IdxLabelsAlone", kIdx, Idx(8, {1}, "1"), "nothing but labels in ", kNone},
      {"CifarCutOff", kCifar10, std::string(3073 + 100, 'x'),
       "at byte 3073: its last record is cut off"},
      {"CifarEmpty", kCifar100, "", "no sample", kNone},
      {"ImageOther", kImages, "GIF89a", "neither JPEG nor PNG"},
      {"ImageEmpty", kImages, "", "neither JPEG nor PNG"},
      {"PngCutOff", kImages, png.substr(0, png.size() - 20), "a broken PNG: it is cut off"},
      {"PngHuge", kImages, With(png, 16, Big32(1 << 19) + Big32(1 << 19)), "a broken PNG"},
      {"JpegCutOff", kImages, jpeg.substr(0, jpeg.size() / 2), "a broken JPEG: Premature end"},
      {"JpegHuge", kImages, With(jpeg, jpeg.find("\xff\xc0") + 5, std::string(4, '\xfe')),
       "a JPEG of 65278 by 65278 pixels"},
      {"ImageSize",
       kImages,
       png,
       "data.image_size: it takes two numbers",
       kPrecondition,
       {.image_size = {4}}},
      {"ImageChannels", kImages, png, "data.channels: 2", kPrecondition, {.channels = 2}},
      {"ImageCrop", kImages, png, "data.crop: 4 pixels are all", kPrecondition, {.crop = 4}},
      {"TextWithoutShape", kText, "text", "data.format", kPrecondition},
  };
}

std::vector<Broken> BrokenTars() {
  using enum DataFormat;
  const std::string png = Png(Slope(4, 4));
  return {
      {"TarOther", kWebDataset, std::string(600, 'x'), "no header of tar stands here"},
      {"TarGzip", kWebDataset, Gzip(Tar({{"a.png", png}})),
       "it is compressed by gzip, and samples"},
      {"TarGzipOfMore", kWebDataset, Gzip(Tar({{"a.png", png}})) + std::string(1000, 'x'),
       "it is compressed by gzip"},
      {"TarZstd", kWebDataset, "\x28\xb5\x2f\xfd" + std::string(600, 'x'), "unpack it (zstd -d)"},
      {"TarTwoDots", kWebDataset, Tar({{"a.b.png", png}, {"a.b.cls", "1"}}),
       "'b.png' is no image; take names of samples without a dot"},
      {"TarCutOff", kWebDataset, Tar({{"a.png", png}}).substr(0, 530), "would end behind the file"},
      {"TarWithoutItsEnd", kWebDataset, WithoutTheEnd(Tar({{"a.png", png}, {"b.png", png}})),
       "it has no mark of its end; it is cut off"},
      {"TarsJoined", kWebDataset, Tar({{"a.png", png}}) + Tar({{"b.png", png}}),
       "something follows the mark of its end"},
      {"TarAndAByte", kWebDataset, Tar({{"a.png", png}}) + std::string(100'000, '\0') + "x",
       "something follows the mark of its end"},
      {"TarAndZerosWithoutEnd", kWebDataset,
       Tar({{"a.png", png}}) + std::string(size_t{16} << 20, '\0'),
       "bytes follow; at most 16777216 of zeros may; cut them off"},
      {"TarSparse", kWebDataset, WithKind(Tar({{"a.png", png}}), 'S'),
       "at byte 0: a sparse file stands here; make the archive without --sparse"},
      {"TarSparseOfPax", kWebDataset,
       WithKind(Tar({{"x", "22 GNU.sparse.major=1\n"}, {"a.png", png}}), 'x'),
       "at byte 0: a sparse file stands here"},
      {"TarLabel", kWebDataset, Tar({{"a.png", png}, {"a.cls", "cat"}}),
       "a label (.cls) is a whole"},
      {"TarLongLabel", kWebDataset, Tar({{"a.png", png}, {"a.cls", std::string(33, '1')}}),
       "(a.cls): a label (.cls) is a whole number"},
      {"TarKindWithADot", kWebDataset, Tar({{"a.rgb.png", png}, {"a.cls", "1"}}),
       "'rgb.png' is no image; take names of samples without a dot"},
      {"TarNegativeLabel", kWebDataset, Tar({{"a.png", png}, {"a.cls", "-1"}}),
       "(a.cls): a label (.cls) is a whole number from 0"},
      {"TarTwoLabels", kWebDataset, Tar({{"a.cls", "1"}, {"a.png", png}, {"a.cls", "2"}}),
       "(a.cls): its sample has another label already"},
      {"TarLabelAlone", kWebDataset, Tar({{"a.png", png}, {"a.cls", "1"}, {"b.cls", "1"}}),
       "(b.cls): the sample 'b' has a label and no image"},
      {"TarSampleTwice", kWebDataset,
       Tar({{"a.png", png},
            {"a.cls", "1"},
            {"b.png", png},
            {"b.cls", "1"},
            {"a.png", png},
            {"a.cls", "1"}}),
       "the sample 'a' stands there twice"},
      {"TarSampleApart", kWebDataset,
       Tar({{"a.png", png}, {"b.png", png}, {"a.cls", "1"}, {"b.cls", "1"}}),
       "the sample 'a' stands there twice; the files of one stand side by side"},
      {"TarHardLink", kWebDataset, TarLink('1', "a.png", "b.png") + Tar({{"b.png", png}}),
       "at byte 0: 'a.png' is a hard link to 'b.png', and no such file stands before it"},
      {"TarSymbolicLink", kWebDataset, TarLink('2', "a.png", "b.png") + Tar({{"b.png", png}}),
       "at byte 0: 'a.png' is a symbolic link to 'b.png'"},
      {"TarPipe", kWebDataset, WithKind(Tar({{"a.png", ""}, {"b.png", png}}), '6'),
       "at byte 0: 'a.png' is a device or a pipe"},
      {"TarNoImage", kWebDataset, Tar({{"a.txt", "text"}}), "no image", kNone},
  };
}

std::vector<Broken> BrokenPickles() {
  using enum DataFormat;
  const PtTensor x{"FloatStorage", "0", 0, {2, 2}, {2, 1}};
  const std::string data(16, 'x');
  const auto with = [&](const PtTensor& tensor) { return Pt(PtPickle(tensor), {data}); };
  const auto pickled = [&](const std::string& pickle) { return Pt(pickle, {data}); };
  return {
      {"PtOther", kPt, std::string(100, 'x'), "no directory of a zip file"},
      {"PtOld", kPt, "\x80\x02\x8a\x0alF", "before PyTorch 1.6"},
      {"PtNoPickle", kPt, Zip({{"a/b", "c"}}, false), "a zip file without data.pkl"},
      {"PtNoTensor", kPt, pickled("K\x01"), "it holds no tensor"},
      {"PtEmptyDict", kPt, pickled("}"), "it holds no tensor"},
      {"PtRuns", kPt, pickled("cos\nsystem\n(" + PtText("true") + "tR"),
       "at byte 2: it asks for os.system, and nothing that a file names is run"},
      {"PtGetattr", kPt, pickled("c__builtin__\ngetattr\n)R"), "asks for __builtin__.getattr"},
      {"PtScript", kPt, pickled("c__torch__.torch\nLinear\n)\x81"), "it holds no tensor"},
      {"PtInstruction", kPt, pickled("(\x82"), "at byte 3: the instruction 0x82"},
      {"PtProtocol", kPt, Zip({{"a/data.pkl", "\x80\x04N."}}, false), "protocol 4"},
      {"PtCutOff", kPt, Zip({{"a/data.pkl", "\x80\x02X\xff\xff\xff\xff"}}, false), "it is cut off"},
      {"PtNoStop", kPt, Zip({{"a/data.pkl", "\x80\x02N"}}, false), "it is cut off"},
      {"PtEmpty", kPt, Zip({{"a/data.pkl", ""}}, false), "it is cut off"},
      {"PtTwoValues", kPt, pickled("NN"), "it is broken"},
      {"PtOpenMark", kPt, pickled("(N"), "it is broken"},
      {"PtBelowTheMark", kPt, pickled("N(\x85t"), "it is broken"},
      {"PtNoMark", kPt, pickled("Nt"), "it is broken"},
      {"PtNothingToPut", kPt, Zip({{"a/data.pkl", "\x80\x02q\0."s}}, false), "it is broken"},
      {"PtUnknownGet", kPt, pickled("h\x07"), "it is broken"},
      {"PtOddDict", kPt, pickled("}(Nu"), "it is broken"},
      {"PtListAsDict", kPt, pickled("](NNu"), "it is broken"},
      {"PtManyValues", kPt, Zip({{"a/data.pkl", "\x80\x02" + std::string(300'000, 'N')}}, false),
       "more than 200000 values"},
      {"PtLongPickle", kPt, Zip({{"a/data.pkl", std::string((1 << 20) + 1, 'N')}}, true),
       "its data.pkl has 1048577 bytes"},
      {"PtNoStorage", kPt, pickled("ctorch._utils\n_rebuild_tensor_v2\n(NK\x01))tR"),
       "not told of as torch.save does"},
      {"PtItself", kPt,
       pickled("]q\x01h\x01"
               "a"
               "Q"),
       "it holds no tensor"},
      {"PtEntry", kPt, with({"FloatStorage", "7", 0, {1}, {1}}), "it holds no data/7"},
      {"PtType", kPt, with({"ComplexFloatStorage", "0", 0, {1}, {1}}), "whose type cannot be read"},
      {"PtScalar", kPt, with({"FloatStorage", "0", 0, {}, {}}), "is a single number"},
      {"PtStrides", kPt, with({"FloatStorage", "0", 0, {2, 2}, {2}}), "not told of"},
      {"PtNegative", kPt, with({"FloatStorage", "0", 0, {2, -2}, {2, 1}}), "not told of"},
      {"PtTransposed", kPt, with({"FloatStorage", "0", 0, {2, 2}, {1, 2}}), "lie mixed in memory"},
      {"PtExpanded", kPt, with({"FloatStorage", "0", 0, {2, 2}, {0, 1}}), "share memory"},
      {"PtRows", kPt, with({"FloatStorage", "0", 0, {3, 2}, {2, 1}}), "the file ends before"},
      {"PtOffset", kPt, with({"FloatStorage", "0", 1, {2, 2}, {2, 1}}), "the file ends before"},
      {"PtFar", kPt, with({"FloatStorage", "0", 0x7fffffff, {2, 2}, {0x7fffffff, 1}}),
       "the file ends before"},
      {"PtHuge", kPt, with({"FloatStorage", "0", 0, {1, 0x7fffffff, 0x7fffffff}, {1, 1, 1}}),
       "bytes are allowed"},
      {"PtNoRows", kPt, with({"FloatStorage", "0", 0, {0, 2}, {2, 1}}), "no sample", kNone},
      {"PtKey", kPt, with(x), "hold no array 'z'; they hold: ", kPrecondition, {.label = "z"}},
  };
}

// As tar writes a file that it has written by another name; the link's may be a long one.
TEST(WebDataset, AHardLinkIsTheFileThatItLeadsTo) {
  const std::string image = Png(Slope(4, 4)), other = Png(Slope(4, 5));
  const std::string folder(120, 'd');
  const auto long_names = [&](const std::string& name, const std::string& link) {
    return WithoutTheEnd(WithKind(Tar({{"././@LongLink", link}}), 'K')) +
           WithoutTheEnd(WithKind(Tar({{"././@LongLink", name}}), 'L')) +
           TarLink('1', name.substr(0, 100), link.substr(0, 100));
  };
  const auto pax = [](const std::string& link) {
    const std::string record = absl::StrCat(" linkpath=", link, "\n");
    return WithoutTheEnd(WithKind(Tar({{"x", absl::StrCat(record.size() + 3, record)}}), 'x')) +
           TarLink('1', "e.png", link.substr(0, 100));
  };
  const Files files;
  const std::string far = folder + "/c.png";
  files.Write(
      "0.tar",
      WithoutTheEnd(Tar({{"a.png", image}, {"a.cls", "0"}})) + TarLink('1', "b.png", "a.png") +
          WithoutTheEnd(Tar({{"b.cls", "1"}, {"z/" + std::string(90, 'z') + ".json", "{}"}})) +
          WithoutTheEnd(WithKind(Tar({{"././@LongLink", far}}), 'L')) +
          WithoutTheEnd(Tar({{far.substr(0, 100), other}})) +
          WithoutTheEnd(WithKind(Tar({{"././@LongLink", folder + "/c.cls"}}), 'L')) +
          WithoutTheEnd(Tar({{"short", "2"}})) + long_names(folder + "/d.png", far) +
          WithoutTheEnd(WithKind(Tar({{"././@LongLink", folder + "/d.cls"}}), 'L')) +
          WithoutTheEnd(Tar({{"short", "3"}})) + pax(far) + Tar({{"e.cls", "4"}}));
  const auto set =
      Opened({.paths = {files.root()}, .format = DataFormat::kWebDataset, .image_size = {4, 4}});
  ASSERT_NE(set, nullptr);
  EXPECT_THAT(Read<int64_t>(*set, 1, {0, 1, 2, 3, 4}), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(Read<float>(*set, 0, {1}), Read<float>(*set, 0, {0}));
  EXPECT_NE(Read<float>(*set, 0, {2}), Read<float>(*set, 0, {0}));
  for (const uint64_t linked : {3, 4})
    EXPECT_EQ(Read<float>(*set, 0, {linked}), Read<float>(*set, 0, {2}));
}

INSTANTIATE_TEST_SUITE_P(Pickles, BrokenFile, testing::ValuesIn(BrokenPickles()),
                         [](const auto& tried) { return std::string(tried.param.name); });
INSTANTIATE_TEST_SUITE_P(Tables, BrokenFile, testing::ValuesIn(BrokenTables()),
                         [](const auto& tried) { return std::string(tried.param.name); });
INSTANTIATE_TEST_SUITE_P(Tars, BrokenFile, testing::ValuesIn(BrokenTars()),
                         [](const auto& tried) { return std::string(tried.param.name); });
INSTANTIATE_TEST_SUITE_P(Others, BrokenFile, testing::ValuesIn(BrokenOthers()),
                         [](const auto& tried) { return std::string(tried.param.name); });

TEST(DataSet, OneNameOfTwoTypesIsNamed) {
  const Files files;
  files.Write("1/x.npy", Npy("<f4", {1}, "1234"));
  const std::string other = files.Write("2/x.npy", Npy("<f8", {1}, "12345678"));
  const absl::Status status =
      OpenDataSet({.paths = {files.root()}, .format = DataFormat::kNumpy}, 1).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr(other + ": 'x' has another type or shape"));
}

TEST(DataSet, FieldsOfUnequalLengthAreNamed) {
  const Files files;
  files.Write("x.npy", Npy("<f4", {2}, "12345678"));
  files.Write("y.npy", Npy("<f4", {1}, "1234"));
  const absl::Status status =
      OpenDataSet({.paths = {files.root()}, .format = DataFormat::kNumpy}, 1).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("'y' has 1 samples, and 'x' has 2"));
}

TEST(DataSet, ImagesOfUnequalSizeAskForASize) {
  const Files files;
  files.Write("a/1.png", Png(Slope(4, 4)));
  const std::string other = files.Write("a/2.png", Png(Slope(5, 4)));
  const auto set = Opened({.paths = {files.root()}, .format = DataFormat::kImages});
  ASSERT_NE(set, nullptr);
  EXPECT_THAT(std::string(set->Read(0, std::vector<uint64_t>{1}).status().message()),
              HasSubstr(other + ": it has 4 by 5 pixels, and the first one 4 by 4"));
}

// What is wrong with a sample alone is told apart from what is wrong with a file or the job.
TEST(DataSet, ABrokenImageIsABadSampleAndAChangedFileIsNot) {
  const Files files;
  const std::string sound = Png(Slope(4, 4));
  files.Write("a/1.png", sound.substr(0, 10));
  files.Write("a/2.png", sound);
  files.Write("a/3.png", sound.substr(0, sound.size() - 20));
  files.Write("a/4.jpg", "no image at all");
  const std::string changes = files.Write("a/5.png", sound);
  DataSpec data = {.paths = {files.root()}, .format = DataFormat::kImages};
  EXPECT_THAT(std::string(OpenDataSet(data, 1).status().message()), HasSubstr("1.png"))
      << "its size is that of all others";
  data.on_bad_sample = OnBadSample::kSkip;
  const auto set = Opened(data);
  ASSERT_NE(set, nullptr);
  EXPECT_EQ(set->Samples(), 5u);
  for (const uint64_t bad : {0, 2, 3}) {
    const absl::Status status = set->Read(0, std::vector<uint64_t>{bad}).status();
    EXPECT_TRUE(IsBadSample(status)) << status;
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  }
  Batch batch(set->Fields(), 4);
  const auto left_out = ReadGood(*set, 0, std::vector<uint64_t>{0, 1, 2, 3}, batch, 0);
  ASSERT_TRUE(left_out.ok()) << left_out.status();
  EXPECT_EQ(*left_out, (std::vector<uint32_t>{0, 2, 3}));
  EXPECT_EQ(Values<float>(batch.row(0, 1)), (Read<float>(*set, 0, {1})));
  files.Write("a/5.png", sound + "more");
  const absl::Status changed = set->Read(0, std::vector<uint64_t>{4}).status();
  EXPECT_TRUE(absl::IsDataLoss(changed) && !IsBadSample(changed)) << changed;
  std::filesystem::remove(changes);
  EXPECT_FALSE(ReadGood(*set, 0, std::vector<uint64_t>{0, 4}, batch, 0).ok());
}

// Else the numbers of the classes behind it were others once it holds one.
TEST(Images, AFolderWithoutAnImageIsNoClass) {
  const Files files;
  const std::string image = Png(Slope(4, 4));
  files.Write("train/cat/1.png", image);
  files.Write("train/cat/deeper/2.png", image);
  files.Write("train/fish/notes.txt", "none");
  fs::create_directory(files.root() + "/train/cat/empty");
  files.Write("v/cat/1.png", image);
  fs::create_directories(files.root() + "/v/dog");
  const DataSpec data{
      .paths = {files.root() + "/train"}, .suffixes = {".png"}, .format = DataFormat::kImages};
  const auto refusal = [&] { return OpenDataSet(data, 1).status(); };
  EXPECT_TRUE(absl::IsDataLoss(refusal())) << refusal();
  EXPECT_THAT(std::string(refusal().message()),
              HasSubstr("train/fish holds no image of data.suffixes"));
  fs::remove_all(files.root() + "/train/fish");
  EXPECT_TRUE(refusal().ok()) << refusal();
  fs::create_directory(files.root() + "/train/dog");
  EXPECT_THAT(std::string(refusal().message()), HasSubstr("train/dog holds no image"));
  files.Write("train/dog/1.png", image);
  EXPECT_TRUE(OpenDataSet(Measuring(data, files.root() + "/v")).ok())
      << "what is measured with may lack a class";
}

TEST(DataSet, APipeInAFolderIsNoSampleThatMayBeMissing) {
  const Files files;
  files.Write("a/1.png", Png(Slope(4, 4)));
  fs::create_directory(files.root() + "/b");
  const std::string pipe = files.root() + "/b/2.png";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  DataSpec data{.paths = {files.root()}, .format = DataFormat::kImages};
  const absl::Status status = OpenDataSet(data, 1).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(pipe + " cannot be read: it is a pipe, a socket or a device"));
  files.Write("b/1.png", Png(Slope(4, 4)));
  data.unreadable = Unreadable::kSkip;
  const auto set = Opened(data);
  ASSERT_NE(set, nullptr);
  EXPECT_EQ(set->Samples(), 2u);
  EXPECT_THAT(set->LeftOut(), HasSubstr(pipe));
}

TEST(DataSet, AnImageInNoFolderOfAClassIsNamed) {
  const Files files;
  const std::string file = files.Write("1.png", Png(Slope(4, 4)));
  const absl::Status status =
      OpenDataSet({.paths = {files.root()}, .format = DataFormat::kImages}, 1).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr(file + ": it lies in no folder of a class"));
}

}  // namespace
}  // namespace muster
