// Data sets that were written for LibTorch's torch::data, as data sets of Muster.
//
//   explicit Digits(const muster::TaskOptions& options)
//       : DataModuleTask(options,
//                        muster::torch::FromTorch(options, MNIST(options.data.paths.at(0))),
//                        [=](const muster::DataSet& data) { return Net(...); }) {}
//
// A sample is a function of its number, or the bits of a job would depend on who reads it and when.
// So its get() draws no random number, keeps no state from one call to the next, and looks at no
// clock: random changes of images, such as a transform that flips some, have no place in it, nor
// has torch's own generator, which lanes draw from. That some samples are the same when they are
// read a second time is looked at. `data` of the job is the data set's to use or not.
#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/data_set.h"
#include "muster/task.h"
#include "muster/task_options.h"

namespace muster::torch {

struct TorchData {
  // Tells the content of all samples, equal on every machine that has them; 1 to 256 characters.
  // Empty: all of them are read once, and hashed.
  std::string content_hash{};
  // Of the fields; the second one is of sets that have a target.
  std::vector<std::string> names = {"input", "label"};
  // Its get() may be called by several threads at a time; else they wait for each other.
  bool any_thread = false;
};

// Samples by their numbers: of each sample a tensor, or that and its target.
using TorchSamples =
    std::function<std::vector<std::vector<at::Tensor>>(const std::vector<size_t>& ids)>;

// Sizes and types of all samples are those of the first. Tensors may be of any type that
// muster/tensor.h knows, on the processor. kFailedPrecondition: a data set that cannot be one, or
// that gives another sample the second time. kInvalidArgument: it has no sample. kDataLoss: a
// sample cannot be read, whatever get() throws.
absl::StatusOr<std::unique_ptr<DataSet>> DataSetOfTorch(TorchSamples read, uint64_t samples,
                                                        TorchData about);

// What torch::data calls a data set with random access: a Dataset, or a MapDataset of one that
// maps one example to another. Examples have `data`, and `target` where there is one.
template <class Set>
concept TorchDataSet = requires(Set& set, const std::vector<size_t>& ids) {
  { set.size() } -> std::convertible_to<std::optional<size_t>>;
  { set.get_batch(ids).at(0).data } -> std::convertible_to<at::Tensor>;
};

// The samples of `set` that are of options.part: PartOfDataSet. Throws TaskError.
template <TorchDataSet Set>
std::unique_ptr<DataSet> FromTorch(const TaskOptions& options, Set set, TorchData about = {}) {
  const std::optional<size_t> samples = set.size();
  const auto shared = std::make_shared<Set>(std::move(set));
  const auto read = [shared](const std::vector<size_t>& ids) {
    std::vector<std::vector<at::Tensor>> tensors;
    for (auto& example : shared->get_batch(ids)) {
      tensors.push_back({example.data});
      if constexpr (requires {
                      { example.target } -> std::convertible_to<at::Tensor>;
                    })
        tensors.back().push_back(example.target);
    }
    return tensors;
  };
  return ValueOrThrow(PartOfDataSet(
      ValueOrThrow(DataSetOfTorch(read, samples.value_or(0), std::move(about))), options));
}

}  // namespace muster::torch
