// A multi-layer perceptron on CSV files of numbers: it tells the last column from the others.
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <muster/corpus.h>
#include <muster/plugin.h>
#include <muster/torch/module_task.h>
#include <torch/nn.h>

struct NetImpl : torch::nn::Module {
  NetImpl(int64_t inputs, int64_t hidden)
      : first(register_module("first", torch::nn::Linear(inputs, hidden))),
        last(register_module("last", torch::nn::Linear(hidden, 1))) {}
  at::Tensor forward(const at::Tensor& x) { return last(torch::tanh(first(x))).squeeze(1); }
  torch::nn::Linear first, last;
};
TORCH_MODULE(Net);

struct Table {
  at::Tensor rows;  // (samples, columns)
  std::string hash;
};

Table ReadTable(const muster::DataSpec& data) {
  const muster::Corpus files = muster::ValueOrThrow(muster::ReadCorpus(data));
  std::vector<float> numbers;
  int64_t rows = 0;
  const auto bad = [&](const std::string& why) {
    throw muster::TaskError(absl::DataLossError(absl::StrCat("data.paths: row ", rows, why)));
  };
  const auto ends = absl::ByAnyChar(absl::string_view("\n\0", 2));  // of lines, of files
  for (absl::string_view line : absl::StrSplit(files.bytes, ends, absl::SkipEmpty())) {
    ++rows;
    for (absl::string_view cell : absl::StrSplit(line, ','))
      if (!absl::SimpleAtof(cell, &numbers.emplace_back())) bad(": a cell is no number");
  }
  if (rows == 0 || numbers.size() % rows != 0) bad(" and others are of unequal length");
  return {torch::tensor(numbers).view({rows, -1}), muster::ContentHash({files.bytes})};
}

struct Mlp final : muster::torch::ModuleTask<Net> {
  explicit Mlp(const muster::TaskOptions& options) : Mlp(options, ReadTable(options.data)) {}
  Mlp(const muster::TaskOptions& options, const Table& table)
      : ModuleTask(options, [=] { return Net(table.rows.size(1) - 1, options.Integer("hidden")); }),
        table_(table) {}
  uint64_t SampleCount() const override { return table_.rows.size(0); }
  std::string DataHash() const override { return table_.hash; }
  Tensors MakeBatch(const at::Tensor& samples) override { return {table_.rows.index({samples})}; }
  at::Tensor Loss(Net& net, const Tensors& batch) override {
    const at::Tensor x = batch[0].narrow(1, 0, batch[0].size(1) - 1), y = batch[0].select(1, -1);
    return torch::mse_loss(net(x), y, at::Reduction::Sum);
  }

  const Table table_;
};

MUSTER_PLUGIN(muster::TypeOf<Mlp>(
    {.name = "mlp",
     .parameters = {muster::TaskParameter::Integer("hidden", 16, 1, 4096, "neurons inside")},
     .data_needed = true}))
