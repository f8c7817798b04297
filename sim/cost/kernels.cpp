#include "sim/cost/kernels.h"

#include <array>
#include <cmath>

namespace llmsim::sim {

namespace {

struct Tile {
  int m;
  int n;
};

constexpr std::array<Tile, 6> kTiles{
    {{256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 128}, {64, 64}}};
constexpr std::array<int, 5> kSplits{1, 2, 4, 8, 16};
constexpr double kMinSplitK = 256.0;
constexpr int kLowPrecision = 64;  // the smallest edge of kTiles

double ceil_div(std::int64_t a, int b) {
  const std::int64_t quotient = (a + b - 1) / b;
  return real(quotient);
}

double waves(double tiles_per_unit, double quantisation) {
  if (tiles_per_unit <= 1.0) return 1.0;
  return (1.0 - quantisation) * tiles_per_unit + quantisation * std::ceil(tiles_per_unit);
}

// Cost of reloading operands relative to a 128 x 256 tile.
constexpr double tile_factor(const Tile& tile) {
  return (1.0 + kTileReload / 128.0 + kTileReload / 256.0) /
         (1.0 + kTileReload / tile.m + kTileReload / tile.n);
}

// A tile that a GEMM of few rows or columns does not fill, where the device has narrower ones.
int edge(int tile, std::int64_t extent, int smallest) {
  if (extent >= kLowPrecision || smallest >= kLowPrecision) return tile;
  return std::min(tile, static_cast<int>((extent + smallest - 1) / smallest * smallest));
}

// Factors and results lie in memory row by row, so what must be aligned is the length of their
// rows; the number of rows of an output, m, or of those that a weight gradient sums over, k, does
// not matter.
double alignment_factor(const Operator& gemm, const GemmCoefficients& c) {
  const std::int64_t rows[] = {gemm.n, gemm.weight_gradient ? gemm.m : gemm.k};
  const auto fits = [&](std::int64_t length) { return length % c.alignment == 0; };
  const auto even = [&](std::int64_t length) { return fits(length) || length % 2 == 0; };
  if (fits(rows[0]) && fits(rows[1])) return 1.0;
  if (gemm.batch > 1) return c.misaligned_batch_factor;
  const bool all_even = even(rows[0]) && even(rows[1]);
  return all_even ? std::min(1.0, c.misaligned_factor * c.even_rows_gain) : c.misaligned_factor;
}

// A way to cut a GEMM into tiles and its K loop into pieces.
struct Tiling {
  double cost = 1e300;  // FLOPs in the time of one unit at its full rate
  double waves = 1.0;
  double tile_flops = 0.0;  // of one step of the K loop
  double tile_factor = 1.0;
  double loop = 0.0;  // steps of the K loop of a piece, and k_half
  int split = 1;
};

Tiling fastest_tiling(const Operator& gemm, const GemmMachine& machine) {
  const GemmCoefficients& c = machine.coefficients;
  const double units = machine.compute_units;
  const double k = real(gemm.k);
  Tiling best;
  for (const Tile& shape : kTiles) {
    const Tile tile{.m = edge(shape.m, gemm.m, c.smallest_tile),
                    .n = edge(shape.n, gemm.n, c.smallest_tile)};
    const double tiles = real(gemm.batch) * ceil_div(gemm.m, tile.m) * ceil_div(gemm.n, tile.n);
    const double flops = 2.0 * tile.m * tile.n, factor = tile_factor(tile), work = flops / factor;
    for (const int split : kSplits) {
      if (split > 1 && (tiles * split > 2.0 * units || k / split < kMinSplitK)) break;
      const double rounds = waves(tiles * split / units, c.wave_quantisation),
                   loop = k / split + c.k_half;
      const double cost = rounds * work * loop;
      if (cost < best.cost) {
        best = {.cost = cost,
                .waves = rounds,
                .tile_flops = flops,
                .tile_factor = factor,
                .loop = loop,
                .split = split};
      }
    }
  }
  return best;
}

// Computing and loading overlap, but not perfectly.
Seconds overlapped(Seconds compute, Seconds memory) {
  const double c = compute.value(), m = memory.value();
  return Seconds(std::cbrt(c * c * c + m * m * m));
}

}  // namespace

GemmMachine gemm_machine(const Device& device, DType dtype) {
  return {.peak = device.peak(dtype),
          .compute_units = device.compute_units,
          .bandwidth = device.achieved_bandwidth(),
          .coefficients = device.achieved.gemm[static_cast<std::size_t>(dtype)]};
}

GemmFactors gemm_factors(const Operator& gemm, const GemmMachine& machine) {
  const GemmCoefficients& c = machine.coefficients;
  const double units = machine.compute_units, m = real(gemm.m), n = real(gemm.n);
  // FLOPs of one step of all K loops.
  const double steps = 2.0 * real(gemm.batch) * m * n;
  const Tiling tiling = fastest_tiling(gemm, machine);
  GemmFactors factors{{.peak = machine.peak, .kernel_time = gemm.kernels * c.kernel_time}};
  factors.max_efficiency = c.max_efficiency;
  factors.k_ramp = real(gemm.k) / tiling.split / tiling.loop;
  factors.tile = tiling.tile_factor;
  factors.waves = steps * tiling.split / (units * tiling.waves * tiling.tile_flops);
  factors.padding = gemm.flops / (steps * real(gemm.k) * FLOP);
  factors.alignment = alignment_factor(gemm, c);
  factors.weight_gradient = gemm.weight_gradient ? c.weight_gradient_factor : 1.0;
  factors.transposed = gemm.transposed ? c.transposed_factor : 1.0;
  const FlopsPerSecond unit_rate = c.max_efficiency * machine.peak / units;
  factors.compute = tiling.cost * FLOP / unit_rate /
                    (factors.alignment * factors.weight_gradient * factors.transposed);
  factors.memory = gemm.moved / machine.bandwidth;
  factors.overlapped = overlapped(factors.compute, factors.memory);
  return factors;
}

Seconds gemm_time(const Operator& gemm, const GemmMachine& machine) {
  return gemm_factors(gemm, machine).time();
}

namespace {

constexpr double kQueryBlock = 128.0;

// 1 at 128, the fitted factor at 64, linear in 1/d between and below.
double head_factor(double d, double factor_64) {
  if (d >= 128.0) return 1.0;
  const double slope = (1.0 / factor_64 - 1.0) / (1.0 / 64.0 - 1.0 / 128.0);
  return 1.0 / (1.0 + slope * (1.0 / d - 1.0 / 128.0));
}

}  // namespace

AttentionMachine attention_machine(const Device& device, DType dtype, AttentionKernel kernel) {
  return {.peak = device.peak(dtype),
          .compute_units = device.compute_units,
          .bandwidth = device.achieved_bandwidth(),
          .coefficients = device.achieved.attention[static_cast<std::size_t>(kernel)],
          .kernel_time = device.achieved.gemm[static_cast<std::size_t>(dtype)].kernel_time};
}

AttentionFactors attention_factors(const Operator& attention, bool backward,
                                   const AttentionMachine& machine) {
  const AttentionCoefficients& c = machine.coefficients;
  const double keys = real(attention.n), d = real(attention.k);
  const double half = attention.causal ? c.seq_half : c.seq_half / 3.0;
  const double blocks = real(attention.batch) * std::max(1.0, real(attention.m) / kQueryBlock);
  AttentionFactors factors{
      {.peak = machine.peak, .kernel_time = attention.launches * machine.kernel_time}};
  factors.efficiency = backward ? c.backward : c.forward;
  factors.head_size = head_factor(d, c.head_dim_64_factor);
  factors.occupancy = std::min(1.0, blocks / machine.compute_units);
  factors.useful = 1.0 / attention.repeats;
  const double long_sequence = factors.efficiency * factors.head_size * factors.occupancy;
  const double reached = long_sequence * keys / (keys + half);
  factors.sequence = reached / long_sequence;
  factors.compute = attention.repeats * attention.flops / (machine.peak * reached);
  factors.memory = attention.moved / machine.bandwidth;
  factors.overlapped = std::max(factors.compute, factors.memory);
  return factors;
}

Seconds attention_time(const Operator& attention, bool backward, const AttentionMachine& machine) {
  return attention_factors(attention, backward, machine).time();
}

MemoryBoundForms memory_bound_forms(const Transformer& model, const Strategy& strategy) {
  return {.dtype = activation_dtype(strategy.precision),
          .norm = model.norm,
          .gated_mlp = model.gated_mlp,
          .chunked_loss = strategy.fused_cross_entropy};
}

bool is_memory_bound(OperatorKind kind) {
  return OperatorKind::Norm <= kind && kind <= OperatorKind::GradientScale;
}

MemoryBoundKernel memory_bound_kernel(const Operator& op, const MemoryBoundForms& forms) {
  switch (op.kind) {
    case OperatorKind::Norm:
      return forms.norm == Norm::RmsNorm ? MemoryBoundKernel::RmsNorm
                                         : MemoryBoundKernel::LayerNorm;
    case OperatorKind::Softmax:
      return op.module == Module::Router ? MemoryBoundKernel::ExpertChoice
                                         : MemoryBoundKernel::Softmax;
    case OperatorKind::Activation:
      return forms.gated_mlp ? MemoryBoundKernel::GatedActivation : MemoryBoundKernel::Gelu;
    case OperatorKind::Rotary: return MemoryBoundKernel::Rotary;
    case OperatorKind::Copy:
      // Of rows that a router sends, or of others.
      return Module::Dispatch <= op.module && op.module <= Module::ExpertDown
                 ? MemoryBoundKernel::RowMove
                 : MemoryBoundKernel::Copy;
    case OperatorKind::Residual:
      return op.module == Module::Combine ? MemoryBoundKernel::WeightedSum : MemoryBoundKernel::Add;
    case OperatorKind::BiasGradient: return MemoryBoundKernel::ColumnSum;
    case OperatorKind::Convolution: return MemoryBoundKernel::Convolution;
    case OperatorKind::Scan: return MemoryBoundKernel::Scan;
    case OperatorKind::SelectiveScan: return MemoryBoundKernel::SelectiveScan;
    case OperatorKind::Embedding: return MemoryBoundKernel::Lookup;
    case OperatorKind::CrossEntropy:
      return forms.chunked_loss ? MemoryBoundKernel::ChunkedCrossEntropy
                                : MemoryBoundKernel::CrossEntropy;
    case OperatorKind::Cast: return MemoryBoundKernel::Cast;
    case OperatorKind::Optimizer: return MemoryBoundKernel::Optimizer;
    case OperatorKind::GradientNorm: return MemoryBoundKernel::SquareSum;
    case OperatorKind::GradientScale: return MemoryBoundKernel::Scale;
    default: return MemoryBoundKernel::Copy;
  }
}

MemoryBoundMachine memory_bound_machine(const Device& device, const MemoryBoundForms& forms) {
  return {.bandwidth = device.achieved_bandwidth(),
          .cache = device.cache,
          .kernel_time = device.achieved.kernel_time,
          .rates = device.achieved.memory_bound[static_cast<std::size_t>(forms.dtype)],
          .forms = forms};
}

double streamed_share(Bytes moved, Bytes cache) {
  if (cache <= Bytes(0.0)) return 1.0;
  if (moved <= Bytes(0.0)) return 0.0;
  return std::clamp(0.5 + 0.5 * std::log2(moved / cache), 0.0, 1.0);
}

double relative_rate(const MemoryBoundRate& rate, Bytes moved, Bytes cache) {
  if (rate.cached == rate.streamed) return rate.streamed;
  const double w = streamed_share(moved, cache);
  return std::exp((1.0 - w) * std::log(rate.cached) + w * std::log(rate.streamed));
}

Seconds memory_bound_time(const Operator& op, bool backward, const MemoryBoundMachine& machine) {
  const auto& rates = backward ? machine.rates.backward : machine.rates.forward;
  const MemoryBoundRate& rate =
      rates[static_cast<std::size_t>(memory_bound_kernel(op, machine.forms))];
  const double relative = relative_rate(rate, op.moved, machine.cache);
  return op.moved / (op.rate * relative * machine.bandwidth) + op.kernels * machine.kernel_time;
}

}  // namespace llmsim::sim
