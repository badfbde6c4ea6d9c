// Tasks whose model comes from the job: torchscript and layers.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "muster/data_set.h"
#include "tests/lib/data/opened_set.h"
#include "tests/lib/data/written_files.h"
#include "tests/worker/tasks/lane_rig.h"
#include "worker/tasks/layers.h"
#include "worker/tasks/remembers.h"
#include "worker/tasks/torchscript.h"

namespace muster::worker {
namespace {

using testing::AllOf;
using testing::HasSubstr;

absl::Status StatusOf(const std::function<void()>& f) {
  try {
    f();
    return absl::OkStatus();
  } catch (const TaskError& error) {
    return error.status();
  }
}

std::vector<std::string> NamesOf(Task& task) {
  std::vector<std::string> names;
  for (const TensorSpec& tensor : task.Tensors()) names.push_back(tensor.name);
  return names;
}

// A lane gives the same bits whatever was run before it.
void ExpectPureLanes(LaneRig& rig) {
  FlatMemory first = rig.Memory(), other = rig.Memory(), again = rig.Memory();
  const auto lane = rig.Run({0, 1, 2, 3}, 5, first);
  ASSERT_TRUE(lane.ok()) << lane.status();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(rig.Run({4, 5, 6}, 6, other).ok());
  const auto same = rig.Run({0, 1, 2, 3}, 5, again);
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(lane->loss, same->loss);
  EXPECT_TRUE(first.SameBits(again));
  ASSERT_TRUE(rig.Run({0, 1, 2, 3}, 7, again).ok());
  EXPECT_FALSE(first.SameBits(again)) << "dropout is not seeded by the lane";
}

class ModelTasksTest : public testing::Test {
 protected:
  ModelTasksTest() : file_(absl::StrCat(testing::TempDir(), "model_tasks-", getpid(), ".csv")) {
    std::ofstream out(file_);
    out << "a,b,c,y\n";
    for (int i = 0; i < 12; ++i)
      out << i % 5 << "," << i % 3 << "," << -i << "," << (i % 5 + i % 3) % 4 << "\n";
  }
  ~ModelTasksTest() override { std::filesystem::remove(file_); }
  TaskOptions Options(const std::string& loss = "cross_entropy") const {
    TaskOptions options;
    options.parameters = {{"loss", loss}, {"label_smoothing", 0.0}, {"loss_beta", 1}, {"top_k", 5}};
    options.data.paths = {file_};
    options.data.format = DataFormat::kCsv;
    options.data.label = "y";
    if (loss == "cross_entropy") options.data.classes = {"y"};
    return options;
  }
  std::unique_ptr<Task> Script(const std::string& bytes,
                               const std::string& loss = "cross_entropy") const {
    return MakeTorchScript(Options(loss), "net.pt", bytes);
  }
  std::string ErrorOfScript(const std::string& bytes,
                            const std::string& loss = "cross_entropy") const {
    const absl::Status status = StatusOf([&] { Script(bytes, loss); });
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_EQ(status.message().find('\n'), std::string::npos) << status;
    return std::string(status.message());
  }
  std::unique_ptr<Task> Layers(const std::string& layers,
                               const std::string& loss = "cross_entropy") const {
    TaskOptions options = Options(loss);
    options.parameters["layers"] = layers;
    return MakeLayers(options);
  }
  std::string ErrorOfLayers(const std::string& layers,
                            const std::string& loss = "cross_entropy") const {
    return std::string(StatusOf([&] { Layers(layers, loss); }).message());
  }
  const std::string file_;
};

std::string Saved(const ::torch::jit::Module& module) {
  std::ostringstream out;
  module.save(out);
  return out.str();
}

// A module of one parameter and one buffer that does what `forward` says.
std::string Net(const std::string& forward, at::Tensor weight = at::full({3, 4}, 0.25)) {
  ::torch::jit::Module inner("Inner"), net("Net");
  inner.register_parameter("weight", weight.set_requires_grad(true), false);
  inner.register_attribute("training", c10::BoolType::get(), true);
  inner.define(
      "def forward(self, x: Tensor) -> Tensor:\n    return torch.matmul(x, self.weight)\n");
  net.register_module("inner", inner);
  net.register_buffer("mean", at::zeros({4}));
  net.register_parameter("scale", at::full({4}, 2.0), false);
  net.register_attribute("training", c10::BoolType::get(), true);
  net.register_attribute("passes", c10::IntType::get(), int64_t{0});
  net.register_attribute("kept", c10::ListType::ofTensors(), c10::List<at::Tensor>());
  net.register_attribute("sums", c10::ListType::ofTensors(),
                         c10::List<at::Tensor>({at::zeros({4})}));
  net.define(forward);
  return Saved(net);
}

constexpr char kForward[] =
    "def forward(self, x):\n"
    "    y = torch.dropout(torch.tanh(self.inner.forward(x)), 0.5, self.training)\n"
    "    if self.training:\n"
    "        self.mean = self.mean * 0.5 + torch.mean(y.detach(), 0) * 0.5\n"
    "    return y * self.scale - self.mean\n";

TEST_F(ModelTasksTest, AScriptIsBoundToTheFlatSpaceAndItsLanesArePure) {
  LaneRig rig(Script(Net(kForward)));
  // What needs no gradient stands with the buffers.
  EXPECT_THAT(NamesOf(rig.task()), testing::UnorderedElementsAre("inner.weight", "mean", "scale"));
  EXPECT_EQ(rig.task().Tensors()[0].kind, TensorKind::kParameter);
  EXPECT_EQ(rig.task().Tensors()[1].kind, TensorKind::kBuffer);
  ExpectPureLanes(rig);
  FlatMemory result = rig.Memory();
  ASSERT_TRUE(rig.Run({0, 1, 2}, 5, result).ok());
  for (const Placed& tensor : rig.layout().space().tensors) {
    const auto at = static_cast<size_t>(tensor.offset);
    if (tensor.spec.name == "mean") {
      EXPECT_NE(result.span()[at], 0) << "the buffer that was put in place of another counts";
      EXPECT_EQ(rig.parameters().span()[at], 0);
    }
    if (tensor.spec.name == "scale") {
      EXPECT_EQ(result.span()[at], 2) << "what needs no gradient stays";
    }
    if (tensor.spec.name == "inner.weight") {
      EXPECT_EQ(rig.parameters().span()[at], 0.25F) << "it begins as it was saved";
      EXPECT_NE(result.span()[at], 0);
    }
  }
}

// The attributes that differ after one more lane.
std::vector<std::string> ChangedByALane(LaneRig& rig) {
  auto& remembers = dynamic_cast<Remembers&>(rig.task());
  FlatMemory result = rig.Memory();
  const std::map<std::string, std::string> before = remembers.Remembered();
  EXPECT_TRUE(rig.Run({0, 1, 2}, 5, result).ok());
  std::vector<std::string> changed;
  for (const auto& [name, hash] : remembers.Remembered())
    if (before.at(name) != hash) changed.push_back(name);
  return changed;
}

TEST_F(ModelTasksTest, WhatAScriptRemembersBesideItsTensorsIsTold) {
  LaneRig clean(Script(Net(kForward)));
  EXPECT_THAT(ChangedByALane(clean), testing::IsEmpty()) << "its buffer is put back";
  EXPECT_THAT(dynamic_cast<Remembers&>(clean.task()).Remembered(),
              testing::UnorderedElementsAre(testing::Key("passes"), testing::Key("kept"),
                                            testing::Key("sums")));
  const struct {
    const char* does;
    const char* changes;
  } cases[] = {{"    self.passes = self.passes + 1\n", "passes"},
               {"    self.kept.append(torch.zeros([4]))\n", "kept"},
               {"    self.sums[0].add_(1.0)\n", "sums"}};
  for (const auto& row : cases) {
    LaneRig rig(Script(Net(absl::StrCat("def forward(self, x):\n", row.does,
                                        "    return self.inner.forward(x) * self.scale\n"))));
    EXPECT_THAT(ChangedByALane(rig), testing::ElementsAre(row.changes)) << row.does;
  }
}

TEST_F(ModelTasksTest, AScriptIsMeasuredWithoutDropoutTwiceAlike) {
  LaneRig rig(Script(Net(kForward)));
  const std::vector<uint64_t> samples = {0, 1, 2, 3, 4};
  const auto first = rig.task().evaluates()->Evaluate(samples, rig.parameters().span());
  const auto again = rig.task().evaluates()->Evaluate(samples, rig.parameters().span());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->at(0).weight, 5);
  EXPECT_EQ(first->at(0).sum, again->at(0).sum);
}

TEST_F(ModelTasksTest, OneTensorUnderTwoNamesIsOneTensorAndKeepsBoth) {
  ::torch::jit::Module net("Net");
  const at::Tensor weight = at::full({3, 4}, 0.5).set_requires_grad(true);
  net.register_parameter("first", weight, false);
  net.register_parameter("second", weight, false);
  net.define("def forward(self, x):\n    return torch.matmul(x, self.first + self.second)\n");
  const std::vector<TensorSpec> tensors = Script(Saved(net))->Tensors();
  ASSERT_EQ(tensors.size(), 1U);
  EXPECT_EQ(tensors[0].Names(), (std::vector<std::string>{"first", "second"}));
}

TEST_F(ModelTasksTest, ABadFileEndsInOneSentence) {
  const std::string good = Net(kForward);
  EXPECT_THAT(ErrorOfScript("none"), HasSubstr("net.pt: is no TorchScript file, as torch.jit.save "
                                               "writes it: LibTorch: "));
  EXPECT_THAT(ErrorOfScript(""), HasSubstr("is no TorchScript file"));
  for (const char* saved : {"PK\3\4net/data.pkl and net/version PK\5\6", "\x80\x02}q."})
    EXPECT_THAT(ErrorOfScript(saved), HasSubstr("net.pt: is a file of torch.save, which holds no "
                                                "code; save the module by torch.jit.script"));
  EXPECT_THAT(ErrorOfScript(good.substr(0, good.size() / 2)), HasSubstr("is no TorchScript file"));
  ::torch::jit::Module empty("Net");
  EXPECT_THAT(ErrorOfScript(Saved(empty)), HasSubstr("its module has no method forward"));
  ::torch::jit::Module frozen("Net");
  frozen.define("def forward(self, x):\n    return x\n");
  EXPECT_THAT(ErrorOfScript(Saved(frozen)), HasSubstr("has no parameter to train"));
}

TEST_F(ModelTasksTest, AScriptThatDoesNotFitIsRefusedBeforeTheFirstLane) {
  EXPECT_THAT(ErrorOfScript(Net("def forward(self, x):\n    return (self.inner.forward(x), 1)\n")),
              HasSubstr("net.pt: forward returns a Tuple; it must return one tensor"));
  EXPECT_THAT(ErrorOfScript(Net("def forward(self, x, y):\n    return x\n")),
              HasSubstr("forward takes 2 inputs, and a sample has 1 beside its label"));
  EXPECT_THAT(
      ErrorOfScript(Net(kForward, at::zeros({5, 4}))),
      AllOf(HasSubstr("the model fails on the first samples: net.pt: LibTorch: RuntimeError: "),
            HasSubstr("cannot be multiplied (2x3 and 5x4)")));
  EXPECT_THAT(ErrorOfScript(Net(kForward), "mse"),
              HasSubstr("loss mse needs an output of the label's shape; the output is 4, the label "
                        "one number"));
  EXPECT_THAT(
      ErrorOfScript(Net(kForward, at::zeros({3, 4}, at::kDouble))),
      HasSubstr("parameter 'inner.weight' is of type Double; parameters are 32-bit floats"));
  EXPECT_THAT(
      ErrorOfScript(Net("def forward(self, x):\n"
                        "    self.mean = torch.zeros(2)\n    return self.inner.forward(x)\n")),
      HasSubstr("'mean' must keep its shape and type in forward"));
}

TEST_F(ModelTasksTest, ATensorOfAScriptWithoutNumbersIsToldWithTheFile) {
  EXPECT_THAT(ErrorOfScript(Net(kForward, at::zeros({0, 4}))),
              HasSubstr("net.pt: 'inner.weight' has the shape (0, 4), which holds no number"));
  ::torch::jit::Module net("Net");
  net.register_parameter("weight", at::ones({3, 4}).set_requires_grad(true), false);
  net.register_buffer("seen", at::zeros({0}));
  net.define("def forward(self, x):\n    return torch.matmul(x, self.weight)\n");
  EXPECT_THAT(ErrorOfScript(Saved(net)), HasSubstr("net.pt: 'seen' has the shape (0)"));
}

TEST_F(ModelTasksTest, LayersArePureAndNamedByTheirPlaces) {
  LaneRig rig(Layers(R"([{"linear": 8}, "batch_norm", "gelu", {"dropout": 0.3},
      {"residual": [{"linear": 8}, "tanh"]}, {"parallel": [["relu"], [{"linear": 2}]]},
      "layer_norm", {"linear": {"size": 4, "bias": false}}])"));
  EXPECT_THAT(NamesOf(rig.task()),
              testing::UnorderedElementsAre(
                  "0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var",
                  "1.num_batches_tracked", "4.residual.0.weight", "4.residual.0.bias",
                  "5.1.0.weight", "5.1.0.bias", "6.weight", "6.bias", "7.weight"));
  ExpectPureLanes(rig);
}

TEST_F(ModelTasksTest, ALabelThatIsNoClassIsNamedWithItsSampleAndFile) {
  constexpr char kLayers[] = R"([{"linear": 4}])";
  const Files files;
  const auto options = [&](const std::string& label) {
    TaskOptions with = Options();
    with.parameters["layers"] = kLayers;
    with.data.paths = {files.Write("a.csv", "x,y\n1,0\n2,1\n"),
                       files.Write("b.csv", "x,y\n3,2\n4," + label + "\n5,3\n")};
    return with;
  };
  const std::string says =
      files.root() + "/b.csv: row 1 (from 0): label 7 is no class of a model that tells 4 apart";
  LaneRig rig(MakeLayers(options("7")));
  FlatMemory gradient = rig.Memory();
  EXPECT_TRUE(rig.Run({4, 0, 2, 1}, 5, gradient).ok());
  const absl::Status lane = rig.Run({4, 0, 3, 1}, 5, gradient).status();
  EXPECT_EQ(lane.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(lane.message()), testing::StartsWith("sample 3: " + says));
  const absl::Status measured = rig.task()
                                    .evaluates()
                                    ->Evaluate(std::vector<uint64_t>{2, 3}, rig.parameters().span())
                                    .status();
  EXPECT_THAT(std::string(measured.message()), testing::StartsWith("sample 3: " + says));
  TaskOptions first = options("7");
  first.data.paths = {files.root() + "/b.csv"};
  EXPECT_THAT(std::string(StatusOf([&] { MakeLayers(first); }).message()),
              HasSubstr("sample 1: " + says));
}

TEST_F(ModelTasksTest, FirstWeightsOfLayersComeFromTheSeed) {
  constexpr char kLayers[] = R"([{"linear": 4}])";
  LaneRig one(Layers(kLayers), 1), same(Layers(kLayers), 1), other(Layers(kLayers), 2);
  EXPECT_TRUE(one.parameters().SameBits(same.parameters()));
  EXPECT_FALSE(one.parameters().SameBits(other.parameters()));
}

// Each kind of layer on an image, beside the shape that was worked out for it.
TEST_F(ModelTasksTest, ImagesGoThroughEachLayer) {
  const std::string file = testing::TempDir() + "data_batch_1.bin";
  std::string bytes;
  for (int i = 0; i < 6; ++i) {
    bytes.push_back(static_cast<char>(i));
    for (int b = 0; b < 3 * 32 * 32; ++b) bytes.push_back(static_cast<char>(b * i));
  }
  std::ofstream(file) << bytes;
  TaskOptions options = Options();
  options.data = {.paths = {file}, .format = DataFormat::kCifar10};
  options.parameters["layers"] =
      R"([{"conv2d": {"channels": 4, "size": 3, "padding": 1, "groups": 1}}, "batch_norm", "relu",
          {"max_pool": 2}, {"leaky_relu": 0.1}, {"avg_pool": 2}, "elu", "silu", "sigmoid",
          {"residual": {"layers": [{"conv2d": {"channels": 6, "size": 3, "stride": 2, "padding": 1}}],
                        "shortcut": [{"conv2d": {"channels": 6, "size": 1, "stride": 2}}]}},
          {"parallel": {"branches": [[], ["softplus"]], "join": "sum"}},
          "global_avg_pool", {"dropout": 0.2}, {"linear": 10}])";
  LaneRig rig(MakeLayers(options));
  FlatMemory first = rig.Memory(), again = rig.Memory();
  const auto lane = rig.Run({0, 1, 2}, 5, first);
  ASSERT_TRUE(lane.ok()) << lane.status();
  ASSERT_TRUE(rig.Run({3, 4, 5}, 6, again).ok());
  ASSERT_TRUE(rig.Run({0, 1, 2}, 5, again).ok());
  EXPECT_TRUE(first.SameBits(again));
}

