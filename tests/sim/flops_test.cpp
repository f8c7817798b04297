#include "sim/model/flops.h"

#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/model/parameters.h"
#include "sim/predict.h"
#include "tests/catalogue.h"
#include "tests/sim/sample_run.h"

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

// Of a decoder: what one token's GEMMs but those of attention multiply with.
double matmul_parameters(const Transformer& model) {
  Flops weights = forward_flops_per_token(model, true);
  for (int layer = 0; layer < model.num_layers + model.mtp_layers; ++layer) {
    weights -= attention_flops_per_token(model, layer, true);
  }
  return weights / (2.0 * FLOP);
}

TEST(ForwardFlops, ATinyModelByHand) {
  const double weights = 2 * (192 + 256) + 80;  // two blocks and the head
  // Two layers, scores and weighted sum over six keys.
  const double attention = 2 * (2 * (8 + 8) * 6.0);
  EXPECT_DOUBLE_EQ(matmul_parameters(tiny()), 976);
  EXPECT_DOUBLE_EQ(forward_flops_per_token(tiny(), false) / FLOP, 2 * weights + attention);
  EXPECT_DOUBLE_EQ(forward_flops_per_token(tiny(), true) / FLOP, 2 * weights + attention / 2);
}

TEST(ForwardFlops, NeitherBiasesNormsNorTyingChangeTheWork) {
  Transformer m = tiny();
  m.bias = Biases::gpt();
  m.tied_embeddings = true;
  m.norms_per_layer = 4;
  EXPECT_DOUBLE_EQ(matmul_parameters(m), matmul_parameters(tiny()));
}

// A dense untied model without biases: every parameter but embedding and norms multiplies.
TEST(ForwardFlops, MatmulParametersOfADenseModelAreItsParametersWithoutEmbeddingAndNorms) {
  const Transformer& llama = find_model("llama-3-8b")->model;
  const Parameters p = parameters(llama);
  EXPECT_DOUBLE_EQ(matmul_parameters(llama),
                   static_cast<double>(p.total() - p.embedding - p.norms));
}

TEST(ForwardFlops, OnlyVisitedExpertsWork) {
  const Transformer& mixtral = find_model("mixtral-8x7b")->model;
  const Parameters p = parameters(mixtral);
  EXPECT_DOUBLE_EQ(matmul_parameters(mixtral),
                   static_cast<double>(p.active() - p.embedding - p.norms));
}

// 3 of 6 tokens pass the head with its dense layer, one the pooler and two classes; every query
// sees six keys.
TEST(ForwardFlops, AnEncoderByHand) {
  Transformer m = tiny();
  m.encoder = Encoder{.predicted_share = 0.5, .next_sentence = true};
  const double blocks = 2 * (192 + 256), head = 80 + 64, sentences = 64 + 16;
  EXPECT_DOUBLE_EQ(head_flops_per_token(m) / FLOP, 2 * (head / 2 + sentences / 6));
  const double attention = 2 * (2 * (8 + 8) * 6.0);
  EXPECT_DOUBLE_EQ(forward_flops_per_token(m, true) / FLOP,
                   2 * blocks + head_flops_per_token(m) / FLOP + attention);
}

// kv rank 6, query heads of 5 + 3, value heads of 7.
TEST(ForwardFlops, MlaByHand) {
  Transformer m = tiny();
  m.num_layers = 1;
  m.mla = Mla{.q_lora_rank = 9,
              .kv_lora_rank = 6,
              .qk_nope_head_dim = 5,
              .qk_rope_head_dim = 3,
              .v_head_dim = 7};
  const int weights = 8 * 9 + 9 * 32 + 8 * 9 + 6 * 4 * 12 + 28 * 8;
  EXPECT_DOUBLE_EQ(matmul_parameters(m), weights + 256 + 80);
  EXPECT_DOUBLE_EQ(attention_flops_per_token(m, 0, true) / FLOP, 2 * (32 + 28) * 3.0);
}

// The prediction layer has a block, a joining projection of 16 * 8 and another pass through the
// head.
TEST(ForwardFlops, MultiTokenPredictionRepeatsTheHead) {
  Transformer m = tiny();
  m.mtp_layers = 1;
  EXPECT_DOUBLE_EQ(matmul_parameters(m), 976 + 192 + 256 + 128 + 80);
}

// With a window of 2 in 6 tokens the triangle of side 2 leaves 2 * 6 - 2 = 10 of the band's area:
// 10 / 6 keys each.
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

