// Parameters that travel together: those of a block, of the embedding, of the head.
//
// The weights of a unit are one flat tensor, and so are its gradients; a parameter is a view into
// each.  Data parallelism moves flat tensors and never looks inside: it puts whole weights there
// before a unit computes, takes them away afterwards, and sums whole gradients.  The flat tensors
// are padded so that they divide evenly over the ranks that share them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include "sim/strategy/strategy.h"

namespace llmsim::runtime {

// In which formats a training step computes, stores weights and adds up gradients.
//
//   fp32            everything in fp32
//   bf16            weights and gradients in bf16, and fp32 master weights
//   fp8             the same, and the linear layers of blocks multiply in 8 bits
//                   (kernels/low_precision_linear.h)
//   bf16, autocast  weights and gradients in fp32; a bf16 copy of a unit's weights is made each
//                   time the unit computes
struct NumberFormats {
  c10::ScalarType compute = c10::kFloat;
  c10::ScalarType weights = c10::kFloat;
  c10::ScalarType gradients = c10::kFloat;

  bool has_master() const { return weights != c10::kFloat; }
  bool casts_weights() const { return weights != compute; }
};

// Throws Error for recipes that the runtime does not execute.
NumberFormats number_formats(sim::Precision precision, bool autocast);

enum class Initial { Normal, Zeros, Ones };

struct ParameterShape {
  std::string name;  // unique in the model: "blocks.3.qkv.weight"
  std::vector<std::int64_t> sizes;
  Initial initial = Initial::Normal;
  bool replicated = false;  // over the tensor ranks
  // Replicated, and under sequence parallelism the gradient is that of this rank's tokens.
  bool own_tokens = false;
  bool partial_gradient = false;  // replicated, and the gradient is one addend of the sum over them
  bool of_experts = false;        // one matrix for each of the experts that this rank has
  bool inputs_divided = false;    // by the tensor ranks, of a row-parallel GEMM; else its outputs
  std::vector<std::int64_t> side_by_side{};  // outputs that are divided each: of q, k and v
  bool tied_across_stages = false;  // the first and the last pipeline stage have a copy each
};

class ParameterUnit {
 public:
  ParameterUnit(std::string name, std::vector<ParameterShape> shapes, int shards);

  const std::string& name() const { return name_; }
  const std::vector<ParameterShape>& shapes() const { return shapes_; }
  std::int64_t parameters() const { return parameters_; }  // without padding
  std::int64_t numel() const { return numel_; }            // with
  std::int64_t offset(std::size_t index) const { return offsets_[index]; }

  // Whole weights and gradients; undefined while they are elsewhere.
  at::Tensor weights;
  at::Tensor gradients;

  at::Tensor weight(std::size_t index) const { return view(weights, index); }
  at::Tensor gradient(std::size_t index) const { return view(gradients, index); }

 private:
  at::Tensor view(const at::Tensor& flat, std::size_t index) const;

  std::string name_;
  std::vector<ParameterShape> shapes_;
  std::vector<std::int64_t> offsets_;
  std::int64_t parameters_ = 0;
  std::int64_t numel_ = 0;
};

// One parameter of a unit, or none (a bias that the model does not have): its
// views are undefined then.
class Parameter {
 public:
  Parameter() = default;
  Parameter(ParameterUnit& unit, std::size_t index) : unit_(&unit), index_(index) {}

  bool exists() const { return unit_ != nullptr; }
  at::Tensor weight() const { return unit_ == nullptr ? at::Tensor() : unit_->weight(index_); }
  at::Tensor gradient() const { return unit_ == nullptr ? at::Tensor() : unit_->gradient(index_); }

 private:
  ParameterUnit* unit_ = nullptr;
  std::size_t index_ = 0;
};

}  // namespace llmsim::runtime