// A NumPy file of bytes.
void WriteNpy(const std::string& file, const std::string& shape, const std::string& bytes) {
  std::string header =
      absl::StrCat("{'descr': '|u1', 'fortran_order': False, 'shape': ", shape, ", }");
  header.resize(117, ' ');
  std::ofstream(file) << std::string("\x93NUMPY\x01\x00\x76\x00", 10) << header << "\n" << bytes;
}

TEST_F(ModelTasksTest, WholeNumbersGoThroughAnEmbedding) {
  const std::string x = testing::TempDir() + "x.npy", y = testing::TempDir() + "y.npy";
  WriteNpy(x, "(3, 2)", std::string("\x00\x01\x02\x00\x01\x01", 6));
  WriteNpy(y, "(3,)", std::string("\x00\x01\x01", 3));
  TaskOptions options = Options();
  options.data = {.paths = {x, y}, .format = DataFormat::kNumpy, .label = "y"};
  options.parameters["layers"] =
      R"([{"embedding": {"count": 3, "size": 4}}, "flatten", {"linear": 2}])";
  LaneRig rig(MakeLayers(options));
  FlatMemory gradient = rig.Memory();
  EXPECT_TRUE(rig.Run({0, 1, 2}, 5, gradient).ok());
  options.parameters["layers"] =
      R"([{"embedding": {"count": 1, "size": 4}}, "flatten", {"linear": 2}])";
  const absl::Status status = StatusOf([&] { MakeLayers(options); });
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("parameters.layers[0]: a sample has 1, which is not below"));
}

