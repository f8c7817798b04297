#include "sim/explain.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "sim/cost/layer_prices.h"
#include "sim/predict.h"
#include "tests/catalogue.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

// On nodes of eight devices of which every coefficient takes something.
TrainingRun uneven_run(const char* model, int num_devices) {
  TrainingRun run;
  run.model = find_model(model)->model;
  run.cluster = ideal_cluster(num_devices);
  Device& device = run.cluster.device;
  device.matrix_peak.fill(989.4 * TFLOPS);
  device.memory_bandwidth = 3.35 * TBps;
  device.memory = device.usable_memory = 4000.0 * GiB;  // everything fits
  device.compute_units = 132;
  device.achieved = Achieved{};
  device.achieved.training_rate = 0.98;
  device.achieved.sustained_clock = 0.9;
  run.cluster.fabric.latency = 3.4 * us;
  run.cluster.network.latency = 14.0 * us;
  run.strategy.dp = num_devices;
  run.strategy.global_batch = 8 * num_devices;
  run.framework.efficiency = 0.95;
  run.framework.gemm_efficiency = 0.97;
  run.framework.determinism.attention_backward = 0.8;
  return run;
}

TrainingRun deepseek_run() {
  TrainingRun run = uneven_run("deepseek-v3", 64);
  run.strategy.ep = 32;
  return run;
}

std::vector<TrainingRun> runs() {
  TrainingRun eight_bits = uneven_run("llama-3-8b", 8);
  eight_bits.strategy.precision = Precision::Fp8;
  eight_bits.framework.low_precision.gemm_efficiency = 0.9;
  TrainingRun divided = uneven_run("llama-3-8b", 16);
  divided.strategy.tp = 8, divided.strategy.dp = 2;
  return {uneven_run("gpt2", 8), uneven_run("llama-3-8b", 8), deepseek_run(), eight_bits, divided};
}

template <typename Kernel>
double product_of_factors(const Kernel& kernel) {
  double product = 1.0;
  for (const RateFactor& factor : rate_factors(kernel)) product *= factor.value;
  return product;
}

TEST(ExplainedGemms, FactorsMultiplyUpToTheAchievedRate) {
  for (const TrainingRun& run : runs()) {
    const std::vector<ExplainedGemm> gemms = explained_gemms(run);
    EXPECT_GE(gemms.size(), 12u) << run.model.name;
    for (const ExplainedGemm& gemm : gemms) {
      EXPECT_NEAR(product_of_factors(gemm) * (gemm.alone.peak / gemm.rate()), 1.0, 1e-9)
          << run.model.name << " " << gemm.op.label << " " << name_of(gemm.pass);
    }
  }
}

TEST(ExplainedAttention, FactorsMultiplyUpToTheAchievedRate) {
  for (const TrainingRun& run : runs()) {
    const std::vector<ExplainedAttention> kernels = explained_attention(run);
    EXPECT_EQ(kernels.size(), 2u) << run.model.name;
    for (const ExplainedAttention& kernel : kernels) {
      EXPECT_NEAR(product_of_factors(kernel) * (kernel.alone.peak / kernel.rate()), 1.0, 1e-9)
          << run.model.name << " " << name_of(kernel.pass);
    }
  }
}

TEST(Explained, TimesAreThoseOfTheStep) {
  const TrainingRun run = uneven_run("llama-3-8b", 8);
  Seconds forward, backward;
  for (const ExplainedGemm& gemm : explained_gemms(run)) {
    if (std::string(gemm.op.label) != "head")
      (gemm.pass == KernelPass::Forward ? forward : backward) += gemm.time();
  }
  const BlockPrice block = layer_prices(run).blocks[0];
  EXPECT_NEAR(forward / block.forward.gemm, 1.0, 1e-12);
  EXPECT_NEAR(backward / block.backward.gemm, 1.0, 1e-12);
  const std::vector<ExplainedAttention> attention = explained_attention(run);
  EXPECT_NEAR(attention.at(0).time() / block.forward.attention, 1.0, 1e-12);
  EXPECT_NEAR(attention.at(1).time() / block.backward.attention, 1.0, 1e-12);
}

