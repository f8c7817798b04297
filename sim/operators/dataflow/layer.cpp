#include "sim/operators/dataflow/layer.h"

#include "sim/operators/block_recompute.h"

namespace llmsim::sim {

LayerDataflow::LayerDataflow(const Transformer& model, const Strategy& strategy,
                             const Framework& framework)
    : element(size_of(activation_dtype(strategy.precision)).value()),
      tokens(static_cast<double>(static_cast<std::int64_t>(strategy.micro_batch) * model.seq_len /
                                 strategy.cp)),
      ranks(strategy.tp),
      gathers(strategy.sequence_parallel && strategy.tp > 1),
      model_(model),
      strategy_(strategy),
      framework_(framework),
      linear_{.precision = strategy.precision,
              .framework = &framework,
              .adapters = strategy.adapters,
              .frozen = false},
      stream_element_(runs_autocast(framework, strategy) ? std::max(element, kFp32Bytes) : element),
      repeated_(strategy.recompute.kind == RecomputeKind::Selective
                    ? repeated_modules(strategy.recompute.modules, model, model.moe.has_value())
                    : ModuleSet{}) {}

void LayerDataflow::save_extra(Module module, Bytes size) {
  if (size <= Bytes(0.0)) return;
  const Tensor extra = flow.add(size, Role::Statistic);
  flow.step(module).writes(extra).saves(extra);
}

void LayerDataflow::save_adapter_dropout(double elements) {
  if (framework_.saved.adapter_dropout > 0.0)
    save_extra(Module::Residual, Bytes(elements * (element + 1.0)));
}

Bytes LayerDataflow::weight_gradient_workspace(Module module, const LayerWeight& weight) const {
  const bool of_unit = framework_.sharded.gradients_of_units;
  if (of_unit && module != Module::Head) return Bytes(0.0);
  const double columns = static_cast<double>(weight.columns),
               bias = weight.biases > 0 ? columns : 0.0;
  const double gradient = framework_.storage.gradient_bytes;
  const bool cast = gradient > element && !framework_.gradients.accumulated_by_gemm &&
                    !strategy_.adapters && (!of_unit || framework_.gradients.reduced_in_fp32);
  const bool made_separately =
      autograd() && !framework_.gradients.accumulated_by_gemm && !strategy_.adapters;
  const double of_weights = static_cast<double>(weight.rows) * columns *
                            ((cast || made_separately ? element : 0.0) + (cast ? gradient : 0.0));
  const double of_bias =
      framework_.gradients.fused_bias ? 0.0 : bias * (element + (cast ? gradient : 0.0));
  return Bytes(std::max(of_weights, of_bias));
}

// Queries, keys and values are one in models of the GPT kind and where a framework joins them, as
// gate and values are nowhere that autocast runs.
double LayerDataflow::matrices(Module module) const {
  if (module == Module::Qkv && model_.gated_mlp && !framework_.saved.fused_qkv) return 3.0;
  return module == Module::MlpUp && model_.gated_mlp ? 2.0 : 1.0;
}

// What a GEMM saves of x.  A copy in the low-precision format is a kernel of its own, which a policy
// that knows GEMMs does not keep.
LayerDataflow::Tensor LayerDataflow::saved_input(Module module, Tensor x) {
  const double bytes = linear_input_bytes(linear_);
  const std::optional<Module> writer = flow.writer(x);
  if (bytes == element || (writer && (*writer == Module::CoreAttention || repeated_.has(*writer))))
    return x;
  if (copied_ == x) return copy_;
  copied_ = x, copy_ = flow.add(bytes / element * size(x), Role::Statistic);
  flow.step(module).reads(x).writes(copy_);
  return copy_;
}

// Under autocast a norm's output, or a block's input, is copied for each matrix that multiplies it.
bool LayerDataflow::is_copied_by_autocast(Tensor x) const {
  const std::optional<Module> writer = flow.writer(x);
  return autocasts() && (!writer || *writer == Module::Norm);
}

Dataflow::Step& LayerDataflow::gemm(Module module, Tensor x, std::initializer_list<Tensor> y,
                                    const LayerWeight& weight, Tensor saved, Bytes again) {
  const bool copies = saved != Dataflow::kNone && is_copied_by_autocast(saved);
  const Tensor kept = saved == Dataflow::kNone || copies ? saved : saved_input(module, saved);
  Dataflow::Step& step = flow.step(module).reads(x).gemm(counted_by_policy());
  for (const Tensor output : y) step.writes(output);
  if (copies) {
    const double values = size(saved).value() / stream_element_;
    const Tensor copy =
        add(matrices(module) * linear_input_bytes(linear_) * values, Role::Statistic);
    step.writes(copy).saves(copy);
  } else if (kept != Dataflow::kNone) {
    step.saves(kept);
  }
  return step.backward_workspace(again + weight_gradient_workspace(module, weight));
}

void LayerDataflow::column_gemm(Module module, Tensor x, std::initializer_list<Tensor> y,
                                const LayerWeight& weight, bool saves_input) {
  Tensor input = x;
  if (gathers) {
    input = flow.add(ranks * size(x));
    flow.step(module).reads(x).writes(input);
  }
  const Bytes again = gathers && saves_input ? ranks * size(x) : Bytes(0.0);
  gemm(module, input, y, weight, saves_input ? x : Dataflow::kNone, again);
}

LayerDataflow::Tensor LayerDataflow::own_gemm(Module module, Tensor x, const LayerWeight& weight) {
  const Tensor y = add(own_tokens() * static_cast<double>(weight.columns) * element);
  gemm(module, x, {y}, weight, x);
  return y;
}

LayerDataflow::Tensor LayerDataflow::row_gemm(Module module, Tensor x, const LayerWeight& weight,
                                              bool saves_input, bool reduces) {
  const Tensor partial = flow.add(whole_residual());
  gemm(module, x, {partial}, weight, saves_input ? x : Dataflow::kNone).row_parallel();
  return reduces ? reduce(module, partial) : partial;
}

void LayerDataflow::activation(Module up, Module module, Tensor gate, Tensor values, Tensor inner) {
  Tensor kept = Dataflow::kNone;
  if (gate != Dataflow::kNone && framework_.saved.fp8_activation_inputs) {
    kept = add(2.0 * size(values).value() / element, Role::Statistic);
    flow.step(up).reads(gate).reads(values).writes(kept);
  }
  Dataflow::Step& step = flow.step(module).reads(gate).reads(values).writes(inner);
  if (kept == Dataflow::kNone) {
    step.saves(gate).saves(values);
  } else {
    step.saves(kept).backward_workspace(2.0 * size(values));
  }
}

LayerDataflow::Tensor LayerDataflow::reduce(Module module, Tensor partial) {
  if (!gathers) return partial;
  const Tensor sum = flow.add(residual());
  flow.step(module).reads(partial).writes(sum).reduce_scatter();
  return sum;
}

namespace {

// Statistics and workspaces of a norm's kernels over `rows` rows of `width` values.
struct NormKernel {
  Bytes statistics{}, forward{}, backward{};
};

// PyTorch's layer_norm is one kernel.  An RMSNorm of its elementwise operators works on fp32 copies
// (runtime/kernels/norm.cpp).
NormKernel norm_kernel(const LayerDataflow& layer, double rows, double width) {
  const Transformer& model = layer.model();
  const double e = layer.stream_element(),
               gradient = std::max(e, layer.framework().storage.gradient_bytes);
  const bool weight = model.norm_weight, bias = weight && model.bias.norm;
  if (model.norm == Norm::LayerNorm) {
    const double parameters = (weight ? 3.0 : 0.0) + (bias ? 1.0 : 0.0);
    return {.statistics = Bytes(2.0 * rows * e), .backward = Bytes(parameters * width * e)};
  }
  const double high = rows * width * kFp32Bytes, sums = rows * kFp32Bytes,
               output = rows * width * e;
  if (!composes_rms_norm(layer.framework())) return {.statistics = Bytes(sums)};
  const double scale = weight && e < kFp32Bytes ? width * kFp32Bytes : 0.0;
  const double weights =
      weight ? width * (kFp32Bytes + (gradient < kFp32Bytes ? gradient : 0.0)) : 0.0;
  const double first = 2.0 * high + std::max(weights, scale + sums);
  const double last = e < kFp32Bytes ? high + scale + sums + output : 0.0;
  return {.statistics = Bytes(sums),
          .forward = Bytes(e < kFp32Bytes ? high : 0.0),
          .backward = Bytes(std::max(first, last) - output)};
}

}  // namespace

Dataflow::Tensor add_norm(LayerDataflow& layer, Dataflow::Tensor x, std::optional<double> width) {
  using Role = Dataflow::Role;
  const double rows = layer.own_tokens(), values = width.value_or(layer.model().hidden_size);
  const NormKernel kernel = norm_kernel(layer, rows, values);
  const Dataflow::Tensor y = layer.add(rows * values * layer.stream_element());
  const Dataflow::Tensor statistics = layer.flow.add(kernel.statistics, Role::Statistic);
  Dataflow::Step& step = layer.flow.step(width ? Module::Qkv : Module::Norm)
                             .reads(x)
                             .writes(y)
                             .writes(statistics)
                             .saves(statistics);
  step.forward_workspace(kernel.forward).backward_workspace(kernel.backward);
  const bool eager_rms = layer.autograd() && layer.model().norm == Norm::RmsNorm && !width &&
                         composes_rms_norm(layer.framework());
  const auto save = [&](double bytes) {
    const Dataflow::Tensor copy = layer.add(rows * values * bytes, Role::Statistic);
    step.writes(copy).saves(copy);
  };
  if (!layer.autocasts() && (eager_rms || (layer.framework().norms_in_fp32 && !width)))
    save(kFp32Bytes);
  else
    step.saves(x);
  if (eager_rms && !layer.strategy().adapters) save(layer.stream_element());
  return y;
}

}  // namespace llmsim::sim
