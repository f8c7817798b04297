#include "reports/result_text.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace llmsim::reports {
namespace {

std::string layers_of(std::vector<int> layers, int virtual_stages = 1) {
  sim::Strategy strategy;
  strategy.pp = 2, strategy.virtual_stages = virtual_stages;
  const std::string plain = strategy_text(strategy);
  strategy.stage_layers = std::move(layers);
  return strategy_text(strategy).substr(plain.size());
}

TEST(StrategyText, SaysHowManyLayersEachStageOrChunkHas) {
  EXPECT_EQ(layers_of({}), "");
  EXPECT_EQ(layers_of({17, 15}), ", layers 17+15");
  EXPECT_EQ(layers_of({10, 10, 10, 6}), ", 10 layers a stage, 6 in the last");
  EXPECT_EQ(layers_of({10, 10, 10, 6}, 2), ", 10 layers a chunk, 6 in the last");
  EXPECT_EQ(layers_of({7, 10, 10, 9}), ", layers 7+10+10+9");
  // Ten chunks of three.
  EXPECT_EQ(layers_of({2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 0}), ", layers 2+10x3+2+2+0");
}

// Where there are stages and data ranks to be numbered.
TEST(MeshText, NamesAnOrderThatIsNotTheUsual) {
  sim::Strategy s;
  s.tp = 2, s.pp = 4, s.mesh_order = sim::MeshOrder::DataLast;
  EXPECT_EQ(mesh_text(s), "tp 2, pp 4");
  s.dp = 4;
  EXPECT_EQ(mesh_text(s), "tp 2, pp 4, dp 4, tp-cp-ep-pp-dp");
}

}  // namespace
}  // namespace llmsim::reports
