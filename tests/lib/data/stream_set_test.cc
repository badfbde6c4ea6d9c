#include "lib/data/stream_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/bytes.h"
#include "lib/data/element.h"
#include "lib/spool/segment.h"
#include "lib/spool/spool_writer.h"
#include "tests/lib/data/opened_set.h"
#include "tests/support/hand_clock.h"

namespace muster {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr Incarnation kWriter{1, 2};

// Two whole numbers of 16 bits, a real, and a label of a byte: nine bytes side by side.
DataSpec Spec() {
  DataSpec data;
  data.format = DataFormat::kStream;
  data.label = "label";
  data.fields = {{"pair", TensorType::kInt16, {2}},
                 {"real", TensorType::kFloat32, {}},
                 {"label", TensorType::kUint8, {}}};
  return data;
}

std::string Sample(uint64_t position) {
  const auto n = static_cast<int16_t>(position);
  const int16_t pair[] = {n, static_cast<int16_t>(-n)};
  const float real = static_cast<float>(position) / 2;
  std::string sample(9, '\0');
  std::memcpy(sample.data(), pair, 4);
  std::memcpy(sample.data() + 4, &real, 4);
  sample[8] = static_cast<char>(position % 256);
  return sample;
}

class StreamSetTest : public testing::Test {
 protected:
  SpoolSegment Write(int64_t number, uint64_t first, uint64_t count) {
    auto writer = SpoolWriter::Create(files_.root(), {number, kWriter}, first, 9);
    EXPECT_TRUE(writer.ok()) << writer.status();
    for (uint64_t i = 0; i < count; ++i)
      EXPECT_TRUE((*writer)->Append(BytesOf(Sample(first + i))).ok());
    return {number, kWriter, first, count};
  }
  void Know(std::vector<SpoolSegment> facts) {
    spool_->Set(std::make_shared<const std::vector<SpoolSegment>>(std::move(facts)));
  }
  std::unique_ptr<DataSet> Open(const DataSpec& data = Spec()) {
    auto set = OpenStream(data, 7, DataPart::kTraining, spool_,
                          {.clock = &clock_, .pause = [this](Duration time) {
                             clock_.Advance(time);
                             return true;
                           }});
    EXPECT_TRUE(set.ok()) << set.status();
    return set.ok() ? *std::move(set) : nullptr;
  }

