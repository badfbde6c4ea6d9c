// Samples in another format: what is written is read back equal, bit for bit, by the fields of
// `data` that are told; and what cannot be written leaves nothing behind.
#include "worker/commands/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "lib/wire/job_codec.h"
#include "tests/lib/data/opened_set.h"
#include "tests/lib/data/written_files.h"
#include "worker/commands/data_text.h"

namespace muster::worker {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

JobSpec SpecOf(const json& data) {
  const auto spec =
      ParseJobYaml(json{{"task", "any"}, {"steps", 1}, {"data", data}}.dump(), "a test");
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.value_or(JobSpec());
}

class Convert : public testing::Test {
 protected:
  JobSpec Spec(const std::string& folder, json data) const {
    data["paths"] = {files_.root() + "/" + folder};
    return SpecOf(data);
  }
  std::string Path(const std::string& name) const { return files_.root() + "/" + name; }

  static void ExpectSameSamples(const DataSpec& a, const DataSpec& b) {
    const auto one = Opened(a, DataPart::kAll), two = Opened(b, DataPart::kAll);
    ASSERT_TRUE(one != nullptr && two != nullptr);
    ASSERT_EQ(one->Samples(), two->Samples());
    std::vector<uint64_t> ids(one->Samples());
    std::iota(ids.begin(), ids.end(), 0);
    const auto of_one = one->Read(-1, ids), of_two = two->Read(-1, ids);
    ASSERT_TRUE(of_one.ok() && of_two.ok()) << of_one.status() << of_two.status();
    ASSERT_EQ(one->Fields().size(), two->Fields().size());
    for (size_t f = 0; f < one->Fields().size(); ++f) {
      EXPECT_EQ(one->Fields()[f].type, two->Fields()[f].type);
      EXPECT_EQ(one->Fields()[f].shape, two->Fields()[f].shape);
      EXPECT_EQ(of_one->of(f), of_two->of(f)) << one->Fields()[f].name;
    }
  }

  // Converts, and holds what is read of it by what is told against the files themselves.
  ConvertedData ExpectSame(const JobSpec& spec, ConvertOptions options) const {
    options.target = Path(options.target);
    const auto converted = ConvertData(spec.training, options);
    EXPECT_TRUE(converted.ok()) << converted.status();
    if (!converted.ok()) return {};
    EXPECT_FALSE(fs::exists(options.target + ".writing"));
    const json told = json::parse(ConversionAsJson(spec, *converted));
    ExpectSameSamples(spec.training.data, SpecOf(told["data"]).training.data);
    return *converted;
  }

