#include "sim/operators/experts.h"

#include <algorithm>
#include <cmath>

#include "sim/operators/traffic.h"

namespace llmsim::sim {
namespace {

constexpr double kIndicesPerRow = 3.0;

double real(std::int64_t count) { return static_cast<double>(count); }

class ExpertLowering {
 public:
  ExpertLowering(const Transformer& model, const Strategy& strategy, const Framework& framework, const LinearContext& linear)
      : model_(model),
        moe_(*model.moe),
        framework_(framework),
        linear_(linear),
        shape_(expert_shape(model, strategy, framework)),
        dispatch_(strategy.moe_dispatch),
        ranks_(strategy.ep),
        expert_tensor_(shape_.routes_shards ? strategy.expert_tensor_ranks() : 1),
        tensor_(strategy.tp),
        element_(size_of(activation_dtype(strategy.precision)).value()),
        width_(model.gated_mlp ? 2 : 1) {
    linear_.frozen = linear_.adapters.has_value();
    linear_.adapters.reset();
  }

  ExpertOperators lower() {
    route();
    const std::size_t forward = out_.forward.size(), backward = out_.backward.size();
    dispatch();
    if (shape_.shared_ffn > 0) shared_up();
    experts();
    give_back();
    if (shape_.shared_ffn == 0 || !moe_.shared_expert_gate) out_.needed = out_.forward.size();
    if (shape_.shared_ffn > 0) shared_down();
    combine();
    mark_ragged(out_.forward, forward);
    mark_ragged(out_.backward, backward);
    const double ffn = real(shape_.rows * shape_.ffn), rows = row_elements();
    out_.gradients = Bytes((width_ * ffn + std::max(ffn, rows)) * element_);
    return std::move(out_);
  }

 private:
  // Rows that are sent, that have arrived from other ranks, and that experts work on.
  double sent_elements() const { return real(shape_.sent) * model_.hidden_size; }
  double row_elements() const { return real(shape_.rows) * model_.hidden_size; }
  double arrived_elements() const { return row_elements() / expert_tensor_; }
  double token_elements() const { return real(shape_.tokens) * model_.hidden_size; }
  std::int64_t shared_tokens() const { return shape_.routes_shards ? shape_.tokens * tensor_ : shape_.tokens; }
  bool exchanges() const { return ranks_ > 1; }
  bool deduplicates() const { return exchanges() && dispatch_ == ExpertDispatch::Deduplicated; }
  bool gathers() const { return exchanges() && dispatch_ == ExpertDispatch::AllGather; }
  Bytes input_of(double elements) const { return Bytes(elements * linear_input_bytes(linear_)); }

  // GEMMs outside the experts multiply in the activation format.
  LinearContext wide() const {
    LinearContext context = linear_;
    if (is_low_precision(matmul_dtype(context.precision))) context.precision = Precision::Bf16;
    return context;
  }

  static void mark_ragged(OperatorList& operators, std::size_t from) {
    for (std::size_t i = from; i < operators.size(); ++i) operators[i].ragged = true;
  }

  void route() {
    const std::int64_t experts = moe_.num_experts;
    add(lower_linear(wide(), "router", shape_.tokens, experts, model_.hidden_size), {experts}, false);
    if (moe_.router_bias) bias_gradient(shape_.tokens, real(experts));
    stream(OperatorKind::Softmax, "router_choice", real(shape_.tokens * experts), router_traffic(framework_, element_));
    const double kept = real(shape_.tokens * experts) * size_of(DType::Fp32).value() +
                        real(shape_.sent) * (element_ + kIndicesPerRow * kRowIndexBytes);
    keep(Bytes(kept));
  }

  void dispatch() {
    if (gathers()) gather_tokens();
    permute("expert_dispatch", gathers() ? arrived_elements() : sent_elements());
    if (exchanges() && !gathers()) {
      out_.forward.push_back(
          collective("expert_counts", CollectiveKind::AllToAll, GroupKind::Expert, Bytes(kRowIndexBytes * moe_.num_experts)));
      exchange("expert_dispatch", dispatched_bytes());
    }
    if (expert_tensor_ > 1) conjugate("expert_gather", CollectiveKind::AllGather, CollectiveKind::ReduceScatter);
    if (exchanges() && !gathers()) sort_chunks("expert_sort");
    out_.rows_saved = input_of(row_elements());
    keep(out_.rows_saved);
  }

  // All tokens of the expert ranks, and on the way back the sum of what each rank has for them.
  Bytes gathered_tokens() const { return Bytes(token_elements() * ranks_ * element_); }
  void gather_tokens() {
    out_.forward.push_back(collective("expert_dispatch", CollectiveKind::AllGather, GroupKind::Expert, gathered_tokens()));
    out_.backward.push_back(collective("expert_dispatch", CollectiveKind::ReduceScatter, GroupKind::Expert, gathered_tokens()));
  }
  void scatter_tokens() {
    out_.forward.push_back(collective("expert_combine", CollectiveKind::ReduceScatter, GroupKind::Expert, gathered_tokens()));
    out_.backward.push_back(collective("expert_combine", CollectiveKind::AllGather, GroupKind::Expert, gathered_tokens()));
  }

