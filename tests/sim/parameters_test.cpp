#include "sim/model/parameters.h"

#include "gtest/gtest.h"

namespace llmsim::sim {
namespace {

// h = 8, 4 heads and 2 kv heads of 2, f = 16, V = 10, S = 6, two layers; LayerNorm weights only,
// untied head, rotary positions.
Transformer tiny() {
  return {.name = "tiny",
          .num_layers = 2,
          .hidden_size = 8,
          .num_heads = 4,
          .num_kv_heads = 2,
          .head_dim = 2,
          .ffn_size = 16,
          .vocab_size = 10,
          .seq_len = 6};
}

constexpr int kAttention = 8 * 8 + 2 * 8 * 4 + 8 * 8;  // q, k and v, output
constexpr int kMlp = 2 * 8 * 16;
constexpr int kNorms = 2 * 8;

TEST(Parameters, ATinyModelByHand) {
  const Parameters p = parameters(tiny());
  EXPECT_EQ(p.embedding, 80);
  EXPECT_EQ(p.positions, 0);
  EXPECT_EQ(p.attention, 2 * 192);
  EXPECT_EQ(p.mlp, 2 * 256);
  EXPECT_EQ(p.norms, 2 * 16 + 8);
  EXPECT_EQ(p.head, 80);
  EXPECT_EQ(p.total(), 80 + 384 + 512 + 40 + 80);
  EXPECT_EQ(p.active(), p.total());
  EXPECT_EQ(p.without_embedding(), p.total() - 80);
}

TEST(Parameters, PartsOfTheBlocksAddUpToTheModel) {
  const BlockParameters block = block_parameters(tiny(), 0);
  EXPECT_EQ(block.attention, kAttention);
  EXPECT_EQ(block.mlp, kMlp);
  EXPECT_EQ(block.norms, kNorms);
  EXPECT_EQ(parameters(tiny()).total(), 2 * block.total() + 80 + 80 + 8);
}

TEST(Parameters, BiasesAddTheOutputsOfEveryLinearLayer) {
  Transformer m = tiny();
  m.bias = Biases::gpt();
  const BlockParameters block = block_parameters(m, 0);
  EXPECT_EQ(block.attention, kAttention + 8 + 4 + 4 + 8);
  EXPECT_EQ(block.mlp, kMlp + 16 + 8);
  EXPECT_EQ(block.norms, 2 * kNorms);
}

TEST(Parameters, AGatedMlpHasAThirdMatrixAndItsBias) {
  Transformer m = tiny();
  m.gated_mlp = true;
  EXPECT_EQ(block_parameters(m, 0).mlp, 3 * 8 * 16);
  m.bias.mlp = true;
  EXPECT_EQ(block_parameters(m, 0).mlp, 3 * 8 * 16 + 16 + 16 + 8);
}

TEST(Parameters, ATiedHeadCountsOnce) {
  Transformer m = tiny();
  m.tied_embeddings = true;
  EXPECT_EQ(parameters(m).head, 0);
  m.bias.head = true;
  EXPECT_EQ(parameters(m).head, 10);
  m.tied_embeddings = false;
  EXPECT_EQ(parameters(m).head, 80 + 10);
}

TEST(Parameters, LearnedPositionsHaveARowPerTokenOrAsManyAsTheTable) {
  Transformer m = tiny();
  m.position = Position::Learned;
  EXPECT_EQ(parameters(m).positions, 6 * 8);
  m.max_positions = 9;
  EXPECT_EQ(parameters(m).positions, 9 * 8);
  EXPECT_EQ(parameters(m).without_embedding(), parameters(m).total() - 80 - 72);
}

TEST(Parameters, NormsFollowTheirNumberAndPlace) {
  Transformer m = tiny();
  m.norms_per_layer = 4;
  EXPECT_EQ(parameters(m).norms, 2 * 4 * 8 + 8);
  m.embedding_norm = true;
  EXPECT_EQ(parameters(m).norms, 2 * 4 * 8 + 8 + 8);
  m.final_norm = false;
  EXPECT_EQ(parameters(m).norms, 2 * 4 * 8 + 8);
  m.norm_weight = false;
  EXPECT_EQ(parameters(m).norms, 0);
}

TEST(Parameters, QkNormIsPerHeadOrOverAllHeads) {
  Transformer m = tiny();
  m.qk_norm = QkNorm::PerHead;
  EXPECT_EQ(block_parameters(m, 0).attention, kAttention + 2 + 2);
  m.qk_norm = QkNorm::AllHeads;
  EXPECT_EQ(block_parameters(m, 0).attention, kAttention + 8 + 4);
}

TEST(Parameters, HeadDimIsIndependentOfTheWidth) {
  Transformer m = tiny();
  m.head_dim = 5;
  EXPECT_EQ(block_parameters(m, 0).attention, 8 * 20 + 2 * 8 * 10 + 20 * 8);
}

TEST(Parameters, AnAttentionSinkIsOneLogitPerHead) {
  Transformer m = tiny();
  m.attention_sinks = true;
  EXPECT_EQ(block_parameters(m, 0).attention, kAttention + 4);
}

// Layer 0 dense, layer 1 with 4 routed experts of width 3 (two visited) and 2 shared ones of width
// 5.
TEST(Parameters, AMoeByHand) {
  Transformer m = tiny();
  m.moe = Moe{.num_experts = 4,
              .top_k = 2,
              .expert_ffn_size = 3,
              .num_shared_experts = 2,
              .shared_expert_ffn_size = 5,
              .num_dense_layers = 1};
  const Parameters p = parameters(m);
  EXPECT_EQ(p.mlp, 256 + 2 * (2 * 8 * 5));
  EXPECT_EQ(p.experts, 4 * 48);
  EXPECT_EQ(p.router, 8 * 4);
  EXPECT_EQ(p.inactive, 2 * 48);
  EXPECT_EQ(p.active(), p.total() - 96);
}

TEST(Parameters, MoeExtrasByHand) {
  Transformer m = tiny();
  m.gated_mlp = true;
  m.moe = Moe{.num_experts = 4,
              .top_k = 2,
              .expert_ffn_size = 3,
              .num_shared_experts = 1,
              .shared_expert_ffn_size = 5,
              .router_bias = true,
              .expert_bias = true,
              .shared_expert_gate = true};
  const BlockParameters block = block_parameters(m, 0);
  EXPECT_EQ(block.experts, 4 * (3 * 8 * 3 + 3 + 3 + 8));
  EXPECT_EQ(block.router, 8 * 4 + 4);
  EXPECT_EQ(block.mlp, 3 * 8 * 5 + 8);
}

// kv rank 6, heads of 5 + 3 for queries and keys and 7 for values.
TEST(Parameters, MlaByHand) {
  Transformer m = tiny();
  m.mla = Mla{.kv_lora_rank = 6, .qk_nope_head_dim = 5, .qk_rope_head_dim = 3, .v_head_dim = 7};
  const int down = 8 * (6 + 3), kv_norm = 6, up = 6 * 4 * (5 + 7), output = 4 * 7 * 8;
  EXPECT_EQ(block_parameters(m, 0).attention, 8 * 4 * 8 + down + kv_norm + up + output);
  m.mla->q_lora_rank = 9;
  EXPECT_EQ(block_parameters(m, 0).attention, 8 * 9 + 9 + 9 * 4 * 8 + down + kv_norm + up + output);
}

// The extra layer repeats the last block, joins two hidden vectors and has three norms of its own;
// embedding and head are shared.
TEST(Parameters, MultiTokenPredictionByHand) {
  Transformer m = tiny();
  m.mtp_layers = 1;
  const Parameters p = parameters(m);
  EXPECT_EQ(p.mtp, kAttention + kMlp + kNorms + 16 * 8 + 3 * 8);
  EXPECT_EQ(p.total(), parameters(tiny()).total() + p.mtp);
}

TEST(Parameters, LargeModelsDoNotOverflow) {
  Transformer m = tiny();
  m.num_layers = 128;
  m.hidden_size = 25600;
  m.num_heads = m.num_kv_heads = 160;
  m.head_dim = 160;
  m.ffn_size = 4 * 25600;
  EXPECT_EQ(block_parameters(m, 127).mlp, 2LL * 25600 * 102400);
  EXPECT_EQ(parameters(m).attention, 128LL * 4 * 25600 * 25600);
}

}  // namespace
}  // namespace llmsim::sim