// Documents of 1, 1 and 4 tokens have 1/2 + 1/2 + 8 = 9 of the square's 36 below their diagonals:
// 9 / 6 keys each, as three documents' mean over tokens, (1 + 1 + 16) / 6 = 3, has.
TEST(AttendedKeys, OfPackedDocumentsAreBlocksOnTheDiagonal) {
  Transformer m = tiny();
  m.document_len = 3;
  EXPECT_DOUBLE_EQ(attended_keys(m, 0, true), 9.0 / 6.0);
  EXPECT_DOUBLE_EQ(attended_keys(m, 0, false), 3.0);
  // Each of two documents is a band of 3 - 1/2.
  m.sliding_window = 1;
  EXPECT_DOUBLE_EQ(attended_keys(m, 0, true), 2.0 * (3.0 - 0.5) / 6.0);
  m.sliding_window = 5;
  EXPECT_DOUBLE_EQ(attended_keys(m, 0, true), 9.0 / 6.0);
}

TEST(AttendedKeys, FullLayersOfAnIntervalIgnoreTheWindow) {
  Transformer m = tiny();
  m.sliding_window = 2;
  m.sliding_window_interval = 2;
  EXPECT_DOUBLE_EQ(attended_keys(m, 0, true), 10.0 / 6.0);
  EXPECT_DOUBLE_EQ(attended_keys(m, 1, true), 3.0);
}

