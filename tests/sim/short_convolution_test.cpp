// Short convolutions as LFM2 has them: weights, operators, tensors.
#include "sim/operators/short_convolution.h"
#include "gtest/gtest.h"
#include "sim/model/layer_kinds.h"
#include "sim/operators/block.h"
#include "sim/predict.h"
#include "sim/strategy/validity.h"
#include "tests/sim/operator_lists.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

constexpr LayerKind kConvolution{.mixer = Mixer::ShortConvolution, .mlp = LayerMlp::None};

// Width 1024; three layers of four convolve over three tokens, and there are no MLPs.
TrainingRun convolution_run(int num_devices = 1) {
  TrainingRun run = small_run(num_devices);
  run.model.norm = Norm::RmsNorm;
  run.model.layer_pattern = "CCC*";
  run.model.ffn_size = 0;
  run.model.short_convolution = ShortConvolution{.channels = 1024, .conv_kernel = 3};
  return run;
}

LayerOperators convolution_block(const TrainingRun& run) {
  return lower_block(run.model, run.strategy, run.framework, RecomputeKind::None, kConvolution);
}

std::int64_t mixer_parameters(const TrainingRun& run) {
  std::int64_t sum = 0;
  for (const LayerWeight& weight : layer_weights(run.model, kConvolution))
    sum += weight.parameters();
  return sum;
}

// A norm; three values of each channel; three weights a channel; the output.  Biases of all three.
TEST(ShortConvolutionWeights, AreThoseOfTheMixer) {
  TrainingRun run = convolution_run();
  EXPECT_EQ(mixer_parameters(run), 1024 + 1024 * 3072 + 1024 * 3 + 1024 * 1024);
  run.model.short_convolution->bias = true;
  EXPECT_EQ(mixer_parameters(run),
            1024 + 1024 * 3072 + 1024 * 3 + 1024 * 1024 + 3072 + 1024 + 1024);
}

TEST(ShortConvolutionOperators, AreTwoGemmsAndElementwise) {
  TrainingRun run = convolution_run(8);
  const LayerOperators whole = convolution_block(run);
  const double t = run.strategy.micro_batch * static_cast<double>(run.model.seq_len);
  EXPECT_DOUBLE_EQ(gemm_flops(whole.forward), 2.0 * t * (1024 * 3072 + 1024 * 1024));
  EXPECT_DOUBLE_EQ(named(whole.forward, "conv1d").moved.value(), 2.0 * 2.0 * t * 1024);
  EXPECT_NEAR(predict(run).hardware_flops / predict(run).model_flops, 1.0, 1e-9);
  run.strategy.tp = 8, run.strategy.dp = 1;
  const LayerOperators divided = convolution_block(run);
  for (const char* label : {"conv1d", "input_gate", "output_gate"})
    EXPECT_DOUBLE_EQ(named(divided.forward, label).moved.value(),
                     named(whole.forward, label).moved.value() / 8.0)
        << label;
}

// Saved of t tokens in 16 bits: the input of the norm and of the projection (1024 each), b, c and x
// (3072), what is convolved, the convolution, and what is projected (1024 each); a deviation a row.
TEST(ShortConvolutionTensors, ThatAreSavedAreThoseOfAutograd) {
  const TrainingRun run = convolution_run();
  const double t = run.strategy.micro_batch * static_cast<double>(run.model.seq_len);
  EXPECT_DOUBLE_EQ(saved_by_block(run, RecomputeKind::None, kConvolution).value(),
                   2.0 * t * (2 * 1024 + 3072 + 3 * 1024) + 4.0 * t);
}

TEST(ShortConvolutionRules, TensorRanksDivideTheChannels) {
  TrainingRun run = convolution_run(8);
  run.strategy.tp = 8, run.strategy.dp = 1;
  EXPECT_FALSE(broken_rule(run.model, run.strategy, run.cluster));
  run.model.short_convolution->channels = 1020;
  EXPECT_EQ(broken_rule(run.model, run.strategy, run.cluster)->message,
            "tp = 8 does not divide short_convolution.channels = 1020 (nearest: 6 or 10)");
}

}  // namespace
}  // namespace llmsim::sim