  // Rows over the ranks that divide an expert.
  void conjugate(const char* label, CollectiveKind forward, CollectiveKind backward) {
    const Bytes message(row_elements() * element_);
    out_.forward.push_back(collective(label, forward, GroupKind::ExpertTensor, message));
    out_.backward.push_back(collective(label, backward, GroupKind::ExpertTensor, message));
  }

  void experts() {
    const std::int64_t h = model_.hidden_size, f = shape_.ffn;
    const ExpertRows group{.experts = shape_.experts,
                           .busy = shape_.busy_experts,
                           .rows = shape_.rows,
                           .rows_per_expert = shape_.rows_per_expert,
                           .one_kernel = framework_.experts.grouped_kernel};
    if (pads_rows()) stream(OperatorKind::Copy, "expert_pad", row_elements(), permutation_traffic(element_));
    add(lower_expert_linear(linear_, "expert_up", group, width_ * f, h), {f, model_.gated_mlp ? f : 0}, false);
    if (moe_.expert_bias) bias_gradient(shape_.rows, real(width_ * f));
    activate("expert_activation", real(shape_.rows * f));
    out_.activations.back().of_experts = true;
    out_.activation_input = Bytes(width_ * real(shape_.rows * f) * element_);
    if (keeps_unweighted()) keep_activation(Bytes(real(shape_.rows * f) * element_));
    add(lower_expert_linear(linear_, "expert_down", group, h, f), {h}, false);
    if (moe_.expert_bias) last_bias();
    if (pads_rows()) stream(OperatorKind::Copy, "expert_unpad", row_elements(), permutation_traffic(element_));
  }

  // Low-precision GEMMs want a multiple of rows for each expert; a kernel that deduplicates sends them so.
  bool pads_rows() const {
    return framework_.experts.copies_to_pad && is_low_precision(matmul_dtype(linear_.precision)) && !deduplicates();
  }

  // A GEMM whose result is weighted afterwards has its bias in its own kernel.
  void last_bias() {
    if (!framework_.experts.biases_one_by_one) return bias_gradient(shape_.rows, real(model_.hidden_size));
    const int experts = static_cast<int>(shape_.busy_experts);
    stream(OperatorKind::Residual, "expert_bias", row_elements(), weighted_bias_traffic(element_, experts));
  }

  void give_back() {
    if (exchanges() && !gathers()) sort_chunks("expert_unsort");
    if (expert_tensor_ > 1) conjugate("expert_scatter", CollectiveKind::ReduceScatter, CollectiveKind::AllGather);
    if (exchanges() && !gathers()) exchange("expert_combine", element_);
    permute("expert_return", gathers() ? arrived_elements() : sent_elements());
    if (!framework_.kept.weighted_in_experts) keep(Bytes((gathers() ? arrived_elements() : sent_elements()) * element_));
  }

  // By expert, and back by token; a kernel that deduplicates does it as it sends and receives.
  void permute(const char* label, double elements) {
    if (!deduplicates()) stream(OperatorKind::Copy, label, elements, permutation_traffic(element_));
  }

  void combine() {
    const double rows = gathers() ? arrived_elements() : sent_elements();
    stream(OperatorKind::Residual, "expert_combination", rows, combination_traffic(framework_, element_, moe_.top_k));
    if (gathers()) scatter_tokens();
    if (shape_.shared_ffn > 0) {
      out_.forward.push_back(streaming(OperatorKind::Residual, "shared_sum", token_elements(), 3 * element_, 1));
    }
  }

  // The tokens of all tensor ranks, which share out the width of shared experts.
  void share_tokens(const char* label, CollectiveKind forward, CollectiveKind backward) {
    if (!shape_.routes_shards) return;
    const Bytes message(token_elements() * tensor_ * element_);
    out_.forward.push_back(collective(label, forward, GroupKind::Tensor, message));
    out_.backward.push_back(collective(label, backward, GroupKind::Tensor, message));
  }

  void shared_up() {
    const std::int64_t h = model_.hidden_size, f = shape_.shared_ffn, tokens = shared_tokens();
    const std::size_t first = out_.forward.size();
    share_tokens("shared_input", CollectiveKind::AllGather, CollectiveKind::ReduceScatter);
    add(lower_linear(linear_, "shared_up", tokens, width_ * f, h), {f, model_.gated_mlp ? f : 0}, false);
    if (model_.bias.mlp) bias_gradient(tokens, real(width_ * f));
    activate("shared_activation", real(tokens * f));
    if (moe_.shared_expert_gate) add(lower_linear(wide(), "shared_gate", shape_.tokens, 1, h), {1}, false);
    note_shared(out_.shared_up, first);
  }

