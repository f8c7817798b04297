#include "sim/operators/newton_schulz.h"

#include <algorithm>

namespace llmsim::sim {
namespace {

constexpr int kSteps = 5;
// Of a Gram iteration of five steps that begins again after two: GEMMs with X, and of squares.
constexpr int kGramRectangular = 4, kGramSquare = 14;
constexpr std::int64_t kSymmetricAlignment = 8;  // of both edges: 16 bytes
constexpr double kResultBytes = 8.0, kGatheredBytes = 8.0;

double real_product(std::int64_t one, std::int64_t other) {
  return static_cast<double>(one) * static_cast<double>(other);
}

// Gates, states and steps stand side by side in it.
bool is_input_of_mamba(const LayerWeight& weight, LayerKind kind) {
  return weight.name == WeightName::MixerInput &&
         (kind.mixer == Mixer::Mamba2 || kind.mixer == Mixer::Mamba1 ||
          kind.mixer == Mixer::AttentionAndMamba2);
}

bool is_split(const LayerWeight& weight, const UpdateBehaviour& update) {
  if (weight.side_by_side == 1 || weight.part == LayerPart::Mixer) return false;
  return weight.name == WeightName::Qkv || update.splits_gate;
}

class MatrixList {
 public:
  MatrixList(const Strategy& strategy, const UpdateBehaviour& update)
      : strategy_(strategy), update_(update) {}

  void add(const LayerWeight& weight, int layers) {
    const std::int64_t first = weight.first_columns, others = weight.side_by_side - 1;
    if (!is_split(weight, update_)) return add(weight, weight.columns, layers);
    add(weight, first, layers);
    add(weight, (weight.columns - first) / others, layers * others);
  }
  std::vector<MuonMatrices> list;

 private:
  void add(const LayerWeight& weight, std::int64_t columns, std::int64_t count) {
    if (columns == 0) return;
    const bool expert = weight.part == LayerPart::Experts;
    const int ranks = expert ? strategy_.expert_tensor_ranks() : strategy_.tp;
    list.push_back({.rows = weight.rows,
                    .columns = columns,
                    .divided = weight.divided,
                    .ranks = weight.divided == TensorAxis::None ? 1 : ranks,
                    .group = expert ? GroupKind::ExpertTensor : GroupKind::Tensor,
                    .of_experts = expert && strategy_.divides_experts(),
                    .count = count * (expert ? weight.count / strategy_.ep : 1)});
  }

  const Strategy& strategy_;
  const UpdateBehaviour& update_;
};

// X is (m, n).
class StepList {
 public:
  StepList(std::int64_t m, std::int64_t n, const UpdateBehaviour& update)
      : m_(m), n_(n), half_(update.symmetric_gemms && is_aligned(m) && is_aligned(n)) {}

  void add_usual() {
    add_symmetric(n_, kSteps), add_symmetric(m_, kSteps);
    add(n_, m_, kSteps);
  }
  void add_gram() {
    add_symmetric(n_, kGramRectangular / 2);
    add(n_, m_, kGramRectangular / 2);
    add(m_, m_, kGramSquare);
  }
  std::vector<RepeatedOperator> list;

 private:
  static bool is_aligned(std::int64_t edge) { return edge % kSymmetricAlignment == 0; }

  void add(std::int64_t columns, std::int64_t inner, int times) {
    list.push_back({gemm("orthogonalise", 1, m_, columns, inner, DType::Bf16, DType::Bf16), times});
  }
  void add_symmetric(std::int64_t inner, int times) { add(half_ ? m_ / 2 : m_, inner, times); }

  std::int64_t m_, n_;
  bool half_;
};

std::vector<RepeatedOperator> distributed_steps(const MuonMatrices& of,
                                                const UpdateBehaviour& update) {
  const bool by_rows = of.divided == TensorAxis::Rows;
  const std::int64_t whole = by_rows ? of.columns : of.rows,
                     shard = by_rows ? of.local_rows() : of.local_columns();
  StepList steps(whole, shard, update);
  steps.add_usual();
  const Bytes squares(real_product(whole, whole) * size_of(DType::Bf16).value());
  steps.list.push_back(
      {collective("orthogonalise_sum", CollectiveKind::AllReduce, of.group, squares), kSteps});
  return std::move(steps.list);
}

// What a number of the ranks have besides what all have.
struct Load {
  std::int64_t ranks = 0;
  double work = 0.0, values = 0.0;
  Seconds time{};

