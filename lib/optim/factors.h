// What optim.cc hands to its kernels. Each factor of a step is computed in fp64 and rounded once.
#pragma once

namespace muster {

struct SgdFactors {
  float weight_decay;
  float momentum;
  float minus_rate;
};

struct RmspropFactors {
  float weight_decay;
  float alpha, rest;  // rest = 1 - alpha
  float epsilon;
  float minus_rate;
};

struct AdagradFactors {
  float weight_decay;
  float epsilon;
  float minus_rate;
};

struct AdamFactors {
  float weight_decay;  // L2, added to the gradient
  float shrink;        // decoupled decay: what parameters are multiplied with
  float beta1, rest1;  // rest = 1 - beta
  float beta2, rest2;
  float root_correction2;
  float epsilon;
  float minus_step_size;
};

struct LarsFactors {
  float gradient;  // what the gradient is multiplied with first, so that it is clipped
  float weight_decay;
  float ratio;
  float momentum;
  float minus_rate;
};

struct LambFactors {
  float gradient;  // likewise
  float weight_decay;
  float beta1, rest1;  // rest = 1 - beta
  float beta2, rest2;
  float correction1, root_correction2;
  float epsilon;
};

// All of one size. What an optimizer does not use is null.
struct Memory {
  const float* gradient;
  const float* old_parameters;
  float* new_parameters;
  float* slot0;
  float* slot1;
};

}  // namespace muster
