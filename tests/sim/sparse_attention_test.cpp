// Attention to chosen keys: the indexer's weights, FLOPs and tensors, and what queries see.
#include "gtest/gtest.h"
#include "sim/base/error.h"
#include "sim/model/flops.h"
#include "sim/model/layer_kinds.h"
#include "sim/operators/block.h"
#include "sim/predict.h"
#include "sim/strategy/validity.h"
#include "tests/sim/operator_lists.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

// Eight heads of 128 + 64 values for queries and keys and of 128 for values, latents of 256 and
// 512; an indexer of four heads of 64 chooses 128 of 1024 keys.
TrainingRun sparse_mla(int num_devices = 1) {
  TrainingRun run = small_run(num_devices);
  run.model.norm = Norm::RmsNorm;
  run.model.position = Position::Rope;
  run.model.mla = Mla{.q_lora_rank = 256,
                      .kv_lora_rank = 512,
                      .qk_nope_head_dim = 128,
                      .qk_rope_head_dim = 64,
                      .v_head_dim = 128};
  run.model.sparse_attention = SparseAttention{.num_heads = 4, .head_dim = 64, .top_k = 128};
  return run;
}

LayerOperators sparse_block(const TrainingRun& run, LayerKind kind = LayerKind::Dense) {
  return lower_block(run.model, run.strategy, run.framework, RecomputeKind::None, kind);
}

// Queries 256 * 4 * 64 from the latents; one key of 64, with a LayerNorm; a weight for each head.
TEST(Indexer, HasFourWeights) {
  TrainingRun run = sparse_mla();
  const std::int64_t sparse = block_parameters(run.model, 0).attention;
  run.model.sparse_attention.reset();
  EXPECT_EQ(sparse - block_parameters(run.model, 0).attention,
            256 * 256 + 1024 * 64 + 2 * 64 + 1024 * 4);
}

// Without MLA the queries come from the stream, and both they and the key have a norm.
TEST(Indexer, OfOrdinaryHeadsReadsTheStream) {
  TrainingRun run = small_run();
  const std::int64_t plain = block_parameters(run.model, 0).attention;
  run.model.sparse_attention =
      SparseAttention{.num_heads = 4, .head_dim = 64, .top_k = 256, .block = 128};
  EXPECT_EQ(block_parameters(run.model, 0).attention - plain, 1024 * 256 + 1024 * 64 + 2 * 64);
  EXPECT_NEAR(predict(run).hardware_flops / predict(run).model_flops, 1.0, 1e-9);
}

// 128 - 128^2 / 2048 keys in place of 512, on latents of 512 + 64 and 512 values in eight heads; and
// the scores of 512 keys in four heads of 64.
TEST(SparseAttention, SeesTheChosenKeys) {
  const TrainingRun run = sparse_mla();
  const double seen = 120.0, core = 2.0 * 8 * (576 + 512) * seen, scores = 2.0 * 4 * 64 * 512;
  EXPECT_DOUBLE_EQ(attended_keys(run.model, 0, true), seen);
  EXPECT_DOUBLE_EQ(scored_keys(run.model, 0, true), 512.0);
  EXPECT_DOUBLE_EQ(attention_flops_per_token(run.model, 0, true).value(), core + scores);
  const double t = run.strategy.micro_batch * static_cast<double>(run.model.seq_len);
  const LayerOperators block = sparse_block(run);
  EXPECT_DOUBLE_EQ(named(block.forward, "attention").flops.value(), t * core);
  EXPECT_DOUBLE_EQ(named(block.forward, "index_scores").flops.value(), t * scores);
  EXPECT_DOUBLE_EQ(named(block.backward, "index_scores_backward").flops.value(), 2.0 * t * scores);
}

// The keys' half of what goes up from the latents is absorbed into the queries, the values' half
// comes after the core: the same FLOPs as MlaUp.  The indexer's inputs get no gradient.
TEST(SparseAttention, MultipliesWhatMlaDoes) {
  TrainingRun run = sparse_mla();
  const LayerOperators block = sparse_block(run);
  const double t = run.strategy.micro_batch * static_cast<double>(run.model.seq_len);
  EXPECT_DOUBLE_EQ(named(block.forward, "absorb_keys").flops.value(), 2.0 * t * 8 * 128 * 512);
  EXPECT_DOUBLE_EQ(named(block.forward, "values_up").flops.value(), 2.0 * t * 8 * 128 * 512);
  const double indexer = 2.0 * t * (256 * 256 + 1024 * 64 + 1024 * 4);
  EXPECT_NEAR(gemm_flops(block.backward), 2.0 * gemm_flops(block.forward) - indexer, 1.0);
  run.model.sparse_attention.reset();
  EXPECT_NEAR(gemm_flops(block.forward), gemm_flops(sparse_block(run).forward) + indexer, 1.0);
}

