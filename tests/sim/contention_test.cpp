#include "sim/cost/contention.h"

#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "sim/cost/layer_prices.h"
#include "sim/cost/price.h"
#include "sim/predict.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

// A host of four processes; each neighbour adds a tenth to GEMMs and a half to memory-bound
// kernels.
Cluster host(int processes) {
  Cluster cluster = ideal_cluster(processes);
  cluster.devices_per_node = 4;
  cluster.fabric.kind = FabricKind::Loopback;
  cluster.device.cache = 32.0 * MB;
  cluster.device.achieved.sharing = {.collectives = 1.0, .gemms = 0.1, .memory_bound = 0.5};
  return cluster;
}

// A factor of 0.3 becomes 0.6 with a gain of two, and never more than that of aligned GEMMs.
TEST(GemmMachine, TheReleaseOfTheLibraryMovesMisalignedGemmsAlone) {
  TrainingRun run = small_run();
  const auto bf16 = static_cast<std::size_t>(DType::Bf16);
  run.cluster.device.achieved.gemm[bf16].misaligned_factor = 0.3;
  const Operator aligned = gemm("aligned", 1, 1024, 1024, 1024, DType::Bf16, DType::Bf16),
                 odd = gemm("odd", 1, 1024, 1023, 1024, DType::Bf16, DType::Bf16);
  const auto alignment = [&](const Operator& op) {
    return gemm_factors(op, gemm_machine(run, DType::Bf16)).alignment;
  };
  EXPECT_DOUBLE_EQ(alignment(odd), 0.3);
  run.framework.misaligned_gemm_gain = 2.0;
  EXPECT_DOUBLE_EQ(alignment(odd), 0.6);
  EXPECT_DOUBLE_EQ(alignment(aligned), 1.0);
  run.framework.misaligned_gemm_gain = 5.0;
  EXPECT_DOUBLE_EQ(alignment(odd), 1.0);
}

// Single GEMMs at 0.8 of the aligned rate and batches at 0.2, in programs half and a quarter of that.
TEST(GemmMachine, ProgramsMoveMisalignedGemmsAndBatchesApart) {
  TrainingRun run = small_run();
  GemmCoefficients& bf16 = run.cluster.device.achieved.gemm[static_cast<std::size_t>(DType::Bf16)];
  bf16.misaligned_factor = 0.8, bf16.misaligned_batch_factor = 0.2;
  run.framework.misaligned_gemm_rate = 0.5, run.framework.misaligned_batch_rate = 0.25;
  const auto alignment = [&](int batch) {
    const Operator op = gemm("odd", batch, 1024, 1023, 1024, DType::Bf16, DType::Bf16);
    return gemm_factors(op, gemm_machine(run, DType::Bf16)).alignment;
  };
  EXPECT_DOUBLE_EQ(alignment(1), 0.4);
  EXPECT_DOUBLE_EQ(alignment(8), 0.05);
}

TEST(HostSharing, AProcessAloneHasTheHost) {
  const HostShare share = host_share(host(1));
  EXPECT_DOUBLE_EQ(share.gemms, 1.0);
  EXPECT_DOUBLE_EQ(share.memory_bound, 1.0);
  EXPECT_DOUBLE_EQ(share.cache, 1.0);
}

TEST(HostSharing, EachNeighbourAddsItsTime) {
  const HostShare share = host_share(host(4));
  EXPECT_DOUBLE_EQ(share.gemms, 1.0 / 1.3);
  EXPECT_DOUBLE_EQ(share.memory_bound, 1.0 / 2.5);
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
  const MemoryBoundForms forms{.dtype = DType::Fp32};
  const Operator small = memory_bound(OperatorKind::Norm, "norm", 1e6, 1.0, 0);
  const Operator large = memory_bound(OperatorKind::Norm, "norm", 1e9, 1.0, 0);
  const auto time = [&](const Operator& op, int processes) {
    return memory_bound_time(op, false, memory_bound_machine(host(processes), Framework{}, forms));
  };
  EXPECT_DOUBLE_EQ(time(small, 4) / time(small, 1), 1.0);
  EXPECT_DOUBLE_EQ(time(large, 4) / time(large, 1), 2.5);
}

// Of a framework that reaches half: both what fits the cache and what does not take twice as long.
TEST(MemoryBoundMachine, AFrameworksEfficiencyHoldsForBothRates) {
  Framework framework;
  const auto rate = [&] {
    return memory_bound_machine(ideal_cluster(1), framework, {}).rates.forward[0];
  };
  const MemoryBoundRate before = rate();
  framework.efficiency = 0.5;
  EXPECT_EQ(rate().cached, 0.5 * before.cached);
  EXPECT_EQ(rate().streamed, 0.5 * before.streamed);
}