// One layer of Llama 3.1 70B and its two vocabulary ends; of 2,957 million parameters 1,906,311,168
// multiply, and a training step costs 6 * 1,906,311,168 + 6 * 8192 * 4096 FLOP per token, not 6 *
// 2,957 million + 12 * 8192 * 4096.
TEST(ForwardFlops, TheProxysEmbeddingDoesNoWork) {
  const Transformer& proxy = find_model("llama-3.1-70b-proxy")->model;
  EXPECT_DOUBLE_EQ(matmul_parameters(proxy), 150'994'944LL + 704'643'072LL + 1'050'673'152LL);
  EXPECT_DOUBLE_EQ(3.0 * forward_flops_per_token(proxy, true) / FLOP,
                   6.0 * 1906311168.0 + 6.0 * 8192 * 4096);
}

// The one-layer proxy of Llama 3.1 70B that llm-train-bench ran on one H100, two sequences of 4096
// tokens.
Transformer proxy() {
  Transformer model = find_model("llama-3.1-70b")->model;
  model.num_layers = 1;
  model.seq_len = 4096;
  return model;
}

StepWork proxy_work(const Transformer& model) {
  const double tokens = 2.0 * 4096.0;
  const Flops exact = 3.0 * tokens * forward_flops_per_token(model, true);
  return {.tokens = tokens,
          .model = exact,
          .hardware = exact,
          .step_time = Seconds(0.2),
          .num_devices = 1,
          .peak = 989.4 * TFLOPS};
}

const Convention& named(const std::vector<Convention>& list, const std::string& name) {
  for (const Convention& convention : list) {
    if (convention.name == name) return convention;
  }
  throw std::out_of_range(name);
}

TEST(Reported, TheEightyPercentOfAOneLayerProxyAreFiftyOne) {
  const Transformer model = proxy();
  const StepWork work = proxy_work(model);
  const std::vector<Convention> list = conventions(model, work);
  // Printed, and real by an independent count of the source's files.
  for (const auto& [printed, real] :
       {std::pair{700.0, 449.0}, std::pair{790.0, 507.0}, std::pair{1200.0, 770.0}}) {
    EXPECT_NEAR(reading_of(named(list, "palm"), printed * TFLOPS, work).exact / TFLOPS, real, 0.5);
  }
  EXPECT_NEAR(reading_of(named(list, "palm"), 790.0 * TFLOPS, work).exact_mfu, 0.512, 0.001);
}

TEST(Reported, TheSameByHand) {
  // N = 2.957e9, of which V h = 1.051e9 are looked up; attention 12 h s = 0.403e9 per token in
  // full, 0.201e9 causal.
  const double all = 2.957e9, lookup = 128256.0 * 8192.0, square = 12.0 * 8192.0 * 4096.0;
  const double ratio = (6.0 * (all - lookup) + square / 2.0) / (6.0 * all + square);
  EXPECT_NEAR(790.0 * ratio, 507.0, 1.0);
}

TEST(Reported, AMeasuredStepTellsTheConventionBehindAFigure) {
  // llm-train-bench prints 790 TFLOP/s for a step of 188.15 ms.
  const Transformer model = proxy();
  const std::vector<Convention> list = conventions(model, proxy_work(model));
  const auto behind = convention_behind(list, 790.0 * TFLOPS, Seconds(0.18815), 1);
  ASSERT_TRUE(behind);
  EXPECT_EQ(behind->name, "palm");
  EXPECT_FALSE(convention_behind(list, 790.0 * TFLOPS, Seconds(0.1), 1));
}

TEST(Conventions, CausalPalmCountsHalfOfTheSquare) {
  const Transformer model = proxy();
  const std::vector<Convention> list = conventions(model, proxy_work(model));
  EXPECT_DOUBLE_EQ(
      (named(list, "palm").flops_per_step - named(list, "palm_causal").flops_per_step).value(),
      (named(list, "palm_causal").flops_per_step - named(list, "6N").flops_per_step).value());
}

// --- Megatron-LM's own count ---

// Of one token, in multiply-adds of a forward pass: six FLOP each.
double logged(const Transformer& model, const std::string& name = "megatron") {
  StepWork work = proxy_work(model);
  work.tokens = 1.0;
  return named(conventions(model, work), name).flops_per_step / (6.0 * FLOP);
}

// A layer's attention has projections of 8 (8 + 4 + 4) + 8 * 8 = 192, and 8 (6 / 2) of keys and of
// values each.
TEST(MegatronFlops, ATinyModelByHand) {
  EXPECT_DOUBLE_EQ(logged(tiny()), 2 * (192 + 48 + 2 * 8 * 16) + 8 * 10);
  // Attention over the full square: 2 * 8 * 6.
  EXPECT_DOUBLE_EQ(logged(tiny(), "megatron_2024"), 2 * (192 + 96 + 2 * 8 * 16) + 8 * 10);
  // 12 h^2 and 2 h S, no groups of key/value heads.
  EXPECT_DOUBLE_EQ(logged(tiny(), "megatron_2022"), 2 * (12 * 64 + 2 * 8 * 6) + 8 * 10);
}

// A window is not looked at; documents are, today.
TEST(MegatronFlops, AttentionIsTheHalfOfADocument) {
  Transformer m = tiny();
  m.sliding_window = 2;
  EXPECT_DOUBLE_EQ(logged(m), logged(tiny()));
  m.document_len = 3;
  EXPECT_DOUBLE_EQ(logged(m), logged(tiny()) - 2 * 24);
  EXPECT_DOUBLE_EQ(logged(m, "megatron_2024"), logged(tiny(), "megatron_2024"));
}

// The first layer is dense; in the second a token visits two experts of 5 and the shared one of 7,
// and the router of four columns is not counted.  In 2024 both layers had two experts of 16.
TEST(MegatronFlops, ExpertsByHand) {
  Transformer m = tiny();
  m.gated_mlp = true;
  m.moe = Moe{.num_experts = 4,
              .top_k = 2,
              .expert_ffn_size = 5,
              .num_shared_experts = 1,
              .shared_expert_ffn_size = 7,
              .num_dense_layers = 1};
  EXPECT_DOUBLE_EQ(logged(m), 2 * (192 + 48) + 3 * 8 * 16 + 3 * 8 * (2 * 5 + 7) + 80);
  EXPECT_DOUBLE_EQ(logged(m, "megatron_2024"), 2 * (192 + 96 + 3 * 8 * (2 * 16 + 7)) + 80);
}

// Bottlenecks of 9 and 6 with their norms, one block and one layer ahead, its joining projection of
// 16 * 8 with three norms, and a second pass through the head.
TEST(MegatronFlops, MlaAndMultiTokenPredictionByHand) {
  Transformer m = tiny();
  m.num_layers = 1;
  m.mtp_layers = 1;
  m.mla = Mla{.q_lora_rank = 9,
              .kv_lora_rank = 6,
              .qk_nope_head_dim = 5,
              .qk_rope_head_dim = 3,
              .v_head_dim = 7};
  const double projections = 9 * (8 + 4 * 8 + 1) + 6 * (8 + 4 * 12 + 1) + 8 * 3 + 4 * 7 * 8;
  const double core = (4 * 8 + 4 * 7) * 6 / 2;
  EXPECT_DOUBLE_EQ(logged(m), 2 * (projections + core + 256) + 3 * 8 + 2 * 64 + 2 * 80);
}

// Mamba-2 is taken to be 16 wide, not 3 * 2; experts of 5 work on latents of 4.
TEST(MegatronFlops, AHybridByHand) {
  Transformer m = tiny();
  m.num_layers = 4;
  m.layer_pattern = "M*-E";
  m.mamba = Mamba{.num_heads = 3, .head_dim = 2, .num_groups = 2, .state_size = 5};
  m.moe = Moe{.num_experts = 4, .top_k = 2, .expert_ffn_size = 5, .latent_size = 4};
  const double mamba = 8 * (2 * 16 + 2 * 2 * 5 + 3) + 7 * 16 * 5 / 2 + 16 * 8;
  const double experts = 2 * 2 * 4 * 5 + 2 * 8 * 4;
  EXPECT_DOUBLE_EQ(logged(m), mamba + (192 + 48) + 256 + experts + 80);
}

// Keys of 2 and values of 6 values, a convolution of four tokens over 2 * 2 + 6 channels.
TEST(MegatronFlops, AGatedDeltaNetByHand) {
  Transformer m = tiny();
  m.layer_pattern = "G*";
  m.gated_delta_net = GatedDeltaNet{
      .num_key_heads = 1, .key_head_dim = 2, .num_value_heads = 2, .value_head_dim = 3};
  const double net = 8 * (2 * 2 + 2 * 6 + 2 * 2) + 4 * (2 * 2 + 6) + 2 * 3 * 3 * 4 + 8 * 6;
  EXPECT_DOUBLE_EQ(logged(m), net + 256 + (192 + 48) + 256 + 80);
}

// Every GEMM of a dense model is counted, as in gemm_causal.
TEST(MegatronFlops, OfADenseModelAreItsWork) {
  const Transformer& llama = find_model("llama-3-70b")->model;
  EXPECT_DOUBLE_EQ(logged(llama), forward_flops_per_token(llama, true) / (2.0 * FLOP));
}

// 128 sequences of 2,048 tokens on 16 devices, logged as 243.6 TFLOP/s in 2024: a layer has h (2 q +
// 2 q / 4), twice its square of attention and two gated experts, and took 5.36 s, not the 2.87 s of
// one 4 h wide MLP.
TEST(MegatronFlops, AMixtralsLogOf2024IsReadWithItsExperts) {
  Transformer mixtral = find_model("mixtral-8x7b")->model;
  mixtral.seq_len = 2048;
  const double layer = 4096.0 * (2.5 * 4096) + 2.0 * 4096 * 2048 + 3.0 * 4096 * 2 * 14336;
  const double step = 6.0 * (32 * layer + 4096.0 * 32000) * 128 * 2048;
  EXPECT_NEAR(logged(mixtral, "megatron_2024") * 6.0 * 128 * 2048, step, 1e-9 * step);
  EXPECT_NEAR(step / 16 / 243.6e12, 5.36, 0.005);
}

TEST(Plausibility, APredictionOfARealDeviceIsFine) {
  TrainingRun run = small_run();
  run.cluster.device.achieved.gemm.fill({});
  EXPECT_TRUE(predict(run).warnings.empty());
}

// Model FLOPs at nine tenths of the peak; with those of the recomputation a third more.
TEST(Plausibility, MoreThanThePeakIsFlagged) {
  TrainingRun run = small_run(1);
  run.strategy.recompute.kind = RecomputeKind::Full;
  // Not all of a step scales with it.
  for (int i = 0; i < 5; ++i) run.framework.efficiency *= 0.9 / predict(run).mfu;
  const Prediction p = predict(run);
  ASSERT_GT(p.hfu, 1.0);
  ASSERT_EQ(p.warnings.size(), 1u);
  EXPECT_NE(p.warnings[0].find("is more than the peak of ideal in bf16"), std::string::npos);
}

TEST(Plausibility, NoModelUtilisationAboveOneLeavesTheSimulator) {
  TrainingRun run = small_run();
  run.framework.efficiency = 3.0;
  EXPECT_THROW(
      try { predict(run); } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("are beyond the peak of the device"),
                  std::string::npos)
            << error.what();
        throw;
      },
      Error);
}

