#include "worker/tasks/layer_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lib/domain/job.h"
#include "lib/wire/job_codec.h"

namespace muster::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const DataField kImage = {"image", TensorType::kFloat32, {3, 32, 32}};
const DataField kRow = {"input", TensorType::kFloat32, {5}};
const DataField kBytes = {"input", TensorType::kUint8, {16}};

LayerList Read(const std::string& json, const DataField& input = kImage) {
  absl::StatusOr<LayerList> list = ReadLayers(json, input);
  EXPECT_TRUE(list.ok()) << list.status();
  return list.ok() ? *std::move(list) : LayerList{};
}

std::string ErrorOf(const std::string& json, const DataField& input = kImage) {
  const absl::Status status = ReadLayers(json, input).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << json << status;
  return std::string(status.message());
}

TEST(LayerList, ShapesFollowFromLayerToLayer) {
  const LayerList list = Read(R"([
      {"conv2d": {"channels": 8, "size": 3, "stride": 2, "padding": 1, "bias": false}},
      "batch_norm", "relu", {"max_pool": 2}, {"avg_pool": {"size": 3, "stride": 1, "padding": 1}},
      "flatten", {"dropout": 0.1}, {"linear": 10}])");
  ASSERT_EQ(list.layers.size(), 8u);
  EXPECT_THAT(list.layers[0].output, ElementsAre(8, 16, 16));
  EXPECT_THAT(list.layers[3].output, ElementsAre(8, 8, 8));
  EXPECT_THAT(list.layers[4].output, ElementsAre(8, 8, 8));
  EXPECT_THAT(list.layers[5].output, ElementsAre(512));
  EXPECT_THAT(list.output, ElementsAre(10));
  EXPECT_EQ(list.parameters, 8 * 3 * 9 + 2 * 8 + 513 * 10);
  EXPECT_EQ(list.layers[0].numbers.at("groups"), 1);
}

TEST(LayerList, BlocksHoldLists) {
  const LayerList list = Read(R"([
      {"residual": {"layers": [{"conv2d": {"channels": 6, "size": 3, "padding": 1}}],
                    "shortcut": [{"conv2d": {"channels": 6, "size": 1}}]}},
      {"residual": ["gelu", {"residual": ["tanh"]}]},
      {"parallel": [["relu"], [{"conv2d": {"channels": 4, "size": 1}}], []]},
      {"parallel": {"branches": [["relu"], []], "join": "sum"}}, "global_avg_pool"])");
  EXPECT_THAT(list.layers[0].output, ElementsAre(6, 32, 32));
  EXPECT_EQ(list.layers[1].lists[0][1].lists[0][0].path, "layers[1].residual[1].residual[0]");
  EXPECT_THAT(list.layers[2].output, ElementsAre(16, 32, 32));
  EXPECT_TRUE(list.layers[3].adds);
  EXPECT_THAT(list.output, ElementsAre(16));
}

TEST(LayerList, AnEmbeddingTakesWholeNumbers) {
  const LayerList list =
      Read(R"([{"embedding": {"count": 256, "size": 8}}, {"linear": 4}, "transpose"])", kBytes);
  EXPECT_THAT(list.layers[0].output, ElementsAre(16, 8));
  EXPECT_THAT(list.output, ElementsAre(4, 16));
  EXPECT_THAT(ErrorOf(R"([{"linear": 4}])", kBytes),
              HasSubstr("parameters.layers[0]: linear takes reals, and the samples are whole"));
  EXPECT_THAT(ErrorOf(R"([{"embedding": {"count": 9, "size": 8}}])", kRow),
              HasSubstr("embedding takes whole numbers, and what comes in are reals"));
}

TEST(LayerList, WhatIsWrongIsNamedByItsPath) {
  const struct {
    std::string json;
    const char* says;
  } cases[] = {
      {"{}", "parameters.layers: {} is no list of layers"},
      {"[1", "parameters.layers: "},
      {"[]", "parameters.layers: is empty"},
      {R"(["relu"])", "parameters.layers: has no layer that learns"},
      {R"(["rely"])", "parameters.layers[0]: 'rely' is no layer; there are linear, conv2d, "},
      {R"([{"relu": 1, "tanh": 2}])", R"(parameters.layers[0]: {"relu":1,"tanh":2} is no layer)"},
      {R"([{"relu": {"slope": 1}}])", "parameters.layers[0].relu.slope: it takes nothing"},
      {R"([{"relu": 3}])", "parameters.layers[0].relu: 3 is not for it; it takes nothing"},
      {R"(["linear"])", "parameters.layers[0].linear.size: is missing; give a number of 1 to"},
      {R"([{"linear": 0.5}])", "layers[0].linear.size: 0.5 is not allowed; allowed: whole numbers"},
      {R"([{"linear": [3]}])", "layers[0].linear: [3] is no mapping; write {size: …, bias: …}"},
      {R"([{"linear": {"size": 3, "bias": 1}}])", "linear.bias: 1 is neither true nor false"},
      {R"([{"linear": {"sise": 3}}])", "linear.sise: is not known; allowed: size, bias"},
      {R"([{"dropout": 1}])", "layers[0].dropout.share: 1 is not allowed; allowed: 0 to 0.95"},
      {R"(["flatten", {"conv2d": {"channels": 1, "size": 1}}])",
       "layers[1]: conv2d needs channels × height × width; what comes in is 3072"},
      {R"([{"conv2d": {"channels": 4, "size": 33}}])",
       "layers[0]: conv2d: size 33 is larger than the 3 × 32 × 32 that come in"},
      {R"([{"conv2d": {"channels": 4, "size": 1, "groups": 2}}])",
       "layers[0]: conv2d: groups 2 does not divide the 3 channels that come in"},
      {R"([{"max_pool": {"size": 2, "padding": 2}}])", "padding 2 is more than half of size 2"},
      {R"([{"residual": [{"linear": 5}]}])",
       "layers[0]: residual: its layers make 3 × 32 × 5, and what comes in is 3 × 32 × 32"},
      {R"([{"residual": ["relu", "rely"]}])", "parameters.layers[0].residual[1]: 'rely' is no"},
      {R"([{"residual": {"layer": []}}])", "layers[0].residual.layer: is not known; allowed: "},
      {R"([{"parallel": [["relu"], [{"linear": 5}]]}])",
       "layers[0]: parallel: branch 1 makes 3 × 32 × 5, and branch 0 3 × 32 × 32; they must be"},
      {R"([{"parallel": [["relu"]]}])", "is no list of two lists of layers or more"},
      {absl::StrCat(R"([{"parallel": [[")", std::string(5000, 'x'), R"("]]}])"),
       "xxx... is no list of two lists of layers or more"},
      {R"([{"parallel": {"branches": [[], []], "join": "mean"}}])",
       "layers[0].parallel.join: \"mean\" is not known; allowed: sum, concatenate"},
      {R"([{"parallel": [[], ["relu", "rely"]]}])", "layers[0].parallel[1][1]: 'rely' is no"},
      {R"([{"linear": 1048576}, {"conv2d": {"channels": 1048576, "size": 1}}])",
       "layers[1]: makes 1048576 × 32 × 1048576 of a sample; at most 2147483648"},
      {R"(["transpose"])", "layers[0]: transpose needs two dimensions"},
  };
  for (const auto& bad : cases) EXPECT_THAT(ErrorOf(bad.json), HasSubstr(bad.says)) << bad.json;
}

