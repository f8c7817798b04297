// The tensors of a layer: which operator writes, reads and saves them, and so how much memory a
// pass over the layer takes.  Of the layers of a model, blocks and ends, dataflow/ builds them.
//
// A layer is a list of steps in execution order.  Of its tensors
//
//   forward    a step allocates what it writes and a workspace on top; a tensor is freed after its
//              last reader, unless a step saves it for the backward pass or it is what the layer
//              gives to the next
//   backward   the steps in reverse: a step allocates the gradients of what it reads and a
//              workspace on top, then frees the gradients of what it wrote and the saved tensors
//              that no earlier step needs.  A tensor with two readers has the sum of two gradients:
//              the second is there for a moment beside the first
//   recompute  tensors that are dropped at the end of the forward pass are written again when the
//              backward pass enters their half of the layer, by the steps that are repeated
//
// Sizes are those of one micro-batch on one rank; the layer's input and the gradient of its output
// are there when a pass begins, and belong to the caller.
// Source: ours, from the rules of reverse-mode differentiation as PyTorch's autograd executes them
// (a node frees its saved tensors once it has run) and runtime/model/block.cpp does by hand.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/base/quantity.h"
#include "sim/model/layer_kinds.h"
#include "sim/model/transformer.h"
#include "sim/operators/operator.h"
#include "sim/strategy/framework.h"
#include "sim/strategy/recompute.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

// What is alive, by what it is for.
struct LiveBytes {
  Bytes activations{};  // from the forward pass
  Bytes recomputed{};
  Bytes gradients{};  // of activations, and the workspaces of the backward pass
  Bytes logits{};     // with their copies and gradients

  Bytes total() const { return activations + recomputed + gradients + logits; }
};

// A pass over a layer: at most `rise` above what was allocated when it began, `net` more when it
// has ended.
struct PassBytes {
  LiveBytes rise{};
  LiveBytes net{};
};

class Dataflow {
 public:
  using Tensor = std::int16_t;
  static constexpr Tensor kNone = -1;

  // Statistics (indices, masks, sums, copies that one kernel keeps) have no gradient.
  enum class Role : std::uint8_t { Activation, Statistic, Logits, LogitsCopy };

  class Step {
   public:
    Step& reads(Tensor tensor);
    Step& writes(Tensor tensor);
    Step& saves(Tensor tensor);  // that it reads or writes
    Step& forward_workspace(Bytes size) { return forward_ = size, *this; }
    Step& backward_workspace(Bytes size) { return backward_ = size, *this; }
    // That of what it reads replaces that of what it wrote.
    Step& gradient_in_place() { return in_place_ = true, *this; }
    // What a policy of recomputation tells steps apart by.
    Step& gemm(bool counted_by_policy = true) {
      return gemm_ = true, counted_ = counted_by_policy, *this;
    }
    Step& row_parallel() { return row_parallel_ = true, *this; }
    Step& reduce_scatter() { return reduce_scatter_ = true, *this; }
    Step& fused_attention() { return fused_attention_ = true, *this; }
    // The gradient of the first tensor that it reads replaces `saved`, of the same size.
    Step& gradient_in(Tensor saved) { return replaced_ = saved, *this; }

    struct Tensors {
      std::array<Tensor, 6> list{};
      std::uint8_t count = 0;
      void add(Tensor tensor) {
        assert(count < list.size());
        list[count++] = tensor;
      }
      const Tensor* begin() const { return list.data(); }
      const Tensor* end() const { return list.data() + count; }
      Tensor front() const { return list.front(); }
    };
    Module module() const { return module_; }
    bool second_half() const { return second_half_; }
    // A sum in place of its two tensors (add_in_place).
    bool adds() const { return adds_; }
    const Tensors& reads() const { return reads_; }
    const Tensors& writes() const { return writes_; }
    const Tensors& saves() const { return saves_; }
    Bytes forward_workspace() const { return forward_; }
    Bytes backward_workspace() const { return backward_; }
    bool has_gradient_in_place() const { return in_place_; }
    Tensor replaced() const { return replaced_; }

