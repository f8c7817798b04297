#include "sim/operators/encoder_head.h"

#include <algorithm>
#include <cmath>

#include "sim/operators/linear.h"
#include "sim/operators/traffic.h"

namespace llmsim::sim {
namespace {

class EncoderHeadLowering {
 public:
  EncoderHeadLowering(const Transformer& model, const Strategy& strategy,
                      const Framework& framework, std::int64_t tokens)
      : model_(model),
        strategy_(strategy),
        framework_(framework),
        tokens_(tokens),
        predicted_(predicted_of(model, tokens)),
        element_(size_of(activation_dtype(strategy.precision)).value()) {
    linear_.precision = strategy.precision;
    linear_.framework = &framework_;
    linear_.frozen = strategy.adapters.has_value();
  }

  LayerOperators lower() {
    pick_rows();
    gemm("head_transform", predicted_, model_.hidden_size);
    stream(OperatorKind::Activation, "head_activation", predicted_,
           activation_traffic(false, framework_, element_));
    stream(OperatorKind::Norm, "head_norm", predicted_,
           norm_traffic(model_.norm, framework_, element_));
    if (model_.encoder->next_sentence) classify_sentences();
    return std::move(head_);
  }

 private:
  // Backward the rows go back into zeros of the whole stream.
  void pick_rows() {
    head_.forward.push_back(memory_bound(OperatorKind::Copy, "predicted_tokens",
                                         elements(predicted_), 2 * element_, 1));
    Operator scatter =
        memory_bound(OperatorKind::Copy, "predicted_tokens", elements(predicted_), 2 * element_, 2);
    scatter.moved += Bytes(elements(tokens_) * element_);
    head_.backward.push_back(scatter);
  }

  void classify_sentences() {
    const std::int64_t sequences = strategy_.micro_batch;
    gemm("pooler", sequences, model_.hidden_size);
    stream(OperatorKind::Activation, "pooler_activation", sequences,
           activation_traffic(false, framework_, element_));
    gemm("next_sentence", sequences, kSentenceClasses);
  }

  void gemm(const char* label, std::int64_t rows, std::int64_t out) {
    head_.add(lower_linear(linear_, label, rows, out, model_.hidden_size));
  }

  void stream(OperatorKind kind, const char* label, std::int64_t rows, const Traffic& traffic) {
    head_.add(kind, Module::Head, label, elements(rows), traffic);
  }

  double elements(std::int64_t rows) const {
    return static_cast<double>(rows) * model_.hidden_size;
  }

  static constexpr std::int64_t kSentenceClasses = 2;  // follows, or does not

  const Transformer& model_;
  const Strategy& strategy_;
  const Framework& framework_;
  std::int64_t tokens_;
  std::int64_t predicted_;
  double element_;
  LinearContext linear_;
  LayerOperators head_;
};

}  // namespace

std::int64_t predicted_of(const Transformer& model, std::int64_t tokens) {
  return std::max<std::int64_t>(1,
                                std::llround(predicted_share(model) * static_cast<double>(tokens)));
}

LayerOperators lower_encoder_head(const Transformer& model, const Strategy& strategy,
                                  const Framework& framework, std::int64_t tokens) {
  return EncoderHeadLowering(model, strategy, framework, tokens).lower();
}

}  // namespace llmsim::sim