// As it stands in a job, so that no bound of the specification's comes first.
std::string ErrorInJob(const std::string& layers) {
  const absl::StatusOr<JobSpec> spec =
      ParseJobJson(absl::StrCat(R"({"name": "a", "task": "layers", "batch": 2, "steps": 2,
          "data": {"paths": ["/a"], "format": "csv", "label": "y"},
          "parameters": {"loss": "mse", "layers": )",
                                layers, "}}"),
                   "a.json");
  if (!spec.ok()) return std::string(spec.status().message());
  return ErrorOf(std::get<std::string>(spec->training.parameters.at("layers")));
}

TEST(LayerList, LevelsAndLayersAreBounded) {
  constexpr int kMostLevels = 32;
  const struct {
    const char* begin;
    const char* end;
  } forms[] = {{R"([{"residual":)", "}]"},
               {R"([{"residual":{"layers":)", "}}]"},
               {R"([{"parallel":[[],)", "]}]"},
               {R"([{"parallel":{"join":"sum","branches":[[],)", "]}}]"}};
  for (const auto& form : forms) {
    std::string layers = R"([{"linear":{"size":"many"}}])";
    for (int level = 1; level < kMostLevels; ++level)
      layers = absl::StrCat(form.begin, layers, form.end);
    EXPECT_THAT(ErrorInJob(layers), HasSubstr("\"many\" is not allowed")) << "all levels are read";
    const std::string error = ErrorInJob(absl::StrCat(form.begin, layers, form.end));
    EXPECT_THAT(error, HasSubstr(": layers nest in more than the 32 levels that are allowed"))
        << form.begin;
    // In its middle it is cut between two names.
    EXPECT_THAT(error, testing::ContainsRegex("[]ls]\\.\\.\\.(residual|parallel|layers|branches)"));
    EXPECT_THAT(error, testing::StartsWith("parameters.layers[0].")) << form.begin;
    EXPECT_LT(error.size(), 240U) << "its path is one that people can read: " << error;
  }
  std::string wide = "[\"relu\"";
  for (int i = 0; i < 4096; ++i) absl::StrAppend(&wide, ",\"relu\"");
  EXPECT_THAT(ErrorOf(wide + "]"), HasSubstr("more than the 4096 layers that are allowed"));
}

// Each is told with all that the reader takes, and its bounds are those that it is held to.
TEST(LayerList, WhatIsToldOfALayerIsWhatItTakes) {
  const std::vector<LayerHelp> all = LayersThereAre();
  EXPECT_EQ(all.size(), 21u);
  for (const LayerHelp& layer : all) {
    EXPECT_FALSE(layer.help.empty()) << layer.name;
    const std::string unknown = ErrorOf(absl::StrCat(R"([{")", layer.name, R"(": {"z": 1}}])"));
    for (const LayerField& field : layer.fields) {
      const TaskParameter& parameter = field.parameter;
      const std::string path = absl::StrCat(layer.name, ".", parameter.name);
      EXPECT_FALSE(parameter.help.empty()) << path;
      EXPECT_THAT(unknown, HasSubstr(parameter.name)) << path;
      if (parameter.kind != ParameterKind::kInteger && parameter.kind != ParameterKind::kReal)
        continue;
      const std::string above =
          ErrorOf(absl::StrCat(R"([{")", layer.name, R"(": {")", parameter.name, R"(": 1e9}}])"));
      // A needed one before it is missed first.
      const LayerField& first = layer.fields.front();
      if (field.is_needed && &field != &first && first.is_needed) continue;
      if (!field.is_needed && first.is_needed) continue;
      EXPECT_THAT(above, HasSubstr(path + ": 1000000000.0 is not allowed")) << path;
    }
  }
}

}  // namespace
}  // namespace muster::worker
