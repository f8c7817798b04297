#include "sim/memory/peak_tensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "sim/memory/footprint.h"
#include "tests/share.h"
#include "tests/sim/random_run.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

const PeakTensor* find(const std::vector<PeakTensor>& tensors, std::string_view name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const PeakTensor& one) { return one.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

// 1024 tokens of width 1024 in two bytes, 8 blocks on one device: at the loss each block has its
// queries, and the MLP's input and activation, four times as wide.
TEST(PeakTensors, EachBlockHasWhatItSaves) {
  const std::vector<PeakTensor> tensors = peak_tensors(small_run(), 0);
  const PeakTensor* q = find(tensors, "q");
  ASSERT_NE(q, nullptr);
  EXPECT_EQ(q->size, Bytes(8.0 * 1024.0 * 1024.0 * 2.0));
  EXPECT_EQ(q->count(), 8.0);
  EXPECT_EQ(q->use, TensorUse::Saved);
  EXPECT_EQ(q->module, Module::CoreAttention);
  const PeakTensor* up = find(tensors, "up");
  ASSERT_NE(up, nullptr);
  EXPECT_EQ(up->size, 4.0 * q->size);
  EXPECT_EQ(up->module, Module::Activation);
}

// Under full recomputation blocks save their inputs alone.
TEST(PeakTensors, FullRecomputationLeavesTheStream) {
  TrainingRun run = small_run();
  run.strategy.recompute = *recompute_from("full");
  const std::vector<PeakTensor> tensors = peak_tensors(run, 0);
  EXPECT_EQ(find(tensors, "q"), nullptr);
  const PeakTensor* stream = find(tensors, kResidualStream);
  ASSERT_NE(stream, nullptr);
  EXPECT_EQ(stream->count(), 9.0);  // inputs of 8 blocks and of the final norm
}

// The list is another view of what memory_footprint says: of every stage of random runs.
TEST(PeakTensors, AddUpToThePeakOfEachStage) {
  int runs = 0;
  for (unsigned seed = 0; seed < share_of(800); ++seed) {
    const std::optional<TrainingRun> run = random_run(seed);
    if (!run) continue;
    ++runs;
    const Memory memory = memory_footprint(*run, layer_bytes(*run));
    for (const StageMemory& stage : memory.stages) {
      Bytes sum;
      Bytes before{std::numeric_limits<double>::infinity()};
      for (const PeakTensor& tensor : peak_tensors(*run, stage.stage)) {
        sum += tensor.size;
        EXPECT_LE(tensor.size, before);
        EXPECT_GE(std::abs(tensor.size.value()), 0.5);  // what has gone is not listed
        before = tensor.size;
      }
      EXPECT_NEAR(sum.value(), stage.peak.value(), 1e-9 * stage.peak.value() + 16.0)
          << seed << ", stage " << stage.stage;
    }
  }
  EXPECT_GT(runs, static_cast<int>(share_of(80)));
}

}  // namespace
}  // namespace llmsim::sim