  void shared_down() {
    const std::int64_t h = model_.hidden_size;
    const std::size_t first = out_.forward.size();
    add(lower_linear(linear_, "shared_down", shared_tokens(), h, shape_.shared_ffn), {h}, true);
    share_tokens("shared_output", CollectiveKind::ReduceScatter, CollectiveKind::AllGather);
    if (moe_.shared_expert_gate) {
      keep(Bytes((token_elements() + real(shape_.tokens)) * element_));
      out_.needed = out_.forward.size();
      out_.backward.push_back(streaming(OperatorKind::Residual, "shared_gate", token_elements(), 7 * element_, 4));
    }
    if (model_.bias.mlp) bias_gradient(shape_.tokens, real(h));
    note_shared(out_.shared_down, first);
  }

  void note_shared(OperatorRange& range, std::size_t first) {
    range = {first, out_.forward.size()};
    for (std::size_t i = first; i < range.last; ++i) out_.shared_saved += out_.forward[i].saved;
  }

  // The inputs of the activation are the inner state; its output feeds the next GEMM.
  void activate(const char* label, double elements) {
    keep(Bytes(width_ * elements * element_));
    out_.activations.push_back({.place = out_.forward.size()});
    stream(OperatorKind::Activation, label, elements, activation_traffic(model_.gated_mlp, framework_, element_));
    Bytes kept = input_of(elements);
    if (model_.gated_mlp && framework_.fusion == ElementwiseFusion::Eager) kept += Bytes(elements * element_);  // silu(gate)
    keep_activation(kept);
  }

  // The weights' gradient needs what they multiply; a fused gate makes it again from its inputs.
  bool keeps_unweighted() const {
    return framework_.kept.weighted_in_experts && !(model_.gated_mlp && framework_.fusion != ElementwiseFusion::Eager);
  }

  void keep_activation(Bytes size) {
    out_.forward.back().saved += size;
    out_.activations.back().saved += size;
  }

  // `bytes` of an element on its way there; gradients come back in the activation format.
  void exchange(const char* label, double bytes) {
    const double elements = std::max(sent_elements(), arrived_elements());
    out_.forward.push_back(collective(label, CollectiveKind::AllToAll, GroupKind::Expert, Bytes(elements * bytes)));
    out_.backward.push_back(collective(label, CollectiveKind::AllToAll, GroupKind::Expert, Bytes(elements * element_)));
  }

  double dispatched_bytes() const {
    const bool low_precision = framework_.experts.dispatches_low_precision && is_low_precision(matmul_dtype(linear_.precision));
    return low_precision ? low_precision_bytes(framework_.low_precision, linear_.precision, false) : element_;
  }

  // Rows arrive by rank, and are wanted by expert.
  void sort_chunks(const char* label) {
    if (shape_.experts == 1 || deduplicates()) return;
    stream(OperatorKind::Copy, label, row_elements(), permutation_traffic(element_));
  }

  void bias_gradient(std::int64_t tokens, double width) {
    if (framework_.gradients.fused_bias || linear_.frozen) return;
    out_.backward.push_back(streaming(OperatorKind::Residual, "bias_gradient", real(tokens) * width, element_, 1));
  }

  void stream(OperatorKind kind, const char* label, double elements, const Traffic& traffic) {
    out_.forward.push_back(streaming(kind, label, elements, traffic.forward_bytes, traffic.forward_kernels));
    out_.backward.push_back(streaming(kind, label, elements, traffic.backward_bytes, traffic.backward_kernels));
  }

  void add(const LinearOperators& linear, const BlockGemm::Widths& parts, bool row_parallel) {
    const auto own = std::find_if(linear.forward.begin(), linear.forward.end(),
                                  [](const Operator& op) { return op.kind == OperatorKind::Gemm; });
    const std::size_t place = out_.forward.size() + static_cast<std::size_t>(own - linear.forward.begin());
    out_.gemms.push_back({.gemm = place, .parts = parts, .row_parallel = row_parallel});
    out_.forward.insert(out_.forward.end(), linear.forward.begin(), linear.forward.end());
    out_.backward.insert(out_.backward.end(), linear.backward.begin(), linear.backward.end());
  }

  void keep(Bytes size) {
    out_.forward.back().saved += size;
    out_.inner_saved += size;
  }

  const Transformer& model_;
  const Moe& moe_;
  const Framework& framework_;
  LinearContext linear_;
  ExpertShape shape_;
  ExpertDispatch dispatch_;
  int ranks_;          // with different experts
  int expert_tensor_;  // among which arrived rows are gathered
  int tensor_;
  double element_;
  int width_;
  ExpertOperators out_;
};

}  // namespace

bool routes_shards(const Strategy& strategy, const Framework& framework) {
  const bool divides = strategy.tp > 1 && strategy.sequence_parallel;
  return divides && (framework.experts.routes_shards || strategy.expert_tensor_ranks() != strategy.tp);
}

ExpertShape expert_shape(const Transformer& model, const Strategy& strategy, const Framework& framework) {
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
  shape.shared_ffn = static_cast<std::int64_t>(moe.num_shared_experts) * moe.shared_expert_ffn_size / strategy.tp;
  return shape;
}

ExpertOperators lower_experts(const Transformer& model, const Strategy& strategy, const Framework& framework,
                              const LinearContext& linear) {
  return ExpertLowering(model, strategy, framework, linear).lower();
}

}  // namespace llmsim::sim
