#include "runtime/kernels/library_attention.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/version.h>

#include "runtime/library/operator_call.h"
#include "runtime/library/operator_trace.h"
#include "sim/base/error.h"

namespace llmsim::runtime {
namespace {

using c10::IValue;

std::string operator_of(AttentionKernels kernels) {
  return std::string("aten::_scaled_dot_product_") + name_of(kernels) + "_attention";
}

bool groups_queries(AttentionKernels kernels, c10::Device device);

// Of the kernels that take as many keys as queries.
at::Tensor for_each_query(AttentionKernels kernels, const at::Tensor& heads,
                          std::int64_t query_heads) {
  const std::int64_t times = query_heads / heads.size(1);
  if (times == 1 || groups_queries(kernels, heads.device())) return heads;
  return heads.repeat_interleave(times, 1);
}

at::Tensor summed_over_queries(const at::Tensor& gradient, const at::Tensor& like) {
  if (gradient.size(1) == like.size(1)) return gradient;
  return gradient.view({like.size(0), like.size(1), -1, like.size(2), like.size(3)}).sum(2);
}

// (b s, a d) as (b, a, s, d), a view.
at::Tensor by_heads(const at::Tensor& tokens, const at::Tensor& q) {
  return tokens.view({q.size(0), q.size(2), q.size(1), q.size(3)}).transpose(1, 2);
}

std::int64_t useful_flops(const Heads& heads, int gemms) {
  const std::int64_t s = heads.q.size(2);
  return gemms * heads.q.size(0) * heads.q.size(1) * s * s * heads.q.size(3);
}

std::vector<IValue> called(const std::string& name, std::vector<IValue> arguments) {
  auto results = call_operator(name, std::move(arguments));
  if (!results)
    throw Error("this libtorch, " TORCH_VERSION ", has no " + name +
                " of the form that the runtime calls");
  return *std::move(results);
}

// Flash attention of newer releases shares a key among its queries; a small call tells.
bool tried_grouped_queries(c10::Device device) {
  const at::TensorOptions options = at::TensorOptions(at::kBFloat16).device(device);
  const at::Tensor q = at::ones({1, 4, 64, 64}, options), k = at::ones({1, 2, 64, 64}, options);
  const std::string name = operator_of(AttentionKernels::Flash);
  try {
    const std::vector<IValue> forward = called(name, {q, k, k, 0.0, true});
    const at::Tensor o = forward[0].toTensor();
    const std::vector<IValue> backward =
        called(name + "_backward", {o, q, k, k, o, forward[1], forward[2], forward[3], forward[4],
                                    forward[5], 0.0, true, forward[6], forward[7]});
    return o.sizes() == q.sizes() && backward[1].toTensor().sizes() == k.sizes();
  } catch (const std::exception&) {
    return false;
  }
}

bool groups_queries(AttentionKernels kernels, c10::Device device) {
  if (kernels != AttentionKernels::Flash || !device.is_cuda()) return false;
  static const bool tried = tried_grouped_queries(device);
  return tried;
}

}  // namespace

const char* name_of(AttentionKernels kernels) {
  switch (kernels) {
    case AttentionKernels::Flash: return "flash";
    case AttentionKernels::Efficient: return "efficient";
    case AttentionKernels::Cudnn: return "cudnn";
    case AttentionKernels::Blockwise: break;
  }
  return "blockwise";
}

bool has_attention_kernels(AttentionKernels kernels, c10::Device device) {
  if (kernels == AttentionKernels::Blockwise) return true;
  return device.is_cuda() && has_operator(operator_of(kernels)) &&
         has_operator(operator_of(kernels) + "_backward");
}

void require_attention_kernels(AttentionKernels kernels, c10::Device device, c10::ScalarType type) {
  const std::string what = std::string("attention_kernels = ") + name_of(kernels);
  if (kernels == AttentionKernels::Blockwise) return;
  if (!device.is_cuda())
    throw Error(what + " runs on CUDA and ROCm devices, not on " + device.str() +
                "; blockwise runs on all");
  if (!has_attention_kernels(kernels, device))
    throw Error(what + " needs a libtorch with " + operator_of(kernels) +
                ", which " TORCH_VERSION " lacks");
  if (kernels != AttentionKernels::Efficient && type == c10::kFloat)
    throw Error(what + " multiplies in 16 bits, not in fp32; efficient and blockwise do");
}

AttentionOutput library_attention(AttentionKernels kernels, const Heads& heads) {
  const CountedAs counted("llmsim::attention", useful_flops(heads, 2));
  const std::int64_t a = heads.q.size(1);
  std::vector<IValue> arguments{heads.q, for_each_query(kernels, heads.k, a),
                                for_each_query(kernels, heads.v, a)};
  // No bias; the log-sum-exp.
  if (kernels != AttentionKernels::Flash) arguments.insert(arguments.end(), {IValue(), true});
  arguments.insert(arguments.end(), {0.0, true});  // no dropout; causal
  std::vector<IValue> results = called(operator_of(kernels), std::move(arguments));
  AttentionOutput out;
  const at::Tensor o = results[0].toTensor();
  out.o = o.transpose(1, 2).reshape({o.size(0) * o.size(2), o.size(1) * o.size(3)});
  out.log_sum_exp = results[1].toTensor();
  out.of_library.assign(results.begin() + 2, results.end());
  return out;
}

Heads library_attention_backward(AttentionKernels kernels, const at::Tensor& dout,
                                 const Heads& heads, const AttentionOutput& forward) {
  const CountedAs counted("llmsim::attention", useful_flops(heads, 4));
  const std::int64_t a = heads.q.size(1);
  std::vector<IValue> arguments{by_heads(dout, heads.q), heads.q,
                                for_each_query(kernels, heads.k, a),
                                for_each_query(kernels, heads.v, a)};
  const auto add = [&](std::initializer_list<IValue> more) {
    arguments.insert(arguments.end(), more);
  };
  const std::vector<IValue>& kept = forward.of_library;
  const at::Tensor o = by_heads(forward.o, heads.q);
  switch (kernels) {
    case AttentionKernels::
        Flash:  // sequence offsets and lengths, no dropout, causal, the generator
      add({o, forward.log_sum_exp, kept[0], kept[1], kept[2], kept[3]});
      add({0.0, true, kept[4], kept[5]});
      break;
    case AttentionKernels::Cudnn:  // the generator, no bias; the rest as above
      add({o, forward.log_sum_exp, kept[4], kept[5], at::Tensor()});
      add({kept[0], kept[1], kept[2], kept[3], 0.0, true});
      break;
    default:
      add({at::Tensor(), o, forward.log_sum_exp, kept[0], kept[1]});
      add({0.0, std::array<bool, 4>{true, true, true, false}, true});
  }
  const std::vector<IValue> results =
      called(operator_of(kernels) + "_backward", std::move(arguments));
  return {.q = results[0].toTensor().contiguous(),
          .k = summed_over_queries(results[1].toTensor().contiguous(), heads.k),
          .v = summed_over_queries(results[2].toTensor().contiguous(), heads.v)};
}

}  // namespace llmsim::runtime
