// Multi-head MLA and multi-token prediction, as operators and parameters of one rank.
#include <algorithm>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "sim/memory/shards.h"
#include "sim/model/flops.h"
#include "sim/operators/block.h"
#include "sim/operators/embedding_and_head.h"
#include "sim/predict.h"
#include "sim/strategy/stages.h"
#include "tests/sim/operator_lists.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

// 8 tokens of width 16, 2 heads of 4 + 2 for queries and keys and 3 for values, bottlenecks of 6
// and 5.
struct MlaCase {
  Transformer model{.name = "mla",
                    .num_layers = 2,
                    .hidden_size = 16,
                    .num_heads = 2,
                    .num_kv_heads = 2,
                    .head_dim = 6,
                    .ffn_size = 32,
                    .vocab_size = 64,
                    .seq_len = 8,
                    .norm = Norm::RmsNorm,
                    .mla = Mla{.q_lora_rank = 6,
                               .kv_lora_rank = 5,
                               .qk_nope_head_dim = 4,
                               .qk_rope_head_dim = 2,
                               .v_head_dim = 3}};
  Strategy strategy;
  Framework framework;

  LayerOperators block(RecomputeKind recompute = RecomputeKind::None) const {
    return lower_block(model, strategy, framework, recompute);
  }
};

TEST(Mla, MultipliesWhatTheModelCounts) {
  const MlaCase c;
  // A token's forward FLOPs by the model's own formula, without the head's 2 h V, for one of two
  // layers.
  const Flops token = forward_flops_per_token(c.model, true) - 2.0 * 16.0 * 64.0 * FLOP;
  EXPECT_DOUBLE_EQ(total_flops(c.block().forward).value(), (8.0 * token / 2.0).value());
}

TEST(Mla, ScoresHaveTheSizeOfQueriesAndSumsThatOfValues) {
  const MlaCase c;
  // Two heads, half of 8 * 8 scores: 2 * 32 * (6 + 3) each; the gradient recomputes scores: (3 * 6
  // + 2 * 3) / (2 * 9).
  EXPECT_EQ(named(c.block().forward, "attention").flops, 2.0 * 2.0 * 32.0 * 9.0 * FLOP);
  EXPECT_DOUBLE_EQ(named(c.block().backward, "attention_backward").repeats, 24.0 / 18.0);
}

TEST(Mla, TensorRanksShareHeadsAndGatherTheLatents) {
  MlaCase c;
  c.strategy.tp = 2;
  c.strategy.sequence_parallel = true;
  const LayerOperators block = c.block();
  EXPECT_EQ(named(block.forward, "query_down").m, 4);  // its own tokens, all of the bottleneck
  EXPECT_EQ(named(block.forward, "query_down").n, 6);
  EXPECT_EQ(named(block.forward, "query_up").m, 8);
  EXPECT_EQ(named(block.forward, "query_up").n, 6);  // of one head
  EXPECT_EQ(named(block.forward, "mla_up").n, 7);
  EXPECT_EQ(named(block.forward, "latents").message, Bytes(8.0 * 6.0 * 2.0));
  c.strategy.sequence_parallel = false;
  EXPECT_EQ(named(c.block().forward, "query_down").m, 8);  // on every rank
}

TEST(Mla, QueriesWithoutABottleneckAreOneGemm) {
  MlaCase c;
  c.model.mla->q_lora_rank.reset();
  const LayerOperators block = c.block();
  EXPECT_EQ(named(block.forward, "query_up").k, 16);
  EXPECT_EQ(named(block.forward, "query_up").n, 12);
}

// Made again from the latents: queries and keys 8 * 2 * 6 each and values 8 * 2 * 3, in 16 bits.
TEST(Mla, MayBeMadeAgainFromItsLatents) {
  MlaCase c;
  const Bytes whole = saved_by_block(c);
  c.strategy.recompute.modules = {.core_attention = false, .mla_up = true};
  const LayerOperators again = c.block(RecomputeKind::Selective);
  EXPECT_EQ(whole - saved_by_block(c, RecomputeKind::Selective), Bytes((96.0 + 96.0 + 48.0) * 2.0));
  EXPECT_EQ(total_flops(again.recompute), 2.0 * 8.0 * (6.0 * 12.0 + 5.0 * 14.0) * FLOP);
}

