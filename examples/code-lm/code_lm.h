// A byte-level language model: a decoder-only Transformer (Radford et al., "Language Models are
// Unsupervised Multitask Learners", 2019: pre-norm blocks, learned positions, GELU) over a
// vocabulary of the 256 bytes.
//
// Sample i is the context + 1 bytes of the corpus from i·stride on; every byte but the first is
// predicted from those before it. A lane's loss is the cross-entropy summed over predicted bytes,
// its weight their number.
//
// Muster's workers have this task as `code-lm`, made of the same source (worker/tasks). No LibTorch
// in this header: those who only check a job read it, too.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "muster/task.h"
#include "muster/task_info.h"
#include "muster/task_options.h"

namespace code_lm {

inline muster::TaskInfo Info(std::string name) {
  using muster::TaskParameter;
  return {
      .name = std::move(name),
      .help = "byte-level language model (decoder-only Transformer) on any files",
      .parameters =
          {TaskParameter::Integer("layers", 4, 1, 256, "Transformer blocks"),
           TaskParameter::Integer("width", 192, 1, 65536,
                                  "size of a position's vector; a multiple of heads"),
           TaskParameter::Integer("heads", 6, 1, 1024, "attention heads"),
           TaskParameter::Integer("context", 128, 1, 65536, "bytes that the model sees at once"),
           TaskParameter::Real("dropout", 0.1, 0, 0.9, "share of activations dropped in training"),
           TaskParameter::Integer("stride", 0, 0, 1 << 20,
                                  "bytes from one sample's start to the next one's; 0: context")},
      .data_needed = true,
      .multiple = "width",
      .divisor = "heads",
      .model_holds_all = true};
}

// Dropout stands after the embedding, each attention and each MLP. The returned task is also a
// `Generates`: of bytes drawn at temperature 0.8 that follow the prompt (empty: the start of a
// file), without the prompt. Throws muster::TaskError, as of ReadCorpus; kInvalidArgument: data
// that is shorter than a sample.
std::unique_ptr<muster::Task> Make(const muster::TaskOptions& options);

}  // namespace code_lm