Operator attention_operator() {
  Operator op{.kind = OperatorKind::Attention,
              .label = "attention",
              .batch = 8,
              .m = 1024,
              .n = 1024,
              .k = 128};
  op.flops = 4.0 * 8 * 1024 * 1024 * 128 * FLOP;
  return op;
}

PassPrice priced(const TrainingRun& run, const Operator& op) {
  return OperatorPricer(run).price({op}, false);
}

// A framework of efficiency 0.5 takes twice as long for what goes to memory and for what fits the
// cache, for GEMMs and for attention.
TEST(StepFactors, AFrameworksEfficiencyHoldsForEveryKernel) {
  TrainingRun run = small_run();
  run.strategy.flash_attention = true;
  const Operator small = memory_bound(OperatorKind::Norm, "norm", 1e6, 1.0, 0),
                 large = memory_bound(OperatorKind::Norm, "norm", 1e9, 1.0, 0),
                 matmul = gemm("gemm", 1, 4096, 4096, 4096, DType::Bf16, DType::Bf16);
  TrainingRun half = run;
  half.framework.efficiency = 0.5;
  for (const Operator& op : {small, large, matmul, attention_operator()})
    EXPECT_NEAR(priced(half, op).total() / priced(run, op).total(), 2.0, 1e-9) << op.label;
}

