// Queries, keys and values of a block with MLA, in the place of its one GEMM: the operators of
// sim/operators/block.h, with an explicit backward pass.
//
//   down      [query down, norm], MLA down, norm of its first kv_lora_rank values; the rest are the
//             rotary keys of all heads
//   up        [shared], query up (without query down: from the block's norm), heads; MLA up, heads
//   backward  the same in reverse; MLA down reads the block's norm last and adds to its gradient
//
// Over tensor ranks the GEMMs down are whole on each, of its own tokens with sequence parallelism,
// and the latents are shared: what the GEMMs up read is gathered, the gradient of it summed.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/kernels/mla_heads.h"
#include "runtime/kernels/norm.h"
#include "runtime/kernels/rotary.h"
#include "runtime/model/parameter_unit.h"

namespace llmsim::runtime {

struct BlockContext;

// What they save for backward in addition to the heads.
struct MlaTape {
  at::Tensor query_down;  // (t, q_lora_rank)
  NormOutput query_norm;
  at::Tensor mla_down;  // (t, kv_lora_rank + qk_rope_head_dim)
  NormOutput mla_norm;
};

class MlaInputs {
 public:
  // The unit's parameters from `next` on, which is moved behind them.  All must outlive it.
  MlaInputs(const BlockContext& context, ParameterUnit& unit, std::size_t& next);

  // From the block's norm.
  void down(const at::Tensor& normed, MlaTape& tape) const;
  Heads up(const at::Tensor& normed, const MlaTape& tape) const;

  // Gradient of `normed` from those of the heads; adds to those of the parameters.
  at::Tensor backward(Heads gradients, at::Tensor normed, MlaTape tape) const;

 private:
  // What the GEMM up reads, of all tokens.
  struct Latents {
    at::Tensor normed, rotary_keys;
  };

  bool has_query_down() const { return query_down_.exists(); }
  NormOutput norm_of(const at::Tensor& x, const Parameter& weight) const;
  at::Tensor norm_gradient(at::Tensor dy, const at::Tensor& x, const NormOutput& forward,
                           const Parameter& weight) const;
  at::Tensor ranked(const at::Tensor& latents) const;
  at::Tensor rotary_keys(const at::Tensor& latents) const;
  Latents shared(const MlaTape& tape) const;
  at::Tensor queries(const at::Tensor& normed, const MlaTape& tape) const;
  KeysAndValues keys(const MlaTape& tape) const;
  at::Tensor mla_backward(KeysAndValues gradients, MlaTape& tape) const;
  at::Tensor queries_backward(at::Tensor gradient, const at::Tensor& normed, MlaTape& tape) const;
  at::Tensor up_gradient(at::Tensor gradient, const at::Tensor& input) const;

  const BlockContext& context_;
  MlaHeadShape shape_;
  std::int64_t rank_;  // kv_lora_rank
  Parameter query_down_, query_norm_, mla_down_, mla_norm_, queries_, keys_values_;
};

}  // namespace llmsim::runtime