TEST_F(ModelTasksTest, ClassesOfCsvGoThroughAnEmbedding) {
  TaskOptions options = Options();
  options.data.columns = {"a", "b"};
  options.data.classes = {"a", "b", "y"};
  options.parameters["layers"] =
      R"([{"embedding": {"count": 5, "size": 4}}, "flatten", {"dropout": 0.2}, {"linear": 4}])";
  LaneRig rig(MakeLayers(options));
  ExpectPureLanes(rig);
  // Sample 3 has a 3 for its a and a 0 for its b: these two rows of the table learn from it.
  FlatMemory gradient = rig.Memory();
  ASSERT_TRUE(rig.Run({3}, 5, gradient).ok());
  for (const Placed& tensor : rig.layout().space().tensors) {
    if (tensor.spec.name != "0.weight") continue;
    const auto table = gradient.span().subspan(static_cast<size_t>(tensor.offset), 20);
    for (size_t i = 0; i < 5; ++i) {
      const auto row = table.subspan(4 * i, 4);
      const bool learns = std::any_of(row.begin(), row.end(), [](float g) { return g != 0; });
      EXPECT_EQ(learns, i == 0 || i == 3) << i;
    }
  }
  options.data.classes = {"a", "y"};
  EXPECT_THAT(
      std::string(StatusOf([&] { MakeLayers(options); }).message()),
      HasSubstr("parameters.layers[0]: embedding takes whole numbers, and what comes in are "
                "reals; of CSV, data.classes names all columns of the input then"));
}

