// Jobs that bring their model, a file of TorchScript or a list of layers, in real programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/exit_codes.h"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"
#include "tests/integration/measured.h"
#include "tests/integration/up_cluster.h"
#include "tests/support/program.h"
#include "tests/support/text_of.h"

namespace muster::integration {
namespace {

using testing::HasSubstr;

constexpr char kMuster[] = MUSTER_PROGRAMS "/muster";

// What is to be told is mostly 0: the best constant has a loss of 0.93.
std::string Rows(const std::string& file) {
  std::string rows;
  for (int i = 0; i < 96; ++i) {
    const double a = (i % 7 - 3) / 3.0, b = (i % 5 - 2) / 2.0;
    absl::StrAppend(&rows, a, ",", b, ",", a - b, "\n");
  }
  WriteFile(file, rows);
  return absl::StrCat("data: {paths: [", file, "], format: csv, header: false, label: \"3\"}\n",
                      "batch: 24\nlanes: 6\nepochs: 15\n",
                      "optimizer: {kind: adamw, learning_rate: 0.03}\n");
}

std::string ScriptSpec(const std::string& rows, const std::string& file = "net.pt") {
  return absl::StrCat("name: script\ntask: torchscript\nparameters: {file: ", file,
                      ", loss: mse}\n", Rows(rows));
}

// `forward`: what it does; empty: as save_script has it.
void SaveScript(const std::string& file, int inputs, int seed = 1,
                const std::string& forward = "") {
  std::vector<std::string> words = {MUSTER_SAVE_SCRIPT, file, absl::StrCat(inputs),
                                    absl::StrCat(seed)};
  if (!forward.empty()) words.push_back(forward);
  Program save(words);
  ASSERT_EQ(save.End(), 0) << save.output();
}

// Where the scripts of a test lie, which is made.
std::string PluginsIn(const Folder& folder) {
  std::string plugins = folder / "plugins";
  std::filesystem::create_directory(plugins);
  return plugins;
}

nlohmann::json MetricsOf(const std::string& dir, const std::string& plugins) {
  std::vector<std::string> words = {kMuster, "evaluate", "--dir", dir, "--json"};
  if (!plugins.empty()) words.insert(words.end(), {"--plugins", plugins});
  Program evaluate(words);
  EXPECT_EQ(evaluate.End(), 0) << evaluate.output();
  return nlohmann::json::parse(evaluate.output())["metrics"];
}

double LossOf(const std::string& dir, const std::string& plugins) {
  return MetricsOf(dir, plugins).value("loss", 9.0);
}

TEST(ModelTasksRunTest, AScriptLearnsWithTheSameBitsOnAnyNumberOfWorkersAlsoWithAKill) {
  const Folder folder;
  const std::string plugins = PluginsIn(folder);
  SaveScript(plugins + "/net.pt", 2);
  ExpectSameBitsOnAnyNumber(
      {.spec = ScriptSpec(folder / "rows.csv"), .dir = folder / "job", .plugins = plugins});
  EXPECT_LT(LossOf(folder / "job-1", plugins), 0.2);
}

TEST(ModelTasksRunTest, LayersLearnWithTheSameBitsOnAnyNumberOfWorkersAlsoWithAKill) {
  const Folder folder;
  const std::string spec =
      absl::StrCat("name: layers\ntask: layers\nparameters:\n  loss: smooth_l1\n  layers:\n",
                   "  - linear: 12\n  - layer_norm\n  - residual: [{linear: 12}, tanh]\n",
                   "  - dropout: 0.02\n  - linear: 1\n", Rows(folder / "rows.csv"));
  ExpectSameBitsOnAnyNumber({.spec = spec, .dir = folder / "job"});
  EXPECT_LT(LossOf(folder / "job-1", ""), 0.1);
}

// Whoever asks sees neither its folder nor its store.
TEST(ModelTasksRunTest, TheModelOfAClusterIsUsedAsThatOfItsFolder) {
  const Folder folder;
  const UpCluster cluster(folder / "cluster", {"--slots", "1"});
  WriteFile(
      folder / "job.yaml",
      absl::StrCat("name: layers\ntask: layers\nparameters: {loss: mse, layers: [{linear: 12}, ",
                   "batch_norm, tanh, {linear: 1}]}\n", Rows(folder / "rows.csv")));
  const UpCluster::Said submitted = cluster.Say({"submit", folder / "job.yaml", "--id", "job"});
  ASSERT_EQ(submitted.exit_code, 0) << submitted.text;
  const UpCluster::Said watched = cluster.Say({"watch", "job"});
  ASSERT_EQ(watched.exit_code, 0) << watched.text;
  const auto here = [&](std::vector<std::string> words) {
    words.insert(words.begin(), kMuster);
    words.insert(words.end(), {"--dir", folder / "cluster"});
    Program program(words);
    EXPECT_EQ(program.End(), 0) << program.output();
    return nlohmann::json::parse(program.output(), nullptr, /*allow_exceptions=*/false);
  };
  const nlohmann::json evaluated = cluster.Ask({"evaluate", "job", "--json"});
  ASSERT_TRUE(evaluated.is_object()) << evaluated;
  EXPECT_EQ(evaluated, here({"evaluate", "job", "--json"}));
  EXPECT_TRUE(evaluated["metrics"]["loss"].is_number());
  // An archive of LibTorch has its file's name in it.
  std::filesystem::create_directories(folder / "there");
  std::filesystem::create_directories(folder / "here");
  const nlohmann::json archive = cluster.Ask(
      {"export", "job", "--format", "libtorch", "-o", folder / "there/net.pt", "--json"});
  ASSERT_TRUE(archive.is_object()) << archive;
  nlohmann::json same =
      here({"export", "job", "--format", "libtorch", "-o", folder / "here/net.pt", "--json"});
  ASSERT_TRUE(same.is_object()) << same;
  same["file"] = archive["file"];
  EXPECT_EQ(archive, same);
  EXPECT_EQ(std::filesystem::file_size(folder / "there/net.pt"),
            std::filesystem::file_size(folder / "here/net.pt"));
  // The model is loaded, and then its task is asked.
  const UpCluster::Said generated = cluster.Say({"generate", "job"});
  EXPECT_EQ(generated.exit_code, kExitBadConfiguration);
  EXPECT_THAT(generated.text, HasSubstr("task layers makes no text"));
  const UpCluster::Said nothing = cluster.Say({"evaluate", "job", "--step", "7"});
  EXPECT_EQ(nothing.exit_code, kExitBadConfiguration);
  EXPECT_THAT(nothing.text, HasSubstr("job job holds no checkpoint of step 7"));
  const UpCluster::Said nobody = cluster.Say({"evaluate", "another"});
  EXPECT_EQ(nobody.exit_code, kExitBadConfiguration);
  EXPECT_THAT(nobody.text, HasSubstr("another"));
}

struct Weights {
  std::string name;  // of the file's tensor
  std::vector<float> values;
};

// Of a safetensors file, the one whose name begins and ends so.
Weights TensorIn(const std::string& file, const std::string& begins, const std::string& ends) {
  std::ifstream in(file, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(in), {}};
  uint64_t length = 0;
  if (all.size() < sizeof length) return {};
  std::memcpy(&length, all.data(), sizeof length);
  const auto header = nlohmann::json::parse(all.substr(sizeof length, length), nullptr,
                                            /*allow_exceptions=*/false);
  for (const auto& [name, tensor] : header.items()) {
    if (!absl::StartsWith(name, begins) || !absl::EndsWith(name, ends)) continue;
    const size_t begin = tensor["data_offsets"][0], end = tensor["data_offsets"][1];
    Weights found{name, std::vector<float>((end - begin) / sizeof(float))};
    std::memcpy(found.values.data(), all.data() + sizeof length + length + begin, end - begin);
    return found;
  }
  return {};
}

// The mean of squares over what Rows writes, of a sum of two products.
double LossByHand(const std::vector<float>& weight, const std::vector<float>& bias) {
  double sum = 0;
  for (int i = 0; i < 96; ++i) {
    const double a = (i % 7 - 3) / 3.0, b = (i % 5 - 2) / 2.0;
    const double off = weight.at(0) * a + weight.at(1) * b + bias.at(0) - (a - b);
    sum += off * off;
  }
  return sum / 96;
}

// What is frozen has itself for an average.
TEST(ModelTasksRunTest, TheMovingAverageIsMeasuredAndExportedInTheParametersPlace) {
  const Folder folder;
  const std::string spec =
      absl::StrCat("name: linear\ntask: layers\nparameters: {loss: mse, layers: [{linear: 1}]}\n",
                   "groups: [{match: '*bias', frozen: true}]\n", Rows(folder / "rows.csv"));
  const std::string dir = folder / "job";
  const TrainRun run = Train({.spec = spec, .dir = dir, .settings = {"epochs=1", "ema.decay=0.9"}});
  ASSERT_EQ(run.exit_code, 0) << run.Trace();
  const TrainRun without =
      Train({.spec = spec, .dir = folder / "without", .settings = {"epochs=1"}});
  ASSERT_EQ(without.exit_code, 0) << without.Trace();
  const auto ask = [&](const std::string& of, std::vector<std::string> words, int code) {
    words.insert(words.begin(), kMuster);
    words.insert(words.end(), {"--dir", of, "--json"});
    Program program(words);
    EXPECT_EQ(program.End(), code) << program.output();
    return program.output();
  };
  const auto loss_of = [&](const std::vector<std::string>& words) {
    return nlohmann::json::parse(ask(dir, words, 0))["metrics"].value("loss", -1.0);
  };
  ask(dir, {"export", "--optimizer", "-o", folder / "all.safetensors"}, 0);
  const auto tensor = [&](const char* begins, const char* ends) {
    return TensorIn(folder / "all.safetensors", begins, ends);
  };
  const Weights weight_average = tensor("ema.", "weight"), bias_average = tensor("ema.", "bias");
  ASSERT_EQ(weight_average.values.size(), 2u);
  ASSERT_EQ(bias_average.values.size(), 1u);
  const std::string weight_name = weight_average.name.substr(4);
  const std::string bias_name = bias_average.name.substr(4);
  const auto weight = tensor(weight_name.c_str(), "").values;
  const auto bias = tensor(bias_name.c_str(), "").values;
  ASSERT_EQ(weight.size(), 2u);
  EXPECT_EQ(bias_average.values, bias);
  EXPECT_NE(weight_average.values, weight);
  const double loss = loss_of({"evaluate"}), loss_by_average = loss_of({"evaluate", "--average"});
  EXPECT_NEAR(loss, LossByHand(weight, bias), 1e-4);
  EXPECT_NEAR(loss_by_average, LossByHand(weight_average.values, bias), 1e-4);
  EXPECT_GT(std::abs(loss - loss_by_average), 1e-3);
  ask(dir, {"export", "--average", "-o", folder / "average.safetensors"}, 0);
  EXPECT_EQ(TensorIn(folder / "average.safetensors", weight_name, "").values,
            weight_average.values);
  EXPECT_THAT(ask(dir, {"export", "--average", "--format", "libtorch", "-o", folder / "net.pt"}, 0),
              HasSubstr("\"average\":true"));
  for (const char* format : {"safetensors", "libtorch"})
    EXPECT_THAT(ask(folder / "without",
                    {"export", "--average", "--format", format, "-o", folder / "none"}, 64),
                HasSubstr("ema.decay"));
  EXPECT_THAT(ask(folder / "without", {"evaluate", "--average"}, 64), HasSubstr("ema.decay"));
  EXPECT_FALSE(std::filesystem::exists(folder / "none"));
}

// Two phases forward and two backward of each of six lanes, in a step; dropout is beside them.
TEST(ModelTasksRunTest, BatchNormOverAllLanesHasTheSameBitsWhereverAWorkerIsLost) {
  const Folder folder;
  const std::string spec = absl::StrCat(
      "name: layers\ntask: layers\nsync_batch_norm: true\nparameters:\n  loss: smooth_l1\n",
      "  layers: [{linear: 12}, batch_norm, tanh, {dropout: 0.1}, {linear: 8}, batch_norm, tanh, ",
      "{linear: 1}]\n", Rows(folder / "rows.csv"));
  std::string digest;
  ExpectSameBitsOnAnyNumber({.spec = spec, .dir = folder / "job"}, [&](const TrainRun& run) {
    digest = run.result.value("digest", "none");
  });
  EXPECT_LT(LossOf(folder / "job-1", ""), 0.15);
  // The victim has three lanes, or two: in its second step, forward and backward.
  for (const int workers : {2, 3}) {
    const int of_step = 4 * 6 / workers;
    for (const int pass : {of_step + 2, 2 * of_step - 1}) {
      SCOPED_TRACE(absl::StrCat(workers, " workers, phase:", pass));
      const std::string dir = folder / absl::StrCat("lost-", workers, "-", pass);
      const TrainRun run =
          Train({.spec = spec,
                 .dir = dir,
                 .workers = workers,
                 .faults = {absl::StrCat("{at_point: \"phase:", pass, "\", kill: worker-1}")}});
      EXPECT_TRUE(run.Fired("worker-1", "phase")) << run.Trace();
      ExpectSameBits(run, dir, digest);
      ExpectNoWayBack(run, dir);
    }
  }
}

// What is told apart depends on two classes and on no number.
TEST(ModelTasksRunTest, ClassesOfCsvLearnThroughAnEmbeddingAndAreMeasured) {
  const Folder folder;
  std::string rows = "from,to,size\n";
  for (int i = 0; i < 96; ++i) {
    const int from = i % 7, to = i % 5, sum = from + to;
    absl::StrAppend(&rows, "town ", from, ",", to, ",",
                    sum < 3   ? "small"
                    : sum < 7 ? "middle"
                              : "large",
                    "\n");
  }
  WriteFile(folder / "rows.csv", rows);
  const std::string spec = absl::StrCat(
      "name: classes\ntask: layers\nparameters:\n  label_smoothing: 0.01\n  top_k: 2\n",
      "  layers: [{embedding: {count: 7, size: 8}}, flatten, {linear: 3}]\ndata: {paths: [",
      folder / "rows.csv", "], format: csv, label: size, classes: [from, to, size]}\n",
      "validation: {every_epochs: 3, metric: perplexity, patience: 90, paths: [",
      folder / "rows.csv",
      "]}\nbatch: 24\nlanes: 6\nepochs: 30\noptimizer: {kind: adamw, learning_rate: 0.05}\n");
  std::string digest;
  for (const int workers : {1, 2}) {
    const std::string dir = folder / absl::StrCat("job-", workers);
    const TrainRun run = Train({.spec = spec, .dir = dir, .workers = workers});
    if (workers == 1) digest = run.result.value("digest", "none");
    ExpectSameBits(run, dir, digest);
  }
  const nlohmann::json metrics = MetricsOf(folder / "job-1", "");
  EXPECT_GT(metrics.value("accuracy", 0.0), 0.9) << metrics;
  EXPECT_GE(metrics.value("top2_accuracy", 0.0), metrics.value("accuracy", 1.0)) << metrics;
  EXPECT_LT(metrics.value("perplexity", 9.0), std::exp(metrics.value("loss", 0.0))) << metrics;
  EXPECT_GE(metrics.value("perplexity", 0.0), 1) << metrics;
}

struct Labelled {
  double a = 0, b = 0;
  bool is_positive = false;
};

// By a - b and noise: rows of the same numbers may have either label.
std::vector<Labelled> TwoClasses(int first, int count) {
  std::vector<Labelled> rows;
  for (int i = first; i < first + count; ++i) {
    const double a = i % 7 - 3, b = i % 5 - 2, noise = (i * 37 % 11 - 5) / 4.0;
    rows.push_back({a, b, a - b + noise > 0});
  }
  return rows;
}

void WriteRows(const std::string& file, const std::vector<Labelled>& rows) {
  std::string text = "a,b,y\n";
  for (const Labelled& row : rows)
    absl::StrAppend(&text, row.a, ",", row.b, ",", row.is_positive ? 1 : 0, "\n");
  WriteFile(file, text);
}

// A tensor of reals in a file of safetensors.
std::vector<float> TensorIn(const std::string& file, const std::string& name) {
  std::ifstream in(file, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  uint64_t header = 0;
  if (bytes.size() < sizeof(header)) return {};
  std::memcpy(&header, bytes.data(), sizeof(header));
  const auto told = nlohmann::json::parse(bytes.substr(sizeof(header), header));
  const auto place = told.at(name).at("data_offsets").get<std::vector<size_t>>();
  std::vector<float> values((place.at(1) - place.at(0)) / sizeof(float));
  const std::string data = bytes.substr(sizeof(header) + header + place.at(0));
  std::memcpy(values.data(), data.data(), values.size() * sizeof(float));
  return values;
}

// Of a linear model, pair by pair, with scores as good as one another where they stand in one bin,
// a quarter wide and from -12 to 12, as docs/plugins.md tells.
double AucOf(const std::vector<Labelled>& rows, const std::vector<float>& weights, float bias) {
  const auto bin = [&](const Labelled& row) {
    const double score = weights.at(0) * row.a + weights.at(1) * row.b + bias;
    return std::floor(std::clamp(score, -11.9, 11.9) * 4);
  };
  double right = 0, pairs = 0;
  for (const Labelled& positive : rows)
    for (const Labelled& negative : rows) {
      if (!positive.is_positive || negative.is_positive) continue;
      ++pairs;
      right += bin(positive) > bin(negative) ? 1 : bin(positive) == bin(negative) ? 0.5 : 0;
    }
  return right / pairs;
}

TEST(ModelTasksRunTest, AnAucIsThatOfAllPairsOnAnyNumberOfWorkersAlsoWithAKill) {
  const Folder folder;
  const std::string held_out = folder / "held-out.csv";
  const std::vector<Labelled> rows = TwoClasses(200, 61);
  WriteRows(folder / "train.csv", TwoClasses(0, 96));
  WriteRows(held_out, rows);
  TrainOptions options;
  options.spec = absl::StrCat(
      "name: classes\ntask: layers\nparameters: {loss: bce_with_logits, layers: [{linear: 1}]}\n",
      "data: {paths: [", folder / "train.csv", "], format: csv, label: y}\n",
      "validation: {every_steps: 4, metric: auc, mode: max, patience: 90, paths: [", held_out,
      "]}\nbatch: 24\nlanes: 6\nsteps: 9\noptimizer: {kind: sgd, learning_rate: 0.5}\n");
  std::string digest;
  std::vector<double> measured;
  for (const int workers : {1, 3}) {
    SCOPED_TRACE(workers);
    options.dir = folder / absl::StrCat("job-", workers);
    options.workers = workers;
    if (workers == 3) options.faults = {"{at_point: \"forward:9\", kill: worker-1}"};
    const TrainRun run = Train(options);
    EXPECT_EQ(run.Killed("worker-1"), workers == 3) << run.Trace();
    if (workers == 1) digest = run.result.value("digest", "none");
    ExpectSameBits(run, options.dir, digest);
    std::vector<double> values;
    for (const nlohmann::json& step : StepsIn(options.dir, run))
      if (step.contains("validation.auc")) values.push_back(step.value("validation.auc", -1.0));
    ASSERT_EQ(values.size(), 3u) << "those of steps 4 and 8, and the last: " << run.Trace();
    if (workers == 1) measured = values;
    EXPECT_EQ(values, measured);
  }
  EXPECT_GT(measured.back(), 0.8) << "it learns";
  EXPECT_LT(measured.back(), 1) << "no score tells all of them apart";

  // The state that step 8 has measured is the last one of a job with eight steps.
  options.dir = folder / "shorter";
  options.workers = 1;
  options.faults = {};
  options.settings = {"steps=8"};
  const TrainRun shorter = Train(options);
  ASSERT_EQ(shorter.exit_code, 0) << shorter.Trace();
  const std::string model = folder / "model.safetensors";
  Program save({kMuster, "export", "--dir", options.dir, "--format", "safetensors", "-o", model});
  ASSERT_EQ(save.End(), 0) << save.output();
  const std::vector<float> weights = TensorIn(model, "0.weight"), bias = TensorIn(model, "0.bias");
  ASSERT_EQ(weights.size(), 2u);
  ASSERT_EQ(bias.size(), 1u);
  const double auc = AucOf(rows, weights, bias[0]);
  EXPECT_NEAR(measured[1], auc, 1e-9);
  EXPECT_EQ(StepsIn(options.dir, shorter).back().value("validation.auc", -1.0), measured[1])
      << "one worker measures the last state as the lanes of a step do";
  Program evaluate({kMuster, "evaluate", "--dir", options.dir, "--data", held_out, "--json"});
  ASSERT_EQ(evaluate.End(), 0) << evaluate.output();
  EXPECT_NEAR(nlohmann::json::parse(evaluate.output())["metrics"].value("auc", -1.0), auc, 1e-9);
}

TEST(ModelTasksRunTest, BadModelsEndInOneSentenceWithExitCode64) {
  const Folder folder;
  const std::string plugins = PluginsIn(folder);
  SaveScript(plugins + "/wide.pt", 5);
  WriteFile(plugins + "/text.pt", "no zip");
  const struct {
    const char* name;
    std::string spec;
    const char* says;
  } cases[] = {
      {"none", ScriptSpec(folder / "rows.csv"), "parameters.file: there is no 'net.pt' in "},
      {"path", ScriptSpec(folder / "rows.csv", "../net.pt"), "'../net.pt' is no name"},
      {"text", ScriptSpec(folder / "rows.csv", "text.pt"), "text.pt: is no TorchScript file"},
      {"wide", ScriptSpec(folder / "rows.csv", "wide.pt"), "cannot be multiplied"},
      {"layer",
       absl::StrCat("name: l\ntask: layers\nparameters: {loss: mse, layers: [linear: 1, rely]}\n",
                    Rows(folder / "rows.csv")),
       "parameters.layers[1]: 'rely' is no layer"},
      {"syncs_nothing",
       absl::StrCat("name: l\ntask: layers\nsync_batch_norm: true\nparameters: {loss: mse, ",
                    "layers: [linear: 1]}\n", Rows(folder / "rows.csv")),
       "sync_batch_norm: task layers has no batch norm that could sync"},
  };
  for (const auto& bad : cases) {
    const TrainRun run = Train({.spec = bad.spec, .dir = folder / bad.name, .plugins = plugins});
    EXPECT_EQ(run.exit_code, kExitBadConfiguration) << run.Trace();
    EXPECT_THAT(run.result.value("reason", ""), HasSubstr(bad.says)) << run.Trace();
  }
}

// Nothing of it may go on without end: a person waits, and may be on a machine of others.
TEST(ModelTasksRunTest, ACheckOfAScriptThatNeverReturnsOrHasNoMemoryNamesItsFile) {
  const Folder folder;
  const std::string plugins = PluginsIn(folder);
  const std::string file = plugins + "/net.pt";
  const std::string spec = folder / "job.yaml";
  WriteFile(spec, absl::StrCat(ScriptSpec(folder / "rows.csv"), "thread_patience: 5\n"));
  constexpr char kReturn[] = "    return torch.matmul(torch.matmul(x, self.first), self.last)\n";
  const struct {
    const char* forward;
    std::string says;
  } cases[] = {
      {"    while x.numel() > 0:\n        x = torch.relu(x)\n",
       absl::StrCat(" s in task torchscript with ", file, ": its constructor, a first pass")},
      {"    while self.training:\n        x = torch.relu(x)\n",
       absl::StrCat(" s in a pass through the model of task torchscript with ", file, ": it has")},
      {"    x = x + torch.ones([288230376151711744]).sum()\n",
       absl::StrCat("task torchscript with ", file, ": LibTorch is out of memory: ")},
      {"    if self.training:\n        x = x + torch.ones([288230376151711744]).sum()\n",
       absl::StrCat("task torchscript with ", file, ": LibTorch is out of memory: ")},
  };
  for (const auto& row : cases) {
    SCOPED_TRACE(row.forward);
    SaveScript(file, 2, 1, absl::StrCat("def forward(self, x):\n", row.forward, kReturn));
    Program check({kMuster, "check", spec, "--plugins", plugins});
    EXPECT_EQ(check.End(), kExitBadConfiguration) << check.output();
    EXPECT_THAT(check.output(), HasSubstr(row.says));
    EXPECT_EQ(check.output().find('\n'), check.output().size() - 1) << check.output();
  }
}

// Training would run out of memory some day.
TEST(ModelTasksRunTest, ACheckOfAScriptThatKeepsMoreWithEachPassNamesWhereItDoes) {
  const Folder folder;
  const std::string plugins = PluginsIn(folder), spec = folder / "job.yaml";
  SaveScript(plugins + "/net.pt", 2, 1,
             "def forward(self, x):\n    self.kept.append(torch.ones([4096]))\n"
             "    return torch.matmul(torch.matmul(x, self.first), self.last)\n");
  WriteFile(spec, ScriptSpec(folder / "rows.csv"));
  Program check({kMuster, "check", spec, "--plugins", plugins});
  EXPECT_EQ(check.End(), kExitBadConfiguration) << check.output();
  EXPECT_THAT(check.output(), HasSubstr("Each lane changes the model's attribute 'kept'"));
}

// Whoever asks for JSON reads JSON, whatever the script's author has left in it.
TEST(ModelTasksRunTest, WhatAScriptPrintsIsNoPartOfAnAnswer) {
  const Folder folder;
  const std::string plugins = PluginsIn(folder), spec = folder / "job.yaml";
  SaveScript(plugins + "/net.pt", 2, 1,
             "def forward(self, x):\n    print('hello from forward')\n"
             "    return torch.matmul(torch.matmul(x, self.first), self.last)\n");
  const std::string job = ScriptSpec(folder / "rows.csv");
  WriteFile(spec, job);
  const TrainRun run =
      Train({.spec = job, .dir = folder / "job", .settings = {"epochs=1"}, .plugins = plugins});
  ASSERT_EQ(run.exit_code, kExitDone) << run.Trace();
  for (const std::string& command :
       {absl::StrCat("check ", spec), absl::StrCat("evaluate --dir ", folder / "job")}) {
    SCOPED_TRACE(command);
    const std::string errors = folder / "errors";
    Program program(
        {"/bin/sh", "-c",
         absl::StrCat(kMuster, " ", command, " --json --plugins ", plugins, " 2>", errors)});
    EXPECT_EQ(program.End(), kExitDone) << program.output();
    EXPECT_TRUE(nlohmann::json::accept(program.output())) << program.output();
    EXPECT_THAT(TextOf(errors), HasSubstr("hello from forward\n"));
  }
}

TEST(ModelTasksRunTest, GoingOnWithAnotherFileIsAnotherNumericEnvironment) {
  const Folder folder;
  const std::string plugins = PluginsIn(folder);
  SaveScript(plugins + "/net.pt", 2);
  TrainOptions options{.spec = ScriptSpec(folder / "rows.csv"),
                       .dir = folder / "job",
                       .settings = {"epochs=3000"},
                       .plugins = plugins};
  options.interrupt_at = [](const nlohmann::json& event) {
    return event.value("event", "") == "step" && event.value("step", 0) >= 9;
  };
  const TrainRun first = Train(options);
  ASSERT_EQ(first.result.value("state", ""), "stopped") << first.Trace();
  SaveScript(plugins + "/net.pt", 2, 3);
  options.interrupt_at = nullptr;
  const TrainRun second = Train(options);
  EXPECT_EQ(second.exit_code, kExitOtherEnvironment) << second.Trace();
  EXPECT_THAT(second.Trace(),
              HasSubstr("environment differs from the job's: plugin (net.pt sha256:"));
}

}  // namespace
}  // namespace muster::integration
