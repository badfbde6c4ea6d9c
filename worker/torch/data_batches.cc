#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include "lib/data/runtime/loader.h"
#include "muster/torch/module_task.h"
#include "worker/torch/flat_module.h"

namespace muster::torch {
namespace {

constexpr unsigned kMostThreads = 4;
constexpr size_t kMostBytesAhead = size_t{128} << 20;

// Half of the processors: the other half computes.
int Threads() {
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency() / 2, 1u, kMostThreads));
}

}  // namespace

struct DataBatches::Parts {
  explicit Parts(std::unique_ptr<const DataSet> the_set)
      : set(std::move(the_set)), loader(*set, Threads(), kMostBytesAhead) {}

  const std::unique_ptr<const DataSet> set;
  Loader loader;
};

DataBatches::DataBatches(std::unique_ptr<const DataSet> set)
    : parts_(std::make_unique<Parts>(std::move(set))) {}
DataBatches::~DataBatches() = default;

const DataSet& DataBatches::set() const { return *parts_->set; }

absl::Status DataBatches::Coming(std::vector<ComingLane> lanes) {
  parts_->loader.Coming(std::move(lanes));
  return absl::OkStatus();
}

Tensors DataBatches::Take(int64_t epoch, absl::Span<const uint64_t> samples) {
  const auto batch = std::make_shared<Batch>(ValueOrThrow(parts_->loader.Take(epoch, samples)));
  Tensors tensors;
  const std::vector<DataField>& fields = parts_->set->Fields();
  for (size_t f = 0; f < fields.size(); ++f) {
    std::vector<int64_t> shape = fields[f].shape;
    shape.insert(shape.begin(), static_cast<int64_t>(batch->samples()));
    tensors.push_back(at::from_blob(
        batch->of(f).data(), shape, [batch](void*) {},
        at::TensorOptions(worker::TorchTypeOf(fields[f].type))));
  }
  return tensors;
}

}  // namespace muster::torch
