// The simulator's tensors of one block, pass by pass, against counted allocations.
//
// A step has one peak, which most of what its passes allocate does not reach: a copy that is half
// as large as it should be goes unnoticed there.  Here each pass has its own.
#include <string>
#include <tuple>
#include <utility>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "runtime/kernels/attention.h"
#include "runtime/library/memory_meter.h"
#include "runtime/model/block.h"
#include "runtime/model/layer_parameters.h"
#include "sim/model/layer_kinds.h"
#include "sim/operators/block.h"
#include "sim/operators/layer_memory.h"
#include "tests/runtime/divided_setup.h"
#include "tests/runtime/simulated_run.h"
#include "tests/runtime/training_setup.h"

namespace llmsim::runtime {
namespace {

// What makes the copies of heads the most that a pass holds: heads that are wide beside the
// residual stream, the MLP and the sequence.
// (SquareHeads: as wide as these.)
enum class Shape { Usual, SquareHeads, WideHeads, WidePositions };

using Case = std::tuple<Family, Shape, sim::Precision, bool>;  // ..., flash attention

class MemoryOfABlock : public testing::TestWithParam<Case> {};

void widen(sim::Transformer& model, Shape shape) {
  if (shape == Shape::Usual) return;
  const bool positions = shape == Shape::WidePositions;
  model.hidden_size = model.ffn_size = model.seq_len = 16;
  model.head_dim = shape == Shape::SquareHeads ? 16 : 64;
  if (!model.mla) return;
  model.mla->qk_nope_head_dim = positions ? 2 : 64,
  model.mla->qk_rope_head_dim = positions ? 64 : 8;
  model.mla->v_head_dim = positions ? 2 : 64, model.mla->kv_lora_rank = 4;
  if (model.mla->q_lora_rank) model.mla->q_lora_rank = 4;
  model.head_dim = sim::query_head_dim(model);
}

TrainingSetup setup_of(const Case& parameters) {
  const auto& [family, shape, precision, flash] = parameters;
  TrainingSetup setup = small_training(family);
  setup.device = c10::kMeta;
  widen(setup.model, shape);
  setup.strategy.precision = precision;
  setup.strategy.flash_attention = flash;
  setup.strategy.micro_batch = setup.strategy.global_batch = 2;
  return setup;
}

at::TensorOptions options_of(const TrainingSetup& setup) {
  const bool wide = setup.strategy.precision == sim::Precision::Fp32;
  return at::TensorOptions(wide ? at::kFloat : at::kBFloat16).device(setup.device);
}

// Of one process.
BlockContext context_of(const TrainingSetup& setup) {
  const sim::Transformer& model = setup.model;
  BlockContext context;
  context.model = model;
  context.shape = rank_shape(model, setup.strategy, {});
  context.blockwise_attention = setup.strategy.flash_attention;
  context.mask = causal_mask(model.seq_len, model.seq_len, options_of(setup));
  const std::int64_t dim = model.mla ? context.shape.mla.rotary : model.head_dim;
  if (model.position == sim::Position::Rope)
    context.rotary = rotary_table(model.seq_len, dim, options_of(setup));
  return context;
}

struct Counted {
  double rise, net;
};

// Runs one pass, and what it held over what there was before.
template <class Pass>
Counted counted(const Pass& pass) {
  const std::int64_t before = held_bytes(MeteredDevice::Meta).now;
  reset_peak(MeteredDevice::Meta);
  pass();
  const HeldBytes after = held_bytes(MeteredDevice::Meta);
  return {.rise = static_cast<double>(after.peak - before),
          .net = static_cast<double>(after.now - before)};
}

void expect_equal(const Counted& actual, const sim::PassBytes& expected, const std::string& name) {
  EXPECT_EQ(actual.rise, expected.rise.total().value()) << name;
  EXPECT_EQ(actual.net, expected.net.total().value()) << name;
}

// Of a pass that will be repeated the runtime frees tensors where its functions end, the simulator
// where they have been read for the last time: up to what a pass holds that saves all.
void expect_between(const Counted& actual, const sim::PassBytes& expected,
                    const sim::PassBytes& saving, const std::string& name) {
  EXPECT_GE(actual.rise, expected.rise.total().value()) << name;
  EXPECT_LE(actual.rise, saving.rise.total().value()) << name;
  EXPECT_EQ(actual.net, expected.net.total().value()) << name;
}

TEST_P(MemoryOfABlock, IsWhatTheAllocatorsCountedInEachPass) {
  const TrainingSetup setup = setup_of(GetParam());
  const BlockContext context = context_of(setup);
  const at::TensorOptions options = options_of(setup);
  ParameterUnit unit("block", block_parameters(context, sim::LayerKind::Dense, ""), 1);
  unit.weights = at::empty({unit.numel()}, options);
  unit.gradients = at::empty({unit.numel()}, options);
  const Block block(context, unit);
  const sim::Run run = simulated_run(setup);
  for (const sim::Recompute& recompute : all_recomputes()) {
    if (recompute.kind == sim::RecomputeKind::EveryN) continue;  // a mix of blocks
    const sim::LayerGraph layer =
        sim::lower_block(run.model, run.strategy, run.framework, recompute.kind);
    const sim::Recomputation repeated =
        sim::recomputation_of(layer, recompute, run.model, run.framework, sim::LayerKind::Dense);
    at::Tensor x = at::empty({context.shape.tokens(), context.shape.hidden}, options), y, dx;
    BlockTape tape;
    const Counted forward = counted([&] { y = block.forward(std::move(x), tape, recompute); });
    if (repeated.from_input)
      expect_between(forward, forward_bytes(layer, repeated),
                     forward_bytes(layer, no_recomputation(layer)),
                     sim::text_of(recompute) + ", forward");
    else
      expect_equal(forward, forward_bytes(layer, repeated), sim::text_of(recompute) + ", forward");
    expect_equal(counted([&] { dx = block.backward(std::move(y), std::move(tape)); }),
                 backward_bytes(layer, repeated), sim::text_of(recompute) + ", backward");
  }
}

const auto kPrecisions = testing::Values(sim::Precision::Fp32, sim::Precision::Bf16);

std::string name_of_case(const testing::TestParamInfo<Case>& tested) {
  const auto& [family, shape, precision, flash] = tested.param;
  const char* shapes[] = {"usual", "square_heads", "wide_heads", "wide_positions"};
  return std::string(name_of(family)) + "_" + shapes[static_cast<int>(shape)] + "_" +
         sim::name_of(precision) + (flash ? "_flash" : "_unfused");
}

INSTANTIATE_TEST_SUITE_P(Plain, MemoryOfABlock,
                         testing::Combine(testing::Values(Family::Gpt2, Family::Llama),
                                          testing::Values(Shape::Usual, Shape::SquareHeads,
                                                          Shape::WideHeads),
                                          kPrecisions, testing::Bool()),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Mla, MemoryOfABlock,
                         testing::Combine(testing::Values(Family::Mla, Family::MlaDirect),
                                          testing::Values(Shape::Usual, Shape::WideHeads,
                                                          Shape::WidePositions),
                                          kPrecisions, testing::Bool()),
                         name_of_case);

}  // namespace
}  // namespace llmsim::runtime