  const Files files_;
};

TEST_F(Convert, TablesAndTensorsAreReadBackEqual) {
  files_.Write("csv/a.csv", "x,kind,y\n0.1,b,3\n-2e30,a,4\n");
  files_.Write("csv/b.csv", "x,kind,y\n7,c,5\n");
  files_.Write("npy/x.npy", Npy(">f8", {3, 2},
                                std::string("12345678abcdefgh12345678ABCDEFGH"
                                            "87654321hgfedcba",
                                            48)));
  files_.Write("npy/y.npy", Npy("|b1", {3}, std::string("\1\0\1", 3)));
  files_.Write("st/a",
               Safetensors("{\"b\":{\"dtype\":\"U8\",\"shape\":[2,3],\"data_offsets\":[0,6]},"
                           "\"a\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[6,10]}}",
                           "sixbytwo?!"));
  files_.Write("pt/a", Pt(PtDict({{"w", PtPickle({"FloatStorage", "0", 0, {2, 1}, {2, 1}})},
                                  {"y", PtPickle({"LongStorage", "1", 0, {2}, {1}})}}),
                          {Bytes<float>({1, 9, 2}), Bytes<int64_t>({-1, 1LL << 40})}));
  files_.Write("idx/t-images-idx3-ubyte", Idx(8, {2, 2, 3}, "abcdefghijkl"));
  files_.Write("idx/t-labels-idx1-ubyte", Idx(8, {2}, std::string("\7\0", 2)));
  files_.Write("txt/a", "some text of twenty bytes");
  const struct {
    const char* folder;
    json data;
  } kSources[] = {
      {"csv", {{"format", "csv"}, {"label", "y"}, {"classes", {"kind"}}, {"mean", {1.0, 2.0}}}},
      {"csv", {{"format", "csv"}, {"label", "kind"}, {"classes", {"kind"}}, {"shape", {1, 2}}}},
      {"npy", {{"format", "numpy"}, {"label", "y"}, {"validation_share", 0.5}}},
      {"npy", {{"format", "numpy"}, {"keys", {"y"}}, {"label", "x"}}},
      {"pt", {{"format", "pt"}, {"label", "y"}}},
      {"idx", {{"format", "idx"}}},
      {"idx", {{"format", "idx"}, {"mean", {0.25}}, {"deviation", {0.5}}}},
      {"txt", {{"format", "text"}, {"shape", {4}}}}};
  int number = 0;
  for (const auto& [folder, data] : kSources) {
    SCOPED_TRACE(absl::StrCat(folder, " ", data.dump()));
    const JobSpec spec = Spec(folder, data);
    const std::string name = absl::StrCat("out-", ++number);
    EXPECT_EQ(ExpectSame(spec, {.target = name + ".safetensors"}).files, 1u);
    const ConvertedData numpy = ExpectSame(spec, {.target = name, .format = ConvertFormat::kNumpy});
    EXPECT_EQ(numpy.files, numpy.fields.size());
  }
  const JobSpec brain = Spec("st", {{"format", "safetensors"}, {"label", "a"}});
  EXPECT_EQ(ExpectSame(brain, {.target = "again.safetensors"}).fields[1].type,
            TensorType::kBfloat16);
  EXPECT_EQ(ExpectSame(Spec("txt", {{"format", "text"}, {"shape", {4}}}), {.target = "bytes.npy"})
                .fields[0]
                .name,
            "bytes");
}

TEST_F(Convert, MoreThanIsReadAtATime) {
  std::vector<int32_t> numbers(3'000'000);
  std::iota(numbers.begin(), numbers.end(), -77);
  files_.Write("d/x.npy", Npy("<i4", {1'000'000, 3}, Bytes(numbers)));
  uint64_t told = 0, calls = 0;
  ExpectSame(Spec("d", {{"format", "numpy"}}),
             {.target = "x.safetensors", .told = [&](uint64_t bytes, uint64_t all) {
                EXPECT_GT(bytes, told);
                EXPECT_EQ(all, 12'000'000u);
                told = bytes;
                ++calls;
              }});
  EXPECT_EQ(told, 12'000'000u);
  EXPECT_GT(calls, 2u);
}

TEST_F(Convert, ImagesKeepTheirBytes) {
  for (int i = 0; i < 5; ++i) {
    files_.Write(absl::StrCat("d/cat/", i, ".png"), Png(Slope(6, 4 + static_cast<uint32_t>(i))));
    files_.Write(absl::StrCat("d/dog/", i, ".jpg"), Jpeg(Slope(9, 5)));
  }
  const JobSpec spec = Spec("d", {{"format", "images"}, {"image_size", {4, 4}}, {"mean", {0.5}}});
  EXPECT_EQ(ExpectSame(spec, {.target = "all.tar"}).samples, 10u);
  const ConvertedData shards = ExpectSame(
      spec, {.target = "shards", .format = ConvertFormat::kWebDataset, .shard_bytes = 5000});
  EXPECT_GT(shards.files, 2u);
  uint64_t bytes = 0, files = 0;
  for (const auto& shard : fs::directory_iterator(Path("shards"))) {
    EXPECT_LE(shard.file_size(), 5000u + 1024u);
    bytes += shard.file_size();
    ++files;
  }
  EXPECT_EQ(bytes, shards.bytes);
  EXPECT_EQ(files, shards.files);
  // Of a tar again, and as arrays of bytes.
  const JobSpec tar = SpecOf({{"paths", {Path("all.tar")}},
                              {"format", "webdataset"},
                              {"image_size", {4, 4}},
                              {"channels", 1}});
  ExpectSame(tar, {.target = "again.tar"});
  EXPECT_EQ(ExpectSame(tar, {.target = "gray.safetensors"}).fields[0],
            (DataField{"image", TensorType::kUint8, {1, 4, 4}}));
  files_.Write("none/a.tar", Tar({{"a.png", Png(Slope(3, 3))}, {"b.png", Png(Slope(3, 3))}}));
  EXPECT_FALSE(ExpectSame(Spec("none", {{"format", "webdataset"}}), {.target = "n.tar"}).has_label);
}

TEST_F(Convert, BadSamplesEndItOrAreLeftOut) {
  files_.Write("d/a/1.png", Png(Slope(4, 4)));
  files_.Write("d/a/2.png", Png(Slope(4, 4)).substr(0, 60));
  files_.Write("d/b/3.png", Png(Slope(4, 4)));
  json data = {{"format", "images"}};
  const auto stopped = ConvertData(Spec("d", data).training, {.target = Path("x.safetensors")});
  EXPECT_EQ(stopped.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(stopped.status().message()), HasSubstr("d/a/2.png"));
  EXPECT_FALSE(fs::exists(Path("x.safetensors")) || fs::exists(Path("x.safetensors.writing")));
  data["on_bad_sample"] = "skip";
  for (const char* target : {"x.safetensors", "x.tar"}) {
    const auto skipped = ConvertData(Spec("d", data).training, {.target = Path(target)});
    ASSERT_TRUE(skipped.ok()) << skipped.status();
    EXPECT_EQ(skipped->samples, 2u);
    EXPECT_EQ(skipped->bad, 1u);
    EXPECT_THAT(ConversionAsText(Spec("d", data), *skipped), HasSubstr("2, without 1 bad ones"));
    const json told = json::parse(ConversionAsJson(Spec("d", data), *skipped));
    EXPECT_EQ(Opened(SpecOf(told["data"]).training.data)->Samples(), 2u);
  }
}

TEST_F(Convert, KilledHalfWayItLeavesNothingThatIsUsed) {
  files_.Write("d/x.npy", Npy("<f4", {40'000, 50}, std::string(8'000'000, 'x')));
  files_.Write("d/y.npy", Npy("|u1", {40'000}, std::string(40'000, 'y')));
  const JobSpec spec = Spec("d", {{"format", "numpy"}, {"label", "y"}});
  for (const char* name : {"x.safetensors", "folder"}) {
    SCOPED_TRACE(name);
    ConvertOptions options{.target = Path(name)};
    if (std::string(name) == "folder") options.format = ConvertFormat::kNumpy;
    options.told = [](uint64_t bytes, uint64_t all) {
      if (bytes > all / 2) _exit(7);
    };
    EXPECT_EXIT((void)ConvertData(spec.training, options), testing::ExitedWithCode(7), "");
    EXPECT_FALSE(fs::exists(options.target));
    EXPECT_TRUE(fs::exists(options.target + ".writing"));
    options.told = [](uint64_t, uint64_t) {};
    options.target = name;
    ExpectSame(spec, options);
  }
}

// What is written would be as wrong, and tell nobody.
TEST_F(Convert, ALargeArrayIsHeldAgainstItsChecksum) {
  std::string npz =
      Zip({{"x.npy", Npy("|u1", {2 << 10, 1024}, std::string(2 << 20, '\1'))}}, false);
  npz[npz.find("PK\x01\x02") - 1] = '\2';
  files_.Write("npz/a.npz", npz);
  const auto converted =
      ConvertData(Spec("npz", {{"format", "numpy"}}).training, {.target = Path("out.safetensors")});
  EXPECT_EQ(converted.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(converted.status().message()),
              HasSubstr("a.npz (x.npy): its checksum differs"));
  EXPECT_FALSE(fs::exists(Path("out.safetensors")));
}

TEST_F(Convert, WhatCannotBeIsNamed) {
  files_.Write("d/x.npy", Npy("<f4", {1}, "abcd"));
  files_.Write("d/y.npy", Npy("<f4", {1}, "abcd"));
  files_.Write("st/a", Safetensors("{\"a/b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":"
                                   "[0,4]}}",
                                   "abcd"));
  files_.Write("bf/a", Safetensors("{\"a\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":"
                                   "[0,4]}}",
                                   "abcd"));
  files_.Write("latin/\xe9.npy", Npy("<f4", {1}, "abcd"));
  files_.Write("there/file", "");
  const json numpy = {{"format", "numpy"}}, tensors = {{"format", "safetensors"}};
  const struct {
    const char* folder;
    json data;
    const char* target;
    std::optional<ConvertFormat> format;
    const char* message;
  } kWrong[] = {
      {"d", numpy, "out", {}, "out' says no format: end it in .npy, .safetensors or .tar"},
      {"d", numpy, "out.npy", {}, "out.npy' holds one array, and samples have 2"},
      {"d", numpy, "out.tar", {}, "--format: webdataset holds files of images"},
      {"d", numpy, "there", ConvertFormat::kNumpy, "there' is there already; remove it"},
      {"d", numpy, "there", ConvertFormat::kSafetensors, "there' is a folder, and no file; name"},
      {"d/x.npy", numpy, "d/x.npy", {}, "d/x.npy' is one of the files that are read"},
      {"st", tensors, "out", ConvertFormat::kNumpy, "'a/b' cannot be the name of a file"},
      {"bf", tensors, "out", ConvertFormat::kNumpy, "NumPy has no type for 'a'"},
      {"latin", numpy, "out", ConvertFormat::kNumpy, "data.keys: '\xe9' is no UTF-8"},
      {"latin", numpy, "out", ConvertFormat::kSafetensors, "data.keys: '\xe9' is no UTF-8"},
      {"d", {{"format", "text"}}, "out.npy", {}, "data.shape, [bytes of a sample]"}};
  for (const auto& [folder, data, target, format, message] : kWrong) {
    SCOPED_TRACE(message);
    const auto converted =
        ConvertData(Spec(folder, data).training, {.target = Path(target), .format = format});
    EXPECT_EQ(converted.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(converted.status().message()), HasSubstr(message));
    EXPECT_FALSE(fs::exists(Path("out")) || fs::exists(Path("out.writing")));
  }
  const auto nowhere =
      ConvertData(Spec("d", numpy).training, {.target = Path("no/such/x.safetensors")});
  EXPECT_EQ(nowhere.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(nowhere.status().message()), Not(HasSubstr(".writing")));
  EXPECT_THAT(std::string(nowhere.status().message()),
              HasSubstr("no/such/x.safetensors' cannot be made: there is no folder '"));
}

}  // namespace
}  // namespace muster::worker
