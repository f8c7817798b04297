#include "sim/operators/embedding_and_head.h"

#include <string_view>

#include <gtest/gtest.h>

#include "sim/memory/shards.h"
#include "sim/model/flops.h"
#include "sim/operators/block.h"
#include "sim/operators/recomputation.h"
#include "tests/sim/operator_lists.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

TrainingRun encoder_run() {
  TrainingRun run = small_run();
  run.model.position = Position::Learned;
  run.model.tied_embeddings = true;
  run.model.final_norm = false;
  run.model.embedding_norm = true;
  run.model.bias = Biases::gpt();
  run.model.encoder = Encoder{.predicted_share = 0.125, .segment_types = 2, .next_sentence = true};
  return run;
}

const Operator& labelled(const OperatorList& operators, std::string_view label) {
  for (const Operator& op : operators) {
    if (op.label == label) return op;
  }
  throw std::runtime_error("no such operator");
}

// One sequence of 1024 tokens, h = 1024: 128 rows pass h^2 and the logits, one passes h^2 + 2 h.
TEST(EncoderHead, OnlyPredictedTokensPassIt) {
  const TrainingRun run = encoder_run();
  const LayerOperators head = lower_head(run.model, run.strategy, run.framework);
  const double gemms = 128.0 * 1024 * (1024 + run.model.vocab_size) + 1024.0 * 1024 + 2.0 * 1024;
  EXPECT_DOUBLE_EQ(total_flops(head.forward) / FLOP, 2.0 * gemms);
  EXPECT_DOUBLE_EQ(total_flops(head.backward) / FLOP, 4.0 * gemms);
}

// Inputs of dense layer, activation and norm for each predicted row, of pooler, tanh and the two
// classes for each sequence, in two bytes; a row has its logits too, and a copy in fp32.
TEST(EncoderHead, SavesInputsOfItsLayers) {
  TrainingRun run = encoder_run();
  const auto saved = [&] {
    return saved_bytes(lower_head(run.model, run.strategy, run.framework)).value();
  };
  const double both = saved(), row = 3.0 * 1024 * 2 + run.model.vocab_size * (2.0 + 4.0);
  run.model.encoder->next_sentence = false;
  EXPECT_DOUBLE_EQ(both - saved(), 3.0 * 1024 * 2);
  const double few = saved(), share = run.model.encoder->predicted_share;
  run.model.encoder->predicted_share = 2.0 * share;
  EXPECT_DOUBLE_EQ(saved() - few, 128.0 * row);
}

TEST(EncoderHead, LogitsAreOfPredictedTokens) {
  TrainingRun run = encoder_run();
  const Operator logits =
      labelled(lower_head(run.model, run.strategy, run.framework).forward, "head");
  EXPECT_EQ(logits.m, 128);
  EXPECT_EQ(logits.n, run.model.vocab_size);
  run.model.encoder->predicted_share = 1.0;
  EXPECT_EQ(labelled(lower_head(run.model, run.strategy, run.framework).forward, "head").m, 1024);
}

TEST(EncoderHead, AtLeastOneTokenIsPredicted) {
  const TrainingRun run = encoder_run();
  EXPECT_EQ(predicted_of(run.model, 100), 13);  // 12.5 rounded
  EXPECT_EQ(predicted_of(run.model, 2), 1);
}

// The operators of all blocks and the head are the FLOPs that the model's shape promises.
TEST(EncoderHead, OperatorsAddUpToTheModel) {
  const TrainingRun run = encoder_run();
  const LayerOperators block =
      lower_block(run.model, run.strategy, run.framework, RecomputeKind::None);
  const LayerOperators head = lower_head(run.model, run.strategy, run.framework);
  const double flops =
      run.model.num_layers * (total_flops(block.forward) / FLOP) + total_flops(head.forward) / FLOP;
  EXPECT_NEAR(flops / (1024.0 * (forward_flops_per_token(run.model, true) / FLOP)), 1.0, 1e-12);
}

// Both ends of a tied model on one part hold every parameter but those of the blocks once; the bias
// of the logits is not counted.
TEST(EncoderHead, ItsLayersStandBesideTheTable) {
  const TrainingRun run = encoder_run();
  const RankParameters rank = rank_parameters(run.model, run.strategy);
  const ModelChunk whole{.blocks = run.model.num_layers,
                         .embedding = true,
                         .head = true,
                         .of_kind = {run.model.num_layers}};
  EXPECT_DOUBLE_EQ(rank.held(whole), static_cast<double>(parameters(run.model).total()));
  EXPECT_DOUBLE_EQ(rank.head_layers, static_cast<double>(undivided_head_parameters(run.model)));
}

TEST(EncoderHead, SegmentsAreAddedToTheEmbedding) {
  TrainingRun run = encoder_run();
  const auto moved = [&] {
    return total(lower_embedding(run.model, run.strategy, run.framework).forward, &Operator::moved)
        .value();
  };
  const double with = moved();
  run.model.encoder->segment_types = 0;
  EXPECT_DOUBLE_EQ(with - moved(), 4.0 * 1024 * 1024 * 2.0);  // written, both read, the sum written
}

}  // namespace
}  // namespace llmsim::sim
