#include "sim/model/parameters.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "sim/model/layer_kinds.h"
#include "sim/operators/block.h"
#include "tests/catalogue.h"
#include "tests/sim/model_names.h"

namespace llmsim::sim {
namespace {

const Transformer& model(const char* name) { return find_model(name)->model; }

struct Row {
  WeightName name;
  std::int64_t rows, columns, bias, replicated;
  int count = 1;
};

void expect_rows(const LayerWeights& weights, const std::vector<Row>& rows) {
  ASSERT_EQ(weights.end() - weights.begin(), static_cast<std::ptrdiff_t>(rows.size()));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const LayerWeight& weight = weights.begin()[i];
    EXPECT_EQ(weight.name, rows[i].name) << name_of(weight.name);
    EXPECT_EQ(weight.rows, rows[i].rows) << name_of(weight.name);
    EXPECT_EQ(weight.columns, rows[i].columns) << name_of(weight.name);
    EXPECT_EQ(weight.bias_parameters(), rows[i].bias) << name_of(weight.name);
    EXPECT_EQ(weight.replicated(), rows[i].replicated) << name_of(weight.name);
    EXPECT_EQ(weight.count, rows[i].count) << name_of(weight.name);
  }
}

// 12 heads of 64 in a width of 768, all biases: 12 h^2 + 13 h.
TEST(LayerWeights, OfGpt2) {
  const LayerWeights weights = layer_weights(model("gpt2"), LayerKind::Dense);
  expect_rows(weights, {{WeightName::AttentionNorm, 0, 768, 768, 1536},
                        {WeightName::Qkv, 768, 2304, 2304, 0},
                        {WeightName::AttentionOutput, 768, 768, 768, 768},
                        {WeightName::MlpNorm, 0, 768, 768, 1536},
                        {WeightName::MlpUp, 768, 3072, 3072, 0},
                        {WeightName::MlpDown, 3072, 768, 768, 768}});
  std::int64_t total = 0;
  for (const LayerWeight& weight : weights) total += weight.parameters();
  EXPECT_EQ(total, 12 * 768 * 768 + 13 * 768);
}

// 64 heads and 8 key/value heads of 128, gate and up side by side.
TEST(LayerWeights, OfLlama70b) {
  const LayerWeights weights = layer_weights(model("llama-3-70b"), LayerKind::Dense);
  expect_rows(weights, {{WeightName::AttentionNorm, 0, 8192, 0, 8192},
                        {WeightName::Qkv, 8192, 10240, 0, 0},
                        {WeightName::AttentionOutput, 8192, 8192, 0, 0},
                        {WeightName::MlpNorm, 0, 8192, 0, 8192},
                        {WeightName::MlpUp, 8192, 57344, 0, 0},
                        {WeightName::MlpDown, 28672, 8192, 0, 0}});
  EXPECT_EQ(weights[WeightName::MlpUp].side_by_side, 2);
  EXPECT_EQ(weights[WeightName::MlpDown].on_rank(4).rows, 7168);
  EXPECT_EQ(weights[WeightName::Router].columns, 0);  // it has none
}

// 128 heads of 128 + 64 and values of 128, bottlenecks of 1536 and 512; 8 of 256 experts of 2048,
// one shared.
TEST(LayerWeights, OfAnMoeLayerOfDeepSeekV3) {
  const LayerWeights weights = layer_weights(model("deepseek-v3"), LayerKind::Moe);
  expect_rows(weights, {{WeightName::AttentionNorm, 0, 7168, 0, 7168},
                        {WeightName::QueryDown, 7168, 1536, 0, 7168 * 1536},
                        {WeightName::QueryNorm, 0, 1536, 0, 1536},
                        {WeightName::MlaDown, 7168, 576, 0, 7168 * 576},
                        {WeightName::MlaNorm, 0, 512, 0, 512},
                        {WeightName::QueryUp, 1536, 24576, 0, 0},
                        {WeightName::MlaUp, 512, 32768, 0, 0},
                        {WeightName::AttentionOutput, 16384, 7168, 0, 0},
                        {WeightName::MlpNorm, 0, 7168, 0, 7168},
                        {WeightName::Router, 7168, 256, 256, 7168 * 256 + 256},
                        {WeightName::SharedUp, 7168, 4096, 0, 0},
                        {WeightName::SharedDown, 2048, 7168, 0, 0},
                        {WeightName::ExpertUp, 7168, 4096, 0, 0, 256},
                        {WeightName::ExpertDown, 2048, 7168, 0, 0, 256}});
  EXPECT_TRUE(weights[WeightName::Router].partial);
  EXPECT_EQ(weights[WeightName::ExpertDown].multiplied(), 8 * 2048 * 7168);
}

// With 16 tensor ranks two have the same of 8 key/value heads: 64 / 16 + 2 heads of 128.
TEST(LayerWeights, EveryTensorRankHasAKeyValueHead) {
  const Transformer& llama = model("llama-3-70b");
  EXPECT_EQ(layer_weights(llama, LayerKind::Dense, 16)[WeightName::Qkv].on_rank(16).columns,
            6 * 128);
  EXPECT_EQ(layer_weights(llama, LayerKind::Dense, 4)[WeightName::Qkv].on_rank(4).columns,
            (16 + 2 * 2) * 128);
}

class EveryModel : public testing::TestWithParam<NamedModel> {};

TEST_P(EveryModel, HasThePublishedSumOfItsWeights) {
  const NamedModel& entry = GetParam();
  const Transformer& m = entry.model;
  const Parameters ends = embedding_and_head_parameters(m);
  std::int64_t total = ends.embedding + ends.positions + ends.norms + ends.head;
  for (int layer = 0; layer < m.num_layers; ++layer) {
    for (const LayerWeight& weight : layer_weights(m, kind_of_layer(m, layer)))
      total += weight.parameters();
  }
  if (entry.published_parameters && m.mtp_layers == 0) {
    EXPECT_EQ(total, *entry.published_parameters);
  }
}

// GEMMs of a sequence, but those of attention: 2 FLOP forward for each value and token, 4 backward,
// or 2 where the inputs are detached, as an indexer's are.
TEST_P(EveryModel, MultipliesEachTokenWithItsWeights) {
  const Transformer& m = GetParam().model;
  for (const LayerKind kind : layer_kinds(m)) {
    const LayerOperators block = lower_block(m, Strategy(), Framework(), RecomputeKind::None, kind);
    double multiplied = 0.0, detached = 0.0;
    for (const LayerWeight& weight : layer_weights(m, kind)) {
      multiplied += static_cast<double>(weight.multiplied());
      if (weight.detached) detached += static_cast<double>(weight.multiplied());
    }
    const auto flops = [](const OperatorList& list) {
      double sum = 0.0;
      for (const Operator& op : list)
        if (op.kind == OperatorKind::Gemm && op.module != Module::CoreAttention)
          sum += op.flops.value();
      return sum;
    };
    EXPECT_DOUBLE_EQ(flops(block.forward), 2.0 * m.seq_len * multiplied);
    EXPECT_DOUBLE_EQ(flops(block.backward), m.seq_len * (4.0 * multiplied - 2.0 * detached));
  }
}

INSTANTIATE_TEST_SUITE_P(Catalogue, EveryModel,
                         testing::ValuesIn(catalogue().begin(), catalogue().end()), model_name);

}  // namespace
}  // namespace llmsim::sim
