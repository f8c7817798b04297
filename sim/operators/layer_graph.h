// A layer of a model: one list of nodes in execution order, each with its operators
// and its tensors.
//
// A node is what a framework calls an operation of a module: the GEMM of a linear layer with its
// casts, the core of attention, a norm, the collective that gathers an input.  It states
//
//   operators   what the device executes in the forward and in the backward pass (operator.h)
//   tensors     what it reads and writes, what it saves for its backward pass, and the workspaces
//               of its kernels
//
// so that time, FLOPs, bytes, communication (the operators) and memory (the tensors,
// layer_memory.h) are views of the same list, and recomputation and offload choose nodes and
// tensors of it (recomputation.h).  Nodes that reshape, or that a framework has fused away, have
// tensors and no operators; operators that work in place have no tensors.
//
// The nodes of the backward pass run in the opposite order, the backward operators of a node as the
// node has them.  Sizes are those of one micro-batch on one rank; the layer's input and the
// gradient of its output are there when a pass begins, and belong to the caller.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/base/quantity.h"
#include "sim/operators/operator.h"

namespace llmsim::sim {

using TensorId = std::int16_t;  // its place in LayerGraph::tensors()
inline constexpr TensorId kNoTensor = -1;

// Statistics (indices, masks, sums, copies that one kernel saves) have no gradient.
enum class TensorRole : std::uint8_t { Activation, Statistic, Logits, LogitsCopy };

// rows x columns elements of `element` bytes.  Rows are tokens, or what a token has several of;
// either may be a mean, where the busiest rank has a share of the rows that a router sends.
struct TensorShape {
  double rows = 1.0;
  double columns = 1.0;
  double element = 1.0;

  Bytes size() const { return Bytes(rows * columns * element); }
};

struct Tensor {
  const char* name = "";  // "q", "attention output", "logits"; a string literal, to be printed
  TensorShape shape;
  TensorRole role = TensorRole::Activation;

  Bytes size() const { return shape.size(); }
};

// Those that one node reads, writes or saves: few.
struct NodeTensors {
  std::array<TensorId, 6> list{};
  std::uint8_t count = 0;

  void add(TensorId tensor) {
    assert(count < list.size());
    list[count++] = tensor;
  }
  const TensorId* begin() const { return list.data(); }
  const TensorId* end() const { return list.data() + count; }
  TensorId front() const { return list.front(); }
  bool has(TensorId tensor) const {
    for (const TensorId one : *this) {
      if (one == tensor) return true;
    }
    return false;
  }
};

class Node {
 public:
  template <class... Ids>
  Node& reads(Ids... tensors) {
    return (add(reads_, tensors), ...);
  }
  template <class... Ids>
  Node& writes(Ids... tensors) {
    return (add(writes_, tensors), ...);
  }
  template <class... Ids>
  Node& saves(Ids... tensors) {  // that it reads or writes
    return (add(saves_, tensors), ...);
  }
  Node& forward_workspace(Bytes size) { return forward_ = size, *this; }
  Node& backward_workspace(Bytes size) { return backward_ = size, *this; }
  // The gradient of what it reads replaces that of what it wrote.
  Node& gradient_in_place() { return in_place_ = true, *this; }
  // The gradient of the first tensor that it reads replaces `saved`, of the same size.
  Node& gradient_in(TensorId saved) { return replaced_ = saved, *this; }
  // What a recompute policy distinguishes nodes by: a GEMM, whose outputs it may save;
  // `counted_by_policy`: whether one that saves every second GEMM counts this one.
  Node& gemm(bool counted_by_policy = true) {
    return gemm_ = true, counted_ = counted_by_policy, *this;
  }
  Node& row_parallel() { return row_parallel_ = true, *this; }
  Node& reduce_scatter() { return reduce_scatter_ = true, *this; }
  Node& fused_attention() { return fused_attention_ = true, *this; }

