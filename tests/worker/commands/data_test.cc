#include "worker/commands/data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lib/wire/job_codec.h"
#include "muster/corpus.h"
#include "tests/lib/data/opened_set.h"
#include "tests/lib/data/written_files.h"
#include "worker/commands/data_text.h"

namespace muster::worker {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

class Data : public testing::Test {
 protected:
  JobSpec Spec(const std::string& data) const {
    const auto spec = ParseJobYaml(
        absl::StrCat("task: any\nsteps: 1\ndata: {paths: [", files_.root(), "/d], ", data, "}"),
        "a test");
    EXPECT_TRUE(spec.ok()) << spec.status();
    return spec.value_or(JobSpec());
  }
  absl::StatusOr<HashedData> Hash(const JobSpec& spec) const {
    return HashData(spec.training, files_.root() + "/hashes", [](uint64_t, uint64_t) {});
  }
  const Files files_;
};

TEST_F(Data, ArraysAreShownAsStoredAndAsGiven) {
  files_.Write("d/x.npy", Npy("<f8", {3, 3, 4}, Bytes<double>(std::vector<double>(36, 0.5))));
  files_.Write("d/y.npy", Npy("|u1", {3}, "\x07\x08\x09"));
  const JobSpec spec = Spec("format: numpy, label: y, validation_share: 0.5");
  const auto inspected = InspectData(spec.training);
  ASSERT_TRUE(inspected.ok()) << inspected.status();
  EXPECT_EQ(inspected->files, 2u);
  EXPECT_EQ(inspected->samples, 3u);
  EXPECT_LE(inspected->validation, 3u);
  ASSERT_EQ(inspected->fields.size(), 2u);
  EXPECT_EQ(inspected->fields[0].stored, (DataField{"x", TensorType::kFloat64, {3, 4}}));
  EXPECT_EQ(inspected->fields[0].given, (DataField{"x", TensorType::kFloat32, {3, 4}}));
  EXPECT_EQ(inspected->fields[0].first, std::vector<double>(8, 0.5));
  EXPECT_TRUE(inspected->fields[0].has_more);
  EXPECT_THAT(inspected->fields[1].first, ElementsAre(7));
  EXPECT_FALSE(inspected->fields[1].has_more);
  const std::string text = InspectionAsText(spec, *inspected);
  EXPECT_THAT(text, HasSubstr("format       numpy\n"));
  EXPECT_THAT(text, HasSubstr("y      uint8 ()        int64 ()        7\n"));
  const json told = json::parse(InspectionAsJson(spec, *inspected));
  EXPECT_EQ(told["fields"][1],
            json::parse(R"({"name": "y", "stored": "uint8", "stored_shape": [], "type": "int64",
                            "shape": [], "first": [7.0]})"));
}

TEST_F(Data, TextIsABunchOfBytes) {
  files_.Write("d/a.txt", "some text");
  const JobSpec spec = Spec("format: text");
  const auto inspected = InspectData(spec.training);
  ASSERT_TRUE(inspected.ok()) << inspected.status();
  EXPECT_EQ(inspected->bytes, 9u);
  EXPECT_EQ(inspected->files, 1u);
  EXPECT_THAT(InspectionAsText(spec, *inspected), HasSubstr("as the task cuts them"));
  const auto hashed = Hash(spec);
  ASSERT_TRUE(hashed.ok()) << hashed.status();
  EXPECT_EQ(hashed->hash, ContentHash({"some text"}));
}

TEST_F(Data, RowsOfTextTellOfTheirFiles) {
  files_.Write("d/a.txt", "some text");
  files_.Write("d/b.txt", "more");
  const JobSpec spec = Spec("format: text, shape: [4]");
  const auto inspected = InspectData(spec.training);
  ASSERT_TRUE(inspected.ok()) << inspected.status();
  EXPECT_EQ(inspected->samples, 3u);
  EXPECT_THAT(InspectionAsText(spec, *inspected), HasSubstr("content      2 files, 13 B\n"));
  const json told = json::parse(InspectionAsJson(spec, *inspected));
  EXPECT_EQ(told["files"], 2);
  EXPECT_EQ(told["bytes"], 13);
}

TEST_F(Data, OfAStreamItIsSaidWhatASampleIs) {
  const auto spec = ParseJobYaml(
      "{task: any, epochs: 1, batch: 2, data: {format: stream, label: y, mean: [0.5], "
      "stream: {source: folder, path: /nowhere, fields: [{name: x, type: float16, shape: [2]}, "
      "{name: y, type: uint8}]}}}",
      "a test");
  ASSERT_TRUE(spec.ok()) << spec.status();
  const auto inspected = InspectData(spec->training);
  ASSERT_TRUE(inspected.ok()) << inspected.status();
  EXPECT_EQ(inspected->sample_bytes, 5u);
  ASSERT_EQ(inspected->fields.size(), 2u);
  EXPECT_EQ(inspected->fields[0].stored, (DataField{"x", TensorType::kFloat16, {2}}));
  EXPECT_EQ(inspected->fields[0].given, (DataField{"x", TensorType::kFloat32, {2}}));
  EXPECT_EQ(inspected->fields[0].first.size(), 2u);
  EXPECT_THAT(inspected->fields[1].first, ElementsAre(0)) << "a made one";
  const std::string text = InspectionAsText(*spec, *inspected);
  EXPECT_THAT(text, HasSubstr("format       stream\n"));
  EXPECT_THAT(text, HasSubstr("samples      as they come, of 5 bytes\n"));
  EXPECT_THAT(text, HasSubstr("a made sample\n"));
  const json told = json::parse(InspectionAsJson(*spec, *inspected));
  EXPECT_EQ(told["sample_bytes"], 5);
  EXPECT_EQ(told["fields"][1]["stored"], "uint8");
  const auto hashed = Hash(*spec);
  ASSERT_TRUE(hashed.ok()) << hashed.status();
  EXPECT_EQ(hashed->hash, OpenDataSet(spec->training.data, 0).value()->ContentHash());
}

TEST_F(Data, BytesAreThoseOfTheFiles) {
  files_.Write("d/a.txt", "some text");
  files_.Write("d/b/c.txt", "more");
  const struct {
    const char* data;
    uint64_t files, bytes;
  } cases[] = {{"format: text", 2, 13},
               {"format: text, max_bytes: 13", 2, 13},
               {"format: text, max_bytes: 12", 2, 12},
               {"format: text, max_bytes: 3", 1, 3},
               {"format: text, suffixes: [.none]", 0, 0},
               {"format: images", 2, 13}};
  for (const auto& [data, count, bytes] : cases) {
    const auto found = FindSize(Spec(data).training.data);
    ASSERT_TRUE(found.ok()) << data << found.status();
    EXPECT_EQ(found->files, count) << data;
    EXPECT_EQ(found->bytes, bytes) << data;
  }
  JobSpec nowhere = Spec("format: text");
  nowhere.training.data.paths = {files_.root() + "/nowhere"};
  EXPECT_EQ(FindSize(nowhere.training.data).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(Data, TheHashIsThatOfTheDataSet) {
  files_.Write("d/x.npy", Npy("<i4", {2}, "12345678"));
  const JobSpec spec = Spec("format: numpy");
  const auto hashed = Hash(spec);
  ASSERT_TRUE(hashed.ok()) << hashed.status();
  EXPECT_EQ(hashed->hash, Opened(spec.training.data)->ContentHash());
  EXPECT_EQ(hashed->bytes, 8u);
  const json told = json::parse(HashAsJson(*hashed));
  EXPECT_EQ(told["hash"], hashed->hash);
  EXPECT_EQ(told["kept"], false);
}

TEST_F(Data, WhatCannotBeIsAnErrorOfTheData) {
  files_.Write("d/x.npy", "no array");
  EXPECT_EQ(InspectData(Spec("format: numpy").training).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(Hash(Spec("format: numpy")).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace muster::worker