std::vector<Bytes> gathered(const OperatorList& list) {
  std::vector<Bytes> messages;
  for (const Operator& op : list) {
    if (op.kind == OperatorKind::Collective && op.collective == CollectiveKind::AllGather)
      messages.push_back(op.message);
  }
  return messages;
}

// 8 tokens in 16 bits: latents of 6 for the queries, or the 16 of the norm's output; and 5 with 2
// rotary values beside them.
TEST(Mla, WhatTensorRanksMakeAgainTheyGatherAgain) {
  MlaCase c;
  c.strategy.tp = 2;
  c.strategy.recompute.modules = {.core_attention = false, .mla_up = true};
  // Whole on every rank.
  EXPECT_TRUE(gathered(c.block(RecomputeKind::Selective).recompute).empty());
  c.strategy.sequence_parallel = true;
  EXPECT_EQ(gathered(c.block(RecomputeKind::Selective).recompute),
            (std::vector{Bytes(96.0), Bytes(112.0)}));
  c.model.mla->q_lora_rank.reset();
  EXPECT_EQ(gathered(c.block(RecomputeKind::Selective).recompute),
            (std::vector{Bytes(256.0), Bytes(112.0)}));
}

TEST(Mla, EveryTensorRankHasTheBottlenecks) {
  MlaCase c;
  const RankParameters one = rank_parameters(c.model, c.strategy);
  c.strategy.tp = 2;
  const RankParameters two = rank_parameters(c.model, c.strategy);
  // 16 (6 + 5 + 2) and the norms of 6 and 5, and the block's own 2 * 16.
  const double whole = 16.0 * 13.0 + 11.0 + 32.0;
  EXPECT_DOUBLE_EQ(two.kinds[0].own, whole + (one.kinds[0].own - whole) / 2.0);
}

TEST(Prediction, LayersOfItFollowTheLastAndRunTheHeadOnceMore) {
  TrainingRun run = small_run();
  const Prediction plain = predict(run);
  run.model.mtp_layers = 1;
  const Prediction ahead = predict(run);
  // One block more of 8, one head more, and the GEMM (t, h, 2 h).
  const double tokens = 8.0 * 1024.0, h = 1024.0;
  const Flops head = 2.0 * 3.0 * tokens * h * 32768.0 * FLOP,
              join = 2.0 * 3.0 * tokens * 2.0 * h * h * FLOP;
  const Flops block = (plain.model_flops - head) / 8.0;
  EXPECT_NEAR(ahead.model_flops / (plain.model_flops + block + head + join), 1.0, 1e-12);
  EXPECT_GT(ahead.step_time, plain.step_time);
  EXPECT_GT(ahead.memory.peak, plain.memory.peak);
}

// 61 layers and one ahead on 16 parts: four each, and one in the last, which has the two heads.
TEST(Prediction, LayersOfItCountWhenLayersAreDealt) {
  Transformer model = small_model();
  model.num_layers = 61, model.mtp_layers = 1;
  Strategy strategy;
  strategy.pp = 16;
  const std::vector<ModelChunk> parts = model_chunks(model, strategy);
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) EXPECT_EQ(parts[i].blocks, 4);
  EXPECT_EQ(parts.back().blocks, 2);  // with the one ahead
  strategy.pp = 1;
  EXPECT_EQ(model_chunks(model, strategy).front().blocks, 62);
}

// The stage of the head embeds the next tokens: a copy of the table, the projection 2 h h and three
// norms.
TEST(Prediction, LayersOfItNeedTheEmbeddingBesideTheHead) {
  Transformer model = small_model();
  const Strategy strategy;
  const ModelChunk last{.blocks = 1, .head = true, .of_kind = {1}};
  const double plain = rank_parameters(model, strategy).embedding_and_head(last);
  model.mtp_layers = 1;
  const RankParameters rank = rank_parameters(model, strategy);
  EXPECT_DOUBLE_EQ(rank.embedding_and_head(last) - plain,
                   rank.embedding + 2.0 * 1024.0 * 1024.0 + 3.0 * 1024.0);
}

}  // namespace
}  // namespace llmsim::sim
