// LibTorch's own nn::Transformer with its default options, on random data in memory: a model of a
// known size, to measure with and to compare with plain LibTorch.
//
// Sample i is the i-th pair of MakeRandomSequences (random_sequences.h) with the job's seed. The
// model reads source and target; each of the target_length rows of its output is scored by
// cross-entropy against the index of the largest element of the target's row. A lane's loss is the
// sum over rows, its weight their number.
//
// Muster's workers have this task as `transformer`, made of the same source (worker/tasks). No
// LibTorch in this header: those who only check a job read it, too.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "muster/task.h"
#include "muster/task_info.h"
#include "muster/task_options.h"

namespace transformer {

inline muster::TaskInfo Info(std::string name) {
  using muster::TaskParameter;
  return {
      .name = std::move(name),
      .help = "LibTorch's nn::Transformer on random data made in memory; for measuring",
      .parameters =
          {TaskParameter::Integer("width", 512, 1, 65536,
                                  "size of a position's vector; a multiple of heads"),
           TaskParameter::Integer("heads", 8, 1, 1024, "attention heads"),
           TaskParameter::Integer("encoder_layers", 6, 1, 256, "blocks of the encoder"),
           TaskParameter::Integer("decoder_layers", 6, 1, 256, "blocks of the decoder"),
           TaskParameter::Integer("feedforward", 2048, 1, 1 << 20,
                                  "inner size of a block's feed-forward part"),
           TaskParameter::Integer("source_length", 1, 1, 65536, "positions of a source sequence"),
           TaskParameter::Integer("target_length", 20, 1, 65536, "positions of a target sequence"),
           TaskParameter::Real("dropout", 0.1, 0, 0.9, "share of activations dropped in training")},
      .default_samples = 2048,
      .multiple = "width",
      .divisor = "heads"};
}

// Throws muster::TaskError.
std::unique_ptr<muster::Task> Make(const muster::TaskOptions& options);

}  // namespace transformer
