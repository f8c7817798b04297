// Heads of labels in the place of the vocabulary's: rewards, classes, and no head at all.
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/memory/shards.h"
#include "sim/model/flops.h"
#include "sim/operators/embedding_and_head.h"
#include "sim/operators/recomputation.h"
#include "sim/predict.h"
#include "tests/sim/operator_lists.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

TrainingRun labelled_run(int num_labels, int num_devices = 1) {
  TrainingRun run = small_run(num_devices);
  run.model.tied_embeddings = false;
  run.model.num_labels = num_labels;
  return run;
}

LayerGraph head_of(const TrainingRun& run) {
  return lower_head(run.model, run.strategy, run.framework);
}

// Width 1024: a reward has a row of the head, and a bias where the class has one; the table of the
// embedding stays.
TEST(LabelHead, HasARowForEachLabel) {
  TrainingRun run = labelled_run(3);
  EXPECT_EQ(parameters(run.model).head, 3 * 1024);
  run.model.bias.head = true;
  EXPECT_EQ(parameters(run.model).head, 3 * 1024 + 3);
  EXPECT_EQ(parameters(run.model).embedding, 1024LL * run.model.vocab_size);
  EXPECT_EQ(parameters(labelled_run(0).model).head, 0);
}

// An encoder's pooler is (1024, 1024) with a bias, and there is no layer before a vocabulary.
TEST(LabelHead, OfAnEncoderMayHaveAPooler) {
  TrainingRun run = labelled_run(2);
  run.model.final_norm = false, run.model.bias.head = true;
  run.model.encoder = Encoder{.predicted_share = 0.125, .next_sentence = true};
  EXPECT_EQ(parameters(run.model).head, 1024 * 1024 + 1024 + 2 * 1024 + 2);
  // One row a sequence passes both, of 1024 tokens.
  EXPECT_DOUBLE_EQ(head_flops_per_token(run.model) / FLOP, 2.0 * (1024.0 * 1024 + 2048) / 1024);
  EXPECT_DOUBLE_EQ(gemm_flops(head_of(run).forward), 2.0 * (1024.0 * 1024 + 2048));
  run.model.encoder->next_sentence = false;
  EXPECT_EQ(parameters(run.model).head, 2 * 1024 + 2);
  EXPECT_DOUBLE_EQ(gemm_flops(head_of(run).forward), 2.0 * 1024 * 2048);
}

TEST(LabelHead, EveryTokenPassesIt) {
  const TrainingRun run = labelled_run(2);
  EXPECT_DOUBLE_EQ(head_flops_per_token(run.model) / FLOP, 2.0 * 2 * 1024);
  EXPECT_DOUBLE_EQ(gemm_flops(head_of(run).forward), 2.0 * 1024 * 2 * 1024);
  EXPECT_DOUBLE_EQ(gemm_flops(head_of(labelled_run(0)).forward), 0.0);
  EXPECT_NEAR(predict(run).hardware_flops / predict(run).model_flops, 1.0, 1e-9);
}

// Two 16-bit logits of a token and what their GEMM reads; the norm's own is there in both.
TEST(LabelHead, SavesItsInputAndFewLogits) {
  const double none = saved_bytes(head_of(labelled_run(0))).value(),
               two = saved_bytes(head_of(labelled_run(2))).value();
  EXPECT_DOUBLE_EQ(two - none, 1024 * (1024 * 2.0 + 2 * 2.0));
}

// Tensor ranks have all labels; with sequence parallelism each works on its own tokens.
TEST(LabelHead, IsNotDivided) {
  TrainingRun run = labelled_run(3, 8);
  run.strategy.tp = 8, run.strategy.dp = 1;
  const RankParameters rank = rank_parameters(run.model, run.strategy);
  EXPECT_DOUBLE_EQ(rank.head, 3 * 1024.0 + static_cast<double>(norm_parameters(run.model)));
  EXPECT_DOUBLE_EQ(rank.head, rank.head_layers);
  EXPECT_DOUBLE_EQ(gemm_flops(head_of(run).forward), 2.0 * 1024 * 3 * 1024);
  run.strategy.sequence_parallel = true;
  EXPECT_DOUBLE_EQ(gemm_flops(head_of(run).forward), 2.0 * 128 * 3 * 1024);
}

// The logits of a vocabulary need more memory and time than those of a reward.
TEST(LabelHead, CostsLessThanAVocabulary) {
  const Prediction reward = predict(labelled_run(1));
  TrainingRun vocabulary = labelled_run(1);
  vocabulary.model.num_labels.reset();
  EXPECT_LT(reward.memory.peak, predict(vocabulary).memory.peak);
  EXPECT_LT(reward.step_time, predict(vocabulary).step_time);
}

TEST(LabelHead, SharesNoTableAndPredictsNoTokens) {
  TrainingRun run = labelled_run(1);
  run.model.tied_embeddings = true;
  EXPECT_THROW(run.model.validate(), Error);
  run.model.tied_embeddings = false, run.model.mtp_layers = 1;
  EXPECT_THROW(run.model.validate(), Error);
}

}  // namespace
}  // namespace llmsim::sim