  const Files files_;
  HandClock clock_;
  const std::shared_ptr<SpoolMap> spool_ = std::make_shared<SpoolMap>(files_.root());
};

TEST_F(StreamSetTest, ReadsPositionsWhereFactsSay) {
  Know({Write(0, 0, 3), Write(2, 3, 5)});
  const auto set = Open();
  ASSERT_NE(set, nullptr);
  EXPECT_EQ(set->Samples(), uint64_t{1} << 40);
  // As of other data sets a label of whole numbers is one of 64 bits.
  EXPECT_THAT(set->Fields(), ElementsAre(DataField{"pair", TensorType::kInt16, {2}},
                                         DataField{"real", TensorType::kFloat32, {}},
                                         DataField{"label", TensorType::kInt64, {}}));
  EXPECT_THAT(Read<int16_t>(*set, 0, {0, 1, 2, 3, 4}),
              ElementsAre(0, 0, 1, -1, 2, -2, 3, -3, 4, -4));
  EXPECT_THAT(Read<float>(*set, 1, {7, 3, 2, 3}), ElementsAre(3.5f, 1.5f, 1.0f, 1.5f));
  EXPECT_THAT(Read<int64_t>(*set, 2, {7, 3, 2, 3}, 5), ElementsAre(7, 3, 2, 3));
}

TEST_F(StreamSetTest, RowsGoWhereTheyAreAskedFor) {
  Know({Write(0, 0, 4)});
  const auto set = Open();
  Batch batch(set->Fields(), 4);
  ASSERT_TRUE(set->ReadInto(0, {2, 3}, batch, 1).ok());
  ASSERT_TRUE(set->ReadInto(0, {0}, batch, 0).ok());
  ASSERT_TRUE(set->ReadInto(0, {1}, batch, 3).ok());
  EXPECT_THAT(Values<int64_t>(batch.of(2)), ElementsAre(0, 2, 3, 1));
}

// As numpy says of an array that such bytes are seen as.
TEST_F(StreamSetTest, EachByteOfABooleanButZeroIsTrue) {
  Know({Write(0, 0, 8)});
  DataSpec data = Spec();
  data.label = "";
  data.fields[2].type = TensorType::kBool;
  EXPECT_THAT(Read<uint8_t>(*Open(data), 2, {0, 1, 2, 7}), ElementsAre(0, 1, 1, 1));
}

TEST_F(StreamSetTest, ManySamplesAreReadInPieces) {
  constexpr uint64_t kCount = 150'000;
  std::string samples;
  for (uint64_t i = 0; i < kCount; ++i) samples += Sample(i);
  auto writer = SpoolWriter::Create(files_.root(), {0, kWriter}, 0, 9);
  ASSERT_TRUE((*writer)->Append(BytesOf(samples)).ok());
  Know({{0, kWriter, 0, kCount}});
  std::vector<uint64_t> ids(kCount);
  for (uint64_t i = 0; i < kCount; ++i) ids[i] = i;
  const std::vector<float> reals = Read<float>(*Open(), 1, ids);
  ASSERT_EQ(reals.size(), kCount);
  for (uint64_t i = 0; i < kCount; ++i) ASSERT_EQ(reals[i], static_cast<float>(i) / 2);
}

TEST_F(StreamSetTest, FollowsTheMap) {
  const auto set = Open();
  const absl::Status none = set->Read(0, {0}).status();
  EXPECT_TRUE(absl::IsInternal(none)) << none;
  EXPECT_THAT(none.message(), HasSubstr("sample 0 of the stream is asked for, and none is known"));
  SpoolSegment fact = Write(0, 4, 3);
  fact.count = 2;
  Know({fact});
  EXPECT_TRUE(set->Read(0, {4, 5}).ok());
  for (const uint64_t id : {3, 6}) {
    const absl::Status unknown = set->Read(0, {id}).status();
    EXPECT_TRUE(absl::IsInternal(unknown)) << unknown;
    EXPECT_THAT(unknown.message(), HasSubstr("those from 4 to 6 are known"));
  }
  fact.count = 3;
  Know({fact});
  EXPECT_TRUE(set->Read(0, {6}).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(set->Read(0, {uint64_t{1} << 40}).status()));
}

TEST_F(StreamSetTest, DamageAndWhatIsMissingAreTold) {
  Write(0, 0, 3);
  const std::string name = NameOf(SpoolFileName{0, kWriter});
  const auto set = Open();
  Know({{0, kWriter, 0, 4}});
  const absl::Status missing = set->Read(0, {2, 3}).status();
  EXPECT_TRUE(absl::IsUnavailable(missing)) << missing;
  EXPECT_EQ(clock_.Now(), Time{} + std::chrono::seconds(60));
  EXPECT_TRUE(set->Read(0, {0, 1, 2}).ok());
  std::string bytes(SpoolFileBytes(3, 9), 'x');
  files_.Write(name, bytes);
  const absl::Status damaged = set->Read(0, {0}).status();
  EXPECT_TRUE(absl::IsDataLoss(damaged)) << damaged;
  EXPECT_FALSE(IsBadSample(damaged));
  EXPECT_THAT(damaged.message(), HasSubstr(files_.root() + "/" + name + ": at byte 0"));
}

TEST_F(StreamSetTest, WhoeverWaitsIsLetGo) {
  Know({{0, kWriter, 0, 1}});
  const auto set = OpenStream(Spec(), 7, DataPart::kTraining, spool_);
  ASSERT_TRUE(set.ok());
  std::thread closer([&] { spool_->Close(); });
  EXPECT_TRUE(absl::IsCancelled((*set)->Read(0, {0}).status()));
  closer.join();
}

// ---- what is only tried

TEST_F(StreamSetTest, TriesHaveMadeRows) {
  DataSpec data = Spec();
  data.label = "";
  data.fields = {{"f32", TensorType::kFloat32, {8}}, {"f64", TensorType::kFloat64, {8}},
                 {"f16", TensorType::kFloat16, {8}}, {"bf16", TensorType::kBfloat16, {8}},
                 {"int", TensorType::kInt32, {8}},   {"bool", TensorType::kBool, {8}}};
  const auto set = Open(data);
  for (size_t f = 0; f < 4; ++f) {
    const std::vector<float> reals = Read<float>(*set, f, {0, 1, 2}, -1);
    ASSERT_EQ(reals.size(), 24u);
    std::set<float> different(reals.begin(), reals.end());
    EXPECT_GT(different.size(), 12u) << data.fields[f].name;
    for (const float real : reals) EXPECT_TRUE(real >= 0 && real < 1) << real;
    EXPECT_EQ(Read<float>(*set, f, {2, 1}, -1)[8], reals[8]);
  }
  EXPECT_THAT(Read<int32_t>(*set, 4, {0, 1}, -1), Each(0));
  EXPECT_THAT(Read<uint8_t>(*set, 5, {0, 1}, -1), Each(0));
  // The same ones in every release: they are part of the numeric environment.
  EXPECT_EQ(Read<float>(*set, 0, {0}, -1)[0], 13085500 * 0x1p-24f);
}

TEST(StreamSet, WithoutASpoolOnlyTriesCanBeRead) {
  const auto set = OpenDataSet(Spec(), 7);
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_TRUE((*set)->Read(-1, {0}).ok());
  const absl::Status status = (*set)->Read(0, {0}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
}

// ---- as the data set of a task

TEST_F(StreamSetTest, ATaskFindsTheSpoolInItsOptions) {
  Know({Write(0, 0, 3)});
  TaskOptions options;
  options.data = Spec();
  options.spool = spool_;
  const auto set = OpenDataSet(options);
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_THAT(Read<int64_t>(**set, 2, {2, 1}), ElementsAre(2, 1));
}

// It is measured with files as a folder of a stream has them.
TEST_F(StreamSetTest, ATaskIsMeasuredWithFilesOfSamples) {
  TaskOptions options;
  options.data = Spec();
  options.part = DataPart::kValidation;
  options.validation_paths = {files_.Write("v/a", Sample(3) + Sample(4)), files_.Write("v/b", ""),
                              files_.Write("v/c", Sample(5))};
  const auto set = OpenDataSet(options);
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ((*set)->Samples(), 3u);
  EXPECT_THAT(Read<int64_t>(**set, 2, {0, 1, 2}, -1), ElementsAre(3, 4, 5));
  EXPECT_THAT(Read<float>(**set, 1, {2, 0}, -1), ElementsAre(2.5f, 1.5f));
  options.validation_paths = {files_.Write("w/a", Sample(3) + "x")};
  const absl::Status part = OpenDataSet(options).status();
  EXPECT_TRUE(absl::IsDataLoss(part)) << part;
  EXPECT_THAT(part.message(), HasSubstr("w/a: at byte 9: it ends within a sample"));
}

TEST_F(StreamSetTest, NothingIsLeftOutOfAStream) {
  TaskOptions options;
  options.data = Spec();
  options.part = DataPart::kValidation;
  EXPECT_THAT(OpenDataSet(options).status().message(), HasSubstr("data.validation_share: "));
  options.part = DataPart::kTraining;
  options.data.validation_share = 0.1;
  const absl::Status status = OpenDataSet(options).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
}

TEST_F(StreamSetTest, InputsAreNormalisedAsThoseOfFiles) {
  Know({Write(0, 0, 4)});
  DataSpec data = Spec();
  data.mean = {1};
  data.deviation = {2};
  const auto set = Open(data);
  EXPECT_EQ(set->Fields()[0].type, TensorType::kFloat32);
  EXPECT_THAT(Read<float>(*set, 0, {3}), ElementsAre(1.0f, -2.0f));
}

// ---- the hash and what cannot be

TEST_F(StreamSetTest, TheHashIsThatOfFieldsAndWhatIsDoneToThem) {
  std::set<std::string> hashes;
  const auto add = [&](const DataSpec& data) {
    const std::string hash = Open(data)->ContentHash();
    EXPECT_EQ(hash.size(), 64u);
    return hashes.insert(hash).second;
  };
  EXPECT_TRUE(add(Spec()));
  Know({Write(0, 0, 3)});
  EXPECT_FALSE(add(Spec())) << "what has come is in no hash";
  const std::vector<std::function<void(DataSpec&)>> kOthers = {
      [](DataSpec& data) { data.fields[0].name = "other"; },
      [](DataSpec& data) { data.fields[0].type = TensorType::kInt32; },
      [](DataSpec& data) {
        data.fields[0].shape = {1, 2};
      },
      [](DataSpec& data) { data.fields.erase(data.fields.begin()); },
      [](DataSpec& data) { data.label = ""; },
      [](DataSpec& data) { data.mean = {0.5}; },
      [](DataSpec& data) { data.deviation = {0.5}; },
      [](DataSpec& data) {
        data.shape = {2, 1};
      }};
  for (const auto& change : kOthers) {
    DataSpec data = Spec();
    change(data);
    EXPECT_TRUE(add(data));
  }
}

TEST(StreamFields, WhatCannotBeIsNamed) {
  struct Case {
    std::vector<DataField> fields;
    std::string label, said;
  };
  const DataField kFloat{"x", TensorType::kFloat32, {}};
  const Case kCases[] = {
      {{}, "", "data.stream.fields: say what a sample"},
      {{{"", TensorType::kInt8, {}}}, "", "data.stream.fields: a field has no name"},
      {{kFloat, kFloat}, "", "data.stream.fields: two are called 'x'"},
      {{{"x", TensorType::kInt8, {3, 0}}}, "", "data.stream.fields: 'x' has the shape (3, 0)"},
      {{{"x", TensorType::kInt8, {INT64_MAX, INT64_MAX}}}, "", "at most 1073741824 bytes"},
      {{{"x", TensorType::kFloat64, {1 << 28}}}, "", "at most 1073741824 bytes"},
      {{{"x", TensorType::kInt8, {1 << 30}}, {"y", TensorType::kInt8, {}}},
       "",
       "data.stream.fields: a sample would have 1073741825 bytes"},
      {{kFloat, {"y", TensorType::kInt8, {}}},
       "x",
       "data.label: it is the last of data.stream.fields"},
  };
  for (const Case& wrong : kCases) {
    DataSpec data;
    data.format = DataFormat::kStream;
    data.fields = wrong.fields;
    data.label = wrong.label;
    const absl::Status status = OpenDataSet(data, 7).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr(wrong.said));
  }
  EXPECT_EQ(*StreamSampleBytes(Spec()), 9u);
}

}  // namespace
}  // namespace muster
