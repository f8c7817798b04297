#include "sim/operators/experts.h"

#include <algorithm>
#include <cmath>

#include "sim/model/parameters.h"
#include "sim/operators/traffic.h"

namespace llmsim::sim {
namespace {

constexpr double kIndicesPerRow = 3.0;

double real(std::int64_t count) { return static_cast<double>(count); }

class ExpertLowering {
 public:
  ExpertLowering(const Transformer& model, const Strategy& strategy, const Framework& framework,
                 const LinearContext& linear)
      : model_(model),
        moe_(*model.moe),
        weights_(layer_weights(model, LayerKind::Moe)),
        framework_(framework),
        linear_(linear),
        shape_(expert_shape(model, strategy, framework)),
        dispatch_(strategy.moe_dispatch),
        ranks_(strategy.ep),
        expert_tensor_(shape_.routes_shards ? strategy.expert_tensor_ranks() : 1),
        tensor_(strategy.tp),
        element_(size_of(activation_dtype(strategy.precision)).value()),
        expert_ranks_(strategy.expert_tensor_ranks()) {
    linear_.frozen = linear_.adapters.has_value();
    linear_.adapters.reset();
  }

  LayerOperators lower() {
    LayerBuilder layer;
    layer.add(router());
    layer.add(routed());
    return std::move(layer).build();
  }

 private:
  // Everything on rows, as many as the router sends.
  LayerOperators routed() {
    dispatch();
    if (shape_.shared_ffn > 0) shared_up();
    experts();
    give_back();
    if (shape_.shared_ffn > 0) shared_down();
    combine();
    LayerOperators rows = std::move(out_).build();
    for (OperatorList* pass : {&rows.forward, &rows.backward}) {
      for (Operator& op : *pass) op.ragged = true;
    }
    return rows;
  }

  // Rows that are sent, that have arrived from other ranks, and that experts work on.
  double sent_elements() const { return real(shape_.sent) * model_.hidden_size; }
  double row_elements() const { return real(shape_.rows) * model_.hidden_size; }
  double arrived_elements() const { return row_elements() / expert_tensor_; }
  double token_elements() const { return real(shape_.tokens) * model_.hidden_size; }
  std::int64_t shared_tokens() const {
    return shape_.routes_shards ? shape_.tokens * tensor_ : shape_.tokens;
  }
  bool exchanges() const { return ranks_ > 1; }
  bool deduplicates() const { return exchanges() && dispatch_ == ExpertDispatch::Deduplicated; }
  bool gathers() const { return exchanges() && dispatch_ == ExpertDispatch::AllGather; }

  // GEMMs outside the experts multiply in the activation format.
  LinearContext wide() const {
    LinearContext context = linear_;
    if (is_low_precision(matmul_dtype(context.precision))) context.precision = Precision::Bf16;
    return context;
  }

  LayerOperators router() const {
    const LayerWeight weight = weights_[WeightName::Router];
    const double probabilities = real(shape_.tokens * weight.columns);
    LayerBuilder router;
    router.add(Module::Router, lower_linear(wide(), weight, shape_.tokens));
    router.add(OperatorKind::Softmax, Module::Router, "router_choice", probabilities,
               router_traffic(framework_, element_));
    return std::move(router).build();
  }

  void dispatch() {
    if (gathers()) gather_tokens();
    permute("expert_dispatch", gathers() ? arrived_elements() : sent_elements());
    if (exchanges() && !gathers()) {
      out_.add_forward(Module::Dispatch,
                       collective("expert_counts", CollectiveKind::AllToAll, GroupKind::Expert,
                                  Bytes(kRowIndexBytes * moe_.num_experts)));
      exchange("expert_dispatch", dispatched_bytes());
    }
    if (expert_tensor_ > 1)
      conjugate("expert_gather", CollectiveKind::AllGather, CollectiveKind::ReduceScatter);
    if (exchanges() && !gathers()) sort_chunks("expert_sort");
  }

  // All tokens of the expert ranks, and on the way back the sum of what each rank has for them.
  Bytes gathered_tokens() const { return Bytes(token_elements() * ranks_ * element_); }
  void gather_tokens() {
    pair(Module::Dispatch, "expert_dispatch", CollectiveKind::AllGather,
         CollectiveKind::ReduceScatter, GroupKind::Expert, gathered_tokens());
  }
  void scatter_tokens() {
    pair(Module::Combine, "expert_combine", CollectiveKind::ReduceScatter,
         CollectiveKind::AllGather, GroupKind::Expert, gathered_tokens());
  }

