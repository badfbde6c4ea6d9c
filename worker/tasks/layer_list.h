// A model as a list of layers (docs/job-spec.md, `layers`): read from the job's parameters, with
// the shape of a sample worked out from layer to layer. Pure; no LibTorch.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "muster/data_set.h"
#include "muster/task_info.h"

namespace muster::worker {

enum class LayerKind {
  kLinear,
  kConv2d,
  kBatchNorm,
  kLayerNorm,
  kActivation,  // which, its name says
  kMaxPool,
  kAvgPool,
  kGlobalAvgPool,
  kFlatten,
  kTranspose,
  kDropout,
  kEmbedding,
  kResidual,  // lists: the layers, and those of the shortcut
  kParallel   // lists: the branches
};

using Sizes = std::vector<int64_t>;  // of one sample

struct Layer {
  LayerKind kind = LayerKind::kActivation;
  std::string name;                       // as the job says it: "conv2d"
  std::string path;                       // "layers[3].residual[1]"
  std::map<std::string, double> numbers;  // every one that the kind has; booleans are 0 and 1
  std::vector<std::vector<Layer>> lists;
  bool adds = false;  // kParallel: branches are added up, not put side by side
  Sizes input;        // what comes in and goes out
  Sizes output;

  int64_t Whole(const std::string& number) const {
    return static_cast<int64_t>(numbers.at(number));
  }
};

struct LayerList {
  std::vector<Layer> layers;
  Sizes output;
  int64_t parameters = 0;  // how many numbers the layers learn
};

// `json` is a list. kFailedPrecondition, with the layer's path: what no layer is or takes, or a
// shape that it cannot take.
absl::StatusOr<LayerList> ReadLayers(absl::string_view json, const DataField& input);

// What a layer takes under one name.
struct LayerField {
  TaskParameter parameter;  // its default_value counts where it need not be given
  bool is_needed = false;
};
struct LayerHelp {
  std::string name;
  std::string help;
  std::vector<LayerField> fields;
  bool takes_one = false;  // what stands bare is the first of them
};
// All that ReadLayers knows, of the table that it reads by.
std::vector<LayerHelp> LayersThereAre();

}  // namespace muster::worker