   private:
    friend class Dataflow;
    Module module_ = Module::Norm;
    bool second_half_ = false;
    bool adds_ = false;
    bool in_place_ = false;
    bool gemm_ = false, row_parallel_ = false, reduce_scatter_ = false, fused_attention_ = false;
    bool counted_ = true;
    Tensor replaced_ = kNone;
    Tensors reads_{}, writes_{}, saves_{};
    Bytes forward_{}, backward_{};
  };

  Tensor add(Bytes size, Role role = Role::Activation);
  Step& step(Module module);
  // `into` += `addend`, in place: the gradient of the sum is that of both.
  void add_in_place(Tensor addend, Tensor into);
  void begin_second_half() { second_half_ = true; }
  // Of a pass that recomputes all and stops early: the step added last is the last whose results
  // are needed.
  void end_of_needed() { needed_ = steps_.size(); }

  void set_input(Tensor tensor) { input_ = tensor; }  // the caller's
  // What stays for the next layer; none: the loss.
  void set_output(Tensor tensor) { output_ = tensor; }
  // Of the step that writes it; none for the input.
  std::optional<Module> writer(Tensor tensor) const;
  Bytes size(Tensor tensor) const { return tensors_[index(tensor)].size; }
  Role role(Tensor tensor) const { return tensors_[index(tensor)].role; }
  std::size_t tensors() const { return tensors_.size(); }
  const std::vector<Step>& steps() const { return steps_; }
  Tensor input() const { return input_; }
  Tensor output() const { return output_; }
  static std::size_t index(Tensor tensor) { return static_cast<std::size_t>(tensor); }

  // What the backward pass writes again.
  struct Recomputation {
    std::vector<bool> repeated;  // steps
    std::vector<bool> dropped;   // tensors that the forward pass does not leave
    // Tensors that it leaves though no step saves them: outputs that a policy keeps.
    std::vector<bool> cached;
    // Before the backward pass begins; else each half when the pass enters it.
    bool from_input = false;
    // What was written again to the end stays until the backward pass has ended.
    bool holds_output = false;
  };
  Recomputation keep_all() const;
  // Of some modules: what their steps write and save.  A module of `keeps_output` leaves what
  // others read (a checkpoint within the layer), one of the others does not (its output is written
  // again for them).
  Recomputation recompute(ModuleSet modules, ModuleSet keeps_output) const;
  // Of everything but the input; `stops_early`: but what follows end_of_needed().
  Recomputation recompute_all(bool stops_early) const;
  // Of that all but the GEMMs whose outputs `saved` keeps.  GEMMs are counted by their outputs in
  // execution order.  EverySecond keeps what an operator returns, and the outputs of fused
  // attention and of reduce-scatters; the policies of a compiler keep the output of a row-parallel
  // GEMM as summed over the tensor ranks, and not the last, which nothing needs.
  Recomputation recompute_by_operator(SavedGemms saved, bool stops_early) const;

  // Of the outputs of the `ordinal`-th GEMM of a module the share that is written again.
  double repeated_share(const Recomputation& recomputation, Module module, int ordinal) const;
  bool repeats(const Recomputation& recomputation, Module module) const;

  // What the layer has saved when its forward pass has ended: the input, where it is saved, and not
  // the output.
  Bytes saved(const Recomputation& recomputation) const;
  Bytes saved() const { return saved(keep_all()); }
  // Of it what the steps of some modules save of their inputs and for themselves, not what they
  // give to other modules.
  Bytes saved_inputs(const Recomputation& recomputation, ModuleSet first_half,
                     ModuleSet second_half) const;

  PassBytes forward(const Recomputation& recomputation) const;
  PassBytes backward(const Recomputation& recomputation) const;
  PassBytes forward() const { return forward(keep_all()); }
  PassBytes backward() const { return backward(keep_all()); }