TEST_F(ModelTasksTest, LayersThatDoNotFitAreNamed) {
  EXPECT_THAT(ErrorOfLayers(R"([{"linear": 4}, "global_avg_pool"])"),
              HasSubstr("parameters.layers[1]: global_avg_pool needs channels × height × width"));
  EXPECT_THAT(ErrorOfLayers(R"([{"linear": 4}])", "mse"),
              HasSubstr("parameters.layers: loss mse needs an output of the label's shape"));
  EXPECT_THAT(ErrorOfLayers(R"([{"linear": 65536}, {"linear": 1048576}])"),
              testing::AllOf(HasSubstr("more than this worker has memory for: it needs 1099.5 GB "
                                       "and more, and may have "),
                             HasSubstr(" GB of this machine's; make layers smaller")));
}

// ---- samples that cannot be read

// Of five images the first and the third are broken.
TaskOptions BrokenImages(const Files& files, OnBadSample on_bad_sample) {
  for (int i = 0; i < 5; ++i) {
    Picture picture = Slope(4, 4);
    picture.pixels[0] = static_cast<char>(40 * i);
    const std::string bytes = Png(picture);
    files.Write(absl::StrCat(i % 2 == 0 ? "a/" : "a/b/", "0", i, ".png"),
                i == 0 || i == 2 ? bytes.substr(0, bytes.size() / 2) : bytes);
  }
  files.Write("b/9.png", Png(Slope(4, 4)));
  TaskOptions options;
  options.parameters = {{"loss", "cross_entropy"},
                        {"label_smoothing", 0.0},
                        {"loss_beta", 1},
                        {"top_k", 5},
                        {"layers", R"(["flatten",{"linear":6},"batch_norm","relu",{"linear":2}])"}};
  options.data.paths = {files.root()};
  options.data.format = DataFormat::kImages;
  options.data.image_size = {4, 4};
  options.data.on_bad_sample = on_bad_sample;
  return options;
}