  Module module() const { return module_; }
  bool second_half() const { return second_half_; }
  bool adds() const { return adds_; }  // the sum of its two tensors, in the place of the second
  const NodeTensors& reads() const { return reads_; }
  const NodeTensors& writes() const { return writes_; }
  const NodeTensors& saves() const { return saves_; }
  Bytes forward_workspace() const { return forward_; }
  Bytes backward_workspace() const { return backward_; }
  bool has_gradient_in_place() const { return in_place_; }
  TensorId replaced() const { return replaced_; }
  bool is_gemm() const { return gemm_; }
  bool is_counted() const { return counted_; }
  bool is_row_parallel() const { return row_parallel_; }
  bool is_reduce_scatter() const { return reduce_scatter_; }
  bool is_fused_attention() const { return fused_attention_; }
  std::size_t first_operator() const { return first_operator_; }  // in LayerGraph::forward

 private:
  friend class LayerGraph;
  Node& add(NodeTensors& tensors, TensorId tensor) {
    if (tensor != kNoTensor) tensors.add(tensor);
    return *this;
  }

  Module module_ = Module::Norm;
  bool second_half_ = false;
  bool adds_ = false;
  bool in_place_ = false;
  bool gemm_ = false, row_parallel_ = false, reduce_scatter_ = false, fused_attention_ = false;
  bool counted_ = true;
  TensorId replaced_ = kNoTensor;
  std::size_t first_operator_ = 0;
  NodeTensors reads_{}, writes_{}, saves_{};
  Bytes forward_{}, backward_{};
};

// Collectives of the input that column-parallel linear layers share: it is gathered before the
// forward pass and, for the weight gradients, once more before the GEMMs of the data gradients;
// each rank has a summand of its gradient, whose reduction overlaps with the weight gradients.
// Source: Megatron-LM core/tensor_parallel/layers.py,
// LinearWithGradAccumulationAndAsyncCommunication.
struct SharedInput {
  std::optional<Operator> gather{}, gather_again{}, sum{};
};

class LayerGraph : public LayerOperators {
 public:
  TensorId tensor(const char* name, TensorShape shape, TensorRole role = TensorRole::Activation);
  // A node without operators, or with those of `operators`, which become the module's: its forward
  // operators after those of the nodes before it, its backward operators before theirs.
  Node& add(Module module);
  Node& add(Module module, LayerOperators operators);
  // The same with operators that have modules of their own.
  Node& add_as_they_are(Module module, const LayerOperators& operators);
  // `into` += `addend`, in place: the gradient of the sum is that of both.
  Node& add_in_place(TensorId addend, TensorId into, LayerOperators operators = {});
  // More operators of the node added last.
  void add_forward(Module module, Operator op);
  void add_backward(Module module, Operator op);

  // A place among the backward operators: those of nodes that are added from here on.
  std::size_t backward_place() const { return backward.size(); }
  // The collectives of the gradient of an input that the nodes since `place` share, around their
  // last data gradients.
  void share_gradient(std::size_t place, const SharedInput& input);
  // That the operators of nodes since the places have a router's rows.
  void set_ragged(std::size_t first_forward, std::size_t first_backward);

  void begin_second_half() { second_half_ = true; }
  // Of a pass that recomputes all and stops early: the node added last is the last whose results
  // are needed.
  void end_of_needed() { needed_ = nodes_.size(); }
  void set_input(TensorId tensor) { input_ = tensor; }  // the caller's
  // What stays for the next layer; none: the loss.
  void set_output(TensorId tensor) { output_ = tensor; }
  // Ends the building: the backward operators from the end of the layer to its beginning.
  void finish();

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  const Tensor& operator[](TensorId tensor) const { return tensors_[index(tensor)]; }
  Bytes size(TensorId tensor) const { return (*this)[tensor].size(); }
  TensorId input() const { return input_; }
  TensorId output() const { return output_; }
  std::size_t needed_nodes() const { return needed_; }
  // Forward operators of a node.
  OperatorRange operators_of(std::size_t node) const;
  // Of the node that writes it; none for the input.
  std::optional<Module> writer(TensorId tensor) const;
  static std::size_t index(TensorId tensor) { return static_cast<std::size_t>(tensor); }

 private:
  std::vector<Tensor> tensors_;
  std::vector<Node> nodes_;
  std::size_t needed_ = 0;
  bool second_half_ = false;
  TensorId input_ = kNoTensor, output_ = kNoTensor;
};

}  // namespace llmsim::sim