  void add(const SharedMatrices& matrices, double count) {
    work += count * matrices.work, values += count * matrices.values;
    time += count * matrices.time;
  }
};

// One each to the ranks with the least work so far.
void share_out(std::vector<Load>& loads, const SharedMatrices& matrices, std::int64_t count) {
  while (count > 0) {
    auto least =
        std::min_element(loads.begin(), loads.end(),
                         [](const Load& one, const Load& other) { return one.work < other.work; });
    Load more = *least;
    more.ranks = std::min(count, least->ranks);
    more.add(matrices, 1.0);
    count -= more.ranks;
    least->ranks -= more.ranks;
    if (least->ranks == 0)
      *least = more;
    else
      loads.push_back(more);
  }
}

}  // namespace

double MuonMatrices::values() const { return real_product(local_rows(), local_columns()); }

double MuonMatrices::work() const {
  return values() * static_cast<double>(std::min(local_rows(), local_columns()));
}

std::vector<MuonMatrices> muon_matrices(const Transformer& model, const Strategy& strategy,
                                        const UpdateBehaviour& update, const LayerCounts& of_kind) {
  const LayerKinds kinds = layer_kinds(model);
  MatrixList matrices(strategy, update);
  for_each_kind(of_kind, [&](std::size_t slot, int layers) {
    for (const LayerWeight& weight : layer_weights(model, kinds[slot]))
      if (weight.rows > 0 && !is_input_of_mamba(weight, kinds[slot])) matrices.add(weight, layers);
  });
  return std::move(matrices.list);
}

MuonTensorMode muon_tensor_mode(const Strategy& strategy, const UpdateBehaviour& update) {
  return strategy.muon_tp_mode.value_or(update.muon_tp_mode);
}

std::vector<RepeatedOperator> newton_schulz(const MuonMatrices& of, MuonTensorMode mode,
                                            const UpdateBehaviour& update) {
  if (of.ranks > 1 && mode == MuonTensorMode::Distributed) return distributed_steps(of, update);
  const bool gathers = of.ranks > 1 && mode == MuonTensorMode::Duplicated;
  const std::int64_t rows = gathers ? of.rows : of.local_rows(),
                     columns = gathers ? of.columns : of.local_columns();
  StepList steps(std::min(rows, columns), std::max(rows, columns), update);
  if (update.gram_newton_schulz && rows != columns)
    steps.add_gram();
  else
    steps.add_usual();
  if (gathers) {
    const Bytes whole(real_product(rows, columns) * kFp32Bytes);
    steps.list.push_back(
        {collective("orthogonalise_gather", CollectiveKind::AllGather, of.group, whole), 1});
  }
  return std::move(steps.list);
}

Flops newton_schulz_flops(const MuonMatrices& of, MuonTensorMode mode,
                          const UpdateBehaviour& update) {
  Flops flops;
  for (const RepeatedOperator& step : newton_schulz(of, mode, update))
    flops += step.times * step.op.flops;
  return flops;
}

double newton_schulz_bytes(const MuonMatrices& of, MuonTensorMode mode) {
  if (of.ranks == 1 || mode != MuonTensorMode::Duplicated) return of.values() * kResultBytes;
  return real_product(of.rows, of.columns) * (kResultBytes + kGatheredBytes);
}

BusiestRank busiest_rank(std::vector<SharedMatrices> matrices, int ranks) {
  std::ranges::stable_sort(matrices, [](const SharedMatrices& one, const SharedMatrices& other) {
    return one.work > other.work;
  });
  std::vector<Load> loads{{.ranks = ranks}};
  Load all;
  for (const SharedMatrices& equal : matrices) {
    const std::int64_t each = equal.count / ranks;
    all.add(equal, static_cast<double>(each));
    share_out(loads, equal, equal.count - each * ranks);
  }
  BusiestRank busiest;
  for (const Load& load : loads) {
    busiest.time = std::max(busiest.time, load.time + all.time);
    busiest.values = std::max(busiest.values, load.values + all.values);
  }
  return busiest;
}

}  // namespace llmsim::sim
