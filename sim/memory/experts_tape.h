// What the runtime's experts hold while they run, to the byte: the executing counterpart is runtime/model/experts.h.
//
// Sizes, e bytes an activation, t tokens, R rows of h values, E experts, f and F the widths of an expert and of the shared ones:
//
//   router      logits t E e, in fp32 twice 4 t E for a moment; kept: probabilities 4 t E, weights R e, three indices of 8 R
//   rows        R h e, and as much again while they are sent, sorted or put back by token
//   experts     inputs of both GEMMs, R (f or 2 f) e and R f e, and silu(gate); what they return, R h e, until the backward
//   pass shared      t (F or 2 F) e, t F e and silu(gate); gated: output t h e, gate t e backward    a row of GEMMs t h e for
//   each choice; the gradients of weights (and the shared input's) wait until the norm's
//               output is at hand
//
// Where each tensor rank routes its own tokens, t is of those, and shared experts alone work on t n tokens of n ranks: they keep
// what they gathered, and gather or scatter what they read and make.
//
// The rows that arrive are taken to be as many as are sent: so it is without expert ranks, and with a balanced load.
#pragma once

#include "sim/memory/ledger.h"
#include "sim/model/transformer.h"
#include "sim/operators/experts.h"
#include "sim/strategy/framework.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

class ExpertsTape {
 public:
  // `residual`: bytes of a rank's part of the residual stream.  Model and strategy must outlive it.
  ExpertsTape(const Transformer& model, const Strategy& strategy, const Framework& framework, Bytes residual);

  // Up to all that the backward pass needs; `keeps`: for it.
  void inner(Ledger& ledger, bool keeps) const;
  // From there to the output.
  void outer(Ledger& ledger, bool keeps) const;

  // What selective recomputation drops after the forward pass, and brings back.
  Bytes dropped(const RecomputedModules& modules) const;
  void restore(Ledger& ledger, const RecomputedModules& modules) const;

  // From the gradient of the output to that of the norm's output, which replaces it.
  void backward(Ledger& ledger) const;

 private:
  Bytes tokens(double width) const { return Bytes(static_cast<double>(shape_.tokens) * width * e_); }
  Bytes rows(double width) const { return Bytes(static_cast<double>(shape_.rows) * width * e_); }
  Bytes row() const { return rows(model_.hidden_size); }
  Bytes whole() const { return tokens(model_.hidden_size); }
  Bytes index() const;
  Bytes probabilities() const;
  Bytes up() const { return rows(width_ * static_cast<double>(shape_.ffn)); }
  Bytes activation() const { return rows(static_cast<double>(shape_.ffn)); }
  Bytes silu() const { return model_.gated_mlp ? activation() : Bytes(0.0); }
  bool shares() const { return shape_.shared_ffn > 0; }
  bool gates() const { return shares() && model_.moe->shared_expert_gate; }
  Bytes shared_tokens(double width) const { return sharing_ranks_ * tokens(width); }
  Bytes shared_up() const { return shared_tokens(width_ * static_cast<double>(shape_.shared_ffn)); }
  Bytes shared_activation() const { return shared_tokens(static_cast<double>(shape_.shared_ffn)); }
  Bytes shared_whole() const { return shared_tokens(model_.hidden_size); }
  Bytes shared_silu() const { return model_.gated_mlp ? shared_activation() : Bytes(0.0); }
  Bytes shared_input() const { return shape_.routes_shards ? shared_whole() : Bytes(0.0); }
  Bytes shared_gate() const { return gates() ? whole() + tokens(1.0) : Bytes(0.0); }

  void route(Ledger& ledger, bool keeps) const;
  void send(Ledger& ledger) const;
  void share(Ledger& ledger, bool keeps) const;
  void visit(Ledger& ledger, bool keeps) const;
  void shared_output(Ledger& ledger) const;
  void shared_backward(Ledger& ledger) const;
  void rows_backward(Ledger& ledger) const;
  void shared_input_backward(Ledger& ledger) const;
  void input_backward(Ledger& ledger) const;
  void weight_gradient(Ledger& ledger, double elements, double bias) const;
  static void replace(Ledger& ledger, Bytes size);

  const Transformer& model_;
  ExpertShape shape_;
  double e_;
  double gradient_;
  bool gathers_;
  bool exchanges_;
  double sharing_ranks_;  // whose tokens the shared experts gather
  int width_;
  Bytes residual_;
};

}  // namespace llmsim::sim