TEST(StepFactors, AFormatsClockIsItsOwn) {
  TrainingRun run = small_run();
  run.cluster.device.achieved.sustained_clock = 0.8;
  GemmCoefficients& fp8 = run.cluster.device.achieved.gemm[static_cast<std::size_t>(DType::Fp8)];
  fp8.clock_factor = 1.125;
  EXPECT_DOUBLE_EQ(gemm_step_factors(run, DType::Fp8).sustained_clock, 0.9);
  EXPECT_DOUBLE_EQ(gemm_step_factors(run, DType::Bf16).sustained_clock, 0.8);
  EXPECT_DOUBLE_EQ(gemm_step_factors(run, DType::Fp4).sustained_clock, 0.8);
  EXPECT_DOUBLE_EQ(attention_step_factors(run, false).sustained_clock, 0.8);
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

Operator of_kind(OperatorKind kind) { return memory_bound(kind, "any", 100.0, 6.0, 1); }

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

// A GEMM of 2 x 1000 x 1000 x 1000 FLOPs takes 20 us at 100 TFLOP/s; its 2 MB take 2 us more at 1
// TB/s, and a call of their own.
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

// 108 units and 1 TB/s; one unit moves 12.5 GB/s.
Device device_of_108_units() {
  Device device = ideal_device();
  device.compute_units = 108;
  device.achieved.collective_unit_bandwidth = 12.5 * GBps;
  device.achieved.collective_traffic = 3.0;
  device.achieved.memory_interference = 0.0;
  return device;
}

// Eight ranks behind a switch, built for 200 GB/s, of which they reach 100.
GroupLinks eight_ranks() {
  GroupLinks links;
  links.place.ranks = links.place.ranks_per_domain = 8;
  links.nominal = 200.0 * GBps;
  links.fabric = 100.0 * GBps;
  return links;
}

constexpr WorkMix kGemms{.arithmetic = Seconds(1.0)};
constexpr WorkMix kStreams{.memory_bound = Seconds(1.0)};

// Time of work beside a collective that outlasts it, relative to alone.
double slower(const DeviceShare& share, const Device& device, const WorkMix& mix) {
  return 1.0 / (1.0 - rate_loss(rates_overlapped(share, device), mix));
}

TEST(Contention, ARingTakesAUnitForEveryChannel) {
  // 200 / 12.5 = 16 channels: GEMMs have 108 - 16 units left.
  const Device device = device_of_108_units();
  const DeviceShare share = collective_share(eight_ranks(), device);
  EXPECT_DOUBLE_EQ(share.units, 16.0 / 108.0);
  EXPECT_DOUBLE_EQ(slower(share, device, kGemms), 108.0 / (108.0 - 16.0));
}

TEST(Contention, MemoryBoundKernelsLoseTheBytesOfTheCollective) {
  // 100 GB/s on the wire are 300 GB/s of the 1 TB/s, whatever the units.
  const Device device = device_of_108_units();
  EXPECT_DOUBLE_EQ(slower(collective_share(eight_ranks(), device), device, kStreams), 1.0 / 0.7);
}

TEST(Contention, GemmsFeelAPartOfTheMemoryTraffic) {
  // 16 units, and half of the 0.3 of the memory bandwidth.
  Device device = device_of_108_units();
  device.achieved.memory_interference = 0.5;
  EXPECT_DOUBLE_EQ(slower(collective_share(eight_ranks(), device), device, kGemms),
                   1.0 / (1.0 - 16.0 / 108.0 - 0.15));
}

TEST(Contention, CopiesTakeNoUnitsAndOneByteLess) {
  const Device device = device_of_108_units();
  const DeviceShare share = copied_share(eight_ranks(), device);
  EXPECT_DOUBLE_EQ(share.units, 0.0);
  EXPECT_DOUBLE_EQ(share.memory, 0.2);
}

TEST(Contention, DevicesWithEnginesForCollectivesKeepTheirUnits) {
  Device device = device_of_108_units();
  device.achieved.collective_unit_bandwidth = BytesPerSecond(0.0);
  EXPECT_DOUBLE_EQ(collective_share(eight_ranks(), device).units, 0.0);
}

TEST(Contention, TheLibraryTakesNoMoreThanItsLimit) {
  Device device = device_of_108_units();
  device.achieved.collective_units = 10.0;
  EXPECT_DOUBLE_EQ(collective_share(eight_ranks(), device).units, 10.0 / 108.0);
}

// A second of a collective costs kernels of any kind 0.8 seconds, whatever units and memory there
// are.
TEST(Contention, ProcessesOfAHostLoseTheCoresThatCarryTheCollective) {
  Device device = device_of_108_units();
  device.achieved.sharing.collectives = 0.8;
  GroupLinks links = eight_ranks();
  links.loopback = true;
  for (const DeviceShare& share :
       {collective_share(links, device), collective_share(links, device, 16.0),
        copied_share(links, device)}) {
    EXPECT_NEAR(rate_loss(rates_overlapped(share, device), kGemms), 0.8, 1e-12);
    EXPECT_NEAR(rate_loss(rates_overlapped(share, device), kStreams), 0.8, 1e-12);
  }
}

// Where nothing can be hidden, work and collective take as long as one after the other, to a
// hundredth.
TEST(Contention, NothingIsHiddenWhereACollectiveCostsItsTime) {
  Device device = device_of_108_units();
  device.achieved.sharing.collectives = 1.0;
  GroupLinks links = eight_ranks();
  links.loopback = true;
  const double loss = rate_loss(rates_overlapped(collective_share(links, device), device), kGemms);
  const ExposedTimes times = run_overlapped(Seconds(2.0), Seconds(5.0), loss);
  EXPECT_NEAR((times.exposed + times.slowdown).value(), 2.0, 0.021);
}

TEST(Contention, ASingleRankTakesNothing) {
  GroupLinks links = eight_ranks();
  links.place.ranks = 1;
  const DeviceShare share = collective_share(links, device_of_108_units());
  EXPECT_DOUBLE_EQ(share.units + share.memory, 0.0);
  links.loopback = true;
  Device device = device_of_108_units();
  device.achieved.sharing.collectives = 0.5;
  EXPECT_EQ(collective_share(links, device).cores, 0.0);
}

TEST(Contention, WithoutWorkNothingIsLost) {
  EXPECT_EQ(rate_loss({.arithmetic = 0.8, .memory_bound = 0.5}, {}), 0.0);
}

TEST(Contention, AMixIsSlowedDownPartByPart) {
  // Rates 0.8 and 0.5: 4 of GEMMs become 5, 1 of streams 2, 3 of waiting stay: 8 of 10.
  const WorkMix mix{
      .arithmetic = Seconds(4.0), .memory_bound = Seconds(1.0), .waiting = Seconds(3.0)};
  EXPECT_DOUBLE_EQ(rate_loss({.arithmetic = 0.8, .memory_bound = 0.5}, mix), 1.0 - 8.0 / 10.0);
}

TEST(Contention, WorkThatOutlastsTheCollectiveLosesTheShareOfItsTime) {
  // While the collective runs for 4, 3 of the 9 are done: it ends at 4 + 6.
  const ExposedTimes times = run_overlapped(Seconds(4.0), Seconds(9.0), 0.25);
  EXPECT_DOUBLE_EQ(times.slowdown.value(), 1.0);
  EXPECT_DOUBLE_EQ(times.exposed.value(), 0.0);
}

TEST(Contention, ACollectiveThatOutlastsTheWorkShowsTheRest) {
  // Work of 3 takes 4 beside a collective of 6.
  const ExposedTimes times = run_overlapped(Seconds(6.0), Seconds(3.0), 0.25);
  EXPECT_DOUBLE_EQ(times.slowdown.value(), 1.0);
  EXPECT_DOUBLE_EQ(times.exposed.value(), 2.0);
}

double term_of(const TrainingRun& run, const std::string& name) {
  for (const TimeTerm& term : predict(run).breakdown) {
    if (name == term.name) return term.time.value();
  }
  return 0.0;
}

Seconds contention_of(const TrainingRun& run) { return Seconds(term_of(run, "contention")); }

TEST(Contention, IsATermOfThePredictionThatGrowsWithTheUnitsTaken) {
  TrainingRun run = small_run(16);
  run.cluster.device.compute_units = 100;
  run.strategy.global_batch = 16;
  Seconds before;
  for (const double unit : {0.0, 50.0, 10.0}) {
    run.cluster.device.achieved.collective_unit_bandwidth = unit * GBps;
    const Seconds contention = contention_of(run);
    EXPECT_GE(contention, before);
    before = contention;
  }
  EXPECT_GT(before, Seconds(0.0));
}

TEST(Contention, ADeviceThatWaitsForItsHostWaitsLessInstead) {
  // Launches take ten times as long as the kernels: slower kernels leave the step as it is.
  TrainingRun run = small_run(16);
  run.framework.host.per_kernel = Seconds(1e-3);
  run.cluster.device.compute_units = 100;
  const double alone = predict(run).step_time.value(), wait = term_of(run, "launch_wait");
  run.cluster.device.achieved.collective_unit_bandwidth = 10.0 * GBps;
  EXPECT_GT(term_of(run, "contention"), 0.0);
  EXPECT_NEAR(predict(run).step_time.value(), alone, 1e-9 * alone);
  EXPECT_NEAR(term_of(run, "launch_wait") + term_of(run, "contention"), wait, 1e-9 * wait);
}

TEST(Contention, NoOverlapNoSlowdown) {
  TrainingRun run = small_run(16);
  run.cluster.device = device_of_108_units();
  run.strategy.gradient_overlap = run.strategy.gather_overlap = false;
  EXPECT_EQ(contention_of(run), Seconds(0.0));
}

// Four pieces of a GEMM of `whole`, each `piece`; `messages` of them 3 (a ring of copies) or 4
// (scattered sums).
ExposedTimes four_pieces(double collective, double whole, double piece, int messages, double loss) {
  return pipelined(Seconds(collective), {.whole = Seconds(whole), .piece = Seconds(piece)}, 4,
                   messages, loss);
}
double shown(double collective, double whole, double piece, int messages = 3) {
  return four_pieces(collective, whole, piece, messages, 0.0).exposed.value();
}

TEST(TensorOverlap, APipelineShowsWhatItsPiecesCannotHide) {
  // A GEMM of 8 computes 2 + 3 * 2.  Messages of 1 each hide; of 3 each set the pace: 2 + 3 * 3 - 8
  // = 3.
  EXPECT_DOUBLE_EQ(shown(3.0, 8.0, 2.0), 0.0);
  EXPECT_DOUBLE_EQ(shown(9.0, 8.0, 2.0), 3.0);
}

TEST(TensorOverlap, TheLastScatteredPieceShows) {
  // Four messages of 1: three hide beside pieces of 2, the last has nothing left to hide behind.
  EXPECT_DOUBLE_EQ(shown(4.0, 8.0, 2.0, 4), 1.0);
  // Of 3 each: 2 + 3 * 3 + 3 - 8 = 6.
  EXPECT_DOUBLE_EQ(shown(12.0, 8.0, 2.0, 4), 6.0);
}

TEST(TensorOverlap, SmallPiecesOfAGemmRunLessWell) {
  // Pieces of 2.5 instead of 2: 2.5 + 3 * 2.5 - 8 = 2.  Never more than the collective by itself.
  EXPECT_DOUBLE_EQ(shown(3.0, 8.0, 2.5), 2.0);
  EXPECT_DOUBLE_EQ(shown(3.0, 8.0, 100.0), 3.0);
}

TEST(TensorOverlap, PiecesBesideAMessageAreSlowedDown) {
  // Loss 0.25.  Messages of 1 each beside pieces of 2: while one travels 0.75 of the piece is done,
  // so it takes 0.25 longer.
  const ExposedTimes hidden = four_pieces(3.0, 8.0, 2.0, 3, 0.25);
  EXPECT_DOUBLE_EQ(hidden.slowdown.value(), 3 * 0.25);
  EXPECT_DOUBLE_EQ(hidden.exposed.value(), 0.0);
  // Messages of 4 outlast pieces of 2 / 0.75: what the pieces lose the messages show less.
  const ExposedTimes paced = four_pieces(12.0, 8.0, 2.0, 3, 0.25);
  EXPECT_NEAR(paced.slowdown.value(), 3 * (2.0 / 0.75 - 2.0), 1e-12);
  EXPECT_NEAR((paced.exposed + paced.slowdown).value(), 2.0 + 3 * 4.0 - 8.0, 1e-12);
}

// Two ranks, 8192 tokens, and a fabric so fast that every collective is far shorter than its GEMM.
TrainingRun tensor_run() {
  TrainingRun run = small_run(2);
  run.strategy.tp = 2;
  run.strategy.dp = 1;
  run.strategy.sequence_parallel = true;
  run.strategy.micro_batch = run.strategy.global_batch = 8;
  run.cluster.fabric.device_bandwidth = 10.0 * TBps;
  return run;
}

TEST(TensorOverlap, WithoutItEveryCollectiveShows) {
  const BlockPrice block = layer_prices(tensor_run()).blocks[0];
  EXPECT_GT(block.forward.collective, Seconds(0.0));
  EXPECT_EQ(block.forward.collective_exposed, block.forward.collective);
  EXPECT_EQ(block.backward.collective_exposed, block.backward.collective);
}

TEST(TensorOverlap, GradientsThatNeedNothingOfThemHideFourOfSixBackwardCollectives) {
  // Two blocks halves, each: input gathered again (beside dgrad), column gradient scattered (beside
  // wgrad), row gradient gathered (needed by all GEMMs).  Gathers and scatters of the same message
  // take the same time.
  TrainingRun run = tensor_run();
  run.framework.hides_column_gradients = true;
  const BlockPrice block = layer_prices(run).blocks[0];
  EXPECT_NEAR(block.backward.collective_exposed / block.backward.collective, 2.0 / 6.0, 1e-9);
  EXPECT_EQ(block.forward.collective_exposed, block.forward.collective);
}

TEST(TensorOverlap, RingsOfCopiesHideThemAll) {
  // GEMMs of this device cost flops / peak however small, so pieces add up to the whole.
  TrainingRun run = tensor_run();
  run.strategy.tp_overlap = true;
  const BlockPrice block = layer_prices(run).blocks[0];
  EXPECT_NEAR(block.forward.collective_exposed / block.forward.collective, 0.0, 1e-9);
  EXPECT_NEAR(block.backward.collective_exposed / block.backward.collective, 0.0, 1e-9);
}

TEST(TensorOverlap, TransformerEngineShowsTheLastScatteredPiece) {
  TrainingRun run = tensor_run();
  run.strategy.tp_overlap = true;
  run.framework.reserve.transformer_engine = true;
  const BlockPrice block = layer_prices(run).blocks[0];
  // Half of the collectives gather before a GEMM and hide; half scatter its sums in four pieces, of
  // which the last shows.
  EXPECT_NEAR(block.forward.collective_exposed / block.forward.collective, 0.5 * 0.25, 1e-9);
  EXPECT_NEAR(block.backward.collective_exposed / block.backward.collective, 0.0, 1e-9);
  EXPECT_EQ(block.forward.contention, Seconds(0.0));
}

TEST(TensorOverlap, CopiesTakeNoUnitsButScatteredSumsDo) {
  // 16 of 64 units: GEMMs lose 1/4 of their rate beside three of four messages of the scatters,
  // half of the collectives.
  TrainingRun run = tensor_run();
  run.strategy.tp_overlap = true;
  run.framework.reserve.transformer_engine = true;
  run.cluster.device.compute_units = 64;
  run.cluster.device.achieved.collective_unit_bandwidth = 12.5 * GBps;
  const BlockPrice block = layer_prices(run).blocks[0];
  EXPECT_NEAR(block.forward.contention / block.forward.collective, 0.5 * 0.75 * 0.25, 1e-9);
}

}  // namespace
}  // namespace llmsim::sim
