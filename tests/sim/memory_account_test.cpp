#include "sim/memory/memory_account.h"

#include <gtest/gtest.h>

#include "sim/memory/stage_bytes.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

TEST(MemoryTerms, TellWhatIsThereAndAddUp) {
  MemoryTerms terms;
  EXPECT_EQ(terms.total(), Bytes(0.0));
  EXPECT_TRUE(terms.present().empty());
  terms[MemoryKind::Framework] = Bytes(1.0), terms[MemoryKind::Weights] = Bytes(4.0);
  EXPECT_EQ(terms.total(), Bytes(5.0));
  ASSERT_EQ(terms.present().size(), 2U);
  EXPECT_STREQ(terms.present()[0].name, "weights");
  EXPECT_EQ(terms.present()[0].size, Bytes(4.0));
  EXPECT_STREQ(terms.present()[1].name, "framework");
}

TEST(Account, RemembersTheMostThatEverWas) {
  Account<double> account;
  account.take(MemoryKind::Weights, Bytes(10.0));
  account.run(5.0, 2.0);  // 15, then 12
  account.give(MemoryKind::Weights, Bytes(4.0));
  account.at(3);
  account.pass(MemoryKind::Temporaries, Bytes(9.0));  // 17, then 8
  EXPECT_EQ(account.now(), 8.0);
  EXPECT_EQ(account.highest().total, 17.0);
  EXPECT_EQ(account.highest().layer, 3);
  account.at(kLossLayer);
  account.take(MemoryKind::Logits, Bytes(1.0));
  EXPECT_EQ(account.of_loss().total, 9.0);
  EXPECT_EQ(account.of_layers().total, 17.0);
}

TEST(Account, OfTermsSaysWhatWasThere) {
  Account<MemoryTerms> account;
  account.take(MemoryKind::Weights, Bytes(10.0));
  account.pass(MemoryKind::Temporaries, Bytes(9.0));
  account.take(MemoryKind::Activations, Bytes(1.0));
  EXPECT_EQ(account.highest().amount[MemoryKind::Temporaries], Bytes(9.0));
  EXPECT_EQ(account.highest().amount[MemoryKind::Activations], Bytes(0.0));
  EXPECT_EQ(account.now().total(), Bytes(11.0));
}

// Of N parameters weights and gradients of 2 bytes, master weights of 4 and states of 8.
TEST(LastingTerms, AreThoseOfAnIdleStage) {
  TrainingRun run = small_run();
  run.framework.storage.weight_bytes = run.framework.storage.gradient_bytes = 2.0;
  run.framework.storage.master_bytes = 4.0, run.framework.storage.state_bytes = 4.0;
  const StageBytes bytes = stage_bytes(run, StageContents(run), 0);
  const auto count = static_cast<double>(parameters(run.model).total());
  run.framework.gradients.persist = true;
  const MemoryTerms terms = lasting_terms(bytes, run.framework);
  EXPECT_DOUBLE_EQ((terms.total() - bytes.workspaces - bytes.framework).value(), 16.0 * count);
  EXPECT_EQ(terms[MemoryKind::Activations], Bytes(0.0));
  run.framework.gradients.persist = false;
  EXPECT_DOUBLE_EQ((terms.total() - lasting_terms(bytes, run.framework).total()).value(),
                   2.0 * count);
}

}  // namespace
}  // namespace llmsim::sim
