#include <ATen/ops/empty.h>
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

// The positions that are not left out.
at::Tensor Kept(size_t samples, const std::vector<uint32_t>& left_out) {
  at::Tensor kept = at::empty({static_cast<int64_t>(samples - left_out.size())}, at::kLong);
  auto* out = kept.mutable_data_ptr<int64_t>();
  auto next = left_out.begin();
  for (size_t position = 0; position < samples; ++position) {
    if (next != left_out.end() && *next == position)
      ++next;
    else
      *out++ = static_cast<int64_t>(position);
  }
  return kept;
}

}  // namespace

struct DataBatches::Parts {
  Parts(std::unique_ptr<const DataSet> the_set, OnBadSample on_bad_sample)
      : set(std::move(the_set)), loader(*set, Threads(), kMostBytesAhead, on_bad_sample) {}

  const std::unique_ptr<const DataSet> set;
  Loader loader;
};

DataBatches::DataBatches(std::unique_ptr<const DataSet> set, OnBadSample on_bad_sample)
    : parts_(std::make_unique<Parts>(std::move(set), on_bad_sample)) {}
DataBatches::~DataBatches() = default;

const DataSet& DataBatches::set() const { return *parts_->set; }

absl::Status DataBatches::Coming(std::vector<ComingLane> lanes) {
  parts_->loader.Coming(std::move(lanes));
  return absl::OkStatus();
}

LaneBatch DataBatches::Take(int64_t epoch, absl::Span<const uint64_t> samples) {
  LaneBatch taken;
  const auto batch =
      std::make_shared<Batch>(ValueOrThrow(parts_->loader.Take(epoch, samples, &taken.left_out)));
  const std::vector<DataField>& fields = parts_->set->Fields();
  for (size_t f = 0; f < fields.size(); ++f) {
    std::vector<int64_t> shape = fields[f].shape;
    shape.insert(shape.begin(), static_cast<int64_t>(batch->samples()));
    taken.tensors.push_back(at::from_blob(
        batch->of(f).data(), shape, [batch](void*) {},
        at::TensorOptions(worker::TorchTypeOf(fields[f].type))));
  }
  if (taken.left_out.empty()) return taken;
  const at::Tensor kept = Kept(batch->samples(), taken.left_out);
  for (at::Tensor& tensor : taken.tensors) tensor = tensor.index_select(0, kept);
  return taken;
}

}  // namespace muster::torch