// Keys that all are chosen are seen as without a choice.
TEST(SparseAttention, WithAllKeysIsTheWholeTriangle) {
  TrainingRun run = sparse_mla();
  run.model.sparse_attention->top_k = 1024;
  EXPECT_DOUBLE_EQ(attended_keys(run.model, 0, true), 512.0);
}

// In layers F there is no indexer, in layers A no choice.
TEST(SparseAttention, LayersMayFollowOrSeeAll) {
  TrainingRun run = sparse_mla();
  const std::int64_t every = parameters(run.model).total();
  const std::int64_t indexer = 256 * 256 + 1024 * 64 + 2 * 64 + 1024 * 4;
  run.model.layer_pattern = "*FFA";
  run.model.validate();
  EXPECT_EQ(parameters(run.model).total(), every - 6 * indexer);
  const LayerOperators following =
      sparse_block(run, {.mixer = Mixer::FollowingAttention, .mlp = LayerMlp::Dense});
  EXPECT_DOUBLE_EQ(named(following.forward, "attention").flops.value(),
                   named(sparse_block(run).forward, "attention").flops.value());
  EXPECT_EQ(count_of(following.forward, OperatorKind::Attention), 1);
  const LayerOperators full =
      sparse_block(run, {.mixer = Mixer::FullAttention, .mlp = LayerMlp::Dense});
  TrainingRun plain = sparse_mla();
  plain.model.sparse_attention.reset();
  EXPECT_DOUBLE_EQ(total_flops(full.forward).value(),
                   total_flops(sparse_block(plain).forward).value());
  EXPECT_NEAR(predict(run).hardware_flops / predict(run).model_flops, 1.0, 1e-9);
  run.model.sparse_attention.reset();
  EXPECT_THROW(run.model.validate(), Error);
}

// Heads are divided, the indexer is not: each tensor rank does all of it, on what it gathers.
TEST(SparseAttention, TensorRanksRepeatTheIndexer) {
  TrainingRun run = sparse_mla(8);
  const LayerOperators whole = sparse_block(run);
  run.strategy.tp = 8, run.strategy.dp = 1, run.strategy.sequence_parallel = true;
  const LayerOperators divided = sparse_block(run);
  EXPECT_DOUBLE_EQ(named(divided.forward, "index_scores").flops.value(),
                   named(whole.forward, "index_scores").flops.value());
  EXPECT_DOUBLE_EQ(named(divided.forward, "index_query").flops.value(),
                   named(whole.forward, "index_query").flops.value());
  EXPECT_DOUBLE_EQ(named(divided.forward, "absorb_keys").flops.value(),
                   named(whole.forward, "absorb_keys").flops.value() / 8.0);
}

// Context ranks gather latents and the indexer's keys, whatever scheme the strategy has.
TEST(SparseAttention, ContextRanksGatherKeys) {
  TrainingRun run = sparse_mla(2);
  run.strategy.cp = 2, run.strategy.dp = 1;
  EXPECT_FALSE(broken_rule(run.model, run.strategy, run.cluster));
  const LayerOperators block = sparse_block(run);
  const double rows = 2.0 * run.strategy.micro_batch * 1024.0 / 2.0;
  EXPECT_DOUBLE_EQ(named(block.forward, "index_keys").message.value(), rows * 64 * 2.0);
  EXPECT_DOUBLE_EQ(named(block.forward, "context_keys").message.value(), rows * 576 * 2.0);
}

TEST(SparseAttention, NeedsItsOwnKernels) {
  TrainingRun run = sparse_mla();
  run.strategy.flash_attention = false;
  EXPECT_EQ(broken_rule(run.model, run.strategy, run.cluster)->message,
            "flash_attention = false: attention to chosen keys (sparse_attention) has kernels of "
            "its own, which flash_attention stands for (nearest: flash_attention on)");
  run = sparse_mla();
  run.model.mla->q_lora_rank.reset();
  EXPECT_THROW(run.model.validate(), Error);
}

}  // namespace
}  // namespace llmsim::sim
