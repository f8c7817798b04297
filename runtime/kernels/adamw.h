// AdamW on fp32 master weights, and the gradient norm that goes before it.
//
//   m += (1 - b1)(g - m)
//   v  = b2 v + (1 - b2) g^2
//   w  = (1 - lr d) w - lr / c1 m / (sqrt(v / c2) + eps)
//
// with c = 1 - b^step.  Temporaries, in fp32:
//
//   Loop     slice by slice: one of its size for the denominator with one value, one more where
//            gradients have 16 bits
//   Foreach  the same of all slices at once, in a few launches
//   Fused    none for the denominator; one launch (aten::_fused_adamw_, libtorch 2.x)
//
// Slices on the host are updated one after the other whatever the form: there the gradient takes
// its size too.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace llmsim::runtime {

enum class AdamWForm { Loop, Foreach, Fused };

struct AdamWOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  AdamWForm form = AdamWForm::Loop;
  double clip_norm = 1.0;  // gradients are scaled down to this norm; 0: neither norm nor clip
};

// A flat piece of parameters with its states; all of the same length.
struct AdamWSlice {
  at::Tensor master;    // fp32; the weights themselves where there is no lower-precision copy
  at::Tensor gradient;  // fp32 or 16 bits
  at::Tensor first_moment, second_moment;
  // Copy to refresh: of 16 bits, or on the device; undefined where the master is the weight.
  at::Tensor weight;
  // Master and moments: the gradient goes there, the update runs there, the weight comes back.
  bool on_host = false;

  const at::Tensor& on_device() const { return weight.defined() ? weight : master; }
};

// Sum of squares of all gradients of this rank, an fp32 scalar.
at::Tensor squared_norm(const std::vector<at::Tensor>& gradients);

// `step` counts from 1.  Throws Error where this libtorch lacks the operator of the form.
void adamw_steps(const std::vector<AdamWSlice>& slices, std::int64_t step,
                 const AdamWOptions& options);

}  // namespace llmsim::runtime
