#include "sim/search/layout_costs.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "sim/strategy/mesh.h"

namespace llmsim::sim {
namespace {

using Level = SearchLevel;

// Activations of so many tokens fit into one rank of most models that fit at all.
constexpr int kShortSequence = 8192;

double amount_of(bool takes) { return takes ? 1.0 : 0.0; }

// Fast domains that the ranks of all experts span.
double domains_of_experts(const Strategy& s, const LabourContext& context) {
  return s.ep > 1 ? static_cast<double>(s.ep) * s.expert_tensor_ranks() / context.domain_devices
                  : 1.0;
}

bool has_pipeline(const Strategy& s) { return s.pp > 1; }

bool even_with_ends(const Strategy& s, const LabourContext& context) {
  return s.embeddings_as_layers && (context.num_layers + 2) % (s.pp * s.virtual_stages) == 0;
}

bool is_uneven(const Strategy& s, const LabourContext& context) {
  if (s.pp == 1 || even_with_ends(s, context)) return false;
  if (!s.stage_layers.empty())
    return std::ranges::any_of(s.stage_layers, [&](int n) { return n != s.stage_layers.front(); });
  return s.embeddings_as_layers || context.num_layers % (s.pp * s.virtual_stages) != 0;
}

// The level at which each trait is chosen.
constexpr std::array<SearchLevel, kLayoutTraits> kTraitLevels{
    Level::Layout,   Level::Layout, Level::Layout,    Level::Layout,
    Level::Sharding, Level::Layout, Level::Recompute, Level::Pipeline};

}  // namespace

const std::vector<Labour>& labours() {
  static const std::vector<Labour> all = {
      {"tensor_ranks", "tensor ranks", 0.01, Level::Layout,
       [](const Strategy& s, const LabourContext&) { return std::log2(s.tp); }},
      {"ranks_beyond_domain", "tensor ranks beyond a fast domain", 0.10, Level::Layout,
       [](const Strategy& s, const LabourContext& context) {
         return amount_of(s.tp > context.domain_devices);
       }},
      {"stages", "a pipeline", 0.05, Level::Layout,
       [](const Strategy& s, const LabourContext&) { return amount_of(has_pipeline(s)); }},
      {"context_ranks", "context ranks", 0.03, Level::Layout,
       [](const Strategy& s, const LabourContext&) { return amount_of(s.cp > 1); }},
      {"short_context", "context ranks for sequences that one rank can have", 0.05, Level::Layout,
       [](const Strategy& s, const LabourContext& context) {
         return context.seq_len <= kShortSequence ? std::log2(s.cp) : 0.0;
       }},
      {"divided_experts", "experts divided over tensor ranks", 0.03, Level::Layout,
       [](const Strategy& s, const LabourContext&) {
         return amount_of(s.expert_tensor_ranks() > 1 && s.ep > 1);
       }},
      {"experts_beyond_domain", "expert ranks beyond a fast domain", 0.06, Level::Layout,
       [](const Strategy& s, const LabourContext& context) {
         return amount_of(domains_of_experts(s, context) > 1.0);
       }},
      {"domains_of_experts", "fast domains that expert ranks span", 0.025, Level::Layout,
       [](const Strategy& s, const LabourContext& context) {
         return std::log2(std::max(1.0, domains_of_experts(s, context)));
       }},
      {"whole_sequences", "tensor ranks without sequence parallelism", 0.02, Level::Layout,
       [](const Strategy& s, const LabourContext&) {
         return amount_of(s.tp > 1 && !s.sequence_parallel);
       }},
      {"expert_overlap", "exchanges of experts that overlap with another micro-batch", 0.02,
       Level::Layout,
       [](const Strategy& s, const LabourContext&) { return amount_of(s.moe_overlap); }},
      {"virtual_stages", "virtual stages", 0.005, Level::Pipeline,
       [](const Strategy& s, const LabourContext&) { return std::log2(s.virtual_stages); }},
      {"stages_with_ends", "stages that count the embedding and the head as layers", 0.02,
       Level::Pipeline,
       [](const Strategy& s, const LabourContext& context) {
         return amount_of(has_pipeline(s) && even_with_ends(s, context));
       }},
      {"uneven_stages", "stages with different numbers of layers", 0.05, Level::Pipeline,
       [](const Strategy& s, const LabourContext& context) {
         return amount_of(is_uneven(s, context));
       }},
      {"whole_states", "data ranks that each hold all states", 0.10, Level::Sharding,
       [](const Strategy& s, const LabourContext&) {
         return amount_of(s.sharding == Sharding::None && s.dp * s.cp > 1);
       }},
      {"sharded_parameters", "sharded parameters", 0.02, Level::Sharding,
       [](const Strategy& s, const LabourContext& context) {
         return amount_of(s.sharding >= Sharding::Zero3 && context.has_zero1);
       }},
      {"stages_inside", "stages between data ranks", 0.02, Level::Sharding,
       [](const Strategy& s, const LabourContext&) {
         return amount_of(s.mesh_order != MeshOrder::PipelineLast);
       }},
      {"recomputation", "recomputation", 0.03, Level::Recompute,
       [](const Strategy& s, const LabourContext&) {
         return amount_of(s.recompute.kind != RecomputeKind::None);
       }},
  };
  return all;
}

LabourContext labour_context(const PlanQuery& query) {
  return {.num_layers = query.base.model.num_layers,
          .seq_len = query.base.model.seq_len,
          .domain_devices = domain_size(query.base.cluster),
          .has_zero1 = query.base.framework.offers.zero1};
}

std::vector<const Labour*> labours_of(const Strategy& strategy, const LabourContext& context) {
  std::vector<const Labour*> list;
  for (const Labour& labour : labours())
    if (labour.amount(strategy, context) > 0.0) list.push_back(&labour);
  return list;
}

LayoutCosts::LayoutCosts(const PlanQuery& query)
    : counts_(query.prefer == Preference::Simple && query.objective != Objective::Memory),
      errors_(query.base.framework.ratios),
      context_(labour_context(query)) {
  if (!counts_) return;
  for (const SearchLevel level : {Level::Sharding, Level::Pipeline, Level::Layout}) {
    const auto place = static_cast<std::size_t>(level);
    double least = 0.0;
    for (std::size_t k = 0; k < kLayoutTraits; ++k) {
      if (kTraitLevels[k] != static_cast<SearchLevel>(place + 1)) continue;
      const auto trait = static_cast<LayoutTrait>(k);
      const double largest =
          trait == LayoutTrait::VirtualStages ? std::log2(context_.num_layers + 2.0) : 1.0;
      least += std::min(0.0, errors_.of(trait).bias * largest);
    }
    least_after_[place] = least_after_[place + 1] * std::exp(least);
  }
}

double LayoutCosts::log_of(SearchLevel level, const Strategy& strategy) const {
  double sum = 0.0;
  for (std::size_t k = 0; k < kLayoutTraits; ++k) {
    const auto trait = static_cast<LayoutTrait>(k);
    if (kTraitLevels[k] != level) continue;
    const TraitError& error = errors_.of(trait);
    const bool doubted = trait == LayoutTrait::MicroBatch ||
                         (trait == LayoutTrait::ShardedParameters && context_.has_zero1);
    const double doubt = doubted ? error.error : 0.0;
    sum += (error.bias + doubt) * trait_of(trait, strategy);
  }
  for (const Labour& labour : labours()) {
    if (labour.level == level) sum += labour.cost * labour.amount(strategy, context_);
  }
  return sum;
}

double LayoutCosts::of(SearchLevel level, const Strategy& strategy) const {
  return counts_ ? std::exp(log_of(level, strategy)) : 1.0;
}

double LayoutCosts::of(const Strategy& strategy) const {
  if (!counts_) return 1.0;
  double sum = 0.0;
  for (const SearchLevel level :
       {Level::Layout, Level::Pipeline, Level::Sharding, Level::Recompute})
    sum += log_of(level, strategy);
  return std::exp(sum);
}

}  // namespace llmsim::sim
