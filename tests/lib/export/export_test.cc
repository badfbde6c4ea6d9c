#include "lib/export/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "lib/export/export_plan.h"
#include "lib/export/pickle.h"
#include "tests/lib/checkpoint/support.h"
#include "tests/lib/export/in_memory.h"
#include "tests/lib/export/zip_reader.h"

namespace muster {
namespace {

using testing::HasSubstr;

class ExportTest : public testing::Test {
 protected:
  void SetUp() override {
    training_.task = "ugly";
    training_.optimizer.kind = OptimizerKind::kAdam;
    std::filesystem::remove_all(folder_);
    ASSERT_TRUE(files_->MakeFolder().ok());
    manifest_ = *Save(*files_, layout_, state_, 1, 40);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  absl::StatusOr<Exported> Write(ExportFormat format, bool optimizer, InMemory& to) {
    return Export(*files_, manifest_, training_, {.format = format, .optimizer = optimizer}, to);
  }
  // Another model, with a slot of its optimizer and a moving average.
  State SaveWithAverage(const std::vector<TensorSpec>& tensors, const Layout& layout) {
    State state = MakeState(layout, 5);
    manifest_ = *Save(*files_, layout, state, 1, 41, 2, kUglyChunkBytes, tensors);
    training_.optimizer.kind = OptimizerKind::kRmsprop;
    training_.ema_decay = 0.9;
    return state;
  }
  // The bytes of a tensor, in the memory that was saved.
  std::string Expected(const Placed& tensor, size_t slot) const {
    std::string bytes(static_cast<size_t>(tensor.spec.Bytes()), '\0');
    std::memcpy(bytes.data(), state_.slots[slot].data() + tensor.offset, bytes.size());
    return bytes;
  }

  const std::string folder_ = testing::TempDir() + "export-" + std::to_string(getpid());
  const std::unique_ptr<CheckpointFiles> files_ = CheckpointFilesIn(folder_);
  const Layout layout_ = UglyLayout();
  const State state_ = MakeState(layout_, 3);
  TrainingSpec training_;
  Manifest manifest_;
};

TEST_F(ExportTest, SafetensorsHoldEachTensorUnderItsName) {
  InMemory memory;
  const auto exported = Write(ExportFormat::kSafetensors, true, memory);
  ASSERT_EQ(exported.status(), absl::OkStatus());
  EXPECT_EQ(exported->tensors, 6u + 4u * 2u);
  const uint64_t length = NumberAt(memory.file, 0, 8);
  EXPECT_EQ((8 + length) % 64, 0u);
  const auto header = nlohmann::json::parse(memory.file.substr(8, length));
  EXPECT_EQ(header["__metadata__"]["muster.step"], "40");
  EXPECT_EQ(header.size(), 1 + exported->tensors);
  const auto expect = [&](const std::string& name, const Placed& tensor, size_t slot) {
    const auto& entry = header.at(name);
    EXPECT_EQ(entry["dtype"], "F32");
    EXPECT_EQ(entry["shape"], tensor.spec.shape);
    const size_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
    EXPECT_TRUE(memory.file.substr(8 + length + begin, end - begin) == Expected(tensor, slot))
        << name;
  };
  for (const Placed& tensor : layout_.tensors()) {
    expect(tensor.spec.name, tensor, 0);
    if (tensor.spec.kind == TensorKind::kBuffer) continue;
    expect("optimizer.exp_avg." + tensor.spec.name, tensor, 1);
    expect("optimizer.exp_avg_sq." + tensor.spec.name, tensor, 2);
  }
  EXPECT_EQ(memory.file.size(), 8 + length + exported->bytes) << "no hole, and nothing behind";
}

TEST_F(ExportTest, PtHoldsARecordForEachTensorAndOneForEachStep) {
  InMemory memory;
  ASSERT_EQ(Write(ExportFormat::kPt, true, memory).status(), absl::OkStatus());
  auto records = ReadZip(memory.file);
  const std::vector<ExportItem> items = PlanExport(layout_, 2);
  for (size_t i = 0; i < items.size(); ++i)
    EXPECT_TRUE(records["archive/data/" + std::to_string(i)] ==
                Expected(*items[i].tensor, static_cast<size_t>(items[i].slot)))
        << i;
  const float step = 40;
  for (size_t p = 0; p < 4; ++p)
    EXPECT_EQ(records["archive/data/" + std::to_string(items.size() + p)],
              std::string(reinterpret_cast<const char*>(&step), sizeof step));
  EXPECT_EQ(records["archive/version"], "3\n");
  EXPECT_EQ(records["archive/byteorder"], "little");
  EXPECT_EQ(records.size(), 3 + items.size() + 4);
  for (const char* word : {"model", "optimizer", "exp_avg_sq", "a.weight", "param_groups"})
    EXPECT_THAT(records["archive/data.pkl"], HasSubstr(word));
}

TEST_F(ExportTest, TheStepOfAForkCountsThoseThatItsSlotsHaveSeen) {
  training_.initial.parent = ParentState{"p", 7, std::string(64, 'a'), 7, false};
  InMemory memory;
  ASSERT_EQ(Write(ExportFormat::kPt, true, memory).status(), absl::OkStatus());
  const float step = 47;
  EXPECT_EQ(ReadZip(memory.file)["archive/data/" + std::to_string(PlanExport(layout_, 2).size())],
            std::string(reinterpret_cast<const char*>(&step), sizeof step));
}

// LAMB counts the steps of a group, too.
TEST_F(ExportTest, TheStepOfAForkIsTheSameInAGroupOfLamb) {
  training_.initial.parent = ParentState{"p", 7, std::string(64, 'a'), 7, false};
  training_.optimizer.kind = OptimizerKind::kLamb;
  InMemory memory;
  ASSERT_EQ(Write(ExportFormat::kPt, true, memory).status(), absl::OkStatus());
  auto records = ReadZip(memory.file);
  const float step = 47;
  EXPECT_EQ(records["archive/data/" + std::to_string(PlanExport(layout_, 2).size())],
            std::string(reinterpret_cast<const char*>(&step), sizeof step));
  Pickle expected;
  expected.Text("step");
  expected.Integer(47);
  std::string bytes = expected.Finish();
  bytes = bytes.substr(2, bytes.size() - 3);  // without protocol and end
  EXPECT_THAT(records["archive/data.pkl"], HasSubstr(bytes));
}

TEST_F(ExportTest, PtWithoutTheOptimizerIsAStateDict) {
  InMemory memory;
  ASSERT_EQ(Write(ExportFormat::kPt, false, memory).status(), absl::OkStatus());
  auto records = ReadZip(memory.file);
  EXPECT_EQ(records.size(), 3u + 6u);
  EXPECT_THAT(records["archive/data.pkl"], testing::Not(HasSubstr("optimizer")));
}

TEST_F(ExportTest, TheMovingAverageStandsBesideTheOptimizer) {
  training_.optimizer.kind = OptimizerKind::kRmsprop;
  training_.ema_decay = 0.9;
  InMemory memory;
  ASSERT_EQ(Write(ExportFormat::kSafetensors, true, memory).status(), absl::OkStatus());
  const uint64_t length = NumberAt(memory.file, 0, 8);
  const auto header = nlohmann::json::parse(memory.file.substr(8, length));
  for (const Placed& tensor : layout_.tensors()) {
    if (tensor.spec.kind == TensorKind::kBuffer) continue;
    for (const auto& [name, slot] : {std::pair("optimizer.square_avg." + tensor.spec.name, 1),
                                     std::pair("ema." + tensor.spec.name, 2)}) {
      const size_t begin = header.at(name)["data_offsets"][0],
                   end = header.at(name)["data_offsets"][1];
      EXPECT_TRUE(memory.file.substr(8 + length + begin, end - begin) ==
                  Expected(tensor, static_cast<size_t>(slot)))
          << name;
    }
  }
  InMemory pt;
  ASSERT_EQ(Write(ExportFormat::kPt, true, pt).status(), absl::OkStatus());
  auto records = ReadZip(pt.file);
  for (const char* word : {"ema", "square_avg", "alpha", "centered"})
    EXPECT_THAT(records["archive/data.pkl"], HasSubstr(word));
}

TEST_F(ExportTest, TheMovingAverageMayStandInTheParametersPlace) {
  training_.optimizer.kind = OptimizerKind::kRmsprop;
  training_.ema_decay = 0.9;
  const auto write = [&](ExportFormat format, InMemory& to) {
    return Export(*files_, manifest_, training_, {.format = format, .average = true}, to);
  };
  InMemory memory;
  const auto exported = write(ExportFormat::kSafetensors, memory);
  ASSERT_EQ(exported.status(), absl::OkStatus());
  EXPECT_EQ(exported->tensors, 6u);
  const uint64_t length = NumberAt(memory.file, 0, 8);
  const auto header = nlohmann::json::parse(memory.file.substr(8, length));
  EXPECT_EQ(header["__metadata__"]["muster.parameters"], "average");
  InMemory pt;
  ASSERT_EQ(write(ExportFormat::kPt, pt).status(), absl::OkStatus());
  auto records = ReadZip(pt.file);
  EXPECT_EQ(records.size(), 3u + 6u);
  const std::vector<ExportItem> items = PlanExport(layout_, 0);
  for (size_t i = 0; i < items.size(); ++i) {
    const Placed& tensor = *items[i].tensor;
    const std::string expected =
        Expected(tensor, tensor.spec.kind == TensorKind::kParameter ? size_t{2} : size_t{0});
    const auto& offsets = header.at(tensor.spec.name)["data_offsets"];
    const size_t begin = offsets[0], end = offsets[1];
    EXPECT_TRUE(memory.file.substr(8 + length + begin, end - begin) == expected)
        << tensor.spec.name;
    EXPECT_TRUE(records["archive/data/" + std::to_string(i)] == expected) << tensor.spec.name;
  }
  training_.ema_decay = 0;
  InMemory none;
  const absl::Status refused = write(ExportFormat::kPt, none).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("ema.decay"));
  EXPECT_EQ(none.file, "");
}

// Tied weights: load_state_dict wants every name, and torch.optim knows the parameter once.
TEST_F(ExportTest, ATensorOfSeveralNamesIsWrittenUnderEach) {
  const std::vector<TensorSpec> tensors = {
      {.name = "a.weight", .shape = {2, 3}, .aliases = {"b.weight", "c.weight"}},
      {.name = "b.bias", .shape = {2}}};
  const Layout layout = Layout::Make(tensors, kUglyChunkBytes).value();
  const State state = SaveWithAverage(tensors, layout);
  InMemory memory;
  const auto exported = Write(ExportFormat::kSafetensors, true, memory);
  ASSERT_EQ(exported.status(), absl::OkStatus());
  EXPECT_EQ(exported->tensors, 4u + 2u + 4u);
  const uint64_t length = NumberAt(memory.file, 0, 8);
  const auto header = nlohmann::json::parse(memory.file.substr(8, length));
  EXPECT_EQ(header.size(), 1 + exported->tensors);
  EXPECT_EQ(memory.file.size(), 8 + length + exported->bytes);
  const auto bytes_of = [&](const std::string& name) {
    const auto& offsets = header.at(name)["data_offsets"];
    const size_t begin = offsets[0], end = offsets[1];
    return memory.file.substr(8 + length + begin, end - begin);
  };
  const auto expected = [&](size_t slot) {
    std::string bytes(6 * sizeof(float), '\0');
    std::memcpy(bytes.data(), state.slots[slot].data() + layout.tensors()[0].offset, bytes.size());
    return bytes;
  };
  for (const char* name : {"a.weight", "b.weight", "c.weight"}) {
    EXPECT_TRUE(bytes_of(name) == expected(0)) << name;
    EXPECT_TRUE(bytes_of(std::string("ema.") + name) == expected(2)) << name;
  }
  EXPECT_TRUE(bytes_of("optimizer.square_avg.a.weight") == expected(1));
  EXPECT_FALSE(header.contains("optimizer.square_avg.b.weight"));
  InMemory pt;
  ASSERT_EQ(Write(ExportFormat::kPt, true, pt).status(), absl::OkStatus());
  auto records = ReadZip(pt.file);
  EXPECT_EQ(records.size(), 3u + 6u + 2u) << "one record of values, and one step of each parameter";
  for (const char* name : {"a.weight", "b.weight", "c.weight"})
    EXPECT_THAT(records["archive/data.pkl"], HasSubstr(name));
}

// A model may have a module that is called as the moving average is.
TEST_F(ExportTest, TwoEntriesOfOneNameAreRefused) {
  const std::vector<TensorSpec> tensors = {{"fc.weight", {2, 2}}, {"ema.fc.weight", {2, 2}}};
  SaveWithAverage(tensors, Layout::Make(tensors, kUglyChunkBytes).value());
  InMemory memory;
  const absl::Status refused = Write(ExportFormat::kSafetensors, true, memory).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("two entries 'ema.fc.weight'; "));
  EXPECT_EQ(memory.file, "");
  EXPECT_EQ(Write(ExportFormat::kSafetensors, false, memory).status(), absl::OkStatus());
  InMemory pt;
  EXPECT_EQ(Write(ExportFormat::kPt, true, pt).status(), absl::OkStatus());
}

// LARS with a moving average, so that it has the two slots of what was saved.
TEST_F(ExportTest, LambAndLarsHaveTheNamesOfTimm) {
  const size_t items = PlanExport(layout_, 2).size();
  const struct {
    OptimizerKind kind;
    std::vector<const char*> words;
    size_t steps;  // records of them, a tensor each
  } kRows[] = {
      {OptimizerKind::kLamb, {"exp_avg", "exp_avg_sq", "max_grad_norm", "always_adapt"}, 4},
      {OptimizerKind::kLars, {"momentum_buffer", "trust_coeff", "dampening", "always_adapt"}, 0}};
  for (const auto& row : kRows) {
    training_.optimizer.kind = row.kind;
    training_.ema_decay = row.kind == OptimizerKind::kLars ? 0.9 : 0;
    InMemory memory;
    ASSERT_EQ(Write(ExportFormat::kPt, true, memory).status(), absl::OkStatus());
    auto records = ReadZip(memory.file);
    EXPECT_EQ(records.size(), 3 + items + row.steps);
    for (const char* word : row.words) EXPECT_THAT(records["archive/data.pkl"], HasSubstr(word));
  }
}

TEST_F(ExportTest, ACheckpointWithOtherSlotsThanItsOptimizersIsDamaged) {
  training_.ema_decay = 0.9;
  InMemory memory;
  EXPECT_EQ(Write(ExportFormat::kPt, true, memory).status().code(), absl::StatusCode::kDataLoss);
}

TEST(GroupsOf, AreTheParametersOfOneRule) {
  const Layout layout = Layout::Make({{"a.weight", {2, 2}},
                                      {"a.bias", {2}},
                                      {"a.mean", {2}, TensorKind::kBuffer},
                                      {"b.weight", {2, 2}},
                                      {"b.bias", {2}}},
                                     64)
                            .value();
  TrainingSpec training;
  ASSERT_EQ(GroupsOf(training, layout)->size(), 1u);
  EXPECT_EQ(GroupsOf(training, layout)->at(0).parameters, (std::vector<int64_t>{0, 1, 2, 3}));
  training.optimizer.weight_decay = 0.5;
  training.groups = {{.match = "*.bias", .weight_decay = 0}};
  const std::vector<ExportedGroup> groups = GroupsOf(training, layout).value();
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].parameters, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(groups[0].rule.weight_decay, 0.5);
  EXPECT_EQ(groups[1].parameters, (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(groups[1].rule.weight_decay, 0);
}

// Golden bytes, as pickletools.dis reads them: GLOBAL, MARK, MARK, 'storage' and so on.
TEST(PickleTest, ATensorIsWhatTorchSaveWrites) {
  Pickle pickle;
  pickle.Tensor("7", TensorType::kInt64, {2, 3});
  const auto i = [](char n) { return std::string{'J', n, 0, 0, 0}; };
  const auto t = [](const std::string& text) {
    return std::string{'X', static_cast<char>(text.size()), 0, 0, 0} + text;
  };
  EXPECT_EQ(pickle.Finish(), std::string("\x80\x02") + "ctorch._utils\n_rebuild_tensor_v2\n((" +
                                 t("storage") + "ctorch\nLongStorage\n" + t("7") + t("cpu") + i(6) +
                                 "tQ" + i(0) + "(" + i(2) + i(3) + "t(" + i(3) + i(1) + "t\x89" +
                                 "ccollections\nOrderedDict\n)RtR.");
}

TEST(PickleTest, NumbersOfEverySize) {
  Pickle pickle;
  pickle.Integer(-1);
  pickle.Integer(int64_t{1} << 40);
  pickle.Real(-0.5);
  EXPECT_EQ(pickle.Finish(), std::string("\x80\x02J\xff\xff\xff\xff\x8a\x08\0\0\0\0\0\x01\0\0"
                                         "G\xbf\xe0\0\0\0\0\0\0.",
                                         27));
}

TEST_F(ExportTest, ADamagedPartAndAFullDiskEndIt) {
  InMemory full;
  full.most = 300;
  EXPECT_EQ(Write(ExportFormat::kPt, true, full).status().code(),
            absl::StatusCode::kResourceExhausted);
  const std::string segment = folder_ + "/" + manifest_.segments[0].file;
  FlipBits(segment, std::filesystem::file_size(segment) - 1, 4);
  InMemory memory;
  const absl::Status damaged = Write(ExportFormat::kSafetensors, true, memory).status();
  EXPECT_EQ(damaged.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(damaged.message()), HasSubstr("w0"));
}

}  // namespace
}  // namespace muster
