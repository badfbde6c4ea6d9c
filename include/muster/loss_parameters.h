// The parameters of a task whose loss is chosen by the job, by its name; muster/torch/named_loss.h
// computes it. Without LibTorch.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "muster/task_info.h"

namespace muster {

// `others` and those of the loss: `loss`, `label_smoothing`, `loss_beta` and `top_k`. `loss` is the
// default.
inline std::vector<TaskParameter> WithLossParameters(std::vector<TaskParameter> others = {},
                                                     std::string loss = "cross_entropy") {
  others.push_back(TaskParameter::Text(
      "loss", std::move(loss),
      {"cross_entropy", "nll", "bce_with_logits", "mse", "l1", "smooth_l1", "huber"},
      "what is made small, by PyTorch's names"));
  others.push_back(TaskParameter::Real(
      "label_smoothing", 0, 0, 1,
      "share of a label's weight that goes to all classes; of cross_entropy and bce_with_logits"));
  others.push_back(TaskParameter::Real(
      "loss_beta", 1, 1e-6, 1e6,
      "error from which smooth_l1 and huber grow evenly; below it, with its square"));
  others.push_back(TaskParameter::Integer(
      "top_k", 5, 1, 1'000'000,
      "how many of the highest scores the metric top{K}_accuracy looks at; of cross_entropy and "
      "nll"));
  return others;
}

}  // namespace muster