// By name: a/00, a/02 and a/04 come before the folder a/b.
struct Images {
  std::vector<uint64_t> broken, sound;
};
Images Sorted(const TaskOptions& options) {
  const auto set = OpenDataSet(options).value();
  Images images;
  for (uint64_t id = 0; id < set->Samples(); ++id)
    (set->Read(0, {&id, 1}).ok() ? images.sound : images.broken).push_back(id);
  return images;
}

TEST(BadSamples, ALaneIsThatOfTheSamplesThatAreLeft) {
  const Files files;
  const TaskOptions options = BrokenImages(files, OnBadSample::kSkip);
  const auto [broken, sound] = Sorted(options);
  ASSERT_EQ(broken.size(), 2u);
  ASSERT_EQ(sound.size(), 4u);
  LaneRig rig(MakeLayers(options));
  FlatMemory rest = rig.Memory(), all = rig.Memory();
  const auto of_rest = rig.Run({sound[1], sound[0], sound[3]}, 5, rest);
  const auto of_all = rig.Run({broken[1], sound[1], sound[0], broken[0], sound[3]}, 5, all);
  ASSERT_TRUE(of_rest.ok()) << of_rest.status();
  ASSERT_TRUE(of_all.ok()) << of_all.status();
  EXPECT_EQ(of_all->left_out, (std::vector<uint32_t>{0, 3}));
  EXPECT_TRUE(of_rest->left_out.empty());
  EXPECT_EQ(of_all->weight, 3);
  EXPECT_EQ(of_all->loss, of_rest->loss);
  EXPECT_TRUE(all.SameBits(rest));
}

