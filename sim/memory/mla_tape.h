// What the runtime's MLA holds while it makes queries, keys and values, and back, to the byte: the executing
// counterpart is runtime/model/mla_inputs.h.
//
// Sizes, e bytes an activation, t tokens (T on this rank with sequence parallelism), a heads, d_q = query_head_dim, c and c' the
// ranks of keys' and queries' latents, r rotary values:
//
//   down      kept: T (c + r) e, T c' e, their norms' outputs T c e, T c' e and statistics
//   up        rows of a GEMM beside the heads that they become: t a d_q e, then t a (n + v) e and rotated keys t r e; over
//             tensor ranks that divide tokens the gathered latents for the time of a GEMM
//   backward  the same rows beside the heads' gradients; gradients of the latents, t (c + r) e, until the block's norm is at hand
#pragma once

#include "sim/memory/block_tape.h"
#include "sim/memory/ledger.h"
#include "sim/model/transformer.h"
#include "sim/strategy/framework.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

class MlaTape {
 public:
  // Requires a model with MLA, which must outlive it.
  MlaTape(const Transformer& model, const Strategy& strategy, const Framework& framework);

  Bytes queries() const { return tokens(heads_ * query_); }  // those of the keys too
  Bytes values() const { return tokens(heads_ * mla_.v_head_dim); }
  Bytes heads() const { return 2.0 * queries() + values(); }
  Bytes kept() const;  // by down()

  void down(Ledger& ledger) const;
  void up(Ledger& ledger) const;

  // From the gradients of the heads to that of the block's norm, which replaces them, what down() kept and the norm's output.
  void backward(Ledger& ledger) const;

 private:
  Bytes tokens(double width) const { return Bytes(tokens_ * width * e_); }
  Bytes own(double width) const { return Bytes(own_ * width * e_); }
  double mla_width() const { return mla_.kv_lora_rank + mla_.qk_rope_head_dim; }
  double query_rank() const { return mla_.q_lora_rank.value_or(0); }
  double query_input() const { return query_rank() > 0.0 ? query_rank() : hidden_; }  // width
  double key_rows() const { return heads_ * (mla_.qk_nope_head_dim + mla_.v_head_dim); }
  NormTape norm(double width) const;
  void gather_mla(Ledger& ledger) const;
  void mla_backward(Ledger& ledger) const;
  void queries_backward(Ledger& ledger) const;
  void query_down_backward(Ledger& ledger) const;
  void column_gradient(Ledger& ledger, double width) const;
  void weight_gradient(Ledger& ledger, double elements) const;

  const Mla& mla_;
  Norm kind_;
  double e_;
  double gradient_;
  bool gathers_;
  double tokens_;
  double own_;
  double heads_;
  double query_;
  double hidden_;
};

}  // namespace llmsim::sim
