#include "sim/cost/contention.h"

#include <utility>

#include <gtest/gtest.h>

#include "sim/cost/price.h"
#include "sim/predict.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

// A host of four processes; each neighbour adds a tenth to GEMMs and a half to streaming kernels.
Cluster host(int processes) {
  Cluster cluster = ideal_cluster(processes);
  cluster.devices_per_node = 4;
  cluster.fabric.kind = FabricKind::Loopback;
  cluster.device.cache = 32.0 * MB;
  cluster.device.achieved.sharing = {.collectives = 1.0, .gemms = 0.1, .streaming = 0.5};
  return cluster;
}

TEST(HostSharing, AProcessAloneHasTheHost) {
  const HostShare share = host_share(host(1));
  EXPECT_DOUBLE_EQ(share.gemms, 1.0);
  EXPECT_DOUBLE_EQ(share.streaming, 1.0);
  EXPECT_DOUBLE_EQ(share.cache, 1.0);
}

TEST(HostSharing, EachNeighbourAddsItsTime) {
  const HostShare share = host_share(host(4));
  EXPECT_DOUBLE_EQ(share.gemms, 1.0 / 1.3);
  EXPECT_DOUBLE_EQ(share.streaming, 1.0 / 2.5);
  EXPECT_DOUBLE_EQ(share.cache, 0.25);
}

// Eight processes are four on each of two hosts.
TEST(HostSharing, OtherHostsTakeNothing) { EXPECT_DOUBLE_EQ(host_share(host(8)).gemms, 1.0 / 1.3); }

TEST(HostSharing, AcceleratorsShareNothing) {
  Cluster cluster = host(4);
  cluster.fabric.kind = FabricKind::Switch;
  EXPECT_DOUBLE_EQ(host_share(cluster).gemms, 1.0);
  EXPECT_DOUBLE_EQ(host_share(cluster).cache, 1.0);
}

// What fits a quarter of the cache streams as before; 1 GB, far beyond it, takes 2.5 times as long.
TEST(HostSharing, SlowsWhatGoesToMemory) {
  const StreamingForms forms{.dtype = DType::Fp32};
  const Operator small = streaming(OperatorKind::Norm, "norm", 1e6, 1.0, 0);
  const Operator large = streaming(OperatorKind::Norm, "norm", 1e9, 1.0, 0);
  const auto time = [&](const Operator& op, int processes) {
    return streaming_time(op, false, streaming_machine(host(processes), forms));
  };
  EXPECT_DOUBLE_EQ(time(small, 4) / time(small, 1), 1.0);
  EXPECT_DOUBLE_EQ(time(large, 4) / time(large, 1), 2.5);
}

// Two processes that hide nothing: the step of a replica, alone, and what is sent, to a hundredth.
TEST(HostSharing, HostsHideNoCollectives) {
  TrainingRun run = small_run();
  run.cluster = host(2);
  run.cluster.fabric.device_bandwidth = 1.0 * GBps;
  run.cluster.device.achieved.sharing = {.collectives = 1.0};
  run.strategy.dp = 2;
  run.strategy.global_batch = 2 * run.strategy.micro_batch;
  const Prediction two = predict(run);
  run.cluster.num_devices = run.strategy.dp = 1;
  run.strategy.global_batch = run.strategy.micro_batch;
  const Prediction one = predict(run);
  Seconds sent;
  for (const CommunicationTerm& term : two.communication) sent += term.time;
  ASSERT_GT(sent, 0.1 * one.step_time);
  EXPECT_NEAR((two.step_time - one.step_time) / sent, 1.0, 0.02);
}

Framework filling() {
  Framework framework;
  framework.determinism.fills_new_tensors = true;
  return framework;
}

Operator of_kind(OperatorKind kind) { return streaming(kind, "any", 100.0, 6.0, 1); }

TEST(Determinism, FillsTheResultOfAGemm) {
  const Operator op = gemm("gemm", 3, 16, 32, 64, DType::Bf16, DType::Bf16);
  EXPECT_EQ(filled_bytes(op, false, 2.0, filling()), Bytes(3 * 16 * 32 * 2.0));
  EXPECT_EQ(filled_bytes(op, false, 2.0, Framework()), Bytes(0.0));
}

TEST(Determinism, AccumulatedWeightGradientsAreNoNewTensors) {
  Operator op = gemm("gemm", 1, 16, 32, 64, DType::Bf16, DType::Fp32);
  op.weight_gradient = true;
  Framework framework = filling();
  framework.gradients.accumulated_by_gemm = false;
  EXPECT_EQ(filled_bytes(op, true, 2.0, framework), Bytes(16 * 32 * 2.0));
  framework.gradients.accumulated_by_gemm = true;
  EXPECT_EQ(filled_bytes(op, true, 2.0, framework), Bytes(0.0));
}

Operator attention_operator() {
  Operator op{.kind = OperatorKind::Attention, .label = "attention", .batch = 8, .m = 1024, .n = 1024, .k = 128};
  op.flops = 4.0 * 8 * 1024 * 1024 * 128 * FLOP;
  return op;
}

// 600 bytes moved.
TEST(Determinism, FillsWhatNormsAttentionAndCopiesWrite) {
  const Framework framework = filling();
  EXPECT_EQ(filled_bytes(of_kind(OperatorKind::Norm), false, 2.0, framework), Bytes(300.0));
  EXPECT_EQ(filled_bytes(of_kind(OperatorKind::Norm), true, 2.0, framework), Bytes(200.0));
  EXPECT_EQ(filled_bytes(of_kind(OperatorKind::Attention), false, 2.0, framework), Bytes(150.0));
  EXPECT_EQ(filled_bytes(of_kind(OperatorKind::Attention), true, 2.0, framework), Bytes(225.0));
  EXPECT_EQ(filled_bytes(of_kind(OperatorKind::Cast), false, 2.0, framework), Bytes(300.0));
  EXPECT_EQ(filled_bytes(of_kind(OperatorKind::Residual), false, 2.0, framework), Bytes(0.0));
}

// A GEMM of 2 x 1000 x 1000 x 1000 FLOPs takes 20 us at 100 TFLOP/s; its 2 MB take 2 us more at 1 TB/s, and a call of their
// own.
TEST(Determinism, AFillIsPricedAsAKernel) {
  TrainingRun run = small_run();
  const OperatorList one{gemm("gemm", 1, 1000, 1000, 1000, DType::Bf16, DType::Bf16)};
  const PassPrice before = OperatorPricer(run).price(one, false);
  run.framework.determinism.fills_new_tensors = true;
  const PassPrice after = OperatorPricer(run).price(one, false);
  EXPECT_EQ(after.gemm, before.gemm);
  EXPECT_NEAR(after.memory_bound.value() - before.memory_bound.value(), 2e-6, 1e-12);
  EXPECT_EQ(after.launches.kernels, before.launches.kernels + 1.0);
}

TEST(Determinism, AttentionSumsItsGradientsInOneOrder) {
  TrainingRun run = small_run();
  run.strategy.flash_attention = true;
  const OperatorList one{attention_operator()};
  const auto times = [&] {
    const OperatorPricer pricer(run);
    return std::pair(pricer.price(one, false).attention, pricer.price(one, true).attention);
  };
  const auto before = times();
  run.framework.determinism.attention_backward = 0.8;
  const auto after = times();
  EXPECT_EQ(after.first, before.first);
  EXPECT_NEAR(after.second / before.second, 1.25, 1e-9);
}

}  // namespace
}  // namespace llmsim::sim
