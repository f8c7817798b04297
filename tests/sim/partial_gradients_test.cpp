#include "sim/memory/partial_gradients.h"

#include <gtest/gtest.h>

#include "sim/memory/shards.h"

namespace llmsim::sim {
namespace {

// Width 64, 4 heads of 16, an MLP of 128, vocabulary 96.
Transformer two_layer_model() {
  Transformer model;
  model.num_layers = 2;
  model.hidden_size = 64;
  model.num_heads = model.num_kv_heads = 4;
  model.head_dim = 16;
  model.ffn_size = 128;
  model.vocab_size = 96;
  return model;
}

Strategy on_shards(int shards) {
  Strategy strategy;
  strategy.tp = 2;
  strategy.sequence_parallel = true;
  strategy.dp = shards;
  strategy.sharding = Sharding::Zero3;
  return strategy;
}

const std::vector<ModelPart> kBlocks{{.blocks = 2}};
const std::vector<ModelPart> kBlocksAndHead{{.blocks = 1, .head = true}};

// A block without biases on one of two tensor ranks: norm 64, qkv (32 + 2 * 32) * 64 = 6144 and projection 32 * 64 = 2048, norm
// 64, gate, up and down 3 * 64 * 64 = 12288: the second norm begins at 8256 of 20608.
TEST(PartialGradients, LieWhereTheNormsAre) {
  Transformer model = two_layer_model();
  model.gated_mlp = true;
  model.norm = Norm::RmsNorm;
  // Two shards of 10304 each.
  EXPECT_EQ(partial_gradients(model, on_shards(2), kBlocks, 0), 2 * 128);
  EXPECT_EQ(partial_gradients(model, on_shards(2), kBlocks, 1), 0);
  // Three of 6870: 64, the other 64, none.
  EXPECT_EQ(partial_gradients(model, on_shards(3), kBlocks, 1), 2 * 64);
  EXPECT_EQ(partial_gradients(model, on_shards(3), kBlocks, 2), 0);
  // The head has the final norm, 64, before its 48 * 64 weights.
  EXPECT_EQ(partial_gradients(model, on_shards(2), kBlocksAndHead, 0), 128 + 64);
}

// With biases the output projection's and the MLP's are among them, and the last values of a block are.
TEST(PartialGradients, AreAllOnSomeShard) {
  Transformer model = two_layer_model();
  model.bias = Biases::gpt();
  const Strategy whole = on_shards(1);
  const double all = partial_gradients(model, whole, kBlocksAndHead, 0);
  EXPECT_EQ(all, (2 * 128 + 2 * 64) + 128);  // two norms and two biases; the final norm
  for (const int shards : {2, 3, 5, 8}) {
    double sum = 0.0;
    for (int shard = 0; shard < shards; ++shard) sum += partial_gradients(model, on_shards(shards), kBlocksAndHead, shard);
    EXPECT_EQ(sum, all) << shards;
    EXPECT_GT(partial_gradients(model, on_shards(shards), kBlocksAndHead, shards - 1), 0.0) << shards;
  }
}

}  // namespace
}  // namespace llmsim::sim