  // A collective and that of the gradients.
  void pair(Module module, const char* label, CollectiveKind forward, CollectiveKind backward,
            GroupKind group, Bytes message) {
    out_.add_forward(module, collective(label, forward, group, message));
    out_.add_backward(module, collective(label, backward, group, message));
  }

  // Rows over the ranks that divide an expert.
  void conjugate(const char* label, CollectiveKind forward, CollectiveKind backward) {
    pair(Module::Dispatch, label, forward, backward, GroupKind::ExpertTensor,
         Bytes(row_elements() * element_));
  }

  void experts() {
    const LayerWeight up = weights_[WeightName::ExpertUp].on_rank(expert_ranks_);
    const LayerWeight down = weights_[WeightName::ExpertDown].on_rank(expert_ranks_);
    const ExpertRows group{.experts = shape_.experts,
                           .busy = shape_.busy_experts,
                           .rows = shape_.rows,
                           .rows_per_expert = shape_.rows_per_expert,
                           .one_kernel = framework_.experts.grouped_kernel};
    if (pads_rows()) move_rows(Module::ExpertUp, "expert_pad", row_elements());
    out_.add(Module::ExpertUp, lower_expert_linear(linear_, up, group));
    activate(Module::ExpertActivation, "expert_activation", real(shape_.rows * down.rows));
    expert_down(down, group);
    if (pads_rows()) move_rows(Module::ExpertDown, "expert_unpad", row_elements());
  }

  // Low-precision GEMMs want a multiple of rows for each expert; a kernel that deduplicates sends
  // them so.
  bool pads_rows() const {
    return framework_.experts.copies_to_pad && is_low_precision(matmul_dtype(linear_.precision)) &&
           !deduplicates();
  }

  // A GEMM whose result is weighted afterwards may have its bias in kernels of its own.
  void expert_down(LayerWeight down, const ExpertRows& group) {
    const bool one_by_one = down.biases > 0 && framework_.experts.biases_one_by_one;
    if (one_by_one) down.biases = 0;
    out_.add(Module::ExpertDown, lower_expert_linear(linear_, down, group));
    if (!one_by_one) return;
    const int experts = static_cast<int>(shape_.busy_experts);
    out_.add(OperatorKind::Residual, Module::ExpertDown, "expert_bias", row_elements(),
             weighted_bias_traffic(element_, experts));
  }

  void give_back() {
    if (exchanges() && !gathers()) sort_chunks("expert_unsort");
    if (expert_tensor_ > 1)
      conjugate("expert_scatter", CollectiveKind::ReduceScatter, CollectiveKind::AllGather);
    if (exchanges() && !gathers()) exchange("expert_combine", element_);
    permute("expert_return", gathers() ? arrived_elements() : sent_elements());
  }

  // By expert, and back by token; a kernel that deduplicates does it as it sends and receives.
  void permute(const char* label, double elements) {
    if (!deduplicates()) move_rows(Module::Dispatch, label, elements);
  }

  void combine() {
    const double rows = gathers() ? arrived_elements() : sent_elements();
    out_.add(OperatorKind::Residual, Module::Combine, "expert_combination", rows,
             combination_traffic(framework_, element_, moe_.top_k));
    if (gathers()) scatter_tokens();
    if (shape_.shared_ffn > 0)
      out_.add_forward(Module::Residual, memory_bound(OperatorKind::Residual, "shared_sum",
                                                      token_elements(), 3 * element_, 1));
  }

  // The tokens of all tensor ranks, which share out the width of shared experts.
  void share_tokens(Module module, const char* label, CollectiveKind forward,
                    CollectiveKind backward) {
    if (shape_.routes_shards)
      pair(module, label, forward, backward, GroupKind::Tensor,
           Bytes(token_elements() * tensor_ * element_));
  }

  void shared_up() {
    const LayerWeight up = weights_[WeightName::SharedUp].on_rank(tensor_);
    share_tokens(Module::SharedUp, "shared_input", CollectiveKind::AllGather,
                 CollectiveKind::ReduceScatter);
    out_.add(Module::SharedUp, lower_linear(linear_, up, shared_tokens()));
    activate(Module::SharedActivation, "shared_activation",
             real(shared_tokens() * weights_[WeightName::SharedDown].on_rank(tensor_).rows));
    if (moe_.shared_expert_gate)
      out_.add(Module::SharedUp,
               lower_linear(wide(), weights_[WeightName::SharedGate], shape_.tokens));
  }

