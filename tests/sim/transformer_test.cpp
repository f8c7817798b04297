#include "sim/model/transformer.h"

#include <functional>
#include <string>

#include "gtest/gtest.h"
#include "sim/base/error.h"
#include "sim/model/layer_kinds.h"

namespace llmsim::sim {
namespace {

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

std::string complaint(const std::function<void(Transformer&)>& spoil) {
  Transformer model = tiny();
  spoil(model);
  try {
    model.validate();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Transformer, AValidShapePasses) {
  EXPECT_EQ(complaint([](Transformer&) {}), "");
}

TEST(Transformer, NamesTheFieldTheValueAndTheRange) {
  EXPECT_EQ(complaint([](Transformer& m) { m.num_layers = 0; }),
            "num_layers = 0 is out of range: 1 to 4096");
  EXPECT_EQ(complaint([](Transformer& m) { m.hidden_size = -8; }),
            "hidden_size = -8 is out of range: 1 to 1048576");
  EXPECT_EQ(complaint([](Transformer& m) { m.sliding_window = 0; }),
            "sliding_window = 0 is out of range: 1 to 134217728");
  EXPECT_EQ(complaint([](Transformer& m) { m.norms_per_layer = 5; }),
            "norms_per_layer = 5 is out of range: 1 to 4");
}

TEST(Transformer, KvHeadsMustDivideHeads) {
  EXPECT_EQ(complaint([](Transformer& m) { m.num_kv_heads = 3; }),
            "num_kv_heads = 3 does not divide num_heads = 4 (1, 2, 4 do)");
}

TEST(Transformer, LearnedPositionsMustReachTheSequence) {
  const auto spoil = [](Transformer& m) {
    m.position = Position::Learned;
    m.max_positions = 5;
  };
  EXPECT_EQ(complaint(spoil),
            "seq_len = 6 is longer than the learned position table, max_positions = 5");
}

TEST(Transformer, ATokenCannotVisitMoreExpertsThanThereAre) {
  const auto spoil = [](Transformer& m) {
    m.moe = Moe{.num_experts = 4, .top_k = 5, .expert_ffn_size = 8};
  };
  EXPECT_EQ(complaint(spoil), "moe.top_k = 5 is out of range: 1 to 4");
}

TEST(Transformer, FfnSizeMayBeMissingOnlyWhereEveryLayerIsAMoe) {
  const auto all_moe = [](Transformer& m) {
    m.ffn_size = 0;
    m.moe = Moe{.num_experts = 4, .top_k = 1, .expert_ffn_size = 8};
  };
  const auto one_dense = [&](Transformer& m) {
    all_moe(m);
    m.moe->num_dense_layers = 1;
  };
  EXPECT_EQ(complaint(all_moe), "");
  EXPECT_EQ(complaint(one_dense), "ffn_size = 0: dense layers need a width");
}

TEST(Transformer, MlaNeedsItsRanks) {
  const auto spoil = [](Transformer& m) {
    m.mla = Mla{.qk_nope_head_dim = 4, .qk_rope_head_dim = 2, .v_head_dim = 4};
  };
  EXPECT_EQ(complaint(spoil), "mla.kv_lora_rank = 0 is out of range: 1 to 1048576");
}

// Each size within its range, the GEMM beyond any machine: 4096 layers of a width of 2^20 and an
// MLP of 2^22.
TEST(Transformer, RefusesSizesWhoseProductIsAbsurd) {
  const auto spoil = [](Transformer& m) {
    m.num_layers = 4096;
    m.hidden_size = 1 << 20;
    m.ffn_size = 1 << 22;
  };
  EXPECT_NE(complaint(spoil).find("more than 10^16 parameters"), std::string::npos);
}

TEST(Transformer, MoeLayersFollowTheDenseOnesAtTheirInterval) {
  Transformer m = tiny();
  EXPECT_FALSE(is_moe_layer(m, 0));
  m.moe = Moe{.num_experts = 4,
              .top_k = 1,
              .expert_ffn_size = 8,
              .num_dense_layers = 1,
              .layer_interval = 2};
  EXPECT_FALSE(is_moe_layer(m, 0));
  EXPECT_TRUE(is_moe_layer(m, 1));
  EXPECT_FALSE(is_moe_layer(m, 2));
  EXPECT_TRUE(is_moe_layer(m, 3));
}

TEST(Transformer, TheLastOfEveryIntervalSeesEverything) {
  Transformer m = tiny();
  EXPECT_EQ(window_of_layer(m, 0), std::nullopt);
  m.sliding_window = 3;
  EXPECT_EQ(window_of_layer(m, 1), 3);
  m.sliding_window_interval = 2;
  EXPECT_EQ(window_of_layer(m, 0), 3);
  EXPECT_EQ(window_of_layer(m, 1), std::nullopt);
}

TEST(Transformer, MlaHasItsOwnHeadWidths) {
  Transformer m = tiny();
  EXPECT_EQ(query_head_dim(m), 2);
  EXPECT_EQ(attention_output_width(m), 8);
  m.mla = Mla{.kv_lora_rank = 4, .qk_nope_head_dim = 5, .qk_rope_head_dim = 3, .v_head_dim = 6};
  EXPECT_EQ(query_head_dim(m), 8);           // 5 + 3
  EXPECT_EQ(attention_output_width(m), 24);  // 4 * 6
}

TEST(Transformer, AnEncoderPredictsAShareOfItsTokensAndNoNextOnes) {
  Transformer m = tiny();
  EXPECT_EQ(predicted_share(m), 1.0);
  m.encoder = Encoder{.predicted_share = 0.25};
  EXPECT_EQ(predicted_share(m), 0.25);
  EXPECT_EQ(complaint([](Transformer& t) { t.encoder = Encoder{.predicted_share = 1.5}; }),
            "encoder.predicted_share = 1.5 is out of range: 1e-06 to 1");
  EXPECT_EQ(complaint([](Transformer& t) { t.encoder = Encoder{}, t.mtp_layers = 1; }),
            "mtp_layers = 1: an encoder predicts no next tokens (0)");
}

// Megatron pads 50257 to the next multiple of 128 * tp: 393 * 128 = 50304 and 99 * 512 = 50688.
TEST(Transformer, PadsTheVocabularyForTensorParallelRanks) {
  EXPECT_EQ(padded_vocab_size(50257, 128, 1), 50304);
  EXPECT_EQ(padded_vocab_size(50257, 128, 4), 50688);
  EXPECT_EQ(padded_vocab_size(50304, 128, 1), 50304);
  EXPECT_EQ(padded_vocab_size(50257, 1, 1), 50257);
}

TEST(MoeLayers, AreCountedWithoutLookingAtEach) {
  Transformer model;
  EXPECT_EQ(count_moe_layers(model, 0, 10), 0);
  model.num_layers = 6;  // those after them are of multi-token prediction
  for (const int dense : {0, 1, 3}) {
    for (const int interval : {1, 2, 3, 4, 5, 6}) {
      model.moe = Moe{.num_dense_layers = dense,
                      .num_last_dense_layers = interval > 3 ? interval - 3 : 0,
                      .layer_interval = interval > 3 ? interval - 3 : interval};
      for (int first = 0; first < 8; ++first) {
        for (int count = 0; count < 8; ++count) {
          int sum = 0;
          for (int layer = first; layer < first + count; ++layer)
            sum += is_moe_layer(model, layer) ? 1 : 0;
          EXPECT_EQ(count_moe_layers(model, first, count), sum)
              << dense << " " << interval << " " << first << " " << count;
        }
      }
    }
  }
}

TEST(Transformer, APatternNeedsLetters) {
  EXPECT_EQ(complaint([](Transformer& m) { m.layer_pattern = ""; }),
            "layer_pattern =  has 0 letters, which do not divide num_layers = 2");
}

TEST(FamilyOf, IsTheLettersThatANameStartsWith) {
  EXPECT_EQ(family_of("llama-3-70b"), "llama");
  EXPECT_EQ(family_of("gpt2-xl"), "gpt");
  EXPECT_EQ(family_of("grok"), "grok");
  EXPECT_EQ(family_of(""), "");
}

}  // namespace
}  // namespace llmsim::sim
