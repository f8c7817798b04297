#include "sim/operators/layer_builder.h"

#include <algorithm>

#include "sim/operators/recomputation.h"
#include "sim/operators/traffic.h"
#include "sim/strategy/adapters.h"

namespace llmsim::sim {
namespace {

Operator over_tensor_ranks(Module module, const char* label, CollectiveKind kind, Bytes message) {
  Operator op = collective(label, kind, GroupKind::Tensor, message);
  op.module = module;
  return op;
}

Operator overlapped(Operator op, TensorOverlap overlap) {
  op.tensor_overlap = overlap;
  return op;
}

// As all-gathers send it: linear layers need it in the format of their GEMMs.
Bytes gathered_residual(const LayerBuilder& b) {
  const LowPrecisionRecipe& recipe = b.framework.low_precision;
  const double sent =
      recipe.gathers_inputs ? low_precision_bytes(recipe, b.strategy.precision, false) : b.element;
  return std::min(1.0, sent / b.element) * b.whole_residual().size();
}

// Statistics and workspaces of a norm's kernels over `rows` rows of `width` values; a row has so
// many statistics of `element` bytes.
struct NormKernel {
  TensorShape statistics{};
  Bytes forward{}, backward{};
};

// PyTorch's layer_norm is one kernel.  An RMSNorm of its elementwise operators works on fp32 copies
// (runtime/kernels/norm.cpp).
NormKernel norm_kernel(const LayerBuilder& b, double rows, double width) {
  const double e = b.stream_element, gradient = std::max(e, b.framework.storage.gradient_bytes);
  const bool weight = b.model.norm_weight, bias = weight && b.model.bias.norm;
  if (b.model.norm == Norm::LayerNorm) {
    const double parameters = (weight ? 3.0 : 0.0) + (bias ? 1.0 : 0.0);
    return {.statistics = {rows, 2.0, e}, .backward = Bytes(parameters * width * e)};
  }
  const double high = rows * width * kFp32Bytes, sums = rows * kFp32Bytes,
               output = rows * width * e;
  const TensorShape statistics{rows, 1.0, kFp32Bytes};
  if (!composes_rms_norm(b.framework)) return {.statistics = statistics};
  const double scale = weight && e < kFp32Bytes ? width * kFp32Bytes : 0.0;
  const double weights =
      weight ? width * (kFp32Bytes + (gradient < kFp32Bytes ? gradient : 0.0)) : 0.0;
  const double first = 2.0 * high + std::max(weights, scale + sums);
  const double last = e < kFp32Bytes ? high + scale + sums + output : 0.0;
  return {.statistics = statistics,
          .forward = Bytes(e < kFp32Bytes ? high : 0.0),
          .backward = Bytes(std::max(first, last) - output)};
}

TensorShape with_element(TensorShape shape, double element) {
  shape.element = element;
  return shape;
}

}  // namespace

LayerBuilder::LayerBuilder(const Transformer& of_model, const Strategy& of_strategy,
                           const Framework& of_framework, const LayerWeights& of_layer)
    : model(of_model),
      strategy(of_strategy),
      framework(of_framework),
      weights(of_layer),
      linear{.precision = strategy.precision,
             .framework = &framework,
             .adapters = strategy.adapters,
             .requantises_weights =
                 framework.sharded.regathers_in_backward && strategy.sharding >= Sharding::Zero3},
      element(size_of(activation_dtype(strategy.precision)).value()),
      stream_element(runs_autocast(framework, strategy) ? std::max(element, kFp32Bytes) : element),
      num_tokens(static_cast<std::int64_t>(strategy.micro_batch) * model.seq_len / strategy.cp),
      tokens(real(num_tokens)),
      ranks(strategy.tp),
      gathers(strategy.sequence_parallel && strategy.tp > 1),
      repeated_(strategy.recompute.kind == RecomputeKind::Selective
                    ? repeated_modules(strategy.recompute.modules, model, model.moe.has_value())
                    : ModuleSet{}) {}

bool LayerBuilder::adapts(WeightName name) const {
  return strategy.adapters && !adapted_columns(strategy.adapters->layers, weights[name]).empty();
}

void LayerBuilder::save_extra(Module module, const char* name, TensorShape shape,
                              LayerOperators operators) {
  if (shape.size() <= Bytes(0.0)) {
    if (!operators.forward.empty() || !operators.backward.empty())
      layer.add(module, std::move(operators));
    return;
  }
  const TensorId extra = layer.tensor(name, shape, TensorRole::Statistic);
  layer.add(module, std::move(operators)).writes(extra).saves(extra);
}

void LayerBuilder::save_adapter_dropout(double rows_of, double columns_of) {
  if (framework.saved.adapter_dropout > 0.0)
    save_extra(Module::Residual, "adapter input and dropout mask",
               {rows_of, columns_of, element + 1.0});
}

Bytes LayerBuilder::weight_gradient_workspace(Module module, const LayerWeight& weight_of) const {
  const bool of_unit = framework.sharded.gradients_of_units;
  if (of_unit && module != Module::Head) return Bytes(0.0);
  const double width = real(weight_of.columns), bias = weight_of.biases > 0 ? width : 0.0;
  const double gradient = framework.storage.gradient_bytes;
  const bool cast = gradient > element && !framework.gradients.accumulated_by_gemm &&
                    !strategy.adapters && (!of_unit || framework.gradients.reduced_in_fp32);
  const bool made_separately =
      autograd() && !framework.gradients.accumulated_by_gemm && !strategy.adapters;
  const double of_weights = real(weight_of.rows) * width *
                            ((cast || made_separately ? element : 0.0) + (cast ? gradient : 0.0));
  const double of_bias =
      framework.gradients.fused_bias ? 0.0 : bias * (element + (cast ? gradient : 0.0));
  return Bytes(std::max(of_weights, of_bias));
}

// Queries, keys and values are one in models of the GPT kind and where a framework joins them, as
// gate and values are nowhere that autocast runs.
double LayerBuilder::matrices(Module module) const {
  if (module == Module::Qkv && model.gated_mlp && !framework.saved.fused_qkv) return 3.0;
  return module == Module::MlpUp && model.gated_mlp ? 2.0 : 1.0;
}

bool LayerBuilder::counted_by_policy() const {
  return !is_low_precision(matmul_dtype(strategy.precision)) ||
         framework.low_precision.counted_by_policy;
}

// A copy in the low-precision format is a kernel of its own, which a policy that knows GEMMs does
// not save.
TensorId LayerBuilder::saved_input(Module module, TensorId x) {
  const double bytes = linear_input_bytes(linear);
  const std::optional<Module> writer = layer.writer(x);
  if (bytes == element || (writer && (*writer == Module::CoreAttention || repeated_.has(*writer))))
    return x;
  if (copied_ == x) return copy_;
  const TensorShape shape = layer[x].shape;
  copied_ = x;
  copy_ = layer.tensor(layer[x].name, with_element(shape, shape.element * (bytes / element)),
                       TensorRole::Statistic);
  layer.add(module).reads(x).writes(copy_);
  return copy_;
}

// Under autocast a norm's output, or a block's input, is copied for each matrix that multiplies it.
bool LayerBuilder::is_copied_by_autocast(TensorId x) const {
  const std::optional<Module> writer = layer.writer(x);
  return autocasts() && (!writer || *writer == Module::Norm);
}

Node& LayerBuilder::gemm(Linear linear_layer, TensorId x, std::initializer_list<TensorId> y,
                         TensorId saved, Bytes again) {
  const Module module = linear_layer.module;
  const bool copies = saved != kNoTensor && is_copied_by_autocast(saved);
  const TensorId kept = saved == kNoTensor || copies ? saved : saved_input(module, saved);
  TensorId copy = kNoTensor;
  if (copies) {
    const TensorShape shape = layer[saved].shape;
    copy = layer.tensor(
        layer[saved].name,
        {shape.rows, shape.columns,
         shape.element / stream_element * matrices(module) * linear_input_bytes(linear)},
        TensorRole::Statistic);
  }
  Node& node =
      layer.add(module, std::move(linear_layer.operators)).reads(x).gemm(counted_by_policy());
  for (const TensorId output : y) node.writes(output);
  if (copies)
    node.writes(copy).saves(copy);
  else
    node.saves(kept);
  return node.backward_workspace(again + weight_gradient_workspace(module, linear_layer.weight));
}

void LayerBuilder::column_gemm(Linear linear_layer, SharedInput input, TensorId x,
                               std::initializer_list<TensorId> y, bool saves) {
  const std::size_t place = layer.backward_place();
  const TensorId whole =
      gathers ? gathered(linear_layer.module, layer[x].name, of_all_ranks(x), x, input) : x;
  const bool saves_whole = gathers && framework.saved.gathered_inputs;
  if (saves_whole) input.gather_again.reset();
  const Bytes again = gathers && saves && !saves_whole ? ranks * layer.size(x) : Bytes(0.0);
  gemm(std::move(linear_layer), whole, y, saves ? (saves_whole ? whole : x) : kNoTensor, again);
  layer.share_gradient(place, input);
}

TensorId LayerBuilder::row_gemm(const char* name, Linear linear_layer, TensorId x, bool saves) {
  const TensorId partial = tensor(name, whole_residual());
  gemm(std::move(linear_layer), x, {partial}, saves ? x : kNoTensor).row_parallel();
  return partial;
}

TensorId LayerBuilder::mixer_input(LayerOperators operators, TensorId normed) {
  const TensorId projected = values("mixer input", columns(WeightName::MixerInput));
  column_gemm({Module::MixerInput, weight(WeightName::MixerInput), std::move(operators)},
              shared_residual(Module::MixerInput), normed, {projected},
              saves_input(WeightName::MixerInput));
  if (adapts(WeightName::MixerInput)) save_adapter_dropout(own_tokens(), model.hidden_size);
  return projected;
}

// `alone`: the layer has no MLP, so that nothing after this GEMM is needed again.
TensorId LayerBuilder::mixer_output(TensorId values_of, bool alone) {
  const bool adapted = adapts(WeightName::MixerOutput);
  if (adapted) save_adapter_dropout(tokens, rows(WeightName::MixerOutput));
  if (alone) layer.end_of_needed();
  const TensorId partial =
      row_gemm("stream after the mixer", linear_layer(Module::MixerOutput, WeightName::MixerOutput),
               values_of, saves_input(adapted));
  return reduce(Module::MixerOutput, partial);
}

SharedInput LayerBuilder::shared_input(Module module, const SharedLabels& labels,
                                       Bytes message) const {
  if (strategy.tp == 1) return {};
  const auto over_ranks = [&](const char* label, CollectiveKind kind) {
    return over_tensor_ranks(module, label, kind, message);
  };
  if (!strategy.sequence_parallel)
    return {.sum = over_ranks(labels.sum, CollectiveKind::AllReduce)};
  return {.gather = over_ranks(labels.gather, CollectiveKind::AllGather),
          .gather_again = over_ranks(labels.gather_again, CollectiveKind::AllGather),
          .sum = over_ranks(labels.sum, CollectiveKind::ReduceScatter)};
}

SharedInput LayerBuilder::shared_residual(Module module) const {
  SharedInput input = shared_input(
      module, {"column_input", "column_input_again", "column_gradient"}, whole_residual().size());
  if (input.sum) input.sum->tensor_overlap = TensorOverlap::WeightGradient;
  if (!input.gather) return input;
  input.gather->message = input.gather_again->message = gathered_residual(*this);
  input.gather->tensor_overlap = TensorOverlap::Feeds;
  input.gather_again->tensor_overlap = TensorOverlap::DataGradient;
  return input;
}

TensorId LayerBuilder::gathered(Module module, const char* name, TensorShape shape, TensorId x,
                                const SharedInput& input) {
  const TensorId whole = layer.tensor(name, shape);
  layer.add(module).reads(x).writes(whole);
  if (input.gather) layer.add_forward(module, *input.gather);
  return whole;
}

TensorId LayerBuilder::reduce(Module module, TensorId partial) {
  const bool shards = strategy.sequence_parallel;
  const Operator sum = over_tensor_ranks(
      module, "row_output", shards ? CollectiveKind::ReduceScatter : CollectiveKind::AllReduce,
      whole_residual().size());
  if (!shards) return reduce(module, partial, {.forward = {sum}});
  return reduce(
      module, partial,
      {.forward = {overlapped(sum, TensorOverlap::Follows)},
       .backward = {overlapped(over_tensor_ranks(module, "row_gradient", CollectiveKind::AllGather,
                                                 gathered_residual(*this)),
                               TensorOverlap::Feeds)}});
}

TensorId LayerBuilder::reduce(Module module, TensorId partial, LayerOperators operators) {
  if (strategy.tp == 1) return partial;
  TensorId sum = partial;
  if (gathers) sum = tensor(layer[partial].name, residual());
  Node& node = layer.add(module, std::move(operators));
  if (gathers) node.reads(partial).writes(sum).reduce_scatter();
  return sum;
}

TensorId LayerBuilder::norm(const char* label, TensorId x, std::int64_t width, bool latent) {
  const double rows_of = own_tokens(), values_of = real(width);
  const NormKernel kernel = norm_kernel(*this, rows_of, values_of);
  const TensorShape shape{rows_of, values_of, stream_element};
  const TensorId y = tensor(label, shape);
  const TensorId statistics =
      layer.tensor("norm statistics", kernel.statistics, TensorRole::Statistic);
  const bool eager_rms =
      autograd() && model.norm == Norm::RmsNorm && !latent && composes_rms_norm(framework);
  Node& node = layer
                   .add(latent ? Module::Qkv : Module::Norm,
                        elementwise(OperatorKind::Norm, label, rows_of * values_of,
                                    norm_traffic(model.norm, framework, element)))
                   .reads(x)
                   .writes(y, statistics)
                   .saves(statistics)
                   .forward_workspace(kernel.forward)
                   .backward_workspace(kernel.backward);
  const auto save = [&](const char* name, double bytes) {
    const TensorId copy = layer.tensor(name, with_element(shape, bytes), TensorRole::Statistic);
    node.writes(copy).saves(copy);
  };
  if (!autocasts() && (eager_rms || (framework.norms_in_fp32 && !latent)))
    save("norm input in fp32", kFp32Bytes);
  else
    node.saves(x);
  if (eager_rms && !strategy.adapters) save("normalised input", stream_element);
  return y;
}

void LayerBuilder::activation(Module up, Module module, TensorId gate, TensorId values_of,
                              TensorId inner, LayerOperators operators) {
  TensorId kept = kNoTensor;
  const TensorShape shape = layer[values_of].shape;
  if (gate != kNoTensor && framework.saved.fp8_activation_inputs) {
    kept = layer.tensor("gate and up in fp8",
                        {shape.rows, 2.0 * shape.columns, shape.element / element},
                        TensorRole::Statistic);
    layer.add(up).reads(gate, values_of).writes(kept);
  }
  Node& node = layer.add(module, std::move(operators)).reads(gate, values_of).writes(inner);
  if (kept == kNoTensor)
    node.saves(gate, values_of);
  else
    node.saves(kept).backward_workspace(2.0 * shape.size());
}

}  // namespace llmsim::sim
