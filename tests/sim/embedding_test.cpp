#include "sim/operators/embedding_and_head.h"

#include <string_view>

#include <gtest/gtest.h>

#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

double moved_by(const OperatorList& operators, std::string_view label) {
  double sum = 0.0;
  for (const Operator& op : operators) sum += op.label == label ? op.moved.value() : 0.0;
  return sum;
}

// t = 2 sequences of tokens, h wide, 2 bytes: the stream is read and written, the table of one
// sequence is read; backward the stream is read and a sum over the sequences written, which is then
// read and added to what was accumulated.
TEST(Embedding, LearnedPositionsAreAddedApartWhereAFrameworkDoes) {
  TrainingRun run = small_run();
  run.model.position = Position::Learned;
  run.strategy.micro_batch = 2;
  const double table = 2.0 * run.model.seq_len * run.model.hidden_size;
  EXPECT_EQ(moved_by(lower_embedding(run.model, run.strategy, run.framework).forward, "positions"),
            0.0);
  run.framework.separate_position_kernel = true;
  const LayerOperators ends = lower_embedding(run.model, run.strategy, run.framework);
  EXPECT_DOUBLE_EQ(moved_by(ends.forward, "positions"), (2.0 * 2.0 + 1.0) * table);
  EXPECT_DOUBLE_EQ(moved_by(ends.backward, "positions"), (2.0 + 4.0) * table);
  run.model.position = Position::Rope;
  EXPECT_EQ(moved_by(lower_embedding(run.model, run.strategy, run.framework).forward, "positions"),
            0.0);
}

// V h values read in fp32 and written in 16 bits; a tied table is cast for the head.
TEST(Embedding, TablesAreCastInBothPassesWhereAFrameworkDoes) {
  TrainingRun run = small_run();
  run.model.tied_embeddings = false;
  run.framework.casts_weights_per_microbatch = run.framework.casts_weights_in_backward = true;
  const double cast = 6.0 * run.model.vocab_size * run.model.hidden_size;
  const LayerOperators apart = lower_embedding(run.model, run.strategy, run.framework);
  EXPECT_DOUBLE_EQ(moved_by(apart.forward, "weight_cast"), cast);
  EXPECT_DOUBLE_EQ(moved_by(apart.backward, "weight_cast"), cast);
  run.model.tied_embeddings = true;
  EXPECT_EQ(
      moved_by(lower_embedding(run.model, run.strategy, run.framework).forward, "weight_cast"),
      0.0);
}

}  // namespace
}  // namespace llmsim::sim
