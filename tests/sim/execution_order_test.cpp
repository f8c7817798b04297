// The order of a pass's operators: both passes as they run.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/model/layer_kinds.h"
#include "sim/operators/block.h"
#include "sim/operators/embedding_and_head.h"
#include "tests/catalogue.h"
#include "tests/sim/model_names.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

using Labels = std::vector<std::string>;

// "qkv", or "qkv'" for the GEMM of its weight gradient.
Labels labels_of(const OperatorList& operators) {
  Labels labels;
  for (const Operator& op : operators)
    labels.push_back(std::string(op.label) + (op.weight_gradient ? "'" : ""));
  return labels;
}

LayerOperators block_of(const TrainingRun& run, LayerKind kind = LayerKind::Dense) {
  return lower_block(run.model, run.strategy, run.framework, RecomputeKind::None, kind);
}

TEST(ExecutionOrder, PartsRunBackwardInTheOppositeOrderEachInItsOwn) {
  const auto part = [](const char* forward, const char* first, const char* second) {
    LayerOperators operators;
    operators.forward = {memory_bound(OperatorKind::Copy, forward, 1.0, 1.0, 1)};
    operators.backward = {memory_bound(OperatorKind::Copy, first, 1.0, 1.0, 1),
                          memory_bound(OperatorKind::Copy, second, 1.0, 1.0, 1)};
    return operators;
  };
  LayerGraph layer;
  layer.add(Module::Norm, part("a", "a1", "a2"));
  layer.add_backward(Module::Norm, memory_bound(OperatorKind::Copy, "between", 1.0, 1.0, 1));
  layer.add(Module::Qkv, part("b", "b1", "b2"));
  layer.finish();
  EXPECT_EQ(labels_of(layer.forward), (Labels{"a", "b"}));
  EXPECT_EQ(labels_of(layer.backward), (Labels{"b1", "b2", "between", "a1", "a2"}));
  EXPECT_EQ(layer.backward.front().module, Module::Qkv);
}

// Megatron-LM's linear layers: the input is gathered again beside the data gradient's GEMM, whose
// sum over tensor ranks travels beside the weight gradient's.
TEST(ExecutionOrder, ABlockOfTensorRanksCommunicatesAroundItsDataGradients) {
  TrainingRun run = small_run(4);
  run.strategy.dp = 1, run.strategy.tp = 4, run.strategy.sequence_parallel = true;
  const LayerOperators block = block_of(run);
  EXPECT_EQ(labels_of(block.forward),
            (Labels{"attention_norm", "column_input", "qkv", "attention", "attention_output",
                    "row_output", "attention_residual", "mlp_norm", "column_input", "mlp_up",
                    "activation", "mlp_down", "row_output", "mlp_residual"}));
  EXPECT_EQ(labels_of(block.backward), (Labels{"mlp_residual",
                                               "row_gradient",
                                               "mlp_down",
                                               "mlp_down'",
                                               "activation",
                                               "column_input_again",
                                               "mlp_up",
                                               "column_gradient",
                                               "mlp_up'",
                                               "mlp_norm",
                                               "attention_residual",
                                               "row_gradient",
                                               "attention_output",
                                               "attention_output'",
                                               "attention_backward",
                                               "column_input_again",
                                               "qkv",
                                               "column_gradient",
                                               "qkv'",
                                               "attention_norm"}));
}

TEST(ExecutionOrder, UnfusedAttentionReturnsFromItsOutputToItsScores) {
  TrainingRun run = small_run();
  run.strategy.flash_attention = false;
  const Labels backward = labels_of(block_of(run).backward);
  const Labels core{"attention_values_dgrad",   "attention_values_wgrad",   "softmax",
                    "attention_scores_dgrad_q", "attention_scores_dgrad_k", "qkv"};
  EXPECT_NE(std::search(backward.begin(), backward.end(), core.begin(), core.end()),
            backward.end());
}

TEST(ExecutionOrder, TheLossComesBeforeTheHeadAndTheHeadBeforeItsNorm) {
  TrainingRun run = small_run(4);
  run.strategy.dp = 1, run.strategy.tp = 4, run.strategy.sequence_parallel = true;
  EXPECT_EQ(labels_of(lower_head(run.model, run.strategy, run.framework).backward),
            (Labels{"cross_entropy", "head_input_again", "head", "head_gradient", "head'",
                    "final_norm"}));
}

// Casts of low-precision formats stand where they are needed, scales where they are applied.
TEST(ExecutionOrder, CastsStandAroundTheirGemms) {
  TrainingRun run = small_run();
  run.strategy.precision = Precision::Fp8;
  run.framework.low_precision.scaling = LowPrecisionScaling::Rowwise;
  const Labels backward = labels_of(block_of(run).backward);
  const Labels down{"quantise_gradient", "mlp_down",     "scale_output",
                    "mlp_down'",         "scale_output", "activation"};
  EXPECT_NE(std::search(backward.begin(), backward.end(), down.begin(), down.end()),
            backward.end());
}

class EveryLayer : public testing::TestWithParam<NamedModel> {};

// Data gradients in the opposite order of the forward GEMMs, each before the weight gradient of its
// layer; of an indexer, whose inputs are detached, there are weight gradients alone.
TEST_P(EveryLayer, ReturnsThroughItsGemmsInTheOppositeOrder) {
  const Transformer& model = GetParam().model;
  for (const int tp : {1, 2}) {
    Strategy strategy;
    strategy.tp = tp, strategy.sequence_parallel = tp > 1;
    for (const LayerKind kind : layer_kinds(model)) {
      const LayerOperators block =
          lower_block(model, strategy, Framework(), RecomputeKind::None, kind);
      Labels there, back, weights;
      const auto is_linear = [](const Operator& op) {
        return op.kind == OperatorKind::Gemm && op.module != Module::CoreAttention &&
               !std::string_view(op.label).starts_with("index_");
      };
      for (const Operator& op : block.forward)
        if (is_linear(op)) there.emplace_back(op.label);
      for (const Operator& op : block.backward) {
        if (!is_linear(op)) continue;
        (op.weight_gradient ? weights : back).emplace_back(op.label);
        EXPECT_EQ(weights.size(), back.size() - (op.weight_gradient ? 0 : 1)) << op.label;
      }
      std::reverse(there.begin(), there.end());
      EXPECT_EQ(back, there);
      EXPECT_EQ(weights, there);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Catalogue, EveryLayer,
                         testing::ValuesIn(catalogue().begin(), catalogue().end()), model_name);

}  // namespace
}  // namespace llmsim::sim