TEST(Plausibility, MemoryFasterThanItsDataSheetIsFlagged) {
  TrainingRun run = small_run();
  run.cluster.device.achieved.gemm.fill({});
  run.cluster.device.achieved.memory_fraction = 1.2;
  ASSERT_EQ(predict(run).warnings.size(), 1u);
  EXPECT_EQ(predict(run).warnings[0],
            "memory-bound operators move 120 % of the data sheet's memory bandwidth of ideal: its "
            "memory_fraction is too good");
}

TEST(Plausibility, MeasuredStepsFarFromThePredictionAreFlagged) {
  Prediction p = predict(small_run());
  p.mfu = 0.25;
  const auto lines = [&](double factor) {
    return implausible_measurement(p, factor * p.step_time);
  };
  EXPECT_TRUE(lines(2.9).empty());
  EXPECT_TRUE(lines(0.35).empty());
  EXPECT_EQ(lines(4.0),
            std::vector<std::string>{"the measured step takes 4 times as long as predicted"});
  // Five times faster is also 125 % of the peak.
  ASSERT_EQ(lines(0.2).size(), 2u);
  EXPECT_EQ(lines(0.2)[0],
            "the measured step does 125 % of the peak of ideal in bf16: check step_time_s, "
            "num_devices and the batch");
  EXPECT_EQ(lines(0.2)[1], "the predicted step takes 5 times as long as measured");
}

}  // namespace
}  // namespace llmsim::sim
