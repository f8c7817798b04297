#include "sim/model/flops.h"

#include "gtest/gtest.h"
#include "sim/model/catalogue.h"
#include "sim/model/parameters.h"

namespace llmsim::sim {
namespace {

// h = 8, 4 heads and 2 kv heads of 2, f = 16, V = 10, S = 6, two layers.
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

TEST(ForwardFlops, ATinyModelByHand) {
  const double weights = 2 * (192 + 256) + 80;       // two blocks and the head
  const double attention = 2 * (2 * (8 + 8) * 6.0);  // two layers, scores and weighted sum over six keys
  EXPECT_EQ(matmul_parameters(tiny()), 976);
  EXPECT_DOUBLE_EQ(forward_flops_per_token(tiny(), false) / FLOP, 2 * weights + attention);
  EXPECT_DOUBLE_EQ(forward_flops_per_token(tiny(), true) / FLOP, 2 * weights + attention / 2);
}

TEST(ForwardFlops, NeitherBiasesNormsNorTyingChangeTheWork) {
  Transformer m = tiny();
  m.bias = Biases::gpt();
  m.tied_embeddings = true;
  m.norms_per_layer = 4;
  EXPECT_EQ(matmul_parameters(m), matmul_parameters(tiny()));
}

// A dense untied model without biases: every parameter but embedding and norms multiplies.
TEST(ForwardFlops, MatmulParametersOfADenseModelAreItsParametersWithoutEmbeddingAndNorms) {
  const Transformer& llama = find_model("llama-3-8b")->model;
  const Parameters p = parameters(llama);
  EXPECT_EQ(matmul_parameters(llama), p.total() - p.embedding - p.norms);
}

TEST(ForwardFlops, OnlyVisitedExpertsWork) {
  const Transformer& mixtral = find_model("mixtral-8x7b")->model;
  const Parameters p = parameters(mixtral);
  EXPECT_EQ(matmul_parameters(mixtral), p.active() - p.embedding - p.norms);
}

// 3 of 6 tokens pass the head with its dense layer, one the pooler and two classes; every query sees six keys.
TEST(ForwardFlops, AnEncoderByHand) {
  Transformer m = tiny();
  m.encoder = Encoder{.predicted_share = 0.5, .next_sentence = true};
  const double blocks = 2 * (192 + 256), head = 80 + 64, sentences = 64 + 16;
  EXPECT_EQ(matmul_parameters(m), blocks + head + sentences);
  EXPECT_DOUBLE_EQ(head_flops_per_token(m) / FLOP, 2 * (head / 2 + sentences / 6));
  const double attention = 2 * (2 * (8 + 8) * 6.0);
  EXPECT_DOUBLE_EQ(forward_flops_per_token(m, true) / FLOP, 2 * blocks + head_flops_per_token(m) / FLOP + attention);
}

// kv rank 6, query heads of 5 + 3, value heads of 7.
TEST(ForwardFlops, MlaByHand) {
  Transformer m = tiny();
  m.num_layers = 1;
  m.mla = Mla{.q_lora_rank = 9, .kv_lora_rank = 6, .qk_nope_head_dim = 5, .qk_rope_head_dim = 3, .v_head_dim = 7};
  const int weights = 8 * 9 + 9 * 32 + 8 * 9 + 6 * 4 * 12 + 28 * 8;
  EXPECT_EQ(matmul_parameters(m), weights + 256 + 80);
  EXPECT_DOUBLE_EQ(attention_flops_per_token(m, 0, true) / FLOP, 2 * (32 + 28) * 3.0);
}

// The prediction layer has a block, a joining projection of 16 * 8 and another pass through the head.
TEST(ForwardFlops, MultiTokenPredictionRepeatsTheHead) {
  Transformer m = tiny();
  m.mtp_layers = 1;
  EXPECT_EQ(matmul_parameters(m), 976 + 192 + 256 + 128 + 80);
}

// With a window of 2 in 6 tokens the triangle of side 2 leaves 2 * 6 - 2 = 10 of the band's area: 10 / 6 keys each.
TEST(AttendedKeys, AWindowIsABand) {
  Transformer m = tiny();
  m.sliding_window = 2;
  EXPECT_DOUBLE_EQ(attended_keys(m, 0, true), 10.0 / 6.0);
  EXPECT_DOUBLE_EQ(attended_keys(m, 0, false), 2.0);
}

TEST(AttendedKeys, AWindowAsLongAsTheSequenceIsNone) {
  Transformer m = tiny();
  EXPECT_DOUBLE_EQ(attended_keys(m, 0, true), 3.0);
  m.sliding_window = 100;
  EXPECT_DOUBLE_EQ(attended_keys(m, 0, true), 3.0);
  EXPECT_DOUBLE_EQ(attended_keys(m, 0, false), 6.0);
}

TEST(AttendedKeys, FullLayersOfAnIntervalIgnoreTheWindow) {
  Transformer m = tiny();
  m.sliding_window = 2;
  m.sliding_window_interval = 2;
  EXPECT_DOUBLE_EQ(attended_keys(m, 0, true), 10.0 / 6.0);
  EXPECT_DOUBLE_EQ(attended_keys(m, 1, true), 3.0);
}

// One layer of Llama 3.1 70B and its two vocabulary ends; of 2,957 million parameters 1,906,311,168 multiply, and a training step
// costs 6 * 1,906,311,168 + 6 * 8192 * 4096 FLOP per token, not 6 * 2,957 million + 12 * 8192 * 4096.
TEST(ForwardFlops, TheProxysEmbeddingDoesNoWork) {
  const Transformer& proxy = find_model("llama-3.1-70b-proxy")->model;
  EXPECT_EQ(matmul_parameters(proxy), 150'994'944LL + 704'643'072LL + 1'050'673'152LL);
  EXPECT_DOUBLE_EQ(3.0 * forward_flops_per_token(proxy, true) / FLOP, 6.0 * 1906311168.0 + 6.0 * 8192 * 4096);
}

}  // namespace
}  // namespace llmsim::sim