TEST(BadSamples, ALaneOfNothingElseChangesNothing) {
  const Files files;
  const TaskOptions options = BrokenImages(files, OnBadSample::kSkip);
  const Images images = Sorted(options);
  LaneRig rig(MakeLayers(options));
  FlatMemory gradient = rig.Memory();
  std::vector<size_t> ready;
  const auto output = rig.Run(images.broken, 5, gradient, rig.parameters(),
                              [&](size_t tensor) { ready.push_back(tensor); });
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(output->left_out, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(output->weight, 0);
  EXPECT_EQ(output->loss, 0);
  EXPECT_EQ(ready.size(), rig.layout().tensors().size());
  for (const Placed& tensor : rig.layout().tensors())
    for (int64_t i = tensor.offset; i < tensor.offset + tensor.count; ++i) {
      const float before =
          tensor.spec.kind == TensorKind::kBuffer ? rig.parameters().data()[i] : 0.0f;
      EXPECT_EQ(gradient.data()[i], before) << tensor.spec.name;
    }
  // The lane behind it is as if it had not been.
  FlatMemory after = rig.Memory(), fresh = rig.Memory();
  ASSERT_TRUE(rig.Run({images.sound[0], images.sound[2]}, 5, after).ok());
  LaneRig other(MakeLayers(options));
  ASSERT_TRUE(other.Run({images.sound[0], images.sound[2]}, 5, fresh).ok());
  EXPECT_TRUE(after.SameBits(fresh));
}

TEST(BadSamples, AreNotMeasured) {
  const Files files;
  const TaskOptions options = BrokenImages(files, OnBadSample::kSkip);
  const Images images = Sorted(options);
  LaneRig rig(MakeLayers(options));
  const auto measured = [&](const std::vector<uint64_t>& samples) {
    return rig.task().evaluates()->Evaluate(samples, rig.parameters().span()).value();
  };
  const auto mixed = measured({images.broken[0], images.sound[2], images.broken[1]});
  const auto sound = measured({images.sound[2]});
  const auto none = measured(images.broken);
  ASSERT_EQ(none.size(), sound.size());
  for (size_t m = 0; m < sound.size(); ++m) {
    EXPECT_EQ(mixed[m].sum, sound[m].sum);
    EXPECT_EQ(mixed[m].weight, 1);
    EXPECT_EQ(none[m].weight, 0);
  }
}

TEST(BadSamples, EndALaneOfAJobThatStops) {
  const Files files;
  TaskOptions options = BrokenImages(files, OnBadSample::kSkip);
  const Images images = Sorted(options);
  EXPECT_EQ(StatusOf([&] { MakeLayers(BrokenImages(files, OnBadSample::kStop)); }).code(),
            absl::StatusCode::kDataLoss)
      << "it tries the first samples";
  files.Write("a/00.png", Png(Slope(4, 4)));
  files.Write("a/02.png", Png(Slope(4, 4)));
  options.data.on_bad_sample = OnBadSample::kStop;
  LaneRig rig(MakeLayers(options));
  FlatMemory gradient = rig.Memory();
  EXPECT_TRUE(rig.Run(images.broken, 5, gradient).ok());
  files.Write("a/02.png", "other");
  const absl::Status changed = rig.Run({images.sound[0], images.broken[1]}, 5, gradient).status();
  EXPECT_EQ(changed.code(), absl::StatusCode::kDataLoss) << changed;
}

}  // namespace
}  // namespace muster::worker