 private:
  struct Record {
    Bytes size{};
    Role role = Role::Activation;
  };
  bool reads_elsewhere(Module module, Tensor tensor) const;
  struct KeptOutputs;
  KeptOutputs kept_outputs(const Step& step, SavedGemms saved, bool last, int& outputs) const;
  Tensor summed(Tensor partial) const;

  std::vector<Record> tensors_;
  std::vector<Step> steps_;
  std::size_t needed_ = 0;
  bool second_half_ = false;
  Tensor input_ = kNone, output_ = kNone;
};

// Queries that a blockwise attention kernel handles at once: the scores of one block are there at a
// time.
inline constexpr int kAttentionBlock = 128;

// Of 0.5 x (1 + tanh(...)) written out, saved beside x itself: 0.5 x, the tangent, and one more
// than it.
inline constexpr double kComposedGeluKeeps = 3.0;

// The tensors of one transformer block, for one micro-batch on one rank.
//
// Notation and operators are those of block.h.  Beside the activations that the operators read and
// write, a block saves what the framework's kernels need:
//
//   norm         its input, or an fp32 copy of it (norms_in_fp32); an eager RMSNorm under autograd
//                saves the fp32 copy and the normalised input; mean and deviation, 2 values a row
//                for LayerNorm, 1 for RMSNorm
//   linear       its input, as linear_input_bytes has it; nothing where the weight is frozen
//   attention    q, k, v, the output and a log-sum-exp for each row (flash); or the probabilities,
//                with dropout their masked copy and the mask (unfused)
//   activation   its inputs; eager gates silu(gate), a GELU written out its intermediate results
//   residual     the dropout mask
//
// GPT in 16 bits with dropout and fused kernels saves 34 t h + 5 a s t bytes at n = 1.
// With sequence parallelism column-parallel GEMMs gather their input for as long as they run,
// forward and backward, and row-parallel ones reduce-scatter what they write.
// Source: Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models",
// 2022, section 4.
//
// `framework`: as it runs under the strategy (effective_framework).
Dataflow block_dataflow(const Transformer& model, const Strategy& strategy,
                        const Framework& framework, LayerKind kind);

// The tensors of what stands before the first block and after the last, for one micro-batch on one
// rank.
//
// Embedding: gives the residual stream; with sequence parallelism each rank sums whole rows and
// keeps its part.  Tensor ranks have the ids of their own rows of the table, and a flag for each
// token.
//
// Head: the norm, the logits of this rank's columns, and the loss (loss.h).  Of t tokens and V/n
// columns, e bytes an activation:
//
//   plain, fp32 logits   logits t V/n e, and k - 1 fp32 copies from the forward pass, one more in
//                        the backward pass, whose cast replaces the logits
//   plain, 16-bit        logits; their gradient is another tensor, or replaces them
//   Kernel               t V/n (e + 8): the fp32 copy that one of its kernels makes, and what the
//                        next makes of it
//   Logits               forward t V/n (e + 8 / c), c chunks of tokens: fp32 copies are of one
//                        chunk; backward t V/n 2 e, logits and their gradient
//   Recomputed           t V/n (e + 4 k) / c, and the head's gradient twice: of a chunk and the sum
//   Gradient             t V/n (2 e + 4) / c, or t V/n e / c in fp32, and the gradients of the head
//                        (V/n h e) and of its input (t h e), which wait for backward; V/n h e of
//                        the weights where the framework casts them
//
// The head of an encoder (ends.h) works on predicted tokens.  Multi-token prediction repeats the
// head.
//
// `framework`: as it runs under the strategy (effective_framework).
Dataflow embedding_dataflow(const Transformer& model, const Strategy& strategy,
                            const Framework& framework);
Dataflow head_dataflow(const Transformer& model, const Strategy& strategy,
                       const Framework& framework);

}  // namespace llmsim::sim