  void shared_down() {
    const LayerWeight down = weights_[WeightName::SharedDown].on_rank(tensor_);
    out_.add(Module::SharedDown, lower_linear(linear_, down, shared_tokens()));
    share_tokens(Module::SharedDown, "shared_output", CollectiveKind::ReduceScatter,
                 CollectiveKind::AllGather);
    if (moe_.shared_expert_gate)
      out_.add_backward(Module::SharedDown, memory_bound(OperatorKind::Residual, "shared_gate",
                                                         token_elements(), 7 * element_, 4));
  }

  void activate(Module module, const char* label, double elements) {
    out_.add(OperatorKind::Activation, module, label, elements,
             activation_traffic(model_.gated_mlp, framework_, element_));
  }

  // `bytes` of an element on its way there; gradients come back in the activation format.
  void exchange(const char* label, double bytes) {
    const double elements = std::max(sent_elements(), arrived_elements());
    const auto rows = [&](double size) {
      return collective(label, CollectiveKind::AllToAll, GroupKind::Expert, Bytes(elements * size));
    };
    out_.add_forward(Module::Dispatch, rows(bytes));
    out_.add_backward(Module::Dispatch, rows(element_));
  }

  double dispatched_bytes() const {
    const bool low_precision = framework_.experts.dispatches_low_precision &&
                               is_low_precision(matmul_dtype(linear_.precision));
    return low_precision ? low_precision_bytes(framework_.low_precision, linear_.precision, false)
                         : element_;
  }

  // Rows arrive by rank, and are wanted by expert.
  void sort_chunks(const char* label) {
    if (shape_.experts == 1 || deduplicates()) return;
    move_rows(Module::Dispatch, label, row_elements());
  }

  void move_rows(Module module, const char* label, double elements) {
    out_.add(OperatorKind::Copy, module, label, elements, permutation_traffic(element_));
  }

  const Transformer& model_;
  const Moe& moe_;
  LayerWeights weights_;
  const Framework& framework_;
  LinearContext linear_;
  ExpertShape shape_;
  ExpertDispatch dispatch_;
  int ranks_;          // with different experts
  int expert_tensor_;  // among which arrived rows are gathered
  int tensor_;
  double element_;
  int expert_ranks_;  // that divide an expert
  LayerBuilder out_;
};

}  // namespace

bool routes_shards(const Strategy& strategy, const Framework& framework) {
  const bool divides = strategy.tp > 1 && strategy.sequence_parallel;
  return divides &&
         (framework.experts.routes_shards || strategy.expert_tensor_ranks() != strategy.tp);
}

ExpertShape expert_shape(const Transformer& model, const Strategy& strategy,
                         const Framework& framework) {
  const Moe& moe = *model.moe;
  ExpertShape shape;
  shape.routes_shards = routes_shards(strategy, framework);
  shape.tokens = static_cast<std::int64_t>(strategy.micro_batch) * model.seq_len / strategy.cp;
  if (shape.routes_shards) shape.tokens /= strategy.tp;
  shape.sent = shape.tokens * moe.top_k;
  shape.rows = shape.routes_shards ? shape.sent * strategy.expert_tensor_ranks() : shape.sent;
  const double busiest = std::min<double>(strategy.moe_imbalance, strategy.ep);
  const double load = strategy.moe_capacity.value_or(busiest);
  if (load != 1.0) shape.rows = static_cast<std::int64_t>(std::ceil(real(shape.rows) * load));
  shape.experts = moe.num_experts / strategy.ep;
  shape.busy_experts = std::min(shape.experts, shape.rows);
  shape.rows_per_expert = (shape.rows + shape.busy_experts - 1) / shape.busy_experts;
  shape.ffn = moe.expert_ffn_size / strategy.expert_tensor_ranks();
  shape.shared_ffn =
      static_cast<std::int64_t>(moe.num_shared_experts) * moe.shared_expert_ffn_size / strategy.tp;
  return shape;
}

LayerOperators lower_experts(const Transformer& model, const Strategy& strategy,
                             const Framework& framework, const LinearContext& linear) {
  return ExpertLowering(model, strategy, framework, linear).lower();
}

}  // namespace llmsim::sim