TEST(ExplainedGemms, EachShapeOfAPassIsThereOnce) {
  // Recomputation makes no GEMM that the forward pass has not.
  TrainingRun run = uneven_run("gpt2", 8);
  const std::size_t kept = explained_gemms(run).size();
  // Qkv, attention output, MLP up and down, head: forward, dgrad and wgrad.
  EXPECT_EQ(kept, 5u * 3u);
  run.strategy.recompute.kind = RecomputeKind::Full;
  EXPECT_EQ(explained_gemms(run).size(), kept);
}

TEST(ExplainedGemms, HaveThoseOfExperts) {
  std::map<std::string, int> passes;
  for (const ExplainedGemm& gemm : explained_gemms(deepseek_run())) ++passes[gemm.op.label];
  for (const char* label : {"expert_up", "expert_down", "router", "shared_up", "mlp_up", "head"})
    EXPECT_EQ(passes[label], 3) << label;
}

TEST(ExplainedAttention, IsEmptyWhereItIsMadeOfGemms) {
  TrainingRun run = uneven_run("gpt2", 8);
  run.strategy.flash_attention = false;
  EXPECT_TRUE(explained_attention(run).empty());
  EXPECT_GT(explained_gemms(run).size(), 15u);
}

struct Sum {
  double calls = 0.0;
  Bytes bytes;
  Seconds time;
};

// By kind and group the calls are those of the prediction.
void expect_communication(const TrainingRun& run) {
  const Prediction prediction = predict(run);
  ASSERT_TRUE(prediction.feasible()) << prediction.infeasible->message;
  std::map<std::string, Sum> explained, predicted;
  for (const ExplainedCollective& one : explained_collectives(prediction.run)) {
    Sum& sum = explained[std::string(name_of(one.call.kind)) + " " + name_of(one.call.group)];
    sum.calls += one.call.calls, sum.bytes += one.call.calls * one.call.message,
        sum.time += one.call.calls * one.terms.time;
    EXPECT_NEAR((one.terms.alpha + one.terms.beta()) / one.terms.time, 1.0, 1e-12);
    EXPECT_NEAR(one.busbw() / one.algbw(), bus_factor(one.call.kind, one.place.ranks), 1e-12);
  }
  for (const CommunicationTerm& term : prediction.communication) {
    Sum& sum = predicted[std::string(term.collective) + " " + term.group];
    sum.calls += term.count, sum.bytes += term.size, sum.time += term.time;
  }
  EXPECT_EQ(explained.size(), predicted.size());
  for (const auto& [name, sum] : predicted) {
    EXPECT_NEAR(explained[name].calls, sum.calls, 1e-9 * sum.calls) << name;
    EXPECT_NEAR(explained[name].bytes.value(), sum.bytes.value(), 1e-9 * sum.bytes.value()) << name;
    EXPECT_NEAR(explained[name].time.value(), sum.time.value(), 1e-9 * sum.time.value()) << name;
  }
}

TEST(ExplainedCollectives, AddUpToTheCommunicationOfThePrediction) {
  TrainingRun run = uneven_run("llama-3-8b", 64);
  for (const Sharding sharding : {Sharding::None, Sharding::Zero1, Sharding::Zero3}) {
    run.strategy.sharding = sharding;
    expect_communication(run);
  }
  run.strategy.sharding = Sharding::Hsdp;
  run.strategy.shard_size = 8;
  expect_communication(run);

  TrainingRun pipeline = uneven_run("llama-3-8b", 64);
  pipeline.strategy.tp = 4, pipeline.strategy.pp = 4, pipeline.strategy.dp = 4;
  pipeline.strategy.sharding = Sharding::Zero1, pipeline.strategy.sequence_parallel = true;
  pipeline.strategy.recompute.kind = RecomputeKind::Full;
  expect_communication(pipeline);

  expect_communication(deepseek_run());
}

}  // namespace
}  // namespace llmsim::sim
