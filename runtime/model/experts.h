// The experts of a block that executes, in the place of its MLP: the operators of
// sim/operators/experts.h in their order, with an explicit backward pass.
//
//   forward   [gather], router, rows by expert, [to their experts], [shared up, activation, gate],
//             expert up, activation, down, [back], rows by token, weighted sum, [shared down,
//             added], [reduce]
//   backward  gradients of the weights, then of the rows; the same in reverse; router and shared
//             experts read the whole output of the norm last and add to its gradient
//
// Over tensor ranks the experts' widths are divided, the weighted sums are partial, and so are the
// gradients of router and gate.  Where each tensor rank routes its own tokens (etp = 1 under
// sequence parallelism) nothing is divided or partial: only shared experts gather their input,
// which they save, and scatter their output.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/kernels/router.h"
#include "runtime/model/parameter_unit.h"
#include "runtime/model/rank_shape.h"
#include "runtime/parallel/expert_parallel.h"
#include "runtime/parallel/tensor_parallel.h"
#include "sim/model/transformer.h"
#include "sim/strategy/recompute.h"

namespace llmsim::runtime {

struct BlockContext;

// The tensors that the experts save for backward.
struct ExpertsTape {
  ExpertChoice choice;
  RowOrder order;
  ExpertLoad load;
  at::Tensor rows;  // inputs of the experts
  at::Tensor up, silu, activation;
  at::Tensor returned;      // by token, before the weighted sum
  at::Tensor shared_input;  // of all tensor ranks, where each routes its own tokens
  at::Tensor shared_up, shared_silu, shared_activation;
  at::Tensor gate;        // of the shared experts, (t, 1)
  at::Tensor shared_out;  // before the gate
};

class Experts {
 public:
  // Whether a half saves its results for the backward pass, or frees them at once.
  enum class Keep { Tape, Nothing };

  // The unit's parameters from `first` on are the router's and the shared experts', those of
  // `experts` from `first_expert` on the routed ones'.  All must outlive it.
  Experts(const BlockContext& context, ParameterUnit& unit, std::size_t first,
          ParameterUnit& experts, std::size_t first_expert);

  // Up to all that the backward pass needs.
  void inner(const at::Tensor& normed, ExpertsTape& tape, Keep keep) const;
  // The rest: the output.
  at::Tensor outer(ExpertsTape& tape, Keep keep) const;

  static void drop(ExpertsTape& tape, const sim::RecomputedModules& modules);
  void restore(const at::Tensor& normed, ExpertsTape& tape) const;

  // Gradient of `normed`; adds to those of the parameters.
  at::Tensor backward(const at::Tensor& dy, at::Tensor normed, ExpertsTape& tape) const;

 private:
  struct Linear {
    Parameter weight, bias;
  };
  // Gradients that wait until the norm's output is whole again.
  struct Waiting {
    at::Tensor weights, shared_up, gate;
  };

  bool has_shared() const { return shared_up_.weight.exists(); }
  bool has_gate() const { return gate_.weight.exists(); }
  bool routes_shards() const;
  at::Tensor routed(const at::Tensor& normed) const;
  void route(const at::Tensor& y, ExpertsTape& tape, Keep keep) const;
  void shared_inner(const at::Tensor& y, ExpertsTape& tape, Keep keep) const;
  void visit(ExpertsTape& tape, Keep keep) const;
  void activate(ExpertsTape& tape) const;
  void activate_shared(ExpertsTape& tape) const;
  void restore_shared(const at::Tensor& y, ExpertsTape& tape) const;
  at::Tensor shared_output(const ExpertsTape& tape) const;
  void shared_backward(const at::Tensor& dy, ExpertsTape& tape, Waiting& waiting) const;
  at::Tensor rows_backward(at::Tensor gradient, ExpertsTape& tape) const;
  void shared_input_backward(at::Tensor& dx, const at::Tensor& y, ExpertsTape& tape,
                             at::Tensor gradient) const;
  void input_backward(at::Tensor& dx, const at::Tensor& y, ExpertsTape& tape,
                      Waiting waiting) const;
  static void add_linear_gradient(at::Tensor& dx, const at::Tensor& dy, const at::Tensor& y,
                                  const Linear& linear);

  const BlockContext& context_;
  Linear router_, shared_up_, shared_down_, gate_, up_, down_;
};

}  // namespace llmsim::runtime
