// Embeddings of n-grams as LongCat-Flash-Lite has them.
#include <gtest/gtest.h>

#include "sim/memory/shards.h"
#include "sim/model/flops.h"
#include "sim/operators/embedding_and_head.h"
#include "sim/predict.h"
#include "tests/sim/operator_lists.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

TrainingRun ngram_run(int num_devices = 1) {
  TrainingRun run = small_run(num_devices);
  run.model.ngram_embedding = NgramEmbedding{.num_tables = 4, .vocab_size = 1000, .width = 256};
  return run;
}

// Tables of 1001, 1003, 1005 and 1007 rows of 256, each with a projection to 1024.
TEST(NgramEmbeddings, HaveTablesAndProjections) {
  TrainingRun run = ngram_run();
  const std::int64_t with = parameters(run.model).total();
  run.model.ngram_embedding.reset();
  EXPECT_EQ(with - parameters(run.model).total(),
            (1001 + 1003 + 1005 + 1007) * 256 + 4 * 256 * 1024);
}

TEST(NgramEmbeddings, AreGemmsOfEachRow) {
  const TrainingRun run = ngram_run();
  EXPECT_DOUBLE_EQ(gemm_flops(lower_embedding(run.model, run.strategy, run.framework).forward),
                   2.0 * 1024 * 4 * 256 * 1024);
  EXPECT_NEAR(predict(run).hardware_flops / predict(run).model_flops, 1.0, 1e-9);
}

// Tensor ranks share out the rows, not the projections.
TEST(NgramEmbeddings, TensorRanksDivideTables) {
  TrainingRun run = ngram_run(8);
  const double one = rank_parameters(run.model, run.strategy).embedding;
  run.strategy.tp = 8, run.strategy.dp = 1;
  const double tables = 1024.0 * run.model.vocab_size + 4016.0 * 256;
  EXPECT_DOUBLE_EQ(one - rank_parameters(run.model, run.strategy).embedding, tables * 7 / 8);
}

}  // namespace
}  // namespace llmsim::sim
